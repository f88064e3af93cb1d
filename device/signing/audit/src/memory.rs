//! What the log means for later requests: windows, nonces, rounds.

use std::collections::{HashMap, VecDeque};

use alloy_primitives::{Address, B256, U256, U512};
use tenon_signing_policy::{History, Kind, Spent};

use crate::{Line, Step, nonces::Nonces};

/// Entries of a rule's windows. A rule that let more through within its window counts the oldest of them for ever.
const MAX_WINDOW_ENTRIES: usize = 100_000;
/// Longest window of a policy, seconds.
const MAX_WINDOW: u64 = 366 * 86_400;

/// Rounds that a message may be ahead of the last one, whatever the time. A client that asks for a round far ahead would otherwise end
/// a validator's signing for good: earlier rounds are refused.
const MAX_ROUNDS_AHEAD: u64 = 1_000;
/// Rounds more for each second since the last one. Public networks have one in two seconds.
const MAX_ROUNDS_PER_SECOND: u64 = 2;

/// Why a guard refuses a signature, whatever the policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuardRefusal {
    /// The rule's transactions left too many gaps between nonces.
    #[error("too many nonces between those that were signed are left out; sign for one next to them first")]
    Gaps,
    /// Another message was signed for the round.
    #[error("another message was signed for this round")]
    Round,
    /// A message was signed for a later round.
    #[error("a message was signed for a later round")]
    LaterRound,
    /// The round cannot have come yet.
    #[error("the round is further ahead than the time since the last signature allows")]
    RoundAhead,
}

/// What the entries so far mean.
#[derive(Debug, Default)]
pub struct Memory {
    windows: HashMap<String, Window>,
    nonces: Nonces,
    /// By account and kind, and not by chain: what is signed for a round names none.
    rounds: HashMap<(Address, Kind), SignedRound>,
    latest: u64,
    last_request: u64,
}

/// The last round that a validator's key signed a message of a kind for.
#[derive(Clone, Copy, Debug)]
struct SignedRound {
    round: u64,
    hash: B256,
    /// Seconds since 1970.
    time: u64,
}

impl SignedRound {
    /// The highest round that can have come by `now`.
    fn highest_by(&self, now: u64) -> u64 {
        let passed = now.saturating_sub(self.time).saturating_mul(MAX_ROUNDS_PER_SECOND);
        self.round.saturating_add(MAX_ROUNDS_AHEAD).saturating_add(passed)
    }
}

/// What a rule let through, oldest first.
#[derive(Debug, Default)]
struct Window {
    entries: VecDeque<Entry>,
    /// Sums of everything before the first of `entries`.
    before: Sums,
    /// Sums of entries that were dropped within the longest window.
    dropped: Spent,
}

/// A signature that a rule let through. It carries running sums, so that the sum of a window is a difference and its cost does not
/// grow with the window.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Seconds since 1970.
    time: u64,
    /// Sums up to and with this entry.
    until: Sums,
}

/// Sums of values and fees in wei. 512 bits hold 2^256 amounts of 256 bits.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    value: U512,
    fee: U512,
}

impl Window {
    /// The sums of all entries.
    fn total(&self) -> Sums {
        self.entries.back().map_or(self.before, |last| last.until)
    }

    fn add(&mut self, time: u64, value: U256, fee: U256) {
        let total = self.total();
        let until = Sums { value: total.value + U512::from(value), fee: total.fee + U512::from(fee) };
        self.entries.push_back(Entry { time, until });
    }

    /// Takes the oldest entry out, and returns its value and fee.
    fn remove_oldest(&mut self) -> Option<(U256, U256)> {
        let Entry { until, .. } = self.entries.pop_front()?;
        let before = std::mem::replace(&mut self.before, until);
        Some((difference(until.value, before.value), difference(until.fee, before.fee)))
    }

    /// What was let through after a time, and what was dropped.
    fn spent(&self, after: u64) -> Spent {
        let first = self.entries.partition_point(|entry| entry.time <= after);
        let before =
            first.checked_sub(1).and_then(|last| self.entries.get(last)).map_or(self.before, |entry| entry.until);
        let total = self.total();
        Spent {
            value: self.dropped.value.saturating_add(difference(total.value, before.value)),
            fee: self.dropped.fee.saturating_add(difference(total.fee, before.fee)),
            requests: self.dropped.requests + (self.entries.len() - first) as u64,
        }
    }
}

