//! WebSocket frames, the server's side (RFC 6455, 5). No extensions.
//!
//! Implemented here, because tokio-websockets 0.13, fastwebsockets 0.10 and tungstenite 0.28 do not fit:
//!
//! - They reserve the length that a frame announces before its bytes arrive. A header of 14 bytes would take as much
//!   memory as the largest message, outside the budget that all clients share.
//! - They own the buffers that they read into, so secrets in them cannot be wiped.
//! - They cannot drop a message that has begun.
//!
//! docs/performance-history.md has their measurements.

use bytes::{Buf as _, Bytes, BytesMut};
use zeroize::Zeroize as _;

use crate::envelope::{ALWAYS_WIPED, grow_message};

/// Maximum length of the reason in a close frame, bytes (RFC 6455, 5.5): 125 with the code.
const MAX_REASON: usize = 123;

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CloseCode(pub(crate) u16);

impl CloseCode {
    pub(crate) const NORMAL: Self = Self(1000);
    pub(crate) const GOING_AWAY: Self = Self(1001);
    pub(crate) const PROTOCOL: Self = Self(1002);
    pub(crate) const POLICY: Self = Self(1008);
    pub(crate) const TOO_BIG: Self = Self(1009);

    /// The close frame with this code.
    pub(crate) fn frame(self) -> Bytes {
        self.frame_with("")
    }

    /// The close frame with this code and a reason, cut at [`MAX_REASON`] bytes.
    pub(crate) fn frame_with(self, reason: &'static str) -> Bytes {
        let reason = reason.as_bytes().get(..MAX_REASON).unwrap_or(reason.as_bytes());
        let mut frame = Vec::with_capacity(4 + reason.len());
        frame.extend_from_slice(&[0x80 | CLOSE, 2 + u8::try_from(reason.len()).unwrap_or_default()]);
        frame.extend_from_slice(&self.0.to_be_bytes());
        frame.extend_from_slice(reason);
        frame.into()
    }
}

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Result of decoding received bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// An incomplete message.
    More,
    /// A message, its fragments joined.
    Message(BytesMut),
    /// A ping; reply with this pong.
    Pong(Bytes),
    /// A close frame; reply with this one.
    Closed(Bytes),
    /// The other side violates the protocol or its limits.
    Violation(CloseCode),
}

/// Joins frames into messages. Memory grows with received bytes, never with the announced length.
#[derive(Debug)]
pub(crate) struct Decoder {
    max: usize,
    /// Fragments so far; `None` outside a fragmented message.
    fragments: Option<BytesMut>,
    /// Bytes of the current frame to discard as they arrive.
    skipped: usize,
    /// Whether the current message is discarded, including its further frames.
    is_dropping: bool,
}

struct Header {
    is_final: bool,
    opcode: u8,
    length: usize,
    mask: [u8; 4],
    size: usize,
}

impl Decoder {
    /// Creates a decoder that refuses messages beyond `max` bytes.
    pub(crate) const fn new(max: usize) -> Self {
        Self { max, fragments: None, skipped: 0, is_dropping: false }
    }

    /// Bytes of kept fragments.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.fragments.as_ref().map_or(0, BytesMut::capacity)
    }

    /// Discards the incomplete message. Returns false if no frame of it has begun.
    pub(crate) fn drop_message(&mut self, buffer: &mut BytesMut) -> bool {
        let is_under_way = self.fragments.is_some();
        match read_header(buffer) {
            Ok(Some(header)) if !header.is_control() => self.skip(&header, buffer),
            _ if is_under_way => self.is_dropping = true,
            _ => return false,
        }
        self.discard_fragments();
        true
    }

    /// Discards the fragments, which may contain a password. While the message is being discarded, none are kept: further
    /// frames are its continuation, and are discarded too.
    fn discard_fragments(&mut self) {
        if let Some(fragments) = &mut self.fragments {
            fragments.as_mut().zeroize();
        }
        self.fragments = self.is_dropping.then(BytesMut::new);
    }

    /// Discards the first frame of `buffer`, including its bytes that have not arrived yet.
    fn skip(&mut self, header: &Header, buffer: &mut BytesMut) {
        let whole = header.size.saturating_add(header.length);
        let arrived = whole.min(buffer.len());
        discard(buffer, arrived);
        self.skipped = whole - arrived;
        self.is_dropping = !header.is_final;
    }

    /// Takes the next message or control frame from `buffer`.
    pub(crate) fn next(&mut self, buffer: &mut BytesMut) -> Decoded {
        loop {
            let skipped = self.skipped.min(buffer.len());
            discard(buffer, skipped);
            self.skipped -= skipped;
            if self.skipped > 0 {
                return Decoded::More;
            }
            let header = match read_header(buffer) {
                Ok(Some(header)) => header,
                Ok(None) => return Decoded::More,
                Err(code) => return Decoded::Violation(code),
            };
            if let Err(code) = self.check(&header) {
                return Decoded::Violation(code);
            }
            if self.is_dropping && !header.is_control() {
                self.skip(&header, buffer);
                self.discard_fragments();
                continue;
            }
            if buffer.len() - header.size < header.length {
                return Decoded::More;
            }
            buffer.advance(header.size);
            let mut payload = buffer.split_to(header.length);
            unmask(&mut payload, header.mask);
            match header.opcode {
                CLOSE => return closed(&payload),
                PING => return Decoded::Pong(control(PONG, &payload)),
                PONG => {}
                _ => {
                    if let Some(message) = self.join(header.is_final, payload) {
                        return Decoded::Message(message);
                    }
                }
            }
        }
    }

    fn check(&self, header: &Header) -> Result<(), CloseCode> {
        match header.opcode {
            CLOSE | PING | PONG if header.is_final && header.length <= 125 => return Ok(()),
            CONTINUATION if self.fragments.is_some() => {}
            TEXT | BINARY if self.fragments.is_none() => {}
            _ => return Err(CloseCode::PROTOCOL),
        }
        let before = self.fragments.as_ref().map_or(0, BytesMut::len);
        if header.length > self.max.saturating_sub(before) { Err(CloseCode::TOO_BIG) } else { Ok(()) }
    }

    /// Joins the frames of a message. No copy of a small message's parts stays behind.
    fn join(&mut self, is_final: bool, mut payload: BytesMut) -> Option<BytesMut> {
        match (self.fragments.take(), is_final) {
            (None, true) => Some(payload),
            (None, false) => {
                self.fragments = Some(payload);
                None
            }
            (Some(mut fragments), _) => {
                let length = fragments.len() + payload.len();
                let capacity = fragments.capacity();
                if length > capacity {
                    grow_message(&mut fragments, length.max(2 * capacity));
                }
                fragments.extend_from_slice(&payload);
                if length <= ALWAYS_WIPED {
                    payload.as_mut().zeroize();
                }
                if is_final {
                    return Some(fragments);
                }
                self.fragments = Some(fragments);
                None
            }
        }
    }
}

