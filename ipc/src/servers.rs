//! All front-ends together. HTTP and WebSocket can be opened and closed separately while the others serve.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tenon_bus::MemoryBudget;
use tokio::{
    net::{TcpListener, TcpSocket},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    access_rules::{HttpRules, WebSocketRules},
    envelope::{Dispatcher, EnvelopeLimits, TaskTurns},
    exposure::{HttpAccess, WebSocketAccess},
    http::{HealthCheck, HttpServer, HttpSide, Port, Proxies, WebSocketSide},
    service::RpcService,
    settings::{HttpSettings, Settings, SocketSettings, WebSocketSettings},
    socket::{self, SocketServer},
    start_error::StartError,
    stop_signals::{LAST_WRITES, StopSignals},
    token::TokenCheck,
    traffic::Traffic,
};

/// Maximum number of connections that wait to be accepted, if the system allows that many. It drops the attempts of others, which are repeated
/// after a second.
const MAX_WAITING_CONNECTIONS: u32 = 1_024;

/// Addresses of the front-ends, with the actual ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// HTTP.
    pub http: Option<SocketAddr>,
    /// WebSocket.
    pub websocket: Option<SocketAddr>,
    /// The local socket.
    pub socket: Option<PathBuf>,
}

/// An open TCP port.
struct OpenPort<S> {
    address: SocketAddr,
    /// Its services. Replaced as a whole when one is added or removed; a connection keeps those at its start.
    sides: Arc<ArcSwap<Port<S>>>,
    /// Cancelled when no service is left on it.
    closing: CancellationToken,
    /// Cancelled by the listener's task once the port is free.
    closed: CancellationToken,
}

/// The open ports and the socket.
struct Open<S> {
    /// Every port has at least one service; no service is on two ports.
    ports: Vec<OpenPort<S>>,
    socket: Option<PathBuf>,
    /// Listeners with their connections. They end by themselves once they are closed and drained.
    tasks: JoinSet<()>,
}

/// The front-ends. Dropping them ends them immediately; [`Servers::stop`] lets running calls finish.
pub struct Servers<S: RpcService> {
    service: S,
    health: Option<HealthCheck>,
    traffic: Traffic,
    /// The memory budget of requests.
    memory: MemoryBudget,
    /// Schedules clients' long tasks on the threads, across transports.
    turns: TaskTurns,
    /// Not locked across an await.
    open: Mutex<Open<S>>,
    /// Held while a port is opened or closed.
    operation: tokio::sync::Mutex<()>,
    /// Stops the socket.
    stop_signals: StopSignals,
}

impl<S: RpcService> Servers<S> {
    /// Creates the front-ends, none of them open. `health` answers `GET /health`.
    pub fn new(service: S, health: Option<HealthCheck>) -> Self {
        Self {
            service,
            health,
            traffic: Traffic::default(),
            memory: MemoryBudget::unbounded(),
            turns: TaskTurns::default(),
            open: Mutex::new(Open { ports: Vec::new(), socket: None, tasks: JoinSet::new() }),
            operation: tokio::sync::Mutex::default(),
            stop_signals: StopSignals::default(),
        }
    }

    /// Counts the memory of requests in this budget.
    #[must_use]
    pub fn with_memory(self, memory: MemoryBudget) -> Self {
        Self { memory, ..self }
    }

    /// Opens the endpoints and serves them on the current tokio runtime. `health` answers `GET /health`.
    ///
    /// # Errors
    ///
    /// Fails if any endpoint cannot be opened; then none is left open.
    pub async fn start(settings: Settings, service: S, health: Option<HealthCheck>) -> Result<Self, StartError> {
        let Settings { http, websocket, socket, token_secret } = settings;
        let servers = Self::new(service, health);
        if let Some(settings) = http {
            servers.open_http(settings, token_secret.as_deref()).await?;
        }
        if let Some(settings) = websocket {
            servers.open_websocket(settings, token_secret.as_deref()).await?;
        }
        if let Some(settings) = socket {
            servers.open_socket(settings)?;
        }
        Ok(servers)
    }

