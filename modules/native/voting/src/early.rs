//! Messages that arrived too early: for a block that is not stored yet, or for a later round. Peers need not send them
//! again (`docs/spec/p2p.md` 16.4), so they are stored and processed later. Votes and timeouts are stored with their
//! signers, so that no signer can push out the messages of others.

use std::collections::VecDeque;

use alloy_primitives::{Address, B256};
use tenon_native_consensus::{SyncInfo, Timeout, Vote};

/// Maximum number of stored votes, and of stored timeouts: several rounds of a network of 108 masternodes.
const MAX_KEPT: usize = 2048;
/// Maximum number of stored votes of one signer, and of its stored timeouts. An honest signer sends one of each per
/// round (and repeats its timeout), and a node that is more rounds behind usually synchronises.
const MAX_OF_SIGNER: usize = 12;
/// Maximum number of stored sync infos.
const MAX_SYNC_INFOS: usize = 16;
/// Maximum number of rounds ahead of the current one for which messages are stored.
pub(crate) const MAX_ROUNDS_AHEAD: u64 = 20;

/// Messages that arrived too early. A repeated message is stored once. When a queue is full, its oldest message is
/// removed; when a signer has reached its share, the signer's oldest message is removed.
#[derive(Debug, Default)]
pub(crate) struct EarlyMessages {
    votes: VecDeque<(Address, Vote)>,
    timeouts: VecDeque<(Address, Timeout)>,
    sync_infos: VecDeque<SyncInfo>,
}

impl EarlyMessages {
    pub(crate) fn store_vote(&mut self, signer: Address, vote: Vote) {
        push_of(&mut self.votes, signer, vote);
    }

    pub(crate) fn store_timeout(&mut self, signer: Address, timeout: Timeout) {
        push_of(&mut self.timeouts, signer, timeout);
    }

    pub(crate) fn store_sync_info(&mut self, info: SyncInfo) {
        push(&mut self.sync_infos, info, MAX_SYNC_INFOS);
    }

    /// The number of stored sync infos.
    #[cfg(test)]
    pub(crate) fn sync_info_count(&self) -> usize {
        self.sync_infos.len()
    }

    /// The signers of the stored votes, and those of the stored timeouts, from the oldest on.
    #[cfg(test)]
    pub(crate) fn signers(&self) -> (Vec<Address>, Vec<Address>) {
        let votes = self.votes.iter().map(|(signer, _)| *signer);
        (votes.collect(), self.timeouts.iter().map(|(signer, _)| *signer).collect())
    }

    /// Removes and returns the votes for a block that has arrived.
    pub(crate) fn votes_for(&mut self, block: B256) -> Vec<Vote> {
        take_of(&mut self.votes, |vote| vote.block.hash == block)
    }

    /// Removes and returns the votes that a node in this round can count. Votes of earlier rounds are dropped.
    pub(crate) fn votes_up_to(&mut self, round: u64) -> Vec<Vote> {
        self.votes.retain(|(_, vote)| vote.block.round >= round);
        take_of(&mut self.votes, |vote| vote.block.round <= round.saturating_add(1))
    }

    /// Removes and returns the timeouts of a round that has begun. Timeouts of earlier rounds are dropped.
    pub(crate) fn timeouts_of(&mut self, round: u64) -> Vec<Timeout> {
        self.timeouts.retain(|(_, timeout)| timeout.round >= round);
        take_of(&mut self.timeouts, |timeout| timeout.round == round)
    }

    /// Removes and returns the sync infos for a block that has arrived.
    pub(crate) fn sync_infos_for(&mut self, block: B256) -> Vec<SyncInfo> {
        take(&mut self.sync_infos, |info| info.quorum.block.hash == block)
    }
}

fn push<T>(queue: &mut VecDeque<T>, item: T, max: usize) {
    if queue.len() >= max {
        queue.pop_front();
    }
    queue.push_back(item);
}

