//! The front-ends with a constant behind them, beside a raw hyper server with the same constant: what the
//! transport and the envelope cost. Prints its addresses and serves until it is killed:
//!
//! ```text
//! wrk -t1 -c64 -d6 -s post.lua http://ADDRESS/
//! ```

#[path = "../benches/constant/mod.rs"]
mod constant;

use std::convert::Infallible;

use constant::Constant;
use http_body_util::Full;
use hyper::{Request, Response, body::Bytes, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tenon_ipc::{HttpSettings, Servers, Settings, SocketLimits, SocketSettings, WebSocketSettings};
use tokio::net::TcpListener;

async fn constant_answer(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let mut answer =
        Response::new(Full::new(Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"0x141f\"}\n")));
    answer.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    Ok(answer)
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join(format!("constant-{}.ipc", std::process::id()));
    let settings = Settings {
        http: Some(HttpSettings { port: 0, ..HttpSettings::default() }),
        websocket: Some(WebSocketSettings { port: 0, ..WebSocketSettings::default() }),
        socket: Some(SocketSettings { path, limits: SocketLimits::default() }),
        token_secret: None,
    };
    let servers = Servers::start(settings, Constant, None).await?;
    let raw = TcpListener::bind("127.0.0.1:0").await?;
    println!("{:?}\nraw hyper {}", servers.endpoints(), raw.local_addr()?);
    loop {
        let (stream, _) = raw.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(constant_answer)));
    }
}
