//! All waiting transactions and their indices. Reads no chain, clock or file.

use std::{
    collections::{BTreeSet, HashMap, hash_map},
    time::{Duration, Instant},
};

use tenon_api::{
    Address, B256, BlockCommit, RecoveredTransaction, U256,
    messages::{PendingSince, PoolContent, PoolRefusal, PoolStatus, PoolSummary, PooledSummary},
};

use crate::{
    PoolOptions,
    entry::{BlockPrices, Entry},
    order,
    recent::RecentHashes,
    sender::{AccountView, Sender},
};

/// Gas of the cheapest transaction, which bounds the number of transactions in a block.
const MIN_GAS: u64 = 21_000;

/// Percent by which both price caps of a replacement must exceed the old ones if either transaction carries blobs.
const BLOB_PRICE_BUMP: u64 = 100;

/// How many of the newest pending hashes are kept for pollers.
const RECENT_HASHES: usize = 8192;

/// The head that the pool has applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolHead {
    pub(crate) number: u64,
    pub(crate) hash: B256,
    pub(crate) gas_limit: u64,
    /// Prices of the next block.
    pub(crate) prices: BlockPrices,
}

/// Whether an entry could be included in the next block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Readiness {
    /// No: it waits for a nonce gap to close.
    Queued,
    /// Yes.
    Pending,
    /// Yes, and the chain needs it: a masternode's special transaction, which pays nothing.
    Privileged,
}

/// Decides which entries stay in a full pool: readiness, tip cap, fee cap, and whether the sender pays itself rather
/// than a token, so that the entry costs it something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    readiness: Readiness,
    tip: U256,
    fee: U256,
    is_paid_by_sender: bool,
}

impl Rank {
    fn of(entry: &Entry, is_pending: bool) -> Self {
        let readiness = match is_pending {
            true if entry.is_privileged => Readiness::Privileged,
            true => Readiness::Pending,
            false => Readiness::Queued,
        };
        Self { readiness, tip: entry.tip_cap(), fee: entry.fee_cap(), is_paid_by_sender: entry.sponsor.is_none() }
    }
}

/// Order of eviction: by rank, and among equals the latest arrival first.
type PriceKey = (Rank, std::cmp::Reverse<u64>, Address, u64);

fn price_key(entry: &Entry, is_pending: bool) -> PriceKey {
    let arrival = std::cmp::Reverse(entry.arrival);
    (Rank::of(entry, is_pending), arrival, entry.transaction.sender, entry.nonce())
}

/// The pool's contents.
#[derive(Debug)]
pub(crate) struct PoolState {
    head: PoolHead,
    senders: HashMap<Address, Sender>,
    by_hash: HashMap<B256, (Address, u64)>,
    /// All entries that are not local.
    by_price: BTreeSet<PriceKey>,
    recent: RecentHashes,
    slots: u64,
    /// Slots of local transactions, included in `slots`.
    local_slots: u64,
    pending: u64,
    queued: u64,
    arrivals: u64,
}

/// The best transactions for the next block.
#[derive(Debug)]
pub(crate) struct Best {
    pub(crate) transactions: Vec<RecoveredTransaction>,
    /// Whether there may be more.
    pub(crate) is_cut_off: bool,
}

/// Effects of an operation.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// To be published, in order.
    pub(crate) became_pending: Vec<RecoveredTransaction>,
    /// Number of transactions that left the pool.
    pub(crate) dropped: usize,
}

impl PoolState {
    pub(crate) fn new(head: PoolHead) -> Self {
        Self {
            head,
            senders: HashMap::new(),
            by_hash: HashMap::new(),
            by_price: BTreeSet::new(),
            recent: RecentHashes::new(RECENT_HASHES),
            slots: 0,
            local_slots: 0,
            pending: 0,
            queued: 0,
            arrivals: 0,
        }
    }

    pub(crate) const fn head(&self) -> PoolHead {
        self.head
    }

    pub(crate) fn contains(&self, hash: B256) -> bool {
        self.by_hash.contains_key(&hash)
    }

