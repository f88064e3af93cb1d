//! The pool's public interface: submission, queries and maintenance.

use std::{sync::Arc, time::Instant};

use parking_lot::{Mutex, RwLock};
use tenon_api::{
    Address, B256, ChainReader, OwnAccounts, PendingTransactions, RecoveredTransaction, SealedHeader, StoreError,
    Transaction, TransactionPayload, U256,
    messages::{PendingSince, PoolContent, PoolRefusal, PoolStatus, PoolSummary, TransactionPending},
};
use tenon_bus::Bus;
use tenon_chain::{BlobSidecar, ChainSpec};
use tenon_txpool_interface::{Candidate, PoolError, PoolPolicy, PoolView, Senders, Source};

use crate::{
    JournalError, PoolOptions,
    entry::{BlockPrices, Entry},
    journal::Journal,
    sender::AccountView,
    state::{Changes, PoolHead, PoolState},
    validation,
};

/// The transaction pool. Clones share the same pool.
#[derive(Clone, derive_more::Debug)]
#[debug("Pool({:?})", self.status())]
pub struct Pool {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    spec: Arc<ChainSpec>,
    pub(crate) chain: Arc<dyn ChainReader>,
    /// Senders whose transactions are local from any source.
    own: Arc<dyn OwnAccounts>,
    pub(crate) bus: Bus,
    pub(crate) options: PoolOptions,
    /// The current minimum tip, initially that of `options`. Locked for a copy.
    min_tip: RwLock<U256>,
    /// The rules of the chain's family.
    policy: Box<dyn PoolPolicy>,
    pub(crate) senders: Senders,
    /// All waiting transactions. Write-locked for a few map operations (for a whole block: some per sender that the
    /// block touched); recovery, verification, database and file access, and awaiting all happen outside the lock.
    pub(crate) state: RwLock<PoolState>,
    /// The journal's file, with a lock of its own so that a slow disk delays no reader of the pool.
    journal: Option<Mutex<Journal>>,
    /// Locked while a change of the head is applied, so that two never interleave. Taken before `state`.
    pub(crate) maintenance: Mutex<()>,
}

/// Number of journal transactions whose senders are recovered together.
const JOURNAL_RECORDS: usize = 64;

/// Type byte of blob transactions.
const BLOB_TYPE: u8 = 3;

/// Maximum number of re-reads of an account if blocks arrive during the read, which takes microseconds.
const ACCOUNT_READS: u32 = 16;

/// The facts about a head that the pool keeps.
fn pool_head(spec: &ChainSpec, head: &SealedHeader) -> PoolHead {
    let timestamp = head.timestamp.saturating_add(1);
    let blobs = spec.next_excess_blob_gas(head, timestamp).zip(spec.blob_parameters(timestamp));
    let prices = BlockPrices {
        base_fee: U256::from(spec.next_base_fee(head).unwrap_or_default()),
        blob_base_fee: blobs.map_or(U256::ZERO, |(excess, parameters)| parameters.base_fee(excess)),
    };
    PoolHead { number: head.number, hash: head.hash(), gas_limit: head.gas_limit, prices }
}

impl Pool {
    /// Opens an empty pool, or the one in the journal. [`spawn_pool`](crate::spawn_pool) then keeps it in step with the
    /// chain.
    ///
    /// # Errors
    /// [`JournalError`] if the journal's file cannot be read or written.
    pub fn open(
        spec: Arc<ChainSpec>,
        policy: Box<dyn PoolPolicy>,
        chain: Arc<dyn ChainReader>,
        own: Arc<dyn OwnAccounts>,
        bus: Bus,
        options: PoolOptions,
    ) -> Result<Self, JournalError> {
        let senders = Senders::default();
        let state = PoolState::new(pool_head(&spec, &chain.head().header));
        let (state, maintenance, min_tip) = (RwLock::new(state), Mutex::new(()), RwLock::new(options.min_tip));
        let path = options.journal.clone();
        let mut inner =
            Inner { spec, chain, own, bus, options, min_tip, policy, senders, state, journal: None, maintenance };
        if let Some(path) = path {
            // Most transactions of the journal that are refused now are already in blocks.
            let (mut back, mut outdated) = (0_u64, 0_u64);
            let mut take_in = |records: &mut Vec<Vec<u8>>| {
                inner.recover_senders_ahead(records.iter().map(Vec::as_slice));
                for raw in records.drain(..) {
                    match inner.take_in(&raw, Source::Operator) {
                        Ok(_) => back += 1,
                        Err(error) => {
                            outdated += 1;
                            tracing::debug!(%error, "a transaction of the journal is no longer valid");
                        }
                    }
                }
            };
            let mut records = Vec::new();
            let mut journal = Journal::open(&path, |raw| {
                records.push(raw.to_vec());
                if records.len() == JOURNAL_RECORDS {
                    take_in(&mut records);
                }
            })?;
            take_in(&mut records);
            if let Err(error) = journal.rotate(&inner.state.read().local()) {
                tracing::warn!(%error, "could not rotate the journal");
            }
            if back + outdated > 0 {
                tracing::info!(back, outdated, journal = %path.display(), "local transactions restored from the \
                    journal");
            }
            inner.journal = Some(Mutex::new(journal));
        }
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Checks a submitted or received transaction, adds it and publishes what became pending. Takes some fifty
    /// microseconds, with blobs some milliseconds; does not wait.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn submit(&self, raw: &[u8], source: Source) -> Result<B256, PoolError> {
        let (transaction, is_local) = self.inner.take_in(raw, source)?;
        if is_local && source != Source::Masternode {
            self.inner.append_to_journal(&transaction);
        }
        Ok(transaction.hash)
    }

