//! Faults that a host must survive.

use std::fmt;
use std::str::FromStr;

/// Something wrong with a message that the device sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The first packet does not begin like a message.
    BadMagic,
    /// The message breaks off after its first packet.
    Truncated,
    /// The message announces a mebibyte.
    OverlongLength,
    /// The message comes twice.
    Twice,
    /// The message does not come.
    Silence,
    /// The message has the number of another type.
    WrongId,
    /// The body does not decode.
    BadBody,
    /// The signature is of other data.
    WrongSignature,
    /// The signature's s is in the upper half.
    HighSignature,
    /// The device asks for more data than there is.
    TooMuchData,
    /// The device asks for no data, and gives no signature.
    NoData,
    /// Ten button requests come first.
    ExtraButtons,
    /// Button requests come without end.
    EndlessButtons,
    /// 64 random bytes come first.
    RandomPacket,
    /// The device is pulled.
    Disconnect,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::BadMagic,
        Self::Truncated,
        Self::OverlongLength,
        Self::Twice,
        Self::Silence,
        Self::WrongId,
        Self::BadBody,
        Self::WrongSignature,
        Self::HighSignature,
        Self::TooMuchData,
        Self::NoData,
        Self::ExtraButtons,
        Self::EndlessButtons,
        Self::RandomPacket,
        Self::Disconnect,
    ];

    /// The name by which the command line knows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BadMagic => "bad-magic",
            Self::Truncated => "truncated",
            Self::OverlongLength => "overlong-length",
            Self::Twice => "twice",
            Self::Silence => "silence",
            Self::WrongId => "wrong-id",
            Self::BadBody => "bad-body",
            Self::WrongSignature => "wrong-signature",
            Self::HighSignature => "high-signature",
            Self::TooMuchData => "too-much-data",
            Self::NoData => "no-data",
            Self::ExtraButtons => "extra-buttons",
            Self::EndlessButtons => "endless-buttons",
            Self::RandomPacket => "random-packet",
            Self::Disconnect => "disconnect",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A fault, and when it happens: `NAME` or `NAME@N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// What goes wrong.
    pub fault: Fault,
    /// Messages on the main wire that are sent soundly first. The fault happens once.
    pub after: u32,
}

/// A text that names no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no fault: NAME or NAME@N, where NAME is one of {names}", names = names())]
pub struct UnknownFault(pub String);

fn names() -> String {
    Fault::ALL.map(Fault::name).join(", ")
}

impl FromStr for FaultPlan {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        let unknown = || UnknownFault(text.to_owned());
        let (name, after) = text.split_once('@').unwrap_or((text, "0"));
        let fault = Fault::ALL.into_iter().find(|fault| fault.name() == name).ok_or_else(unknown)?;
        Ok(Self { fault, after: after.parse().map_err(|_| unknown())? })
    }
}
