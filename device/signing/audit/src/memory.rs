//! The state that the log implies for later requests: windows, nonces, rounds.

use std::collections::{HashMap, VecDeque};

use alloy_primitives::{Address, B256, U256, U512};
use tenon_signing_policy::{History, Kind, Spent};

use crate::{Line, Step, nonces::Nonces};

/// Maximum number of entries in a rule's windows. Above it, neighbouring entries are merged.
const MAX_ENTRIES_OF_RULE: usize = 20_000;
/// Maximum number of entries in all rules' windows, some 70 MB. Above it, neighbouring entries of the rule with the
/// most are merged.
const MAX_ENTRIES: usize = 500_000;
/// Longest window that a policy can have, seconds.
const MAX_WINDOW: u64 = 366 * 86_400;

/// Number of rounds that a message may be ahead of the last one, regardless of time. Without this bound, a client could
/// end a validator's signing for good by requesting a round far ahead, because earlier rounds are then refused.
const MAX_ROUNDS_AHEAD: u64 = 1_000;
/// Additional rounds for each second since the last message. Public networks have one round in two seconds.
const MAX_ROUNDS_PER_SECOND: u64 = 2;

/// Why a guard refuses a signature regardless of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuardRefusal {
    /// The rule's transactions left too many gaps between nonces.
    #[error("too many nonces were skipped; first sign for a nonce next to a signed one")]
    Gaps,
    /// Another message was signed for the round.
    #[error("another message was signed for this round")]
    Round,
    /// A message was signed for a later round.
    #[error("a message was signed for a later round")]
    LaterRound,
    /// The round cannot have been reached yet.
    #[error("the round is further ahead than the time since the last signature allows")]
    RoundAhead,
}

/// The state after the entries so far.
#[derive(Debug, Default)]
pub struct Memory {
    windows: Windows,
    nonces: Nonces,
    /// Keyed by account and kind but not by chain, because the signed bytes of a consensus message do not include the
    /// chain: a message for another chain would be valid on this one.
    rounds: HashMap<(Address, Kind), SignedRound>,
    latest: u64,
    last_request: u64,
}

/// The last round for which a validator's key signed a message of a kind.
#[derive(Clone, Copy, Debug)]
struct SignedRound {
    round: u64,
    hash: B256,
    /// Seconds since 1970.
    time: u64,
}

impl SignedRound {
    /// The highest round that can have been reached by `now`.
    fn highest_by(&self, now: u64) -> u64 {
        let passed = now.saturating_sub(self.time).saturating_mul(MAX_ROUNDS_PER_SECOND);
        self.round.saturating_add(MAX_ROUNDS_AHEAD).saturating_add(passed)
    }
}

/// The requests that all rules allowed.
#[derive(Debug)]
struct Windows {
    by_rule: HashMap<String, Window>,
    /// The number of entries of all rules.
    entries: usize,
    /// Maximum number of entries of a rule, and of all rules.
    bounds: (usize, usize),
}

impl Default for Windows {
    fn default() -> Self {
        Self { by_rule: HashMap::new(), entries: 0, bounds: (MAX_ENTRIES_OF_RULE, MAX_ENTRIES) }
    }
}

impl Windows {
    fn add(&mut self, rule: &str, time: u64, value: U256, fee: U256) {
        let window = match self.by_rule.get_mut(rule) {
            Some(window) => window,
            None => self.by_rule.entry(rule.to_owned()).or_default(),
        };
        let before = window.entries.len();
        window.add(time, value, fee);
        window.forget(time);
        let (of_rule, of_all) = self.bounds;
        if window.entries.len() > of_rule {
            window.merge_neighbours();
        }
        self.entries = (self.entries + window.entries.len()).saturating_sub(before);
        if self.entries > of_all
            && let Some(largest) = self.by_rule.values_mut().max_by_key(|window| window.entries.len())
        {
            self.entries -= largest.merge_neighbours();
        }
    }

    fn spent(&self, rule: &str, after: u64) -> Spent {
        self.by_rule.get(rule).map(|window| window.spent(after)).unwrap_or_default()
    }
}