    /// Recovers the senders of transactions about to be submitted, in one batch, from their canonical bytes. Skips
    /// malformed ones; they are refused on submission.
    pub fn recover_senders_ahead<'a>(&self, raw: impl Iterator<Item = &'a [u8]>) {
        self.inner.recover_senders_ahead(raw);
    }

    /// Returns a waiting transaction.
    pub fn get(&self, hash: B256) -> Option<RecoveredTransaction> {
        self.inner.state.read().get(hash)
    }

    /// Number of waiting transactions.
    pub fn status(&self) -> PoolStatus {
        self.inner.state.read().status()
    }

    /// The waiting transactions, of one sender or of all.
    pub fn content(&self, sender: Option<Address>) -> PoolContent {
        self.inner.state.read().content(sender)
    }

    /// Summaries of the waiting transactions, of one sender or of all.
    pub fn summary(&self, sender: Option<Address>) -> PoolSummary {
        self.inner.state.read().summary(sender)
    }

    /// Hashes that became pending since a cursor, and the next cursor.
    pub fn pending_since(&self, cursor: Option<u64>) -> PendingSince {
        self.inner.state.read().since(cursor)
    }

    /// The account's next nonce, pending transactions included.
    ///
    /// # Errors
    /// [`StoreError`] if the head's state cannot be read.
    pub fn next_nonce(&self, address: Address) -> Result<u64, StoreError> {
        // The chain may be a block ahead of the pool, and the pool may hold transactions that the chain does not have
        // yet.
        let waiting = self.inner.state.read().next_nonce(address).unwrap_or_default();
        let head = self.inner.chain.head();
        let account = self.inner.chain.state_at(head.number())?.account(address)?;
        Ok(waiting.max(account.unwrap_or_default().nonce))
    }

    /// Sets the minimum tip. After an increase, cheaper transactions leave the pool, except local ones and those of
    /// masternodes.
    pub fn set_min_tip(&self, tip: U256) {
        let before = std::mem::replace(&mut *self.inner.min_tip.write(), tip);
        if tip > before {
            let mut changes = Changes::default();
            self.inner.state.write().drop_below(tip, Instant::now(), &mut changes);
            self.inner.announce(changes);
        }
    }

    /// Evicts transactions that have not been executable for longer than the lifetime, as of `now`, and rotates the
    /// journal.
    pub(crate) fn evict_and_rotate(&self, now: Instant) {
        let mut changes = Changes::default();
        self.inner.state.write().expire(self.inner.options.lifetime, now, &mut changes);
        self.inner.announce(changes);
        self.inner.rotate_journal();
    }
}

impl PendingTransactions for Pool {
    fn best(&self, base_fee_per_gas: Option<u64>) -> Vec<RecoveredTransaction> {
        let base_fee = U256::from(base_fee_per_gas.unwrap_or_default());
        let best = self.inner.state.read().best(base_fee);
        if !best.is_cut_off {
            return best.transactions;
        }
        // More wait than were returned. If the pool is a few blocks behind, all returned ones could already be mined,
        // and the block builder would take that for the end of the list.
        self.note(self.catch_up());
        self.inner.state.read().best(base_fee).transactions
    }
}

