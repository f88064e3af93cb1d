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
    use super::*;

    #[tokio::test]
    async fn the_memory_of_a_finished_future_serves_the_next_one() {
        let mut spare = SpareFuture::none();
        let answer = |number: [u64; 200]| async move { number[0] };
        for number in 0..3 {
            let mut future = spare.fill(answer([number; 200]));
            assert_eq!((&mut future).await, number);
            assert!(spare.0.is_none(), "in use");
            spare.keep(future);
        }
        assert!(spare.0.is_some());
    }
}
