//! Converts settings to the front-ends' own types.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tenon_config::{NamespaceNames, Settings};
use tenon_ipc::{
    EnvelopeLimits, HttpLimits, HttpRules, HttpSettings, Network, NetworkError, SocketLimits, SocketSettings,
    WebSocketLimits, WebSocketRules, WebSocketSettings,
};

use crate::exit::Stop;
use crate::exposure::ExposureSettings;

/// The front-ends' settings, with these names of namespaces.
///
/// # Errors
/// [`Stop::Usage`] if a proxy is not an address; [`Stop::DataFolder`] if the file with the token's secret is needed and
/// can't be created.
pub(crate) fn settings(settings: &Settings, names: NamespaceNames) -> Result<tenon_ipc::Settings, Stop> {
    let proxies = proxies(settings)?;
    Ok(tenon_ipc::Settings {
        token_secret: secret(settings, names)?,
        http: settings.http.enabled.then(|| http(settings, names, proxies.clone())),
        websocket: settings.ws.enabled.then(|| websocket(settings, names, proxies)),
        socket: (!settings.ipc.disabled).then(|| socket(settings)),
    })
}

/// The file with the secret of tokens, created if needed and missing; `None` if it is neither needed nor present.
///
/// # Errors
/// [`Stop::DataFolder`] if it is needed and can't be created.
pub(crate) fn secret(settings: &Settings, names: NamespaceNames) -> Result<Option<PathBuf>, Stop> {
    let secret = settings.in_data_folder(&settings.auth.jwtsecret);
    if needs_secret(settings, names) {
        make_secret(&secret)?;
    }
    Ok(secret.is_file().then_some(secret))
}

/// Namespaces that are served over TCP without a plugin for them.
pub(crate) fn missing_namespaces<'a>(
    settings: &'a Settings,
    names: NamespaceNames,
    served: &[String],
) -> Vec<(&'static str, &'a str)> {
    let lists =
        [("http.api", settings.http.enabled, &settings.http.api), ("ws.api", settings.ws.enabled, &settings.ws.api)];
    lists
        .into_iter()
        .filter(|(_, is_enabled, _)| *is_enabled)
        .flat_map(|(key, _, names)| names.iter().map(move |name| (key, name.as_str())))
        .filter(|(_, name)| !served.iter().any(|namespace| namespace == names.own_name(name)))
        .collect()
}

fn envelope(settings: &Settings) -> EnvelopeLimits {
    let rpc = &settings.rpc;
    EnvelopeLimits {
        batch_items: rpc.batch_items as usize,
        batch_concurrency: EnvelopeLimits::BATCH_CONCURRENCY,
        response_bytes: rpc.response_bytes.as_usize(),
        batch_response_bytes: rpc.batch_bytes.as_usize(),
        call_timeout: Some(rpc.request_timeout),
        computing_time: (!rpc.computing_time.is_zero()).then_some(rpc.computing_time),
        subscriptions: rpc.subscriptions as usize,
        client_subscriptions: rpc.client_subscriptions as usize,
    }
}

/// The exposure settings of HTTP.
pub(crate) fn http_exposure(settings: &Settings, names: NamespaceNames) -> ExposureSettings<'_> {
    let http = &settings.http;
    ExposureSettings { namespaces: &http.api, denied: &http.methods_deny, with_token: &settings.auth.namespaces, names }
}

/// The exposure settings of WebSocket.
pub(crate) fn websocket_exposure(settings: &Settings, names: NamespaceNames) -> ExposureSettings<'_> {
    let ws = &settings.ws;
    ExposureSettings { namespaces: &ws.api, denied: &ws.methods_deny, with_token: &settings.auth.namespaces, names }
}

/// The trusted proxies, for both HTTP and WebSocket.
///
/// # Errors
/// [`Stop::Usage`] naming the entry that is neither an address nor a network.
pub(crate) fn proxies(settings: &Settings) -> Result<Vec<Network>, Stop> {
    let networks = settings.http.proxies.iter().map(|text| text.parse());
    networks.collect::<Result<_, NetworkError>>().map_err(|error| Stop::Usage(format!("http.proxies: {error}")))
}

/// The access rules of HTTP, from the settings.
pub(crate) fn http_rules(settings: &Settings, names: NamespaceNames) -> HttpRules {
    HttpRules {
        exposure: http_exposure(settings, names).exposure(),
        cors_origins: settings.http.corsdomain.to_vec(),
        virtual_hosts: settings.http.vhosts.clone(),
    }
}

fn http(settings: &Settings, names: NamespaceNames, proxies: Vec<Network>) -> HttpSettings {
    let http = &settings.http;
    HttpSettings {
        address: http.addr,
        port: http.port,
        rules: http_rules(settings, names),
        proxies,
        limits: HttpLimits {
            envelope: envelope(settings),
            connections: http.connections as usize,
            body_bytes: http.body_limit.as_usize(),
            request_timeout: http.request_timeout,
            idle_timeout: http.idle_timeout,
            write_timeout: http.write_timeout,
        },
    }
}

