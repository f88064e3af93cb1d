//! The origin of a call, by which shares, limits and permissions are decided.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    net::IpAddr,
    sync::OnceLock,
};

use tenon_api::CapabilitySet;

/// The transport by which a request arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// None: the call was made inside this process.
    #[default]
    Inside,
    /// The local socket.
    Socket,
    /// HTTP.
    Http,
    /// WebSocket.
    WebSocket,
}

impl Transport {
    /// All variants, each at its own number.
    pub const ALL: [Self; 4] = [Self::Inside, Self::Socket, Self::Http, Self::WebSocket];

    /// The name in logs and labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inside => "inside",
            Self::Socket => "socket",
            Self::Http => "http",
            Self::WebSocket => "websocket",
        }
    }
}

/// The client to which memory and computing time are charged: the identity in a bearer token, else an address, on the
/// local socket a process. All connections of one client have the same id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(u64);

/// The highest byte of a [`ClientId`] says what the other 56 bits are.
const KIND_SHIFT: u32 = 56;
const IPV4: u64 = 1;
const IPV6: u64 = 2;
const TOKEN: u64 = 3;
const PROCESS: u64 = 4;
const PLUGIN: u64 = 5;

impl ClientId {
    /// The node itself.
    pub const INSIDE: Self = Self(0);

    /// The client at an address. All addresses of an IPv6 /56 network are one client, because providers commonly assign
    /// one to a customer.
    pub fn of_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(IPV4 << KIND_SHIFT | u64::from(address.to_bits())),
            IpAddr::V6(address) => Self(IPV6 << KIND_SHIFT | (address.to_bits() >> 72) as u64),
        }
    }

    /// The client that a bearer token names.
    pub fn of_token(identity: &str) -> Self {
        static KEYS: OnceLock<RandomState> = OnceLock::new();
        let hash = KEYS.get_or_init(RandomState::new).hash_one(identity);
        Self(TOKEN << KIND_SHIFT | hash >> (u64::BITS - KIND_SHIFT))
    }

    /// The process at the other end of the local socket.
    pub const fn of_process(process: u32) -> Self {
        Self(PROCESS << KIND_SHIFT | process as u64)
    }

    /// A plugin itself: charged for what the node holds for the plugin rather than for a client that calls it.
    pub const fn of_plugin(plugin: PluginId) -> Self {
        Self(PLUGIN << KIND_SHIFT | plugin.0 as u64)
    }

    /// The number of the client in frames to plugins.
    pub const fn as_number(self) -> u64 {
        self.0
    }

    /// The client with this number.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0 & ((1 << KIND_SHIFT) - 1);
        match self.0 >> KIND_SHIFT {
            IPV4 => write!(formatter, "{}", std::net::Ipv4Addr::from_bits(value as u32)),
            IPV6 => write!(formatter, "{}/56", std::net::Ipv6Addr::from_bits(u128::from(value) << 72)),
            TOKEN => write!(formatter, "token {value:014x}"),
            PROCESS => write!(formatter, "process {value}"),
            PLUGIN => write!(formatter, "plugin {value:08x}"),
            _ => formatter.write_str("node"),
        }
    }
}

/// A plugin that makes calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginId(u32);

impl PluginId {
    /// The plugin with this name in the host, not in its manifest. A build that replaces another one has the same id.
    pub fn of_name(name: &str) -> Self {
        Self(foldhash::fast::FixedState::default().hash_one(name) as u32)
    }
}

/// The origin of a call. Set by the front-end that received the request; plugins pass it on and cannot change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The transport by which the request arrived.
    pub transport: Transport,
    /// The client that is charged.
    pub client: ClientId,
    /// Whether it came with an accepted bearer token.
    pub has_token: bool,
    /// The plugin that made the call, set for calls that wait (work and actors). Reads, which are answered at once,
    /// leave it empty, because setting it would copy the context.
    pub plugin: Option<PluginId>,
    /// Capabilities that all plugins between the client and this call have in common, so that a plugin gains none by
    /// calling a method of another namespace.
    pub grants: CapabilitySet,
    /// Number of calls of methods of other namespaces that led here.
    pub depth: u8,
}

impl Origin {
    /// A client without a token.
    pub const fn new(transport: Transport, client: ClientId) -> Self {
        Self { transport, client, has_token: false, plugin: None, grants: CapabilitySet::ALL, depth: 0 }
    }

    /// The same origin, called through this plugin.
    #[must_use]
    pub const fn by_plugin(self, plugin: PluginId) -> Self {
        Self { plugin: Some(plugin), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> ClientId {
        ClientId::of_address(address.parse().unwrap())
    }

    #[test]
    fn every_spelling_of_an_address_is_one_client() {
        assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    }

    #[test]
    fn a_network_of_56_bits_is_one_client() {
        assert_eq!(client("2001:db8:0:100::1"), client("2001:db8:0:1ff:ffff::2"));
        assert_ne!(client("2001:db8:0:100::1"), client("2001:db8:0:200::1"));
    }

    #[test]
    fn kinds_of_clients_never_collide() {
        let plugin = ClientId::of_plugin(PluginId(7));
        let (process, token) = (ClientId::of_process(7), ClientId::of_token("7"));
        let all = [ClientId::INSIDE, client("0.0.0.7"), client("::7"), process, token, plugin];

        for (at, one) in all.iter().enumerate() {
            assert!(all.iter().skip(at + 1).all(|other| one != other), "{one}");
        }
    }

    #[test]
    fn clients_are_shown_readably() {
        assert_eq!(client("192.0.2.1").to_string(), "192.0.2.1");
        assert_eq!(client("2001:db8:0:1ff::1").to_string(), "2001:db8:0:100::/56");
        assert_eq!(ClientId::of_process(42).to_string(), "process 42");
        assert_eq!(ClientId::of_plugin(PluginId(0xabc)).to_string(), "plugin 00000abc");
        assert_eq!(ClientId::INSIDE.to_string(), "node");
    }
}