/// A difference of running sums, at most 2^256 - 1.
fn difference(until: U512, before: U512) -> U256 {
    until.saturating_sub(before).saturating_to()
}

impl Memory {
    /// Takes in a line of the log.
    pub fn take(&mut self, line: &Line) {
        self.latest = self.latest.max(line.time);
        match &line.entry {
            Step::Asked { request, .. } => self.last_request = self.last_request.max(*request),
            Step::SignedTransaction { rule, account, chain_id, nonce, value, fee, hash, .. } => {
                // A chain takes a transaction once, however often its signature was asked for.
                let is_again = self.signed_for_nonce(*chain_id, *account, *nonce) == Some(*hash);
                let (value, fee) = if is_again { (U256::ZERO, U256::ZERO) } else { (*value, *fee) };
                self.count(rule, line.time, value, fee);
                self.nonces.add(rule, (*chain_id, *account), *nonce, *hash);
            }
            Step::Signed { rule, .. } => self.count(rule, line.time, U256::ZERO, U256::ZERO),
            Step::SignedForConsensus { rule, account, kind, round, hash, .. } => {
                self.count(rule, line.time, U256::ZERO, U256::ZERO);
                self.rounds.insert((*account, *kind), SignedRound { round: *round, hash: *hash, time: line.time });
            }
            _ => {}
        }
    }

    /// The highest number of a request.
    pub const fn last_request(&self) -> u64 {
        self.last_request
    }

    /// Whether the nonce of a rule's transaction can be remembered.
    ///
    /// # Errors
    /// [`GuardRefusal::Gaps`].
    pub fn check_gaps(&self, rule: &str, (chain_id, account, nonce): (u64, Address, u64)) -> Result<(), GuardRefusal> {
        let has_room = self.nonces.has_room(rule, (chain_id, account), nonce);
        has_room.then_some(()).ok_or(GuardRefusal::Gaps)
    }

    /// Whether a consensus message may be signed: never for an earlier round than before, never another one for the same round, and
    /// for no round that cannot have come by `now` (seconds since 1970).
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

    fn count(&mut self, rule: &str, time: u64, value: U256, fee: U256) {
        let window = match self.windows.get_mut(rule) {
            Some(window) => window,
            None => self.windows.entry(rule.to_owned()).or_default(),
        };
        window.add(time, value, fee);
        while window.entries.front().is_some_and(|first| first.time.saturating_add(MAX_WINDOW) < time) {
            window.remove_oldest();
        }
        if window.entries.len() > MAX_WINDOW_ENTRIES
            && let Some((value, fee)) = window.remove_oldest()
        {
            let dropped = &mut window.dropped;
            dropped.value = dropped.value.saturating_add(value);
            dropped.fee = dropped.fee.saturating_add(fee);
            dropped.requests += 1;
        }
    }
}

impl History for Memory {
    fn spent(&self, rule: &str, after: u64) -> Spent {
        self.windows.get(rule).map(|window| window.spent(after)).unwrap_or_default()
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
            removed in 0_usize..60,
            after in 0_u64..500,
        ) {
            let (mut window, mut all, mut time) = (Window::default(), Vec::new(), 0);
            for (wait, value, fee) in entries {
                time += wait;
                window.add(time, value, fee);
                all.push((time, value, fee));
            }
            let kept = all.split_off(removed.min(all.len()));
            for (_, value, fee) in all {
                prop_assert_eq!(window.remove_oldest(), Some((value, fee)));
            }

            let spent = window.spent(after);

            let within = kept.iter().filter(|(time, ..)| *time > after);
            let sum = |amounts: Vec<U256>| amounts.into_iter().fold(U256::ZERO, U256::saturating_add);
            prop_assert_eq!(spent.value, sum(within.clone().map(|(_, value, _)| *value).collect()));
            prop_assert_eq!(spent.fee, sum(within.clone().map(|(_, _, fee)| *fee).collect()));
            prop_assert_eq!(spent.requests, within.count() as u64);
        }
    }
}
