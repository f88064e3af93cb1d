//! enode URLs (`docs/spec/p2p.md` 3).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use tenon_api::{EnodeProblem, HostProblem, UnusableNode, UrlProblem};

use crate::NodeId;

const SCHEME: &str = "enode";

/// A node as an operator writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Enode {
    /// The node.
    pub id: NodeId,
    /// `None` if the URL contains only the identifier: discovery then has to find the address.
    pub endpoint: Option<Endpoint>,
}

/// The address and ports of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// Address.
    pub ip: IpAddr,
    /// UDP port, for discovery.
    pub udp: u16,
    /// TCP port, for connections.
    pub tcp: u16,
}

impl Endpoint {
    /// The address for datagrams.
    pub const fn udp_address(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.udp)
    }

    /// The address for connections.
    pub const fn tcp_address(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.tcp)
    }
}

impl Enode {
    /// Returns the node's endpoint if it has everything that a connection needs.
    ///
    /// # Errors
    /// [`UnusableNode`].
    pub fn usable(&self) -> Result<Endpoint, UnusableNode> {
        let endpoint = self.endpoint.ok_or(UnusableNode::Incomplete)?;
        if endpoint.udp == 0 {
            return Err(UnusableNode::NoUdpPort);
        }
        if endpoint.tcp == 0 {
            return Err(UnusableNode::NoTcpPort);
        }
        if endpoint.ip.is_multicast() || endpoint.ip.is_unspecified() {
            return Err(UnusableNode::Address);
        }
        self.id.public_key().map_err(|_| UnusableNode::NotOnCurve)?;
        Ok(endpoint)
    }
}

impl FromStr for Enode {
    type Err = EnodeProblem;

    fn from_str(text: &str) -> Result<Self, EnodeProblem> {
        let bare = strip_scheme(text);
        if !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Self { id: node_id(bare)?, endpoint: None });
        }
        let parts = Parts::split(text)?;
        let id = node_id(parts.user.ok_or(EnodeProblem::NoId)?)?;
        let (host, port) = split_host_port(parts.host)?;
        let ip = host.parse().map_err(|_| EnodeProblem::Address)?;
        let tcp = decimal(port).ok_or(EnodeProblem::Port)?;
        let udp = match discovery_port(parts.query) {
            None => tcp,
            Some(port) => decimal(port).ok_or(EnodeProblem::DiscoveryPort)?,
        };
        Ok(Self { id, endpoint: Some(Endpoint { ip, udp, tcp }) })
    }
}

impl fmt::Display for Enode {
    /// Writes the URL; `discport` only if it differs from the TCP port.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{SCHEME}://{}", self.id)?;
        let Some(endpoint) = self.endpoint else { return Ok(()) };
        write!(formatter, "@{}", endpoint.tcp_address())?;
        if endpoint.udp == endpoint.tcp { Ok(()) } else { write!(formatter, "?discport={}", endpoint.udp) }
    }
}

fn strip_scheme(text: &str) -> &str {
    match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(SCHEME) => rest,
        _ => text,
    }
}

fn node_id(digits: &str) -> Result<NodeId, EnodeProblem> {
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    if let Some(byte) = digits.bytes().find(|byte| !byte.is_ascii_hexdigit()) {
        return Err(EnodeProblem::IdDigit { byte });
    }
    if !digits.len().is_multiple_of(2) {
        return Err(EnodeProblem::IdOdd);
    }
    digits.parse().map_err(|_| EnodeProblem::IdLength)
}

/// The parts of a URL that this crate uses.
struct Parts<'a> {
    user: Option<&'a str>,
    host: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    /// Splits a URL as Go's `net/url` does.
    fn split(text: &'a str) -> Result<Self, EnodeProblem> {
        let wrong = |problem| Err(EnodeProblem::Url { text: text.to_owned(), problem });
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return wrong(UrlProblem::ControlCharacter);
        }
        let before_fragment = text.split('#').next().unwrap_or_default();
        let (scheme, rest) = match before_fragment.split_once(':') {
            Some(("", _)) => return wrong(UrlProblem::NoScheme),
            Some((scheme, rest)) if is_scheme(scheme) => (scheme, rest),
            Some((first, _)) if !first.contains(['/', '?']) => {
                return wrong(UrlProblem::Colon);
            }
            _ => ("", before_fragment),
        };
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return Err(EnodeProblem::Scheme);
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = rest.strip_prefix("//").unwrap_or_default().split('/').next().unwrap_or_default();
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if host.starts_with('[') && !host.contains(']') {
            return wrong(UrlProblem::NoBracket);
        }
        let after_host = host.rsplit_once(']').map_or(host, |(_, rest)| rest);
        if let Some((_, port)) = after_host.rsplit_once(':')
            && !port.bytes().all(|byte| byte.is_ascii_digit())
        {
            return wrong(UrlProblem::Port(port.to_owned()));
        }
        Ok(Self { user, host, query })
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Splits as Go's `net.SplitHostPort` does.
fn split_host_port(text: &str) -> Result<(&str, &str), EnodeProblem> {
    let wrong = |problem| EnodeProblem::Host { host: text.to_owned(), problem };
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(|| wrong(HostProblem::NoBracket))?;
        let port = match rest.strip_prefix(':') {
            Some(port) => port,
            None if rest.is_empty() => return Err(wrong(HostProblem::NoPort)),
            None => return Err(wrong(HostProblem::NotPort)),
        };
        return if port.contains(':') { Err(wrong(HostProblem::Colons)) } else { Ok((host, port)) };
    }
    match text.rsplit_once(':') {
        None => Err(wrong(HostProblem::NoPort)),
        Some((host, _)) if host.contains(':') => Err(wrong(HostProblem::Colons)),
        Some(parts) => Ok(parts),
    }
}

