//! The interface between the state machine and the node: the stored chain, and actions.

use std::sync::Arc;

use alloy_primitives::{B256, U256};
use tenon_api::{Block, SealedHeader};
use tenon_network_identity::NodeId;
use tenon_network_peers::Fault;
use tenon_network_wire::{BlockBody, HeaderRequest};

/// The stored chain. Every method is a point read.
pub trait LocalChain {
    /// The head.
    fn head(&self) -> LocalHead;
    /// The last block that consensus will not undo: height and hash. The genesis block, if the engine knows no other.
    fn committed(&self) -> (u64, B256);
    /// Hash of the canonical block of this height.
    fn canonical_hash(&self, number: u64) -> Option<B256>;
    /// Whether this block is stored, on any branch.
    fn is_stored(&self, hash: &B256) -> bool;
    /// Sum of difficulties up to and including a stored block.
    fn total_difficulty(&self, hash: &B256) -> Option<U256>;
}

/// The stored chain's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalHead {
    /// Its height.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
    /// Sum of difficulties up to and including it.
    pub total_difficulty: U256,
    /// Its timestamp, Unix seconds.
    pub timestamp: u64,
}

/// A request to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncRequest {
    /// Headers.
    Headers(HeaderRequest),
    /// Bodies of these blocks.
    Bodies(Vec<B256>),
}

/// A body with the roots that bind it to its header, computed after decoding.
#[derive(Clone, Debug)]
pub struct CheckedBody {
    /// Root of the transactions.
    pub transactions_root: B256,
    /// Hash of the uncles.
    pub ommers_hash: B256,
    /// The body.
    pub body: BlockBody,
    /// Approximate number of bytes.
    pub bytes: u64,
}

impl CheckedBody {
    /// Whether it is the body of this header.
    pub fn belongs_to(&self, header: &SealedHeader) -> bool {
        self.transactions_root == header.transactions_root && self.ommers_hash == header.ommers_hash
    }
}

/// An action of the owner.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send a request to a peer.
    Ask {
        /// The peer.
        peer: NodeId,
        /// The request.
        request: SyncRequest,
    },
    /// A peer has sent the header of its head.
    Height {
        /// The peer.
        peer: NodeId,
        /// The head's hash.
        head: B256,
        /// Its height.
        number: u64,
    },
    /// A fault of a peer.
    Fault {
        /// The peer.
        peer: NodeId,
        /// The kind of fault.
        fault: Fault,
        /// Its description, for the log.
        reason: &'static str,
    },
    /// Start an import. Its end is reported to [`import_ended`](crate::ChainSync::import_ended).
    BeginImport,
    /// The next block of the import.
    Import(Box<Block>),
    /// The import has all blocks.
    EndImport,
    /// Check the header ([`header_verified`](crate::ChainSync::header_verified)), and insert the block if it is right
    /// ([`inserted`](crate::ChainSync::inserted)).
    VerifyAndInsert(Arc<Block>),
    /// Send a block to these peers: its header is right.
    Relay {
        /// The block.
        block: Arc<Block>,
        /// Sum of difficulties up to and including it.
        total_difficulty: U256,
        /// Peers that do not have it.
        to: Vec<NodeId>,
    },
}
