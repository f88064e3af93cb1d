//! The load: many connections, each with one request in flight.
//!
//! The client is as thin as possible, because it shares two cores with the server: requests are written as ready
//! bytes, answers are cut out by `Content-Length` (HTTP) or the newline (Unix socket) and looked at for an error.

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

use crate::latencies::Latencies;

/// Where the load goes.
pub(crate) enum Target {
    /// An HTTP server.
    Http(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// The end of an answer that begins at the start of `received`, or none while it is incomplete.
type FindEnd = fn(&[u8]) -> io::Result<Option<usize>>;

fn end_of_line(received: &[u8]) -> io::Result<Option<usize>> {
    Ok(memchr(b'\n', received).map(|position| position + 1))
}

fn end_of_http_answer(received: &[u8]) -> io::Result<Option<usize>> {
    let Some(head) = memmem::find(received, b"\r\n\r\n").map(|position| position + 4) else { return Ok(None) };
    let length = std::str::from_utf8(&received[..head])
        .ok()
        .and_then(|head| {
            head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok()
            })
        })
        .ok_or_else(|| io::Error::other("an answer without Content-Length"))?;
    Ok(Some(head + length).filter(|end| *end <= received.len()))
}

/// Sends requests on one connection until `end`; latencies count from `warm` on.
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
            if stream.read_buf(&mut received).await? == 0 {
                return Err(io::Error::other("the server hung up"));
            }
        };
        if memmem::find(&received[..answer_end], b"\"error\"").is_some() {
            let text = String::from_utf8_lossy(&received[..answer_end]);
            return Err(io::Error::other(format!("the server answered an error: {text}")));
        }
        received.drain(..answer_end);
        if begun >= warm {
            latencies.add(begun.elapsed());
        }
    }
}

/// Runs the load and gives the report as JSON.
pub(crate) fn run(
    target: &Target,
    body: &str,
    connections: usize,
    duration: Duration,
) -> io::Result<serde_json::Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (request, find_end): (Vec<u8>, FindEnd) = match target {
        Target::Unix(_) => (format!("{body}\n").into_bytes(), end_of_line),
        Target::Http(address) => {
            let head = format!("POST / HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n");
            (format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes(), end_of_http_answer)
        }
    };
    let request: &'static [u8] = request.leak();
    let mut all = Latencies::default();
    runtime.block_on(async {
        let warm = Instant::now() + duration / 10;
        let window = (warm, warm + duration);
        let mut running = Vec::with_capacity(connections);
        for _ in 0..connections {
            running.push(match target {
                Target::Http(address) => {
                    let stream = TcpStream::connect(address).await?;
                    stream.set_nodelay(true)?;
                    tokio::spawn(converse(stream, request, find_end, window))
                }
                Target::Unix(path) => {
                    tokio::spawn(converse(UnixStream::connect(path).await?, request, find_end, window))
                }
            });
        }
        for connection in running {
            all.append(connection.await.map_err(io::Error::other)??);
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