    /// Serves HTTP, on WebSocket's port if that is the same. `token_secret` is the file with the secret of bearer
    /// tokens, which is read again; without it no token is accepted.
    ///
    /// # Errors
    /// [`StartError`]; the front-end stays as it was.
    pub async fn open_http(
        &self,
        settings: HttpSettings,
        token_secret: Option<&Path>,
    ) -> Result<SocketAddr, StartError> {
        let _operation = self.operation.lock().await;
        if let Some(address) = self.endpoints().http {
            return Err(StartError::AlreadyRunning { front_end: "HTTP", address });
        }
        let tokens = token_secret.map(TokenCheck::from_file).transpose()?;
        let address = SocketAddr::new(settings.address, settings.port);
        let listener = self.listener(address)?;
        let side = Arc::new(self.http_side(settings, tokens));
        let address = self.serve(address, listener, |port| Port { http: Some(Arc::clone(&side)), ..port.clone() });
        tracing::debug!(endpoint = "http", %address, "front-end listens");
        Ok(address)
    }

    /// Serves WebSocket, on HTTP's port if that is the same. `token_secret` as for [`Servers::open_http`].
    ///
    /// # Errors
    /// [`StartError`]; the front-end stays as it was.
    pub async fn open_websocket(
        &self,
        settings: WebSocketSettings,
        token_secret: Option<&Path>,
    ) -> Result<SocketAddr, StartError> {
        let _operation = self.operation.lock().await;
        if let Some(address) = self.endpoints().websocket {
            return Err(StartError::AlreadyRunning { front_end: "WebSocket", address });
        }
        let tokens = token_secret.map(TokenCheck::from_file).transpose()?;
        let address = SocketAddr::new(settings.address, settings.port);
        let listener = self.listener(address)?;
        let side = Arc::new(self.websocket_side(settings, tokens));
        let address = self.serve(address, listener, |port| Port { websocket: Some(Arc::clone(&side)), ..port.clone() });
        tracing::debug!(endpoint = "websocket", %address, "front-end listens");
        Ok(address)
    }

    /// Replaces HTTP's rules for all further requests, including those of open connections. `token_secret` as for
    /// [`Servers::open_http`]. Returns false if HTTP is not open.
    ///
    /// # Errors
    /// [`StartError::TokenSecret`]; the rules apply nevertheless, and no token is accepted.
    pub async fn change_http(&self, rules: &HttpRules, token_secret: Option<&Path>) -> Result<bool, StartError> {
        let _operation = self.operation.lock().await;
        let side = self.sides().into_iter().find_map(|port| port.http.clone());
        let (Some(side), Some(address)) = (side, self.endpoints().http) else { return Ok(false) };
        let (tokens, outcome) = tokens_of(token_secret);
        warn_if_wide("http", address.ip(), rules.cors_origins.iter().chain(&rules.virtual_hosts));
        side.access.store(Arc::new(HttpAccess::new(rules, tokens)));
        outcome.map(|()| true)
    }

    /// Replaces WebSocket's rules for all further messages and notifications, including those of open connections.
    /// `token_secret` as for [`Servers::open_http`]. Returns false if WebSocket is not open.
    ///
    /// # Errors
    /// [`StartError::TokenSecret`]; the rules apply nevertheless, and no token is accepted.
    pub async fn change_websocket(
        &self,
        rules: &WebSocketRules,
        token_secret: Option<&Path>,
    ) -> Result<bool, StartError> {
        let _operation = self.operation.lock().await;
        let side = self.sides().into_iter().find_map(|port| port.websocket.clone());
        let (Some(side), Some(address)) = (side, self.endpoints().websocket) else { return Ok(false) };
        let (tokens, outcome) = tokens_of(token_secret);
        warn_if_wide("websocket", address.ip(), rules.origins.iter());
        side.access.store(Arc::new(WebSocketAccess::new(rules, tokens)));
        outcome.map(|()| true)
    }