fn push_of<T: PartialEq>(queue: &mut VecDeque<(Address, T)>, signer: Address, item: T) {
    let (mut oldest, mut count) = (None, 0);
    for (place, (from, kept)) in queue.iter().enumerate() {
        if *from != signer {
            continue;
        }
        if *kept == item {
            return;
        }
        oldest = oldest.or(Some(place));
        count += 1;
    }
    if let Some(oldest) = oldest.filter(|_| count >= MAX_OF_SIGNER) {
        queue.remove(oldest);
    }
    push(queue, (signer, item), MAX_KEPT);
}

fn take_of<T>(queue: &mut VecDeque<(Address, T)>, is_wanted: impl Fn(&T) -> bool) -> Vec<T> {
    take(queue, |(_, item)| is_wanted(item)).into_iter().map(|(_, item)| item).collect()
}

fn take<T>(queue: &mut VecDeque<T>, is_wanted: impl Fn(&T) -> bool) -> Vec<T> {
    let (taken, kept): (Vec<T>, Vec<T>) = std::mem::take(queue).into_iter().partition(|item| is_wanted(item));
    queue.extend(kept);
    taken
}

#[cfg(test)]
mod tests {
    use tenon_native_consensus::BlockInfo;

    use super::*;

    fn signer(number: u64) -> Address {
        Address::with_last_byte(number as u8)
    }

    fn vote(round: u64, block: u8) -> Vote {
        let block = BlockInfo { hash: B256::repeat_byte(block), round, number: round };
        Vote { block, ..Vote::default() }
    }

    #[test]
    fn messages_are_returned_once_when_their_block_or_round_has_arrived() {
        let mut early = EarlyMessages::default();
        for (round, block) in [(3, 1), (4, 2), (5, 3), (9, 4)] {
            early.store_vote(signer(1), vote(round, block));
        }
        assert_eq!(early.votes_for(B256::repeat_byte(2)), [vote(4, 2)]);
        assert_eq!(early.votes_up_to(4), [vote(5, 3)]);
        assert_eq!(early.votes, [(signer(1), vote(9, 4))], "the vote of round 3 is dropped");

        for (from, round) in [(1, 4), (1, 5), (2, 5), (1, 6)] {
            early.store_timeout(signer(from), Timeout { round, ..Timeout::default() });
        }
        assert_eq!(early.timeouts_of(5).len(), 2);
        assert_eq!(early.timeouts.len(), 1);
    }

    /// An honest node repeats its timeout until the round is over.
    #[test]
    fn a_repeated_message_is_kept_once() {
        let mut early = EarlyMessages::default();
        for round in 0..MAX_OF_SIGNER as u64 {
            for _ in 0..3 {
                early.store_timeout(signer(1), Timeout { round, ..Timeout::default() });
            }
        }
        assert_eq!(early.timeouts.len(), MAX_OF_SIGNER);
        assert_eq!(early.timeouts.front().unwrap().1.round, 0);
    }

    #[test]
    fn the_oldest_message_is_removed_when_the_queue_is_full() {
        let mut early = EarlyMessages::default();
        for round in 0..3_000 {
            early.store_vote(signer(round % 250), vote(round, 1));
        }
        assert_eq!(early.votes.len(), MAX_KEPT);
        assert_eq!(early.votes.back().unwrap().1.block.round, 2_999);
    }

    #[test]
    fn many_messages_of_a_signer_remove_only_its_own() {
        let mut early = EarlyMessages::default();
        early.store_vote(signer(1), vote(3, 1));
        for round in 0..3_000 {
            early.store_vote(signer(2), vote(round, 2));
        }

        assert_eq!(early.votes.len(), 1 + MAX_OF_SIGNER);
        assert_eq!(early.votes.front(), Some(&(signer(1), vote(3, 1))));
        assert_eq!(early.votes.back(), Some(&(signer(2), vote(2_999, 2))));
    }
}
