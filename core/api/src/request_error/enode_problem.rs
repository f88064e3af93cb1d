//! Why an enode URL is refused.

/// Why a text is not an enode URL, or its node cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnodeProblem {
    /// The text is not a URL.
    #[error("{text:?} is not a URL: {problem}")]
    Url {
        /// The text.
        text: String,
        /// The rule of URLs that it breaks.
        problem: UrlProblem,
    },
    /// The scheme is not `enode`.
    #[error("the scheme of the URL is not enode")]
    Scheme,
    /// Nothing precedes the `@`.
    #[error("the URL has no node id")]
    NoId,
    /// A character of the identifier is not a hexadecimal digit.
    #[error("the node id contains a character that is not a hexadecimal digit")]
    IdDigit {
        /// The character's first byte.
        byte: u8,
    },
    /// The identifier has an odd number of digits.
    #[error("the node id has an odd number of digits")]
    IdOdd,
    /// The identifier has the wrong number of digits.
    #[error("the node id does not have 128 hexadecimal digits")]
    IdLength,
    /// Address and port cannot be separated.
    #[error("{host:?} is not an address with a port: {problem}")]
    Host {
        /// The part after the `@`.
        host: String,
        /// The problem.
        problem: HostProblem,
    },
    /// The address is not an IP address.
    #[error("the address is not an IP address")]
    Address,
    /// The port is not a number up to 65,535.
    #[error("the port is not a number up to 65535")]
    Port,
    /// `discport` is not a number up to 65,535.
    #[error("discport is not a number up to 65535")]
    DiscoveryPort,
    /// The URL is valid, but the node cannot be used.
    #[error(transparent)]
    Unusable(#[from] UnusableNode),
}

/// A rule of URLs that a text breaks.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub enum UrlProblem {
    /// It contains a control character.
    #[display("it contains a control character")]
    ControlCharacter,
    /// It begins with a colon.
    #[display("nothing precedes the first colon")]
    NoScheme,
    /// It has no scheme, and a colon before the first slash.
    #[display("a colon precedes the first slash")]
    Colon,
    /// The address begins with `[` and has no `]`.
    #[display("the address has no ]")]
    NoBracket,
    /// The port is not a number.
    #[display("the port {_0:?} is not a number")]
    Port(String),
}

/// Why address and port of a URL cannot be separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum HostProblem {
    /// The address begins with `[` and has no `]`.
    #[display("it has no ]")]
    NoBracket,
    /// There is no port.
    #[display("it has no port")]
    NoPort,
    /// Something other than a port follows the `]`.
    #[display("no port follows the ]")]
    NotPort,
    /// There are several colons outside brackets.
    #[display("it has too many colons")]
    Colons,
}

/// Why a node cannot be used although its URL is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableNode {
    /// There is no address.
    #[error("the node has no address")]
    Incomplete,
    /// The UDP port is 0.
    #[error("the node has no UDP port")]
    NoUdpPort,
    /// The TCP port is 0.
    #[error("the node has no TCP port")]
    NoTcpPort,
    /// The address is unspecified or a multicast address.
    #[error("the node's address is unspecified or a multicast address")]
    Address,
    /// The identifier is not a public key.
    #[error("the node id is not a point of the curve")]
    NotOnCurve,
}
