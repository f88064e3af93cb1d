//! Rounds, epochs and gap numbers (`docs/spec/consensus.md` 3.4, 4.1).

use std::sync::Arc;

use tenon_api::{Address, ChainReader, Header, SealedHeader};
use tenon_native_spec::NativeConsensus;

use super::{V2Engine, V2Error, snapshot::canonical_header, stored_header};
use crate::{
    ancestry::{is_canonical, required},
    extra::{ExtraFields, addresses_of, v1_masternodes},
    header_link::HeaderLink,
    messages::BlockInfo,
};

/// The number of the epoch of a round.
pub const fn epoch_number(consensus: &NativeConsensus, round: u64) -> u64 {
    consensus.switch_epoch.saturating_add(round / consensus.epoch)
}

/// The first round of a round's epoch. It need not have a block.
pub const fn epoch_start(consensus: &NativeConsensus, round: u64) -> u64 {
    round - round % consensus.epoch
}

/// The gap number of the epoch that begins with this block: the number of the gap block from whose snapshot the epoch
/// is drawn (3.4).
pub const fn gap_number(consensus: &NativeConsensus, epoch_switch: u64) -> u64 {
    let multiple = epoch_switch - epoch_switch % consensus.epoch;
    multiple.saturating_sub(consensus.gap)
}

/// Position of a round's leader in a list of masternodes: two modulo operations (pitfall 4). `None` if the list is
/// empty.
pub fn leader(consensus: &NativeConsensus, round: u64, masternodes: &[Address]) -> Option<Address> {
    let count = u64::try_from(masternodes.len()).unwrap_or(u64::MAX);
    let position = (round % consensus.epoch).checked_rem(count)?;
    masternodes.get(usize::try_from(position).ok()?).copied()
}

/// The extra data of a v2 header.
///
/// # Errors
/// [`V2Error::Extra`].
pub fn extra_of(header: &Header) -> Result<ExtraFields, V2Error> {
    ExtraFields::decode(&header.extra_data).map_err(V2Error::Extra)
}

/// The round of a block: 0 up to the switch block (3.2).
///
/// # Errors
/// [`V2Error::Extra`].
pub fn round_of(consensus: &NativeConsensus, header: &Header) -> Result<u64, V2Error> {
    if header.number <= consensus.switch_block { Ok(0) } else { Ok(extra_of(header)?.round) }
}

/// Returns whether a block opens an epoch of v2: the switch block, the first v2 block, and any other whose parent's
/// round is before its own epoch (4.1).
///
/// # Errors
/// [`V2Error::V1Block`] before the switch block, [`V2Error::Extra`].
pub fn is_epoch_switch(consensus: &NativeConsensus, header: &Header) -> Result<bool, V2Error> {
    if header.number < consensus.switch_block {
        return Err(V2Error::V1Block);
    }
    if header.number == consensus.switch_block {
        return Ok(true);
    }
    Ok(opens_epoch(consensus, &extra_of(header)?))
}

/// [`is_epoch_switch`] of a v2 block with decoded extra data.
pub(super) const fn opens_epoch(consensus: &NativeConsensus, extra: &ExtraFields) -> bool {
    let certified = &extra.quorum.block;
    certified.number == consensus.switch_block || certified.round < epoch_start(consensus, extra.round)
}

impl HeaderLink {
    /// [`is_epoch_switch`] of the header, mostly without reading it.
    ///
    /// # Errors
    /// As there; [`V2Error::Store`] if the header is not stored.
    pub(crate) fn is_epoch_switch(
        &self,
        consensus: &NativeConsensus,
        chain: &dyn ChainReader,
    ) -> Result<bool, V2Error> {
        match &self.extra {
            Some(extra) if self.number > consensus.switch_block => Ok(opens_epoch(consensus, extra)),
            // The switch block, and blocks that the rule refuses with an error of its own.
            _ => is_epoch_switch(consensus, &**required(chain, self.hash)?),
        }
    }
}

