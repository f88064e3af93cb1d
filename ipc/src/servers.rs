//! All front-ends together: settings in, running endpoints out.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    envelope::Dispatcher,
    http::{Cors, Doors, HealthCheck, HttpLimits, HttpServer, HttpSide, Port, VirtualHosts, WebSocketSide},
    service::{Exposure, RpcService},
    socket::{self, SocketLimits, SocketServer},
    token::TokenCheck,
    websocket::{OriginRules, WebSocketLimits},
};

/// Namespaces that a TCP port serves to holders of a token only (`design.md` 8).
pub const POWERFUL_NAMESPACES: [&str; 4] = ["admin", "debug", "miner", "personal"];

/// Which front-ends run, and how. The default runs none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// HTTP.
    pub http: Option<HttpSettings>,
    /// WebSocket; on the same address and port as HTTP they share it.
    pub websocket: Option<WebSocketSettings>,
    /// The local socket, which shows every namespace.
    pub socket: Option<SocketSettings>,
    /// The file with the secret of bearer tokens: 64 hex digits. Without it no token is accepted.
    pub token_secret: Option<PathBuf>,
}

/// HTTP's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// Address to listen on. Default 127.0.0.1.
    pub address: IpAddr,
    /// Port; 0 picks a free one. Default 8545.
    pub port: u16,
    /// Namespaces to serve; `rpc` always is. Default `eth`, `net`, `web3`.
    pub modules: Vec<String>,
    /// Of `modules`, those of [`POWERFUL_NAMESPACES`] that need no token. Default none.
    pub without_token: Vec<String>,
    /// Origins whose web pages may read answers; `*` for all. Default none.
    pub cors_origins: Vec<String>,
    /// Host names under which requests may come; addresses always may; `*` for all. Default `localhost`.
    pub virtual_hosts: Vec<String>,
    /// Bounds.
    pub limits: HttpLimits,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
            port: 8545,
            modules: default_modules(),
            without_token: Vec::new(),
            cors_origins: Vec::new(),
            virtual_hosts: vec!["localhost".to_owned()],
            limits: HttpLimits::default(),
        }
    }
}

/// WebSocket's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSocketSettings {
    /// Address to listen on. Default 127.0.0.1.
    pub address: IpAddr,
    /// Port; 0 picks a free one. Default 8546.
    pub port: u16,
    /// Namespaces to serve; `rpc` always is. Default `eth`, `net`, `web3`.
    pub modules: Vec<String>,
    /// Of `modules`, those of [`POWERFUL_NAMESPACES`] that need no token. Default none.
    pub without_token: Vec<String>,
    /// Origins whose web pages may connect; `*` for all. Default none, which means `http://localhost` and
    /// this machine's name.
    pub origins: Vec<String>,
    /// Bounds.
    pub limits: WebSocketLimits,
}

impl Default for WebSocketSettings {
    fn default() -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
            port: 8546,
            modules: default_modules(),
            without_token: Vec::new(),
            origins: Vec::new(),
            limits: WebSocketLimits::default(),
        }
    }
}

fn default_modules() -> Vec<String> {
    ["eth", "net", "web3"].map(str::to_owned).to_vec()
}

/// The local socket's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketSettings {
    /// Where the socket stands.
    pub path: PathBuf,
    /// Bounds.
    pub limits: SocketLimits,
}

