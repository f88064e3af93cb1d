//! Remembers the used nonces of the accounts in bounded memory, which no client can exhaust.
//!
//! Consecutive nonces form one run, so an account that signs in order needs a single run however long it lives. A nonce
//! beyond a gap begins another run. The number of runs is bounded per rule and in total. A rule that has used up its
//! runs can only extend existing runs of its account; it cannot block nonces for other rules.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use alloy_primitives::{Address, B256};

/// Maximum number of runs begun by signatures of one rule.
const MAX_RUNS_OF_RULE: usize = 10_000;
/// Maximum number of runs of all accounts together.
const MAX_RUNS: usize = 1_000_000;
/// Number of transaction hashes to remember: the latest ones of all accounts together.
const MAX_HASHES: usize = 500_000;

/// A chain id and an account.
type Key = (u64, Address);

/// The used nonces of all accounts.
#[derive(Debug, Default)]
pub(crate) struct Nonces {
    accounts: HashMap<Key, Account>,
    /// Number of runs, by the rule whose signature began them.
    by_rule: HashMap<Arc<str>, usize>,
    runs: usize,
    /// The transactions whose hashes are remembered, oldest first.
    remembered: VecDeque<(Key, u64, B256)>,
    /// Maximum numbers of runs per rule, of all runs, and of hashes.
    bounds: Bounds,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    runs_of_rule: usize,
    runs: usize,
    hashes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { runs_of_rule: MAX_RUNS_OF_RULE, runs: MAX_RUNS, hashes: MAX_HASHES }
    }
}

#[derive(Debug, Default)]
struct Account {
    /// Runs of used nonces, by their first nonce.
    runs: BTreeMap<u64, Run>,
    hashes: HashMap<u64, B256>,
}

#[derive(Debug)]
struct Run {
    last: u64,
    /// The rule that began it.
    rule: Arc<str>,
}

impl Nonces {
    /// Hash of the transaction that was signed for a nonce. It is the zero hash, which no transaction has, if the nonce
    /// is used but the hash is no longer remembered.
    pub(crate) fn signed(&self, key: Key, nonce: u64) -> Option<B256> {
        let account = self.accounts.get(&key)?;
        account.is_used(nonce).then(|| account.hashes.get(&nonce).copied().unwrap_or_default())
    }

    /// Whether a signature of the rule for this nonce can be remembered.
    pub(crate) fn has_room(&self, rule: &str, key: Key, nonce: u64) -> bool {
        let is_at_run = self.accounts.get(&key).is_some_and(|account| account.is_at_run(nonce));
        let of_rule = self.by_rule.get(rule).copied().unwrap_or_default();
        is_at_run || (of_rule < self.bounds.runs_of_rule && self.runs < self.bounds.runs)
    }

    /// Remembers a signature.
    pub(crate) fn add(&mut self, rule: &str, key: Key, nonce: u64, hash: B256) {
        let account = self.accounts.entry(key).or_default();
        if !account.is_used(nonce) {
            let Change { begun, merged } = account.use_nonce(nonce, rule);
            if begun {
                *self.by_rule.entry(rule.into()).or_default() += 1;
                self.runs += 1;
            }
            if let Some(owner) = merged {
                self.runs -= 1;
                if let Some(count) = self.by_rule.get_mut(&owner) {
                    *count -= 1;
                }
            }
        }
        if account.hashes.insert(nonce, hash) != Some(hash) {
            self.remembered.push_back((key, nonce, hash));
        }
        if self.remembered.len() > self.bounds.hashes
            && let Some((key, nonce, hash)) = self.remembered.pop_front()
            && let Some(account) = self.accounts.get_mut(&key)
            && account.hashes.get(&nonce) == Some(&hash)
        {
            account.hashes.remove(&nonce);
        }
    }
}

/// Effect of a nonce on the runs of an account.
struct Change {
    begun: bool,
    /// The rule that began the upper run, if two runs were joined.
    merged: Option<Arc<str>>,
}

impl Account {
    fn is_used(&self, nonce: u64) -> bool {
        self.runs.range(..=nonce).next_back().is_some_and(|(_, run)| nonce <= run.last)
    }

    /// Whether the nonce is used or adjacent to a used one.
    fn is_at_run(&self, nonce: u64) -> bool {
        self.is_used(nonce)
            || nonce.checked_sub(1).is_some_and(|below| self.is_used(below))
            || nonce.checked_add(1).is_some_and(|above| self.is_used(above))
    }

