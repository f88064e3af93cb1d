//! What waits to be written to the socket.

use std::{
    io::{self, ErrorKind},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{net::UnixStream, sync::Notify};

use super::wire::{Kind, put_frame};

/// More bytes than this may not wait when a new call wants to join: the other side does not read.
pub(super) const LARGEST_BACKLOG: usize = 32 * 1024 * 1024;

/// Capacity that a buffer keeps after it has been written.
const KEPT: usize = 256 * 1024;

/// Frames in the order of their writing. Filled from any thread, written by one task.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Nothing awaits under the lock.
    buffer: Mutex<Vec<u8>>,
    filled: Notify,
    /// Bytes that the other side has not taken: those in the buffer, and those that are being written.
    waiting: AtomicUsize,
    /// Told when some of them were taken.
    taken: Notify,
}

impl Outgoing {
    fn buffer(&self) -> MutexGuard<'_, Vec<u8>> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that the other side has not taken.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits until no more than `most` bytes wait.
    pub(super) async fn waits_no_more_than(&self, most: usize) {
        loop {
            let taken = self.taken.notified();
            if self.waiting() <= most {
                return;
            }
            taken.await;
        }
    }

    fn put(&self, buffer: &mut Vec<u8>, kind: Kind, id: u64, fill: impl FnOnce(&mut Vec<u8>)) {
        let before = buffer.len();
        put_frame(buffer, kind, id, fill);
        self.waiting.fetch_add(buffer.len().saturating_sub(before), Ordering::Relaxed);
    }

    fn note_taken(&self, count: usize) {
        self.waiting.fetch_sub(count, Ordering::Relaxed);
        self.taken.notify_one();
    }

    /// Appends a frame, whatever waits already: for what is bounded by something else.
    pub(super) fn push(&self, kind: Kind, id: u64, fill: impl FnOnce(&mut Vec<u8>)) {
        self.put(&mut self.buffer(), kind, id, fill);
        self.filled.notify_one();
    }

    /// Appends a frame unless more than `most` bytes wait; says whether it did.
    pub(super) fn try_push(&self, most: usize, kind: Kind, id: u64, fill: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut buffer = self.buffer();
        if self.waiting() > most {
            return false;
        }
        self.put(&mut buffer, kind, id, fill);
        drop(buffer);
        self.filled.notify_one();
        true
    }

    /// Writes what the socket takes, until it would wait. True when nothing is left.
    pub(super) fn write_now(&self, mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<bool> {
        let mut buffer = self.buffer();
        let mut written = 0;
        while let Some(rest) = buffer.get(written..).filter(|rest| !rest.is_empty()) {
            match write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        buffer.drain(..written);
        self.note_taken(written);
        let is_empty = buffer.is_empty();
        buffer.shrink_to(KEPT);
        Ok(is_empty)
    }

    /// Writes whatever is filled in, for ever. What is half written stays in the buffer, so that a caller of
    /// [`Outgoing::write_now`] in between goes on where this stopped.
    pub(super) async fn pump_in_place(&self, socket: &UnixStream) -> io::Error {
        loop {
            self.filled.notified().await;
            loop {
                match self.write_now(|bytes| socket.try_write(bytes)) {
                    Ok(true) => break,
                    Ok(false) => {}
                    Err(error) => return error,
                }
                if let Err(error) = socket.writable().await {
                    return error;
                }
            }
        }
    }

    /// Writes whatever is filled in, for ever. `others_follow` says whether it pays to let other tasks fill in
    /// something first: under load one write then carries many frames, and a lone frame is not delayed.
    pub(super) async fn pump(&self, socket: &UnixStream, others_follow: impl Fn() -> bool) -> io::Error {
        let mut taken = Vec::new();
        loop {
            self.filled.notified().await;
            if others_follow() {
                tokio::task::yield_now().await;
            }
            std::mem::swap(&mut taken, &mut self.buffer());
            if let Err(error) = self.write_all(socket, &taken).await {
                return error;
            }
            taken.clear();
            taken.shrink_to(KEPT);
        }
    }

    async fn write_all(&self, socket: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match socket.try_write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.note_taken(count);
                    bytes = bytes.get(count..).unwrap_or_default();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => socket.writable().await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
