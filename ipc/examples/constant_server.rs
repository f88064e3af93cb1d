//! What do the front-ends cost? Serves a constant answer over them. Compare with `tenon-bench limit`, which is only
//! hyper with a constant answer. Prints its addresses and serves until it is killed:
//!
//! ```text
//! tenon-bench load --http ADDRESS --body '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}'
//! ```

#[path = "../benches/constant/mod.rs"]
mod constant;

use std::{net::Ipv4Addr, time::Duration};

use constant::{Constant, LIMITS};
use tenon_ipc::{
    HttpLimits, HttpRules, HttpSettings, PortExposure, Servers, Settings, SocketLimits, SocketSettings, StartError,
    WebSocketLimits, WebSocketRules, WebSocketSettings,
};

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), StartError> {
    let path = std::env::temp_dir().join(format!("constant-{}.ipc", std::process::id()));
    let settings = Settings {
        http: Some(http()),
        websocket: Some(websocket()),
        socket: Some(SocketSettings { path, limits: SocketLimits::new(LIMITS, 500, 64 << 20) }),
        token_secret: None,
    };
    let servers = Servers::start(settings, Constant, None).await?;
    println!("{:?}", servers.endpoints());
    std::future::pending().await
}

fn http() -> HttpSettings {
    let exposure = PortExposure::default();
    HttpSettings {
        address: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        rules: HttpRules { exposure, cors_origins: Vec::new(), virtual_hosts: vec!["localhost".to_owned()] },
        proxies: Vec::new(),
        limits: HttpLimits {
            envelope: LIMITS,
            connections: 1_000,
            body_bytes: 5 << 20,
            request_timeout: Duration::from_secs(29),
            idle_timeout: Duration::from_secs(120),
            write_timeout: Duration::from_secs(30),
        },
    }
}

fn websocket() -> WebSocketSettings {
    WebSocketSettings {
        address: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        rules: WebSocketRules::default(),
        proxies: Vec::new(),
        limits: WebSocketLimits::new(LIMITS, 500, 15 << 20),
    }
}
