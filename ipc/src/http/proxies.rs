//! The client of a request that a proxy forwarded.

use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use http::{HeaderMap, HeaderName, header};

use super::conversation::Conversation;
use crate::service::ClientId;

/// Header with client addresses of proxies that do not write `Forwarded`.
static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Maximum number of checked hops of a request. A chain of proxies has two or three.
const MAX_HOPS: usize = 32;

/// An address, or a network in CIDR notation: `127.0.0.1`, `10.0.0.0/8`, `2001:db8::/32`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{address}/{bits}")]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// Why a text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is neither an IP address nor a network such as 10.0.0.0/8")]
pub struct NetworkError {
    text: String,
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let failed = || NetworkError { text: text.to_owned() };
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| failed())?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(max), str::parse).map_err(|_| failed())?;
        if bits > max {
            return Err(failed());
        }
        Ok(Self { address, bits })
    }
}

impl Network {
    /// Whether it contains an address. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits()).leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()).leading_zeros() >= u32::from(self.bits)
            }
            _ => false,
        }
    }
}

/// The trusted proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proxies {
    networks: Vec<Network>,
}

impl Proxies {
    pub(crate) fn new(networks: Vec<Network>) -> Self {
        Self { networks }
    }

    fn trust(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }

    /// The client of a request of this conversation.
    pub(super) fn client(&self, conversation: &Conversation, headers: &HeaderMap) -> ClientId {
        if self.networks.is_empty() {
            return conversation.client;
        }
        ClientId::of_address(self.address(conversation.peer, headers))
    }

    /// The client's address behind a connection from `peer`. A proxy appends the address that it saw to the list. So
    /// the list is read from its end, up to the first address that is not a proxy's; a client can have written
    /// everything before that. If the list is malformed, or two lists differ, the result is the peer itself.
    fn address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.trust(peer) {
            return peer;
        }
        let named = |name, read: fn(&str) -> Option<IpAddr>| {
            headers.contains_key(name).then(|| self.last_untrusted(headers, name, read))
        };
        match (named(&header::FORWARDED, forwarded_for), named(&X_FORWARDED_FOR, address_of)) {
            // Most proxies write one of them and forward the other, whose content the client controls.
            (Some(by_one), Some(by_other)) if by_one != by_other => peer,
            (Some(named), _) | (None, Some(named)) => named.unwrap_or(peer),
            (None, None) => peer,
        }
    }

    /// The last address of a list that is not trusted, or the first address if all are trusted. `None` if the list is
    /// malformed up to there.
    fn last_untrusted(
        &self,
        headers: &HeaderMap,
        name: &HeaderName,
        read: fn(&str) -> Option<IpAddr>,
    ) -> Option<IpAddr> {
        let mut first = None;
        let mut hops = 0;
        for value in headers.get_all(name).iter().rev() {
            for hop in value.to_str().ok()?.rsplit(',') {
                hops += 1;
                let address = read(hop.trim()).filter(|_| hops <= MAX_HOPS)?;
                if !self.trust(address) {
                    return Some(address);
                }
                first = Some(address);
            }
        }
        first
    }
}

/// The address in one element of `Forwarded` (RFC 7239, 4): `for=192.0.2.43;proto=https`, `For="[2001:db8::1]:4711"`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let mut named = pairs.filter(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
    let (_, value) = named.next()?;
    if named.next().is_some() {
        return None;
    }
    let value = value.trim();
    let value = value.strip_prefix('"').map_or(Some(value), |quoted| quoted.strip_suffix('"'))?;
    address_of(value)
}