/// The first `discport` of a query; `None` if it is empty or missing.
fn discovery_port(query: &str) -> Option<&str> {
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(name, _)| *name == "discport").map(|(_, port)| port).filter(|port| !port.is_empty())
}

/// Parses a port of decimal digits only, without a sign.
fn decimal(text: &str) -> Option<u16> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "1dd9d65c4552b5eb43d5ad55a2ee3f56c6cbc1c64a5c8d659f51fcd51bace24351232b8d7821617d2b29b54b81cdefb9b3e9c37d7fd5f63270bcc9e1a6f6a439";

    fn error(text: &str) -> EnodeProblem {
        text.parse::<Enode>().unwrap_err()
    }

    /// `docs/spec/p2p.md` 26.4.
    #[test]
    fn urls_are_parsed_as_in_the_specifications_table() {
        let cases = [
            ("@127.0.0.1:52150", "127.0.0.1", 52150, 52150),
            ("@[::]:52150", "::", 52150, 52150),
            ("@[2001:db8:3c4d:15::abcd:ef12]:52150", "2001:db8:3c4d:15::abcd:ef12", 52150, 52150),
            ("@127.0.0.1:52150?discport=22334", "127.0.0.1", 52150, 22334),
        ];
        for (rest, ip, tcp, udp) in cases {
            let url = format!("enode://{ID}{rest}");
            let node: Enode = url.parse().unwrap();

            assert_eq!(node.endpoint, Some(Endpoint { ip: ip.parse().unwrap(), udp, tcp }), "{url}");
            assert_eq!(node.to_string(), url);
        }
        for text in [ID.to_owned(), format!("enode://{ID}"), format!("ENODE://{}", ID.to_uppercase())] {
            let read: Enode = text.parse().unwrap();
            assert_eq!((read.id.to_string().as_str(), read.usable()), (ID, Err(UnusableNode::Incomplete)), "{text}");
        }
    }

    /// `docs/spec/p2p.md` 3 and 26.4.
    #[test]
    fn wrong_urls_are_refused_as_the_reference_does() {
        let url = |text: &str, problem| EnodeProblem::Url { text: text.to_owned(), problem };
        let host = |host: &str, problem| EnodeProblem::Host { host: host.to_owned(), problem };
        assert_eq!(error("http://foobar"), EnodeProblem::Scheme);
        for text in ["enode://01010101@123.124.125.126:3", "01010101", "enode://01010101"] {
            assert_eq!(error(text), EnodeProblem::IdLength, "{text}");
        }
        assert_eq!(error("enode://010@1.2.3.4:5"), EnodeProblem::IdOdd);
        assert_eq!(error("enode://01g@1.2.3.4:5"), EnodeProblem::IdDigit { byte: b'g' });
        assert_eq!(error(&format!("enode://{ID}@hostname:3")), EnodeProblem::Address);
        assert_eq!(error(&format!("enode://{ID}@127.0.0.1:3?discport=foo")), EnodeProblem::DiscoveryPort);
        assert_eq!(error(&format!("enode://{ID}@127.0.0.1:65536")), EnodeProblem::Port);
        assert_eq!(error("enode://foobar.com:1"), EnodeProblem::NoId);
        for (text, problem) in [
            ("://foo", UrlProblem::NoScheme),
            ("enode://\u{1}", UrlProblem::ControlCharacter),
            ("1:2", UrlProblem::Colon),
            ("enode://01@[::1", UrlProblem::NoBracket),
            ("enode://01@1.2.3.4:x", UrlProblem::Port("x".to_owned())),
        ] {
            assert_eq!(error(text), url(text, problem));
        }
        for (rest, problem) in [
            ("[::1]", HostProblem::NoPort),
            ("[::1]5", HostProblem::NotPort),
            ("1.2.3.4", HostProblem::NoPort),
            ("::1:5", HostProblem::Colons),
        ] {
            assert_eq!(error(&format!("enode://{ID}@{rest}")), host(rest, problem));
        }
    }

    #[test]
    fn a_node_is_usable_only_with_two_ports_a_host_address_and_a_key() {
        let key = "ca634cae0d49acb401d8a4c6b6fe8c55b70d115bf400769cc1400f3258cd31387574077f301b421bc84df7266c44e9e6d569fc56be00812904767bf5ccd1fc7f";
        let usable = |rest: &str| format!("enode://{key}@{rest}").parse::<Enode>().unwrap().usable();

        assert!(usable("1.2.3.4:5").is_ok());
        assert_eq!(usable("1.2.3.4:0"), Err(UnusableNode::NoUdpPort));
        assert_eq!(usable("1.2.3.4:0?discport=5"), Err(UnusableNode::NoTcpPort));
        assert_eq!(usable("0.0.0.0:5"), Err(UnusableNode::Address));
        assert_eq!(usable("[ff02::1]:5"), Err(UnusableNode::Address));
        let off_curve: Enode = format!("enode://{}@1.2.3.4:5", "01".repeat(64)).parse().unwrap();
        assert_eq!(off_curve.usable(), Err(UnusableNode::NotOnCurve));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(enode://)?[0-9a-f@:?=\\[\\].#é]{0,150}") {
            if let Ok(node) = text.parse::<Enode>() {
                prop_assert_eq!(node.to_string().parse::<Enode>(), Ok(node));
            }
        }
    }
}
