//! The addresses authorised to make v1 blocks (`docs/spec/consensus.md` 2.2): the candidates chosen at the last gap
//! block, changed by votes in headers. The real networks contain no votes, but they are possible.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
    sync::Arc,
};

use lru::LruCache;
use parking_lot::Mutex;
use tenon_api::{
    Address, B64, B256, ChainReader, Header, SealedHeader,
    messages::{HeaderTally, HeaderVote},
};
use tenon_native_spec::NativeSettings;

use super::V1Error;
use crate::{
    MasternodeSource, SignerCache,
    ancestry::{is_canonical, required},
    v1_masternodes, v1_seal_hash,
};

/// A vote to add the beneficiary.
pub(crate) const NONCE_ADD: B64 = B64::repeat_byte(0xff);
/// A vote to drop the beneficiary.
pub(crate) const NONCE_DROP: B64 = B64::ZERO;
/// Maximum number of masternodes before `tipIncreaseMasternodes` (1.4).
pub(crate) const MAX_EARLY_MASTERNODES: usize = 18;
/// Number of cached snapshots, as in the reference.
const SNAPSHOT_CACHE_SIZE: NonZeroUsize = NonZeroUsize::new(128).unwrap();

/// A vote that currently counts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Vote {
    voter: Address,
    /// Height of its block.
    block: u64,
    about: Address,
    is_to_add: bool,
}

/// The votes on one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tally {
    is_to_add: bool,
    votes: usize,
}

/// The addresses authorised to make the block after the snapshot's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    signers: BTreeSet<Address>,
    votes: Vec<Vote>,
    tally: BTreeMap<Address, Tally>,
}

impl Snapshot {
    /// A set without votes.
    fn new(signers: impl IntoIterator<Item = Address>) -> Self {
        Self { signers: signers.into_iter().collect(), votes: Vec::new(), tally: BTreeMap::new() }
    }

    /// The set, ascending.
    pub(crate) const fn signers(&self) -> &BTreeSet<Address> {
        &self.signers
    }

    /// The votes that count, oldest first.
    pub(crate) fn votes(&self) -> Vec<HeaderVote> {
        let public = |vote: &Vote| HeaderVote {
            voter: vote.voter,
            block: vote.block,
            about: vote.about,
            is_to_add: vote.is_to_add,
        };
        self.votes.iter().map(public).collect()
    }

    /// Their totals, ascending by address.
    pub(crate) fn tally(&self) -> Vec<HeaderTally> {
        let public = |(about, tally): (&Address, &Tally)| HeaderTally {
            about: *about,
            is_to_add: tally.is_to_add,
            votes: tally.votes as u64,
        };
        self.tally.iter().map(public).collect()
    }

    /// The snapshot after one more header. `creator` is called only if the header could change something.
    fn apply(
        &mut self,
        header: &Header,
        epoch: u64,
        creator: impl FnOnce() -> Result<Address, V1Error>,
    ) -> Result<(), V1Error> {
        if header.number.is_multiple_of(epoch) {
            self.votes.clear();
            self.tally.clear();
        }
        let is_to_add = match header.nonce {
            NONCE_ADD => true,
            NONCE_DROP => false,
            _ => return Err(V1Error::VoteNonce),
        };
        let about = header.beneficiary;
        if self.votes.is_empty() && !self.would_change(about, is_to_add) {
            return Ok(());
        }
        let voter = creator()?;
        self.withdraw(|vote| vote.voter == voter && vote.about == about);
        if self.would_change(about, is_to_add) {
            self.tally.entry(about).or_insert(Tally { is_to_add, votes: 0 }).votes += 1;
            self.votes.push(Vote { voter, block: header.number, about, is_to_add });
        }
        let Some(tally) = self.tally.get(&about).copied() else { return Ok(()) };
        if tally.votes > self.signers.len() / 2 {
            self.conclude(about, tally.is_to_add);
        }
        Ok(())
    }

