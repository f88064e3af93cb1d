//! The transport under jsonrpsee's client: messages on the local socket, each one line of JSON.
//!
//! The node accepts any split of its input into values and writes one line a message (`docs/json-rpc.md`). So a request
//! is written as a line, and an answer ends at the first newline: JSON has none inside a text.

use std::{
    io::{self, ErrorKind},
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use interprocess::local_socket::{GenericFilePath, ToFsName as _, tokio::Stream, traits::tokio::Stream as _};
use jsonrpsee::core::client::{ReceivedMessage, TransportReceiverT, TransportSenderT};
use memchr::memchr;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    time::timeout,
};

use crate::{ClientSettings, SocketError, notices::Notices, peer};

/// Capacity of the buffer before a message, bytes. It grows as bytes arrive, not to a length that was announced.
const FIRST_BYTES: usize = 8 << 10;

/// Opens the socket.
pub(crate) async fn open(
    path: &Path,
    settings: &ClientSettings,
    notices: Notices,
) -> Result<(SocketSender<Half>, SocketReceiver<Half>), SocketError> {
    let failed = |source| SocketError::Connect { path: path.to_owned(), source };
    let name = path.to_fs_name::<GenericFilePath>().map_err(failed)?;
    let connect_timeout = settings.connect_timeout;
    let connected = timeout(connect_timeout, Stream::connect(name)).await;
    let stream = connected
        .map_err(|_| SocketError::ConnectTimeout { path: path.to_owned(), timeout: connect_timeout })?
        .map_err(failed)?;
    peer::check(&stream, path)?;
    let stream = Arc::new(stream);
    Ok((
        SocketSender { writer: Half(Arc::clone(&stream)), timeout: settings.write_timeout },
        SocketReceiver::new(Half(stream), settings.max_message_bytes, notices),
    ))
}

/// One direction of a socket. The socket is closed when both halves are dropped.
#[derive(Debug)]
pub(crate) struct Half(Arc<Stream>);

impl AsyncRead for Half {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Half {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self.0).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self.0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self.0).poll_shutdown(context)
    }
}

/// The sending half of a connection.
#[derive(Debug)]
pub(crate) struct SocketSender<W> {
    writer: W,
    /// Time limit for one message.
    timeout: Duration,
}

impl<W: AsyncWrite + Unpin> SocketSender<W> {
    /// Writes a message and the end of its line.
    pub(crate) async fn send_line(&mut self, message: &str) -> Result<(), SocketError> {
        let writing = async {
            self.writer.write_all(message.as_bytes()).await?;
            self.writer.write_all(b"\n").await?;
            self.writer.flush().await
        };
        match timeout(self.timeout, writing).await {
            // The node has closed the connection. The receiver reads the reason, which the node wrote before.
            Ok(Err(error)) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => Ok(()),
            Ok(written) => written.map_err(SocketError::Write),
            Err(_) => Err(SocketError::WriteTimeout { timeout: self.timeout }),
        }
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> TransportSenderT for SocketSender<W> {
    type Error = SocketError;

    async fn send(&mut self, message: String) -> Result<(), SocketError> {
        self.send_line(&message).await
    }
}

/// The receiving half of a connection.
#[derive(Debug)]
pub(crate) struct SocketReceiver<R> {
    reader: R,
    /// Bytes that were read and not yet returned.
    buffer: Vec<u8>,
    /// Bytes of the buffer without a newline, so that none is searched twice.
    searched: usize,
    /// Maximum length of a message, bytes.
    limit: usize,
    notices: Notices,
}

impl<R: AsyncRead + Unpin> SocketReceiver<R> {
    pub(crate) fn new(reader: R, limit: usize, notices: Notices) -> Self {
        Self { reader, buffer: Vec::new(), searched: 0, limit, notices }
    }

    /// Returns the next message, without its newline. Empty lines are skipped.
    pub(crate) async fn next_line(&mut self) -> Result<Vec<u8>, SocketError> {
        loop {
            while let Some(line) = self.take_line() {
                if !line.trim_ascii().is_empty() {
                    return self.checked(line);
                }
            }
            if self.buffer.len() > self.limit {
                return Err(SocketError::TooLong { limit: self.limit });
            }
            self.buffer.reserve(FIRST_BYTES);
            match self.reader.read_buf(&mut self.buffer).await {
                Ok(0) if self.buffer.trim_ascii().is_empty() => return Err(SocketError::Closed),
                Ok(0) => return Err(SocketError::CutOff),
                Ok(_) => {}
                // The node ended before it had read everything.
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Err(SocketError::Closed),
                Err(error) => return Err(SocketError::Read(error)),
            }
        }
    }

    /// Takes the first complete line out of the buffer.
    fn take_line(&mut self) -> Option<Vec<u8>> {
        let Some(end) = memchr(b'\n', &self.buffer[self.searched..]).map(|end| self.searched + end) else {
            self.searched = self.buffer.len();
            return None;
        };
        let rest = self.buffer.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.buffer, rest);
        line.truncate(end);
        self.searched = 0;
        Some(line)
    }

    fn checked(&self, line: Vec<u8>) -> Result<Vec<u8>, SocketError> {
        if line.len() > self.limit {
            return Err(SocketError::TooLong { limit: self.limit });
        }
        self.notices.read(&line)?;
        Ok(line)
    }
}

impl<R: AsyncRead + Unpin + Send + 'static> TransportReceiverT for SocketReceiver<R> {
    type Error = SocketError;

