//! enode URLs (`docs/spec/p2p.md` 3), with the reference's error texts.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use crate::{NodeId, NodeIdError};

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

/// Why a text is not an enode URL. The texts are the reference's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnodeError {
    /// The text is not a URL.
    #[error("parse {text:?}: {cause}")]
    Url {
        /// The text.
        text: String,
        /// The rule of URLs that it breaks.
        cause: &'static str,
    },
    /// The port is not a number.
    #[error("parse {text:?}: invalid port {port:?} after host")]
    UrlPort {
        /// The text.
        text: String,
        /// The port with its colon.
        port: String,
    },
    /// The scheme is not `enode`.
    #[error("invalid URL scheme, want \"enode\"")]
    Scheme,
    /// Nothing precedes the `@`.
    #[error("does not contain node ID")]
    NoId,
    /// A character of the identifier is not a hexadecimal digit.
    #[error("invalid node ID (encoding/hex: invalid byte: {})", GoByte(*byte))]
    IdDigit {
        /// The character's byte.
        byte: u8,
    },
    /// The identifier has an odd number of digits.
    #[error("invalid node ID (encoding/hex: odd length hex string)")]
    IdOdd,
    /// The identifier has the wrong number of digits.
    #[error("invalid node ID (wrong length, want 128 hex chars)")]
    IdLength,
    /// Address and port cannot be separated.
    #[error("invalid host: address {host}: {cause}")]
    Host {
        /// The part after the `@`.
        host: String,
        /// The problem.
        cause: &'static str,
    },
    /// The address is not an IP address.
    #[error("invalid IP address")]
    Address,
    /// The port is not a number up to 65,535.
    #[error("invalid port")]
    Port,
    /// `discport` is not a number up to 65,535.
    #[error("invalid discport in query")]
    DiscoveryPort,
}

/// A byte as Go's decoder shows it.
struct GoByte(u8);

impl fmt::Display for GoByte {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "U+{:04X}", self.0)?;
        let shown = char::from(self.0);
        if shown.is_control() { Ok(()) } else { write!(formatter, " '{shown}'") }
    }
}

/// Why a node cannot be used although its URL is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableNode {
    /// There is no address.
    #[error("incomplete node")]
    Incomplete,
    /// The UDP port is 0.
    #[error("missing UDP port")]
    NoUdpPort,
    /// The TCP port is 0.
    #[error("missing TCP port")]
    NoTcpPort,
    /// The address is unspecified or a multicast address.
    #[error("invalid IP (multicast/unspecified)")]
    Address,
    /// The identifier is not a valid public key.
    #[error(transparent)]
    Id(#[from] NodeIdError),
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
        self.id.public_key()?;
        Ok(endpoint)
    }
}

impl FromStr for Enode {
    type Err = EnodeError;

    fn from_str(text: &str) -> Result<Self, EnodeError> {
        let bare = strip_scheme(text);
        if !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Self { id: node_id(bare)?, endpoint: None });
        }
        let parts = Parts::split(text)?;
        let id = node_id(parts.user.ok_or(EnodeError::NoId)?)?;
        let (host, port) = split_host_port(parts.host)?;
        let ip = host.parse().map_err(|_| EnodeError::Address)?;
        let tcp = decimal(port).ok_or(EnodeError::Port)?;
        let udp = match discovery_port(parts.query) {
            None => tcp,
            Some(port) => decimal(port).ok_or(EnodeError::DiscoveryPort)?,
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

fn node_id(digits: &str) -> Result<NodeId, EnodeError> {
    let digits = digits.strip_prefix("0x").unwrap_or(digits);
    if let Some(byte) = digits.bytes().find(|byte| !byte.is_ascii_hexdigit()) {
        return Err(EnodeError::IdDigit { byte });
    }
    if !digits.len().is_multiple_of(2) {
        return Err(EnodeError::IdOdd);
    }
    digits.parse().map_err(|_| EnodeError::IdLength)
}

/// The parts of a URL that this crate uses.
struct Parts<'a> {
    user: Option<&'a str>,
    host: &'a str,
    query: &'a str,
}

impl<'a> Parts<'a> {
    /// Splits a URL as Go's `net/url` does.
    fn split(text: &'a str) -> Result<Self, EnodeError> {
        let wrong = |cause| Err(EnodeError::Url { text: text.to_owned(), cause });
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return wrong("net/url: invalid control character in URL");
        }
        let before_fragment = text.split('#').next().unwrap_or_default();
        let (scheme, rest) = match before_fragment.split_once(':') {
            Some(("", _)) => return wrong("missing protocol scheme"),
            Some((scheme, rest)) if is_scheme(scheme) => (scheme, rest),
            Some((first, _)) if !first.contains(['/', '?']) => {
                return wrong("first path segment in URL cannot contain colon");
            }
            _ => ("", before_fragment),
        };
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return Err(EnodeError::Scheme);
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = rest.strip_prefix("//").unwrap_or_default().split('/').next().unwrap_or_default();
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if host.starts_with('[') && !host.contains(']') {
            return wrong("missing ']' in host");
        }
        let after_host = host.rsplit_once(']').map_or(host, |(_, rest)| rest);
        if let Some((_, port)) = after_host.rsplit_once(':')
            && !port.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Err(EnodeError::UrlPort { text: text.to_owned(), port: format!(":{port}") });
        }
        Ok(Self { user, host, query })
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Splits as Go's `net.SplitHostPort` does.
fn split_host_port(text: &str) -> Result<(&str, &str), EnodeError> {
    let wrong = |cause| EnodeError::Host { host: text.to_owned(), cause };
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(|| wrong("missing ']' in address"))?;
        let port = match rest.strip_prefix(':') {
            Some(port) => port,
            None if rest.is_empty() => return Err(wrong("missing port in address")),
            None => return Err(wrong("address after ']' is no port")),
        };
        return if port.contains(':') { Err(wrong("too many colons in address")) } else { Ok((host, port)) };
    }
    match text.rsplit_once(':') {
        None => Err(wrong("missing port in address")),
        Some((host, _)) if host.contains(':') => Err(wrong("too many colons in address")),
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

    fn error(text: &str) -> String {
        text.parse::<Enode>().unwrap_err().to_string()
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
    fn wrong_urls_are_refused_with_the_references_texts() {
        let length = "invalid node ID (wrong length, want 128 hex chars)";
        assert_eq!(error("http://foobar"), "invalid URL scheme, want \"enode\"");
        for text in ["enode://01010101@123.124.125.126:3", "01010101", "enode://01010101"] {
            assert_eq!(error(text), length, "{text}");
        }
        assert_eq!(error(&format!("enode://{ID}@hostname:3")), "invalid IP address");
        assert_eq!(error(&format!("enode://{ID}@127.0.0.1:3?discport=foo")), "invalid discport in query");
        assert_eq!(error(&format!("enode://{ID}@127.0.0.1:65536")), "invalid port");
        assert_eq!(error("://foo"), "parse \"://foo\": missing protocol scheme");
        assert_eq!(error("enode://foobar.com:1"), "does not contain node ID");
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
        assert_eq!(off_curve.usable(), Err(UnusableNode::Id(NodeIdError::NotOnCurve)));
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
