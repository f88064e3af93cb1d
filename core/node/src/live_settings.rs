//! The current settings of the front-ends: the settings, overridden by `admin_startRPC`, overridden by
//! `admin_setExposure`.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{SystemTime, UNIX_EPOCH};

use tenon_api::BusError;
use tenon_api::messages::{ChangedSetting, FrontEnd, SetExposure, StartFrontEnd};
use tenon_config::{HttpSettings, MethodPatterns, OriginList, Settings, WsSettings};

use crate::setting_changes::differences;

/// Settings that apply immediately when they are read again.
pub(crate) const LIVE: [&str; 8] = [
    "http.api",
    "http.methods.deny",
    "http.corsdomain",
    "http.vhosts",
    "ws.api",
    "ws.methods.deny",
    "ws.origins",
    "auth.namespaces",
];

/// The default port of `admin_startRPC` and `admin_startWS` (`docs/spec/rpc-node.md` 8).
const DEFAULT_START_PORT: u16 = 8546;
/// Maximum number of names in one list of a request.
const MAX_NAMES: usize = 256;
/// Maximum duration of a requested change, in seconds: ten years.
const MAX_SECONDS: u64 = 10 * 365 * 24 * 3600;

/// The current settings of the front-ends.
#[derive(Debug)]
pub(crate) struct LiveSettings {
    /// Last read values of [`LIVE`] settings; the others as at the start.
    settings: Settings,
    /// Whether no front-end may listen beyond this machine.
    is_confined: bool,
    http: Overlays,
    websocket: Overlays,
    /// Number of the latest change. The end of a change that was replaced has another number, and is ignored.
    changes: u64,
}

/// Overrides of one front-end's settings.
#[derive(Debug, Default)]
struct Overlays {
    /// The request that opened it, if the settings did not.
    request: Option<StartFrontEnd>,
    change: Option<Change>,
}

/// A change of exposure while it serves.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Change {
    number: u64,
    namespaces: Option<Vec<String>>,
    denied: Option<MethodPatterns>,
    with_token: Option<Vec<String>>,
    /// Its end in seconds since 1970.
    until: Option<u64>,
}

impl LiveSettings {
    /// The settings of the start, without overrides.
    pub(crate) fn new(settings: Settings, is_confined: bool) -> Self {
        Self { settings, is_confined, http: Overlays::default(), websocket: Overlays::default(), changes: 0 }
    }

    /// Records how a front-end is opened: by the request, or by the settings.
    pub(crate) fn open_as(&mut self, front_end: FrontEnd, request: Option<StartFrontEnd>) {
        self.of_mut(front_end).request = request;
    }

    /// The current settings of a front-end.
    ///
    /// # Errors
    /// The problem with the request.
    pub(crate) fn effective(&self, front_end: FrontEnd) -> Result<Settings, BusError> {
        let overlays = self.of(front_end);
        let mut settings = match &overlays.request {
            Some(request) => self.requested(request)?,
            None => self.settings.clone(),
        };
        if let Some(change) = &overlays.change {
            let (api, denied) = match front_end {
                FrontEnd::Http => (&mut settings.http.api, &mut settings.http.methods_deny),
                FrontEnd::WebSocket => (&mut settings.ws.api, &mut settings.ws.methods_deny),
            };
            change.namespaces.iter().for_each(|names| api.clone_from(names));
            change.denied.iter().for_each(|patterns| denied.clone_from(patterns));
            change.with_token.iter().for_each(|names| settings.auth.namespaces.clone_from(names));
        }
        Ok(settings)
    }