/// Wipes an unfinished message: it may contain a password.
impl Drop for Decoder {
    fn drop(&mut self) {
        if let Some(fragments) = &mut self.fragments {
            fragments.as_mut().zeroize();
        }
    }
}

impl Header {
    const fn is_control(&self) -> bool {
        matches!(self.opcode, CLOSE | PING | PONG)
    }
}

/// Removes the beginning of the buffer, which may contain a password of a refused message.
fn discard(buffer: &mut BytesMut, length: usize) {
    buffer[..length].zeroize();
    buffer.advance(length);
}

fn read_header(buffer: &BytesMut) -> Result<Option<Header>, CloseCode> {
    let [first, second, rest @ ..] = &buffer[..] else { return Ok(None) };
    // No extension is negotiated, and a client must mask (RFC 6455, 5.1 and 5.2).
    if first & 0x70 != 0 || second & 0x80 == 0 {
        return Err(CloseCode::PROTOCOL);
    }
    let (length, length_size) = match second & 0x7f {
        126 => match rest.first_chunk::<2>() {
            Some(bytes) => (u64::from(u16::from_be_bytes(*bytes)), 2),
            None => return Ok(None),
        },
        127 => match rest.first_chunk::<8>() {
            Some(bytes) => (u64::from_be_bytes(*bytes), 8),
            None => return Ok(None),
        },
        short => (u64::from(short), 0),
    };
    let Some(mask) = rest[length_size..].first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(length).map_err(|_| CloseCode::TOO_BIG)?;
    let size = 2 + length_size + 4;
    Ok(Some(Header { is_final: first & 0x80 != 0, opcode: first & 0x0f, length, mask: *mask, size }))
}

fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let mask = u32::from_ne_bytes(mask);
    let (words, rest) = payload.as_chunks_mut::<4>();
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ mask).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask.to_ne_bytes()) {
        *byte ^= mask;
    }
}

fn closed(payload: &[u8]) -> Decoded {
    let code = match payload {
        [] => CloseCode::NORMAL,
        [high, low, reason @ ..] => {
            let code = u16::from_be_bytes([*high, *low]);
            let is_sendable = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
            if is_sendable && std::str::from_utf8(reason).is_ok() { CloseCode(code) } else { CloseCode::PROTOCOL }
        }
        [_] => CloseCode::PROTOCOL,
    };
    Decoded::Closed(code.frame())
}

/// A whole control frame; its payload has at most 125 bytes.
fn control(opcode: u8, payload: &[u8]) -> Bytes {
    let mut frame = Vec::with_capacity(2 + payload.len());
    frame.push(0x80 | opcode);
    frame.push(u8::try_from(payload.len()).unwrap_or(125));
    frame.extend_from_slice(payload);
    frame.into()
}

/// An empty ping.
pub(crate) fn ping() -> Bytes {
    Bytes::from_static(&[0x80 | PING, 0])
}

