//! Making blocks: its state and parameters. Topics `0x0a00..`.

use alloy_primitives::{Address, Bytes};
use serde::{Deserialize, Serialize};

use super::request;

/// Whether this node makes blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetSealing;
request!(GetSealing => SealingState, topic 0x0a00, ReadNode);

/// Whether this node makes blocks, and for which account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealingState {
    /// Whether the module `sealing` is enabled.
    pub is_sealing: bool,
    /// The account set while the node runs ([`SealingChange::Etherbase`]); `None` if none was set.
    pub etherbase: Option<Address>,
}

/// Changes a parameter of new blocks, until the node ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetSealing {
    /// The change.
    pub change: SealingChange,
}
request!(SetSealing => (), topic 0x0a01, Administer);

/// A parameter of this node's blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SealingChange {
    /// The receiver of fees. On native chains it is the signing account.
    Etherbase(Address),
    /// The gas limit that blocks approach.
    GasLimit(u64),
    /// Free bytes of the header, 32 at most. Blocks of engine v2 have none.
    ExtraData(Bytes),
}

/// Enables the module `sealing`, if the node is able to make blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartSealing;
request!(StartSealing => SealingStart, topic 0x0a02, Administer);

/// Outcome of [`StartSealing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SealingStart {
    /// Blocks are being made, possibly already before.
    Running,
    /// No account is set.
    NoEtherbase,
    /// No wallet of this node has the account.
    NoSigner,
    /// This node makes no blocks of this chain, with any account.
    Unsupported,
}
