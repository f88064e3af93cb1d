//! Accounts and their proofs.

use alloy_primitives::{Address, B256, Bytes, U256, Uint, b256};
use serde::{Deserialize, Serialize};

use super::wire_balance::WireBalance;

/// keccak256 of empty input: the code hash of an account without code.
pub const EMPTY_CODE_HASH: B256 = b256!("c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
/// The root of an empty trie.
pub const EMPTY_ROOT_HASH: B256 = b256!("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421");

/// A balance at its full width, wei. Those of native chains have no upper limit (`docs/spec/chain.md` 8.1); this holds
/// the sum of 2^64 accounts of 2^256 wei, more than any chain has.
pub type WholeBalance = Uint<320, 5>;

/// An account as the state trie holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Frame", into = "Frame")]
pub struct Account {
    /// Transactions sent (or, for a contract, contracts created).
    pub nonce: u64,
    /// Low 256 bits of the balance in wei: all of it, but for a few accounts of native chains.
    pub balance: U256,
    /// The part of the balance above them, in units of 2^256 wei.
    pub balance_high: u64,
    /// keccak256 of the code.
    pub code_hash: B256,
    /// Root of the account's storage trie.
    pub storage_root: B256,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            nonce: 0,
            balance: U256::ZERO,
            balance_high: 0,
            code_hash: EMPTY_CODE_HASH,
            storage_root: EMPTY_ROOT_HASH,
        }
    }
}

impl Account {
    /// Whether the account has no nonce, no balance and no code (EIP-161).
    pub fn is_empty(&self) -> bool {
        self.nonce == 0 && self.balance.is_zero() && self.balance_high == 0 && self.code_hash == EMPTY_CODE_HASH
    }

    /// The balance at its full width, wei.
    pub fn whole_balance(&self) -> WholeBalance {
        join_balance(self.balance, self.balance_high)
    }

    /// The balance, or 2^256 - 1 if it is higher: enough to compare with any amount of 256 bits.
    pub const fn spendable(&self) -> U256 {
        if self.balance_high == 0 { self.balance } else { U256::MAX }
    }

    /// Whether the account has code.
    pub fn has_code(&self) -> bool {
        self.code_hash != EMPTY_CODE_HASH
    }
}

/// The balance with these low and high parts.
pub fn join_balance(low: U256, high: u64) -> WholeBalance {
    let [first, second, third, fourth] = *low.as_limbs();
    WholeBalance::from_limbs([first, second, third, fourth, high])
}

/// The low 256 bits of a balance, and what is above them.
pub fn split_balance(whole: WholeBalance) -> (U256, u64) {
    let [first, second, third, fourth, high] = *whole.as_limbs();
    (U256::from_limbs([first, second, third, fourth]), high)
}

/// An account in a message: its balance is one number.
#[derive(Serialize, Deserialize)]
struct Frame {
    nonce: u64,
    balance: WireBalance,
    code_hash: B256,
    storage_root: B256,
}

impl From<Account> for Frame {
    fn from(account: Account) -> Self {
        let Account { nonce, balance, balance_high, code_hash, storage_root } = account;
        Self { nonce, balance: WireBalance { low: balance, high: balance_high }, code_hash, storage_root }
    }
}

impl From<Frame> for Account {
    fn from(frame: Frame) -> Self {
        let Frame { nonce, balance: WireBalance { low, high }, code_hash, storage_root } = frame;
        Self { nonce, balance: low, balance_high: high, code_hash, storage_root }
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

#[cfg(test)]
mod tests {
    use super::*;

    // `docs/spec/chain.md` 8.1.
    #[test]
    fn an_account_of_2_to_the_256_is_not_empty_and_can_pay_any_amount() {
        assert!(Account::default().is_empty());
        let large = Account { balance_high: 1, ..Account::default() };
        assert!(!large.is_empty());
        assert_eq!(large.spendable(), U256::MAX);
        let poorer = Account { balance: U256::from(7), ..Account::default() };
        assert_eq!(poorer.spendable(), U256::from(7));
    }
}
