//! What a module reports over the bus if it cannot answer a request.

mod account_refusal;
mod device_problem;
mod enode_problem;
mod epoch_refusal;
mod front_end_refusal;
mod recording_refusal;
mod unresolved_block;

use std::path::PathBuf;

use alloy_primitives::{B256, hex};

pub use account_refusal::{AccountRefusal, KeyFileProblem, KeyTextProblem, PathProblem, WalletFeature};
pub use device_problem::DeviceProblem;
pub use enode_problem::{EnodeProblem, HostProblem, UnusableNode, UrlProblem};
pub use epoch_refusal::EpochRefusal;
pub use front_end_refusal::FrontEndRefusal;
pub use recording_refusal::{RecordingKind, RecordingRefusal};
pub use unresolved_block::UnresolvedBlock;

/// Why a module cannot answer a request. A caller can tell the variants apart.
///
/// Each module has an error enum of its own and converts it into a [`BusError`](crate::BusError) where it answers
/// requests. The SDK gives each variant its JSON-RPC code (`tenon_sdk::Failure`). A variant with a string has the text
/// that the user reads. The others stand for errors whose texts clients know: the SDK writes those
/// (`tenon_sdk::error_texts`), and the texts here are for logs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Something that the request names is unknown, an action is refused, or something that the module needs has
    /// failed.
    #[error("{0}")]
    Failed(String),
    /// An argument is wrong.
    #[error("{0}")]
    InvalidArgument(String),
    /// A limit of this node is reached: memory, queue, time or size.
    #[error("{0}")]
    LimitReached(String),
    /// The block that the request names is unknown, or is not of the named kind.
    #[error(transparent)]
    Block(#[from] UnresolvedBlock),
    /// The database does not have the state after a block.
    #[error("the database does not have the state with root {state_root}")]
    StateUnavailable {
        /// The block's state root.
        state_root: B256,
    },
    /// The database lacks a node of a trie.
    #[error("the database does not have the trie node {hash} at path 0x{}", hex::encode(path))]
    MissingTrieNode {
        /// The node's hash.
        hash: B256,
        /// Its path, one nibble a byte.
        path: Vec<u8>,
    },
    /// An epoch of a native chain has no answer.
    #[error(transparent)]
    Epoch(#[from] EpochRefusal),
    /// A wallet or key refuses.
    #[error(transparent)]
    Account(#[from] AccountRefusal),
    /// A file that the request names could be opened but not read.
    #[error("{}: cannot be read: {reason}", path.display())]
    UnreadableFile {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system or of the decompression.
        reason: String,
    },
    /// A front-end does not start.
    #[error(transparent)]
    FrontEnd(#[from] FrontEndRefusal),
    /// An enode URL is refused.
    #[error(transparent)]
    Enode(#[from] EnodeProblem),
    /// A recording for a profile is not started or stopped.
    #[error(transparent)]
    Recording(#[from] RecordingRefusal),
}
