//! All waiting transactions and the indices over them. Nothing here reads the chain, a clock or a file.

use std::{
    collections::{BTreeSet, HashMap, hash_map},
    time::Instant,
};

use tenon_api::{
    Address, B256, BlockCommit, RecoveredTransaction, U256,
    messages::{PendingSince, PoolContent, PoolStatus},
};

use crate::{
    NativeProblem, Origin, PoolError, PoolOptions,
    entry::Entry,
    order,
    recent::RecentHashes,
    sender::{AccountView, Sender},
};

/// Gas of the cheapest transaction: what bounds the number of transactions in a block.
const LEAST_GAS: u64 = 21_000;

/// Where a block stands that the pool has taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolHead {
    pub(crate) number: u64,
    pub(crate) hash: B256,
    pub(crate) gas_limit: u64,
}

/// The place of an entry that may be thrown out: tip cap, fee cap, and among equals the latest arrival first.
type PriceKey = (U256, U256, std::cmp::Reverse<u64>, Address, u64);

fn price_key(entry: &Entry) -> PriceKey {
    let arrival = std::cmp::Reverse(entry.arrival);
    (entry.tip_cap(), entry.fee_cap(), arrival, entry.transaction.sender, entry.nonce())
}

/// The pool's contents.
#[derive(Debug)]
pub(crate) struct PoolState {
    head: PoolHead,
    senders: HashMap<Address, Sender>,
    by_hash: HashMap<B256, (Address, u64)>,
    /// Everything that is not local.
    by_price: BTreeSet<PriceKey>,
    recent: RecentHashes,
    slots: u64,
    pending: u64,
    queued: u64,
    arrivals: u64,
    /// Whether a sender's transactions are each weighed against its balance alone when they come, as native chains
    /// do; those that it cannot pay together wait.
    weighs_alone: bool,
}

/// The best transactions for the next block.
#[derive(Debug)]
pub(crate) struct Best {
    pub(crate) transactions: Vec<RecoveredTransaction>,
    /// Whether there may be more.
    pub(crate) is_cut_off: bool,
}

/// What an operation brought about.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// To be announced, in order.
    pub(crate) became_pending: Vec<RecoveredTransaction>,
    /// How many left the pool.
    pub(crate) dropped: usize,
}

impl PoolState {
    pub(crate) fn new(head: PoolHead, options: &PoolOptions) -> Self {
        Self {
            head,
            senders: HashMap::new(),
            by_hash: HashMap::new(),
            by_price: BTreeSet::new(),
            recent: RecentHashes::new(options.recent_hashes),
            slots: 0,
            pending: 0,
            queued: 0,
            arrivals: 0,
            weighs_alone: false,
        }
    }

    /// The pool of a native chain, in which every transaction is weighed alone.
    pub(crate) const fn weighing_alone(mut self) -> Self {
        self.weighs_alone = true;
        self
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

    /// The sender's next nonce, none when it has nothing here.
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
        let mut senders: Vec<_> = match sender {
            Some(address) => self.senders.get_key_value(&address).into_iter().collect(),
            None => self.senders.iter().collect(),
        };
        senders.sort_unstable_by_key(|(address, _)| **address);
        let mut content = PoolContent::default();
        for (_, sender) in senders {
            content.pending.extend(sender.pending().map(|entry| entry.transaction.clone()));
            content.queued.extend(sender.queued().map(|entry| entry.transaction.clone()));
        }
        content
    }

