//! The transactions of one sender.

use std::{collections::BTreeMap, ops::Range, time::Instant};

use tenon_api::{Account, RecoveredTransaction, U256};

use crate::entry::{BlockPrices, Entry};

/// An account as of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccountView {
    pub(crate) nonce: u64,
    pub(crate) balance: U256,
    /// Whether it has code, which for a sender means a delegation (EIP-7702).
    pub(crate) is_delegated: bool,
    /// Height of the block.
    pub(crate) as_of: u64,
}

impl AccountView {
    pub(crate) fn new(account: Option<&Account>, as_of: u64) -> Self {
        let account = account.copied().unwrap_or_default();
        Self { nonce: account.nonce, balance: account.spendable(), is_delegated: account.has_code(), as_of }
    }
}

/// A sender's transactions by nonce. The first `ready` of them, beginning with the account's own nonce, are pending:
/// unbroken, and paid for by the balance together. No entry is below the account's nonce.
#[derive(Debug)]
pub(crate) struct Sender {
    account: AccountView,
    entries: BTreeMap<u64, Entry>,
    ready: u64,
    /// Maximum cost of the pending ones together.
    ready_cost: U256,
}

impl Sender {
    pub(crate) const fn new(account: AccountView) -> Self {
        Self { account, entries: BTreeMap::new(), ready: 0, ready_cost: U256::ZERO }
    }

    pub(crate) const fn account(&self) -> &AccountView {
        &self.account
    }

    pub(crate) const fn ready(&self) -> u64 {
        self.ready
    }

    pub(crate) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(crate) fn get(&self, nonce: u64) -> Option<&Entry> {
        self.entries.get(&nonce)
    }

    /// Slots of transactions that are not local.
    pub(crate) fn remote_slots(&self) -> u64 {
        self.entries.values().filter(|entry| !entry.is_local).map(|entry| entry.slots).sum()
    }

    /// The nonce after the last pending one.
    pub(crate) const fn next_nonce(&self) -> u64 {
        // Entries have nonces below the maximum, so the sum does not saturate.
        self.account.nonce.saturating_add(self.ready)
    }

    pub(crate) fn pending(&self) -> impl Iterator<Item = &Entry> {
        self.entries.range(..self.next_nonce()).map(|(_, entry)| entry)
    }

    pub(crate) fn queued(&self) -> impl Iterator<Item = &Entry> {
        self.entries.range(self.next_nonce()..).map(|(_, entry)| entry)
    }

    /// Cost of the pending transactions other than the one with this nonce.
    pub(crate) fn pending_cost_without(&self, nonce: u64) -> U256 {
        let replaced = self.entries.get(&nonce).filter(|_| nonce < self.next_nonce());
        self.ready_cost.saturating_sub(replaced.map_or(U256::ZERO, |entry| entry.cost))
    }

    /// Inserts an entry and returns the one that it replaces. Appends the transactions that became pending.
    pub(crate) fn insert(&mut self, entry: Entry, became_pending: &mut Vec<RecoveredTransaction>) -> Option<Entry> {
        let nonce = entry.nonce();
        let is_pending = nonce < self.next_nonce();
        if is_pending {
            self.ready_cost = self.pending_cost_without(nonce).saturating_add(entry.cost);
            became_pending.push(entry.transaction.clone());
        }
        let replaced = self.entries.insert(nonce, entry);
        // Also after a replacement: it may move less value, so that the balance pays for more.
        self.extend(became_pending);
        replaced
    }

    /// Removes an entry. Those after it are queued until the gap closes.
    pub(crate) fn remove(&mut self, nonce: u64, now: Instant) -> Option<Entry> {
        let was_pending = self.account.nonce..self.next_nonce();
        let removed = self.entries.remove(&nonce)?;
        self.recount(was_pending, now);
        Some(removed)
    }

    /// Applies the account's state after a block. Returns the entries that are mined or can no longer be paid.
    pub(crate) fn set_account(
        &mut self,
        account: AccountView,
        now: Instant,
        became_pending: &mut Vec<RecoveredTransaction>,
    ) -> Vec<Entry> {
        let mut dropped = Vec::new();
        let was_pending = self.account.nonce..self.next_nonce();
        self.account = account;
        self.entries.retain(|nonce, entry| {
            let stays = *nonce >= account.nonce && entry.cost <= account.balance;
            if !stays {
                dropped.push(entry.clone());
            }
            stays
        });
        became_pending.extend(self.recount(was_pending, now));
        dropped
    }

