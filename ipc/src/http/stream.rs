//! A TCP connection with time limits.
//!
//! Implemented here, because tower-http's time-outs begin with a parsed request: they do not cover an idle connection,
//! a slow head or a client that does not read.

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
use crate::{duplex::Half, idle_timeout::IdleTimeout, traffic::Meter};

/// Answers up to this size are copied into one buffer and written at once: the copy costs less than a write of several
/// slices.
const JOIN_UP_TO: usize = 512;

/// Time limits for a connection's client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimits {
    /// For the next byte.
    pub(crate) idle: Duration,
    /// For the end of a request's head, from its first byte: otherwise a client that occasionally sends a byte would
    /// keep its place forever.
    pub(crate) head: Duration,
    /// For the client to read.
    pub(crate) write: Duration,
}

/// Makes closing this connection discard unread data. Otherwise the system would keep offering it for minutes,
/// megabytes per connection, and a client with full buffers would not notice that it was disconnected.
pub(crate) fn reset(stream: &TcpStream) {
    // An error means that the connection is already gone.
    let _ = stream.set_zero_linger();
}

/// Ends reading and writing when their time limit is over.
pub(crate) struct TimedStream {
    inner: Arc<TcpStream>,
    time_limits: TimeLimits,
    conversation: Arc<Conversation>,
    /// The conversation's activity count at the last check.
    activity_count: u32,
    reading: IdleTimeout,
    /// Whether bytes were transferred since `reading` began. The clock is read when the timer fires, not for every read
    /// and write, so the idle time ends up to twice as late as its limit.
    has_moved: bool,
    /// Set while a request's head is incomplete.
    head: Option<IdleTimeout>,
    is_in_head: bool,
    writing: Option<IdleTimeout>,
    meter: Meter,
}

impl TimedStream {
    pub(crate) fn new(
        inner: Arc<TcpStream>,
        time_limits: TimeLimits,
        conversation: Arc<Conversation>,
        meter: Meter,
    ) -> Self {
        let reading = IdleTimeout::new(time_limits.idle);
        let (head, writing) = (None, None);
        Self {
            inner,
            time_limits,
            conversation,
            activity_count: 0,
            reading,
            has_moved: false,
            head,
            is_in_head: false,
            writing,
            meter,
        }
    }

    /// Clears the head's time limit once the head is complete. Bytes that arrive while a request is answered are its
    /// body, which has the request's time limit.
    fn note_progress(&mut self) {
        let activity_count = self.conversation.activity_count();
        if activity_count != self.activity_count {
            self.activity_count = activity_count;
            self.is_in_head = false;
            self.head = None;
        }
    }

    const fn is_answering(&self) -> bool {
        !self.activity_count.is_multiple_of(2)
    }

    fn poll_time_limits(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_answering() {
            // The request has its own time limit. hyper polls this stream again after the answer.
            return Poll::Pending;
        }
        let is_due = self.is_in_head || !self.reading.is_awaited();
        if is_due && std::mem::take(&mut self.has_moved) {
            self.reading.restart();
        }
        if self.is_in_head {
            // A blocked write is an earlier request's answer, which is still sent.
            if self.writing.is_none() && self.conversation.is_stopping() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
            // hyper has received the bytes and requests more, so the head arrives in parts, which is rare.
            let wait = self.time_limits.head;
            let head = self.head.get_or_insert_with(|| IdleTimeout::new(wait));
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
            self.has_moved = true;
            return result;
        }
        self.conversation.pipeline.rest();
        let write = self.time_limits.write;
        let writing = self.writing.get_or_insert_with(|| IdleTimeout::new(write));
        writing.poll_end(context).map(|()| {
            reset(&self.inner);
            Err(io::ErrorKind::TimedOut.into())
        })
    }
}

