//! Making blocks. Topics `0x0a00..`.

use serde::{Deserialize, Serialize};

use super::request;

/// Whether this node makes blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetSealing;
request!(GetSealing => SealingState, topic 0x0a00, ReadNode);

/// Whether this node makes blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealingState {
    /// Whether the module `sealing` is enabled.
    pub is_sealing: bool,
}