    fn would_change(&self, about: Address, is_to_add: bool) -> bool {
        self.signers.contains(&about) != is_to_add
    }

    /// Applies a vote that has a majority.
    fn conclude(&mut self, about: Address, is_to_add: bool) {
        if is_to_add {
            self.signers.insert(about);
        } else {
            self.signers.remove(&about);
            self.withdraw(|vote| vote.voter == about);
        }
        self.votes.retain(|vote| vote.about != about);
        self.tally.remove(&about);
    }

    fn withdraw(&mut self, is_meant: impl Fn(&Vote) -> bool) {
        let tally = &mut self.tally;
        self.votes.retain(|vote| {
            if !is_meant(vote) {
                return true;
            }
            if let Some(count) = tally.get_mut(&vote.about).filter(|count| count.is_to_add == vote.is_to_add) {
                count.votes = count.votes.saturating_sub(1);
                if count.votes == 0 {
                    tally.remove(&vote.about);
                }
            }
            false
        });
    }
}

/// Computes snapshots and caches the latest, by block hash.
pub(crate) struct Snapshots {
    settings: Arc<NativeSettings>,
    signers: Arc<SignerCache>,
    source: Arc<dyn MasternodeSource>,
    /// Locked for a look-up or an insertion only, never while a header or state is read.
    cache: Mutex<LruCache<B256, Arc<Snapshot>>>,
}

impl Snapshots {
    pub(crate) fn new(
        settings: Arc<NativeSettings>,
        signers: Arc<SignerCache>,
        source: Arc<dyn MasternodeSource>,
    ) -> Self {
        Self { settings, signers, source, cache: Mutex::new(LruCache::new(SNAPSHOT_CACHE_SIZE)) }
    }

