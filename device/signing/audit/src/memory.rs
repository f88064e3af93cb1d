//! What the log means for later requests: windows, nonces, rounds.

use std::collections::{HashMap, VecDeque};

use alloy_primitives::{Address, B256, U256};
use tenon_signing_policy::{History, Kind, Spent};

use crate::{Line, Step, nonces::Nonces};

/// Entries of a rule's windows. A rule that let more through within its window counts the oldest of them for ever.
const REMEMBERED_IN_WINDOWS: usize = 100_000;
/// Longest window of a policy, seconds.
const MAX_WINDOW: u64 = 366 * 86_400;

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
}

/// What the entries so far mean.
#[derive(Debug, Default)]
pub struct Memory {
    windows: HashMap<String, Window>,
    nonces: Nonces,
    rounds: HashMap<(u64, Address, Kind), (u64, B256)>,
    latest: u64,
    last_request: u64,
}

/// What a rule let through: time, value, fee, oldest first.
#[derive(Debug, Default)]
struct Window {
    entries: VecDeque<(u64, U256, U256)>,
    /// Sums of entries that were dropped within the longest window.
    dropped: Spent,
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
            Step::SignedForConsensus { rule, account, chain_id, kind, round, hash, .. } => {
                self.count(rule, line.time, U256::ZERO, U256::ZERO);
                self.rounds.insert((*chain_id, *account, *kind), (*round, *hash));
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

    /// Whether a consensus message may be signed: never for an earlier round than before, and never another one for the
    /// same round.
    ///
    /// # Errors
    /// [`GuardRefusal::Round`], [`GuardRefusal::LaterRound`].
    pub fn check_round(
        &self,
        (chain_id, account, kind): (u64, Address, Kind),
        round: u64,
        hash: B256,
    ) -> Result<(), GuardRefusal> {
        match self.rounds.get(&(chain_id, account, kind)) {
            Some((signed, _)) if *signed > round => Err(GuardRefusal::LaterRound),
            Some((signed, other)) if *signed == round && *other != hash => Err(GuardRefusal::Round),
            _ => Ok(()),
        }
    }

    fn count(&mut self, rule: &str, time: u64, value: U256, fee: U256) {
        let window = match self.windows.get_mut(rule) {
            Some(window) => window,
            None => self.windows.entry(rule.to_owned()).or_default(),
        };
        window.entries.push_back((time, value, fee));
        while window.entries.front().is_some_and(|(first, ..)| first.saturating_add(MAX_WINDOW) < time) {
            window.entries.pop_front();
        }
        if window.entries.len() > REMEMBERED_IN_WINDOWS
            && let Some((_, value, fee)) = window.entries.pop_front()
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
        let Some(window) = self.windows.get(rule) else { return Spent::default() };
        let first = window.entries.partition_point(|(time, ..)| *time <= after);
        let mut sum = window.dropped;
        for (_, value, fee) in window.entries.range(first..) {
            sum.value = sum.value.saturating_add(*value);
            sum.fee = sum.fee.saturating_add(*fee);
            sum.requests += 1;
        }
        sum
    }

    fn latest(&self) -> u64 {
        self.latest
    }

    fn signed_for_nonce(&self, chain_id: u64, account: Address, nonce: u64) -> Option<B256> {
        self.nonces.signed((chain_id, account), nonce)
    }
}
