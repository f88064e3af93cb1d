//! The front-ends as modules: HTTP and WebSocket can be stopped and started while the node runs, by the settings or by
//! `admin_startRPC`; the Unix socket stays. Their exposure can change while they serve, when the settings are read
//! again or by `admin_setExposure`.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tenon_api::messages::{ChangedSetting, ExposureReport, FrontEnd, ModuleChange, SetExposure, StartFrontEnd};
use tenon_api::{BusError, FrontEndRefusal, RequestError};
use tenon_bus::{Bus, CallContext, RegisterError};
use tenon_config::{NamespaceNames, Settings};
use tenon_host::Router;
use tenon_ipc::Servers;
use tenon_modules::{ActorControl, ActorModule, ActorReport, ActorStage, ActorSwitch, ModuleRegister, SwitchError};

use crate::endpoints::Announcer;
use crate::exit::Stop;
use crate::front_ends;
use crate::live_settings::{LiveSettings, now};

/// Time for a closing front-end before its report says that it is draining. Idle connections close within it.
const CHECK_PERIOD: Duration = Duration::from_millis(50);

/// The name of a front-end's module.
const fn module_name(front_end: FrontEnd) -> &'static str {
    match front_end {
        FrontEnd::Http => "http",
        FrontEnd::WebSocket => "websocket",
    }
}

/// Opens, closes and changes the front-ends.
pub(crate) struct FrontEnds {
    servers: Arc<Servers<Router>>,
    router: Router,
    /// The settings at the start, for values that do not change while the node runs.
    settings: Settings,
    /// The current settings. Nothing awaits under the lock.
    live: Mutex<LiveSettings>,
    names: NamespaceNames,
    endpoints: Arc<Announcer>,
    /// Requests that replace the settings at the next start of a front-end. Nothing awaits under the lock.
    start_requests: Mutex<Vec<StartFrontEnd>>,
    /// Held while `live` is applied to the servers, so that they never end up with an older version.
    applying: tokio::sync::Mutex<()>,
    /// Held while a front-end is started on request, so that two requests don't mix.
    starting: tokio::sync::Mutex<()>,
}

impl FrontEnds {
    /// Front-ends, all closed. `is_confined`: none may listen beyond this machine.
    pub(crate) fn new(
        servers: Arc<Servers<Router>>,
        router: Router,
        settings: Settings,
        is_confined: bool,
        names: NamespaceNames,
        endpoints: Arc<Announcer>,
    ) -> Arc<Self> {
        let live = Mutex::new(LiveSettings::new(settings.clone(), is_confined));
        let (start_requests, applying, starting) = Default::default();
        Arc::new(Self { servers, router, settings, live, names, endpoints, start_requests, applying, starting })
    }

    /// The front-ends as modules. The Unix socket, or without it the front-end that replaces it, cannot be stopped:
    /// [`FrontEnds::open_fixed`] opens it.
    pub(crate) fn modules(self: &Arc<Self>) -> Vec<ActorModule> {
        let unstoppable = self.unstoppable();
        let mut modules = Vec::new();
        if !self.settings.ipc.disabled {
            let reason = "without it nothing could enable it again; stop the node instead";
            let summary = "Serves every namespace to programs of this machine over the Unix socket.";
            let front_ends = Arc::clone(self);
            let probe = move || ActorReport {
                address: front_ends.endpoints.endpoints().ipc.map(|path| path.display().to_string()),
                connections: Some(front_ends.servers.traffic().socket.counted().open),
                ..ActorReport::default()
            };
            let socket = module("socket", summary, true, ActorControl::Fixed(reason));
            modules.push(ActorModule { probe: Some(Box::new(probe)), ..socket });
        }
        let tcp = [
            (FrontEnd::Http, self.settings.http.enabled, "Serves clients over HTTP."),
            (FrontEnd::WebSocket, self.settings.ws.enabled, "Serves clients over WebSocket."),
        ];
        for (front_end, is_wanted, summary) in tcp {
            let control = if unstoppable == Some(front_end) {
                ActorControl::Fixed("there is no Unix socket, so nothing could enable it again; stop the node instead")
            } else {
                ActorControl::Switch(Box::new(FrontEndSwitch { front_ends: Arc::clone(self), front_end }))
            };
            let front_ends = Arc::clone(self);
            let probe = move || front_ends.report(front_end);
            let module = module(module_name(front_end), summary, is_wanted, control);
            modules.push(ActorModule { probe: Some(Box::new(probe)), ..module });
        }
        modules
    }

