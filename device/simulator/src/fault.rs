//! Faults that hosts must survive.

use std::str::FromStr;

/// A fault in a message that the device sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display("{}", self.name())]
pub enum Fault {
    /// The first packet has a wrong magic.
    BadMagic,
    /// The message ends after its first packet.
    Truncated,
    /// The message announces a length of one mebibyte.
    OverlongLength,
    /// The message is sent twice.
    Twice,
    /// The message is not sent.
    Silence,
    /// The message has the id of another type.
    WrongId,
    /// The body can't be decoded.
    BadBody,
    /// The signature is over other data.
    WrongSignature,
    /// The signature's s is in the upper half.
    HighSignature,
    /// The device requests more data than there is.
    TooMuchData,
    /// The device requests no data, and returns no signature.
    NoData,
    /// Ten button requests precede the message.
    ExtraButtons,
    /// Endless button requests precede the message.
    EndlessButtons,
    /// 64 random bytes precede the message.
    RandomPacket,
    /// The device is disconnected.
    Disconnect,
}

impl Fault {
    /// All faults.
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

    /// The name on the command line.
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

/// A fault and its time: `NAME` or `NAME@N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultPlan {
    /// The fault.
    pub fault: Fault,
    /// Number of correct messages on the main interface before it. The fault happens once.
    pub after: u32,
}

/// The text is not the name of a fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a fault: give NAME or NAME@N, where NAME is one of {names}", names = names())]
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
