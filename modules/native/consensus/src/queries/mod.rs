//! Queries on consensus: rewards, signers, finality, candidates, the return of staking (`docs/spec/rpc-eth.md` 8, 17);
//! snapshots, epochs, rounds, parameters (`docs/spec/rpc-node.md` 2).
//!
//! It owns the handlers of those messages. Everything is computed from the chain on request; the engine used here has
//! caches of its own, so that queries cannot evict what the import needs.

mod authorised;
mod candidates;
mod epochs;
mod error;
mod parameters;
mod rounds;
mod schedule;
mod signers;
mod staking;

use std::{num::NonZeroUsize, sync::Arc};

use lru::LruCache;
use parking_lot::Mutex;
use tenon_api::{
    Address, B256, BlockId, BlockNumber, BlockTag, ChainReader, EngineRecords, SealedHeader, StoreError,
    messages::{
        EpochReward, GetAuthorised, GetBlockSigners, GetCandidates, GetConsensusParameters, GetEpochBlocks,
        GetEpochMembers, GetEpochReward, GetEpochSwitches, GetMissedRounds, GetNativeSchedule, GetRound,
        GetStakingReturn, MissedRounds,
    },
};
use tenon_bus::{Bus, WorkPool};
use tenon_chain::{ChainSpec, ResolveError};
use tenon_native_spec::NativeSettings;

pub use self::error::SetupError;
use self::{epochs::Link, error::QueryError};
use super::{
    NativeEngine, NativeError, addresses_of,
    messages::BlockInfo,
    rewards::{self, EpochRewards},
    v1_masternodes,
    v2::V2Error,
};

/// Epochs whose first block is cached: half a year on the public networks, with epochs of half an hour.
const SWITCH_CACHE_SIZE: NonZeroUsize = NonZeroUsize::new(8192).unwrap();
/// Headers whose number and round are cached, about 90 bytes each: more than four epochs of 900.
const LINK_CACHE_SIZE: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// Blocks whose missed rounds are cached: at most 900 rounds of 144 bytes each, 4 MB.
const MISSED_ROUND_CACHE_SIZE: NonZeroUsize = NonZeroUsize::new(32).unwrap();

/// Registers the handlers of queries on a native chain's consensus. Each query may read many blocks and is one job on
/// `pool`, except those that read a few records. `records` are those of the importing engine.
///
/// # Errors
/// [`SetupError`].
pub fn register(
    bus: &Bus,
    spec: &Arc<ChainSpec>,
    chain: Arc<dyn ChainReader>,
    records: Arc<dyn EngineRecords>,
    pool: &WorkPool,
) -> Result<(), SetupError> {
    let queries = Arc::new(Queries::new(spec, chain, NativeEngine::reading(spec, records)?)?);
    let (attempt, own) = (Arc::clone(&queries), Arc::clone(&queries));
    bus.handle_attempt(
        pool,
        move |request: &GetEpochReward, _| attempt.pays_no_reward(request.block).then_some(Ok(None)),
        move |request: GetEpochReward, _| Ok(own.epoch_reward(request.block)?),
    )?;
    let own = Arc::clone(&queries);
    bus.handle_work(pool, move |request: GetBlockSigners, _| Ok(own.block_signers(request.block)?))?;
    let own = Arc::clone(&queries);
    bus.handle_work(pool, move |request: GetCandidates, _| Ok(own.candidates(request.epoch)?))?;
    let own = Arc::clone(&queries);
    bus.handle_work(pool, move |request: GetStakingReturn, _| Ok(own.staking_return(request.masternode)?))?;
    register_epochs(bus, &queries, pool)
}

/// Registers the queries on snapshots, epochs and rounds.
fn register_epochs(bus: &Bus, queries: &Arc<Queries>, pool: &WorkPool) -> Result<(), SetupError> {
    // A cached answer takes less time than waking a pool thread. A query that fails here is repeated on the pool.
    let (attempt, own) = (Arc::clone(queries), Arc::clone(queries));
    bus.handle_attempt(
        pool,
        move |request: &GetAuthorised, _| attempt.cached_authorised(request.block).ok().flatten().map(Ok),
        move |request: GetAuthorised, _| Ok(own.authorised(request.block)?),
    )?;
    let (attempt, own) = (Arc::clone(queries), Arc::clone(queries));
    bus.handle_attempt(
        pool,
        move |request: &GetEpochMembers, _| {
            attempt.cached_epoch_members(request.block).ok().flatten().map(Some).map(Ok)
        },
        move |request: GetEpochMembers, _| Ok(own.epoch_members(request.block)?),
    )?;
    let (attempt, own) = (Arc::clone(queries), Arc::clone(queries));
    bus.handle_attempt(
        pool,
        move |request: &GetMissedRounds, _| attempt.cached_missed_rounds(request.block).map(Some).map(Ok),
        move |request: GetMissedRounds, context| Ok(own.missed_rounds(request.block, context)?),
    )?;
    let (attempt, own) = (Arc::clone(queries), Arc::clone(queries));
    bus.handle_attempt(
        pool,
        move |request: &GetEpochSwitches, _| attempt.cached_epoch_switches(request.first, request.last).map(Ok),
        move |request: GetEpochSwitches, context| Ok(own.epoch_switches(request.first, request.last, context)?),
    )?;
    let (attempt, own) = (Arc::clone(queries), Arc::clone(queries));
    bus.handle_attempt(
        pool,
        move |request: &GetEpochBlocks, _| attempt.cached_epoch_blocks(request.epoch).ok().flatten().map(Ok),
        move |request: GetEpochBlocks, _| Ok(own.epoch_blocks(request.epoch)?),
    )?;
    let own = Arc::clone(queries);
    bus.handle_read(move |request: GetRound, _| Ok(own.round(request.header)?))?;
    let own = Arc::clone(queries);
    bus.handle_read(move |_: GetConsensusParameters, _| Ok(Arc::new(own.parameters()?)))?;
    let own = Arc::clone(queries);
    bus.handle_read(move |_: GetNativeSchedule, _| Ok(own.schedule()?))?;
    Ok(())
}

