//! Keys that this node holds. Topics `0x0500..`.

use alloy_primitives::{Address, B256, Bytes};
use serde::{Deserialize, Serialize};

use super::{CallRequest, request};

/// Addresses of the keys that this node can sign with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAccounts;
request!(ListAccounts => Vec<Address>, topic 0x0500, ReadNode);

/// Signs a message in the personal-message form (EIP-191).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignMessage {
    /// With whose key.
    pub address: Address,
    /// The message without prefix.
    pub message: Bytes,
}
request!(SignMessage => Bytes, topic 0x0501, Sign);

/// Signs a transaction; everything must be filled in: gas, nonce, prices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignTransaction {
    /// The transaction; `from` names the key.
    pub request: CallRequest,
}
request!(SignTransaction => SignedTransactionReply, topic 0x0502, Sign);

/// A signed transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedTransactionReply {
    /// Canonical bytes.
    pub raw: Bytes,
    /// Transaction hash.
    pub hash: B256,
}
