//! Errors of reaching a device.

/// Why a device could not be listed, opened, written or read. No variant contains bytes of a packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The devices of this transport could not be listed.
    #[error("devices on {transport} can't be listed: {reason}")]
    List {
        /// The transport's name.
        transport: &'static str,
        /// The operating system's reason.
        reason: String,
    },
    /// No device of this transport has the path.
    #[error("no device at {path}")]
    UnknownPath {
        /// The requested path.
        path: String,
    },
    /// The device exists but can't be opened.
    #[error("the device at {path} cannot be opened: {reason}")]
    Open {
        /// The device's path.
        path: String,
        /// The operating system's reason.
        reason: String,
    },
    /// UDP is only for simulators on this machine.
    #[error("{address} is not an address of this machine: devices over UDP must be on loopback")]
    NotLoopback {
        /// The requested address.
        address: String,
    },
    /// The device accepted only a part of a packet.
    #[error("the device accepted only {written} of {length} bytes")]
    ShortWrite {
        /// Number of accepted bytes.
        written: usize,
        /// Length of the report or packet, bytes.
        length: usize,
    },
    /// The device is gone, or the transport failed.
    #[error("the connection to the device is lost: {reason}")]
    Lost {
        /// The operating system's reason.
        reason: String,
    },
}

impl LinkError {
    /// Creates a [`LinkError::Lost`] from an error of the system.
    pub(crate) fn lost(reason: impl ToString) -> Self {
        Self::Lost { reason: reason.to_string() }
    }
}
