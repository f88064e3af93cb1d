//! Accounts before and after a transaction.

use alloy_primitives::{Address, B256, Bytes};
use serde::{Deserialize, Serialize};

use super::{ENCODED_HASH, length_of_bytes};
use crate::WholeBalance;

/// The accounts that a transaction touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prestate {
    /// As they were before it.
    Before(Vec<TracedAccount>),
    /// The accounts that it changed.
    Difference {
        /// As they were before it.
        before: Vec<TracedAccount>,
        /// As they are after it. Only what changed.
        after: Vec<TracedAccount>,
    },
}

/// An account. Members that are not shown are `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedAccount {
    /// Its address.
    pub address: Address,
    /// Its balance.
    pub balance: Option<SignedBalance>,
    /// Its nonce. That of the reference's tracer may be -1.
    pub nonce: Option<i128>,
    /// Its code.
    pub code: Option<Bytes>,
    /// Slots and their values.
    pub slots: Vec<(B256, B256)>,
}

/// A balance in wei. That of the reference's tracer may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedBalance {
    /// Its absolute value.
    pub magnitude: WholeBalance,
    /// Whether it is negative.
    pub is_negative: bool,
}

impl Prestate {
    pub(super) fn size(&self) -> usize {
        let size = |accounts: &[TracedAccount]| accounts.iter().map(TracedAccount::size).sum::<usize>();
        match self {
            Self::Before(accounts) => size(accounts),
            Self::Difference { before, after } => size(before) + size(after),
        }
    }
}

impl TracedAccount {
    fn size(&self) -> usize {
        size_of::<Self>() + length_of_bytes(&self.code) + 2 * ENCODED_HASH * self.slots.len()
    }
}
