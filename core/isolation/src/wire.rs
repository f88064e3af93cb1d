//! Frames on the socket between the node and a plugin's process: `length u32, kind u8, id u64, body`, all numbers
//! little-endian; the length counts what follows it.
//!
//! Nothing in a frame is trusted: a length is compared with the maximum of its kind before memory is reserved for it,
//! and memory grows with the received bytes, not with the announced ones.

use tenon_api::EventPosition;
use tenon_host::{MAX_LINE, MAX_METHOD, MAX_PARAMS};
use tenon_sdk::{Failure, FailureCode};

/// Bytes of the length field.
const LENGTH: usize = 4;
/// Bytes of kind and id, the header of every frame.
const HEAD: usize = 1 + 8;
/// Size of a read, and of a buffer after a large frame.
const CHUNK: usize = 64 * 1024;

/// Maximum frame of either side, in bytes. An answer of a namespace that serves whole traces fits.
pub(crate) const MAX_FRAME: usize = 64 * 1024 * 1024;

/// Maximum bus request of a plugin, in bytes: a full batch of records, with the lengths between them.
pub(crate) const MAX_BUS_REQUEST_BYTES: usize = 20 * 1024 * 1024;

/// Maximum item of a subscription, in bytes, with its header.
pub(crate) const MAX_ITEM: usize = 16 * 1024 * 1024;

/// Maximum kept bytes of an error's message: written into an answer, each may become six.
const MAX_MESSAGE: usize = 64 * 1024;

/// Maximum bytes of an error's data. Longer data is dropped, because truncated JSON text would be invalid.
const MAX_DATA: usize = 256 * 1024;

/// Declares the kinds with their numbers, which are never reused, and the maximum body length of each in bytes.
macro_rules! kinds {
    ($($(#[$meta:meta])* $name:ident = $number:literal, max $max:expr;)*) => {
        /// The kind of a frame.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Kind { $($(#[$meta])* $name = $number),* }

        impl Kind {
            fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$name),)* _ => None }
            }

            /// The maximum length of its body, in bytes.
            pub(crate) const fn max(self) -> usize {
                match self { $(Self::$name => $max,)* }
            }
        }
    };
}

kinds! {
    /// Host: limits, the library to map, the number of load cycles if it is not to serve, and the methods to call in
    /// them.
    Open = 0x01, max 64 * 1024;
    /// Host: settings and hand-over.
    Start = 0x02, max MAX_FRAME;
    /// Host: a call of a method.
    Call = 0x03, max MAX_FRAME;
    /// Host: cancels a call or subscription. It still receives its last frame.
    Cancel = 0x04, max 0;
    /// Host: opens a subscription.
    Subscribe = 0x05, max MAX_FRAME;
    /// Host: grants this many more items of a subscription.
    Credit = 0x06, max 4;
    /// Host: requests the state for the next version.
    ExportState = 0x07, max 0;
    /// Host: requests an orderly end.
    Stop = 0x08, max 0;
    /// Host: answers `BusCall` and `JsonCall`.
    BusReply = 0x09, max MAX_FRAME;
    /// Host: an event of `BusSubscribe`.
    BusItem = 0x0a, max MAX_FRAME;
    /// Host: the end of a `BusSubscribe`; no event follows.
    BusEnd = 0x0b, max 0;
    /// Host: checks whether the process still responds.
    Ping = 0x0c, max 0;
    /// Child: the library's manifest and the gaps of the sandbox.
    Manifest = 0x81, max 8 * 1024 * 1024;
    /// Child: the library was refused.
    Refused = 0x82, max 64 * 1024;
    /// Child: answers `Start`.
    Started = 0x83, max 1024 * 1024;
    /// Child: answers `Call` and `ExportState`, exactly once.
    Reply = 0x84, max MAX_FRAME;
    /// Child: an item of a subscription.
    Item = 0x85, max MAX_ITEM;
    /// Child: the end of a subscription, exactly once.
    End = 0x86, max 0;
    /// Child: a bus request, with the call or subscription for which it is made, 0 for none.
    BusCall = 0x87, max MAX_BUS_REQUEST_BYTES + 24;
    /// Child: subscribes to an event topic.
    BusSubscribe = 0x88, max 8;
    /// Child: no longer waits for a `BusCall`, `JsonCall` or `BusSubscribe`.
    BusCancel = 0x89, max 0;
    /// Child: grants this many more events.
    BusCredit = 0x8a, max 4;
    /// Child: a call of a method by name, with the call or subscription for which it is made, 0 for none.
    JsonCall = 0x8f, max MAX_METHOD + MAX_PARAMS + 24;
    /// Child: a line for the log.
    Log = 0x8b, max MAX_LINE;
    /// Child: answers `Ping`.
    Pong = 0x8c, max 0;
    /// Child: the load cycle with this number begins; 0: the leftovers of all of them.
    LoadCycle = 0x8e, max 40;
    /// Child: this call or subscription used up its processor time; the process is about to end.
    Overrun = 0x8d, max 0;
}

