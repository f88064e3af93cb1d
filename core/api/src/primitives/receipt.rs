//! Receipts.

use alloy_primitives::B256;
use serde::{Deserialize, Serialize};

use super::{Log, TransactionType};

/// The outcome of a transaction, in the form of its fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReceiptOutcome {
    /// From Byzantium on: whether the transaction succeeded.
    Status(bool),
    /// Before Byzantium: the state root after the transaction.
    StateRoot(B256),
}

/// The receipt of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Type of its transaction.
    pub transaction_type: TransactionType,
    /// The transaction's outcome.
    pub outcome: ReceiptOutcome,
    /// Gas used in the block up to and including this transaction; part of the receipt's encoding.
    pub cumulative_gas_used: u64,
    /// Gas used by this transaction alone; not part of the encoding.
    pub gas_used: u64,
    /// The logs it emitted, in order.
    pub logs: Vec<Log>,
}

impl Receipt {
    /// Returns whether the transaction succeeded; `None` for receipts before Byzantium.
    pub const fn succeeded(&self) -> Option<bool> {
        match self.outcome {
            ReceiptOutcome::Status(succeeded) => Some(succeeded),
            ReceiptOutcome::StateRoot(_) => None,
        }
    }
}
