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
    /// Bytes of the first piece that are written. They stay in memory until the whole piece is written.
    written: usize,
    write_timeout: Duration,
    /// Timer that runs while the client does not read.
    stalled: Option<IdleTimeout>,
    /// The message to send, and the time after which it is sent again. Not restarted by writes: a client that only
    /// receives must answer it, so that it is not taken for dead.
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
            written: 0,
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
                    // Also for a client that reads, but always has something queued. Polled until its timer runs again.
                    while self.poll_keep_alive(context).is_ready() {}
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
        let mut left = count;
        while let Some(piece) = self.pieces.front_mut() {
            if left < piece.len() {
                piece.advance(left);
                self.written += left;
                break;
            }
            left -= piece.len();
            self.written = 0;
            self.pieces.pop_front();
        }
        self.outgoing.sent(count, self.written);
    }

    /// Queues the keep-alive when it is due.
    fn poll_keep_alive(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some((message, interval)) = &mut self.keep_alive else { return Poll::Pending };
        ready!(interval.poll_end(context));
        interval.restart();
        self.outgoing.push_raw(message.clone());
        Poll::Ready(())
    }
}

fn reads_too_slowly() -> io::Error {
    io::Error::other("the client reads its notifications too slowly")
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tenon_bus::{ClientId, MemoryBudget, MemoryUse};

    use super::*;
    use crate::{duplex::encode_plain, envelope::Reply, traffic::Traffic};

    const PING_INTERVAL: Duration = Duration::from_secs(60);

    fn writer<'a>(outgoing: &'a Outgoing, accepted: usize, keep_alive: Option<Bytes>) -> Writer<'a, Slow> {
        let limits = DuplexLimits {
            calls_in_flight: 1,
            subscriptions: 1,
            queued_bytes: usize::MAX,
            write_timeout: Duration::from_secs(60),
            silence: None,
            ping_interval: Some(PING_INTERVAL),
        };
        Writer::new(outgoing, Slow(accepted), limits, keep_alive, Meter::new(&Traffic::default().socket))
    }

    /// Accepts a number of bytes, and then no more.
    struct Slow(usize);

    impl AsyncWrite for Slow {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let count = bytes.len().min(self.0);
            self.0 -= count;
            if count == 0 { Poll::Pending } else { Poll::Ready(Ok(count)) }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn an_answer_is_counted_until_it_is_written_as_a_whole() {
        const LENGTH: usize = 1 << 20;
        let client = MemoryBudget::unbounded().client(ClientId::INSIDE);
        let outgoing = Outgoing::new(encode_plain, usize::MAX, client.clone());
        let mut writer = writer(&outgoing, LENGTH - 1, None);
        let mut answer = Reply::whole(vec![b'x'; LENGTH]);
        answer.memory = client.reserve(MemoryUse::Answers, LENGTH).ok();
        outgoing.push_answer(answer);
        let mut context = Context::from_waker(Waker::noop());

        assert!(writer.poll(&mut context).is_pending());
        assert_eq!(client.held(), LENGTH, "its memory is freed as a whole");

        writer.stream.0 = 1;
        outgoing.writer_is_awake();
        assert!(writer.poll(&mut context).is_pending());
        assert_eq!(client.held(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_only_receives_is_pinged() {
        let client = MemoryBudget::unbounded().client(ClientId::INSIDE);
        let outgoing = Outgoing::new(encode_plain, usize::MAX, client);
        let mut writer = writer(&outgoing, usize::MAX, Some(Bytes::from_static(b"ping")));
        let mut context = Context::from_waker(Waker::noop());

        for _ in 0..7 {
            tokio::time::sleep(PING_INTERVAL / 6).await;
            outgoing.writer_is_awake();
            outgoing.push_answer(Reply::whole(b"event".to_vec()));
            assert!(writer.poll(&mut context).is_pending());
        }

        let written = usize::MAX - writer.stream.0;
        assert_eq!(written, 7 * b"event".len() + b"ping".len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_always_has_something_queued_is_pinged() {
        let client = MemoryBudget::unbounded().client(ClientId::INSIDE);
        let outgoing = Outgoing::new(encode_plain, usize::MAX, client);
        let mut writer = writer(&outgoing, 0, Some(Bytes::from_static(b"ping")));
        outgoing.push_answer(Reply::whole(b"a long answer".to_vec()));
        let mut context = Context::from_waker(Waker::noop());

        for _ in 0..7 {
            writer.stream.0 = 1;
            outgoing.writer_is_awake();
            assert!(writer.poll(&mut context).is_pending());
            tokio::time::sleep(PING_INTERVAL / 6).await;
        }
        outgoing.writer_is_awake();
        assert!(writer.poll(&mut context).is_pending());

        assert_eq!(outgoing.length(), b"a long answer".len() - 7 + b"ping".len(), "the ping waits behind the rest");
    }
}