/// A frame that violates the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WireError {
    #[error("it announced a message of {0} bytes; at most {MAX_FRAME} are allowed")]
    TooLong(usize),
    #[error("it announced a message of {0} bytes, which is too short")]
    TooShort(usize),
    #[error("it announced a {0:?} message of {1} bytes; at most {max} are allowed", max = .0.max())]
    TooLongForKind(Kind, usize),
    #[error("it sent a message of the unknown kind {0:#04x}")]
    UnknownKind(u8),
    #[error("a {0:?} message is malformed")]
    Malformed(Kind),
    #[error("a {0:?} message is not allowed at this point")]
    Unexpected(Kind),
    #[error("it answered request {0}, which was never sent or is already answered")]
    NotAsked(u64),
    #[error("it used the request number {0} twice")]
    NumberTaken(u64),
    #[error("it sent more items of subscription {0} than it was allowed to")]
    TooManyItems(u64),
    #[error("it sent too many requests before it had started")]
    TooMuchEarly,
}

/// A frame, borrowed from the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: Kind,
    pub(crate) id: u64,
    pub(crate) body: &'a [u8],
}

impl<'a> Frame<'a> {
    pub(crate) fn fields(&self) -> Fields<'a> {
        Fields { kind: self.kind, rest: self.body }
    }

    pub(crate) const fn unexpected(&self) -> WireError {
        WireError::Unexpected(self.kind)
    }
}

/// An event or an item of a subscription, with the position of the event.
pub(crate) type Item = Result<(Vec<u8>, Option<EventPosition>), Failure>;

/// Reads a frame's body, field by field.
pub(crate) struct Fields<'a> {
    kind: Kind,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(WireError::Malformed(self.kind))?;
        self.rest = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Length-prefixed bytes.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = self.u32()? as usize;
        let (head, rest) = self.rest.split_at_checked(length).ok_or(WireError::Malformed(self.kind))?;
        self.rest = rest;
        Ok(head)
    }

    /// Length-prefixed text.
    pub(crate) fn text(&mut self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| WireError::Malformed(self.kind))
    }

    /// All remaining bytes.
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// All remaining bytes, as text.
    pub(crate) fn rest_text(self) -> Result<&'a str, WireError> {
        std::str::from_utf8(self.rest).map_err(|_| WireError::Malformed(self.kind))
    }

    /// A reply: code, data, body. The code 0 is success.
    pub(crate) fn reply(self) -> Result<Result<Vec<u8>, Failure>, WireError> {
        Ok(self.item()?.map(|(body, _)| body))
    }

    /// A reply that is an event or an item of a subscription: its data is the position of the event, or empty.
    pub(crate) fn item(mut self) -> Result<Item, WireError> {
        let code = i32::from_le_bytes(self.array()?);
        let data = self.bytes()?;
        if code == 0 {
            return Ok(Ok((self.rest.to_vec(), EventPosition::from_bytes(data))));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut message = match self.rest.split_at_checked(MAX_MESSAGE) {
            Some((begin, more)) if !more.is_empty() => format!("{} … ({} bytes more)", text(begin), more.len()),
            _ => text(self.rest),
        };
        let is_kept = data.len() <= MAX_DATA;
        if !is_kept {
            message.push_str(&format!(" (without its data of {} bytes, {MAX_DATA} at most)", data.len()));
        }
        let data = (is_kept && !data.is_empty()).then(|| text(data));
        Ok(Err(Failure { code: FailureCode(code), message, data }))
    }
}

