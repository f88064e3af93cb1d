//! Faults that hosts must survive.

use std::str::FromStr;

use strum::{Display, EnumString, VariantNames};

/// A fault in a message that the device sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
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
#[error("{0:?} is not a fault: give NAME or NAME@N, where NAME is one of {names}", names = Fault::VARIANTS.join(", "))]
pub struct UnknownFault(pub String);

impl FromStr for FaultPlan {
    type Err = UnknownFault;

    fn from_str(text: &str) -> Result<Self, UnknownFault> {
        let unknown = || UnknownFault(text.to_owned());
        let (name, after) = text.split_once('@').unwrap_or((text, "0"));
        let fault = name.parse().map_err(|_| unknown())?;
        Ok(Self { fault, after: after.parse().map_err(|_| unknown())? })
    }
}