/// Returns whether a block of this round on top of `parent` would open an epoch (4.1).
///
/// # Errors
/// [`V2Error::Extra`].
pub fn would_open_epoch(consensus: &NativeConsensus, parent: &Header, round: u64) -> Result<bool, V2Error> {
    if parent.number == consensus.switch_block {
        return Ok(true);
    }
    Ok(round_of(consensus, parent)? < epoch_start(consensus, round))
}

/// An epoch, from the header of its first block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochInfo {
    /// The epoch switch; round 0 for the switch block of the engines.
    pub switch: BlockInfo,
    /// Its parent; `None` for the switch block of the engines.
    pub switch_parent: Option<BlockInfo>,
    /// The masternodes in the header's order, which determines leaders.
    pub masternodes: Arc<[Address]>,
    /// Penalised masternodes, in the header's order.
    pub penalties: Vec<Address>,
    /// The same masternodes, ascending, for look-ups.
    members: Vec<Address>,
}

impl EpochInfo {
    fn new(switch: BlockInfo, parent: Option<BlockInfo>, masternodes: Vec<Address>, penalties: Vec<Address>) -> Self {
        let mut members = masternodes.clone();
        members.sort_unstable();
        Self { switch, switch_parent: parent, masternodes: masternodes.into(), penalties, members }
    }

    /// Whether the address is one of the masternodes.
    pub fn is_masternode(&self, address: &Address) -> bool {
        self.members.binary_search(address).is_ok()
    }

    /// The gap number of votes for blocks of the epoch.
    pub const fn gap_number(&self, consensus: &NativeConsensus) -> u64 {
        gap_number(consensus, self.switch.number)
    }

    /// The epoch opened by this header.
    fn of_switch(consensus: &NativeConsensus, header: &SealedHeader) -> Result<Self, V2Error> {
        let seal = header.native_seal.as_ref().ok_or(V2Error::NotNative)?;
        let block = |round| BlockInfo { hash: header.hash(), round, number: header.number };
        if header.number == consensus.switch_block {
            let masternodes = v1_masternodes(&header.extra_data);
            return Ok(Self::new(block(0), None, masternodes, addresses_of(&seal.penalties)));
        }
        let extra = extra_of(header)?;
        let masternodes = addresses_of(&seal.validators);
        Ok(Self::new(block(extra.round), Some(extra.quorum.block), masternodes, addresses_of(&seal.penalties)))
    }
}

impl V2Engine {
    /// The epoch of a block: walks to the nearest epoch switch, and caches it for all blocks on the way.
    ///
    /// # Errors
    /// [`V2Error::V1Block`] before the switch block; [`V2Error::MissingBlock`] if an ancestor is not stored.
    pub fn epoch_info(&self, header: &SealedHeader, chain: &dyn ChainReader) -> Result<Arc<EpochInfo>, V2Error> {
        let mut passed = Vec::new();
        let mut ancestor = None;
        let info = loop {
            let current: &SealedHeader = ancestor.as_deref().unwrap_or(header);
            if let Some(info) = self.epochs.lock().get(&current.hash()) {
                break Arc::clone(info);
            }
            passed.push(current.hash());
            if is_epoch_switch(self.consensus(), current)? {
                break Arc::new(EpochInfo::of_switch(self.consensus(), current)?);
            }
            // Rounds grow with every block, so an epoch has at most as many blocks as rounds.
            if u64::try_from(passed.len()).unwrap_or(u64::MAX) > self.consensus().epoch {
                return Err(V2Error::NoEpochSwitch(self.consensus().epoch));
            }
            ancestor = Some(stored_header(chain, current.parent_hash, current.number - 1)?);
        };
        let mut epochs = self.epochs.lock();
        for hash in passed {
            epochs.put(hash, Arc::clone(&info));
        }
        Ok(info)
    }

    /// Like [`V2Engine::epoch_info`], for queries outside verification: finds the epoch switch of a canonical block by
    /// bisection, in a dozen reads where the walk takes hundreds.
    ///
    /// # Errors
    /// Like [`V2Engine::epoch_info`].
    pub fn epoch_of(&self, header: &SealedHeader, chain: &dyn ChainReader) -> Result<Arc<EpochInfo>, V2Error> {
        match self.cached_epoch(header, chain)? {
            Some(info) => Ok(info),
            None => self.epoch_info(header, chain),
        }
    }