/// An address with or without port, and with or without brackets if it is an IPv6 one.
fn address_of(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    bare.parse().ok().or_else(with_port)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const PROXY: &str = "10.0.0.1";

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn proxies() -> Proxies {
        Proxies::new(["10.0.0.0/8", "2001:db8:1::/48", "127.0.0.1"].map(|text| text.parse().unwrap()).to_vec())
    }

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn networks_are_addresses_or_prefixes() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("0.0.0.0/0", "203.0.113.1", "2001:db8::1"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::1"),
            ("::1", "::1", "::2"),
            ("127.0.0.0/8", "::ffff:127.0.0.1", "::127.0.0.1"),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert!(parsed.contains(address(inside)), "{network} {inside}");
            assert!(!parsed.contains(address(outside)), "{network} {outside}");
        }
        for wrong in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "example.org", "10.0.0.0/", "10.0.0.0/-1"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_client_is_the_last_address_that_is_not_a_proxy() {
        for (lines, client) in [
            (&[][..], PROXY),
            (&[("x-forwarded-for", "192.0.2.1")], "192.0.2.1"),
            (&[("x-forwarded-for", "203.0.113.9, 192.0.2.1")], "192.0.2.1"),
            (&[("x-forwarded-for", "192.0.2.1, 10.1.2.3, 127.0.0.1")], "192.0.2.1"),
            (&[("x-forwarded-for", "203.0.113.9"), ("x-forwarded-for", "192.0.2.1")], "192.0.2.1"),
            (&[("x-forwarded-for", "10.1.1.1, 10.2.2.2")], "10.1.1.1"),
            (&[("x-forwarded-for", "192.0.2.1:4711")], "192.0.2.1"),
            (&[("x-forwarded-for", "2001:db8:9::1")], "2001:db8:9::1"),
            (&[("x-forwarded-for", "[2001:db8:9::1]:80")], "2001:db8:9::1"),
            (&[("forwarded", "for=192.0.2.1")], "192.0.2.1"),
            (&[("forwarded", "proto=https; For=\"[2001:db8:9::1]:4711\";by=10.0.0.1")], "2001:db8:9::1"),
            (&[("forwarded", "for=203.0.113.9, for=192.0.2.1;proto=http, for=10.0.0.2")], "192.0.2.1"),
            (&[("forwarded", "for=192.0.2.1"), ("x-forwarded-for", "203.0.113.9, 192.0.2.1")], "192.0.2.1"),
        ] {
            assert_eq!(proxies().address(address(PROXY), &headers(lines)), address(client), "{lines:?}");
        }
    }

    #[test]
    fn an_unreadable_header_means_the_peer_is_the_client() {
        for lines in [
            &[("x-forwarded-for", "")],
            &[("x-forwarded-for", "unknown")],
            &[("x-forwarded-for", "192.0.2.1, somebody")],
            &[("x-forwarded-for", "192.0.2.1,")],
            &[("forwarded", "for=unknown")],
            &[("forwarded", "for=_hidden")],
            &[("forwarded", "proto=https")],
            &[("forwarded", "for=\"192.0.2.1")],
            &[("forwarded", "for=192.0.2.1;for=192.0.2.2")],
        ] {
            assert_eq!(proxies().address(address(PROXY), &headers(lines)), address(PROXY), "{lines:?}");
        }
        let one_is_invented = headers(&[("forwarded", "for=203.0.113.9"), ("x-forwarded-for", "192.0.2.1")]);
        assert_eq!(proxies().address(address(PROXY), &one_is_invented), address(PROXY));
        let mut not_text = HeaderMap::new();
        not_text.insert(&X_FORWARDED_FOR, HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(proxies().address(address(PROXY), &not_text), address(PROXY));
        let mut endless = HeaderMap::new();
        endless.insert(&X_FORWARDED_FOR, HeaderValue::from_str(&["10.0.0.1"; 100].join(",")).unwrap());
        assert_eq!(proxies().address(address(PROXY), &endless), address(PROXY));
    }

    #[test]
    fn only_proxies_are_believed() {
        let lie = headers(&[("x-forwarded-for", "192.0.2.1"), ("forwarded", "for=192.0.2.1")]);
        let stranger = address("203.0.113.7");

        assert_eq!(proxies().address(stranger, &lie), stranger);
        assert_eq!(Proxies::default().address(address(PROXY), &lie), address(PROXY));
    }
}
