//! A TCP connection that does not wait for ever.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::{Instant, Sleep, sleep_until},
};

/// Ends reading when nothing has moved for `idle`, and writing when the client has not read for `write`.
///
/// hyper's own header time-out would make and destroy a timer a request; here one timer lives as long as the
/// connection and is set anew only when it fires too early.
pub(crate) struct TimedStream {
    inner: TcpStream,
    idle: Duration,
    write: Duration,
    last_activity: Instant,
    reading: Pin<Box<Sleep>>,
    writing: Option<Pin<Box<Sleep>>>,
}

impl TimedStream {
    pub(crate) fn new(inner: TcpStream, idle: Duration, write: Duration) -> Self {
        let now = Instant::now();
        Self { inner, idle, write, last_activity: now, reading: Box::pin(sleep_until(now + idle)), writing: None }
    }

    pub(crate) fn into_inner(self) -> TcpStream {
        self.inner
    }

    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.reading.as_mut().poll(context).is_ready() {
            let deadline = self.last_activity + self.idle;
            if Instant::now() >= deadline {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.reading.as_mut().reset(deadline);
        }
        Poll::Pending
    }

    fn after_write<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.writing = None;
            self.last_activity = Instant::now();
            return result;
        }
        let write = self.write;
        let writing = self.writing.get_or_insert_with(|| Box::pin(tokio::time::sleep(write)));
        writing.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.inner).poll_read(context, buffer) {
            Poll::Pending => self.poll_idle(context),
            ready => {
                self.last_activity = Instant::now();
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
        let result = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
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
