//! Wiping of messages with passwords and keys.

use std::{
    cmp::Reverse,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use zeroize::Zeroize as _;

/// Messages up to this size that arrive in several pieces are always wiped, in every buffer that held a part: only the
/// whole message shows whether it takes secrets. Wiping larger ones would cost another pass over them.
pub(crate) const ALWAYS_WIPED: usize = 64 << 10;

/// hyper reads into the same buffer only if at least this many bytes fit into it; it may demand more.
const MIN_READ: usize = 8 << 10;

/// Maximum number of parts that wait for their other owner.
const MAX_WAITING: usize = 64;

/// A text that is wiped when its last owner drops it.
struct WipedText(BytesMut);

impl AsRef<[u8]> for WipedText {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for WipedText {
    fn drop(&mut self) {
        self.0.as_mut().zeroize();
    }
}

/// The bytes, which are wiped when their last owner drops them.
pub(crate) fn wiped_text(bytes: BytesMut) -> Bytes {
    Bytes::from_owner(WipedText(bytes))
}

/// Moves the beginning of a message into a buffer of its own, and wipes the old one if the message is small enough.
pub(crate) fn move_message(message: &mut BytesMut, capacity: usize) {
    let mut own = BytesMut::with_capacity(capacity.max(message.len()));
    own.extend_from_slice(message);
    let mut old = std::mem::replace(message, own);
    if old.len() <= ALWAYS_WIPED {
        old.as_mut().zeroize();
    }
}

/// Grows the buffer of the beginning of a message. The old one is wiped if the message is small enough.
pub(crate) fn grow_message(message: &mut BytesMut, capacity: usize) {
    if message.len() <= ALWAYS_WIPED {
        return move_message(message, capacity);
    }
    message.reserve(capacity.saturating_sub(message.len()));
}

/// Parts of a connection's read buffers that may contain secrets. They are wiped once the connection reads into another
/// buffer, or has ended.
///
/// hyper returns parts of its read buffer as [`Bytes`] and keeps the rest of the buffer, so a part can't be wiped at
/// once. While a part is held here, hyper usually allocates a new buffer for its next read, after which the part has
/// only one owner. If the buffer has much room left, hyper continues to read into it. Two parts of one buffer
/// (pipelined requests, several small chunks) then keep each other alive, and a connection with a secret in them must end
/// ([`UsedBuffers::needs_close`]).
///
/// Parts without a known secret wait until the connection reads into another buffer and no longer; otherwise a client
/// could make many buffers wait. Only the address of a read shows whether hyper continues in the last buffer: it compares
/// the room with the size that it expects of the next read, which it adapts.
#[derive(Debug, Default)]
pub(crate) struct UsedBuffers {
    waiting: Mutex<Vec<Waiting>>,
    /// Whether any part is waiting. The lock is taken only in this case.
    has_waiting: AtomicBool,
    /// Whether a waiting part is known to contain a secret.
    has_secret: AtomicBool,
    /// Bytes that still fit into the last buffer.
    room: AtomicUsize,
    /// Address of the end of the last read.
    read_end: AtomicUsize,
}

/// A part that has another owner.
#[derive(Debug)]
struct Waiting {
    bytes: Bytes,
    /// Whether the message to which it belongs takes secrets.
    has_secret: bool,
}

impl UsedBuffers {
    /// Returns a text with secrets that its last owner wipes. If `bytes` has another owner, this is a copy, and `bytes`
    /// waits here.
    pub(crate) fn take_secret(&self, bytes: Bytes) -> Bytes {
        let text = match bytes.try_into_mut() {
            Ok(own) => wiped_text(own),
            Err(bytes) => {
                let copy = wiped_text(BytesMut::from(&bytes[..]));
                self.wipe_later(bytes);
                copy
            }
        };
        // Earlier pieces of the message are among the waiting parts.
        let mut waiting = self.waiting.lock();
        waiting.iter_mut().for_each(|part| part.has_secret = true);
        self.has_secret.store(!waiting.is_empty(), Ordering::Relaxed);
        text
    }

    /// Records where the last read ended in its buffer, and how many bytes still fit into it.
    pub(crate) fn end_read(&self, end: *const u8, room: usize) {
        self.read_end.store(end.addr(), Ordering::Relaxed);
        self.room.store(room, Ordering::Relaxed);
    }

    /// Whether the connection must end so that a secret can be wiped: the next read may use the same buffer, or several
    /// parts of one buffer are waiting.
    pub(crate) fn needs_close(&self) -> bool {
        self.has_secrets() && (self.has_room() || self.waiting.lock().len() > 1)
    }

    /// Whether a part with a secret is waiting.
    pub(crate) fn has_secrets(&self) -> bool {
        self.has_secret.load(Ordering::Relaxed)
    }

    /// Whether hyper may read into the last buffer again.
    fn has_room(&self) -> bool {
        self.room.load(Ordering::Relaxed) >= MIN_READ
    }

    /// Wipes `bytes` as soon as there is no other owner.
    pub(crate) fn wipe_later(&self, bytes: Bytes) {
        let Err(bytes) = wiped(bytes) else { return };
        let mut waiting = self.waiting.lock();
        if waiting.len() < MAX_WAITING {
            waiting.push(Waiting { bytes, has_secret: false });
            self.has_waiting.store(true, Ordering::Relaxed);
        }
    }

    /// Wipes the parts without another owner before a read that writes to `start`. If it uses another buffer than the last
    /// read, drops those with another owner and no known secret.
    pub(crate) fn begin_read(&self, start: *const u8) {
        if !self.has_waiting.load(Ordering::Relaxed) {
            return;
        }
        let is_same_buffer = self.has_room() && start.addr() == self.read_end.load(Ordering::Relaxed);
        let mut waiting = self.waiting.lock();
        waiting.sort_unstable_by_key(falling_address);
        let parts = std::mem::take(&mut *waiting).into_iter();
        let left = parts.filter_map(|part| {
            let bytes = wiped(part.bytes).err()?;
            (is_same_buffer || part.has_secret).then_some(Waiting { bytes, ..part })
        });
        *waiting = left.collect();
        self.has_waiting.store(!waiting.is_empty(), Ordering::Relaxed);
        if waiting.is_empty() {
            self.has_secret.store(false, Ordering::Relaxed);
        }
    }
}

impl Drop for UsedBuffers {
    fn drop(&mut self) {
        wiped_parts(self.waiting.get_mut()).for_each(drop);
    }
}

/// Removes all parts, and returns the wiped buffers. Of several parts of a buffer, the first ones are dropped unchanged,
/// and wiped with the last one.
fn wiped_parts(waiting: &mut Vec<Waiting>) -> impl Iterator<Item = BytesMut> {
    waiting.sort_unstable_by_key(falling_address);
    waiting.drain(..).filter_map(|part| wiped(part.bytes).ok())
}

/// Sorts parts so that the one at the lowest address of a buffer is the last: it becomes the owner of all bytes after it
/// when the others have been dropped.
fn falling_address(part: &Waiting) -> Reverse<usize> {
    Reverse(part.bytes.as_ptr().addr())
}

/// Wipes the bytes and the rest of their buffer, or returns them if they have another owner.
fn wiped(bytes: Bytes) -> Result<BytesMut, Bytes> {
    bytes.try_into_mut().map(|mut own| {
        own.resize(own.capacity(), 0);
        own.as_mut().zeroize();
        own
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_any_size_keeps_its_bytes_when_it_moves_or_grows() {
        for length in [0, 8, ALWAYS_WIPED, ALWAYS_WIPED + 1] {
            for change in [move_message, grow_message] {
                let mut message = BytesMut::from(&vec![7; length][..]);

                change(&mut message, length + 1_000);

                assert_eq!(message, vec![7; length]);
                assert!(message.capacity() >= length + 1_000);
            }
        }
    }

    impl UsedBuffers {
        /// Begins a read into another buffer than the last one.
        fn wipe(&self) {
            self.begin_read(std::ptr::dangling());
        }
    }

    /// A buffer like hyper's, and its first `length` bytes.
    fn buffer(length: usize) -> (BytesMut, Bytes) {
        let mut buffer = BytesMut::with_capacity(64);
        buffer.extend_from_slice(b"password and what follows it");
        let part = buffer.split_to(length).freeze();
        (buffer, part)
    }

    #[test]
    fn a_part_of_a_buffer_in_use_is_copied_and_waits() {
        let (buffer, part) = buffer(8);
        let buffers = UsedBuffers::default();

        let text = buffers.take_secret(part);

        assert_eq!(text, "password");
        assert_eq!(buffers.waiting.lock().len(), 1);
        assert!(!buffers.needs_close(), "the next read uses another buffer");
        buffers.end_read(std::ptr::null(), MIN_READ);
        assert!(buffers.needs_close());
        buffers.wipe();
        assert!(buffers.has_secrets(), "the buffer is in use");
        drop(buffer);
        buffers.wipe();
        assert!(!buffers.has_secrets());
        assert!(buffers.waiting.lock().is_empty());
    }

    #[test]
    fn a_text_of_one_owner_is_not_copied() {
        let text = Bytes::from(b"password".to_vec());
        let address = text.as_ptr();
        let buffers = UsedBuffers::default();

        let text = buffers.take_secret(text);

        assert_eq!(text.as_ptr(), address);
        assert!(!buffers.has_secrets());
        assert!(buffers.waiting.lock().is_empty());
    }

    #[test]
    fn the_pieces_of_a_message_with_a_secret_wait_until_they_can_be_wiped() {
        let (buffer, part) = buffer(8);
        let buffers = UsedBuffers::default();
        buffers.wipe_later(part);

        buffers.take_secret(Bytes::from(b"password, joined".to_vec()));

        buffers.wipe();
        assert!(buffers.has_secrets());
        drop(buffer);
        buffers.wipe();
        assert!(!buffers.has_secrets());
    }

    #[test]
    fn parts_of_one_buffer_are_wiped_together_when_the_connection_has_ended() {
        let (mut rest, first) = buffer(8);
        let second = rest.split_to(5).freeze();
        let buffers = UsedBuffers::default();
        buffers.wipe_later(first);
        buffers.take_secret(second);
        assert!(buffers.needs_close());
        buffers.wipe();
        assert_eq!(buffers.waiting.lock().len(), 2, "they keep each other");
        drop(rest);

        let wiped: Vec<_> = wiped_parts(&mut buffers.waiting.lock()).collect();

        assert_eq!(wiped, [vec![0; 64]], "with what followed them");
    }

    #[test]
    fn parts_without_known_secret_wait_while_the_connection_reads_into_their_buffer() {
        let (rest, part) = buffer(8);
        let buffers = UsedBuffers::default();
        let end = rest.as_ptr();
        buffers.end_read(end, MIN_READ);

        buffers.wipe_later(part);
        buffers.begin_read(end);

        assert_eq!(buffers.waiting.lock().len(), 1);
        assert!(!buffers.needs_close(), "whether one was in it is not known");
        drop(rest);
        buffers.begin_read(end);
        assert!(buffers.waiting.lock().is_empty());
    }

    #[test]
    fn parts_of_an_old_buffer_do_not_keep_it() {
        let (mut rest, first) = buffer(8);
        let buffers = UsedBuffers::default();
        buffers.end_read(rest.as_ptr(), 1 << 20);
        buffers.wipe_later(first);
        buffers.wipe_later(rest.split_to(5).freeze());
        drop(rest);

        let (other, _) = buffer(0);
        buffers.begin_read(other.as_ptr());

        assert!(buffers.waiting.lock().is_empty(), "though much room is left in it");
    }

    #[test]
    fn few_parts_wait() {
        let buffers = UsedBuffers::default();
        let (buffer, part) = buffer(8);
        for _ in 0..2 * MAX_WAITING {
            buffers.wipe_later(part.clone());
        }
        assert_eq!(buffers.waiting.lock().len(), MAX_WAITING);
        assert!(!buffers.has_secrets(), "whether one was in them is not known");
        buffers.wipe();
        assert!(buffers.waiting.lock().is_empty(), "they don't wait for a second read");
        drop(buffer);
    }
}
