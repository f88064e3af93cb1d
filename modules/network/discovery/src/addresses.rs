//! Decides which addresses may be relayed, and parses lists of networks (`docs/spec/p2p.md` 4.7).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    base: IpAddr,
    /// Number of leading bits that an address must share.
    bits: u8,
}

/// Why a text is not a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a network such as 10.0.0.0/8 or fc00::/7")]
pub struct AddressRangeError;

impl Network {
    const fn v4(base: [u8; 4], bits: u8) -> Self {
        Self { base: IpAddr::V4(Ipv4Addr::new(base[0], base[1], base[2], base[3])), bits }
    }

    const fn v6(base: [u16; 4], bits: u8) -> Self {
        Self { base: IpAddr::V6(Ipv6Addr::new(base[0], base[1], base[2], base[3], 0, 0, 0, 0)), bits }
    }

    /// Returns whether the address is in the network. An IPv4 address is never in an IPv6 network.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.base, ip) {
            (IpAddr::V4(base), IpAddr::V4(ip)) => {
                let differs = u32::from(base) ^ u32::from(ip);
                differs.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(base), IpAddr::V6(ip)) => {
                let differs = u128::from(base) ^ u128::from(ip);
                differs.leading_zeros() >= u32::from(self.bits)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = AddressRangeError;

    fn from_str(text: &str) -> Result<Self, AddressRangeError> {
        let (base, bits) = text.trim().split_once('/').ok_or(AddressRangeError)?;
        let base: IpAddr = base.parse().map_err(|_| AddressRangeError)?;
        let bits: u8 = bits.parse().map_err(|_| AddressRangeError)?;
        let longest = if base.is_ipv4() { 32 } else { 128 };
        if bits > longest { Err(AddressRangeError) } else { Ok(Self { base, bits }) }
    }
}

/// A list of networks to which an operator restricts the node (`--netrestrict`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(pub Vec<Network>);

impl Networks {
    /// Returns whether one of the networks contains the address.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(ip))
    }
}

impl FromStr for Networks {
    type Err = AddressRangeError;

    /// Parses a comma-separated list.
    fn from_str(text: &str) -> Result<Self, AddressRangeError> {
        text.split(',').filter(|part| !part.trim().is_empty()).map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

const LAN: [Network; 6] = [
    Network::v4([0, 0, 0, 0], 8),
    Network::v4([10, 0, 0, 0], 8),
    Network::v4([172, 16, 0, 0], 12),
    Network::v4([192, 168, 0, 0], 16),
    Network::v6([0xfe80, 0, 0, 0], 10),
    Network::v6([0xfc00, 0, 0, 0], 7),
];

const SPECIAL: [Network; 23] = [
    Network::v4([192, 0, 0, 0], 29),
    Network::v4([192, 0, 0, 9], 32),
    Network::v4([192, 0, 0, 170], 32),
    Network::v4([192, 0, 0, 171], 32),
    Network::v4([192, 0, 2, 0], 24),
    Network::v4([192, 31, 196, 0], 24),
    Network::v4([192, 52, 193, 0], 24),
    Network::v4([192, 88, 99, 0], 24),
    Network::v4([192, 175, 48, 0], 24),
    Network::v4([198, 18, 0, 0], 15),
    Network::v4([198, 51, 100, 0], 24),
    Network::v4([203, 0, 113, 0], 24),
    Network::v4([255, 255, 255, 255], 32),
    Network::v6([0x100, 0, 0, 0], 64),
    Network::v6([0x2001, 0, 0, 0], 32),
    Network::v6([0x2001, 2, 0, 0], 48),
    Network::v6([0x2001, 3, 0, 0], 32),
    Network::v6([0x2001, 4, 0x112, 0], 48),
    Network::v6([0x2001, 5, 0, 0], 32),
    Network::v6([0x2001, 0x10, 0, 0], 28),
    Network::v6([0x2001, 0x20, 0, 0], 28),
    Network::v6([0x2001, 0xdb8, 0, 0], 32),
    Network::v6([0x2002, 0, 0, 0], 16),
];

/// 2001:1::1. A [`Network`] cannot express a single address: it has at most 64 bits.
const SPECIAL_ADDRESS: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 1, 0, 0, 0, 0, 0, 1));

/// Returns whether an address belongs to a private network or to the local machine.
pub(crate) fn is_lan(ip: IpAddr) -> bool {
    // An IPv4 address may be encoded in 16 bytes.
    let ip = ip.to_canonical();
    ip.is_loopback() || LAN.iter().any(|network| network.contains(ip))
}

/// Returns whether an address is reserved for another purpose than addressing hosts.
pub(crate) fn is_special(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_multicast() || ip == SPECIAL_ADDRESS || SPECIAL.iter().any(|network| network.contains(ip))
}