    async fn receive(&mut self) -> Result<ReceivedMessage, SocketError> {
        self.next_line().await.map(ReceivedMessage::Bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;

    use tokio::io::DuplexStream;

    use super::*;

    const LIMIT: usize = 64;

    /// The node's end, which writes through `capacity` bytes, and the client's.
    fn connection(capacity: usize) -> (DuplexStream, SocketReceiver<DuplexStream>) {
        let (node, client) = tokio::io::duplex(capacity);
        (node, SocketReceiver::new(client, LIMIT, Notices::default()))
    }

    async fn next(receiver: &mut SocketReceiver<DuplexStream>) -> String {
        String::from_utf8(receiver.next_line().await.unwrap()).unwrap()
    }

    /// Runs the node's and the client's side concurrently.
    async fn beside<T>(node: impl Future<Output = io::Result<()>>, client: impl Future<Output = T>) -> T {
        let (written, received) = tokio::join!(node, client);
        written.unwrap();
        received
    }

    #[tokio::test]
    async fn a_message_that_arrives_byte_by_byte_is_put_together() {
        let (mut node, mut receiver) = connection(1);

        let received = beside(node.write_all(b"{\"id\":1}\n"), next(&mut receiver)).await;

        assert_eq!(received, "{\"id\":1}");
    }

    #[tokio::test]
    async fn several_messages_of_one_read_are_returned_one_by_one() {
        let (mut node, mut receiver) = connection(1 << 10);
        node.write_all(b"{\"id\":1}\n\n \n{\"id\":2}\n{\"id\"").await.unwrap();

        assert_eq!(next(&mut receiver).await, "{\"id\":1}");
        assert_eq!(next(&mut receiver).await, "{\"id\":2}");
        node.write_all(b":3}\n").await.unwrap();
        assert_eq!(next(&mut receiver).await, "{\"id\":3}");
    }

    #[tokio::test]
    async fn a_message_may_be_as_long_as_the_limit_and_no_longer() {
        let (mut node, mut receiver) = connection(1 << 10);
        let line = |length: usize| format!("{}\n", "1".repeat(length));
        node.write_all(line(LIMIT).as_bytes()).await.unwrap();
        node.write_all(line(LIMIT + 1).as_bytes()).await.unwrap();

        assert_eq!(next(&mut receiver).await.len(), LIMIT);
        assert!(matches!(receiver.next_line().await, Err(SocketError::TooLong { limit: LIMIT })));
    }

    #[tokio::test]
    async fn a_message_without_an_end_is_given_up_at_the_limit() {
        let (mut node, mut receiver) = connection(1 << 10);
        node.write_all("1".repeat(LIMIT + 1).as_bytes()).await.unwrap();

        assert!(matches!(receiver.next_line().await, Err(SocketError::TooLong { limit: LIMIT })));
    }

    #[tokio::test]
    async fn an_end_between_messages_is_told_apart_from_one_within_a_message() {
        for (sent, is_cut) in [("", false), ("{}\n", false), ("{}\n{\"id\"", true)] {
            let (mut node, mut receiver) = connection(1 << 10);
            node.write_all(sent.as_bytes()).await.unwrap();
            drop(node);

            let ended = loop {
                match receiver.next_line().await {
                    Ok(_) => {}
                    Err(error) => break error,
                }
            };

            assert_eq!(matches!(ended, SocketError::CutOff), is_cut, "{sent}: {ended}");
            assert_eq!(matches!(ended, SocketError::Closed), !is_cut, "{sent}: {ended}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_does_not_read_ends_the_connection_after_the_time_limit() {
        let (_node, client) = tokio::io::duplex(4);
        let mut sender = SocketSender { writer: client, timeout: Duration::from_secs(3) };

        let sent = sender.send("{\"id\":1}".to_owned()).await;

        assert!(matches!(sent, Err(SocketError::WriteTimeout { .. })), "{sent:?}");
    }
}