/// Appends a frame; `fill` writes its body.
pub(crate) fn put_frame(out: &mut Vec<u8>, kind: Kind, id: u64, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH]);
    out.push(kind as u8);
    out.extend_from_slice(&id.to_le_bytes());
    fill(out);
    let written = out.len().saturating_sub(start + LENGTH);
    let length = u32::try_from(written).unwrap_or(u32::MAX).to_le_bytes();
    if let Some(place) = out.get_mut(start..start + LENGTH) {
        place.copy_from_slice(&length);
    }
}

/// Appends length-prefixed bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    // The reader refuses a frame that is too long.
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Appends a reply as the body of a frame of this kind. A reply that is too long is replaced by a failure that says so.
pub(crate) fn put_reply(out: &mut Vec<u8>, kind: Kind, result: Result<&[u8], &Failure>) {
    put_item(out, kind, result.map(|body| (body, None)));
}

/// As [`put_reply`], for an event or an item of a subscription with the position of the event.
pub(crate) fn put_item(out: &mut Vec<u8>, kind: Kind, result: Result<(&[u8], Option<EventPosition>), &Failure>) {
    let largest = kind.max().saturating_sub(64);
    match result {
        Ok((body, position)) if body.len() <= largest => {
            out.extend_from_slice(&0_i32.to_le_bytes());
            put_bytes(out, position.map(EventPosition::to_bytes).as_ref().map_or(&[], <[u8; 8]>::as_slice));
            out.extend_from_slice(body);
        }
        Ok((body, _)) => put_reply(out, kind, Err(&too_large(body.len()))),
        Err(failure) => {
            let Failure { code, message, data } = failure;
            let data = data.as_deref().unwrap_or_default();
            if message.len().saturating_add(data.len()) > largest {
                return put_reply(out, kind, Err(&too_large(message.len().saturating_add(data.len()))));
            }
            let code = if code.0 == 0 { FailureCode::SERVER.0 } else { code.0 };
            out.extend_from_slice(&code.to_le_bytes());
            put_bytes(out, data.as_bytes());
            out.extend_from_slice(message.as_bytes());
        }
    }
}

fn too_large(length: usize) -> Failure {
    Failure::limit(format!("an answer of {length} bytes is too long for the connection to a plugin's process"))
}

/// Overwrites bytes with zeroes. Eight times as fast as writing byte by byte.
pub(crate) fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    // Keeps the compiler from removing writes that are never read.
    std::hint::black_box(bytes);
}