    pub(crate) fn get(&self, hash: B256) -> Option<RecoveredTransaction> {
        let (sender, nonce) = self.by_hash.get(&hash)?;
        Some(self.senders.get(sender)?.get(*nonce)?.transaction.clone())
    }

    /// The sender's next nonce, `None` if it has nothing in the pool.
    pub(crate) fn next_nonce(&self, address: Address) -> Option<u64> {
        self.senders.get(&address).map(Sender::next_nonce)
    }

    pub(crate) const fn status(&self) -> PoolStatus {
        PoolStatus { pending: self.pending, queued: self.queued }
    }

    pub(crate) fn since(&self, cursor: Option<u64>) -> PendingSince {
        self.recent.since(cursor)
    }

    pub(crate) fn content(&self, sender: Option<Address>) -> PoolContent {
        let mut content = PoolContent::default();
        for sender in self.sorted_senders(sender) {
            content.pending.extend(sender.pending().map(|entry| entry.transaction.clone()));
            content.queued.extend(sender.queued().map(|entry| entry.transaction.clone()));
        }
        content
    }

    /// As [`PoolState::content`], but summaries.
    pub(crate) fn summary(&self, sender: Option<Address>) -> PoolSummary {
        let mut summary = PoolSummary::default();
        for sender in self.sorted_senders(sender) {
            summary.pending.extend(sender.pending().map(|entry| PooledSummary::from(&entry.transaction)));
            summary.queued.extend(sender.queued().map(|entry| PooledSummary::from(&entry.transaction)));
        }
        summary
    }

    /// One sender, if it has transactions in the pool, or all.
    fn sorted_senders(&self, sender: Option<Address>) -> impl Iterator<Item = &Sender> {
        let mut senders: Vec<_> = match sender {
            Some(address) => self.senders.get_key_value(&address).into_iter().collect(),
            None => self.senders.iter().collect(),
        };
        senders.sort_unstable_by_key(|(address, _)| **address);
        senders.into_iter().map(|(_, sender)| sender)
    }

