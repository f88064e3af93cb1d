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
};

use crate::patience::Patience;

/// Ends reading when nothing has moved for `idle`, and writing when the client has not read for `write`.
pub(crate) struct TimedStream {
    inner: TcpStream,
    write: Duration,
    reading: Patience,
    writing: Option<Patience>,
}

impl TimedStream {
    pub(crate) fn new(inner: TcpStream, idle: Duration, write: Duration) -> Self {
        Self { inner, write, reading: Patience::new(idle), writing: None }
    }

    pub(crate) fn into_inner(self) -> TcpStream {
        self.inner
    }

    fn after_write<T>(&mut self, context: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.writing = None;
            self.reading.begin_anew();
            return result;
        }
        let write = self.write;
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
        match Pin::new(&mut self.inner).poll_read(context, buffer) {
            Poll::Pending => self.reading.poll_end(context).map(|()| Err(io::ErrorKind::TimedOut.into())),
            ready => {
                self.reading.begin_anew();
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
