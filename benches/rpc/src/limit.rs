//! The upper limits: a constant answer by hyper, and one by only reading and writing on a Unix socket.

use std::{convert::Infallible, io, path::Path};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UnixListener, UnixStream},
};

const ANSWER: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"0x1b4\"}\n";

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    // An incomplete body ends the connection below; nothing here depends on it.
    let _ = request.into_body().collect().await;
    let mut response = Response::new(Full::new(Bytes::from_static(ANSWER)));
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
    Ok(response)
}

/// Answers every line with the minimum of work: one read, one write, checking only for newlines.
async fn answer_lines(mut stream: UnixStream) -> io::Result<()> {
    let mut received = Vec::with_capacity(4 << 10);
    while stream.read_buf(&mut received).await? > 0 {
        if received.ends_with(b"\n") {
            received.clear();
            stream.write_all(ANSWER).await?;
        }
    }
    Ok(())
}

async fn serve_lines(listener: UnixListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        // A client that hangs up is not an error.
        tokio::spawn(async move {
            let _ = answer_lines(stream).await;
        });
    }
}

async fn serve_http(listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            // Likewise.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
        });
    }
}

/// Serves on a free port of the loopback interface, which it prints, and on a Unix socket at `path`, until the process
/// is ended.
///
/// # Errors
///
/// The port or path is unavailable, or a listener fails.
pub(crate) fn serve(path: &Path) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let lines = UnixListener::bind(path)?;
        let http = TcpListener::bind(("127.0.0.1", 0)).await?;
        println!("{}", http.local_addr()?);
        tokio::try_join!(serve_lines(lines), serve_http(http)).map(|((), ())| ())
    })
}
