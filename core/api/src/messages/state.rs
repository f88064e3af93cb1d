//! Accounts, code, storage and proofs. Topics `0x0200..`.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::request;
use crate::{Account, AccountProof, BlockId};

/// An account; the default value when it does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAccount {
    /// The account.
    pub address: Address,
    /// The block after which it is read.
    pub block: BlockId,
}
request!(GetAccount => Account, topic 0x0200, ReadChain);

/// An account's code; empty when it has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetCode {
    /// The account.
    pub address: Address,
    /// The block after which it is read.
    pub block: BlockId,
}
request!(GetCode => Bytes, topic 0x0201, ReadChain);

/// A storage slot; zero when unset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetStorage {
    /// The account.
    pub address: Address,
    /// Which slot.
    pub slot: B256,
    /// The block after which it is read.
    pub block: BlockId,
}
request!(GetStorage => U256, topic 0x0202, ReadChain);

/// An account and some of its slots, with the trie nodes that prove them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetProof {
    /// The account.
    pub address: Address,
    /// Which slots.
    pub slots: Vec<B256>,
    /// The block after which it is read.
    pub block: BlockId,
}
request!(GetProof => AccountProof, topic 0x0203, ReadChain);
