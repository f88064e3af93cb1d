//! A TCP connection that does not wait for ever.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::conversation::Conversation;
use crate::{patience::Patience, traffic::Meter};

/// Head and body of an answer up to this size are joined before they are written: the system takes one small piece
/// for less than the copy and the list of two cost.
const JOIN_UP_TO: usize = 512;

/// How long a connection waits for its client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// For the next byte.
    pub(crate) idle: Duration,
    /// For the end of a request's head, from its first byte: a client that sends a byte now and then would
    /// otherwise keep its place for ever.
    pub(crate) head: Duration,
    /// For the client to read.
    pub(crate) write: Duration,
}

/// Ends reading and writing when their time is over.
pub(crate) struct TimedStream {
    inner: TcpStream,
    waits: Waits,
    conversation: Arc<Conversation>,
    /// The conversation's turns when they were last looked at.
    turns: u32,
    reading: Patience,
    /// Set while only a part of a request's head has arrived.
    head: Option<Patience>,
    is_in_head: bool,
    writing: Option<Patience>,
    meter: Meter,
}

impl TimedStream {
    pub(crate) fn new(inner: TcpStream, waits: Waits, conversation: Arc<Conversation>, meter: Meter) -> Self {
        let reading = Patience::new(waits.idle);
        Self { inner, waits, conversation, turns: 0, reading, head: None, is_in_head: false, writing: None, meter }
    }

    pub(crate) fn into_inner(self) -> TcpStream {
        self.inner
    }

    /// Forgets the head's time when the head is complete. Bytes that come while a request is answered are its
    /// body, whose time is the request's.
    fn look_at_turns(&mut self) {
        let turns = self.conversation.turns();
        if turns != self.turns {
            self.turns = turns;
            self.is_in_head = false;
            self.head = None;
        }
    }

    fn poll_too_late(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_in_head {
            // hyper has had the bytes and asks for more: the head came in parts, which is rare.
            let wait = self.waits.head;
            let head = self.head.get_or_insert_with(|| Patience::new(wait));
            if head.poll_end(context).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        self.reading.poll_end(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn after_write(&mut self, context: &mut Context<'_>, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(outcome) = &result {
            self.meter.send(*outcome.as_ref().unwrap_or(&0));
            self.writing = None;
            self.reading.begin_anew();
            return result;
        }
        let write = self.waits.write;
        let writing = self.writing.get_or_insert_with(|| Patience::new(write));
        writing.poll_end(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.look_at_turns();
        let before = buffer.filled().len();
        match Pin::new(&mut self.inner).poll_read(context, buffer) {
            Poll::Pending => self.poll_too_late(context),
            ready => {
                self.meter.receive(buffer.filled().len() - before);
                self.reading.begin_anew();
                self.is_in_head |= self.turns.is_multiple_of(2);
                ready
            }
        }
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.after_write(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        let result = if length <= JOIN_UP_TO {
            let mut joined = [0; JOIN_UP_TO];
            let mut end = 0;
            for slice in slices {
                joined[end..end + slice.len()].copy_from_slice(slice);
                end += slice.len();
            }
            Pin::new(&mut self.inner).poll_write(context, &joined[..end])
        } else {
            Pin::new(&mut self.inner).poll_write_vectored(context, slices)
        };
        self.after_write(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
