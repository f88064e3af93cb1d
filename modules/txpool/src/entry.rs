use std::time::Instant;

use alloy_primitives::U512;
use tenon_api::{B256, RecoveredTransaction, Transaction, TransactionPayload, U256};

/// Bytes of one slot: the unit in which the pool's memory is counted.
const SLOT_BYTES: u64 = 32 * 1024;

/// Where a transaction came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// This node's own interfaces, or the journal: kept when the pool is full, exempt from the least tip, and
    /// written to the journal.
    Local,
    /// A peer.
    Remote,
    /// A block that left the canonical chain: exempt from the least tip.
    Reorganisation,
}

/// What a transaction means for its sender and its rivals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Most that it may cost its sender, wei.
    pub(crate) cost: U256,
    /// The token that pays its gas (native chains).
    pub(crate) sponsor: Option<tenon_api::Address>,
    /// Whether it goes where masternodes' transactions go, and is never replaced (native chains).
    pub(crate) is_special: bool,
    /// Whether it is special and a masternode's: free, and before every other of its nonce.
    pub(crate) is_privileged: bool,
}

/// A transaction with what the pool needs to know of it again and again.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) transaction: RecoveredTransaction,
    /// Most that it may cost its sender, wei: gas at the fee cap, blob gas at its cap, value.
    pub(crate) cost: U256,
    pub(crate) slots: u64,
    pub(crate) origin: Origin,
    /// The token that pays its gas.
    pub(crate) sponsor: Option<tenon_api::Address>,
    /// See [`Terms::is_special`].
    pub(crate) is_special: bool,
    /// See [`Terms::is_privileged`].
    pub(crate) is_privileged: bool,
    /// Running number: earlier arrivals win ties.
    pub(crate) arrival: u64,
    /// When it came, or last stopped being pending.
    pub(crate) queued_since: Instant,
}

impl Entry {
    /// An entry on the terms of the Ethereum profile: the sender pays for everything.
    #[cfg(test)]
    pub(crate) fn new(transaction: RecoveredTransaction, size: u64, origin: Origin, now: Instant) -> Self {
        let terms = Terms { cost: cost(&transaction.transaction), ..Terms::default() };
        Self::with_terms(transaction, size, origin, now, terms)
    }

    pub(crate) fn with_terms(
        transaction: RecoveredTransaction,
        size: u64,
        origin: Origin,
        now: Instant,
        terms: Terms,
    ) -> Self {
        let Terms { cost, sponsor, is_special, is_privileged } = terms;
        let slots = size.div_ceil(SLOT_BYTES).max(1);
        Self { transaction, cost, slots, origin, sponsor, is_special, is_privileged, arrival: 0, queued_since: now }
    }

    /// See [`Terms`].
    pub(crate) const fn terms(&self) -> Terms {
        Terms { cost: self.cost, sponsor: self.sponsor, is_special: self.is_special, is_privileged: self.is_privileged }
    }

    pub(crate) fn hash(&self) -> B256 {
        self.transaction.transaction.hash
    }

    pub(crate) fn nonce(&self) -> u64 {
        self.transaction.transaction.nonce
    }

    pub(crate) fn fee_cap(&self) -> U256 {
        self.transaction.transaction.max_fee_per_gas()
    }

    pub(crate) fn tip_cap(&self) -> U256 {
        self.transaction.transaction.max_priority_fee_per_gas()
    }

    pub(crate) fn has_blobs(&self) -> bool {
        matches!(self.transaction.transaction.payload, TransactionPayload::Blob { .. })
    }

    /// Whether it pays at least `percent` more than `old` in every price, and more at all.
    pub(crate) fn outbids(&self, old: &Self, percent: u64) -> bool {
        let pays_more = |new: U256, old: U256| {
            // 512 bits hold any price times any percentage.
            let wanted = U512::from(old) * U512::from(percent.saturating_add(100));
            new > old && U512::from(new) * U512::from(100) >= wanted
        };
        pays_more(self.fee_cap(), old.fee_cap())
            && pays_more(self.tip_cap(), old.tip_cap())
            && match (self.blob_fee_cap(), old.blob_fee_cap()) {
                (Some(new), Some(old)) => pays_more(new, old),
                _ => true,
            }
    }

    fn blob_fee_cap(&self) -> Option<U256> {
        blob_fee_cap(&self.transaction.transaction)
    }
}

fn blob_fee_cap(transaction: &Transaction) -> Option<U256> {
    match &transaction.payload {
        TransactionPayload::Blob { max_fee_per_blob_gas, .. } => Some(*max_fee_per_blob_gas),
        _ => None,
    }
}

/// Most that a transaction may cost its sender, wei. Saturates: no account can pay that anyway.
pub(crate) fn cost(transaction: &Transaction) -> U256 {
    let gas = U256::from(transaction.gas_limit).saturating_mul(transaction.max_fee_per_gas());
    let blob_gas = U256::from(tenon_chain::blob_gas_used(transaction));
    let blobs = blob_gas.saturating_mul(blob_fee_cap(transaction).unwrap_or_default());
    gas.saturating_add(blobs).saturating_add(transaction.value)
}