    /// The snapshot after `header`; `None` if the source of candidates has no state.
    ///
    /// Starts at the last gap block with an empty set of votes. Votes cast earlier in the same epoch would require the
    /// sets of all earlier epochs; leaving them out makes no difference as long as no votes are cast.
    pub(crate) fn after(
        &self,
        header: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<Option<Arc<Snapshot>>, V1Error> {
        let mut pending = Vec::new();
        let mut current = Arc::new(header.clone());
        let mut snapshot = loop {
            if let Some(found) = self.cache.lock().get(&current.hash()) {
                break Snapshot::clone(found);
            }
            if current.number == 0 {
                break Snapshot::new(v1_masternodes(&current.extra_data));
            }
            if is_gap_block(&self.settings, current.number) {
                match self.chosen_at(&current, chain)? {
                    Some(chosen) => break Snapshot::new(chosen),
                    None => return Ok(None),
                }
            }
            let parent = required(chain, current.parent_hash)?;
            pending.push(std::mem::replace(&mut current, parent));
        };
        for header in pending.iter().rev() {
            let creator = || Ok(self.signers.recover(v1_seal_hash(header), seal_of(header)?)?);
            snapshot.apply(header, self.settings.consensus.epoch, creator)?;
        }
        let snapshot = Arc::new(snapshot);
        self.cache.lock().put(header.hash(), Arc::clone(&snapshot));
        Ok(Some(snapshot))
    }

    /// The set chosen by the state after a gap block: its first candidates by stake.
    fn chosen_at(&self, gap: &SealedHeader, chain: &dyn ChainReader) -> Result<Option<Vec<Address>>, V1Error> {
        if !is_canonical(chain, gap)? && chain.state_of_branch(gap)?.is_none() {
            return Err(V1Error::NoParentState);
        }
        let Some(candidates) = self.source.candidates(gap, chain)? else { return Ok(None) };
        if candidates.is_empty() {
            return Err(V1Error::NoCandidates);
        }
        Ok(Some(candidates.iter().take(max_masternodes(&self.settings, gap.number)).copied().collect()))
    }
}

/// Returns whether candidates are chosen after this v1 block (2.2).
pub(crate) fn is_gap_block(settings: &NativeSettings, number: u64) -> bool {
    number > 0 && (number.saturating_add(settings.consensus.gap)).is_multiple_of(settings.consensus.epoch)
}

/// Maximum number of masternodes chosen at a gap block of this height.
fn max_masternodes(settings: &NativeSettings, number: u64) -> usize {
    if number >= settings.heights.tip_increase_masternodes {
        settings.late_v1_masternodes
    } else {
        MAX_EARLY_MASTERNODES
    }
}

/// The creator's signature: the last 65 bytes of the extra data.
pub(crate) fn seal_of(header: &Header) -> Result<&[u8], V1Error> {
    let extra = &header.extra_data;
    let start = extra.len().checked_sub(crate::extra::SEAL_BYTES).ok_or(V1Error::MissingSeal)?;
    Ok(&extra[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: u64 = 900;

    fn voter(number: u8) -> Address {
        Address::with_last_byte(number)
    }

    fn vote(snapshot: &mut Snapshot, number: u64, creator: u8, about: u8, nonce: B64) -> Result<(), V1Error> {
        let header = Header { number, nonce, beneficiary: voter(about), ..Header::default() };
        snapshot.apply(&header, EPOCH, || Ok(voter(creator)))
    }

    #[test]
    fn headers_without_votes_need_no_creator() {
        let mut snapshot = Snapshot::new([voter(1), voter(2)]);
        let before = snapshot.clone();

        for number in 1..2 * EPOCH {
            let header = Header { number, ..Header::default() };
            snapshot.apply(&header, EPOCH, || Err(V1Error::Unauthorized)).unwrap();
        }

        assert_eq!(snapshot, before);
    }

    #[test]
    fn a_majority_adds_and_drops() {
        let mut snapshot = Snapshot::new((1..=3).map(voter));

        vote(&mut snapshot, 1, 1, 4, NONCE_ADD).unwrap();
        vote(&mut snapshot, 2, 1, 4, NONCE_ADD).unwrap();
        assert!(!snapshot.signers().contains(&voter(4)), "one voter counts once");
        vote(&mut snapshot, 3, 2, 4, NONCE_ADD).unwrap();
        assert!(snapshot.signers().contains(&voter(4)));
        for creator in 1..=3 {
            vote(&mut snapshot, 4, creator, 4, NONCE_DROP).unwrap();
        }

        assert_eq!(snapshot, Snapshot::new((1..=3).map(voter)));
    }

    #[test]
    fn a_checkpoint_discards_votes_and_a_second_vote_replaces_the_first() {
        let mut snapshot = Snapshot::new((1..=3).map(voter));

        vote(&mut snapshot, 1, 1, 4, NONCE_ADD).unwrap();
        vote(&mut snapshot, 2, 1, 4, NONCE_DROP).unwrap();
        vote(&mut snapshot, 3, 2, 4, NONCE_ADD).unwrap();
        assert!(!snapshot.signers().contains(&voter(4)));
        vote(&mut snapshot, EPOCH, 3, 0, NONCE_DROP).unwrap();
        vote(&mut snapshot, EPOCH + 1, 3, 4, NONCE_ADD).unwrap();

        assert!(!snapshot.signers().contains(&voter(4)));
        assert_eq!(vote(&mut snapshot, 2, 1, 4, B64::with_last_byte(1)), Err(V1Error::VoteNonce));
    }

    #[test]
    fn a_dropped_signers_votes_are_discarded() {
        let mut snapshot = Snapshot::new((1..=3).map(voter));

        vote(&mut snapshot, 1, 3, 9, NONCE_ADD).unwrap();
        vote(&mut snapshot, 2, 1, 3, NONCE_DROP).unwrap();
        vote(&mut snapshot, 3, 2, 3, NONCE_DROP).unwrap();

        assert_eq!(snapshot, Snapshot::new([voter(1), voter(2)]));
    }
}
