//! One direction of a stream. Both directions borrow the stream, so that its state can be queried while they are used.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready},
    net::{TcpStream, UnixStream},
};

/// Interval at which a connection that reads nothing checks whether its client has gone. No event of the stream reports
/// this alone: a closed stream counts as readable, and so does one with unread bytes.
const CHECK_PERIOD: Duration = Duration::from_millis(25);

/// Common operations of tokio's TCP and Unix streams.
pub(crate) trait RawStream: Send + Sync {
    fn try_read(&self, buffer: &mut ReadBuf<'_>) -> io::Result<()>;
    fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;
    fn ready(&self, interest: Interest) -> impl Future<Output = io::Result<Ready>> + Send;
}

macro_rules! raw_stream {
    ($stream:ty) => {
        impl RawStream for $stream {
            fn try_read(&self, buffer: &mut ReadBuf<'_>) -> io::Result<()> {
                // A read that does not fill the buffer has emptied the stream. Reporting "would block" makes tokio wait
                // for the next event instead of making a futile system call per message. An event that occurs in
                // between is not lost, because the readiness was checked before reading.
                let (room, before) = (buffer.remaining(), buffer.filled().len());
                let outcome = self.try_io(Interest::READABLE, || match self.try_read_buf(buffer)? {
                    count if count > 0 && count < room => Err(io::ErrorKind::WouldBlock.into()),
                    _ => Ok(()),
                });
                if buffer.filled().len() > before { Ok(()) } else { outcome }
            }

            fn try_write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
                match slices {
                    [only] => self.try_write(only),
                    several => self.try_write_vectored(several),
                }
            }

            fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_read_ready(context)
            }

            fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_write_ready(context)
            }

            fn ready(&self, interest: Interest) -> impl Future<Output = io::Result<Ready>> + Send {
                self.ready(interest)
            }
        }
    };
}

raw_stream!(TcpStream);
raw_stream!(UnixStream);

/// Returns once the other side has closed its sending direction, even if its last bytes are unread.
pub(crate) async fn wait_until_write_closed<T: RawStream>(stream: &T) {
    while matches!(stream.ready(Interest::READABLE).await, Ok(ready) if !ready.is_read_closed()) {
        tokio::time::sleep(CHECK_PERIOD).await;
    }
}

/// Returns once the other side no longer reads. The end of its sending direction does not show this, because a program
/// may close that direction and still wait for answers.
pub(crate) async fn wait_until_read_closed<T: RawStream>(stream: &T) {
    while matches!(stream.ready(Interest::WRITABLE).await, Ok(ready) if !ready.is_write_closed()) {
        tokio::time::sleep(CHECK_PERIOD).await;
    }
}

/// One direction of the stream; see the module.
pub(crate) struct Half<'a, T>(pub(crate) &'a T);

impl<T: RawStream> AsyncRead for Half<'_, T> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_readable(context))?;
            match self.0.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

impl<T: RawStream> AsyncWrite for Half<'_, T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.0.try_write(slices) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready!(self.0.poll_writable(context))?,
                result => return Poll::Ready(result),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