    /// The front-end that can't be stopped because there is no socket.
    const fn unstoppable(&self) -> Option<FrontEnd> {
        match (self.settings.ipc.disabled, self.settings.http.enabled, self.settings.ws.enabled) {
            (true, true, _) => Some(FrontEnd::Http),
            (true, false, true) => Some(FrontEnd::WebSocket),
            _ => None,
        }
    }

    /// Opens the front-ends that no module opens.
    ///
    /// # Errors
    /// [`Stop`] if one can't be opened.
    pub(crate) async fn open_fixed(&self) -> Result<(), Stop> {
        if let Some(front_end) = self.unstoppable() {
            self.open(front_end).await.map_err(Stop::failure)?;
        }
        if let Some(socket) = front_ends::settings(&self.settings, self.names)?.socket {
            let path = front_ends::absolute(&socket.path);
            self.servers.open_socket(socket).map_err(Stop::failure)?;
            self.endpoints.change(|endpoints| endpoints.ipc = Some(path));
        }
        Ok(())
    }

    async fn open(&self, front_end: FrontEnd) -> Result<(), BusError> {
        let _applying = self.applying.lock().await;
        let mut settings = {
            let request = self.take_start_request(front_end);
            let mut live = self.live.lock();
            live.open_as(front_end, request);
            live.effective(front_end)?
        };
        settings.http.enabled = front_end == FrontEnd::Http;
        settings.ws.enabled = front_end == FrontEnd::WebSocket;
        let wanted = front_ends::settings(&settings, self.names).map_err(BusError::failed)?;
        let secret = wanted.token_secret.as_deref();
        self.warn_of_powerful(front_end, &settings);
        if let Some(http) = wanted.http {
            let address = self.servers.open_http(http, secret).await.map_err(BusError::failed)?;
            self.endpoints.change(|endpoints| endpoints.http = Some(format!("http://{address}")));
        }
        if let Some(websocket) = wanted.websocket {
            let address = self.servers.open_websocket(websocket, secret).await.map_err(BusError::failed)?;
            self.endpoints.change(|endpoints| endpoints.ws = Some(format!("ws://{address}")));
        }
        let served: Vec<_> = self.router.namespaces().into_iter().map(|served| served.namespace).collect();
        for (key, namespace) in front_ends::missing_namespaces(&settings, self.names, &served) {
            if namespace != "rpc" {
                tracing::warn!(setting = key, namespace, "no plugin serves this namespace");
            }
        }
        Ok(())
    }