/// The header of a text message of `length` bytes.
pub(crate) fn write_text_header(out: &mut Vec<u8>, length: usize) {
    out.push(0x80 | TEXT);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => out.push(short),
        (_, Ok(medium)) => {
            out.push(126);
            out.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        write_text_header(&mut frame, payload.len());
        frame[0] = first;
        frame[1] |= 0x80;
        let mask = [1, 2, 3, 4];
        frame.extend_from_slice(&mask);
        let mut masked = payload.to_vec();
        unmask(&mut masked, mask);
        frame.extend_from_slice(&masked);
        frame
    }

    fn decode_all(max: usize, bytes: &[u8]) -> Vec<Decoded> {
        let mut buffer = BytesMut::from(bytes);
        let mut decoder = Decoder::new(max);
        let mut all = Vec::new();
        loop {
            match decoder.next(&mut buffer) {
                Decoded::More => return all,
                other => {
                    let is_last = matches!(other, Decoded::Violation(_) | Decoded::Closed(_));
                    all.push(other);
                    if is_last {
                        return all;
                    }
                }
            }
        }
    }

    #[test]
    fn joins_fragments_and_answers_pings_between_them() {
        let bytes = [frame(0x01, b"{\"a\""), frame(0x89, b"hi"), frame(0x00, b":"), frame(0x80, b"1}")].concat();

        let decoded = decode_all(100, &bytes);

        let expected =
            [Decoded::Pong(Bytes::from_static(b"\x8a\x02hi")), Decoded::Message(BytesMut::from(&b"{\"a\":1}"[..]))];
        assert_eq!(decoded, expected);
    }

    #[test]
    fn reads_all_three_length_forms() {
        for length in [0, 125, 126, 65_535, 65_536, 200_000] {
            let payload = vec![b'x'; length];

            let decoded = decode_all(1 << 20, &frame(0x82, &payload));

            assert_eq!(decoded, [Decoded::Message(BytesMut::from(&payload[..]))], "{length}");
        }
    }

    #[test]
    fn a_dropped_message_is_skipped_to_its_end_and_the_next_is_read() {
        let next = frame(0x81, b"next");
        let fragmented = [frame(0x01, &[b'a'; 50]), frame(0x89, b"hi"), frame(0x00, &[b'b'; 40])].concat();
        for (message, begun) in [
            (frame(0x81, &[b'x'; 90]), 30),
            (frame(0x81, &[b'x'; 90]), 6),
            ([fragmented.clone(), frame(0x80, b"end")].concat(), 20),
            ([fragmented, frame(0x80, b"end")].concat(), 75),
        ] {
            for piece in [1, 7, 1000] {
                let mut decoder = Decoder::new(1000);
                let mut buffer = BytesMut::from(&message[..begun]);
                while decoder.next(&mut buffer) != Decoded::More {}

                assert!(decoder.drop_message(&mut buffer), "{begun}");
                let mut decoded = Vec::new();
                for piece in [&message[begun..], &next].concat().chunks(piece) {
                    buffer.extend_from_slice(piece);
                    loop {
                        match decoder.next(&mut buffer) {
                            Decoded::More => break,
                            other => decoded.push(other),
                        }
                    }
                }

                decoded.retain(|decoded| !matches!(decoded, Decoded::Pong(_)));
                assert_eq!(decoded, [Decoded::Message(BytesMut::from(&b"next"[..]))], "{begun} {piece}");
                assert_eq!(decoder.kept_bytes(), 0);
            }
        }
        assert!(!Decoder::new(10).drop_message(&mut BytesMut::new()), "nothing has begun");
    }

    #[test]
    fn refuses_what_the_protocol_forbids() {
        for (bytes, code) in [
            (frame(0xc1, b"x"), CloseCode::PROTOCOL),
            (vec![0x81, 1, b'x'], CloseCode::PROTOCOL),
            (frame(0x80, b"x"), CloseCode::PROTOCOL),
            ([frame(0x01, b"x"), frame(0x81, b"x")].concat(), CloseCode::PROTOCOL),
            (frame(0x09, b"x"), CloseCode::PROTOCOL),
            (frame(0x89, &[0; 126]), CloseCode::PROTOCOL),
            (frame(0x83, b"x"), CloseCode::PROTOCOL),
            (frame(0x81, &[0; 101]), CloseCode::TOO_BIG),
            ([frame(0x01, &[0; 60]), frame(0x80, &[0; 60])].concat(), CloseCode::TOO_BIG),
            (vec![0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0], CloseCode::TOO_BIG),
        ] {
            assert_eq!(decode_all(100, &bytes), [Decoded::Violation(code)], "{bytes:?}");
        }
    }

    #[test]
    fn answers_a_close_with_its_own_code_if_that_may_be_sent() {
        for (payload, code) in [(&b""[..], 1000), (&[0x03, 0xe9], 1001), (&[0x03, 0xed], 1002), (&[0x03], 1002)] {
            assert_eq!(decode_all(100, &frame(0x88, payload)), [Decoded::Closed(CloseCode(code).frame())]);
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics_and_never_keeps_more_than_its_bound(bytes: Vec<u8>) {
            let mut decoder = Decoder::new(64);
            let mut buffer = BytesMut::from(&bytes[..]);
            while !matches!(decoder.next(&mut buffer), Decoded::More | Decoded::Violation(_) | Decoded::Closed(_)) {}
            proptest::prop_assert!(decoder.fragments.as_ref().map_or(0, BytesMut::len) <= 64);
        }
    }
}