/// Why the front-ends did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A TCP port could not be opened.
    #[error("cannot listen on {address}: {source}; choose another port, or 0 for a free one")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The local socket could not be opened.
    #[error("cannot open the socket {path}: {source}")]
    Socket {
        /// The path asked for.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Somebody listens behind the socket's path.
    #[error("another process serves the socket {path}; stop it or choose another path")]
    SocketInUse {
        /// The path asked for.
        path: PathBuf,
    },
    /// The socket's path is taken by something else, which is left alone.
    #[error("{path} exists and is not a socket; remove it or choose another path")]
    NotASocket {
        /// The path asked for.
        path: PathBuf,
    },
    /// The secret of bearer tokens could not be read.
    #[error("cannot use the token secret {path}: {reason}")]
    TokenSecret {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// Where the front-ends listen, with the ports in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// HTTP.
    pub http: Option<SocketAddr>,
    /// WebSocket.
    pub websocket: Option<SocketAddr>,
    /// The local socket.
    pub socket: Option<PathBuf>,
}

/// The running front-ends. Dropping it ends them at once; [`Servers::stop`] lets running calls finish.
#[derive(Debug)]
pub struct Servers {
    endpoints: Endpoints,
    stopping: CancellationToken,
    tasks: JoinSet<()>,
}

impl Servers {
    /// Opens the endpoints and serves them on the current tokio runtime. `health` answers `GET /health`.
    ///
    /// # Errors
    ///
    /// Fails if any endpoint cannot be opened; then none is left open.
    pub async fn start<S: RpcService>(
        settings: Settings,
        service: S,
        health: Option<HealthCheck>,
    ) -> Result<Self, StartError> {
        let Settings { http, websocket, socket, token_secret } = settings;
        let tokens = token_secret.as_deref().map(TokenCheck::from_file).transpose()?;
        let mut endpoints = Endpoints::default();
        let mut ports = Vec::new();
        let is_shared = matches!((&http, &websocket), (Some(http), Some(websocket))
            if http.address == websocket.address && http.port == websocket.port && http.port != 0);
        let mut waiting = websocket;
        if let Some(settings) = http {
            let listener = listen(settings.address, settings.port).await?;
            endpoints.http = listener.local_addr().ok();
            let shared = if is_shared { waiting.take() } else { None };
            if shared.is_some() {
                endpoints.websocket = endpoints.http;
            }
            let http = Some(http_side(settings, &service, tokens.as_ref(), health));
            let websocket = shared.map(|settings| websocket_side(settings, &service, tokens.as_ref()));
            ports.push(HttpServer { listener, port: Arc::new(Port { http, websocket }) });
        }
        if let Some(settings) = waiting {
            let listener = listen(settings.address, settings.port).await?;
            endpoints.websocket = listener.local_addr().ok();
            let websocket = Some(websocket_side(settings, &service, tokens.as_ref()));
            ports.push(HttpServer { listener, port: Arc::new(Port { http: None, websocket }) });
        }
        let stopping = CancellationToken::new();
        let mut tasks = JoinSet::new();
        if let Some(SocketSettings { path, limits }) = socket {
            let listener = socket::listen(&path)?;
            endpoints.socket = Some(path.clone());
            let dispatcher = Dispatcher::new(service, limits.envelope.clone());
            tasks.spawn(SocketServer { listener, dispatcher, limits, path }.run(stopping.clone()));
        }
        for port in ports {
            tasks.spawn(port.run(stopping.clone()));
        }
        tracing::info!(http = ?endpoints.http, websocket = ?endpoints.websocket, socket = ?endpoints.socket, "front-ends listen");
        Ok(Self { endpoints, stopping, tasks })
    }

    /// Where they listen.
    pub const fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// Stops taking connections and requests, gives running calls `grace` to finish, then drops them.
    /// True if all finished.
    pub async fn stop(mut self, grace: Duration) -> bool {
        self.stopping.cancel();
        let all_done = async { while self.tasks.join_next().await.is_some() {} };
        let finished = tokio::time::timeout(grace, all_done).await.is_ok();
        if !finished {
            tracing::warn!(?grace, "calls were still running when the front-ends stopped");
            self.tasks.shutdown().await;
        }
        finished
    }
}

async fn listen(address: IpAddr, port: u16) -> Result<TcpListener, StartError> {
    let address = SocketAddr::new(address, port);
    TcpListener::bind(address).await.map_err(|source| StartError::Listen { address, source })
}

fn http_side<S: RpcService>(
    settings: HttpSettings,
    service: &S,
    tokens: Option<&TokenCheck>,
    health: Option<HealthCheck>,
) -> HttpSide<S> {
    warn_if_wide("http", settings.address, settings.cors_origins.iter().chain(&settings.virtual_hosts));
    HttpSide {
        dispatcher: Dispatcher::new(service.clone(), settings.limits.envelope.clone()),
        doors: doors("http", &settings.modules, &settings.without_token, tokens),
        cors: Cors::new(&settings.cors_origins),
        hosts: VirtualHosts::new(&settings.virtual_hosts),
        limits: settings.limits,
        health,
    }
}

fn websocket_side<S: RpcService>(
    settings: WebSocketSettings,
    service: &S,
    tokens: Option<&TokenCheck>,
) -> WebSocketSide<S> {
    warn_if_wide("websocket", settings.address, settings.origins.iter());
    WebSocketSide {
        dispatcher: Dispatcher::new(service.clone(), settings.limits.envelope.clone()),
        doors: doors("websocket", &settings.modules, &settings.without_token, tokens),
        origins: OriginRules::new(&settings.origins),
        limits: settings.limits,
    }
}

/// What a port shows with and without a token.
fn doors(endpoint: &'static str, modules: &[String], without_token: &[String], tokens: Option<&TokenCheck>) -> Doors {
    let is_powerful = |name: &str| POWERFUL_NAMESPACES.contains(&name);
    let is_open = |name: &&String| !is_powerful(name) || without_token.contains(name);
    let open: Vec<String> = modules.iter().filter(is_open).cloned().collect();
    for name in open.iter().filter(|name| is_powerful(name)) {
        tracing::warn!(endpoint, namespace = %name, "powerful namespace open to everybody who reaches this port");
    }
    if tokens.is_none() {
        for name in modules.iter().filter(|name| !is_open(name)) {
            tracing::warn!(endpoint, namespace = %name, "namespace needs a bearer token, but no token secret is configured: not served");
        }
    }
    Doors { open: Exposure::of(open), with_token: Exposure::of(modules.to_vec()), tokens: tokens.cloned() }
}

fn warn_if_wide<'a>(endpoint: &'static str, address: IpAddr, mut names: impl Iterator<Item = &'a String>) {
    if !address.is_loopback() {
        tracing::warn!(endpoint, %address, "listens beyond this machine");
    }
    if names.any(|name| name == "*") {
        tracing::warn!(endpoint, "open to web pages of every origin or host name");
    }
}
