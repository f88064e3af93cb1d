//! How the program ends.

use tenon_config::SettingsError;
use tenon_storage::OpenError;

/// Why a command ended early. The exit codes are documented in `docs/command-line.md`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    /// Something failed while the command ran: 1.
    #[error("{0}")]
    Failure(String),
    /// The arguments or settings can't be used: 2.
    #[error("{0}")]
    Usage(String),
    /// The data folder can't be used, or not for this chain: 3.
    #[error("{0}")]
    DataFolder(String),
    /// Another process has the data folder open: 3 too.
    #[error("{0}")]
    InUse(String),
    /// The operator stopped it; completed work is kept: 130.
    #[error("{0}")]
    Interrupted(String),
}

impl Stop {
    /// A failure while the command ran.
    pub(crate) fn failure(error: impl std::fmt::Display) -> Self {
        Self::Failure(error.to_string())
    }

    /// Adds what the operator can do.
    #[must_use]
    pub(crate) fn with_advice(self, advice: &str) -> Self {
        let with = |text: String| format!("{text}; {advice}");
        match self {
            Self::Failure(text) => Self::Failure(with(text)),
            Self::Usage(text) => Self::Usage(with(text)),
            Self::DataFolder(text) => Self::DataFolder(with(text)),
            Self::InUse(text) => Self::InUse(with(text)),
            Self::Interrupted(text) => Self::Interrupted(with(text)),
        }
    }

    /// The exit code.
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Failure(_) => 1,
            Self::Usage(_) => 2,
            Self::DataFolder(_) | Self::InUse(_) => 3,
            Self::Interrupted(_) => INTERRUPTED,
        }
    }
}

/// The exit code after Ctrl-C, as in shells.
pub(crate) const INTERRUPTED: u8 = 130;

impl From<SettingsError> for Stop {
    fn from(error: SettingsError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<OpenError> for Stop {
    fn from(error: OpenError) -> Self {
        if matches!(error, OpenError::Locked { .. }) {
            return Self::InUse(error.to_string());
        }
        Self::DataFolder(error.to_string())
    }
}

impl From<tenon_api::StoreError> for Stop {
    fn from(error: tenon_api::StoreError) -> Self {
        Self::Failure(error.to_string())
    }
}

impl From<tenon_api::BusError> for Stop {
    fn from(error: tenon_api::BusError) -> Self {
        Self::Failure(error.to_string())
    }
}

impl From<tenon_supervisor::SpawnError> for Stop {
    fn from(error: tenon_supervisor::SpawnError) -> Self {
        Self::Failure(error.to_string())
    }
}

impl From<tenon_bus::RegisterError> for Stop {
    fn from(error: tenon_bus::RegisterError) -> Self {
        Self::Failure(error.to_string())
    }
}
