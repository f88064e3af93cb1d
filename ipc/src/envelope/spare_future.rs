//! The memory of a finished call, for the next one.

use tokio_util::sync::ReusableBoxFuture;

/// The memory of a finished future, if there is one. Most calls are done on their first poll, one after the other, and
/// each would allocate and free more than a kilobyte: several percent of a short call's time.
pub(crate) struct SpareFuture<'a, T>(Option<ReusableBoxFuture<'a, T>>);

impl<'a, T> SpareFuture<'a, T> {
    /// Without memory: the first future allocates its own.
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// Boxes a future, in the spare memory if there is some.
    pub(crate) fn fill<F: Future<Output = T> + Send + 'a>(&mut self, future: F) -> ReusableBoxFuture<'a, T> {
        match self.0.take() {
            Some(mut spare) => {
                spare.set(future);
                spare
            }
            None => ReusableBoxFuture::new(future),
        }
    }

    /// Keeps the memory of a future that is done.
    pub(crate) fn keep(&mut self, finished: ReusableBoxFuture<'a, T>) {
        self.0 = Some(finished);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn the_memory_of_a_finished_future_serves_the_next_one_and_holds_nothing_of_it() {
        let mut spare = SpareFuture::none();
        let held = Arc::new(());
        let answer = |number: [u64; 200], held: Arc<()>| async move { (number[0], Arc::strong_count(&held)) };
        let mut places = Vec::new();
        for number in 0..3 {
            let mut future = spare.fill(answer([number; 200], Arc::clone(&held)));
            places.push(std::ptr::from_ref(&*future.get_pin()).cast::<()>());
            assert_eq!((&mut future).await, (number, 2));
            assert_eq!(Arc::strong_count(&held), 1, "a finished future holds nothing");
            spare.keep(future);
        }
        assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
    }
}
