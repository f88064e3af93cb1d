//! Why a device could not be reached.

/// Why a device could not be found, opened, written to or read from. No variant carries any byte of a packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The devices of this transport could not be listed.
    #[error("devices on {transport} can't be listed: {reason}")]
    List {
        /// The transport's name.
        transport: &'static str,
        /// What the operating system says.
        reason: String,
    },
    /// The path names no device of this transport.
    #[error("no device at {path}")]
    UnknownPath {
        /// The path that was asked for.
        path: String,
    },
    /// The device is there and does not open.
    #[error("the device at {path} does not open: {reason}")]
    Open {
        /// The device's path.
        path: String,
        /// What the operating system says.
        reason: String,
    },
    /// UDP is for simulators on this machine.
    #[error("{address} is not an address of this machine: devices over UDP are reached on loopback only")]
    NotLoopback {
        /// The address that was asked for.
        address: String,
    },
    /// The device took a part of a packet.
    #[error("the device took {written} of {length} bytes")]
    ShortWrite {
        /// Bytes taken.
        written: usize,
        /// Bytes of the report or packet.
        length: usize,
    },
    /// The device is gone, or the transport failed.
    #[error("the connection to the device is lost: {reason}")]
    Lost {
        /// What the operating system says.
        reason: String,
    },
}

impl LinkError {
    /// A [`LinkError::Lost`] for an error of the system.
    pub(crate) fn lost(reason: impl ToString) -> Self {
        Self::Lost { reason: reason.to_string() }
    }
}