    /// The settings with the request's values. Omitted values get restrictive defaults, which do not depend on the
    /// settings: this machine, no web pages, `eth`, `net` and `web3`.
    ///
    /// # Errors
    /// The problem with the request.
    pub(crate) fn requested(&self, request: &StartFrontEnd) -> Result<Settings, BusError> {
        let mut settings = self.settings.clone();
        let host = request.host.as_deref().map(address).transpose()?.unwrap_or(Ipv4Addr::LOCALHOST.into());
        if self.is_confined && !host.is_loopback() {
            return Err(BusError::invalid_argument(format!(
                "other machines can reach host {host}, and a development network signs for everyone who reaches it; \
                 start the node with --dev.expose to allow this"
            )));
        }
        let port = request.port.unwrap_or(DEFAULT_START_PORT);
        let origins = trimmed(request.origins.as_ref()).unwrap_or_default();
        let origins = OriginList::new(origins).map_err(BusError::invalid_argument)?;
        let namespaces = trimmed(request.namespaces.as_ref());
        let hosts = trimmed(request.virtual_hosts.as_ref());
        match request.front_end {
            FrontEnd::Http => {
                let http = &mut settings.http;
                let narrow = HttpSettings::default();
                (http.addr, http.port, http.corsdomain) = (host, port, origins);
                http.api = namespaces.unwrap_or(narrow.api);
                http.vhosts = hosts.unwrap_or(narrow.vhosts);
            }
            FrontEnd::WebSocket if hosts.is_some() => {
                return Err(BusError::invalid_argument(
                    "WebSocket checks origins, not virtual hosts; omit the virtual hosts",
                ));
            }
            FrontEnd::WebSocket => {
                let ws = &mut settings.ws;
                (ws.addr, ws.port, ws.origins) = (host, port, origins);
                ws.api = namespaces.unwrap_or(WsSettings::default().api);
            }
        }
        Ok(settings)
    }

    /// Applies a change of a front-end's exposure. Returns its number, which identifies it, and when it ends.
    ///
    /// # Errors
    /// The problem with the request; nothing has changed then.
    pub(crate) fn change(&mut self, request: SetExposure) -> Result<(u64, Option<u64>), BusError> {
        let denied = trimmed(request.denied_methods.as_ref());
        let denied = denied.map(MethodPatterns::new).transpose().map_err(BusError::invalid_argument)?;
        let (namespaces, with_token) =
            (trimmed(request.namespaces.as_ref()), trimmed(request.token_namespaces.as_ref()));
        for names in [&namespaces, &with_token].into_iter().flatten() {
            if names.len() > MAX_NAMES {
                return Err(BusError::invalid_argument(format!("more than {MAX_NAMES} namespaces in one list")));
            }
        }
        let until = request.seconds.map(until).transpose()?;
        self.changes += 1;
        let number = self.changes;
        let place = &mut self.of_mut(request.front_end).change;
        if request.is_reset {
            *place = None;
            return Ok((number, None));
        }
        let before = place.take();
        let (old_names, old_denied, old_token) = match before {
            Some(change) => (change.namespaces, change.denied, change.with_token),
            None => (None, None, None),
        };
        *place = Some(Change {
            number,
            namespaces: namespaces.or(old_names),
            denied: denied.or(old_denied),
            with_token: with_token.or(old_token),
            until,
        });
        Ok((number, until))
    }

    /// Ends the change of this number. Returns false if another has replaced it.
    pub(crate) fn end_change(&mut self, front_end: FrontEnd, number: u64) -> bool {
        let place = &mut self.of_mut(front_end).change;
        let is_current = place.as_ref().is_some_and(|change| change.number == number);
        if is_current {
            *place = None;
        }
        is_current
    }

    /// The end of a front-end's change, in seconds since 1970.
    pub(crate) fn until(&self, front_end: FrontEnd) -> Option<u64> {
        self.of(front_end).change.as_ref().and_then(|change| change.until)
    }

    /// Applies new settings that take effect immediately, and returns the differences. A change remains as long as the
    /// settings of its front-end are the same as when it was made.
    pub(crate) fn reload(&mut self, new: &Settings) -> Vec<ChangedSetting> {
        let changed = differences(&self.settings, new, |key| LIVE.contains(&key));
        let (http, ws) = (&mut self.settings.http, &mut self.settings.ws);
        http.api.clone_from(&new.http.api);
        http.methods_deny.clone_from(&new.http.methods_deny);
        http.corsdomain.clone_from(&new.http.corsdomain);
        http.vhosts.clone_from(&new.http.vhosts);
        ws.api.clone_from(&new.ws.api);
        ws.methods_deny.clone_from(&new.ws.methods_deny);
        ws.origins.clone_from(&new.ws.origins);
        self.settings.auth.namespaces.clone_from(&new.auth.namespaces);
        let touches = |section: &str| {
            changed.iter().any(|change| change.key.starts_with(section) || change.key.starts_with("auth."))
        };
        if touches("http.") {
            self.http.change = None;
        }
        if touches("ws.") {
            self.websocket.change = None;
        }
        changed
    }

