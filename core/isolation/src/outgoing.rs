//! Outgoing data of the socket.

use std::{
    io::{self, ErrorKind},
    sync::atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use tenon_bus::{ClientMemory, MemoryUse, OutOfMemory, Reservation};
use tokio::{net::UnixStream, sync::Notify};

use crate::wire::{Kind, put_frame, wipe};

/// Maximum waiting bytes for a new call to be accepted: beyond that, the other side does not read.
pub(crate) const MAX_BACKLOG: usize = 32 * 1024 * 1024;

/// Up to this many waiting bytes are not counted in the budget, and more are counted in steps of this size, so that
/// most calls do not take the lock.
const MEMORY_STEP: usize = 64 * 1024;

/// Initial capacity of a buffer.
const INITIAL_CAPACITY: usize = 16 * 1024;

/// Capacity that a buffer keeps after it has been written.
const MAX_KEPT_CAPACITY: usize = 256 * 1024;

/// Frames to write, in order. Filled from any thread, written by one task.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// Nothing awaits under the lock.
    buffer: Mutex<Vec<u8>>,
    filled: Notify,
    /// Bytes that the socket has not accepted, in the buffer or being written.
    waiting: AtomicUsize,
    /// Notified when the socket has accepted some of them.
    taken: Notify,
    memory: Option<HeldMemory>,
}

/// Reservation of waiting frames in the memory budget.
#[derive(Debug)]
struct HeldMemory {
    client: ClientMemory,
    /// Nothing awaits under the lock.
    reservation: Mutex<Option<Reservation>>,
    /// Size of the reservation, read without the lock.
    bytes: AtomicUsize,
}

impl HeldMemory {
    /// Makes the reservation large enough for this many waiting bytes.
    fn cover(&self, waiting: usize) -> Result<(), OutOfMemory> {
        if waiting <= MEMORY_STEP || waiting <= self.bytes.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut reservation = self.reservation.lock();
        let wanted = waiting.next_multiple_of(MEMORY_STEP);
        match reservation.as_mut() {
            Some(held) if held.bytes() >= wanted => {}
            Some(held) => held.resize(wanted)?,
            None => *reservation = Some(self.client.reserve(MemoryUse::PluginFrames, wanted)?),
        }
        self.bytes.store(reservation.as_ref().map_or(0, Reservation::bytes), Ordering::Relaxed);
        Ok(())
    }

    /// Releases the part of the reservation that this many waiting bytes do not need.
    fn give_back(&self, waiting: usize) {
        let held = self.bytes.load(Ordering::Relaxed);
        if held == 0 || waiting.saturating_add(2 * MEMORY_STEP) > held && waiting > MEMORY_STEP {
            return;
        }
        let mut reservation = self.reservation.lock();
        if waiting <= MEMORY_STEP {
            *reservation = None;
        } else if let Some(held) = reservation.as_mut() {
            held.shrink(waiting.next_multiple_of(MEMORY_STEP));
        }
        self.bytes.store(reservation.as_ref().map_or(0, Reservation::bytes), Ordering::Relaxed);
    }
}

/// Why a frame was not appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotSent {
    /// The maximum number of bytes is waiting.
    Backlog,
    /// The memory budget has no room for it.
    Memory(OutOfMemory),
}

impl Outgoing {
    /// Creates an empty queue, whose waiting bytes are counted in this share of the budget.
    pub(crate) fn drawing_on(client: ClientMemory) -> Self {
        let memory = HeldMemory { client, reservation: Mutex::default(), bytes: AtomicUsize::new(0) };
        Self { memory: Some(memory), ..Self::default() }
    }

    /// Bytes that the socket has not accepted.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits until at most `max` bytes are waiting.
    pub(crate) async fn wait_until_at_most(&self, max: usize) {
        loop {
            let taken = self.taken.notified();
            if self.waiting() <= max {
                return;
            }
            taken.await;
        }
    }

    fn put(&self, buffer: &mut Vec<u8>, kind: Kind, id: u64, fill: impl FnOnce(&mut Vec<u8>)) {
        let before = buffer.len();
        // Growing leaves copies behind; most waiting data fits into this.
        buffer.reserve_exact(INITIAL_CAPACITY.saturating_sub(buffer.capacity()));
        put_frame(buffer, kind, id, fill);
        let added = buffer.len().saturating_sub(before);
        let waiting = self.waiting.fetch_add(added, Ordering::Relaxed).saturating_add(added);
        if let Some(memory) = &self.memory {
            // Large frames were refused before if the budget is full; small frames are sent regardless.
            let _ = memory.cover(waiting);
        }
    }

    fn note_taken(&self, count: usize) {
        let before = self.waiting.fetch_sub(count, Ordering::Relaxed);
        if let Some(memory) = &self.memory {
            memory.give_back(before.saturating_sub(count));
        }
        self.taken.notify_one();
    }

    /// Appends a frame, however much is waiting: for small frames that are bounded otherwise.
    pub(crate) fn push(&self, kind: Kind, id: u64, fill: impl FnOnce(&mut Vec<u8>)) {
        self.put(&mut self.buffer.lock(), kind, id, fill);
        self.filled.notify_one();
    }

    /// Appends a small frame unless more than `max` bytes wait. Returns whether it did.
    pub(crate) fn try_push(&self, max: usize, kind: Kind, id: u64, fill: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.try_push_counted((max, 0), kind, id, fill).is_ok()
    }

    /// Appends a frame of about `length` bytes, unless more than `max` bytes wait or the memory budget has no room for
    /// it.
    pub(crate) fn try_push_counted(
        &self,
        (max, length): (usize, usize),
        kind: Kind,
        id: u64,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), NotSent> {
        let mut buffer = self.buffer.lock();
        let waiting = self.waiting();
        if waiting > max {
            return Err(NotSent::Backlog);
        }
        if let Some(memory) = &self.memory {
            memory.cover(waiting.saturating_add(length)).map_err(NotSent::Memory)?;
        }
        self.put(&mut buffer, kind, id, fill);
        drop(buffer);
        self.filled.notify_one();
        Ok(())
    }

    /// Writes as much as the socket accepts without blocking. Returns true if nothing is left.
    pub(crate) fn write_now(&self, mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<bool> {
        let mut buffer = self.buffer.lock();
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
        // Written data may have held secrets.
        let rest = buffer.len() - written;
        buffer.copy_within(written.., 0);
        wipe(buffer.get_mut(rest..).unwrap_or_default());
        buffer.truncate(rest);
        self.note_taken(written);
        let is_empty = buffer.is_empty();
        buffer.shrink_to(MAX_KEPT_CAPACITY);
        Ok(is_empty)
    }

    /// Writes the frames until it is dropped. Partly written data stays in the buffer, so that [`Outgoing::write_now`]
    /// can continue where this stopped.
    pub(crate) async fn pump_retaining_unwritten(&self, socket: &UnixStream) -> io::Error {
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

    /// Writes the frames until it is dropped. `others_follow` returns whether to let other tasks append frames first:
    /// under load one write then carries many frames, and a lone frame is not delayed.
    pub(crate) async fn pump(&self, socket: &UnixStream, others_follow: impl Fn() -> bool) -> io::Error {
        let mut taken = Vec::new();
        loop {
            self.filled.notified().await;
            if others_follow() {
                tokio::task::yield_now().await;
            }
            std::mem::swap(&mut taken, &mut self.buffer.lock());
            if let Err(error) = self.write_all(socket, &taken).await {
                return error;
            }
            wipe(&mut taken);
            taken.clear();
            taken.shrink_to(MAX_KEPT_CAPACITY);
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
