//! Bodies of answers: unchanged, or compressed with gzip while they are sent.
//!
//! Implemented here with flate2, because tower-http's `CompressionLayer` adds `Vary: accept-encoding`, which the
//! reference does not send, and cannot hold the reservation of an answer until it is written.

use std::{
    convert::Infallible,
    io::{IoSlice, Write as _},
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{Buf, Bytes};
use flate2::{Compression, Crc, write::GzEncoder};
use hyper::body::{Body, Frame, SizeHint};
use tenon_bus::Reservation;

use super::conversation::UnwrittenAnswer;
use crate::envelope::Reply;

/// Bodies up to this size are stored in a gzip envelope instead of compressed: setting up a compressor costs more than
/// the rest of a small answer, and saves nothing.
const STORE_UP_TO: usize = 512;

/// Bytes compressed at a time, so that a large answer does not delay the other connections.
const STEP: usize = 64 << 10;

/// Ordered pieces of an answer, passed to hyper together. Passed one by one, each piece of an answer that fills hyper's
/// buffer would cost a write, a packet and a wake of the client. The last piece has only two bytes.
///
/// Small, because hyper moves it several times for each answer.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    first: Bytes,
    rest: Option<Box<[Bytes; 2]>>,
    /// Reservation of a large answer until it is written: hyper drops the pieces then.
    _memory: Option<Reservation>,
    /// In the last pieces of an answer: marks the answer as unwritten until then.
    unwritten: Option<UnwrittenAnswer>,
}

impl Pieces {
    fn one(piece: Bytes) -> Self {
        Self { first: piece, ..Self::default() }
    }

    fn all(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.first).chain(self.rest.iter().flat_map(|rest| rest.iter()))
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Bytes> {
        std::iter::once(&mut self.first).chain(self.rest.iter_mut().flat_map(|rest| rest.iter_mut()))
    }

    fn next(&mut self) -> Option<&mut Bytes> {
        self.all_mut().find(|piece| !piece.is_empty())
    }
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.first.len() + self.rest.as_ref().map_or(0, |rest| rest.iter().map(Bytes::len).sum())
    }

    fn chunk(&self) -> &[u8] {
        self.all().find(|piece| !piece.is_empty()).map_or(&[], |piece| piece)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let pieces = self.all().filter(|piece| !piece.is_empty());
        slices.iter_mut().zip(pieces).map(|(slice, piece)| *slice = IoSlice::new(piece)).count()
    }

    fn advance(&mut self, count: usize) {
        let mut left = count;
        for piece in self.all_mut() {
            let step = left.min(piece.len());
            piece.advance(step);
            left -= step;
        }
    }
}

/// The body of one answer.
#[derive(Debug, Default)]
pub(crate) struct AnswerBody {
    /// Sent pieces are empty. Not a list, so that a small answer allocates nothing here.
    pieces: Pieces,
    compressor: Option<Box<GzEncoder<Vec<u8>>>>,
}

impl AnswerBody {
    /// An empty body.
    pub(crate) fn empty() -> Self {
        Self::default()
    }

    /// A body of one piece.
    pub(crate) fn text(text: impl Into<Bytes>) -> Self {
        Self { pieces: Pieces::one(text.into()), compressor: None }
    }

    /// A body with the pieces of a reply.
    pub(crate) fn reply(reply: Reply) -> Self {
        let Reply { first, rest, memory } = reply;
        Self { pieces: Pieces { first, rest, _memory: memory, unwritten: None }, compressor: None }
    }

    /// Keeps `answer` until the whole body is written. An empty body is dropped with its head.
    pub(crate) fn hold_until_written(&mut self, answer: UnwrittenAnswer) {
        self.pieces.unwritten = Some(answer);
    }

    fn length(&self) -> usize {
        self.pieces.remaining()
    }

    /// Compresses the body with gzip.
    pub(crate) fn into_gzip(mut self) -> Self {
        if self.length() <= STORE_UP_TO {
            let text: Vec<u8> = self.pieces.all().flatten().copied().collect();
            return Self::text(stored_gzip(&text));
        }
        self.compressor = Some(Box::new(GzEncoder::new(Vec::with_capacity(STEP / 2), Compression::fast())));
        self
    }