    /// Adds an unused nonce to an adjacent run, or begins a new one.
    fn use_nonce(&mut self, nonce: u64, rule: &str) -> Change {
        let above = nonce.checked_add(1).and_then(|first| self.runs.remove(&first));
        let below = self.runs.range_mut(..nonce).next_back().filter(|(_, run)| run.last.checked_add(1) == Some(nonce));
        match (below, above) {
            (Some((_, below)), Some(above)) => {
                below.last = above.last;
                Change { begun: false, merged: Some(above.rule) }
            }
            (Some((_, below)), None) => {
                below.last = nonce;
                Change { begun: false, merged: None }
            }
            (None, Some(above)) => {
                self.runs.insert(nonce, above);
                Change { begun: false, merged: None }
            }
            (None, None) => {
                self.runs.insert(nonce, Run { last: nonce, rule: rule.into() });
                Change { begun: true, merged: None }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use alloy_primitives::keccak256;
    use proptest::prelude::*;

    use super::*;

    const KEY: Key = (50, Address::repeat_byte(0xaa));
    const SMALL: Bounds = Bounds { runs_of_rule: 3, runs: 5, hashes: 4 };

    fn hash(nonce: u64) -> B256 {
        keccak256(nonce.to_be_bytes())
    }

    #[test]
    fn a_rule_that_leaves_gaps_closes_no_nonce_for_others() {
        let mut nonces = Nonces { bounds: SMALL, ..Nonces::default() };
        for nonce in [u64::MAX, 1_000, 2_000] {
            assert!(nonces.has_room("far", KEY, nonce));
            nonces.add("far", KEY, nonce, hash(nonce));
        }

        assert!(!nonces.has_room("far", KEY, 3_000), "its runs are used up");
        assert!(!nonces.has_room("far", (51, KEY.1), 0), "on another chain too");
        assert!(nonces.has_room("far", KEY, 1_001) && nonces.has_room("far", KEY, 999), "next to a run");
        assert!(nonces.has_room("far", KEY, u64::MAX - 1));
        assert_eq!(nonces.signed(KEY, 0), None);
        assert!(nonces.has_room("near", KEY, 0), "another rule has its own runs");
        nonces.add("near", KEY, 0, hash(0));
        nonces.add("near", KEY, 5, hash(5));
        assert!(!nonces.has_room("near", KEY, 7), "the runs of all are used up");
        for nonce in 1..5 {
            assert!(nonces.has_room("near", KEY, nonce));
            nonces.add("near", KEY, nonce, hash(nonce));
        }
        assert!(nonces.has_room("near", KEY, 7), "filling a gap gives a run back");
    }

    #[test]
    fn a_hash_that_is_not_remembered_counts_as_another_one() {
        let mut nonces = Nonces { bounds: SMALL, ..Nonces::default() };
        (0..6).for_each(|nonce| nonces.add("rule", KEY, nonce, hash(nonce)));

        assert_eq!(nonces.signed(KEY, 1), Some(B256::ZERO));
        assert_eq!(nonces.signed(KEY, 2), Some(hash(2)));
        assert_eq!(nonces.signed(KEY, 6), None);
    }

    proptest! {
        #[test]
        fn runs_contain_the_same_numbers_as_a_set(given in proptest::collection::vec((0..3_usize, prop_oneof![0..40_u64, u64::MAX - 3..=u64::MAX]), 0..120)) {
            let rules = ["a", "b", "c"];
            let (mut nonces, mut used) = (Nonces::default(), BTreeSet::new());
            for (rule, nonce) in given {
                nonces.add(rules[rule], KEY, nonce, hash(nonce));
                used.insert(nonce);
            }
            let is_used = |nonce: u64| nonces.signed(KEY, nonce) == Some(hash(nonce));
            prop_assert!((0..45).chain(u64::MAX - 5..=u64::MAX).all(|nonce| is_used(nonce) == used.contains(&nonce)));
            let runs = used.iter().filter(|nonce| nonce.checked_sub(1).is_none_or(|below| !used.contains(&below))).count();
            prop_assert_eq!(nonces.runs, runs);
            prop_assert_eq!(nonces.by_rule.values().sum::<usize>(), runs);
        }
    }
}
