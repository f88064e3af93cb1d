//! What a connection still has to send.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::envelope::Reply;

/// Makes the bytes of a reply on this transport.
pub(crate) type Encode = fn(Reply, &mut VecDeque<Bytes>);

/// A queue between the calls of a connection and its writer, bounded in bytes.
///
/// Answers are always taken, because a connection whose queue is full starts no further call
/// ([`Outgoing::has_room`]). Notifications come whether or not the client reads: one that finds the queue
/// full ends the connection, so that a subscriber that never reads costs `most` bytes and no more.
#[derive(Debug)]
pub(crate) struct Outgoing {
    queue: Mutex<Queue>,
    encode: Encode,
    most: usize,
    drained: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    pieces: VecDeque<Bytes>,
    /// Bytes in `pieces` and in what the writer has taken and not yet written.
    length: usize,
    has_overflowed: bool,
    /// The task of the writer, and whether it sleeps: who pushes wakes it only then.
    writer: Option<Waker>,
    is_writer_asleep: bool,
}

impl Queue {
    /// Has the task woken at the next push.
    fn watch(&mut self, context: &Context<'_>) {
        match &mut self.writer {
            Some(writer) => writer.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        self.is_writer_asleep = true;
    }

    /// The waker to call once the lock is given back.
    fn sleeper(&mut self) -> Option<Waker> {
        std::mem::take(&mut self.is_writer_asleep).then(|| self.writer.clone()).flatten()
    }
}

/// A notification found the queue full.
#[derive(Debug)]
pub(crate) struct Overflow;

impl Outgoing {
    pub(crate) fn new(encode: Encode, most: usize) -> Self {
        Self { queue: Mutex::default(), encode, most, drained: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to the queue and wakes the writer if it sleeps.
    fn push<T>(&self, add: impl FnOnce(&mut Queue) -> T) -> T {
        let mut queue = self.lock();
        let added = add(&mut queue);
        let sleeper = queue.sleeper();
        drop(queue);
        if let Some(writer) = sleeper {
            writer.wake();
        }
        added
    }

    /// Queues an answer.
    pub(crate) fn push_answer(&self, reply: Reply) {
        self.push(|queue| queue.length += self.encode_into(reply, &mut queue.pieces));
    }

    /// Queues a notification.
    pub(crate) fn push_notification(&self, reply: Reply) -> Result<(), Overflow> {
        self.push(|queue| {
            queue.has_overflowed |= queue.length + reply.len() > self.most;
            if queue.has_overflowed {
                return Err(Overflow);
            }
            queue.length += self.encode_into(reply, &mut queue.pieces);
            Ok(())
        })
    }

    /// Queues bytes of the transport itself, such as a pong.
    pub(crate) fn push_raw(&self, bytes: Bytes) {
        self.push(|queue| {
            queue.length += bytes.len();
            queue.pieces.push_back(bytes);
        });
    }

    fn encode_into(&self, reply: Reply, pieces: &mut VecDeque<Bytes>) -> usize {
        let before = pieces.len();
        (self.encode)(reply, pieces);
        pieces.range(before..).map(Bytes::len).sum()
    }

    /// Returns at once while less than the bound is queued, otherwise when the client has read some of it.
    pub(crate) async fn has_room(&self) {
        while self.lock().length >= self.most {
            self.drained.notified().await;
        }
    }

    /// Returns when all is written.
    pub(crate) async fn is_empty(&self) {
        while self.lock().length > 0 {
            self.drained.notified().await;
        }
    }

    /// Says that the writer's task is awake and will look at the queue before it sleeps: pushing need not wake it.
    pub(crate) fn writer_is_awake(&self) {
        self.lock().is_writer_asleep = false;
    }

    /// Moves all that is queued into `pieces`, which is empty; waits if nothing is. Fails when a notification
    /// has found the queue full: the connection must end.
    pub(crate) fn poll_take(
        &self,
        context: &mut Context<'_>,
        pieces: &mut VecDeque<Bytes>,
    ) -> Poll<Result<(), Overflow>> {
        let mut queue = self.lock();
        if queue.has_overflowed {
            return Poll::Ready(Err(Overflow));
        }
        if !queue.pieces.is_empty() {
            // The queue gets the emptied buffer back, so that neither side allocates.
            std::mem::swap(&mut queue.pieces, pieces);
            return Poll::Ready(Ok(()));
        }
        queue.watch(context);
        Poll::Pending
    }

    /// Whether a notification has found the queue full; if not, that is waited for.
    pub(crate) fn poll_overflow(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut queue = self.lock();
        if queue.has_overflowed {
            return Poll::Ready(());
        }
        queue.watch(context);
        Poll::Pending
    }

    /// The writer has sent `count` bytes of what it took.
    pub(crate) fn sent(&self, count: usize) {
        let mut queue = self.lock();
        queue.length = queue.length.saturating_sub(count);
        drop(queue);
        // The reader waits for room, or the end for emptiness; never both at a time.
        self.drained.notify_one();
    }
}