    /// Applies new costs of sponsored entries. Returns those that can no longer be paid.
    pub(crate) fn update_sponsored_costs(
        &mut self,
        cost: &impl Fn(&Entry) -> U256,
        now: Instant,
        became_pending: &mut Vec<RecoveredTransaction>,
    ) -> Vec<Entry> {
        for entry in self.entries.values_mut().filter(|entry| entry.sponsor.is_some()) {
            entry.cost = cost(entry);
        }
        self.set_account(self.account, now, became_pending)
    }

    /// The entries from `start` up to `end`.
    pub(crate) fn between(&self, start: u64, end: u64) -> impl Iterator<Item = &Entry> {
        self.entries.range(start..end.max(start)).map(|(_, entry)| entry)
    }

    /// Recounts the pending run. Returns the entries that became pending.
    fn recount(&mut self, was_pending: Range<u64>, now: Instant) -> Vec<RecoveredTransaction> {
        let mut pending = Vec::new();
        self.ready = 0;
        self.ready_cost = U256::ZERO;
        self.extend(&mut pending);
        pending.retain(|recovered| !was_pending.contains(&recovered.transaction.nonce));
        self.restart_queue_time(was_pending, now);
        pending
    }

    fn restart_queue_time(&mut self, was_pending: Range<u64>, now: Instant) {
        let first_queued = self.next_nonce().max(was_pending.start);
        if first_queued < was_pending.end {
            for (_, entry) in self.entries.range_mut(first_queued..was_pending.end) {
                entry.queued_since = now;
                entry.unpayable_since = None;
            }
        }
    }

    /// Extends the pending run from its end.
    fn extend(&mut self, became_pending: &mut Vec<RecoveredTransaction>) {
        for (nonce, entry) in self.entries.range(self.next_nonce()..) {
            let cost = self.ready_cost.saturating_add(entry.cost);
            if *nonce != self.account.nonce.saturating_add(self.ready) || cost > self.account.balance {
                break;
            }
            self.ready += 1;
            self.ready_cost = cost;
            became_pending.push(entry.transaction.clone());
        }
    }

    /// Nonces of entries queued since before `limit`.
    pub(crate) fn queued_before(&self, limit: Instant) -> Vec<u64> {
        self.queued().filter(|entry| entry.queued_since < limit).map(Entry::nonce).collect()
    }

    /// Nonces of entries below this tip, highest first, except local ones and those of masternodes.
    pub(crate) fn cheaper_than(&self, tip: U256) -> Vec<u64> {
        let is_cheap = |entry: &&Entry| !entry.is_local && !entry.is_privileged && entry.tip_cap() < tip;
        self.entries.values().rev().filter(is_cheap).map(Entry::nonce).collect()
    }

    /// Marks the pending entries that the next block would not accept at these prices, and returns the nonces of those
    /// that were marked before `limit`, highest first. An entry that cannot pay blocks all later ones.
    pub(crate) fn unpayable(&mut self, prices: BlockPrices, now: Instant, limit: Option<Instant>) -> Vec<u64> {
        let (end, mut is_held_back, mut is_over) = (self.next_nonce(), false, false);
        let mut over = Vec::new();
        for (nonce, entry) in self.entries.range_mut(..end) {
            is_held_back |= !entry.pays(prices);
            if !is_held_back {
                entry.unpayable_since = None;
                continue;
            }
            let since = *entry.unpayable_since.get_or_insert(now);
            is_over |= limit.is_some_and(|limit| since < limit);
            if is_over {
                over.push(*nonce);
            }
        }
        over.reverse();
        over
    }

    /// Nonces of entries that need more gas than this.
    pub(crate) fn above_gas(&self, gas_limit: u64) -> Vec<u64> {
        let needs_more = |entry: &&Entry| entry.transaction.transaction.gas_limit > gas_limit;
        self.entries.values().filter(needs_more).map(Entry::nonce).collect()
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }
}
