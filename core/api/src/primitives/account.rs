//! Accounts and their proofs.

use alloy_primitives::{Address, B256, Bytes, U256, b256};
use serde::{Deserialize, Serialize};

/// keccak256 of empty input: the code hash of an account without code.
pub const EMPTY_CODE_HASH: B256 = b256!("c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
/// The root of an empty trie.
pub const EMPTY_ROOT_HASH: B256 = b256!("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421");

/// An account as the state trie holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Transactions sent (or, for a contract, contracts created).
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// keccak256 of the code.
    pub code_hash: B256,
    /// Root of the account's storage trie.
    pub storage_root: B256,
}

impl Default for Account {
    fn default() -> Self {
        Self { nonce: 0, balance: U256::ZERO, code_hash: EMPTY_CODE_HASH, storage_root: EMPTY_ROOT_HASH }
    }
}

impl Account {
    /// Whether the account has no nonce, no balance and no code (EIP-161).
    pub fn is_empty(&self) -> bool {
        self.nonce == 0 && self.balance.is_zero() && self.code_hash == EMPTY_CODE_HASH
    }

    /// Whether the account has code.
    pub fn has_code(&self) -> bool {
        self.code_hash != EMPTY_CODE_HASH
    }
}

/// An account with the trie nodes that prove it (EIP-1186).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountProof {
    /// The account's address.
    pub address: Address,
    /// Its value, the default value if it does not exist.
    pub account: Account,
    /// RLP of the trie nodes from the state root down.
    pub proof: Vec<Bytes>,
    /// One entry per requested slot, in the order of the request.
    pub storage: Vec<StorageProof>,
}

/// A storage slot with the trie nodes that prove it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageProof {
    /// The slot.
    pub slot: B256,
    /// Its value, zero when unset.
    pub value: U256,
    /// RLP of the trie nodes from the storage root down.
    pub proof: Vec<Bytes>,
}
