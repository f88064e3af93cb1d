//! The models that can be simulated.

use strum::{Display, EnumString};

/// A model with a particular firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString)]
#[strum(serialize_all = "kebab-case", parse_err_ty = UnknownModel, parse_err_fn = unknown_model)]
pub enum Model {
    /// Model One, firmware 1.8.1, of the same period as the registry.
    One,
    /// Model T, firmware 2.1.1, of the same period as the registry.
    T,
    /// Model One, firmware 1.12.1: sessions, transactions of type 2, typed data by hash.
    OneLater,
    /// Model T, firmware 2.6.4: sessions, transactions of type 2, typed data by structure.
    TLater,
}

/// The firmware line, which determines how packets are read and prompts are shown: C (Model One) or Python (Model T).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    One,
    T,
}

impl Model {
    /// All models.
    pub const ALL: [Self; 4] = [Self::One, Self::T, Self::OneLater, Self::TLater];

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

    /// Whether the firmware is later than the registry.
    pub(crate) const fn has_recent_firmware(self) -> bool {
        matches!(self, Self::OneLater | Self::TLater)
    }

    /// The firmware version that `Features` reports.
    pub const fn version(self) -> (u32, u32, u32) {
        match self {
            Self::One => (1, 8, 1),
            Self::T => (2, 1, 1),
            Self::OneLater => (1, 12, 1),
            Self::TLater => (2, 6, 4),
        }
    }

    /// The model name that `Features` reports.
    pub(crate) const fn feature_name(self) -> &'static str {
        match self.line() {
            Line::One => "1",
            Line::T => "T",
        }
    }

    /// The capabilities that `Features` of later firmware reports: Bitcoin, Ethereum, passphrase entry on the device.
    pub(crate) const fn capabilities(self) -> &'static [u32] {
        match self {
            Self::One | Self::T => &[],
            Self::OneLater => &[1, 7],
            Self::TLater => &[1, 7, 17],
        }
    }
}

/// No model has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown model {0:?}; the models are one, t, one-later and t-later")]
pub struct UnknownModel(pub String);

fn unknown_model(name: &str) -> UnknownModel {
    UnknownModel(name.to_owned())
}