    /// Pending transactions in block order: at most twice as many as fit into the head's gas limit.
    pub(crate) fn best(&self, base_fee: U256) -> Best {
        let limit = usize::try_from(self.head.gas_limit / MIN_GAS).unwrap_or(usize::MAX).saturating_mul(2);
        let transactions = order::best(self.senders.values(), base_fee, limit);
        Best { is_cut_off: transactions.len() == limit, transactions }
    }

    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.senders.keys().copied().collect()
    }

    /// The local transactions without blobs, oldest first, for the journal.
    pub(crate) fn local(&self) -> Vec<RecoveredTransaction> {
        let entries = self.senders.values().flat_map(Sender::entries);
        let mut local: Vec<_> = entries.filter(|entry| entry.is_local && !entry.has_blobs()).collect();
        local.sort_unstable_by_key(|entry| entry.arrival);
        local.into_iter().map(|entry| entry.transaction.clone()).collect()
    }

    /// Adds a checked transaction and returns whether it is local. `account` is its sender's, as read by the caller.
    pub(crate) fn insert(
        &mut self,
        mut entry: Entry,
        account: AccountView,
        options: &PoolOptions,
        changes: &mut Changes,
    ) -> Result<bool, PoolRefusal> {
        if self.contains(entry.hash()) {
            return Err(PoolRefusal::AlreadyKnown);
        }
        let address = entry.transaction.sender;
        let now = entry.queued_since;
        if self.senders.get(&address).is_some_and(|sender| sender.account().as_of < account.as_of) {
            self.set_account(address, account, now, changes);
        }
        let account = self.senders.get(&address).map_or(account, |sender| *sender.account());
        self.check_against_account(&entry, &account, options)?;
        entry.is_local &= self.fits_local_share(&entry, options);
        self.make_room(&entry, &account, options, now, changes)?;

        entry.arrival = self.arrivals;
        self.arrivals += 1;
        self.by_hash.insert(entry.hash(), (address, entry.nonce()));
        self.slots += entry.slots;
        let is_local = entry.is_local;
        let sender = self.senders.entry(address).or_insert_with(|| Sender::new(account));
        if is_local {
            self.local_slots += entry.slots;
        } else {
            self.by_price.insert(price_key(&entry, entry.nonce() < sender.next_nonce()));
        }
        let replaced = self.with_sender(address, changes, |sender, pending| sender.insert(entry, pending));
        if let Some(replaced) = replaced.flatten() {
            self.forget(&replaced, changes);
        }
        Ok(is_local)
    }

    /// Returns whether the transaction fits into the local share.
    fn fits_local_share(&self, entry: &Entry, options: &PoolOptions) -> bool {
        let sender = self.senders.get(&entry.transaction.sender);
        let replaced = sender.and_then(|sender| sender.get(entry.nonce())).filter(|replaced| replaced.is_local);
        let others = self.local_slots.saturating_sub(replaced.map_or(0, |replaced| replaced.slots));
        others + entry.slots <= options.local_slots
    }

    fn check_against_account(
        &self,
        entry: &Entry,
        account: &AccountView,
        options: &PoolOptions,
    ) -> Result<(), PoolRefusal> {
        let (nonce, cost, balance) = (entry.nonce(), entry.cost, account.balance);
        if nonce < account.nonce {
            return Err(PoolRefusal::NonceTooLow { next: account.nonce, found: nonce });
        }
        let sender = self.senders.get(&entry.transaction.sender);
        let queued = sender.map_or(U256::ZERO, |sender| sender.pending_cost_without(nonce));
        if cost > balance || queued.saturating_add(cost) > balance {
            return Err(PoolRefusal::InsufficientFunds { balance, queued, cost });
        }
        let replaced = sender.and_then(|sender| sender.get(nonce));
        if account.is_delegated && replaced.is_none() {
            if sender.is_some_and(|sender| sender.len() > 0) {
                return Err(PoolRefusal::DelegatedInFlight);
            }
            if nonce != account.nonce {
                return Err(PoolRefusal::DelegatedGap);
            }
        }
        if let Some(replaced) = replaced {
            if replaced.is_special && entry.is_privileged {
                return Err(PoolRefusal::DuplicatePrivileged);
            }
            if replaced.is_special {
                return Err(PoolRefusal::ReplacementUnderpriced);
            }
            if entry.is_privileged {
                return Ok(());
            }
            let has_blobs = replaced.has_blobs() || entry.has_blobs();
            let bump = if has_blobs { BLOB_PRICE_BUMP } else { options.price_bump };
            if !entry.meets_price_bump(replaced, bump) {
                return Err(PoolRefusal::ReplacementUnderpriced);
            }
        }
        Ok(())
    }

    /// Evicts transactions until the new one fits: first queued ones, then the cheapest. Changes nothing if it cannot.
    /// An executable transaction is never evicted for one that is not.
    fn make_room(
        &mut self,
        entry: &Entry,
        account: &AccountView,
        options: &PoolOptions,
        now: Instant,
        changes: &mut Changes,
    ) -> Result<(), PoolRefusal> {
        let address = entry.transaction.sender;
        let sender = self.senders.get(&address);
        let replaced = sender.and_then(|sender| sender.get(entry.nonce()));
        let replaced_foreign = replaced.filter(|replaced| !replaced.is_local).map_or(0, |replaced| replaced.slots);
        let replaced = replaced.map_or(0, |replaced| replaced.slots);
        // Counted only for transactions that are not local: a local sender may have thousands, and each would be
        // counted again.
        if !entry.is_local {
            let others = sender.map_or(0, Sender::remote_slots).saturating_sub(replaced_foreign);
            if others + entry.slots > options.account_slots {
                return Err(PoolRefusal::AccountLimit { sender: address, limit: options.account_slots });
            }
        }
        let next_nonce = sender.map_or(account.nonce, Sender::next_nonce);
        // The caller has checked that the balance pays for it and all pending ones.
        let rank = Rank::of(entry, entry.nonce() <= next_nonce);
        let mut excess = (self.slots + entry.slots).saturating_sub(replaced + options.global_slots);
        let mut victims = Vec::new();
        for (other, _, victim, nonce) in &self.by_price {
            if excess == 0 {
                break;
            }
            // Its own sender's transactions are not evicted: without them it might not be executable.
            if *victim == address {
                continue;
            }
            if !entry.is_local && rank <= *other {
                return Err(too_cheap(&rank, other));
            }
            let slots = self.senders.get(victim).and_then(|sender| sender.get(*nonce)).map_or(0, |victim| victim.slots);
            excess = excess.saturating_sub(slots);
            victims.push((*victim, *nonce));
        }
        if excess > 0 {
            return Err(PoolRefusal::Full);
        }
        for (victim, nonce) in victims {
            self.remove(victim, nonce, now, changes);
        }
        Ok(())
    }

    /// Applies a block on top of the last one.
    pub(crate) fn apply_commit(&mut self, commit: &BlockCommit, head: PoolHead, now: Instant, changes: &mut Changes) {
        let header = &commit.block.header;
        for change in &commit.accounts {
            let Some(sender) = self.senders.get(&change.address) else { continue };
            if sender.account().as_of < header.number {
                let account = AccountView::new(change.account.as_ref(), header.number);
                self.set_account(change.address, account, now, changes);
            }
        }
        self.set_head(head, now, changes);
    }

    /// Replaces accounts by their state after `head`.
    pub(crate) fn resync(
        &mut self,
        head: PoolHead,
        accounts: &[(Address, AccountView)],
        now: Instant,
        changes: &mut Changes,
    ) {
        for (address, account) in accounts {
            self.set_account(*address, *account, now, changes);
        }
        self.set_head(head, now, changes);
    }

    fn set_head(&mut self, head: PoolHead, now: Instant, changes: &mut Changes) {
        let has_less_gas = head.gas_limit < self.head.gas_limit;
        self.head = head;
        if has_less_gas {
            self.remove_all(|sender| sender.above_gas(head.gas_limit), now, changes);
        }
    }

    /// Returns whether tokens pay for some of the transactions.
    pub(crate) fn has_sponsored(&self) -> bool {
        self.senders.values().any(|sender| sender.entries().any(|entry| entry.sponsor.is_some()))
    }

    /// Applies new costs of sponsored transactions.
    pub(crate) fn update_sponsored_costs(
        &mut self,
        cost: impl Fn(&Entry) -> U256,
        now: Instant,
        changes: &mut Changes,
    ) {
        let sponsored: Vec<_> = self
            .senders
            .iter()
            .filter(|(_, sender)| sender.entries().any(|entry| entry.sponsor.is_some()))
            .map(|(address, _)| *address)
            .collect();
        for address in sponsored {
            let dropped = self
                .with_sender(address, changes, |sender, pending| sender.update_sponsored_costs(&cost, now, pending));
            for entry in dropped.unwrap_or_default() {
                self.forget(&entry, changes);
            }
        }
    }

    /// Evicts transactions that have been queued, or pending at prices too low for any block, for longer than
    /// `lifetime`.
    pub(crate) fn expire(&mut self, lifetime: Duration, now: Instant, changes: &mut Changes) {
        // `None` if the machine has not run for that long.
        let limit = now.checked_sub(lifetime);
        if let Some(limit) = limit {
            self.remove_all(|sender| sender.queued_before(limit), now, changes);
        }
        let prices = self.head.prices;
        let mut unpaid = Vec::new();
        for (address, sender) in &mut self.senders {
            unpaid.extend(sender.unpayable(prices, now, limit).into_iter().map(|nonce| (*address, nonce)));
        }
        for (address, nonce) in unpaid {
            self.remove(address, nonce, now, changes);
        }
    }

    /// Evicts transactions below this tip, except local ones and those of masternodes.
    pub(crate) fn drop_below(&mut self, tip: U256, now: Instant, changes: &mut Changes) {
        self.remove_all(|sender| sender.cheaper_than(tip), now, changes);
    }

    fn remove_all(&mut self, which: impl Fn(&Sender) -> Vec<u64>, now: Instant, changes: &mut Changes) {
        let doomed: Vec<_> = self
            .senders
            .iter()
            .flat_map(|(address, sender)| which(sender).into_iter().map(|nonce| (*address, nonce)))
            .collect();
        for (address, nonce) in doomed {
            self.remove(address, nonce, now, changes);
        }
    }

    fn remove(&mut self, address: Address, nonce: u64, now: Instant, changes: &mut Changes) {
        let removed = self.with_sender(address, changes, |sender, _| sender.remove(nonce, now));
        if let Some(removed) = removed.flatten() {
            self.forget(&removed, changes);
        }
    }

    fn set_account(&mut self, address: Address, account: AccountView, now: Instant, changes: &mut Changes) {
        let dropped = self.with_sender(address, changes, |sender, pending| sender.set_account(account, now, pending));
        for entry in dropped.unwrap_or_default() {
            self.forget(&entry, changes);
        }
    }

    /// Rebuilds everything that is derived from the senders' entries, after a panic in the middle of a change.
    pub(crate) fn rebuild_indices(&mut self, now: Instant, changes: &mut Changes) {
        self.by_hash.clear();
        self.by_price.clear();
        (self.slots, self.local_slots, self.pending, self.queued) = (0, 0, 0, 0);
        let announced = changes.became_pending.len();
        self.senders.retain(|address, sender| {
            let account = *sender.account();
            changes.dropped += sender.set_account(account, now, &mut changes.became_pending).len();
            for entry in sender.entries() {
                self.by_hash.insert(entry.hash(), (*address, entry.nonce()));
                self.slots += entry.slots;
                if entry.is_local {
                    self.local_slots += entry.slots;
                } else {
                    self.by_price.insert(price_key(entry, entry.nonce() < sender.next_nonce()));
                }
            }
            self.pending += sender.ready();
            self.queued += sender.len() - sender.ready();
            sender.len() > 0
        });
        for recovered in changes.became_pending.get(announced..).unwrap_or_default() {
            self.recent.push(recovered.transaction.hash);
        }
    }

    /// Removes an entry that has left its sender's list from the indices.
    fn forget(&mut self, entry: &Entry, changes: &mut Changes) {
        self.by_hash.remove(&entry.hash());
        if entry.is_local {
            self.local_slots -= entry.slots;
        } else if !self.by_price.remove(&price_key(entry, false)) {
            self.by_price.remove(&price_key(entry, true));
        }
        self.slots -= entry.slots;
        changes.dropped += 1;
    }

    /// Changes one sender's list and updates the counts, the list of pending hashes and the map of senders.
    fn with_sender<T>(
        &mut self,
        address: Address,
        changes: &mut Changes,
        change: impl FnOnce(&mut Sender, &mut Vec<RecoveredTransaction>) -> T,
    ) -> Option<T> {
        let hash_map::Entry::Occupied(mut place) = self.senders.entry(address) else { return None };
        let sender = place.get_mut();
        let (ready, waiting, end) = (sender.ready(), sender.len() - sender.ready(), sender.next_nonce());
        let announced = changes.became_pending.len();
        let outcome = change(sender, &mut changes.became_pending);
        self.pending = self.pending + sender.ready() - ready;
        self.queued = self.queued + (sender.len() - sender.ready()) - waiting;
        let new_end = sender.next_nonce();
        for entry in sender.between(end.min(new_end), end.max(new_end)).filter(|entry| !entry.is_local) {
            let is_pending = new_end > end;
            self.by_price.remove(&price_key(entry, !is_pending));
            self.by_price.insert(price_key(entry, is_pending));
        }
        for recovered in changes.became_pending.get(announced..).unwrap_or_default() {
            self.recent.push(recovered.transaction.hash);
        }
        if sender.len() == 0 {
            place.remove();
        }
        Some(outcome)
    }
}

/// The error for a transaction that ranks too low to replace `other`.
fn too_cheap(rank: &Rank, other: &Rank) -> PoolRefusal {
    // An entry that is not executable yet would be refused at any price.
    if rank.readiness < other.readiness {
        return PoolRefusal::Full;
    }
    PoolRefusal::Underpriced { tip: rank.tip, needed: other.tip.saturating_add(U256::from(1)) }
}

#[cfg(test)]
mod tests;
