//! Bodies of answers: as they are, or gzip while they are sent.

use std::{
    convert::Infallible,
    io::Write as _,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use flate2::{Compression, Crc, write::GzEncoder};
use hyper::body::{Body, Frame, SizeHint};

use crate::envelope::Reply;

/// Up to this size a body is stored in its gzip envelope instead of compressed: setting up a compressor costs
/// more than all the rest of a small answer, and saves nothing.
const STORE_UP_TO: usize = 512;

/// How much is compressed at a time, so that a large answer does not hold up the other connections.
const STEP: usize = 64 << 10;

/// The body of one answer.
#[derive(Debug, Default)]
pub(crate) struct AnswerBody {
    /// In order; what has been sent is empty. An array, so that a small answer allocates nothing here.
    pieces: [Bytes; 3],
    compressor: Option<Box<GzEncoder<Vec<u8>>>>,
}

impl AnswerBody {
    /// Nothing.
    pub(crate) fn empty() -> Self {
        Self::default()
    }

    /// One piece.
    pub(crate) fn text(text: impl Into<Bytes>) -> Self {
        Self { pieces: [text.into(), Bytes::new(), Bytes::new()], compressor: None }
    }

    /// The pieces of a reply.
    pub(crate) fn reply(reply: Reply) -> Self {
        Self { pieces: reply.segments, compressor: None }
    }

    fn length(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    fn next_piece(&mut self) -> Option<&mut Bytes> {
        self.pieces.iter_mut().find(|piece| !piece.is_empty())
    }

    /// The same, gzip-coded.
    pub(crate) fn into_gzip(mut self) -> Self {
        if self.length() <= STORE_UP_TO {
            return Self::text(stored_gzip(&self.pieces.concat()));
        }
        self.compressor = Some(Box::new(GzEncoder::new(Vec::with_capacity(STEP / 2), Compression::fast())));
        self
    }

    /// The next compressed piece; `None` at the end.
    fn compress(&mut self) -> Option<Bytes> {
        let mut encoder = self.compressor.take()?;
        while let Some(piece) = self.next_piece() {
            let step = piece.split_to(piece.len().min(STEP));
            // Writing to a vector cannot fail.
            let _ = encoder.write_all(&step);
            if !encoder.get_ref().is_empty() {
                let compressed = std::mem::take(encoder.get_mut());
                self.compressor = Some(encoder);
                return Some(compressed.into());
            }
        }
        Some(encoder.finish().unwrap_or_default().into())
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = if self.compressor.is_some() { self.compress() } else { self.next_piece().map(std::mem::take) };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.length() == 0 && self.compressor.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.compressor.is_some() {
            return SizeHint::default();
        }
        SizeHint::with_exact(self.length() as u64)
    }
}

/// A gzip file with one stored block (RFC 1952, RFC 1951 3.2.4). `text` must be shorter than 64 KiB.
fn stored_gzip(text: &[u8]) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    let mut crc = Crc::new();
    crc.update(text);
    let mut file = Vec::with_capacity(text.len() + 23);
    file.extend_from_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 1]);
    file.extend_from_slice(&length.to_le_bytes());
    file.extend_from_slice(&(!length).to_le_bytes());
    file.extend_from_slice(text);
    file.extend_from_slice(&crc.sum().to_le_bytes());
    file.extend_from_slice(&crc.amount().to_le_bytes());
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn what_is_compressed_is_read_back_whatever_its_size() {
        for size in [0, 1, 43, 512, 513, 100_000, 300_000] {
            let text: Vec<u8> = (0..size).map(|index| b"0123456789abcdef"[(index * index / 7) % 16]).collect();
            let mut body = AnswerBody::text(text.clone()).into_gzip();
            let mut sent = Vec::new();
            while let Poll::Ready(Some(Ok(frame))) =
                Pin::new(&mut body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()))
            {
                sent.extend_from_slice(&frame.into_data().unwrap());
            }
            let mut read = Vec::new();

            flate2::read::GzDecoder::new(&sent[..]).read_to_end(&mut read).unwrap();

            assert!(read == text, "{size}");
            assert!(body.is_end_stream(), "{size}");
        }
    }
}
