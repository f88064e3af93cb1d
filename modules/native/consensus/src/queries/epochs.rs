//! Epochs of engine v2: their masternodes, first blocks and missed rounds (`docs/spec/rpc-node.md` 2.4).

use std::sync::Arc;

use tenon_api::{
    Address, B256, BlockId, EpochRefusal, SealedHeader, StoreError,
    messages::{EpochBlocks, EpochMembers, MissedRound, MissedRounds},
};
use tenon_bus::CallContext;

use super::{Queries, QueryError};
use crate::{
    messages::BlockInfo,
    v2::{EpochInfo, V2Error, epoch_number, leader, round_of},
};

/// Maximum number of epochs that a query walks through before it is moved to the pool. Each takes a dozen reads at
/// most.
const MAX_ATTEMPTED_EPOCHS: usize = 12;

/// A cached header, reduced to what counting missed rounds needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    hash: B256,
    parent: B256,
    number: u64,
    round: u64,
}

impl Queries {
    /// The masternodes of a block's epoch. As in the reference, the lists are empty if the epoch cannot be determined.
    pub(super) fn epoch_members(&self, block: BlockId) -> Result<Option<EpochMembers>, QueryError> {
        let Some(header) = self.header(block)? else { return Ok(None) };
        let consensus = self.engine.consensus();
        let round = round_of(consensus, &header)?;
        let found = self.engine.v2().epoch_of(&header, &*self.chain).and_then(|info| {
            let candidates = self.engine.v2().candidates(info.gap_number(consensus), &*self.chain)?;
            Ok((info, candidates.ok_or(V2Error::NoCandidates)?))
        });
        match found {
            Ok((info, candidates)) => Ok(Some(members(header.number, round, &info, &candidates))),
            Err(V2Error::Store(error)) => Err(error.into()),
            Err(_) => Ok(Some(EpochMembers { number: header.number, round, ..EpochMembers::default() })),
        }
    }

    /// [`Queries::epoch_members`] if it takes only a few reads: the candidates are cached.
    pub(super) fn cached_epoch_members(&self, block: BlockId) -> Result<Option<EpochMembers>, V2Error> {
        let Ok(Some(header)) = self.header(block) else { return Ok(None) };
        let consensus = self.engine.consensus();
        let Some(info) = self.engine.v2().cached_epoch(&header, &*self.chain)? else { return Ok(None) };
        let candidates = self.engine.v2().cached_candidates(info.gap_number(consensus), &*self.chain)?;
        let round = round_of(consensus, &header)?;
        Ok(candidates.map(|candidates| members(header.number, round, &info, &candidates)))
    }

    /// The heights of the epoch switches between two v2 blocks, ascending.
    pub(super) fn epoch_switches(
        &self,
        first: B256,
        last: B256,
        context: &CallContext,
    ) -> Result<Vec<u64>, QueryError> {
        let epoch_of = |header: &SealedHeader| match context.should_stop() {
            true => Ok(None),
            false => self.engine.v2().epoch_of(header, &*self.chain).map(Some),
        };
        self.switches_between(first, last, epoch_of)?.ok_or(QueryError::CallerGone)
    }

    /// [`Queries::epoch_switches`] if it takes only a few reads: there are few epochs, and all are cached.
    pub(super) fn cached_epoch_switches(&self, first: B256, last: B256) -> Option<Vec<u64>> {
        let mut epochs = 0;
        let epoch_of = |header: &SealedHeader| {
            epochs += 1;
            if epochs > MAX_ATTEMPTED_EPOCHS {
                return Ok(None);
            }
            self.engine.v2().cached_epoch(header, &*self.chain)
        };
        self.switches_between(first, last, epoch_of).ok().flatten()
    }

    /// [`Queries::epoch_switches`] with a given source of epochs; `None` as soon as `epoch_of` returns `None`.
    fn switches_between(
        &self,
        first: B256,
        last: B256,
        mut epoch_of: impl FnMut(&SealedHeader) -> Result<Option<Arc<EpochInfo>>, V2Error>,
    ) -> Result<Option<Vec<u64>>, QueryError> {
        let (first, last) = (self.required(first)?, self.required(last)?);
        if !self.engine.is_v2(first.number) || !self.engine.is_v2(last.number) {
            return Err(EpochRefusal::BlockOfEngineV1.into());
        }
        let mut switches = Vec::new();
        let (mut current, mut number) = (Arc::clone(&last), last.number);
        while number > first.number {
            let Some(info) = epoch_of(&current)? else { return Ok(None) };
            let Some(parent) = info.switch_parent else { break };
            number = info.switch.number;
            if number >= first.number {
                switches.push(number);
            }
            // The parent of an epoch switch belongs to the epoch before.
            current = self.required(parent.hash)?;
        }
        switches.reverse();
        Ok(Some(switches))
    }

    /// The first and the last block of an epoch.
    pub(super) fn epoch_blocks(&self, epoch: u64) -> Result<EpochBlocks, QueryError> {
        let BlockInfo { hash, round, number: first } = self.epoch_switch(epoch)?;
        let next = epoch.checked_add(1).and_then(|next| self.epoch_switch(next).ok());
        Ok(EpochBlocks { hash, round, first, last: next.map(|next| next.number.saturating_sub(1)) })
    }