    const fn of(&self, front_end: FrontEnd) -> &Overlays {
        match front_end {
            FrontEnd::Http => &self.http,
            FrontEnd::WebSocket => &self.websocket,
        }
    }

    const fn of_mut(&mut self, front_end: FrontEnd) -> &mut Overlays {
        match front_end {
            FrontEnd::Http => &mut self.http,
            FrontEnd::WebSocket => &mut self.websocket,
        }
    }
}

fn trimmed(list: Option<&Vec<String>>) -> Option<Vec<String>> {
    let trim =
        |names: &Vec<String>| names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    list.map(trim)
}

/// Parses the address of a host. Other names are refused, because their meaning depends on a resolver.
fn address(host: &str) -> Result<IpAddr, BusError> {
    match host.trim() {
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        text => text
            .parse()
            .map_err(|_| BusError::invalid_argument(format!("host {text:?} is neither an IP address nor localhost"))),
    }
}

/// The end of a change with this duration, in seconds since 1970.
fn until(seconds: u64) -> Result<u64, BusError> {
    if !(1..=MAX_SECONDS).contains(&seconds) {
        return Err(BusError::invalid_argument(format!("a temporary change lasts from 1 to {MAX_SECONDS} seconds")));
    }
    Ok(now() + seconds)
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(front_end: FrontEnd) -> StartFrontEnd {
        StartFrontEnd { front_end, host: None, port: None, origins: None, namespaces: None, virtual_hosts: None }
    }

    fn set(front_end: FrontEnd) -> SetExposure {
        SetExposure {
            front_end,
            namespaces: None,
            denied_methods: None,
            token_namespaces: None,
            seconds: None,
            is_reset: false,
        }
    }

    fn words(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn wide() -> Settings {
        let mut settings = Settings::default();
        let everybody = OriginList::new(words(&["*"])).unwrap();
        (settings.http.addr, settings.http.port) = (Ipv4Addr::UNSPECIFIED.into(), 9999);
        (settings.ws.addr, settings.ws.port) = (Ipv4Addr::UNSPECIFIED.into(), 9999);
        (settings.http.corsdomain, settings.ws.origins) = (everybody.clone(), everybody);
        (settings.http.api, settings.ws.api) = (words(&["eth", "debug"]), words(&["eth", "debug"]));
        settings.http.vhosts = words(&["*"]);
        settings.auth.namespaces = words(&["web3"]);
        settings
    }

    #[test]
    fn a_call_without_options_opens_the_documented_defaults_whatever_the_settings() {
        let live = LiveSettings::new(wide(), false);

        let http = live.requested(&request(FrontEnd::Http)).unwrap().http;
        let ws = live.requested(&request(FrontEnd::WebSocket)).unwrap().ws;

        assert_eq!((http.addr, http.port, &*http.corsdomain), (Ipv4Addr::LOCALHOST.into(), 8546, &[][..]));
        assert_eq!((http.api, http.vhosts), (words(&["eth", "net", "web3"]), words(&["localhost"])));
        assert_eq!((ws.addr, ws.port, &*ws.origins), (Ipv4Addr::LOCALHOST.into(), 8546, &[][..]));
        assert_eq!(ws.api, words(&["eth", "net", "web3"]));
        // Token requirements always come from the settings.
        assert_eq!(live.requested(&request(FrontEnd::Http)).unwrap().auth.namespaces, ["web3"]);
    }

    #[test]
    fn requested_values_are_checked_and_applied() {
        let live = LiveSettings::new(Settings::default(), false);
        let start = StartFrontEnd {
            host: Some("0.0.0.0".to_owned()),
            port: Some(0),
            origins: Some(words(&["https://a.example", " https://b.example"])),
            namespaces: Some(words(&["eth", " debug"])),
            virtual_hosts: Some(words(&[""])),
            ..request(FrontEnd::Http)
        };

        let settings = live.requested(&start).unwrap();

        assert_eq!((settings.http.addr, settings.http.port), (Ipv4Addr::UNSPECIFIED.into(), 0));
        assert_eq!(&*settings.http.corsdomain, ["https://a.example", "https://b.example"]);
        assert_eq!((settings.http.api, settings.http.vhosts), (words(&["eth", "debug"]), Vec::new()));
        assert_eq!(settings.ws, Settings::default().ws);
        for wrong in [
            StartFrontEnd { origins: Some(words(&["http://"])), ..request(FrontEnd::Http) },
            StartFrontEnd { virtual_hosts: Some(words(&["a"])), ..request(FrontEnd::WebSocket) },
            StartFrontEnd { host: Some("example.org".to_owned()), ..request(FrontEnd::WebSocket) },
            StartFrontEnd { host: Some(String::new()), ..request(FrontEnd::WebSocket) },
        ] {
            assert!(live.requested(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_development_network_stays_on_this_machine_unless_the_operator_allows_more() {
        for (is_confined, host, wanted) in
            [(true, "0.0.0.0", false), (true, "::1", true), (true, "localhost", true), (false, "0.0.0.0", true)]
        {
            let live = LiveSettings::new(Settings::default(), is_confined);
            let start = StartFrontEnd { host: Some(host.to_owned()), ..request(FrontEnd::Http) };
            assert_eq!(live.requested(&start).is_ok(), wanted, "{is_confined} {host}");
        }
    }

    #[test]
    fn a_change_overrides_the_settings_until_it_ends() {
        let mut live = LiveSettings::new(Settings::default(), false);
        live.change(SetExposure { namespaces: Some(words(&["eth", "debug"])), ..set(FrontEnd::Http) }).unwrap();
        let timed =
            SetExposure { denied_methods: Some(words(&["eth_sign*"])), seconds: Some(60), ..set(FrontEnd::Http) };
        let (number, until) = live.change(timed).unwrap();

        let settings = live.effective(FrontEnd::Http).unwrap();
        assert_eq!(
            (&*settings.http.api, &*settings.http.methods_deny),
            (&words(&["eth", "debug"])[..], &words(&["eth_sign*"])[..])
        );
        assert_eq!(live.effective(FrontEnd::WebSocket).unwrap(), Settings::default());
        assert!(until.is_some() && live.until(FrontEnd::Http) == until);
        assert!(!live.end_change(FrontEnd::Http, number - 1) && live.end_change(FrontEnd::Http, number));
        assert_eq!(live.effective(FrontEnd::Http).unwrap(), Settings::default());

        live.change(SetExposure { token_namespaces: Some(words(&["eth"])), ..set(FrontEnd::Http) }).unwrap();
        assert_eq!(live.effective(FrontEnd::Http).unwrap().auth.namespaces, ["eth"]);
        live.change(SetExposure { is_reset: true, ..set(FrontEnd::Http) }).unwrap();
        assert_eq!(live.effective(FrontEnd::Http).unwrap(), Settings::default());
    }

    #[test]
    fn an_invalid_change_changes_nothing() {
        let mut live = LiveSettings::new(Settings::default(), false);
        for wrong in [
            SetExposure { denied_methods: Some(words(&["eth sign"])), ..set(FrontEnd::Http) },
            SetExposure { seconds: Some(0), ..set(FrontEnd::Http) },
            SetExposure { seconds: Some(u64::MAX), ..set(FrontEnd::Http) },
            SetExposure { namespaces: Some(vec!["a".to_owned(); MAX_NAMES + 1]), ..set(FrontEnd::Http) },
        ] {
            assert!(live.change(wrong.clone()).is_err(), "{wrong:?}");
        }
        assert_eq!(live.effective(FrontEnd::Http).unwrap(), Settings::default());
    }

    #[test]
    fn reloaded_settings_end_the_changes_that_they_affect_and_no_others() {
        let mut live = LiveSettings::new(Settings::default(), false);
        let denied = Some(words(&["eth_sign*"]));
        for front_end in [FrontEnd::Http, FrontEnd::WebSocket] {
            live.change(SetExposure { denied_methods: denied.clone(), ..set(front_end) }).unwrap();
        }
        let mut new = Settings::default();
        new.http.api = words(&["eth"]);
        new.http.port = 1;

        let changed = live.reload(&new);

        assert_eq!(changed.iter().map(|change| change.key.as_str()).collect::<Vec<_>>(), ["http.api"]);
        let http = live.effective(FrontEnd::Http).unwrap().http;
        assert_eq!((http.api, http.methods_deny.len(), http.port), (words(&["eth"]), 0, 8545));
        assert_eq!(live.effective(FrontEnd::WebSocket).unwrap().ws.methods_deny.len(), 1);
        assert_eq!(live.reload(&new), []);
    }
}
