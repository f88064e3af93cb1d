//! The parts of a snapshot that is read, and the requirements on it.

use tenon_api::B256;
use tenon_chain::Genesis;

use crate::backup::Manifest;
use crate::exit::Stop;

/// The requirements on a snapshot: what it must match, and what is checked.
pub(crate) struct SnapshotRequirements<'a> {
    /// The head's hash, from another source.
    pub(crate) trust_hash: Option<B256>,
    /// Whether the state is computed again.
    pub(crate) checks_state: bool,
    /// The network id of the settings, which selects the rules of native chains with their genesis.
    pub(crate) network_id: Option<u64>,
    /// Whether the operator wants to stop.
    pub(crate) is_interrupted: &'a dyn Fn() -> bool,
}

/// The list of a snapshot, and its genesis file, which was compared with the list.
pub(super) struct ListedParts {
    pub(super) manifest: Manifest,
    pub(super) genesis_text: Vec<u8>,
    pub(super) genesis: Genesis,
}

/// The error for an interrupted command.
pub(super) fn interrupted() -> Stop {
    Stop::Interrupted("interrupted; run the same command to continue".into())
}
