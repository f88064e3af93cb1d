//! What the import and the sealer ask of a consensus engine.

use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256};

use crate::{Block, BlockNumber, ChainReader, Head, Header, RecoveredBlock, SealedHeader};

/// Why a block was refused, and whether the refusal is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// The block breaks a rule: it is wrong for every node, at any time.
    BrokenRule,
    /// The block's time has not come. It may be right later.
    NotYetDue,
    /// This node could not check it: its database failed, or what the rule needs is not stored.
    OwnFailure,
}

/// Why consensus refuses a header or body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("block {number} ({hash}): {reason}")]
pub struct ConsensusError {
    /// Height of the refused block.
    pub number: BlockNumber,
    /// Its hash.
    pub hash: B256,
    /// Whether the refusal is final.
    pub cause: RefusalCause,
    /// The broken rule, with the value found and the value expected.
    pub reason: String,
}

/// A sealer's parameters for the next block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealAttributes {
    /// Unix time in seconds.
    pub timestamp: u64,
    /// Receiver of fees.
    pub beneficiary: Address,
    /// Gas limit of the block.
    pub gas_limit: u64,
    /// Extra data.
    pub extra_data: Bytes,
    /// PREVRANDAO after the merge.
    pub mix_hash: B256,
}

/// What a consensus engine changes in the state at the end of a block, after its transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockRewards {
    /// Balance credits, wei, in the order of application. A credit of zero touches its account.
    pub credits: Vec<(Address, U256)>,
    /// An account that keeps the engine's own figures; written after the credits.
    pub record: Option<AccountRecord>,
}

impl From<Vec<(Address, U256)>> for BlockRewards {
    fn from(credits: Vec<(Address, U256)>) -> Self {
        Self { credits, record: None }
    }
}

/// An account without code in whose storage an engine keeps figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountRecord {
    /// Its address.
    pub account: Address,
    /// Its new nonce, above zero, so that the account is not empty.
    pub nonce: u64,
    /// Changed slots; zero deletes one.
    pub slots: Vec<(B256, U256)>,
}

/// A consensus engine: decides who may make blocks and which branch wins. Holds no chain state that cannot be restored
/// from the database.
pub trait ConsensusEngine: Send + Sync {
    /// The name in logs.
    fn name(&self) -> &'static str;
    /// The chain's minimum time between two blocks after this one; `None` if its rules set none.
    fn min_block_interval(&self, _head: &SealedHeader) -> Option<Duration> {
        None
    }
    /// Checks a header against its parent: number, time, gas limit, difficulty, base fee, seal.
    ///
    /// # Errors
    /// [`ConsensusError`] naming the broken rule.
    fn verify_header(
        &self,
        header: &SealedHeader,
        parent: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<(), ConsensusError>;
    /// Prepares the verification of several headers, in order of height, on any thread: recovers their signers in one
    /// batch, and may record that a later header vouches for earlier ones. Invalid headers are refused on verification.
    fn recover_ahead(&self, _headers: &[&SealedHeader]) {}
    /// Checks the body against the header without execution: uncles, and the roots of the lists.
    ///
    /// # Errors
    /// [`ConsensusError`] naming the broken rule.
    fn verify_body(&self, block: &Block, chain: &dyn ChainReader) -> Result<(), ConsensusError>;
    /// Whether a branch that ends in `candidate` wins over the head.
    fn is_better(&self, candidate: &SealedHeader, candidate_total_difficulty: U256, head: &Head) -> bool;
    /// Checks that a better branch may replace the canonical blocks above their last common ancestor.
    ///
    /// # Errors
    /// [`ConsensusError`] if a final block would be undone.
    fn verify_reorganisation(
        &self,
        _common_ancestor: BlockNumber,
        _head: &Head,
        _chain: &dyn ChainReader,
    ) -> Result<(), ConsensusError> {
        Ok(())
    }
    /// The address that receives the block's fees and that the EVM sees as coinbase.
    ///
    /// # Errors
    /// [`ConsensusError`] if the seal does not contain it.
    fn author(&self, header: &SealedHeader) -> Result<Address, ConsensusError>;
    /// Returns whether the block opens an epoch, in engines with epochs.
    ///
    /// # Errors
    /// [`ConsensusError`] if the header does not say.
    fn opens_epoch(&self, _header: &SealedHeader) -> Result<bool, ConsensusError> {
        Ok(false)
    }
    /// What the engine changes in the state at the end of a block.
    ///
    /// # Errors
    /// [`ConsensusError`] if it cannot be computed.
    fn rewards(&self, block: &Block, chain: &dyn ChainReader) -> Result<BlockRewards, ConsensusError>;
    /// The consensus fields of a block to be built on `parent`; roots, gas used and bloom are left zero.
    ///
    /// # Errors
    /// [`ConsensusError`] if this node is not permitted to make a block now.
    fn prepare(
        &self,
        parent: &SealedHeader,
        attributes: &SealAttributes,
        chain: &dyn ChainReader,
    ) -> Result<Header, ConsensusError>;
    /// Puts the seal on a finished header.
    ///
    /// # Errors
    /// [`ConsensusError`] if this node is not permitted to make a block now.
    fn seal(&self, header: Header) -> Result<SealedHeader, ConsensusError>;
    /// Called for each new canonical block, so that the engine can cache what later blocks need of it.
    fn observe(&self, _block: &RecoveredBlock) {}
    /// Called for each block that has become the head, in order, before states below it are pruned, so that the engine can
    /// record what later blocks need of its state. Repeated for the head when a node opens its database, because the process
    /// may have been killed before the first call.
    fn observe_head(&self, _head: &SealedHeader, _chain: &dyn ChainReader) {}
    /// The finalized and the safe block, with `head` as the head. Records nothing.
    fn finality(&self, head: &SealedHeader, chain: &dyn ChainReader) -> (Option<BlockNumber>, Option<BlockNumber>);
}
