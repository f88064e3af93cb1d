//! The front-ends as modules: HTTP and WebSocket are stopped and started while the node runs, by the settings or as
//! `admin_startRPC` asks; the Unix socket stays.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tenon_api::Failure;
use tenon_api::messages::{FrontEnd, ModuleChange, StartFrontEnd};
use tenon_bus::{Bus, CallContext, RegisterError};
use tenon_config::{NamespaceNames, Settings};
use tenon_host::{ActorControl, ActorModule, ActorStage, ActorSwitch, PluginHost, Router};
use tenon_ipc::Servers;

use crate::endpoints::Announcer;
use crate::exit::Stop;
use crate::front_ends;

/// How long a closing front-end is looked at before the report says that it is draining: idle connections are gone sooner.
const LOOK: Duration = Duration::from_millis(50);

/// The name of a front-end's module.
const fn module_name(front_end: FrontEnd) -> &'static str {
    match front_end {
        FrontEnd::Http => "http",
        FrontEnd::WebSocket => "websocket",
    }
}

/// What the front-ends are opened with.
pub(crate) struct FrontEnds {
    servers: Arc<Servers<Router>>,
    router: Router,
    settings: Settings,
    names: NamespaceNames,
    endpoints: Arc<Announcer>,
    /// What the next start of each is asked for in place of the settings. Nothing awaits under the lock.
    asked: Mutex<Vec<(FrontEnd, Settings)>>,
    /// Held while a front-end is started as it is asked for, so that two askers don't mix.
    asking: tokio::sync::Mutex<()>,
}

impl FrontEnds {
    /// Front-ends of which none is open.
    pub(crate) fn new(
        servers: Arc<Servers<Router>>,
        router: Router,
        settings: Settings,
        names: NamespaceNames,
        endpoints: Arc<Announcer>,
    ) -> Arc<Self> {
        let asked = Mutex::default();
        Arc::new(Self { servers, router, settings, names, endpoints, asked, asking: tokio::sync::Mutex::default() })
    }

    /// The modules, and what must be opened at the start because no module opens it: the socket, and where there is none
    /// the front-end that stays in its place.
    pub(crate) fn modules(self: &Arc<Self>) -> Vec<ActorModule> {
        let stays = self.stays();
        let mut modules = Vec::new();
        if !self.settings.ipc.disabled {
            let reason = "it is the way to administer: without it nobody could start it again; stop the node instead";
            let summary = "Answers programs of this machine over the Unix socket, with every namespace.";
            modules.push(module("socket", summary, true, ActorControl::Fixed(reason)));
        }
        let tcp = [
            (FrontEnd::Http, self.settings.http.enabled, "Answers clients over HTTP."),
            (FrontEnd::WebSocket, self.settings.ws.enabled, "Answers clients over WebSocket."),
        ];
        for (front_end, is_wanted, summary) in tcp {
            let control = if stays == Some(front_end) {
                ActorControl::Fixed("it is the way to administer where there is no Unix socket; stop the node instead")
            } else {
                ActorControl::Switch(Box::new(FrontEndSwitch { front_ends: Arc::clone(self), front_end }))
            };
            modules.push(module(module_name(front_end), summary, is_wanted, control));
        }
        modules
    }

    /// The front-end that can't be stopped because there is no socket.
    const fn stays(&self) -> Option<FrontEnd> {
        match (self.settings.ipc.disabled, self.settings.http.enabled, self.settings.ws.enabled) {
            (true, true, _) => Some(FrontEnd::Http),
            (true, false, true) => Some(FrontEnd::WebSocket),
            _ => None,
        }
    }

    /// Opens what no module opens.
    ///
    /// # Errors
    /// [`Stop`] when it can't be opened.
    pub(crate) async fn open_fixed(&self) -> Result<(), Stop> {
        if let Some(front_end) = self.stays() {
            self.open(front_end).await.map_err(Stop::failure)?;
        }
        if let Some(socket) = front_ends::settings(&self.settings, self.names)?.socket {
            let path = front_ends::absolute(&socket.path);
            self.servers.open_socket(socket).map_err(Stop::failure)?;
            self.endpoints.change(|endpoints| endpoints.ipc = Some(path));
        }
        Ok(())
    }

