//! The voting contract modelled from its calls, without its code or storage (`docs/spec/chain.md` 10.1).

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, U256, address};
use tenon_api::Transaction;
use tenon_native_consensus::go_sort;

use crate::network::{MIN_CANDIDATE_COINS, MIN_VOTER_COINS, Network, coins};

/// The voting contract.
pub(crate) const VOTING: Address = address!("0000000000000000000000000000000000000088");
pub(crate) const UPLOAD_KYC: [u8; 4] = [0xf5, 0xc9, 0x51, 0x25];
pub(crate) const PROPOSE: [u8; 4] = [0x01, 0x26, 0x79, 0x51];
pub(crate) const VOTE: [u8; 4] = [0x6d, 0xd7, 0xd8, 0xea];
pub(crate) const UNVOTE: [u8; 4] = [0x02, 0xaa, 0x9b, 0xe2];
pub(crate) const RESIGN: [u8; 4] = [0xae, 0x6e, 0x43, 0xf5];

/// The contract's record of a current or former candidate.
#[derive(Clone, Debug, Default)]
struct Record {
    owner: Address,
    is_candidate: bool,
    /// By voter, wei.
    stakes: BTreeMap<Address, U256>,
}

/// Candidates, owners and stakes.
#[derive(Clone, Debug, Default)]
pub struct VotingTable {
    /// In order of proposal; resigned ones leave a hole.
    listed: Vec<Option<Address>>,
    records: BTreeMap<Address, Record>,
    /// Addresses that may propose.
    known: BTreeSet<Address>,
}

impl VotingTable {
    /// The table in the genesis.
    pub fn of_genesis(network: &Network) -> Self {
        let mut table = Self::default();
        for (candidate, owner, stake) in &network.first {
            table.listed.push(Some(*candidate));
            table.known.insert(*owner);
            let stakes = BTreeMap::from([(*owner, coins(*stake))]);
            table.records.insert(*candidate, Record { owner: *owner, is_candidate: true, stakes });
        }
        table
    }

    /// Applies a transaction that reached the contract; returns whether it could change anything.
    pub fn apply(&mut self, sender: Address, transaction: &Transaction) -> bool {
        let Some((selector, arguments)) = transaction.input.split_first_chunk::<4>() else { return false };
        let word = |index: usize| arguments.get(32 * index..32 * index + 32);
        let candidate = word(0).map_or(Address::ZERO, |word| Address::from_slice(&word[12..]));
        let value = transaction.value;
        match *selector {
            UPLOAD_KYC => self.known.insert(sender),
            PROPOSE => self.propose(sender, candidate, value),
            VOTE => self.vote(sender, candidate, value),
            UNVOTE => self.unvote(sender, candidate, word(1).map(U256::from_be_slice).unwrap_or_default()),
            RESIGN => self.resign(sender, candidate),
            _ => false,
        }
    }

    fn propose(&mut self, sender: Address, candidate: Address, value: U256) -> bool {
        let record = self.records.entry(candidate).or_default();
        if record.is_candidate || value < coins(MIN_CANDIDATE_COINS) || !self.known.contains(&sender) {
            return false;
        }
        (record.owner, record.is_candidate) = (sender, true);
        *record.stakes.entry(sender).or_default() += value;
        self.listed.push(Some(candidate));
        true
    }

    fn vote(&mut self, sender: Address, candidate: Address, value: U256) -> bool {
        match self.records.get_mut(&candidate) {
            Some(record) if record.is_candidate && value >= coins(MIN_VOTER_COINS) => {
                *record.stakes.entry(sender).or_default() += value;
                true
            }
            _ => false,
        }
    }

    /// An owner may not go below a candidate's minimum stake.
    fn unvote(&mut self, sender: Address, candidate: Address, value: U256) -> bool {
        let Some(record) = self.records.get_mut(&candidate) else { return false };
        let Some(left) = record.stakes.get(&sender).and_then(|stake| stake.checked_sub(value)) else { return false };
        if record.owner == sender && left < coins(MIN_CANDIDATE_COINS) {
            return false;
        }
        record.stakes.insert(sender, left);
        true
    }

    /// The owner's stake leaves with it; other stakes remain, and count again if the candidate is proposed again.
    fn resign(&mut self, sender: Address, candidate: Address) -> bool {
        let Some(record) = self.records.get_mut(&candidate) else { return false };
        if !record.is_candidate || record.owner != sender {
            return false;
        }
        record.is_candidate = false;
        record.stakes.remove(&sender);
        self.listed.iter_mut().filter(|listed| **listed == Some(candidate)).for_each(|listed| *listed = None);
        true
    }

    /// The owner of a masternode; zero if it never was a candidate.
    pub fn owner(&self, candidate: Address) -> Address {
        self.records.get(&candidate).map_or(Address::ZERO, |record| record.owner)
    }

    /// Whether it is a candidate now.
    pub fn is_candidate(&self, candidate: Address) -> bool {
        self.records.get(&candidate).is_some_and(|record| record.is_candidate)
    }

    /// Number of candidates.
    pub fn count(&self) -> usize {
        self.listed.iter().flatten().count()
    }

    /// Candidates with their stakes, in the contract's order.
    pub fn candidates(&self) -> Vec<(Address, U256)> {
        let stake = |candidate: &Address| self.records[candidate].stakes.values().sum();
        self.listed.iter().flatten().map(|candidate| (*candidate, stake(candidate))).collect()
    }

    /// Candidates by stake, highest first, equal ones in the order of the reference's sort (`docs/spec/consensus.md`
    /// Appendix A).
    pub fn ranked(&self) -> Vec<Address> {
        let mut candidates = self.candidates();
        go_sort::sort_by_stake_descending(&mut candidates, |(_, stake)| *stake);
        candidates.into_iter().map(|(candidate, _)| candidate).collect()
    }
}
