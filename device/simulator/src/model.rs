//! The models that can be simulated.

use std::fmt;
use std::str::FromStr;

/// A model with its firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Model {
    /// Model One, firmware 1.8.1: the registry's era.
    One,
    /// Model T, firmware 2.1.1: the registry's era.
    T,
    /// Model One, firmware 1.12.1: sessions, transactions of type 2, typed data by its hashes.
    OneLater,
    /// Model T, firmware 2.6.4: sessions, transactions of type 2, typed data by its structure.
    TLater,
}

/// How a firmware reads and prompts: the C line or the Python line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    One,
    T,
}

impl Model {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::One, Self::T, Self::OneLater, Self::TLater];

    /// The name by which the command line knows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::T => "t",
            Self::OneLater => "one-later",
            Self::TLater => "t-later",
        }
    }

    pub(crate) const fn line(self) -> Line {
        match self {
            Self::One | Self::OneLater => Line::One,
            Self::T | Self::TLater => Line::T,
        }
    }

    /// Whether its PIN is typed on the host, by positions of a keypad that the device shows.
    pub fn has_keypad(self) -> bool {
        self.line() == Line::One
    }

    /// Whether the firmware is younger than the registry.
    pub(crate) const fn is_later(self) -> bool {
        matches!(self, Self::OneLater | Self::TLater)
    }

    /// The firmware's version, as `Features` tells it.
    pub const fn version(self) -> (u32, u32, u32) {
        match self {
            Self::One => (1, 8, 1),
            Self::T => (2, 1, 1),
            Self::OneLater => (1, 12, 1),
            Self::TLater => (2, 6, 4),
        }
    }

    /// The model, as `Features` tells it.
    pub(crate) const fn feature_name(self) -> &'static str {
        match self.line() {
            Line::One => "1",
            Line::T => "T",
        }
    }

    /// What it can do, as `Features` of later firmware tells it: Bitcoin, Ethereum, a passphrase typed on the device.
    pub(crate) const fn capabilities(self) -> &'static [u32] {
        match self {
            Self::One | Self::T => &[],
            Self::OneLater => &[1, 7],
            Self::TLater => &[1, 7, 17],
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no model has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no model is named {0:?}: there are one, t, one-later and t-later")]
pub struct UnknownModel(pub String);

impl FromStr for Model {
    type Err = UnknownModel;

    fn from_str(name: &str) -> Result<Self, UnknownModel> {
        Self::ALL.into_iter().find(|model| model.name() == name).ok_or_else(|| UnknownModel(name.to_owned()))
    }
}