/// Why an address is not relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelayError {
    /// The unspecified address.
    #[error("zero address")]
    Zero,
    /// An address of a reserved network.
    #[error("special network")]
    Special,
    /// A loopback address, sent by another machine.
    #[error("loopback address from non-loopback host")]
    Loopback,
    /// An address of a private network, sent from outside.
    #[error("LAN address from WAN host")]
    Lan,
}

/// Checks that `sender` may relay the address `ip`.
///
/// # Errors
/// [`RelayError`], the first rule that forbids it.
pub fn check_relay(sender: IpAddr, ip: IpAddr) -> Result<(), RelayError> {
    let (sender, ip) = (sender.to_canonical(), ip.to_canonical());
    if ip.is_unspecified() {
        return Err(RelayError::Zero);
    }
    if is_special(ip) {
        return Err(RelayError::Special);
    }
    if ip.is_loopback() && !sender.is_loopback() {
        return Err(RelayError::Loopback);
    }
    if is_lan(ip) && !is_lan(sender) {
        return Err(RelayError::Lan);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// `docs/spec/p2p.md` 26.4.
    #[test]
    fn addresses_are_relayed_by_the_specifications_table() {
        let senders = ["127.0.0.1", "192.168.0.1", "23.55.1.242"];
        for sender in senders {
            assert_eq!(check_relay(ip(sender), ip("0.0.0.0")), Err(RelayError::Zero));
            assert_eq!(check_relay(ip(sender), ip("255.255.255.255")), Err(RelayError::Special));
        }
        assert_eq!(check_relay(ip("192.168.0.1"), ip("127.0.2.19")), Err(RelayError::Loopback));
        assert_eq!(check_relay(ip("23.55.1.242"), ip("192.168.0.1")), Err(RelayError::Lan));
        for named in ["127.0.2.19", "192.168.0.1", "23.55.1.242"] {
            assert_eq!(check_relay(ip("127.0.0.1"), ip(named)), Ok(()));
        }
        for sender in ["192.168.0.1", "23.55.1.242"] {
            assert_eq!(check_relay(ip(sender), ip("23.55.1.242")), Ok(()));
        }
        assert_eq!(check_relay(ip("192.168.0.1"), ip("192.168.0.1")), Ok(()));
    }

    /// `docs/spec/p2p.md` 26.4.
    #[test]
    fn classes_of_addresses_match_the_specification() {
        let lan = [
            "0.0.0.0",
            "0.2.0.8",
            "127.0.0.1",
            "10.0.1.1",
            "10.22.0.3",
            "172.31.252.251",
            "192.168.1.4",
            "fe80::f4a1:8eff:fec5:9d9d",
            "febf::ab32:2233",
            "fc00::4",
        ];
        assert!(lan.iter().all(|text| is_lan(ip(text))));
        assert!(["192.0.2.1", "1.0.0.0", "172.32.0.1", "fec0::2233"].iter().all(|text| !is_lan(ip(text))));
        let special = [
            "192.0.2.1",
            "192.0.2.44",
            "2001:db8:85a3:8d3:1319:8a2e:370:7348",
            "255.255.255.255",
            "224.0.0.22",
            "ff05::1:3",
            "2001:1::1",
        ];
        assert!(special.iter().all(|text| is_special(ip(text))));
        assert!(["192.0.3.1", "1.0.0.0", "172.32.0.1", "fec0::2233"].iter().all(|text| !is_special(ip(text))));
    }

    #[test]
    fn an_ipv4_address_in_16_bytes_is_the_same_address() {
        assert_eq!(check_relay(ip("23.55.1.242"), ip("::ffff:127.0.0.1")), Err(RelayError::Loopback));
        assert_eq!(check_relay(ip("23.55.1.242"), ip("::ffff:10.0.0.1")), Err(RelayError::Lan));
        assert_eq!(check_relay(ip("23.55.1.242"), ip("::ffff:0.0.0.0")), Err(RelayError::Zero));
    }

    #[test]
    fn lists_of_networks_are_parsed() {
        let networks: Networks = "10.0.0.0/8, fc00::/7,".parse().unwrap();
        assert!(networks.contains(ip("10.200.1.1")) && networks.contains(ip("fd00::1")));
        assert!(!networks.contains(ip("11.0.0.1")) && !networks.contains(ip("::1")));
        for text in ["10.0.0.0", "10.0.0.0/33", "::/129", "x/8", "10.0.0.0/-1"] {
            assert_eq!(text.parse::<Networks>(), Err(AddressRangeError), "{text}");
        }
        assert!("0.0.0.0/0".parse::<Network>().unwrap().contains(ip("1.2.3.4")));
    }
}