/// The requests that a rule allowed, oldest first.
#[derive(Debug, Default)]
struct Window {
    entries: VecDeque<Entry>,
    /// Sums of everything before the first of `entries`.
    before: Sums,
}

/// One signature that a rule allowed, or several merged ones. Holds running sums, so that the sum over a window is a
/// difference and its cost does not grow with the window.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Time of the last signature in it, seconds since 1970.
    time: u64,
    /// Sums up to and including this entry.
    until: Sums,
}

/// Sums of values and fees in wei, and the number of signatures. 512 bits can hold the sum of 2^256 amounts of 256
/// bits.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    value: U512,
    fee: U512,
    requests: u64,
}

impl Window {
    /// The sums of all entries.
    fn total(&self) -> Sums {
        self.entries.back().map_or(self.before, |last| last.until)
    }

    fn add(&mut self, time: u64, value: U256, fee: U256) {
        let total = self.total();
        let until = Sums {
            value: total.value + U512::from(value),
            fee: total.fee + U512::from(fee),
            requests: total.requests + 1,
        };
        self.entries.push_back(Entry { time, until });
    }

    /// Drops entries older than the longest window.
    fn forget(&mut self, now: u64) {
        while let Some(first) = self.entries.pop_front_if(|first| first.time.saturating_add(MAX_WINDOW) < now) {
            self.before = first.until;
        }
    }

    /// Merges each pair of neighbours into one entry at the later time, so that nothing leaves a window too early.
    /// Returns the number of entries removed.
    fn merge_neighbours(&mut self) -> usize {
        let (before, mut at) = (self.entries.len(), 0);
        // If the number is odd, the newest entry stays unmerged.
        self.entries.retain(|_| {
            at += 1;
            at % 2 == 0 || at == before
        });
        before - self.entries.len()
    }

    /// Sums of what was allowed after `after`.
    fn spent(&self, after: u64) -> Spent {
        let first = self.entries.partition_point(|entry| entry.time <= after);
        let before =
            first.checked_sub(1).and_then(|last| self.entries.get(last)).map_or(self.before, |entry| entry.until);
        let total = self.total();
        Spent {
            value: difference(total.value, before.value),
            fee: difference(total.fee, before.fee),
            requests: total.requests - before.requests,
        }
    }
}

/// Difference of running sums, saturating at 2^256 - 1.
fn difference(until: U512, before: U512) -> U256 {
    until.saturating_sub(before).saturating_to()
}

impl Memory {
    /// Updates the state with a line of the log.
    pub fn take(&mut self, line: &Line) {
        self.latest = self.latest.max(line.time);
        match &line.entry {
            Step::Asked { request, .. } => self.last_request = self.last_request.max(*request),
            Step::SignedTransaction { rule, account, chain_id, nonce, value, fee, hash, .. } => {
                // A chain executes a transaction only once, however often it is signed again.
                let is_again = self.signed_for_nonce(*chain_id, *account, *nonce) == Some(*hash);
                let (value, fee) = if is_again { (U256::ZERO, U256::ZERO) } else { (*value, *fee) };
                self.windows.add(rule, line.time, value, fee);
                self.nonces.add(rule, (*chain_id, *account), *nonce, *hash);
            }
            Step::Signed { rule, .. } => self.windows.add(rule, line.time, U256::ZERO, U256::ZERO),
            Step::SignedForConsensus { rule, account, kind, round, hash, .. } => {
                self.windows.add(rule, line.time, U256::ZERO, U256::ZERO);
                self.rounds.insert((*account, *kind), SignedRound { round: *round, hash: *hash, time: line.time });
            }
            _ => {}
        }
    }

    /// The highest request number so far.
    pub const fn last_request(&self) -> u64 {
        self.last_request
    }

    /// Checks that there is room to remember the nonce of a rule's transaction.
    ///
    /// # Errors
    /// [`GuardRefusal::Gaps`].
    pub fn check_gaps(&self, rule: &str, (chain_id, account, nonce): (u64, Address, u64)) -> Result<(), GuardRefusal> {
        let has_room = self.nonces.has_room(rule, (chain_id, account), nonce);
        has_room.then_some(()).ok_or(GuardRefusal::Gaps)
    }