    /// [`V2Engine::epoch_of`] if it takes only a few reads; `None` if it would have to walk.
    ///
    /// # Errors
    /// [`V2Error::Extra`], [`V2Error::Store`].
    pub fn cached_epoch(
        &self,
        header: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<Option<Arc<EpochInfo>>, V2Error> {
        if let Some(info) = self.epochs.lock().get(&header.hash()) {
            return Ok(Some(Arc::clone(info)));
        }
        let Some(switch) = self.canonical_switch(header, chain)? else { return Ok(None) };
        let info = self.epoch_info(&switch, chain)?;
        self.epochs.lock().put(header.hash(), Arc::clone(&info));
        Ok(Some(info))
    }

    /// The epoch switch of a canonical v2 block; `None` for other blocks, and if the chain changes during the search.
    fn canonical_switch(
        &self,
        header: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<Option<Arc<SealedHeader>>, V2Error> {
        let consensus = self.consensus();
        if header.number <= consensus.switch_block || !is_canonical(chain, header)? {
            return Ok(None);
        }
        let start = epoch_start(consensus, round_of(consensus, header)?);
        let Some(first) = self.first_from_round(start, header, chain)? else { return Ok(None) };
        let is_found = is_epoch_switch(consensus, &first)? && is_canonical(chain, header)?;
        Ok(is_found.then_some(first))
    }

    /// The first canonical v2 block of this round or a later one, up to `last`, which is canonical; `None` if there is
    /// no such block, or if the chain changes during the search. Rounds grow with every block (3.2), so the block
    /// precedes `last` by at most as many blocks as rounds.
    ///
    /// # Errors
    /// [`V2Error::Extra`], [`V2Error::Store`].
    pub fn first_from_round(
        &self,
        round: u64,
        last: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<Option<Arc<SealedHeader>>, V2Error> {
        let consensus = self.consensus();
        let Some(distance) = round_of(consensus, last)?.checked_sub(round) else { return Ok(None) };
        let first_of_v2 = consensus.switch_block.saturating_add(1);
        let (mut low, mut high) = (last.number.saturating_sub(distance).max(first_of_v2), last.number);
        while low < high {
            let middle = low.midpoint(high);
            let Some(header) = canonical_header(chain, middle)? else { return Ok(None) };
            if round_of(consensus, &header)? >= round {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        canonical_header(chain, low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NativeEngine, recorded_chain::RecordedChain};

    /// Twelve epochs, with rounds without blocks, also at their boundaries.
    #[test]
    fn bisection_finds_the_same_epoch_as_the_walk() {
        let chain = RecordedChain::local();
        let walking = NativeEngine::for_headers_alone(&chain.spec).unwrap();
        for number in 1..=673 {
            // Each query uses an engine with an empty cache.
            let halving = NativeEngine::for_headers_alone(&chain.spec).unwrap();
            let found = halving.v2().epoch_of(chain.at(number), &*chain).unwrap();
            assert_eq!(found, walking.v2().epoch_info(chain.at(number), &*chain).unwrap(), "block {number}");
        }
    }

    #[test]
    fn the_first_block_from_a_round_on_is_found_where_rounds_were_missed() {
        let chain = RecordedChain::local();
        let engine = NativeEngine::for_headers_alone(&chain.spec).unwrap();
        let first = |round| {
            let found = engine.v2().first_from_round(round, chain.at(673), &*chain).unwrap();
            found.map(|header| header.number)
        };
        let rounds: Vec<u64> = (1..=673).map(|number| extra_of(chain.at(number)).unwrap().round).collect();

        for round in 0..=rounds[672] {
            let expected = rounds.iter().position(|found| *found >= round).map(|index| index as u64 + 1);
            assert_eq!(first(round), expected, "round {round}");
        }
        assert_eq!(first(rounds[672] + 1), None);
    }
}
