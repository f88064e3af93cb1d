//! Frames: encryption, MACs and sizes (`docs/spec/p2p.md` 7). The caller encodes and decodes the content of a frame's
//! body.

use aes::Aes256;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher};

use crate::FrameError;
use crate::compression::with_compressed;
use crate::secrets::{RunningMac, Secrets};

/// Size of an encrypted header with its MAC.
pub(crate) const HEADER_BYTES: usize = 32;
/// Maximum size of a frame's content, which the header states in three bytes.
pub(crate) const MAX_CONTENT_BYTES: usize = (1 << 24) - 1;
const BLOCK: usize = 16;
/// The constant rest of the header: an empty capability id and context, which receivers ignore.
const HEADER_DATA: [u8; 3] = [0xc2, 0x80, 0x80];

/// One direction of a connection.
struct Direction {
    cipher: Ctr128BE<Aes256>,
    mac: RunningMac,
}

/// Encodes and decodes the frames of a connection.
pub(crate) struct FrameCodec {
    out: Direction,
    into: Direction,
    /// Content size of the frame whose header was already read; `None` before the header.
    expected: Option<usize>,
}

impl FrameCodec {
    pub(crate) fn new(secrets: Secrets, is_initiator: bool) -> Self {
        let cipher = || Ctr128BE::<Aes256>::new((&*secrets.aes).into(), &[0; BLOCK].into());
        let initiator = Direction { cipher: cipher(), mac: secrets.initiator_mac };
        let responder = Direction { cipher: cipher(), mac: secrets.responder_mac };
        let (out, into) = if is_initiator { (initiator, responder) } else { (responder, initiator) };
        Self { out, into, expected: None }
    }

    /// The digests of both MACs, outgoing first.
    #[cfg(test)]
    pub(crate) fn mac_digests(&self) -> (alloy_primitives::B256, alloy_primitives::B256) {
        (self.out.mac.digest(), self.into.mac.digest())
    }

    /// Encodes a frame with `code` and `payload`.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] if the size does not fit into three bytes.
    pub(crate) fn encode(&mut self, code: u64, payload: &[u8]) -> Result<Vec<u8>, FrameError> {
        self.seal(unsealed(code, payload))
    }

    /// Encodes a frame with `code` and the compressed `payload`.
    ///
    /// # Errors
    /// [`FrameError::TooLong`] if the size does not fit into three bytes, [`FrameError::Compression`] for more than 4 GiB.
    pub(crate) fn encode_compressed(&mut self, code: u64, payload: &[u8]) -> Result<Vec<u8>, FrameError> {
        let frame = with_compressed(payload, |compressed| unsealed(code, compressed))?;
        self.seal(frame)
    }

    /// Adds header, padding and MACs to a frame with room for its header, and encrypts it.
    fn seal(&mut self, mut frame: Vec<u8>) -> Result<Vec<u8>, FrameError> {
        let size = frame.len() - HEADER_BYTES;
        if size > MAX_CONTENT_BYTES {
            return Err(FrameError::TooLong { bytes: size, limit: MAX_CONTENT_BYTES });
        }
        let mut header = [0; BLOCK];
        header[..3].copy_from_slice(&(size as u32).to_be_bytes()[1..]);
        header[3..6].copy_from_slice(&HEADER_DATA);
        self.out.cipher.apply_keystream(&mut header);
        frame[..BLOCK].copy_from_slice(&header);
        frame[BLOCK..HEADER_BYTES].copy_from_slice(&self.out.mac.header(&header));
        frame.resize(HEADER_BYTES + size.next_multiple_of(BLOCK), 0);
        self.out.cipher.apply_keystream(&mut frame[HEADER_BYTES..]);
        let mac = self.out.mac.body(&frame[HEADER_BYTES..]);
        frame.extend_from_slice(&mac);
        Ok(frame)
    }

    /// Number of bytes that the next call of [`FrameCodec::decode`] requires.
    pub(crate) fn needed(&self) -> usize {
        match self.expected {
            None => HEADER_BYTES,
            Some(size) => size.next_multiple_of(BLOCK) + BLOCK,
        }
    }

    /// Decodes the next part from `input`, which must have exactly [`FrameCodec::needed`] bytes. Returns `None` after a
    /// header; after a body, decrypts the content in place and returns it.
    ///
    /// # Errors
    /// A wrong MAC, or a declared size above `limit`. The connection is unusable afterwards.
    pub(crate) fn decode<'a>(&mut self, input: &'a mut [u8], limit: usize) -> Result<Option<&'a [u8]>, FrameError> {
        let Some(size) = self.expected.take() else {
            self.expected = Some(self.decode_header(input, limit)?);
            return Ok(None);
        };
        let (body, mac) = input.split_last_chunk_mut::<BLOCK>().ok_or(FrameError::BodyMac)?;
        if !equal(&self.into.mac.body(body), mac) {
            return Err(FrameError::BodyMac);
        }
        self.into.cipher.apply_keystream(body);
        body.get(..size).map(Some).ok_or(FrameError::BodyMac)
    }

    fn decode_header(&mut self, input: &[u8], limit: usize) -> Result<usize, FrameError> {
        let (header, rest) = input.split_first_chunk::<BLOCK>().ok_or(FrameError::HeaderMac)?;
        let mac = rest.first_chunk::<BLOCK>().ok_or(FrameError::HeaderMac)?;
        if !equal(&self.into.mac.header(header), mac) {
            return Err(FrameError::HeaderMac);
        }
        let mut plain = *header;
        self.into.cipher.apply_keystream(&mut plain);
        let size = usize::from(plain[0]) << 16 | usize::from(plain[1]) << 8 | usize::from(plain[2]);
        if size > limit {
            return Err(FrameError::TooLong { bytes: size, limit });
        }
        Ok(size)
    }
}

/// A frame without its header and MACs, with room for them.
fn unsealed(code: u64, payload: &[u8]) -> Vec<u8> {
    let code = alloy_rlp::encode(code);
    let mut frame = Vec::with_capacity(HEADER_BYTES + code.len() + payload.len() + 2 * BLOCK);
    frame.resize(HEADER_BYTES, 0);
    frame.extend_from_slice(&code);
    frame.extend_from_slice(payload);
    frame
}

/// Compares in constant time.
fn equal(one: &[u8; BLOCK], other: &[u8; BLOCK]) -> bool {
    one.iter().zip(other).fold(0, |difference, (one, other)| difference | (one ^ other)) == 0
}