    /// Serves the local socket.
    ///
    /// # Errors
    /// [`StartError`] if it can't be opened.
    pub fn open_socket(&self, settings: SocketSettings) -> Result<(), StartError> {
        let SocketSettings { path, limits } = settings;
        let listener = socket::listen(&path)?;
        let dispatcher = self.dispatcher(&limits.envelope, &self.stop_signals);
        let traffic = Arc::clone(&self.traffic.socket);
        let server = SocketServer { listener, dispatcher, limits, traffic };
        tracing::debug!(endpoint = "socket", path = %path.display(), "front-end listens");
        let mut open = self.open.lock();
        open.tasks.spawn(server.run(self.stop_signals.clone()));
        open.socket = Some(path);
        Ok(())
    }

    /// Closes HTTP. Its port is free when this returns, unless WebSocket is served on it too. Pending requests of its
    /// connections are answered in the background, for up to `grace`. Returns false if it was not open.
    pub async fn close_http(&self, grace: Duration) -> bool {
        let _operation = self.operation.lock().await;
        let side = self.sides().into_iter().find_map(|port| port.http.clone());
        let Some(side) = side else { return false };
        side.stop_signals.begin_stop(grace);
        self.withdraw(|port| Port { http: None, ..port.clone() }).await;
        tracing::info!(endpoint = "http", "front-end closed");
        true
    }

    /// Closes WebSocket. Its port is free when this returns, unless HTTP is served on it too. Its connections receive
    /// the close code 1001 once their requests are answered, in the background and within `grace`. Returns false if it
    /// was not open.
    pub async fn close_websocket(&self, grace: Duration) -> bool {
        let _operation = self.operation.lock().await;
        let side = self.sides().into_iter().find_map(|port| port.websocket.clone());
        let Some(side) = side else { return false };
        side.stop_signals.begin_stop(grace);
        self.withdraw(|port| Port { websocket: None, ..port.clone() }).await;
        tracing::info!(endpoint = "websocket", "front-end closed");
        true
    }

    /// The addresses of the open front-ends.
    pub fn endpoints(&self) -> Endpoints {
        let open = self.open.lock();
        let address = |is_there: fn(&Port<S>) -> bool| {
            open.ports.iter().find(|port| is_there(&port.sides.load())).map(|port| port.address)
        };
        Endpoints {
            http: address(|port| port.http.is_some()),
            websocket: address(|port| port.websocket.is_some()),
            socket: open.socket.clone(),
        }
    }

    /// The traffic counts of the front-ends.
    pub const fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Stops accepting connections and requests, and gives running calls `grace` to finish. Unfinished calls are
    /// then cancelled and answered with an error. Their connections close, WebSockets with the code 1001. Returns true if
    /// all calls finished.
    pub async fn stop(&self, grace: Duration) -> bool {
        let _operation = self.operation.lock().await;
        let ports = self.sides();
        let signals = || ports.iter().flat_map(|port| port.stop_signals()).chain([&self.stop_signals]);
        signals().for_each(|signals| signals.stopping.set());
        let mut tasks = {
            let mut open = self.open.lock();
            open.socket = None;
            open.ports.drain(..).for_each(|port| port.closing.cancel());
            std::mem::take(&mut open.tasks)
        };
        let finished = tokio::time::timeout(grace, all_ended(&mut tasks)).await.is_ok();
        if !finished {
            tracing::warn!(?grace, "calls were still running when the front-ends stopped");
            signals().for_each(|signals| signals.cut.set());
            let _ = tokio::time::timeout(LAST_WRITES, all_ended(&mut tasks)).await;
            tasks.shutdown().await;
        }
        finished
    }

    fn sides(&self) -> Vec<Arc<Port<S>>> {
        self.open.lock().ports.iter().map(|port| port.sides.load_full()).collect()
    }

    /// Opens a listener, unless the port is open already.
    fn listener(&self, address: SocketAddr) -> Result<Option<TcpListener>, StartError> {
        if self.open.lock().ports.iter().any(|port| port.address == address) {
            return Ok(None);
        }
        listen(address).map(Some).map_err(|source| StartError::Listen { address, source })
    }