    /// Pending transactions in block order: at most twice as many as the head's gas limit has room for.
    pub(crate) fn best(&self, base_fee: U256) -> Best {
        let limit = usize::try_from(self.head.gas_limit / LEAST_GAS).unwrap_or(usize::MAX).saturating_mul(2);
        let transactions = order::best(self.senders.values(), base_fee, limit);
        Best { is_cut_off: transactions.len() == limit, transactions }
    }

    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.senders.keys().copied().collect()
    }

    /// The local transactions without blobs, oldest first: what the journal keeps.
    pub(crate) fn local(&self) -> Vec<RecoveredTransaction> {
        let entries = self.senders.values().flat_map(Sender::entries);
        let mut local: Vec<_> = entries.filter(|entry| entry.origin == Origin::Local && !entry.has_blobs()).collect();
        local.sort_unstable_by_key(|entry| entry.arrival);
        local.into_iter().map(|entry| entry.transaction.clone()).collect()
    }

    /// Takes a checked transaction in. `account` is its sender's as the caller read it.
    pub(crate) fn insert(
        &mut self,
        mut entry: Entry,
        account: AccountView,
        options: &PoolOptions,
        changes: &mut Changes,
    ) -> Result<(), PoolError> {
        if self.contains(entry.hash()) {
            return Err(PoolError::AlreadyKnown);
        }
        let address = entry.transaction.sender;
        let now = entry.queued_since;
        if self.senders.get(&address).is_some_and(|sender| sender.account().as_of < account.as_of) {
            self.set_account(address, account, now, changes);
        }
        let account = self.senders.get(&address).map_or(account, |sender| *sender.account());
        self.check_against_account(&entry, &account, options)?;
        self.make_room(&entry, options, now, changes)?;

        entry.arrival = self.arrivals;
        self.arrivals += 1;
        self.by_hash.insert(entry.hash(), (address, entry.nonce()));
        self.slots += entry.slots;
        if entry.origin != Origin::Local {
            self.by_price.insert(price_key(&entry));
        }
        self.senders.entry(address).or_insert_with(|| Sender::new(account));
        let replaced = self.with_sender(address, changes, |sender, pending| sender.insert(entry, pending));
        if let Some(replaced) = replaced.flatten() {
            self.forget(&replaced, changes);
        }
        Ok(())
    }

    fn check_against_account(
        &self,
        entry: &Entry,
        account: &AccountView,
        options: &PoolOptions,
    ) -> Result<(), PoolError> {
        let (nonce, cost, balance) = (entry.nonce(), entry.cost, account.balance);
        if nonce < account.nonce {
            return Err(PoolError::NonceTooLow { next: account.nonce, found: nonce });
        }
        let sender = self.senders.get(&entry.transaction.sender);
        let queued = sender.map_or(U256::ZERO, |sender| sender.pending_cost_beside(nonce));
        let queued = if self.weighs_alone { U256::ZERO } else { queued };
        if cost > balance || queued.saturating_add(cost) > balance {
            return Err(PoolError::InsufficientFunds { balance, queued, cost });
        }
        let replaced = sender.and_then(|sender| sender.get(nonce));
        if account.is_delegated && replaced.is_none() {
            if sender.is_some_and(|sender| sender.len() > 0) {
                return Err(PoolError::DelegatedInFlight);
            }
            if nonce != account.nonce {
                return Err(PoolError::DelegatedGap);
            }
        }
        if let Some(replaced) = replaced {
            if replaced.is_special && entry.is_privileged {
                return Err(NativeProblem::DuplicateSpecial.into());
            }
            if replaced.is_special {
                return Err(PoolError::ReplacementUnderpriced);
            }
            if entry.is_privileged {
                return Ok(());
            }
            let has_blobs = replaced.has_blobs() || entry.has_blobs();
            let bump = if has_blobs { options.blob_price_bump } else { options.price_bump };
            if !entry.outbids(replaced, bump) {
                return Err(PoolError::ReplacementUnderpriced);
            }
        }
        Ok(())
    }

    /// Throws the cheapest transactions out until the new one fits; changes nothing when it can't.
    fn make_room(
        &mut self,
        entry: &Entry,
        options: &PoolOptions,
        now: Instant,
        changes: &mut Changes,
    ) -> Result<(), PoolError> {
        let address = entry.transaction.sender;
        let sender = self.senders.get(&address);
        let replaced = sender.and_then(|sender| sender.get(entry.nonce())).map_or(0, |replaced| replaced.slots);
        // Counted for foreign ones only: a local sender may have thousands, and each would be counted again.
        if entry.origin != Origin::Local {
            let others = sender.map_or(0, Sender::foreign_slots).saturating_sub(replaced);
            if others + entry.slots > options.account_slots {
                return Err(PoolError::AccountLimit { sender: address, limit: options.account_slots });
            }
        }
        let mut excess = (self.slots + entry.slots).saturating_sub(replaced + options.global_slots);
        let mut victims = Vec::new();
        for (tip, fee, _, victim, nonce) in &self.by_price {
            if excess == 0 {
                break;
            }
            // Its own sender's transactions are no victims: without them it might not be executable.
            if *victim == address {
                continue;
            }
            if entry.origin != Origin::Local && (entry.tip_cap(), entry.fee_cap()) <= (*tip, *fee) {
                return Err(PoolError::Underpriced { tip: entry.tip_cap(), needed: tip.saturating_add(U256::from(1)) });
            }
            let slots = self.senders.get(victim).and_then(|sender| sender.get(*nonce)).map_or(0, |victim| victim.slots);
            excess = excess.saturating_sub(slots);
            victims.push((*victim, *nonce));
        }
        if excess > 0 {
            return Err(PoolError::Full);
        }
        for (victim, nonce) in victims {
            self.remove(victim, nonce, now, changes);
        }
        Ok(())
    }

    /// Takes in a block on top of the last one.
    pub(crate) fn apply_commit(&mut self, commit: &BlockCommit, now: Instant, changes: &mut Changes) {
        let header = &commit.block.header;
        for change in &commit.accounts {
            let Some(sender) = self.senders.get(&change.address) else { continue };
            if sender.account().as_of < header.number {
                let account = AccountView::new(change.account.as_ref(), header.number);
                self.set_account(change.address, account, now, changes);
            }
        }
        self.set_head(
            PoolHead { number: header.number, hash: header.hash(), gas_limit: header.gas_limit },
            now,
            changes,
        );
    }

    /// Takes in accounts as they are after `head`, whatever was known of them before.
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

    /// Whether tokens pay for some of the transactions.
    pub(crate) fn has_sponsored(&self) -> bool {
        self.senders.values().any(|sender| sender.entries().any(|entry| entry.sponsor.is_some()))
    }

    /// Takes in what sponsored transactions may cost their senders now.
    pub(crate) fn revalue(&mut self, cost: impl Fn(&Entry) -> U256, now: Instant, changes: &mut Changes) {
        let sponsored: Vec<_> = self
            .senders
            .iter()
            .filter(|(_, sender)| sender.entries().any(|entry| entry.sponsor.is_some()))
            .map(|(address, _)| *address)
            .collect();
        for address in sponsored {
            let dropped = self.with_sender(address, changes, |sender, pending| sender.revalue(&cost, now, pending));
            for entry in dropped.unwrap_or_default() {
                self.forget(&entry, changes);
            }
        }
    }

    /// Throws out what has been queued since before `limit`.
    pub(crate) fn expire(&mut self, limit: Instant, now: Instant, changes: &mut Changes) {
        self.remove_all(|sender| sender.queued_before(limit), now, changes);
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

    /// Takes an entry that has left its sender's list out of the indices.
    fn forget(&mut self, entry: &Entry, changes: &mut Changes) {
        self.by_hash.remove(&entry.hash());
        self.by_price.remove(&price_key(entry));
        self.slots -= entry.slots;
        changes.dropped += 1;
    }

    /// Changes one sender's list and keeps the counts, the list of pending hashes and the map of senders true.
    fn with_sender<T>(
        &mut self,
        address: Address,
        changes: &mut Changes,
        change: impl FnOnce(&mut Sender, &mut Vec<RecoveredTransaction>) -> T,
    ) -> Option<T> {
        let hash_map::Entry::Occupied(mut place) = self.senders.entry(address) else { return None };
        let sender = place.get_mut();
        let (ready, waiting) = (sender.ready(), sender.len() - sender.ready());
        let announced = changes.became_pending.len();
        let outcome = change(sender, &mut changes.became_pending);
        self.pending = self.pending + sender.ready() - ready;
        self.queued = self.queued + (sender.len() - sender.ready()) - waiting;
        for recovered in changes.became_pending.get(announced..).unwrap_or_default() {
            self.recent.push(recovered.transaction.hash);
        }
        if sender.len() == 0 {
            place.remove();
        }
        Some(outcome)
    }
}

#[cfg(test)]
mod tests;
