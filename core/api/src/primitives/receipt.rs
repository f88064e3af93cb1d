use alloy_primitives::B256;
use serde::{Deserialize, Serialize};

use super::{Log, TransactionType};

/// How a transaction ended, in the form of its era.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReceiptOutcome {
    /// From Byzantium on: whether it succeeded.
    Status(bool),
    /// Before Byzantium: the state root after it.
    StateRoot(B256),
}

/// What a transaction left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// Type of its transaction.
    pub transaction_type: TransactionType,
    /// How it ended.
    pub outcome: ReceiptOutcome,
    /// Gas used in the block up to and including this transaction; part of the receipt's encoding.
    pub cumulative_gas_used: u64,
    /// Gas used by this transaction alone; not part of the encoding.
    pub gas_used: u64,
    /// The logs it emitted, in order.
    pub logs: Vec<Log>,
}

impl Receipt {
    /// Whether the transaction succeeded; receipts of before Byzantium do not say.
    pub const fn succeeded(&self) -> Option<bool> {
        match self.outcome {
            ReceiptOutcome::Status(succeeded) => Some(succeeded),
            ReceiptOutcome::StateRoot(_) => None,
        }
    }
}
