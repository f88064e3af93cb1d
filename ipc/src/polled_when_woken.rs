//! Waits for a rare event together with frequent ones.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker, ready},
};

use parking_lot::Mutex;

/// A future that is polled only after it has woken its task.
///
/// The task of a connection waits for the end of its front-end as well as for bytes. The end occurs once, the bytes
/// wake the task for every message, and each poll of the end's token would take two locks: 1.4 % of a small request on
/// the socket.
pub(crate) struct PolledWhenWoken<F> {
    future: F,
    wake_flag: Arc<WakeFlag>,
    /// The inner waker in the form that the future takes.
    waker: Waker,
    /// The task to wake. Compared without locking, to skip an update when the same task polls again.
    task: Option<Waker>,
}

/// Waker handed to the inner future.
struct WakeFlag {
    is_woken: AtomicBool,
    /// Locked when the polling task changes, and when the future wakes it; nothing awaits under the lock.
    task: Mutex<Option<Waker>>,
}

impl<F: Future + Unpin> PolledWhenWoken<F> {
    /// Wraps `future`, which the first poll polls.
    pub(crate) fn new(future: F) -> Self {
        let wake_flag = Arc::new(WakeFlag { is_woken: AtomicBool::new(true), task: Mutex::default() });
        Self { future, waker: Waker::from(Arc::clone(&wake_flag)), wake_flag, task: None }
    }
}

impl<F: Future + Unpin> Future for PolledWhenWoken<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let is_known = self.task.as_ref().is_some_and(|task| task.will_wake(context.waker()));
        if !is_known {
            // Before the flag is checked, so that a wake in between wakes this task.
            *self.wake_flag.task.lock() = Some(context.waker().clone());
            self.task = Some(context.waker().clone());
        }
        if !self.wake_flag.is_woken.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        // Before the future is polled, because it may wake again during the poll.
        self.wake_flag.is_woken.store(false, Ordering::Release);
        let Self { future, waker, wake_flag, .. } = &mut *self;
        let output = ready!(Pin::new(future).poll(&mut Context::from_waker(waker)));
        // The next poll polls the future again.
        wake_flag.is_woken.store(true, Ordering::Release);
        Poll::Ready(output)
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        let task = self.task.lock().clone();
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::atomic::AtomicUsize};

    use futures_util::FutureExt as _;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// Counts its wakes.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn task() -> (Arc<Count>, Waker) {
        let count = Arc::<Count>::default();
        (Arc::clone(&count), Waker::from(count))
    }

    #[test]
    fn a_future_is_polled_once_and_then_only_after_it_has_woken_its_task() {
        let polls = AtomicUsize::new(0);
        let asked_by: Mutex<Option<Waker>> = Mutex::default();
        let mut waiting = PolledWhenWoken::new(poll_fn(|context| {
            *asked_by.lock() = Some(context.waker().clone());
            if polls.fetch_add(1, Ordering::Relaxed) < 2 { Poll::Pending } else { Poll::Ready(7) }
        }));
        let (woken, waker) = task();
        let mut poll = || waiting.poll_unpin(&mut Context::from_waker(&waker));

        for _ in 0..3 {
            assert_eq!(poll(), Poll::Pending);
        }
        assert_eq!(polls.load(Ordering::Relaxed), 1);

        for (expected, round) in [(Poll::Pending, 1), (Poll::Ready(7), 2)] {
            asked_by.lock().take().unwrap().wake();
            assert_eq!(woken.0.load(Ordering::Relaxed), round);
            assert_eq!(poll(), expected);
        }
    }

    #[test]
    fn only_the_task_that_polled_last_is_woken() {
        let token = CancellationToken::new();
        let mut waiting = PolledWhenWoken::new(Box::pin(token.cancelled()));
        let ((first, first_waker), (second, second_waker)) = (task(), task());
        assert!(waiting.poll_unpin(&mut Context::from_waker(&first_waker)).is_pending());
        assert!(waiting.poll_unpin(&mut Context::from_waker(&second_waker)).is_pending());

        token.cancel();

        assert_eq!((first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (0, 1));
        assert!(waiting.poll_unpin(&mut Context::from_waker(&first_waker)).is_ready());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_end_is_missed_that_comes_while_a_task_is_busy() {
        for _ in 0..1_000 {
            let token = CancellationToken::new();
            let stopping = token.child_token();
            let waiting = tokio::spawn(async move {
                let mut stopped = PolledWhenWoken::new(Box::pin(stopping.cancelled()));
                poll_fn(|context| {
                    // Wakes itself, as bytes do, so that the end occurs during a poll.
                    context.waker().wake_by_ref();
                    stopped.poll_unpin(context)
                })
                .await;
                // The end also occurs while the task sleeps.
                PolledWhenWoken::new(Box::pin(stopping.cancelled())).await;
            });
            tokio::task::yield_now().await;
            token.cancel();
            waiting.await.unwrap();
        }
    }
}