    /// Adds a service to the port of a new listener, or to the open port if there is no listener.
    fn serve(
        &self,
        address: SocketAddr,
        listener: Option<TcpListener>,
        with_side: impl Fn(&Port<S>) -> Port<S>,
    ) -> SocketAddr {
        let mut open = self.open.lock();
        let Some(listener) = listener else {
            if let Some(port) = open.ports.iter().find(|port| port.address == address) {
                port.sides.rcu(|sides| with_side(sides));
            }
            return address;
        };
        let address = listener.local_addr().unwrap_or(address);
        let sides = Arc::new(ArcSwap::from_pointee(with_side(&Port { http: None, websocket: None })));
        let (closing, closed) = (CancellationToken::new(), CancellationToken::new());
        let server =
            HttpServer { listener, sides: Arc::clone(&sides), closing: closing.clone(), closed: closed.clone() };
        while open.tasks.try_join_next().is_some() {}
        open.tasks.spawn(server.run());
        open.ports.push(OpenPort { address, sides, closing, closed });
        address
    }

    /// Removes a service from its port, and closes ports without any.
    async fn withdraw(&self, without_side: impl Fn(&Port<S>) -> Port<S>) {
        let closed = {
            let mut open = self.open.lock();
            for port in &open.ports {
                port.sides.rcu(|sides| without_side(sides));
            }
            let idle: Vec<_> =
                open.ports.extract_if(.., |port| port.sides.load().stop_signals().next().is_none()).collect();
            idle.iter().for_each(|port| port.closing.cancel());
            idle.into_iter().map(|port| port.closed).collect::<Vec<_>>()
        };
        for closed in closed {
            closed.cancelled().await;
        }
    }

    fn dispatcher(&self, limits: &EnvelopeLimits, stop_signals: &StopSignals) -> Dispatcher<S> {
        Dispatcher::new(self.service.clone(), limits.clone())
            .with_memory(self.memory.clone())
            .with_turns(self.turns.clone())
            .with_cut_signal(stop_signals.cut.clone())
    }

    fn http_side(&self, settings: HttpSettings, tokens: Option<TokenCheck>) -> HttpSide<S> {
        let rules = &settings.rules;
        warn_if_wide("http", settings.address, rules.cors_origins.iter().chain(&rules.virtual_hosts));
        let stop_signals = StopSignals::default();
        HttpSide {
            access: ArcSwap::from_pointee(HttpAccess::new(rules, tokens)),
            dispatcher: self.dispatcher(&settings.limits.envelope, &stop_signals),
            proxies: Proxies::new(settings.proxies),
            limits: settings.limits,
            health: self.health.clone(),
            stop_signals,
            traffic: Arc::clone(&self.traffic.http),
        }
    }

    fn websocket_side(&self, settings: WebSocketSettings, tokens: Option<TokenCheck>) -> WebSocketSide<S> {
        warn_if_wide("websocket", settings.address, settings.rules.origins.iter());
        let stop_signals = StopSignals::default();
        WebSocketSide {
            access: Arc::new(ArcSwap::from_pointee(WebSocketAccess::new(&settings.rules, tokens))),
            dispatcher: self.dispatcher(&settings.limits.envelope, &stop_signals),
            proxies: Proxies::new(settings.proxies),
            limits: settings.limits,
            stop_signals,
            traffic: Arc::clone(&self.traffic.websocket),
        }
    }
}

impl<S: RpcService> std::fmt::Debug for Servers<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Servers").field("endpoints", &self.endpoints()).finish_non_exhaustive()
    }
}

/// Listens on an address.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restarted node can listen again although connections of the last one are still closing.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(MAX_WAITING_CONNECTIONS)
}

async fn all_ended(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

/// The token check; `None` if there is no secret or it can't be used.
fn tokens_of(secret: Option<&Path>) -> (Option<TokenCheck>, Result<(), StartError>) {
    match secret.map(TokenCheck::from_file).transpose() {
        Ok(tokens) => (tokens, Ok(())),
        Err(error) => (None, Err(error)),
    }
}

fn warn_if_wide<'a>(endpoint: &'static str, address: IpAddr, mut names: impl Iterator<Item = &'a String>) {
    if !address.is_loopback() {
        tracing::warn!(endpoint, %address, "other machines can reach this front-end");
    }
    if names.any(|name| name == "*") {
        tracing::warn!(endpoint, "web pages of every origin or host name can use this front-end");
    }
}
