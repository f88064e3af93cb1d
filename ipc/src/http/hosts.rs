//! Host names under which browsers may reach this node: protection from DNS rebinding (`docs/spec/rpc-eth.md` 2.2).
//!
//! Implemented here, because tower-http has no check of hosts.

use std::net::IpAddr;

use http::Uri;

use super::head::Head;

/// The virtual hosts that an operator allows.
#[derive(Clone, Debug)]
pub(crate) struct VirtualHosts {
    allows_all: bool,
    names: Vec<String>,
}

impl VirtualHosts {
    /// Creates a list from settings; `*` allows every name.
    pub(crate) fn new(names: &[String]) -> Self {
        Self { allows_all: names.iter().any(|name| name == "*"), names: names.to_vec() }
    }

    /// Whether all hosts that a request names are allowed.
    pub(super) fn allow_request(&self, head: &Head<'_>, target: &Uri) -> bool {
        self.allows_all || head.hosts(target).all(|host| self.allow(host))
    }

    /// Whether a request with this `Host` header is served. Addresses always are: a page cannot use them under its own
    /// name. Case-insensitive.
    pub(crate) fn allow(&self, host: &str) -> bool {
        if self.allows_all {
            return true;
        }
        // `::1` has colons and no port; in `[::1]:80` the brackets mark the address.
        let has_port = |name: &str, port: &str| {
            port.bytes().all(|byte| byte.is_ascii_digit()) && (name.ends_with(']') || !name.contains(':'))
        };
        let parts = host.bytes().rposition(|byte| byte == b':').map(|colon| (&host[..colon], &host[colon + 1..]));
        let name = match parts {
            Some((name, port)) if has_port(name, port) => name,
            _ => host,
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        self.names.iter().any(|known| known.eq_ignore_ascii_case(name)) || name.parse::<IpAddr>().is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serves_addresses_and_listed_names_only() {
        let hosts = VirtualHosts::new(&["localhost".to_owned(), "Node.example".to_owned()]);
        for (host, allowed) in [
            ("", false),
            (":8545", false),
            ("localhost", true),
            ("LocalHost:8545", true),
            ("[::1]:x", false),
            ("[evil.example]:80", false),
            ("NODE.EXAMPLE", true),
            ("localhost:8545", true),
            ("node.example:1", true),
            ("127.0.0.1:8545", true),
            ("[::1]:8545", true),
            ("[::1]", true),
            ("::1", true),
            ("evil.example", false),
            ("localhost.evil.example:8545", false),
        ] {
            assert_eq!(hosts.allow(host), allowed, "{host}");
        }
        assert!(VirtualHosts::new(&["*".to_owned()]).allow("evil.example"));
    }
}