    /// [`Queries::epoch_blocks`] if it takes only a few reads: the epoch and the next one are cached, or the epoch is
    /// current.
    pub(super) fn cached_epoch_blocks(&self, epoch: u64) -> Result<Option<EpochBlocks>, V2Error> {
        let head = self.chain.head();
        let Some(current) = self.engine.v2().cached_epoch(&head.header, &*self.chain)? else { return Ok(None) };
        let current_epoch = epoch_number(self.engine.consensus(), current.switch.round);
        let cached = |epoch| if epoch == current_epoch { Ok(Some(current.switch)) } else { self.known_switch(epoch) };
        let Some(BlockInfo { hash, round, number: first }) = cached(epoch)? else { return Ok(None) };
        if epoch == current_epoch {
            return Ok(Some(EpochBlocks { hash, round, first, last: None }));
        }
        let next = cached(epoch.saturating_add(1))?;
        Ok(next.map(|next| EpochBlocks { hash, round, first, last: Some(next.number.saturating_sub(1)) }))
    }

    /// The first canonical block of an epoch.
    fn epoch_switch(&self, epoch: u64) -> Result<BlockInfo, QueryError> {
        let consensus = self.engine.consensus();
        let head = self.chain.head();
        let current = self.engine.v2().epoch_of(&head.header, &*self.chain)?;
        let current_epoch = epoch_number(consensus, current.switch.round);
        if epoch == current_epoch {
            return Ok(current.switch);
        }
        if epoch > current_epoch {
            return Err(EpochRefusal::Future.into());
        }
        let Some(epochs) = epoch.checked_sub(consensus.switch_epoch) else {
            return Err(EpochRefusal::OfEngineV1.into());
        };
        if let Some(known) = self.known_switch(epoch)? {
            return Ok(known);
        }
        let start = epochs.saturating_mul(consensus.epoch);
        let found = self.engine.v2().first_from_round(start, &head.header, &*self.chain)?;
        let found = found.ok_or(EpochRefusal::WithoutBlock)?;
        let round = round_of(consensus, &found)?;
        if epoch_number(consensus, round) != epoch {
            return Err(EpochRefusal::WithoutBlock.into());
        }
        let switch = BlockInfo { hash: found.hash(), round, number: found.number };
        self.switches.lock().put(epoch, switch);
        Ok(switch)
    }

    /// The first block of an epoch, if it is cached and still canonical.
    fn known_switch(&self, epoch: u64) -> Result<Option<BlockInfo>, StoreError> {
        let known = self.switches.lock().get(&epoch).copied();
        let Some(known) = known else { return Ok(None) };
        let is_canonical = self.chain.canonical_hash(known.number.into())? == Some(known.hash);
        Ok(is_canonical.then_some(known))
    }

    /// The rounds without a block, from a block back to the first of its epoch: at most one epoch's.
    pub(super) fn missed_rounds(
        &self,
        block: BlockId,
        context: &CallContext,
    ) -> Result<Option<MissedRounds>, QueryError> {
        let Some(header) = self.header(block)? else { return Ok(None) };
        if !self.engine.is_v2(header.number) {
            return Err(EpochRefusal::BlockOfEngineV1.into());
        }
        let info = self.engine.v2().epoch_of(&header, &*self.chain)?;
        let mut missed = Vec::new();
        let mut next = self.link_of(&header)?;
        while next.number > info.switch.number && !context.should_stop() {
            let previous = self.link(next.parent)?;
            for round in previous.round.saturating_add(1)..next.round {
                let leader = leader(self.engine.consensus(), round, &info.masternodes)
                    .ok_or_else(|| EpochRefusal::NoMasternodes { number: header.number, hash: header.hash() })?;
                let [next, previous] = [next, previous].map(|link| (link.number, link.hash));
                missed.push(MissedRound { round, leader, next, previous });
            }
            next = previous;
        }
        let is_whole = next.number <= info.switch.number;
        let found = MissedRounds { epoch_round: info.switch.round, epoch_number: info.switch.number, missed };
        if is_whole {
            self.missed.lock().put(header.hash(), Arc::new(found.clone()));
        }
        Ok(Some(found))
    }

    /// [`Queries::missed_rounds`] if they are cached. They follow from a block and its ancestors, which do not change.
    pub(super) fn cached_missed_rounds(&self, block: BlockId) -> Option<MissedRounds> {
        let header = self.header(block).ok().flatten()?;
        let found = self.missed.lock().get(&header.hash()).map(Arc::clone);
        found.map(|found| MissedRounds::clone(&found))
    }

    fn link(&self, hash: B256) -> Result<Link, QueryError> {
        if let Some(link) = self.links.lock().get(&hash) {
            return Ok(*link);
        }
        let header = self.chain.header(hash)?.ok_or(EpochRefusal::UnknownAncestor(hash))?;
        Ok(self.link_of(&header)?)
    }

    fn link_of(&self, header: &SealedHeader) -> Result<Link, V2Error> {
        let round = round_of(self.engine.consensus(), header)?;
        let link = Link { hash: header.hash(), parent: header.parent_hash, number: header.number, round };
        self.links.lock().put(link.hash, link);
        Ok(link)
    }

    fn required(&self, hash: B256) -> Result<Arc<SealedHeader>, StoreError> {
        crate::ancestry::required(&*self.chain, hash)
    }
}

/// An epoch's members as returned for one of its blocks. Standby are candidates that are neither masternodes nor
/// penalised, by stake; none if there are as many masternodes as candidates.
fn members(number: u64, round: u64, info: &EpochInfo, candidates: &[Address]) -> EpochMembers {
    let is_standby = |candidate: &&Address| !info.is_masternode(candidate) && !info.penalties.contains(candidate);
    let standby = if candidates.len() == info.masternodes.len() {
        Vec::new()
    } else {
        candidates.iter().filter(is_standby).copied().collect()
    };
    EpochMembers { number, round, masternodes: info.masternodes.to_vec(), penalties: info.penalties.clone(), standby }
}