/// Received bytes, cut into frames.
#[derive(Debug)]
pub(crate) struct FrameBuffer {
    /// Fully initialised; the received bytes that are not cut yet are `start..end`.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl FrameBuffer {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; CHUNK], start: 0, end: 0 }
    }

    /// Size of the buffer after the next [`FrameBuffer::room`].
    pub(crate) fn bytes_with_room(&self) -> usize {
        let (arrived, length) = (self.end - self.start, self.bytes.len());
        if arrived == length {
            // At most a whole frame and the beginning of the next have to be kept.
            return (length * 2).min(LENGTH + MAX_FRAME + CHUNK);
        }
        if arrived < CHUNK / 2 { length.min(CHUNK) } else { length }
    }

    /// Free space for the next read; report the number of bytes read with [`FrameBuffer::arrived`].
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            let before = self.end;
            self.end -= self.start;
            self.start = 0;
            // Cut frames may have held secrets.
            wipe(self.bytes.get_mut(self.end..before).unwrap_or_default());
        }
        let length = self.bytes_with_room();
        if length < self.bytes.len() {
            self.bytes.truncate(length);
            self.bytes.shrink_to_fit();
        } else {
            self.bytes.resize(length, 0);
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    pub(crate) fn arrived(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    /// The next complete frame, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<Frame<'_>>, WireError> {
        let arrived = self.bytes.get(self.start..self.end).unwrap_or_default();
        let Some((length, rest)) = arrived.split_first_chunk::<LENGTH>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length < HEAD {
            return Err(WireError::TooShort(length));
        }
        if length > MAX_FRAME {
            return Err(WireError::TooLong(length));
        }
        // Its kind is checked as soon as it arrives: nothing is collected beyond that kind's maximum.
        let Some(&number) = rest.first() else { return Ok(None) };
        let kind = Kind::from_number(number).ok_or(WireError::UnknownKind(number))?;
        if length - HEAD > kind.max() {
            return Err(WireError::TooLongForKind(kind, length - HEAD));
        }
        let Some(frame) = rest.get(1..length) else { return Ok(None) };
        self.start += LENGTH + length;
        let Some((id, body)) = frame.split_first_chunk::<8>() else { return Err(WireError::TooShort(length)) };
        Ok(Some(Frame { kind, id: u64::from_le_bytes(*id), body }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take_in(buffer: &mut FrameBuffer, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = buffer.room();
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            buffer.arrived(count);
            bytes = &bytes[count..];
        }
    }

    #[test]
    fn a_long_error_message_is_cut_and_marked_as_cut() {
        let failure = Failure::server("\u{1}".repeat(MAX_MESSAGE + 7));
        let mut out = Vec::new();
        put_reply(&mut out, Kind::Reply, Err(&failure));

        let read = Fields { kind: Kind::Reply, rest: &out }.reply().unwrap().unwrap_err();

        assert_eq!(read.message.len(), MAX_MESSAGE + " … (7 bytes more)".len());
        assert!(read.message.ends_with("\u{1} … (7 bytes more)"));
    }

    #[test]
    fn data_of_an_error_is_kept_up_to_its_bound_and_left_out_beyond() {
        for (length, is_kept) in [(MAX_DATA, true), (MAX_DATA + 1, false)] {
            let failure = Failure::server("no").with_data(format!("\"{}\"", "1".repeat(length - 2)));
            let mut out = Vec::new();
            put_reply(&mut out, Kind::Reply, Err(&failure));

            let read = Fields { kind: Kind::Reply, rest: &out }.reply().unwrap().unwrap_err();

            assert_eq!(read.data.is_some(), is_kept);
            assert_eq!(
                read.message == "no (without its data of 262145 bytes, 262144 at most)",
                !is_kept,
                "{}",
                read.message
            );
        }
    }

    #[test]
    fn the_layout_of_a_frame_is_pinned() {
        let mut out = Vec::new();

        put_frame(&mut out, Kind::Call, 0x0102, |body| put_bytes(body, b"[]"));
        put_frame(&mut out, Kind::Reply, 3, |body| {
            put_reply(body, Kind::Reply, Err(&Failure::server("no").with_data("1")));
        });

        let expected = "0f000000030201000000000000020000005b5d140000008403000000000000000083ffff01000000316e6f";
        assert_eq!(hex::encode(out), expected);
    }

    #[test]
    fn an_item_keeps_the_position_of_its_event() {
        for position in [None, Some(EventPosition(0x0102))] {
            let mut out = Vec::new();
            put_item(&mut out, Kind::Item, Ok((b"[]", position)));

            let read = Fields { kind: Kind::Item, rest: &out }.item().unwrap();

            assert_eq!(read, Ok((b"[]".to_vec(), position)));
        }
    }

    #[test]
    fn false_lengths_are_refused_before_memory_is_allocated() {
        for (length, error) in [
            (8_u32, WireError::TooShort(8)),
            (u32::MAX, WireError::TooLong(u32::MAX as usize)),
            (0, WireError::TooShort(0)),
        ] {
            let mut buffer = FrameBuffer::new();
            take_in(&mut buffer, &length.to_le_bytes());

            assert_eq!(buffer.next(), Err(error));
            assert_eq!(buffer.bytes.len(), CHUNK);
        }
    }

    #[test]
    fn a_length_that_its_kind_never_has_is_refused_before_the_body_arrives() {
        for (kind, announced) in
            [(Kind::Log, 5000_usize), (Kind::BusCredit, 5), (Kind::Pong, 1), (Kind::BusCall, 40 << 20)]
        {
            let mut buffer = FrameBuffer::new();
            let length = u32::try_from(announced + HEAD).unwrap().to_le_bytes();
            take_in(&mut buffer, &[&length[..], &[kind as u8]].concat());

            assert_eq!(buffer.next(), Err(WireError::TooLongForKind(kind, announced)));
            assert_eq!(buffer.bytes.len(), CHUNK);
        }
    }

    #[test]
    fn an_answer_too_long_for_its_kind_becomes_an_error() {
        let large = vec![b'1'; MAX_ITEM];
        let mut out = Vec::new();

        put_frame(&mut out, Kind::Item, 1, |body| put_reply(body, Kind::Item, Ok(&large)));

        let mut buffer = FrameBuffer::new();
        take_in(&mut buffer, &out);
        let failure = buffer.next().unwrap().unwrap().fields().reply().unwrap().unwrap_err();
        assert_eq!(failure.message, "an answer of 16777216 bytes is too long for the connection to a plugin's process");
    }

    #[test]
    fn a_kind_that_does_not_exist_and_a_body_that_is_cut_are_refused() {
        let mut buffer = FrameBuffer::new();
        take_in(&mut buffer, &[9, 0, 0, 0, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(buffer.next(), Err(WireError::UnknownKind(0x7f)));

        let cut = Frame { kind: Kind::Call, id: 1, body: &[200, 0, 0, 0, 1] };
        assert_eq!(cut.fields().bytes(), Err(WireError::Malformed(Kind::Call)));
    }

    #[test]
    fn a_buffer_shrinks_after_a_large_frame() {
        let mut large = Vec::new();
        put_frame(&mut large, Kind::Item, 1, |body| body.extend_from_slice(&[7; CHUNK * 5]));
        let mut buffer = FrameBuffer::new();
        take_in(&mut buffer, &large);
        assert_eq!(buffer.next().unwrap().unwrap().body.len(), CHUNK * 5);

        let room = buffer.room().len();

        assert_eq!(room, CHUNK);
    }

    proptest! {
        #[test]
        fn frames_survive_any_cut(bodies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..8), cut in 1_usize..64) {
            let mut stream = Vec::new();
            for (id, body) in (0..).zip(&bodies) {
                put_frame(&mut stream, Kind::Item, id, |out| out.extend_from_slice(body));
            }
            let mut buffer = FrameBuffer::new();
            let mut read = Vec::new();
            for piece in stream.chunks(cut) {
                take_in(&mut buffer, piece);
                while let Some(frame) = buffer.next().unwrap() {
                    prop_assert_eq!(frame.id, read.len() as u64);
                    read.push(frame.body.to_vec());
                }
            }
            prop_assert_eq!(read, bodies);
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut buffer = FrameBuffer::new();
            take_in(&mut buffer, &bytes);
            while let Ok(Some(frame)) = buffer.next() {
                let _ = frame.fields().reply();
            }
        }
    }
}
