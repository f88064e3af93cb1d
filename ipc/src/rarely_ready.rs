//! A future that is polled only when it may be ready.

use std::{
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use tokio::task::unconstrained;

/// A timer or a stop signal, which a connection's task watches all the time and which is nearly never ready.
///
/// A poll of such a future registers the task's waker again, with up to five atomic operations. This one is polled only
/// if its caller sees that it may be ready, or if another waker must be registered.
#[derive(Debug)]
pub(crate) struct RarelyReady<F> {
    future: Pin<Box<F>>,
    /// The waker that the future will wake.
    registered: Option<Waker>,
}

impl<F: Future> RarelyReady<F> {
    pub(crate) fn new(future: F) -> Self {
        Self { future: Box::pin(future), registered: None }
    }

    /// Polls the future if it may be ready. `may_be_ready` must be true from the moment at which the future wakes the
    /// task.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>, may_be_ready: impl Fn(&F) -> bool) -> Poll<F::Output> {
        let is_registered = self.registered.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        if is_registered && !may_be_ready(&self.future) {
            return Poll::Pending;
        }
        // Not subject to tokio's task budget: without budget, a timer returns `Pending` before it has registered the waker.
        let polled = pin!(unconstrained(self.future.as_mut())).poll(context);
        match &mut self.registered {
            _ if polled.is_ready() => self.registered = None,
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        polled
    }

    /// Whether the future will wake a task and is not ready yet.
    pub(crate) fn is_awaited(&self, may_be_ready: impl Fn(&F) -> bool) -> bool {
        self.registered.is_some() && !may_be_ready(&self.future)
    }

    /// The future, to be changed in place. It is polled again after that.
    pub(crate) fn change(&mut self) -> Pin<&mut F> {
        self.registered = None;
        self.future.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
        time::Duration,
    };

    use tokio::time::Sleep;

    use super::*;

    #[tokio::test]
    async fn a_timer_that_is_first_polled_without_budget_wakes_its_task() {
        let mut timer = RarelyReady::new(tokio::time::sleep(Duration::from_millis(5)));
        let fired = poll_fn(|context| {
            // Uses up the budget of this poll.
            while pin!(tokio::task::consume_budget()).poll(context).is_ready() {}
            timer.poll(context, Sleep::is_elapsed)
        });

        assert!(tokio::time::timeout(Duration::from_secs(60), fired).await.is_ok());
    }

    struct Unused;

    impl Wake for Unused {
        fn wake(self: std::sync::Arc<Self>) {}
    }

    #[test]
    fn it_is_polled_at_first_when_it_may_be_ready_and_for_another_waker() {
        let polls = AtomicUsize::new(0);
        let mut watched = RarelyReady::new(poll_fn(|_| match polls.fetch_add(1, Ordering::Relaxed) {
            3 => Poll::Ready(()),
            _ => Poll::Pending,
        }));
        let wakers = [(); 2].map(|()| Waker::from(std::sync::Arc::new(Unused)));
        let mut poll = |waker: &Waker, may_be_ready: bool| {
            let polled = watched.poll(&mut Context::from_waker(waker), |_| may_be_ready);
            (polled.is_ready(), polls.load(Ordering::Relaxed))
        };

        assert_eq!(poll(&wakers[0], false), (false, 1), "not registered yet");
        assert_eq!(poll(&wakers[0], false), (false, 1), "registered");
        assert_eq!(poll(&wakers[1], false), (false, 2), "another task");
        assert_eq!(poll(&wakers[1], true), (false, 3), "may be ready, and is not");
        assert_eq!(poll(&wakers[1], false), (false, 3));
        assert_eq!(poll(&wakers[1], true), (true, 4));
    }
}