    async fn close(&self, front_end: FrontEnd) {
        let grace = self.settings.node.grace;
        match front_end {
            FrontEnd::Http => {
                self.endpoints.change(|endpoints| endpoints.http = None);
                self.servers.close_http(grace).await;
            }
            FrontEnd::WebSocket => {
                self.endpoints.change(|endpoints| endpoints.ws = None);
                self.servers.close_websocket(grace).await;
            }
        }
        let gone = async {
            while self.open_connections(front_end) > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        // Longer calls continue in the background: the request to stop may be one of them.
        let _ = tokio::time::timeout(CHECK_PERIOD, gone).await;
    }

    fn open_connections(&self, front_end: FrontEnd) -> u64 {
        let traffic = self.servers.traffic();
        match front_end {
            FrontEnd::Http => traffic.http.counted().open,
            FrontEnd::WebSocket => traffic.websocket.counted().open,
        }
    }

    fn report(&self, front_end: FrontEnd) -> ActorReport {
        let announced = self.endpoints.endpoints();
        let address = match front_end {
            FrontEnd::Http => announced.http,
            FrontEnd::WebSocket => announced.ws,
        };
        ActorReport { address, connections: Some(self.open_connections(front_end)), ..ActorReport::default() }
    }

    fn warn_of_powerful(&self, front_end: FrontEnd, settings: &Settings) {
        match front_end {
            FrontEnd::Http => {
                front_ends::http_exposure(settings, self.names).warn_of_powerful("http", settings.http.addr);
            }
            FrontEnd::WebSocket => {
                front_ends::websocket_exposure(settings, self.names).warn_of_powerful("websocket", settings.ws.addr);
            }
        }
    }

    fn take_start_request(&self, front_end: FrontEnd) -> Option<StartFrontEnd> {
        let mut requests = self.start_requests.lock();
        let place = requests.iter().position(|request| request.front_end == front_end)?;
        Some(requests.swap_remove(place))
    }

    /// Applies the current settings to a front-end's server, if it is open. Returns its exposure.
    async fn apply(&self, front_end: FrontEnd) -> Result<ExposureReport, BusError> {
        let _applying = self.applying.lock().await;
        let (mut settings, until) = {
            let live = self.live.lock();
            (live.effective(front_end)?, live.until(front_end))
        };
        (settings.http.enabled, settings.ws.enabled) = (front_end == FrontEnd::Http, front_end == FrontEnd::WebSocket);
        // Without its secret no token is accepted, so nothing unintended is exposed.
        let secret = front_ends::secret(&settings, self.names);
        let path = secret.as_ref().ok().and_then(Option::as_deref);
        let (exposure, changed) = match front_end {
            FrontEnd::Http => {
                let rules = front_ends::http_rules(&settings, self.names);
                let changed = self.servers.change_http(&rules, path).await;
                (rules.exposure, changed)
            }
            FrontEnd::WebSocket => {
                let rules = front_ends::websocket_rules(&settings, self.names);
                let changed = self.servers.change_websocket(&rules, path).await;
                (rules.exposure, changed)
            }
        };
        let is_open = secret.map_err(BusError::failed).and(changed.map_err(BusError::failed))?;
        let (open, with_token) = (exposure.open.as_text().to_owned(), exposure.with_token.as_text().to_owned());
        tracing::info!(module = module_name(front_end), %open, %with_token, until, "front-end exposure");
        if is_open {
            self.warn_of_powerful(front_end, &settings);
        }
        let denied_methods = match front_end {
            FrontEnd::Http => settings.http.methods_deny.to_vec(),
            FrontEnd::WebSocket => settings.ws.methods_deny.to_vec(),
        };
        Ok(ExposureReport {
            is_open,
            open: exposure.open.namespaces().unwrap_or_default().to_vec(),
            with_token: exposure.with_token.namespaces().unwrap_or_default().to_vec(),
            denied_methods,
            until,
        })
    }

    /// Changes a front-end's exposure, and restores it after the requested time.
    async fn set_exposure(self: &Arc<Self>, request: SetExposure) -> Result<ExposureReport, BusError> {
        let front_end = request.front_end;
        tracing::info!(module = module_name(front_end), ?request, "exposure change requested");
        let (number, until) = self.live.lock().change(request)?;
        let report = self.apply(front_end).await;
        if let Some(until) = until {
            tokio::spawn(end_change(Arc::downgrade(self), front_end, number, until));
        }
        report
    }

    /// Applies changed exposure settings, and returns the differences.
    ///
    /// # Errors
    /// If the secret for tokens can't be used. No token is accepted then.
    pub(crate) async fn reload(&self, settings: &Settings) -> Result<Vec<ChangedSetting>, BusError> {
        let changed = self.live.lock().reload(settings);
        if !changed.is_empty() {
            // Applied to both, even if the first one can't read its secret for tokens.
            let http = self.apply(FrontEnd::Http).await;
            let websocket = self.apply(FrontEnd::WebSocket).await;
            http.and(websocket)?;
        }
        Ok(changed)
    }

    /// Starts a front-end on request, through the host like every module.
    async fn start_as_requested(&self, host: &Weak<ModuleRegister>, request: StartFrontEnd) -> Result<(), BusError> {
        let front_end = request.front_end;
        let settings = self.live.lock().requested(&request)?;
        let _starting = self.starting.lock().await;
        self.refuse_if_open(front_end, &settings)?;
        let host = host.upgrade().ok_or(BusError::ShuttingDown)?;
        tracing::info!(module = module_name(front_end), ?request, "front-end start requested");
        self.start_requests.lock().push(request);
        let outcome = host.change(module_name(front_end), ModuleChange::Enable, true).await;
        self.take_start_request(front_end);
        outcome.map(drop).map_err(BusError::from)
    }

    fn refuse_if_open(&self, front_end: FrontEnd, settings: &Settings) -> Result<(), RequestError> {
        let open = self.servers.endpoints();
        let (address, wanted) = match front_end {
            FrontEnd::Http => (open.http, (settings.http.addr, settings.http.port)),
            FrontEnd::WebSocket => (open.websocket, (settings.ws.addr, settings.ws.port)),
        };
        match address {
            None => Ok(()),
            Some(address) if wanted == (address.ip(), address.port()) => {
                Err(FrontEndRefusal::AlreadyEnabled(front_end).into())
            }
            Some(address) => Err(FrontEndRefusal::ListensElsewhere { address }.into()),
        }
    }
}

fn module(name: &'static str, summary: &'static str, is_wanted: bool, control: ActorControl) -> ActorModule {
    let stage = ActorStage::AfterPlugins;
    ActorModule { name, summary, uses: &[], answers: &[], stage, is_wanted, control, probe: None }
}

/// Waits for the end of a temporary exposure, and restores the exposure of the settings. Reads the wall clock at least
/// every minute, because the system's time may be set.
async fn end_change(front_ends: Weak<FrontEnds>, front_end: FrontEnd, number: u64, until: u64) {
    while let Some(left) = until.checked_sub(now()).filter(|left| *left > 0) {
        tokio::time::sleep(Duration::from_secs(left.min(60))).await;
    }
    let Some(front_ends) = front_ends.upgrade() else { return };
    let is_over = front_ends.live.lock().end_change(front_end, number);
    if is_over && let Err(error) = front_ends.apply(front_end).await {
        tracing::error!(module = module_name(front_end), %error, "a temporary exposure could not be ended and \
            continues");
    }
}

/// Answers [`StartFrontEnd`] and [`SetExposure`].
///
/// # Errors
/// [`RegisterError`] when another module answers it already.
pub(crate) fn register(
    bus: &Bus,
    host: &Arc<ModuleRegister>,
    front_ends: &Arc<FrontEnds>,
) -> Result<(), RegisterError> {
    let of_exposure = Arc::clone(front_ends);
    bus.handle(move |request: SetExposure, _: CallContext| {
        let front_ends = Arc::clone(&of_exposure);
        async move { front_ends.set_exposure(request).await }
    })?;
    let (host, front_ends) = (Arc::downgrade(host), Arc::clone(front_ends));
    bus.handle(move |request: StartFrontEnd, _: CallContext| {
        let (host, front_ends) = (Weak::clone(&host), Arc::clone(&front_ends));
        async move { front_ends.start_as_requested(&host, request).await }
    })
}

struct FrontEndSwitch {
    front_ends: Arc<FrontEnds>,
    front_end: FrontEnd,
}

#[async_trait]
impl ActorSwitch for FrontEndSwitch {
    async fn start(&self) -> Result<(), SwitchError> {
        self.front_ends.open(self.front_end).await.map_err(SwitchError::new)
    }

    async fn stop(&self) -> Result<(), SwitchError> {
        self.front_ends.close(self.front_end).await;
        Ok(())
    }

    fn is_draining(&self) -> bool {
        let open = self.front_ends.servers.endpoints();
        let is_closed = match self.front_end {
            FrontEnd::Http => open.http.is_none(),
            FrontEnd::WebSocket => open.websocket.is_none(),
        };
        is_closed && self.front_ends.open_connections(self.front_end) > 0
    }
}
