//! Polls in which a plugin reads a large reply and writes its answer: tens of milliseconds for some megabytes.
//!
//! On the threads that serve connections they would delay every other client's request. So the runtime first moves the
//! thread's other tasks to another thread, and the system shares the processors among the threads. At most one runs per
//! processor, because each holds several copies of its answer.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::{Duration, Instant},
};

use tenon_bus::CallContext;
use tenon_sdk::Failure;
use tenon_sdk::boundary::OwnedBytes;
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
};

use crate::plugin_interface::PluginCall;

/// Minimum size of a large reply, in bytes: reading it and writing it as JSON takes about a millisecond.
pub(crate) const LARGE_REPLY: usize = 128 << 10;

/// Time of a call's polls before other calls have their turn. Moving a thread's tasks to another thread costs some tens
/// of microseconds, so it is not done for each piece of a text.
const SLICE: Duration = Duration::from_millis(5);

/// Permits for polls that take long. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct LongPolls(Arc<Semaphore>);

impl LongPolls {
    pub(crate) fn new() -> Self {
        let places = thread::available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Semaphore::new(places)))
    }

    /// Polls a call to its end. From its first large reply on, all polls are treated as long: the plugin writes its answer
    /// in pieces, one per poll, and is ready for the next poll at once. On a connection thread, the runtime would poll it
    /// dozens of times before it reads the requests of other clients.
    pub(crate) async fn finish(&self, mut call: PluginCall<'_>, context: &CallContext) -> Result<OwnedBytes, Failure> {
        let before_large_reply = poll_fn(|task| match call.poll_reply(task) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if context.take_large_reply_announcement() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        });
        if let Some(answer) = before_large_reply.await {
            return answer;
        }
        loop {
            // Never closed, so this cannot fail.
            let place = self.0.acquire().await;
            let polled = poll_fn(|task| Poll::Ready(beside_connections(|| poll_for_a_slice(&mut call, task))));
            if let Poll::Ready(answer) = polled.await {
                return answer;
            }
            drop(place);
            until_woken().await;
        }
    }
}

/// Polls a call until it is over, waits, or has had its slice.
fn poll_for_a_slice(call: &mut PluginCall<'_>, task: &Context<'_>) -> Poll<Result<OwnedBytes, Failure>> {
    let begun = Instant::now();
    let own_wakes = Arc::new(OwnWakes { has_woken: AtomicBool::new(false), task: task.waker().clone() });
    let waker = Waker::from(Arc::clone(&own_wakes));
    loop {
        let polled = call.poll_reply(&mut Context::from_waker(&waker));
        let is_next_ready = own_wakes.has_woken.swap(false, Ordering::Relaxed);
        if polled.is_ready() || !is_next_ready || begun.elapsed() >= SLICE {
            return polled;
        }
    }
}

/// Wakes the task, and remembers it.
struct OwnWakes {
    has_woken: AtomicBool,
    task: Waker,
}

impl Wake for OwnWakes {
    fn wake(self: Arc<Self>) {
        self.has_woken.store(true, Ordering::Relaxed);
        self.task.wake_by_ref();
    }
}

/// Returns `Pending` once without registering a waker: the task continues when a future that it polled before wakes it.
pub async fn until_woken() {
    let mut was_polled = false;
    poll_fn(|_| if std::mem::replace(&mut was_polled, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

/// Number of bytes that a plugin reads from a reply: its frame, or the failure's texts.
pub(crate) fn reply_length(reply: &Result<Vec<u8>, Failure>) -> usize {
    match reply {
        Ok(frame) => frame.len(),
        Err(failure) => failure.message.len() + failure.data.as_ref().map_or(0, String::len),
    }
}

/// Runs work that takes long without keeping the other tasks of this thread waiting.
fn beside_connections<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_long_poll_leaves_the_thread_to_other_tasks() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let working = tokio::spawn(async move { beside_connections(|| receiver.recv().is_ok()) });

        // Needs the only worker, which would otherwise block forever.
        tokio::spawn(async move { sender.send(()) }).await.unwrap().unwrap();

        assert!(working.await.unwrap());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn every_piece_after_a_large_reply_leaves_the_thread_to_other_tasks() {
        const PIECES: usize = 3;
        let (context, mut polls) = (CallContext::new(), 0);
        let announcer = context.clone();
        let pieces = poll_fn(move |task| {
            polls += 1;
            if polls == 1 {
                announcer.announce_large_reply();
            } else {
                let (sender, receiver) = std::sync::mpsc::channel();
                // Needs the only worker, which is blocked here.
                tokio::spawn(async move { sender.send(()) });
                receiver.recv().unwrap();
                thread::sleep(SLICE);
            }
            task.waker().wake_by_ref();
            if polls > PIECES { Poll::Ready(Err(Failure::server("written"))) } else { Poll::Pending }
        });

        let call = PluginCall::Remote(Box::pin(pieces));
        let answer = tokio::spawn(async move { LongPolls::new().finish(call, &context).await }).await.unwrap();

        assert_eq!(answer.err().unwrap().message, "written");
    }

    #[test]
    fn a_failure_is_as_long_as_its_texts() {
        let failure = Failure { data: Some("x".repeat(LARGE_REPLY)), ..Failure::server("reverted") };

        assert_eq!(reply_length(&Err(failure)), LARGE_REPLY + "reverted".len());
        assert_eq!(reply_length(&Ok(vec![0; 7])), 7);
    }
}
