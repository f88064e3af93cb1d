//! Earlier signatures.

use alloy_primitives::{Address, B256, U256};

/// What was spent by the requests that one rule allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Sum of their values in wei.
    pub value: U256,
    /// Sum of their maximum fees in wei.
    pub fee: U256,
    /// Their number.
    pub requests: u64,
}

/// Earlier signatures, as the audit log records them.
pub trait History {
    /// Returns what the requests of a rule have spent since `after`, exclusive (seconds since 1970).
    fn spent(&self, rule: &str, after: u64) -> Spent;

    /// Time of the latest entry, seconds since 1970. A clock that shows an earlier time was set back.
    fn latest(&self) -> u64;

    /// Hash of the transaction that was signed for this nonce of the account on the chain; `None` if there was none.
    fn signed_for_nonce(&self, chain_id: u64, account: Address, nonce: u64) -> Option<B256>;
}

/// An empty history.
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