impl Inner {
    fn recover_senders_ahead<'a>(&self, raw: impl Iterator<Item = &'a [u8]>) {
        // Without vector instructions a batch costs as much as single recoveries. Transactions with blobs are long, and
        // few.
        if !tenon_recovery::is_vectorised() {
            return;
        }
        let decoded = raw
            .take(Senders::MAX_AHEAD)
            .filter(|raw| raw.first() != Some(&BLOB_TYPE))
            .filter_map(|raw| tenon_chain::decode_pooled_transaction(raw).ok())
            .map(|(transaction, _)| transaction);
        // Transactions that are refused before their recovery must not be recovered here.
        let is_of_chain = |transaction: &Transaction| transaction.chain_id.is_none_or(|id| id == self.spec.chain_id);
        let is_new = |transaction: &Transaction| !self.state.read().contains(transaction.hash);
        self.senders.recover_ahead(decoded.filter(is_of_chain).filter(is_new));
    }

    /// Adds a submitted or received transaction and returns whether it is local.
    fn take_in(&self, raw: &[u8], source: Source) -> Result<(Arc<Transaction>, bool), PoolError> {
        let (transaction, sidecar) = tenon_chain::decode_pooled_transaction(raw).map_err(PoolError::undecodable)?;
        if source.is_interface() {
            self.policy.check_submission(&transaction)?;
            validation::check_submission(&transaction, &self.options)?;
        }
        let size = match &sidecar {
            Some(_) => tenon_chain::encode_transaction(&transaction).len(),
            None => raw.len(),
        };
        let transaction = Arc::new(transaction);
        let is_local = self.check_and_insert(&transaction, size as u64, Some(sidecar.as_ref()), source)?;
        Ok((transaction, is_local))
    }

    /// Adds a decoded transaction and returns whether it is local. `sidecar` is `None` if its proofs need no check,
    /// because the transaction was in a block already.
    pub(crate) fn check_and_insert(
        &self,
        transaction: &Arc<Transaction>,
        size: u64,
        sidecar: Option<Option<&BlobSidecar>>,
        source: Source,
    ) -> Result<bool, PoolError> {
        if self.state.read().contains(transaction.hash) {
            return Err(PoolRefusal::AlreadyKnown.into());
        }
        // The hash covers the signature, so it identifies the signer as reliably as a recovery.
        if let Some(sender) = self.own.signer_of(transaction.hash) {
            self.senders.remember(transaction, sender);
        }
        let candidate = Candidate { transaction, size, sidecar, source, min_tip: *self.min_tip.read() };
        let next_nonce = |sender| self.state.read().next_nonce(sender);
        let view = PoolView { chain: &*self.chain, senders: &self.senders, next_nonce: &next_nonce };
        let (sender, cost_and_priority) = self.policy.check(&candidate, &view)?;
        let recovered = RecoveredTransaction { transaction: Arc::clone(transaction), sender };
        let is_local = matches!(source, Source::Operator | Source::Masternode) || self.own.has_key(sender);
        let entry = Entry::with_cost_and_priority(recovered, size, is_local, Instant::now(), cost_and_priority);
        let mut changes = Changes::default();
        let outcome = self.insert(entry, &mut changes);
        self.announce(changes);
        outcome.map_err(|error| match error {
            PoolError::Refused(refusal) => self.policy.refusal(refusal).into(),
            PoolError::Store(error) => error.into(),
        })
    }

    /// Updates what contracts can pay for others, after the head has changed.
    pub(crate) fn update_sponsored_costs(&self) -> Result<(), StoreError> {
        if !self.state.read().has_sponsored() {
            return Ok(());
        }
        let cost_of = self.policy.sponsored_costs(&self.chain.head(), &*self.chain)?;
        let cost = |entry: &Entry| cost_of(&entry.transaction.transaction, &entry.cost_and_priority());
        let mut changes = Changes::default();
        self.state.write().update_sponsored_costs(cost, Instant::now(), &mut changes);
        self.announce(changes);
        Ok(())
    }

    /// Adds an entry together with its sender's account. The account is read outside the lock. If the pool has applied
    /// a later block before it gets the lock, the account is too old and is read again. Otherwise the entry would seem
    /// to have a gap below it that no later event would close.
    fn insert(&self, entry: Entry, changes: &mut Changes) -> Result<bool, PoolError> {
        let sender = entry.transaction.sender;
        let mut attempts = 0..ACCOUNT_READS;
        loop {
            let head = self.chain.head();
            let account = self.chain.state_at(head.number())?.account(sender)?;
            let account = AccountView::new(account.as_ref(), head.header.number);
            let mut state = self.state.write();
            // The last attempt is always applied: right after a `setHead` the pool is ahead of the chain for a while.
            let is_last = attempts.next().is_none();
            if is_last || state.head().number <= account.as_of {
                return Ok(state.insert(entry, account, &self.options, changes)?);
            }
        }
    }

    pub(crate) fn pool_head(&self, head: &SealedHeader) -> PoolHead {
        pool_head(&self.spec, head)
    }

    pub(crate) fn announce(&self, changes: Changes) {
        if changes.dropped > 0 {
            tracing::debug!(dropped = changes.dropped, "transactions left the pool");
        }
        for transaction in changes.became_pending {
            self.bus.publish(TransactionPending { transaction });
        }
    }

    fn append_to_journal(&self, transaction: &Transaction) {
        let Some(journal) = &self.journal else { return };
        // Without its sidecar a blob transaction would not be accepted again.
        if matches!(transaction.payload, TransactionPayload::Blob { .. }) {
            return;
        }
        let mut journal = journal.lock();
        if let Err(error) = journal.append(&tenon_chain::encode_transaction(transaction)) {
            tracing::warn!(%error, "could not write a local transaction to the journal; a restart would lose it");
        }
        let was_deleted = journal.was_deleted();
        let needs_rotation = was_deleted || journal.needs_rotation();
        drop(journal);
        if was_deleted {
            tracing::warn!("the journal was deleted while it was open; writing all local transactions to a new one");
        }
        if needs_rotation {
            self.rotate_journal();
        }
    }

    fn rotate_journal(&self) {
        let Some(journal) = &self.journal else { return };
        // The journal is locked first: a transaction appended before the rotation is already in the pool, or is
        // appended after it.
        let mut journal = journal.lock();
        let local = self.state.read().local();
        if let Err(error) = journal.rotate(&local) {
            tracing::warn!(%error, "could not rotate the journal");
        }
    }
}

#[cfg(test)]
mod tests;
