//! What a connection still has to send.

use std::{
    collections::VecDeque,
    io::IoSlice,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::{Buf, Bytes};
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
    filled: Notify,
    drained: Notify,
    overflowed: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    pieces: VecDeque<Bytes>,
    /// Bytes in `pieces` and in what the writer has taken and not yet written.
    length: usize,
    has_overflowed: bool,
}

/// A notification found the queue full.
#[derive(Debug)]
pub(crate) struct Overflow;

impl Outgoing {
    pub(crate) fn new(encode: Encode, most: usize) -> Self {
        Self {
            queue: Mutex::default(),
            encode,
            most,
            filled: Notify::new(),
            drained: Notify::new(),
            overflowed: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an answer.
    pub(crate) fn push_answer(&self, reply: Reply) {
        let mut queue = self.lock();
        queue.length += self.encode_into(reply, &mut queue.pieces);
        drop(queue);
        self.filled.notify_one();
    }

    /// Queues a notification.
    pub(crate) fn push_notification(&self, reply: Reply) -> Result<(), Overflow> {
        let mut queue = self.lock();
        if queue.length + reply.len() > self.most {
            queue.has_overflowed = true;
        } else {
            queue.length += self.encode_into(reply, &mut queue.pieces);
        }
        let has_overflowed = queue.has_overflowed;
        drop(queue);
        self.filled.notify_one();
        if has_overflowed {
            self.overflowed.notify_one();
            return Err(Overflow);
        }
        Ok(())
    }

    /// Queues bytes of the transport itself, such as a pong.
    pub(crate) fn push_raw(&self, bytes: Bytes) {
        let mut queue = self.lock();
        queue.length += bytes.len();
        queue.pieces.push_back(bytes);
        drop(queue);
        self.filled.notify_one();
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

    /// Waits for something to write and takes all of it.
    pub(crate) async fn take(&self) -> Pieces {
        loop {
            {
                let mut queue = self.lock();
                if !queue.pieces.is_empty() {
                    return Pieces::new(std::mem::take(&mut queue.pieces));
                }
            }
            self.filled.notified().await;
        }
    }

    /// Returns when a notification has found the queue full: the connection must end.
    pub(crate) async fn has_overflowed(&self) {
        self.overflowed.notified().await;
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

/// Several pieces that are written with as few system calls as possible.
#[derive(Debug)]
pub(crate) struct Pieces {
    pieces: VecDeque<Bytes>,
    left: usize,
}

impl Pieces {
    fn new(pieces: VecDeque<Bytes>) -> Self {
        let left = pieces.iter().map(Bytes::len).sum();
        Self { pieces, left }
    }
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.left
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.iter().find(|piece| !piece.is_empty()).map_or(&[], |piece| piece)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let full = self.pieces.iter().filter(|piece| !piece.is_empty());
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(full) {
            *slice = IoSlice::new(piece);
            count += 1;
        }
        count
    }

    fn advance(&mut self, mut count: usize) {
        self.left = self.left.saturating_sub(count);
        while let Some(piece) = self.pieces.front_mut() {
            if count < piece.len() {
                piece.advance(count);
                return;
            }
            count -= piece.len();
            self.pieces.pop_front();
        }
    }
}