    async fn open(&self, front_end: FrontEnd) -> Result<(), Failure> {
        let mut settings = self.take_asked(front_end).unwrap_or_else(|| self.settings.clone());
        settings.http.enabled = front_end == FrontEnd::Http;
        settings.ws.enabled = front_end == FrontEnd::WebSocket;
        let wanted = front_ends::settings(&settings, self.names).map_err(failure)?;
        let secret = wanted.token_secret.as_deref();
        if let Some(http) = wanted.http {
            let address = self.servers.open_http(http, secret).await.map_err(failure)?;
            self.endpoints.change(|endpoints| endpoints.http = Some(format!("http://{address}")));
        }
        if let Some(websocket) = wanted.websocket {
            let address = self.servers.open_websocket(websocket, secret).await.map_err(failure)?;
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
        // What runs longer goes on in the background: the request to stop may be one of them.
        let _ = tokio::time::timeout(LOOK, gone).await;
    }

    fn open_connections(&self, front_end: FrontEnd) -> u64 {
        let traffic = self.servers.traffic();
        match front_end {
            FrontEnd::Http => traffic.http.counted().open,
            FrontEnd::WebSocket => traffic.websocket.counted().open,
        }
    }

    fn take_asked(&self, front_end: FrontEnd) -> Option<Settings> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let place = asked.iter().position(|(of, _)| *of == front_end)?;
        Some(asked.swap_remove(place).1)
    }

    /// Starts a front-end as it is asked for, through the host like every module.
    async fn start_as_asked(&self, host: &Weak<PluginHost>, request: StartFrontEnd) -> Result<(), Failure> {
        let front_end = request.front_end;
        let settings = asked_settings(&self.settings, &request)?;
        let _asking = self.asking.lock().await;
        self.refuse_if_open(front_end, &settings)?;
        let host = host.upgrade().ok_or_else(|| Failure::server("the node is shutting down"))?;
        tracing::info!(module = module_name(front_end), ?request, "front-end asked for");
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push((front_end, settings));
        let outcome = host.change(module_name(front_end), ModuleChange::Enable, true).await;
        self.take_asked(front_end);
        outcome.map(drop).map_err(Failure::from)
    }

    /// In the reference's words.
    fn refuse_if_open(&self, front_end: FrontEnd, settings: &Settings) -> Result<(), Failure> {
        let open = self.servers.endpoints();
        let (name, address, wanted) = match front_end {
            FrontEnd::Http => ("HTTP", open.http, (settings.http.addr, settings.http.port)),
            FrontEnd::WebSocket => ("WebSocket", open.websocket, (settings.ws.addr, settings.ws.port)),
        };
        match address {
            None => Ok(()),
            Some(address) if wanted == (address.ip(), address.port()) => {
                Err(Failure::server(format!("JSON-RPC over {name} is already enabled")))
            }
            // Its WebSocket server is an HTTP server too.
            Some(address) => Err(Failure::server(format!("HTTP server already running on {address}"))),
        }
    }
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::server(error.to_string())
}

/// The settings with what is asked for in their place.
///
/// # Errors
/// What is wrong with it.
fn asked_settings(settings: &Settings, request: &StartFrontEnd) -> Result<Settings, Failure> {
    let mut settings = settings.clone();
    let host = request.host.as_deref().map(address).transpose()?;
    let list = |list: &Option<Vec<String>>| {
        let trimmed = |names: &Vec<String>| -> Vec<String> {
            names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
        };
        list.as_ref().map(trimmed)
    };
    let (origins, namespaces, hosts) =
        (list(&request.origins), list(&request.namespaces), list(&request.virtual_hosts));
    match request.front_end {
        FrontEnd::Http => {
            let http = &mut settings.http;
            http.addr = host.unwrap_or(http.addr);
            http.port = request.port.unwrap_or(http.port);
            http.corsdomain = origins.unwrap_or_else(|| std::mem::take(&mut http.corsdomain));
            http.api = namespaces.unwrap_or_else(|| std::mem::take(&mut http.api));
            http.vhosts = hosts.unwrap_or_else(|| std::mem::take(&mut http.vhosts));
        }
        FrontEnd::WebSocket => {
            if hosts.is_some() {
                return Err(Failure::invalid_params("WebSocket knows no virtual hosts, but origins"));
            }
            let ws = &mut settings.ws;
            ws.addr = host.unwrap_or(ws.addr);
            ws.port = request.port.unwrap_or(ws.port);
            ws.origins = origins.unwrap_or_else(|| std::mem::take(&mut ws.origins));
            ws.api = namespaces.unwrap_or_else(|| std::mem::take(&mut ws.api));
        }
    }
    Ok(settings)
}

