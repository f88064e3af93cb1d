//! What was signed before.

use alloy_primitives::{Address, B256, U256};

/// What the requests that one rule let through have spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Sum of their values, wei.
    pub value: U256,
    /// Sum of their highest fees, wei.
    pub fee: U256,
    /// Their number.
    pub requests: u64,
}

/// What was signed before: the audit log's memory.
pub trait History {
    /// What the requests of a rule have spent after a time (seconds since 1970).
    fn spent(&self, rule: &str, after: u64) -> Spent;

    /// Time of the latest entry, seconds since 1970. A clock before it was set back.
    fn latest(&self) -> u64;

    /// Hash of the transaction that was signed for a nonce of an account on a chain, if one was.
    fn signed_for_nonce(&self, chain_id: u64, account: Address, nonce: u64) -> Option<B256>;
}

/// Nothing was signed before.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHistory;

impl History for NoHistory {
    fn spent(&self, _rule: &str, _after: u64) -> Spent {
        Spent::default()
    }

    fn latest(&self) -> u64 {
        0
    }

    fn signed_for_nonce(&self, _chain_id: u64, _account: Address, _nonce: u64) -> Option<B256> {
        None
    }
}