    /// The next compressed piece; `None` at the end.
    fn compress(&mut self) -> Option<Bytes> {
        let mut encoder = self.compressor.take()?;
        while let Some(piece) = self.pieces.next() {
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
    type Data = Pieces;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Pieces>, Infallible>>> {
        let pieces = match self.compressor {
            Some(_) => self.compress().map(|compressed| {
                let unwritten = if self.compressor.is_none() { self.pieces.unwritten.take() } else { None };
                Pieces { unwritten, ..Pieces::one(compressed) }
            }),
            None => self.pieces.has_remaining().then(|| std::mem::take(&mut self.pieces)),
        };
        Poll::Ready(pieces.map(|pieces| Ok(Frame::data(pieces))))
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
    use std::{io::Read as _, net::Ipv4Addr, sync::Arc, time::Duration};

    use super::*;
    use crate::{connections::Activity as _, http::conversation::Conversation};

    #[test]
    fn compressed_data_of_any_size_round_trips() {
        for size in [0, 1, 43, 512, 513, 100_000, 300_000] {
            let text: Vec<u8> = (0..size).map(|index| b"0123456789abcdef"[(index * index / 7) % 16]).collect();
            let mut body = AnswerBody::text(text.clone()).into_gzip();
            let mut sent = Vec::new();
            while let Poll::Ready(Some(Ok(frame))) =
                Pin::new(&mut body).poll_frame(&mut Context::from_waker(std::task::Waker::noop()))
            {
                sent.extend(frame.into_data().unwrap().all().flatten());
            }
            let mut read = Vec::new();

            flate2::read::GzDecoder::new(&sent[..]).read_to_end(&mut read).unwrap();

            assert!(read == text, "{size}");
            assert!(body.is_end_stream(), "{size}");
        }
    }

    #[test]
    fn pieces_are_sent_together_and_from_any_place_on() {
        let whole = b"head and body!";
        let rest = || Box::new([&b""[..], &whole[5..]].map(Bytes::from_static));
        let pieces = || Pieces { first: Bytes::from_static(&whole[..5]), rest: Some(rest()), ..Pieces::default() };
        for sent in 0..=whole.len() {
            let mut pieces = pieces();
            pieces.advance(sent);

            let mut slices = [IoSlice::new(&[]); 4];
            let count = pieces.chunks_vectored(&mut slices);

            let left: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            assert_eq!(left, whole[sent..]);
            assert_eq!(pieces.remaining(), left.len());
            assert!(left.starts_with(pieces.chunk()) && pieces.chunk().is_empty() == left.is_empty());
        }
        let mut body = AnswerBody { pieces: pieces(), compressor: None };
        let context = &mut Context::from_waker(std::task::Waker::noop());
        let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(context) else { panic!("no frame") };
        assert_eq!(frame.into_data().unwrap().remaining(), whole.len());
        assert!(body.is_end_stream(), "one frame has it all");
    }

    #[tokio::test]
    async fn an_answer_is_unwritten_until_the_last_of_its_pieces_is_dropped() {
        let conversation = Arc::new(Conversation::new(Ipv4Addr::LOCALHOST.into(), Duration::from_secs(60)));
        let context = &mut Context::from_waker(std::task::Waker::noop());
        let text = |length| AnswerBody::text(vec![b'x'; length]);
        for (name, mut body) in
            [("plain", text(5)), ("stored", text(5).into_gzip()), ("compressed", text(300_000).into_gzip())]
        {
            body.hold_until_written(conversation.begin_answer());
            let mut last = None;
            while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(context) {
                assert!(!conversation.is_disposable(), "{name}");
                last = Some(frame);
            }
            drop(body);

            assert!(!conversation.is_disposable(), "{name}: hyper has not written it");
            drop(last);
            assert!(conversation.is_disposable(), "{name}");
        }
    }

    #[tokio::test]
    async fn a_body_that_is_never_written_does_not_keep_its_connection() {
        let conversation = Arc::new(Conversation::new(Ipv4Addr::LOCALHOST.into(), Duration::from_secs(60)));
        let mut empty = AnswerBody::empty();
        empty.hold_until_written(conversation.begin_answer());
        let next = conversation.begin_answer();
        assert!(!conversation.is_disposable(), "of two requests, none has been answered");

        drop(empty);
        assert!(!conversation.is_disposable(), "the other one has not");
        drop(next);

        assert!(conversation.is_disposable());
    }

    #[test]
    fn an_answer_is_counted_until_the_last_of_its_pieces_is_dropped() {
        let client = tenon_bus::MemoryBudget::unbounded().client(tenon_bus::ClientId::INSIDE);
        let context = &mut Context::from_waker(std::task::Waker::noop());
        let mut reply = Reply::whole(vec![b'x'; 100_000]);
        reply.memory = client.reserve(tenon_bus::MemoryUse::Answers, 100_000).ok();
        let mut body = AnswerBody::reply(reply);

        let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(context) else { panic!("no frame") };
        drop(body);

        assert_eq!(client.held(), 100_000, "hyper has not written it");
        drop(frame);
        assert_eq!(client.held(), 0);
    }
}
