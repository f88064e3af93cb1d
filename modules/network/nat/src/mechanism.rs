//! How a node learns its external address, and whether ports are mapped.

use std::{net::IpAddr, str::FromStr};

/// A value of `--nat` (`docs/spec/p2p.md` 22).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, derive_more::Display)]
pub enum Mechanism {
    /// No mapping.
    #[default]
    #[display("none")]
    Off,
    /// This address, and no mapping.
    #[display("extip:{_0}")]
    External(IpAddr),
    /// UPnP and NAT-PMP or PCP together: the first router that answers.
    #[display("any")]
    Any,
    /// UPnP.
    #[display("upnp")]
    Upnp,
    /// NAT-PMP or PCP, by the default gateway or this one.
    #[display("natpmp{}", _0.map_or_else(String::new, |gateway| format!(":{gateway}")))]
    PortControl(Option<IpAddr>),
}

/// Why a text is not a mechanism.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MechanismError {
    /// `extip:` without an address.
    #[error("missing IP address")]
    MissingAddress,
    /// The address is malformed.
    #[error("invalid IP address")]
    InvalidAddress,
    /// The mechanism's name is unknown.
    #[error("unknown mechanism {0:?}")]
    Unknown(String),
}

impl Mechanism {
    /// The address that the setting contains.
    pub const fn address(&self) -> Option<IpAddr> {
        match self {
            Self::External(address) => Some(*address),
            _ => None,
        }
    }

    /// Whether a router is asked.
    pub const fn maps_ports(&self) -> bool {
        matches!(self, Self::Any | Self::Upnp | Self::PortControl(_))
    }
}

impl FromStr for Mechanism {
    type Err = MechanismError;

    fn from_str(text: &str) -> Result<Self, MechanismError> {
        let word = text.trim().to_ascii_lowercase();
        let (name, address) = match word.split_once(':') {
            Some((name, address)) => (name, Some(address)),
            None => (word.as_str(), None),
        };
        let parsed = |address: &str| address.parse().map_err(|_| MechanismError::InvalidAddress);
        match (name, address) {
            ("" | "none" | "off", None) => Ok(Self::Off),
            ("any" | "auto" | "on", None) => Ok(Self::Any),
            ("upnp", None) => Ok(Self::Upnp),
            ("pmp" | "natpmp" | "nat-pmp" | "pcp", None) => Ok(Self::PortControl(None)),
            ("pmp" | "natpmp" | "nat-pmp" | "pcp", Some(address)) => Ok(Self::PortControl(Some(parsed(address)?))),
            ("extip" | "ip", None | Some("")) => Err(MechanismError::MissingAddress),
            ("extip" | "ip", Some(address)) => Ok(Self::External(parsed(address)?)),
            _ => Err(MechanismError::Unknown(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_reference_are_read_in_any_case() {
        let external = Mechanism::External([1, 2, 3, 4].into());
        for (text, wanted) in [
            ("", Mechanism::Off),
            ("None", Mechanism::Off),
            ("off", Mechanism::Off),
            ("any", Mechanism::Any),
            ("AUTO", Mechanism::Any),
            ("on", Mechanism::Any),
            ("UPnP", Mechanism::Upnp),
            ("pmp", Mechanism::PortControl(None)),
            ("natpmp:192.168.0.1", Mechanism::PortControl(Some([192, 168, 0, 1].into()))),
            ("NAT-PMP", Mechanism::PortControl(None)),
            ("ExtIP:1.2.3.4", external),
            ("ip:1.2.3.4", external),
            ("extip:2001:db8::1", Mechanism::External("2001:db8::1".parse().unwrap())),
        ] {
            assert_eq!(text.parse(), Ok(wanted), "{text:?}");
            assert_eq!(wanted.to_string().parse(), Ok(wanted), "{wanted}");
        }
    }

    #[test]
    fn other_words_and_addresses_are_refused_with_the_references_words() {
        let refused = |text: &str| text.parse::<Mechanism>().unwrap_err().to_string();
        assert_eq!(refused("extip:"), "missing IP address");
        assert_eq!(refused("extip"), "missing IP address");
        assert_eq!(refused("extip:here"), "invalid IP address");
        assert_eq!(refused("natpmp:"), "invalid IP address");
        assert_eq!(refused("magic"), "unknown mechanism \"magic\"");
        assert_eq!(refused("upnp:1.2.3.4"), "unknown mechanism \"upnp:1.2.3.4\"");
    }
}
