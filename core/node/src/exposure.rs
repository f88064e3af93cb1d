//! Computes each front-end's exposure from the settings, and is the only place that does so; `tenon-ipc` receives the
//! result and knows no namespace.

use std::net::IpAddr;

use tenon_api::MethodPattern;
use tenon_config::{AuthSettings, NamespaceNames};
use tenon_host::Exposure;
use tenon_ipc::PortExposure;

/// Served on every port: it lists the other namespaces (`docs/spec/rpc-eth.md` 2.1).
const ALWAYS_SERVED: &str = "rpc";
/// Represents every namespace in a list of those that need a token.
const ALL: &str = "*";

/// The exposure settings of a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExposureSettings<'a> {
    /// Namespaces to serve, by either of their names.
    pub(crate) namespaces: &'a [String],
    /// Patterns of methods to refuse.
    pub(crate) denied: &'a [String],
    /// Namespaces that need a token, by either of their names.
    pub(crate) with_token: &'a [String],
    /// The names under which namespaces are served.
    pub(crate) names: NamespaceNames,
}

impl ExposureSettings<'_> {
    /// The exposure without and with a token. It contains every namespace under each of its names, so that it covers
    /// those that are loaded later.
    pub(crate) fn exposure(&self) -> PortExposure {
        let all = self.served();
        let open: Vec<String> = all.iter().filter(|name| !self.needs_token(name)).cloned().collect();
        let of = |namespaces: Vec<String>| {
            Exposure::of(namespaces).refusing(self.denied.iter().map(|pattern| MethodPattern::new(pattern.trim())))
        };
        PortExposure { open: of(open), with_token: of(all) }
    }

    /// Whether any served namespace needs a token.
    pub(crate) fn needs_secret(&self) -> bool {
        self.served().iter().any(|name| self.needs_token(name))
    }

    /// Logs namespaces that need a token by default, if they are served without one.
    pub(crate) fn warn_of_powerful(&self, endpoint: &'static str, address: IpAddr) {
        let default = AuthSettings::default().namespaces;
        for namespace in default.iter().filter(|name| self.namespaces.contains(*name) && !self.needs_token(name)) {
            // On loopback, as in every development network, no action is needed.
            if address.is_loopback() {
                tracing::info!(endpoint, %namespace, "a powerful namespace is open to every program on this machine");
            } else {
                tracing::warn!(endpoint, %namespace, "a powerful namespace is open to everyone who can reach this \
                    port");
            }
        }
    }

    /// The served namespaces, by each of their names.
    fn served(&self) -> Vec<String> {
        let own = own_names(self.namespaces, self.names);
        let aliases = self.names.aliases().iter();
        let others = aliases.filter(|(_, name)| own.iter().any(|own| own == name)).map(|(alias, _)| *alias);
        let others: Vec<String> = others.map(str::to_owned).collect();
        own.into_iter().chain(others).chain([ALWAYS_SERVED.to_owned()]).collect()
    }

    /// Matches a namespace under any of its names, wherever that name is served. Case-insensitive: otherwise a typo in
    /// a list would leave a namespace open that it was meant to close.
    fn needs_token(&self, namespace: &str) -> bool {
        let own_name = |name| NamespaceNames::WITH_ALIASES.own_name(name);
        self.with_token.iter().map(|name| name.trim()).any(|name| {
            name == ALL
                || name.eq_ignore_ascii_case(namespace)
                || own_name(name).eq_ignore_ascii_case(own_name(namespace))
        })
    }
}

/// A list of namespaces by Tenon's names, in which the reference's names are accepted too.
pub(crate) fn own_names(namespaces: &[String], names: NamespaceNames) -> Vec<String> {
    namespaces.iter().map(|name| names.own_name(name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The exposure without and with a token.
    fn shown(namespaces: &[&str], denied: &[&str], with_token: &[&str], names: NamespaceNames) -> (String, String) {
        let (namespaces, denied, with_token) = (words(namespaces), words(denied), words(with_token));
        let settings = ExposureSettings { namespaces: &namespaces, denied: &denied, with_token: &with_token, names };
        let PortExposure { open, with_token } = settings.exposure();
        (open.as_text().to_owned(), with_token.as_text().to_owned())
    }

    #[test]
    fn every_namespace_of_the_list_needs_a_token_and_no_other() {
        for (namespaces, with_token, open, with) in [
            (&["eth", "txpool", "mine"][..], &["eth", "txpool"][..], "mine,rpc", "eth,mine,rpc,txpool"),
            (&["eth", "debug"], &["admin", "debug"], "eth,rpc", "debug,eth,rpc"),
            (&["eth", "debug"], &[], "debug,eth,rpc", "debug,eth,rpc"),
            (&["eth", "debug"], &["*"], "", "debug,eth,rpc"),
            (&["eth", "rpc"], &["rpc"], "eth", "eth,rpc"),
            (&["eth"], &["ETH", " debug "], "rpc", "eth,rpc"),
            (&[], &["eth"], "rpc", "rpc"),
        ] {
            let expected = (open.to_owned(), with.to_owned());
            assert_eq!(
                shown(namespaces, &[], with_token, NamespaceNames::OWN),
                expected,
                "{namespaces:?} {with_token:?}"
            );
        }
    }

    #[test]
    fn a_namespace_is_the_same_under_all_its_names() {
        let names = NamespaceNames::WITH_ALIASES;
        let both = ("Consensus,XDPoS,rpc".to_owned(), "Consensus,XDPoS,rpc".to_owned());
        let closed = ("rpc".to_owned(), both.1.clone());
        for name in ["XDPoS", "Consensus"] {
            assert_eq!(shown(&[name], &[], &[], names), both, "{name}");
            for token in ["XDPoS", "Consensus"] {
                assert_eq!(shown(&[name], &[], &[token], names), closed, "{name} {token}");
            }
        }
        // Names that are not served have no effect, and still require the token.
        assert_eq!(shown(&["XDPoS"], &[], &["Consensus"], NamespaceNames::OWN).1, "XDPoS,rpc");
        assert_eq!(shown(&["XDPoS"], &[], &["Consensus"], NamespaceNames::OWN).0, "rpc");
    }

    #[test]
    fn denied_methods_are_denied_with_a_token_too() {
        let (open, with_token) = shown(&["eth", "debug"], &["eth_sign*"], &["debug"], NamespaceNames::OWN);

        assert_eq!((open.as_str(), with_token.as_str()), ("eth,rpc,!eth_sign*", "debug,eth,rpc,!eth_sign*"));
    }

    #[test]
    fn a_secret_is_needed_only_where_a_token_is() {
        let needs = |namespaces: &[&str], with_token: &[&str]| {
            let (namespaces, with_token) = (words(namespaces), words(with_token));
            let names = NamespaceNames::OWN;
            ExposureSettings { namespaces: &namespaces, denied: &[], with_token: &with_token, names }.needs_secret()
        };

        assert!(needs(&["eth"], &["eth"]) && needs(&["eth"], &["*"]) && !needs(&["eth"], &["debug"]));
    }
}