/// The access rules of WebSocket, from the settings.
pub(crate) fn websocket_rules(settings: &Settings, names: NamespaceNames) -> WebSocketRules {
    WebSocketRules { exposure: websocket_exposure(settings, names).exposure(), origins: settings.ws.origins.to_vec() }
}

fn websocket(settings: &Settings, names: NamespaceNames, proxies: Vec<Network>) -> WebSocketSettings {
    let ws = &settings.ws;
    WebSocketSettings {
        address: ws.addr,
        port: ws.port,
        rules: websocket_rules(settings, names),
        proxies,
        limits: WebSocketLimits::new(envelope(settings), ws.connections as usize, ws.message_limit.as_usize()),
    }
}

fn socket(settings: &Settings) -> SocketSettings {
    let ipc = &settings.ipc;
    SocketSettings {
        path: settings.in_data_folder(&ipc.path),
        limits: SocketLimits::new(envelope(settings), ipc.connections as usize, ipc.message_limit.as_usize()),
    }
}

/// Whether a namespace that needs a token is served over TCP.
fn needs_secret(settings: &Settings, names: NamespaceNames) -> bool {
    let (http, websocket) = (http_exposure(settings, names), websocket_exposure(settings, names));
    (settings.http.enabled && http.needs_secret()) || (settings.ws.enabled && websocket.needs_secret())
}

/// Creates the secret if there is none: 32 random bytes in hexadecimal, readable by the owner only.
fn make_secret(path: &Path) -> Result<(), Stop> {
    let secret: [u8; 32] = rand::random();
    let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    match file.and_then(|mut file| file.write_all(format!("0x{digits}\n").as_bytes())) {
        Ok(()) => {
            tracing::info!(path = %path.display(), "created the secret for bearer tokens");
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_file() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let problem = "it is not a regular file: remove it, and the next start writes a secret";
            Err(Stop::DataFolder(format!("auth.jwtsecret {}: {problem}", path.display())))
        }
        Err(error) => Err(Stop::DataFolder(format!("auth.jwtsecret {}: {error}", path.display()))),
    }
}

/// An absolute path for display, independent of the folder in which the node was started.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tenon_config::MethodPatterns;

    use super::*;

    #[test]
    fn makes_a_secret_once_and_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        let mut chosen = Settings::default();
        chosen.node.datadir = folder.path().to_owned();

        assert_eq!(settings(&chosen, NamespaceNames::OWN).unwrap().token_secret, None);
        chosen.http.api.push("debug".into());
        let path = settings(&chosen, NamespaceNames::OWN).unwrap().token_secret.unwrap();
        let first = std::fs::read_to_string(&path).unwrap();
        settings(&chosen, NamespaceNames::OWN).unwrap();

        assert_eq!(first.trim().len(), 66);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), first);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn each_front_end_shows_its_own_lists() {
        let mut chosen = Settings::default();
        chosen.http.api = ["eth", "debug"].map(str::to_owned).to_vec();
        chosen.http.methods_deny = MethodPatterns::new(vec!["eth_sign*".into()]).unwrap();
        chosen.auth.namespaces = vec!["eth".into()];

        let http = http_rules(&chosen, NamespaceNames::OWN).exposure;
        let websocket = websocket_rules(&chosen, NamespaceNames::OWN).exposure;

        assert_eq!(http.open.as_text(), "debug,rpc,!eth_sign*");
        assert_eq!(http.with_token.as_text(), "debug,eth,rpc,!eth_sign*");
        assert_eq!(websocket.open.as_text(), "net,rpc,web3");
    }

    #[test]
    fn the_references_name_exposes_a_namespace_only_if_it_is_served_under_it() {
        let mut chosen = Settings::default();
        chosen.http.api = vec!["XDPoS".into()];
        let served = ["Consensus".to_owned()];

        let exposed = |names| http_rules(&chosen, names).exposure.open;
        assert_eq!(exposed(NamespaceNames::WITH_ALIASES).as_text(), "Consensus,XDPoS,rpc");
        assert!(
            missing_namespaces(&chosen, NamespaceNames::WITH_ALIASES, &served)
                .iter()
                .all(|(key, _)| *key != "http.api")
        );
        assert_eq!(exposed(NamespaceNames::OWN).as_text(), "XDPoS,rpc");
        assert!(missing_namespaces(&chosen, NamespaceNames::OWN, &served).contains(&("http.api", "XDPoS")));
    }

    #[test]
    fn names_requested_namespaces_without_a_plugin() {
        let mut chosen = Settings::default();
        chosen.ws.enabled = false;
        chosen.http.api.push("clique".into());
        let served = ["eth", "net", "web3"].map(str::to_owned);

        assert_eq!(missing_namespaces(&chosen, NamespaceNames::OWN, &served), [("http.api", "clique")]);
    }
}
