//! Who asks: what shares, limits and permissions are decided by.

use std::{
    fmt,
    hash::{BuildHasher as _, RandomState},
    net::IpAddr,
    sync::OnceLock,
};

/// The way by which a question reached the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// None: the question was asked inside this process.
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
    /// All of them, each at its own number.
    pub const ALL: [Self; 4] = [Self::Inside, Self::Socket, Self::Http, Self::WebSocket];

    /// The word for people and labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inside => "inside",
            Self::Socket => "socket",
            Self::Http => "http",
            Self::WebSocket => "websocket",
        }
    }
}

/// The client that a share of memory and computing time belongs to: the identity in a bearer token, else an address,
/// on the local socket a process. All connections of one client have the same.
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

    /// The client at an address. All addresses of an IPv6 network of 56 bits are one client: that is what a single
    /// customer is commonly given.
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

    /// A plugin itself, for what the node holds because of it and not of the clients that call it.
    pub const fn of_plugin(plugin: PluginId) -> Self {
        Self(PLUGIN << KIND_SHIFT | plugin.0 as u64)
    }

    /// The number that stands for the client outside this process, in frames to plugins.
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

/// A plugin that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginId(u32);

impl PluginId {
    /// The plugin that the host knows by this name, whatever it calls itself. A build that replaces another one has the same.
    pub fn of_name(name: &str) -> Self {
        Self(foldhash::fast::FixedState::default().hash_one(name) as u32)
    }
}

/// Who asks a question. Set by the front-end that took the request; plugins pass it on and cannot change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The way by which the request came.
    pub transport: Transport,
    /// Whose shares it draws on.
    pub client: ClientId,
    /// Whether it came with a bearer token that was accepted.
    pub has_token: bool,
    /// The plugin that asks, for all questions that wait: work and what actors answer. Reads, which are answered at
    /// once, do not say it, as that would cost each of them a copy of its context.
    pub plugin: Option<PluginId>,
}

impl Origin {
    /// A client without a token.
    pub const fn new(transport: Transport, client: ClientId) -> Self {
        Self { transport, client, has_token: false, plugin: None }
    }

    /// The same, asked by this plugin.
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
    fn an_address_is_one_client_however_it_is_written() {
        assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    }

    #[test]
    fn a_network_of_56_bits_is_one_client() {
        assert_eq!(client("2001:db8:0:100::1"), client("2001:db8:0:1ff:ffff::2"));
        assert_ne!(client("2001:db8:0:100::1"), client("2001:db8:0:200::1"));
    }

    #[test]
    fn kinds_of_clients_never_meet() {
        let plugin = ClientId::of_plugin(PluginId(7));
        let (process, token) = (ClientId::of_process(7), ClientId::of_token("7"));
        let all = [ClientId::INSIDE, client("0.0.0.7"), client("::7"), process, token, plugin];

        for (at, one) in all.iter().enumerate() {
            assert!(all.iter().skip(at + 1).all(|other| one != other), "{one}");
        }
    }

    #[test]
    fn clients_are_shown_as_people_know_them() {
        assert_eq!(client("192.0.2.1").to_string(), "192.0.2.1");
        assert_eq!(client("2001:db8:0:1ff::1").to_string(), "2001:db8:0:100::/56");
        assert_eq!(ClientId::of_process(42).to_string(), "process 42");
        assert_eq!(ClientId::of_plugin(PluginId(0xabc)).to_string(), "plugin 00000abc");
        assert_eq!(ClientId::INSIDE.to_string(), "node");
    }
}
