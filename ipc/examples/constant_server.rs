//! What do the front-ends cost? Serves a constant answer over them. Compare with `tenon-bench limit`, which is only
//! hyper with a constant answer. Prints its addresses and serves until it is killed:
//!
//! ```text
//! tenon-bench load --http ADDRESS --body '{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}'
//! ```

#[path = "../benches/constant/mod.rs"]
mod constant;

use constant::Constant;
use tenon_ipc::{HttpSettings, Servers, Settings, SocketLimits, SocketSettings, StartError, WebSocketSettings};

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), StartError> {
    let path = std::env::temp_dir().join(format!("constant-{}.ipc", std::process::id()));
    let settings = Settings {
        http: Some(HttpSettings { port: 0, ..HttpSettings::default() }),
        websocket: Some(WebSocketSettings { port: 0, ..WebSocketSettings::default() }),
        socket: Some(SocketSettings { path, limits: SocketLimits::default() }),
        token_secret: None,
    };
    let servers = Servers::start(settings, Constant, None).await?;
    println!("{:?}", servers.endpoints());
    std::future::pending().await
}
