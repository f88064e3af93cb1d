//! Entries of the pool: a transaction with its cost and prices.

use std::time::Instant;

use alloy_primitives::U512;
use tenon_api::{B256, RecoveredTransaction, Transaction, TransactionPayload, U256};
use tenon_txpool_interface::CostAndPriority;

/// Size of a slot, the unit in which the pool's memory is counted.
const SLOT_BYTES: u64 = 32 * 1024;

/// Prices that a block demands of every transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockPrices {
    /// Wei per gas; zero without a base fee.
    pub(crate) base_fee: U256,
    /// Wei per blob gas; zero before there are blobs.
    pub(crate) blob_base_fee: U256,
}

/// A transaction with the values that the pool often needs.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) transaction: RecoveredTransaction,
    /// Maximum cost to its sender, wei: gas at the fee cap, blob gas at its cap, value.
    pub(crate) cost: U256,
    pub(crate) slots: u64,
    /// Whether it is kept when the pool is full, and journalled. Set by the sender; cleared if the share for local
    /// transactions is full.
    pub(crate) is_local: bool,
    /// See [`CostAndPriority::sponsor`].
    pub(crate) sponsor: Option<tenon_api::Address>,
    /// See [`CostAndPriority::is_special`].
    pub(crate) is_special: bool,
    /// See [`CostAndPriority::is_privileged`].
    pub(crate) is_privileged: bool,
    /// Sequence number: earlier arrivals win ties.
    pub(crate) arrival: u64,
    /// When it arrived, or last stopped being pending.
    pub(crate) queued_since: Instant,
    /// Since when it has been pending at prices too low for the next block; `None` if it was payable at the last check.
    pub(crate) unpayable_since: Option<Instant>,
}

impl Entry {
    /// An entry under the rules of the Ethereum profile: the sender pays for everything.
    #[cfg(test)]
    pub(crate) fn new(transaction: RecoveredTransaction, size: u64, is_local: bool, now: Instant) -> Self {
        let cost_and_priority = CostAndPriority { cost: cost(&transaction.transaction), ..CostAndPriority::default() };
        Self::with_cost_and_priority(transaction, size, is_local, now, cost_and_priority)
    }

    pub(crate) fn with_cost_and_priority(
        transaction: RecoveredTransaction,
        size: u64,
        is_local: bool,
        now: Instant,
        cost_and_priority: CostAndPriority,
    ) -> Self {
        let CostAndPriority { cost, sponsor, is_special, is_privileged } = cost_and_priority;
        let slots = size.div_ceil(SLOT_BYTES).max(1);
        Self {
            transaction,
            cost,
            slots,
            is_local,
            sponsor,
            is_special,
            is_privileged,
            arrival: 0,
            queued_since: now,
            unpayable_since: None,
        }
    }

    /// See [`CostAndPriority`].
    pub(crate) const fn cost_and_priority(&self) -> CostAndPriority {
        CostAndPriority {
            cost: self.cost,
            sponsor: self.sponsor,
            is_special: self.is_special,
            is_privileged: self.is_privileged,
        }
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

    /// Returns whether every price is at least `percent` above that of `old`, and higher at all.
    pub(crate) fn meets_price_bump(&self, old: &Self, percent: u64) -> bool {
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

    /// Returns whether a block with these prices accepts it; special transactions pay no base fee.
    pub(crate) fn pays(&self, prices: BlockPrices) -> bool {
        (self.is_special || self.fee_cap() >= prices.base_fee)
            && self.blob_fee_cap().is_none_or(|cap| cap >= prices.blob_base_fee)
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

/// Maximum cost of a transaction to its sender, wei. Saturates: no account can pay that much anyway.
pub(crate) fn cost(transaction: &Transaction) -> U256 {
    let gas = U256::from(transaction.gas_limit).saturating_mul(transaction.max_fee_per_gas());
    let blob_gas = U256::from(tenon_chain::blob_gas_used(transaction));
    let blobs = blob_gas.saturating_mul(blob_fee_cap(transaction).unwrap_or_default());
    gas.saturating_add(blobs).saturating_add(transaction.value)
}