/// The address of a host: names other than this one would depend on who resolves them.
fn address(host: &str) -> Result<IpAddr, Failure> {
    match host.trim() {
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        text => text.parse().map_err(|_| {
            Failure::invalid_params(format!("host {text:?} is neither an IP address nor localhost; name one of these"))
        }),
    }
}

fn module(name: &'static str, summary: &'static str, is_wanted: bool, control: ActorControl) -> ActorModule {
    ActorModule { name, summary, uses: &[], answers: &[], stage: ActorStage::AfterPlugins, is_wanted, control }
}

/// Answers [`StartFrontEnd`].
///
/// # Errors
/// [`RegisterError`] when another module answers it already.
pub(crate) fn register(bus: &Bus, host: &Arc<PluginHost>, front_ends: &Arc<FrontEnds>) -> Result<(), RegisterError> {
    let (host, front_ends) = (Arc::downgrade(host), Arc::clone(front_ends));
    bus.handle(move |request: StartFrontEnd, _: CallContext| {
        let (host, front_ends) = (Weak::clone(&host), Arc::clone(&front_ends));
        async move { front_ends.start_as_asked(&host, request).await }
    })
}

struct FrontEndSwitch {
    front_ends: Arc<FrontEnds>,
    front_end: FrontEnd,
}

impl ActorSwitch for FrontEndSwitch {
    fn start(&self) -> BoxFuture<'_, Result<(), Failure>> {
        self.front_ends.open(self.front_end).boxed()
    }

    fn stop(&self) -> BoxFuture<'_, Result<(), Failure>> {
        async {
            self.front_ends.close(self.front_end).await;
            Ok(())
        }
        .boxed()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn request(front_end: FrontEnd) -> StartFrontEnd {
        StartFrontEnd { front_end, host: None, port: None, origins: None, namespaces: None, virtual_hosts: None }
    }

    #[test]
    fn what_is_not_asked_for_is_as_the_settings_have_it() {
        let mut settings = Settings::default();
        settings.http.port = 9999;
        settings.ws.api = vec!["eth".to_owned()];

        for front_end in [FrontEnd::Http, FrontEnd::WebSocket] {
            assert_eq!(asked_settings(&settings, &request(front_end)), Ok(settings.clone()));
        }
    }

    #[test]
    fn what_is_asked_for_takes_the_settings_place() {
        let list = |text: &str| Some(text.split(',').map(str::to_owned).collect());
        let asked = StartFrontEnd {
            host: Some("0.0.0.0".to_owned()),
            port: Some(0),
            origins: list("https://a.example, https://b.example"),
            namespaces: list("eth, debug"),
            virtual_hosts: list(""),
            ..request(FrontEnd::Http)
        };

        let settings = asked_settings(&Settings::default(), &asked).unwrap();

        assert_eq!((settings.http.addr, settings.http.port), (Ipv4Addr::UNSPECIFIED.into(), 0));
        assert_eq!(settings.http.corsdomain, ["https://a.example", "https://b.example"]);
        assert_eq!(settings.http.api, ["eth", "debug"]);
        assert_eq!(settings.http.vhosts, Vec::<String>::new());
        assert_eq!(settings.ws, Settings::default().ws);
    }

    #[test]
    fn refuses_hosts_that_it_would_have_to_look_up() {
        for (host, wanted) in [("localhost", true), ("::1", true), ("example.org", false), ("", false)] {
            let asked = StartFrontEnd { host: Some(host.to_owned()), ..request(FrontEnd::WebSocket) };
            let settings = asked_settings(&Settings::default(), &asked);
            assert_eq!(settings.is_ok(), wanted, "{host:?}: {settings:?}");
        }
    }

    #[test]
    fn websocket_takes_no_virtual_hosts() {
        let asked = StartFrontEnd { virtual_hosts: Some(vec!["a".to_owned()]), ..request(FrontEnd::WebSocket) };

        assert!(asked_settings(&Settings::default(), &asked).is_err());
    }
}
