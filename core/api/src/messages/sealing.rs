//! Making blocks: whether this node does, for whom, with what. Topics `0x0a00..`.

use alloy_primitives::{Address, Bytes};
use serde::{Deserialize, Serialize};

use super::request;

/// Whether this node makes blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetSealing;
request!(GetSealing => SealingState, topic 0x0a00, ReadNode);

/// Whether this node makes blocks, and for whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealingState {
    /// Whether the module `sealing` is enabled.
    pub is_sealing: bool,
    /// The account that was chosen while the node runs ([`SealingChange::Etherbase`]); none when none was.
    pub etherbase: Option<Address>,
}

/// Changes what blocks are made with, until the node ends. Blocks that are made already stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetSealing {
    /// What changes.
    pub change: SealingChange,
}
request!(SetSealing => (), topic 0x0a01, Administer);

/// What can change about the blocks of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SealingChange {
    /// The account that fees go to. On native chains it is the one that signs.
    Etherbase(Address),
    /// The gas limit that blocks move towards.
    GasLimit(u64),
    /// Free bytes of the header, 32 at most. Blocks of engine v2 have none.
    ExtraData(Bytes),
}

/// Enables the module `sealing`, if the node can make blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartSealing;
request!(StartSealing => SealingStart, topic 0x0a02, Administer);

/// Outcome of [`StartSealing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SealingStart {
    /// Blocks are made, perhaps since before.
    Running,
    /// There is no account to make blocks for.
    NoEtherbase,
    /// The account is in no wallet of this node.
    NoSigner,
    /// This node makes no blocks of this chain, whichever account is chosen.
    NotHere,
}