    /// Checks whether a consensus message may be signed. Refused are an earlier round than the last signed one, a
    /// different message for the same round, and a round that cannot have been reached at `now` (seconds since 1970).
    ///
    /// # Errors
    /// [`GuardRefusal::Round`], [`GuardRefusal::LaterRound`], [`GuardRefusal::RoundAhead`].
    pub fn check_round(&self, of: (Address, Kind), round: u64, hash: B256, now: u64) -> Result<(), GuardRefusal> {
        match self.rounds.get(&of) {
            Some(last) if last.round > round => Err(GuardRefusal::LaterRound),
            Some(last) if last.round == round && last.hash != hash => Err(GuardRefusal::Round),
            Some(last) if round > last.highest_by(now) => Err(GuardRefusal::RoundAhead),
            _ => Ok(()),
        }
    }
}

impl History for Memory {
    fn spent(&self, rule: &str, after: u64) -> Spent {
        self.windows.spent(rule, after)
    }

    fn latest(&self) -> u64 {
        self.latest
    }

    fn signed_for_nonce(&self, chain_id: u64, account: Address, nonce: u64) -> Option<B256> {
        self.nonces.signed((chain_id, account), nonce)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn amount() -> impl Strategy<Value = U256> {
        prop_oneof![any::<u64>().prop_map(U256::from), Just(U256::MAX), Just(U256::MAX >> 1)]
    }

    proptest! {
        #[test]
        fn a_window_is_the_sum_of_its_entries(
            entries in prop::collection::vec((0_u64..20, amount(), amount()), 0..60),
            after in 0_u64..500,
        ) {
            let (mut window, mut all, mut time) = (Window::default(), Vec::new(), 0);
            for (wait, value, fee) in entries {
                time += wait;
                window.add(time, value, fee);
                all.push((time, value, fee));
            }

            let spent = window.spent(after);

            let within = all.iter().filter(|(time, ..)| *time > after);
            let sum = |amounts: Vec<U256>| amounts.into_iter().fold(U256::ZERO, U256::saturating_add);
            prop_assert_eq!(spent.value, sum(within.clone().map(|(_, value, _)| *value).collect()));
            prop_assert_eq!(spent.fee, sum(within.clone().map(|(_, _, fee)| *fee).collect()));
            prop_assert_eq!(spent.requests, within.count() as u64);
        }

        #[test]
        fn windows_in_bounded_memory_leave_nothing_out(
            given in prop::collection::vec((0..4_usize, 0_u64..20, 0_u64..1000), 0..300),
            after in 0_u64..2000,
        ) {
            let rules = ["a", "b", "c", "d"];
            let mut windows = Windows { bounds: (16, 40), ..Windows::default() };
            let (mut all, mut time) = (Vec::new(), 0);
            for (rule, wait, value) in given {
                time += wait;
                windows.add(rules[rule], time, U256::from(value), U256::ZERO);
                all.push((rule, time, value));

                let sizes = windows.by_rule.values().map(|window| window.entries.len());
                prop_assert_eq!(windows.entries, sizes.clone().sum::<usize>());
                prop_assert!(windows.entries <= 40 && sizes.max().unwrap_or_default() <= 16);
            }
            for (rule, name) in rules.iter().enumerate() {
                let spent = windows.spent(name, after);
                let of_rule = all.iter().filter(|each| each.0 == rule);
                let within: Vec<_> = of_rule.clone().filter(|each| each.1 > after).collect();
                prop_assert!(spent.requests >= within.len() as u64);
                prop_assert!(spent.value >= U256::from(within.iter().map(|each| each.2).sum::<u64>()));
                prop_assert!(spent.requests <= of_rule.count() as u64);
                prop_assert_eq!(windows.spent(name, time).requests, 0, "merged entries leave a window, too");
            }
        }
    }

    #[test]
    fn entries_older_than_the_longest_window_are_dropped() {
        let mut windows = Windows::default();
        windows.add("rule", 10, U256::from(3), U256::ZERO);
        windows.add("rule", 11 + MAX_WINDOW, U256::from(4), U256::ZERO);

        assert_eq!(windows.entries, 1);
        assert_eq!(windows.spent("rule", 0).value, U256::from(4));
    }
}
