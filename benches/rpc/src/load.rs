//! The load generator: many connections, each with one request in flight.
//!
//! Not `tenon-ipc-client`: this client does as little as possible, because it shares two cores with the server. Requests are written as prepared
//! bytes, answers are delimited by `Content-Length` or chunks (HTTP), the frame's length (WebSocket) or the newline (Unix
//! socket) and checked for an error.

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use memchr::{memchr, memmem};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
};

use tenon_latencies::Latencies;

/// The server under load.
pub(crate) enum Target {
    /// An HTTP server.
    Http(SocketAddr),
    /// A WebSocket server.
    WebSocket(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// The end of an answer that begins at the start of `received`, or `None` while it is incomplete.
type FindEnd = fn(&[u8]) -> io::Result<Option<usize>>;

fn end_of_line(received: &[u8]) -> io::Result<Option<usize>> {
    Ok(memchr(b'\n', received).map(|position| position + 1))
}

fn end_of_http_answer(received: &[u8]) -> io::Result<Option<usize>> {
    let Some(head) = memmem::find(received, b"\r\n\r\n").map(|position| position + 4) else { return Ok(None) };
    let fields = std::str::from_utf8(&received[..head]).map_err(io::Error::other)?.to_ascii_lowercase();
    let field = |name: &str| fields.lines().find_map(|line| line.strip_prefix(name).map(str::trim));
    if let Some(length) = field("content-length:") {
        let length: usize = length.parse().map_err(io::Error::other)?;
        return Ok(Some(head + length).filter(|end| *end <= received.len()));
    }
    if field("transfer-encoding:") == Some("chunked") {
        return end_of_chunks(received, head);
    }
    Err(io::Error::other("the answer has neither Content-Length nor chunks"))
}

/// The end of a chunked body that begins at `place`: a chunk of length zero and an empty line. Trailers are not expected.
fn end_of_chunks(received: &[u8], mut place: usize) -> io::Result<Option<usize>> {
    loop {
        let Some(rest) = received.get(place..) else { return Ok(None) };
        let Some(line) = memmem::find(rest, b"\r\n") else { return Ok(None) };
        let length = std::str::from_utf8(&rest[..line]).map_err(io::Error::other)?;
        let length = usize::from_str_radix(length, 16).map_err(io::Error::other)?;
        place = (line + 4)
            .checked_add(length)
            .and_then(|size| place.checked_add(size))
            .ok_or(io::ErrorKind::InvalidData)?;
        if length == 0 {
            return Ok(Some(place).filter(|end| *end <= received.len()));
        }
    }
}

/// A server's frame: two bytes and the extended length; never masked, never fragmented.
fn end_of_frame(received: &[u8]) -> io::Result<Option<usize>> {
    let [first, second, rest @ ..] = received else { return Ok(None) };
    if *first != 0x81 {
        return Err(io::Error::other(format!("expected one unfragmented text frame, got {first:#x}")));
    }
    let (size, length) = match (second, rest) {
        (126, [high, low, ..]) => (4, u64::from(u16::from_be_bytes([*high, *low]))),
        (127, _) => match rest.first_chunk::<8>() {
            Some(length) => (10, u64::from_be_bytes(*length)),
            None => return Ok(None),
        },
        (126, _) => return Ok(None),
        (short, _) => (2, u64::from(*short)),
    };
    let end = usize::try_from(length).ok().and_then(|length| length.checked_add(size));
    Ok(end.filter(|end| *end <= received.len()))
}

/// A client's text frame with a mask of zeros, which leaves the text unchanged.
fn frame(text: &str) -> io::Result<Vec<u8>> {
    let length = u16::try_from(text.len()).map_err(|_| io::Error::other("the request is too long for one frame"))?;
    let mut frame = vec![0x81, 0x80 | 126];
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(text.as_bytes());
    Ok(frame)
}

/// Connects and performs the handshake.
async fn open_web_socket(address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let head = format!(
        "GET / HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        // Byte by byte: after the head the data is no longer HTTP.
        answer.push(stream.read_u8().await?);
    }
    if !answer.starts_with(b"HTTP/1.1 101") {
        return Err(io::Error::other(format!("no WebSocket: {}", String::from_utf8_lossy(&answer))));
    }
    Ok(stream)
}

/// Sends requests on one connection until `end`; answers count from `warm` on. Answers after `end` are dropped: a
/// request that takes minutes must not delay a row of a second.
async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &[u8],
    find_end: FindEnd,
    (warm, end): (Instant, Instant),
) -> io::Result<Latencies> {
    let mut latencies = Latencies::default();
    let mut received = Vec::with_capacity(64 << 10);
    loop {
        let begun = Instant::now();
        if begun >= end {
            return Ok(latencies);
        }
        stream.write_all(request).await?;
        let answer_end = loop {
            if let Some(answer_end) = find_end(&received)? {
                break answer_end;
            }
            let read = tokio::time::timeout_at(end.into(), stream.read_buf(&mut received)).await;
            let Ok(count) = read else { return Ok(latencies) };
            if count? == 0 {
                return Err(io::Error::other("the server closed the connection"));
            }
        };
        // An error is at the beginning of an answer; a trace may have members of that name further on.
        if memmem::find(&received[..answer_end.min(256)], b"\"error\":{\"code\"").is_some() {
            let text = String::from_utf8_lossy(&received[..answer_end]);
            return Err(io::Error::other(format!("the server answered an error: {text}")));
        }
        received.drain(..answer_end);
        // An answer after the warm-up counts even if its request was sent during it. Otherwise the rate of a server
        // whose queue is as long as the measurement would be too low.
        let answered = Instant::now();
        if answered >= warm {
            latencies.add(answered - begun);
        }
    }
}

/// Runs the load and returns the report as JSON.
pub(crate) fn run(
    target: &Target,
    body: &str,
    connections: usize,
    duration: Duration,
) -> io::Result<serde_json::Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (request, find_end): (Vec<u8>, FindEnd) = match target {
        Target::Unix(_) => (format!("{body}\n").into_bytes(), end_of_line),
        Target::WebSocket(_) => (frame(body)?, end_of_frame),
        Target::Http(address) => {
            let head = format!("POST / HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n");
            (format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes(), end_of_http_answer)
        }
    };
    let request: &'static [u8] = request.leak();
    let mut all = Latencies::default();
    runtime.block_on(async {
        // A thousand connections take a while to open; all are counted from the same instant.
        let warm =
            Instant::now() + duration / 10 + Duration::from_micros(200) * u32::try_from(connections).unwrap_or(0);
        let window = (warm, warm + duration);
        let mut running = Vec::with_capacity(connections);
        for _ in 0..connections {
            running.push(match target {
                Target::Http(address) => {
                    let stream = TcpStream::connect(address).await?;
                    stream.set_nodelay(true)?;
                    tokio::spawn(converse(stream, request, find_end, window))
                }
                Target::WebSocket(address) => {
                    tokio::spawn(converse(open_web_socket(*address).await?, request, find_end, window))
                }
                Target::Unix(path) => {
                    tokio::spawn(converse(UnixStream::connect(path).await?, request, find_end, window))
                }
            });
        }
        for connection in running {
            all.append(&connection.await.map_err(io::Error::other)??);
        }
        io::Result::Ok(())
    })?;
    Ok(serde_json::json!({
        "requests": all.count(),
        "per_second": (all.count() as f64 / duration.as_secs_f64()).round(),
        "p50_micros": all.percentile(50),
        "p99_micros": all.percentile(99),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_answer_is_found_on_every_transport() {
        let http = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}\nrest";
        let chunked =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n1\r\n.\r\n0\r\n\r\nrest";
        let long = [&[0x81, 126, 1, 0][..], &[b'x'; 256], b"rest"].concat();
        for (find_end, received, end) in [
            (end_of_http_answer as FindEnd, &http[..], Some(http.len() - 4)),
            (end_of_http_answer, &http[..http.len() - 5], None),
            (end_of_http_answer, &chunked[..], Some(chunked.len() - 4)),
            (end_of_http_answer, &chunked[..chunked.len() - 5], None),
            (end_of_http_answer, &chunked[..chunked.len() - 20], None),
            (end_of_line, b"{}\n{", Some(3)),
            (end_of_line, b"{}", None),
            (end_of_frame, b"\x81\x02{}\x81", Some(4)),
            (end_of_frame, b"\x81\x03{}", None),
            (end_of_frame, &long, Some(260)),
            (end_of_frame, &long[..3], None),
        ] {
            assert_eq!(find_end(received).unwrap(), end, "{received:?}");
        }
    }
}