/// An engine separate from the importing one, and the chain.
pub(super) struct Queries {
    spec: Arc<ChainSpec>,
    settings: NativeSettings,
    chain_id: u64,
    engine: NativeEngine,
    chain: Arc<dyn ChainReader>,
    /// Height of the head when this process started.
    started_at: u64,
    /// First block of an epoch, by the epoch's number. Locked for a look-up or an insertion only.
    switches: Mutex<LruCache<u64, BlockInfo>>,
    /// Headers by hash. Locked for a look-up or an insertion only.
    links: Mutex<LruCache<B256, Link>>,
    /// Missed rounds up to a block, by its hash. Locked for a look-up or an insertion only.
    missed: Mutex<LruCache<B256, Arc<MissedRounds>>>,
}

impl Queries {
    fn new(spec: &Arc<ChainSpec>, chain: Arc<dyn ChainReader>, engine: NativeEngine) -> Result<Self, NativeError> {
        let settings = NativeSettings::of(spec).cloned().ok_or(NativeError::NotNative(spec.chain_id))?;
        Ok(Self {
            spec: Arc::clone(spec),
            settings,
            chain_id: spec.chain_id,
            engine,
            started_at: chain.head().header.number,
            chain,
            switches: Mutex::new(LruCache::new(SWITCH_CACHE_SIZE)),
            links: Mutex::new(LruCache::new(LINK_CACHE_SIZE)),
            missed: Mutex::new(LruCache::new(MISSED_ROUND_CACHE_SIZE)),
        })
    }

    /// The header of a block; `None` if it is not stored, or if the last committed block is requested and none is
    /// known.
    fn header(&self, block: BlockId) -> Result<Option<Arc<SealedHeader>>, ResolveError> {
        if block == BlockId::Tag(BlockTag::Finalized) && self.chain.head().finalized.is_none() {
            return Ok(None);
        }
        tenon_chain::resolve_block(&*self.chain, block)
    }

    fn epoch_reward(&self, block: B256) -> Result<Option<EpochReward>, QueryError> {
        let Some(header) = self.chain.header(block)? else { return Ok(None) };
        if self.canonical_header(header.number)?.is_none_or(|canonical| canonical.hash() != block) {
            return Ok(None);
        }
        let rewards = self.engine.epoch_rewards(&header, &*self.chain)?;
        Ok(rewards.map(EpochRewards::into_reply))
    }

    /// Returns whether a block is canonical and pays no rewards (only blocks at the end of an epoch pay them). False if
    /// this cannot be determined.
    fn pays_no_reward(&self, block: B256) -> bool {
        let Ok(Some(header)) = self.chain.header(block) else { return false };
        let is_canonical =
            matches!(self.chain.canonical_hash(BlockNumber(header.number)), Ok(Some(hash)) if hash == block);
        is_canonical && matches!(rewards::pays_rewards(&self.settings, &header), Ok(false))
    }

    fn canonical_header(&self, number: u64) -> Result<Option<Arc<SealedHeader>>, StoreError> {
        match self.chain.canonical_hash(BlockNumber(number))? {
            Some(hash) => self.chain.header(hash),
            None => Ok(None),
        }
    }

    /// The masternodes of a block's epoch; empty if they cannot be determined, as in the reference.
    fn masternodes_of(&self, header: &SealedHeader) -> Result<Vec<Address>, StoreError> {
        let consensus = self.engine.consensus();
        if self.engine.is_v2(header.number) {
            let info = self.engine.v2().epoch_info(header, &*self.chain);
            return Ok(info.map(|info| info.masternodes.to_vec()).unwrap_or_default());
        }
        let checkpoint = self.canonical_header(header.number - header.number % consensus.epoch)?;
        Ok(checkpoint.map(|checkpoint| v1_masternodes(&checkpoint.extra_data)).unwrap_or_default())
    }

    /// The masternodes listed in a header itself: those of an epoch if it opens one.
    fn listed_masternodes(&self, header: &SealedHeader) -> Vec<Address> {
        if self.engine.is_v2(header.number) {
            return header.native_seal.as_ref().map(|seal| addresses_of(&seal.validators)).unwrap_or_default();
        }
        v1_masternodes(&header.extra_data)
    }

    /// Returns the number of the block that opened this block's epoch, and the number of the epoch
    /// (`docs/spec/consensus.md` 4.1).
    fn epoch_of(&self, header: &SealedHeader) -> Result<(u64, u64), V2Error> {
        let consensus = self.engine.consensus();
        if !self.engine.is_v2(header.number) {
            return Ok((header.number - header.number % consensus.epoch, header.number / consensus.epoch));
        }
        let info = self.engine.v2().epoch_info(header, &*self.chain)?;
        Ok((info.switch.number, consensus.switch_epoch + info.switch.round / consensus.epoch))
    }
}

#[cfg(test)]
mod tests;
