//! What callers ask about masternodes: rewards, signers, finality, candidates, the return of staking
//! (`spec/rpc-eth.md` 8, 17).
//!
//! It owns the handlers of those messages. Everything is computed from the chain when it is asked for; what the engine
//! remembers for that is its own, so that questions cannot push out what the import needs.

mod candidates;
mod signers;
mod staking;

use std::sync::Arc;

use tenon_api::{
    Address, B256, BlockNumber, ChainReader, Failure, SealedHeader, StoreError,
    messages::{EpochReward, GetBlockSigners, GetCandidates, GetEpochReward, GetStakingReturn},
};
use tenon_bus::{Bus, RegisterError, WorkPool};
use tenon_chain::{ChainSpec, NativeSettings};

use super::{NativeEngine, NativeError, addresses_of, v1_masternodes};

/// Why the handlers could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum QuestionsError {
    /// The chain is none of the native ones.
    #[error(transparent)]
    Engine(#[from] NativeError),
    /// Somebody answers one of the messages already.
    #[error(transparent)]
    Register(#[from] RegisterError),
}

/// Answers the questions about consensus of a native chain. Each may read many blocks and is one job on `pool`.
///
/// # Errors
/// [`QuestionsError`].
pub fn register(
    bus: &Bus,
    spec: &Arc<ChainSpec>,
    chain: Arc<dyn ChainReader>,
    pool: &WorkPool,
) -> Result<(), QuestionsError> {
    let questions = Arc::new(Questions::new(spec, chain)?);
    let own = Arc::clone(&questions);
    bus.handle_work(pool, move |request: GetEpochReward, _| own.epoch_reward(request.block))?;
    let own = Arc::clone(&questions);
    bus.handle_work(pool, move |request: GetBlockSigners, _| own.block_signers(request.block))?;
    let own = Arc::clone(&questions);
    bus.handle_work(pool, move |request: GetCandidates, _| own.candidates(request.epoch))?;
    bus.handle_work(pool, move |request: GetStakingReturn, _| questions.staking_return(request.masternode))?;
    Ok(())
}

/// An engine beside the one that imports, and the chain.
pub(super) struct Questions {
    settings: NativeSettings,
    engine: NativeEngine,
    chain: Arc<dyn ChainReader>,
}

impl Questions {
    fn new(spec: &Arc<ChainSpec>, chain: Arc<dyn ChainReader>) -> Result<Self, NativeError> {
        let engine = NativeEngine::new(spec)?;
        let settings = spec.native.clone().ok_or(NativeError::NotNative(spec.chain_id))?;
        Ok(Self { settings, engine, chain })
    }

    fn epoch_reward(&self, block: B256) -> Result<Option<EpochReward>, Failure> {
        let Some(header) = self.chain.header(block)? else { return Ok(None) };
        if self.canonical_header(header.number)?.is_none_or(|canonical| canonical.hash() != block) {
            return Ok(None);
        }
        let rewards = self.engine.epoch_rewards(&header, &*self.chain).map_err(failure)?;
        Ok(rewards.map(|rewards| EpochReward { json: rewards.to_json() }))
    }

    fn canonical_header(&self, number: u64) -> Result<Option<Arc<SealedHeader>>, StoreError> {
        match self.chain.canonical_hash(BlockNumber(number))? {
            Some(hash) => self.chain.header(hash),
            None => Ok(None),
        }
    }

    /// The masternodes of a block's epoch; none when they cannot be told, as the reference has it.
    fn masternodes_of(&self, header: &SealedHeader) -> Result<Vec<Address>, Failure> {
        let consensus = self.engine.consensus();
        if self.engine.is_v2(header.number) {
            let info = self.engine.v2().epoch_info(header, &*self.chain);
            return Ok(info.map(|info| info.masternodes.to_vec()).unwrap_or_default());
        }
        let checkpoint = self.canonical_header(header.number - header.number % consensus.epoch)?;
        Ok(checkpoint.map(|checkpoint| v1_masternodes(&checkpoint.extra_data)).unwrap_or_default())
    }

    /// The masternodes that a header itself lists: those of an epoch when it opens one.
    fn listed_masternodes(&self, header: &SealedHeader) -> Vec<Address> {
        if self.engine.is_v2(header.number) {
            return header.native_seal.as_ref().map(|seal| addresses_of(&seal.validators)).unwrap_or_default();
        }
        v1_masternodes(&header.extra_data)
    }

    /// Number of the block that opened the epoch of this block, and of the epoch (`spec/consensus.md` 1.1).
    fn epoch_of(&self, header: &SealedHeader) -> Result<(u64, u64), Failure> {
        let consensus = self.engine.consensus();
        if !self.engine.is_v2(header.number) {
            return Ok((header.number - header.number % consensus.epoch, header.number / consensus.epoch));
        }
        let info = self.engine.v2().epoch_info(header, &*self.chain).map_err(failure)?;
        Ok((info.switch.number, consensus.switch_epoch + info.switch.round / consensus.epoch))
    }
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::server(error.to_string())
}

#[cfg(test)]
mod tests;
