//! Settings in the front-ends' own terms.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tenon_config::{NamespaceNames, Settings};
use tenon_ipc::{
    EnvelopeLimits, HttpLimits, HttpSettings, SocketLimits, SocketSettings, WebSocketLimits, WebSocketSettings,
};

use crate::exit::Stop;

/// What the front-ends are started with, where namespaces have these names.
///
/// # Errors
/// [`Stop::DataFolder`] when the file with the token's secret has to be made and can't be.
pub(crate) fn settings(settings: &Settings, names: NamespaceNames) -> Result<tenon_ipc::Settings, Stop> {
    let secret = settings.in_data_folder(&settings.auth.jwtsecret);
    if needs_secret(settings, names) {
        make_secret(&secret)?;
    }
    Ok(tenon_ipc::Settings {
        http: settings.http.enabled.then(|| http(settings, names)),
        websocket: settings.ws.enabled.then(|| websocket(settings, names)),
        socket: (!settings.ipc.disabled).then(|| socket(settings)),
        token_secret: secret.is_file().then_some(secret),
    })
}

/// Namespaces that are served over TCP and for which no plugin is there.
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
        response_bytes: rpc.response_bytes.as_usize(),
        batch_response_bytes: rpc.batch_bytes.as_usize(),
        call_timeout: Some(rpc.request_timeout),
        subscriptions: rpc.subscriptions as usize,
        client_subscriptions: rpc.client_subscriptions as usize,
        ..EnvelopeLimits::default()
    }
}

/// Of a list of namespaces, those that need no token.
fn without_token(settings: &Settings, names: NamespaceNames, api: &[String]) -> Vec<String> {
    // By whichever name a namespace stands in the list of those that need one, wherever that name is served.
    let with_token = own_names(&settings.auth.namespaces, NamespaceNames::WITH_ALIASES);
    own_names(api, names).into_iter().filter(|name| !with_token.contains(name)).collect()
}

/// A list of namespaces by our names, where it may say the reference's.
fn own_names(api: &[String], names: NamespaceNames) -> Vec<String> {
    api.iter().map(|name| names.own_name(name).to_owned()).collect()
}

fn http(settings: &Settings, names: NamespaceNames) -> HttpSettings {
    let http = &settings.http;
    HttpSettings {
        address: http.addr,
        port: http.port,
        modules: own_names(&http.api, names),
        without_token: without_token(settings, names, &http.api),
        cors_origins: http.corsdomain.clone(),
        virtual_hosts: http.vhosts.clone(),
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

fn websocket(settings: &Settings, names: NamespaceNames) -> WebSocketSettings {
    let ws = &settings.ws;
    WebSocketSettings {
        address: ws.addr,
        port: ws.port,
        modules: own_names(&ws.api, names),
        without_token: without_token(settings, names, &ws.api),
        origins: ws.origins.clone(),
        limits: WebSocketLimits {
            envelope: envelope(settings),
            connections: ws.connections as usize,
            message_bytes: ws.message_limit.as_usize(),
            ..WebSocketLimits::default()
        },
    }
}

fn socket(settings: &Settings) -> SocketSettings {
    SocketSettings {
        path: settings.in_data_folder(&settings.ipc.path),
        limits: SocketLimits {
            envelope: envelope(settings),
            connections: settings.ipc.connections as usize,
            message_bytes: settings.ipc.message_limit.as_usize(),
            ..SocketLimits::default()
        },
    }
}

/// Whether a namespace that needs a token is served over TCP.
fn needs_secret(settings: &Settings, names: NamespaceNames) -> bool {
    let lists = [(settings.http.enabled, &settings.http.api), (settings.ws.enabled, &settings.ws.api)];
    lists.iter().any(|(is_enabled, api)| *is_enabled && without_token(settings, names, api).len() < api.len())
}

/// Makes the secret when there is none: 32 random bytes in hexadecimal, readable by the owner only.
fn make_secret(path: &Path) -> Result<(), Stop> {
    let secret: [u8; 32] = rand::random();
    let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    match file.and_then(|mut file| file.write_all(format!("0x{digits}\n").as_bytes())) {
        Ok(()) => {
            tracing::info!(path = %path.display(), "secret for bearer tokens made");
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Stop::DataFolder(format!("auth.jwtsecret {}: {error}", path.display()))),
    }
}

/// A path that a person can use, whatever folder the node was started in.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

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
    fn leaves_a_namespace_open_only_where_the_operator_took_it_off_the_list() {
        let mut chosen = Settings::default();
        chosen.http.api = ["eth", "debug", "admin"].map(str::to_owned).to_vec();
        assert_eq!(http(&chosen, NamespaceNames::OWN).without_token, ["eth"]);

        chosen.auth.namespaces = vec!["admin".into()];
        assert_eq!(http(&chosen, NamespaceNames::OWN).without_token, ["eth", "debug"]);
    }

    #[test]
    fn the_references_name_of_a_namespace_exposes_it_only_where_it_is_served_by_it() {
        let mut chosen = Settings::default();
        chosen.http.api = vec!["XDPoS".into()];
        let served = ["Consensus".to_owned()];

        assert_eq!(http(&chosen, NamespaceNames::WITH_ALIASES).modules, ["Consensus"]);
        assert!(
            missing_namespaces(&chosen, NamespaceNames::WITH_ALIASES, &served)
                .iter()
                .all(|(key, _)| *key != "http.api")
        );
        assert_eq!(http(&chosen, NamespaceNames::OWN).modules, ["XDPoS"]);
        assert!(missing_namespaces(&chosen, NamespaceNames::OWN, &served).contains(&("http.api", "XDPoS")));
    }

    #[test]
    fn a_token_is_asked_for_by_whichever_name_the_list_says() {
        let mut chosen = Settings::default();
        chosen.auth.namespaces = vec!["XDPoS".into()];
        for (name, names) in [("XDPoS", NamespaceNames::WITH_ALIASES), ("Consensus", NamespaceNames::OWN)] {
            chosen.http.api = vec![name.into()];
            assert!(http(&chosen, names).without_token.is_empty(), "{name}");
        }
    }

    #[test]
    fn names_what_is_asked_for_and_not_there() {
        let mut chosen = Settings::default();
        chosen.ws.enabled = false;
        chosen.http.api.push("clique".into());
        let served = ["eth", "net", "web3"].map(str::to_owned);

        assert_eq!(missing_namespaces(&chosen, NamespaceNames::OWN, &served), [("http.api", "clique")]);
    }
}
