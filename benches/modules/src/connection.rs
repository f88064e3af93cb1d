//! A connection to the node over any of its front-ends, with one request in flight. Not `ipc/client`, because its work
//! for each request would be measured as the node's.

use std::{net::SocketAddr, path::Path, time::Duration};

use serde_json::Value;
use soketto::{
    Data, Incoming, Receiver, Sender,
    handshake::{Client as Handshake, ServerResponse},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UnixStream},
    time::timeout,
};
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt as _};

use crate::Error;

/// A call that takes longer counts as lost.
const MAX_CALL: Duration = Duration::from_secs(60);

/// The front-ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Http,
    WebSocket,
    Socket,
}

enum Stream {
    Http { stream: TcpStream, host: String, received: Vec<u8> },
    WebSocket { sender: Sender<Compat<TcpStream>>, receiver: Receiver<Compat<TcpStream>> },
    Socket { stream: UnixStream, received: Vec<u8> },
}

/// An open connection.
pub(crate) struct Connection {
    stream: Stream,
    last_id: u64,
}

impl Connection {
    pub(crate) async fn http(address: SocketAddr) -> Result<Self, Error> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self::new(Stream::Http { stream, host: address.to_string(), received: Vec::new() }))
    }

    pub(crate) async fn websocket(address: SocketAddr) -> Result<Self, Error> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut handshake = Handshake::new(stream.compat(), "127.0.0.1", "/");
        let ServerResponse::Accepted { .. } = handshake.handshake().await? else {
            return Err("the node refused a WebSocket connection".into());
        };
        let (sender, receiver) = handshake.into_builder().finish();
        Ok(Self::new(Stream::WebSocket { sender, receiver }))
    }

    pub(crate) async fn socket(path: &Path) -> Result<Self, Error> {
        Ok(Self::new(Stream::Socket { stream: UnixStream::connect(path).await?, received: Vec::new() }))
    }

    const fn new(stream: Stream) -> Self {
        Self { stream, last_id: 0 }
    }

    pub(crate) const fn transport(&self) -> Transport {
        match self.stream {
            Stream::Http { .. } => Transport::Http,
            Stream::WebSocket { .. } => Transport::WebSocket,
            Stream::Socket { .. } => Transport::Socket,
        }
    }

    /// Sends a request and returns its complete answer. The answer's id must match.
    ///
    /// # Errors
    /// The answer is lost, belongs to another request, or is not JSON.
    pub(crate) async fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Error> {
        self.last_id += 1;
        let id = self.last_id;
        let request = serde_json::json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        self.send(&request).await?;
        let text = timeout(MAX_CALL, self.receive())
            .await
            .map_err(|_| format!("no answer to {method} within {MAX_CALL:?}"))??;
        let answer: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
        if answer["id"] != id {
            return Err(format!("request {id} ({method}) was answered by {answer}: lost or given twice").into());
        }
        Ok(answer)
    }

    async fn send(&mut self, request: &str) -> Result<(), Error> {
        match &mut self.stream {
            Stream::Http { stream, host, .. } => {
                let head = format!("POST / HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n");
                let all = format!("{head}Content-Length: {}\r\n\r\n{request}", request.len());
                stream.write_all(all.as_bytes()).await?;
            }
            Stream::WebSocket { sender, .. } => {
                sender.send_text(request).await?;
                sender.flush().await?;
            }
            Stream::Socket { stream, .. } => stream.write_all(format!("{request}\n").as_bytes()).await?,
        }
        Ok(())
    }

    /// The next message, an answer or a notification.
    pub(crate) async fn receive(&mut self) -> Result<String, Error> {
        match &mut self.stream {
            Stream::Http { stream, received, .. } => loop {
                if let Some((from, to)) = http_body(received)? {
                    let text = String::from_utf8(received[from..to].to_vec())?;
                    received.drain(..to);
                    return Ok(text);
                }
                if stream.read_buf(received).await? == 0 {
                    return Err("the node closed the connection".into());
                }
            },
            Stream::WebSocket { receiver, .. } => loop {
                let mut message = Vec::new();
                match receiver.receive(&mut message).await? {
                    Incoming::Data(Data::Text(_)) => return Ok(String::from_utf8(message)?),
                    Incoming::Closed(reason) => {
                        return Err(format!("the node closed the connection: {reason:?}").into());
                    }
                    _ => {}
                }
            },
            Stream::Socket { stream, received } => loop {
                if let Some(end) = received.iter().position(|byte| *byte == b'\n') {
                    let text = String::from_utf8(received[..end].to_vec())?;
                    received.drain(..=end);
                    return Ok(text);
                }
                if stream.read_buf(received).await? == 0 {
                    return Err("the node closed the connection".into());
                }
            },
        }
    }
}

/// Position of the body of a complete answer; `None` while it is incomplete.
fn http_body(received: &[u8]) -> Result<Option<(usize, usize)>, Error> {
    let Some(head) = received.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let lines = std::str::from_utf8(&received[..head])?.lines();
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .ok_or("an answer without Content-Length")?;
    let end = head + 4 + length.1.trim().parse::<usize>()?;
    Ok((received.len() >= end).then_some((head + 4, end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extracts_one_answer_from_the_received_bytes() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP";

        assert_eq!(http_body(answer).ok().flatten(), Some((38, 40)));
        assert_eq!(http_body(&answer[..39]).ok().flatten(), None);
        assert!(http_body(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
