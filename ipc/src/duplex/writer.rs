//! The write side of a connection.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use tokio::io::AsyncWrite;

use super::{DuplexLimits, Outgoing};
use crate::{idle_timeout::IdleTimeout, traffic::Meter};

/// Maximum number of pieces per system call.
const MAX_SLICES: usize = 64;

/// Writes queued data, as much at a time as the system accepts.
///
/// Polled by the task that also reads and starts calls, after it has done both. An answer that is ready at once is
/// therefore written in the same poll, without waking a task, and the answers to all messages of one read are written
/// together.
pub(crate) struct Writer<'a, W> {
    outgoing: &'a Outgoing,
    stream: W,
    /// Taken from the queue and not yet written.
    pieces: VecDeque<Bytes>,
    write_timeout: Duration,
    /// Timer that runs while the client does not read.
    stalled: Option<IdleTimeout>,
    /// The message to send, and the time without writes after which it is sent.
    keep_alive: Option<(Bytes, IdleTimeout)>,
    meter: Meter,
}

impl<'a, W: AsyncWrite + Unpin> Writer<'a, W> {
    pub(crate) fn new(
        outgoing: &'a Outgoing,
        stream: W,
        limits: DuplexLimits,
        keep_alive: Option<Bytes>,
        meter: Meter,
    ) -> Self {
        Self {
            outgoing,
            stream,
            pieces: VecDeque::new(),
            write_timeout: limits.write_timeout,
            stalled: None,
            keep_alive: keep_alive.zip(limits.ping_interval.map(IdleTimeout::new)),
            meter,
        }
    }

    /// Writes until nothing is left or the client does not read; ready only with an error that ends the connection.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            if self.pieces.is_empty() {
                match self.outgoing.poll_take(context, &mut self.pieces) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(reads_too_slowly()),
                    Poll::Pending => {
                        ready!(self.poll_keep_alive(context));
                        continue;
                    }
                }
            }
            match self.poll_write(context) {
                Poll::Ready(Ok(0)) => return Poll::Ready(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => self.advance(count),
                Poll::Ready(Err(error)) => return Poll::Ready(error),
                Poll::Pending => {
                    if self.outgoing.poll_overflow(context).is_ready() {
                        return Poll::Ready(reads_too_slowly());
                    }
                    let stalled = self.stalled.get_or_insert_with(|| IdleTimeout::new(self.write_timeout));
                    ready!(stalled.poll_end(context));
                    return Poll::Ready(io::ErrorKind::TimedOut.into());
                }
            }
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let stream = Pin::new(&mut self.stream);
        if let (Some(only), 1) = (self.pieces.front(), self.pieces.len()) {
            return stream.poll_write(context, only);
        }
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let mut count = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = IoSlice::new(piece);
            count += 1;
        }
        stream.poll_write_vectored(context, &slices[..count])
    }

    fn advance(&mut self, count: usize) {
        self.stalled = None;
        self.meter.send(count);
        if let Some((_, quiet)) = &mut self.keep_alive {
            quiet.restart();
        }
        let mut left = count;
        while let Some(piece) = self.pieces.front_mut() {
            if left < piece.len() {
                piece.advance(left);
                break;
            }
            left -= piece.len();
            self.pieces.pop_front();
        }
        self.outgoing.sent(count);
    }

    /// Queues the keep-alive when it is due.
    fn poll_keep_alive(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some((message, quiet)) = &mut self.keep_alive else { return Poll::Pending };
        ready!(quiet.poll_end(context));
        quiet.restart();
        self.outgoing.push_raw(message.clone());
        Poll::Ready(())
    }
}

fn reads_too_slowly() -> io::Error {
    io::Error::other("the client reads its notifications too slowly")
}
