//! The voting of masternodes, the network and the building of blocks, as they see one another.

use std::sync::Arc;

use alloy_primitives::{Bytes, U256};

use super::BlockProductionError;
use crate::{Block, Header, RecoveredTransaction, SealedHeader, SignError};

/// Kinds of messages with which masternodes agree on blocks (`docs/spec/consensus.md` 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoundMessageKind {
    /// A masternode's vote for a block.
    Vote,
    /// A masternode's statement that a round has failed.
    Timeout,
    /// The highest certificates that a node has.
    SyncInfo,
}

/// A message of masternodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundMessage {
    /// Its kind.
    pub kind: RoundMessageKind,
    /// Its RLP (`docs/spec/p2p.md` 13). The sender of this value has checked that it decodes.
    pub payload: Bytes,
}

/// The voting as the network sees it. No method blocks.
pub trait RoundMessages: Send + Sync {
    /// Takes a message of a peer. Drops `guard` once the message has been processed, or refused because the mailbox is
    /// full.
    fn receive(&self, message: RoundMessage, guard: Box<dyn Send>);
    /// A block of a peer was executed, on any branch. `is_announced` is false for blocks of a synchronisation.
    fn executed(&self, header: Arc<SealedHeader>, is_announced: bool);
    /// Sets whether the node is far behind. While it is, messages are dropped.
    fn set_syncing(&self, is_syncing: bool);
}

/// The network as the voting sees it. No method blocks; while the network is off nothing is sent.
pub trait RoundNetwork: Send + Sync {
    /// Sends a message to every peer that does not have it.
    fn broadcast(&self, message: RoundMessage);
    /// Sends a message to every peer again: a peer may have received it and not processed it.
    fn repeat(&self, message: RoundMessage);
    /// Sends a block that this node made to every peer.
    fn announce(&self, block: Arc<Block>, total_difficulty: U256);
}

/// Builds blocks on any executed block, for the leader of a round.
pub trait RoundBuilder: Send + Sync {
    /// Executes as many of the transactions as fit on the state after `parent`, completes the header and has it sealed.
    /// Nothing is stored.
    ///
    /// # Errors
    /// [`BlockProductionError`] if the state after `parent` is not available, or the seal is refused.
    fn build(
        &self,
        parent: &SealedHeader,
        draft: Header,
        transactions: Vec<RecoveredTransaction>,
        seal: &dyn Fn(Header) -> Result<SealedHeader, SignError>,
    ) -> Result<Block, BlockProductionError>;
}