/// Address to which the next bytes are written.
fn end_of(buffer: &ReadBuf<'_>) -> *const u8 {
    buffer.filled().as_ptr_range().end
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.note_progress();
        // By now hyper has allocated a new buffer if the last one has little room left.
        self.conversation.used_buffers.begin_read(end_of(buffer));
        if !self.is_answering() && self.conversation.used_buffers.has_secrets() {
            // Ends the connection, which drops the buffers.
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        match Pin::new(&mut Half(&*self.inner)).poll_read(context, buffer) {
            Poll::Pending => {
                self.conversation.pipeline.rest();
                self.poll_time_limits(context)
            }
            ready => {
                self.meter.receive(buffer.filled().len() - before);
                self.conversation.used_buffers.end_read(end_of(buffer), buffer.remaining());
                self.has_moved = true;
                self.is_in_head |= !self.is_answering();
                ready
            }
        }
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut Half(&*self.inner)).poll_write(context, bytes);
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
            Pin::new(&mut Half(&*self.inner)).poll_write(context, &joined[..end])
        } else {
            Pin::new(&mut Half(&*self.inner)).poll_write_vectored(context, slices)
        };
        self.after_write(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // tokio shuts down only streams that it owns.
        Poll::Ready(Ok(rustix::net::shutdown(&*self.inner, rustix::net::Shutdown::Write)?))
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, net::Ipv4Addr};

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;
    use crate::traffic::Traffic;

    const SHORT: Duration = Duration::from_millis(20);

    /// A stream and its client.
    async fn pair(time_limits: TimeLimits, conversation: &Arc<Conversation>) -> (TimedStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (inner, _) = listener.accept().await.unwrap();
        (
            TimedStream::new(
                Arc::new(inner),
                time_limits,
                Arc::clone(conversation),
                Meter::new(&Traffic::default().http),
            ),
            client,
        )
    }

    /// Polls once for bytes, of which there are none.
    async fn check(stream: &mut TimedStream) -> Poll<io::Result<()>> {
        let mut room = [0; 16];
        poll_fn(|context| Poll::Ready(Pin::new(&mut *stream).poll_read(context, &mut ReadBuf::new(&mut room)))).await
    }

    #[tokio::test]
    async fn a_request_that_came_whole_makes_no_timer_and_its_answer_may_take_longer_than_silence() {
        let conversation = Arc::new(Conversation::new(Ipv4Addr::LOCALHOST.into(), Duration::from_secs(60)));
        let time_limits = TimeLimits { idle: SHORT, head: SHORT, write: Duration::from_secs(60) };
        let (mut stream, mut client) = pair(time_limits, &conversation).await;
        client.write_all(b"head").await.unwrap();
        stream.read_exact(&mut [0; 4]).await.unwrap();

        let guard = conversation.begin_request();
        assert!(check(&mut stream).await.is_pending());
        assert!(stream.head.is_none());
        tokio::time::sleep(SHORT * 3).await;
        assert!(check(&mut stream).await.is_pending());

        drop(guard);
        assert!(check(&mut stream).await.is_pending(), "silence begins with the end of the answer");
        tokio::time::sleep(SHORT * 3).await;
        assert!(matches!(check(&mut stream).await, Poll::Ready(Err(_))));
    }

    #[tokio::test]
    async fn a_request_head_in_several_parts_has_one_time_limit() {
        let conversation = Arc::new(Conversation::new(Ipv4Addr::LOCALHOST.into(), Duration::from_secs(60)));
        let time_limits = TimeLimits { idle: Duration::from_secs(60), head: SHORT, write: Duration::from_secs(60) };
        let (mut stream, mut client) = pair(time_limits, &conversation).await;
        client.write_all(b"he").await.unwrap();
        stream.read_exact(&mut [0; 2]).await.unwrap();

        assert!(check(&mut stream).await.is_pending());
        tokio::time::sleep(SHORT * 3).await;

        assert!(matches!(check(&mut stream).await, Poll::Ready(Err(_))));
    }
}
