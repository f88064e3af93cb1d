//! Transactions of every type.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

/// The EIP-2718 type byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum TransactionType {
    /// Untyped.
    Legacy = 0,
    /// EIP-2930.
    AccessList = 1,
    /// EIP-1559.
    DynamicFee = 2,
    /// EIP-4844; Ethereum profile only.
    Blob = 3,
    /// EIP-7702; Ethereum profile only.
    SetCode = 4,
}

/// An address and slots that a transaction declares it will access (EIP-2930).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessListItem {
    /// The account.
    pub address: Address,
    /// Its slots.
    pub storage_keys: Vec<B256>,
}

/// A signed permission to put a delegation into the signer's account (EIP-7702).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedAuthorization {
    /// The chain it is valid on; zero means every chain.
    pub chain_id: U256,
    /// The contract to delegate to; zero clears the delegation.
    pub address: Address,
    /// The signer's nonce.
    pub nonce: u64,
    /// Parity of the signature as sent; only 0 and 1 can recover.
    pub y_parity: u8,
    /// Signature.
    pub r: U256,
    /// Signature.
    pub s: U256,
}

/// The fields that differ between the types. Prices are wei per gas.
///
/// Prices have 256 bits because the reference decodes any integer; execution refuses what cannot be paid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransactionPayload {
    /// Type 0.
    Legacy {
        /// Price.
        gas_price: U256,
    },
    /// Type 1.
    AccessList {
        /// Price.
        gas_price: U256,
        /// Access list.
        access_list: Vec<AccessListItem>,
    },
    /// Type 2.
    DynamicFee {
        /// Maximum price, base fee included.
        max_fee_per_gas: U256,
        /// Maximum tip for the proposer.
        max_priority_fee_per_gas: U256,
        /// Access list.
        access_list: Vec<AccessListItem>,
    },
    /// Type 3.
    Blob {
        /// Maximum price, base fee included.
        max_fee_per_gas: U256,
        /// Maximum tip for the proposer.
        max_priority_fee_per_gas: U256,
        /// Access list.
        access_list: Vec<AccessListItem>,
        /// Maximum price per blob gas.
        max_fee_per_blob_gas: U256,
        /// Versioned hashes of the blobs.
        blob_versioned_hashes: Vec<B256>,
    },
    /// Type 4.
    SetCode {
        /// Maximum price, base fee included.
        max_fee_per_gas: U256,
        /// Maximum tip for the proposer.
        max_priority_fee_per_gas: U256,
        /// Access list.
        access_list: Vec<AccessListItem>,
        /// Delegations to install first.
        authorization_list: Vec<SignedAuthorization>,
    },
}

/// The signature as the transaction carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionSignature {
    /// The raw `v`: 27, 28 or `35 + 2 * chain id + parity` for type 0, the parity otherwise.
    pub v: u64,
    /// Signature.
    pub r: U256,
    /// Signature.
    pub s: U256,
}

impl TransactionSignature {
    /// The y parity of the signature's curve point, for a transaction of this type; `None` if `v` is invalid.
    pub const fn y_parity(&self, transaction_type: TransactionType) -> Option<bool> {
        match (transaction_type, self.v) {
            (TransactionType::Legacy, 27) => Some(false),
            (TransactionType::Legacy, 28) => Some(true),
            (TransactionType::Legacy, v) if v >= 35 => Some((v - 35) % 2 == 1),
            (TransactionType::Legacy, _) => None,
            (_, 0) => Some(false),
            (_, 1) => Some(true),
            _ => None,
        }
    }
}

/// A signed transaction of any type, with its hash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// keccak256 of the canonical bytes.
    pub hash: B256,
    /// The chain that it is valid on; `None` for an unprotected transaction of type 0.
    pub chain_id: Option<u64>,
    /// The sender's nonce.
    pub nonce: u64,
    /// Maximum gas that it may use.
    pub gas_limit: u64,
    /// Receiver; `None` creates a contract.
    pub to: Option<Address>,
    /// Wei to move.
    pub value: U256,
    /// Call data or creation code.
    pub input: Bytes,
    /// The fields of its type.
    pub payload: TransactionPayload,
    /// The signature.
    pub signature: TransactionSignature,
}

impl Transaction {
    /// The type byte.
    pub const fn transaction_type(&self) -> TransactionType {
        match self.payload {
            TransactionPayload::Legacy { .. } => TransactionType::Legacy,
            TransactionPayload::AccessList { .. } => TransactionType::AccessList,
            TransactionPayload::DynamicFee { .. } => TransactionType::DynamicFee,
            TransactionPayload::Blob { .. } => TransactionType::Blob,
            TransactionPayload::SetCode { .. } => TransactionType::SetCode,
        }
    }

    /// Maximum wei per gas that the sender pays: the gas price, or the fee cap.
    pub const fn max_fee_per_gas(&self) -> U256 {
        match &self.payload {
            TransactionPayload::Legacy { gas_price } | TransactionPayload::AccessList { gas_price, .. } => *gas_price,
            TransactionPayload::DynamicFee { max_fee_per_gas, .. }
            | TransactionPayload::Blob { max_fee_per_gas, .. }
            | TransactionPayload::SetCode { max_fee_per_gas, .. } => *max_fee_per_gas,
        }
    }

    /// Maximum wei per gas that the proposer gets: the gas price, or the tip cap.
    pub const fn max_priority_fee_per_gas(&self) -> U256 {
        match &self.payload {
            TransactionPayload::Legacy { gas_price } | TransactionPayload::AccessList { gas_price, .. } => *gas_price,
            TransactionPayload::DynamicFee { max_priority_fee_per_gas, .. }
            | TransactionPayload::Blob { max_priority_fee_per_gas, .. }
            | TransactionPayload::SetCode { max_priority_fee_per_gas, .. } => *max_priority_fee_per_gas,
        }
    }

    /// The price actually paid per gas in a block with this base fee, in wei.
    pub fn effective_gas_price(&self, base_fee_per_gas: Option<u64>) -> U256 {
        let Some(base_fee) = base_fee_per_gas else { return self.max_fee_per_gas() };
        let wanted = U256::from(base_fee).saturating_add(self.max_priority_fee_per_gas());
        wanted.min(self.max_fee_per_gas())
    }

    /// The access list; empty for type 0.
    pub fn access_list(&self) -> &[AccessListItem] {
        match &self.payload {
            TransactionPayload::Legacy { .. } => &[],
            TransactionPayload::AccessList { access_list, .. }
            | TransactionPayload::DynamicFee { access_list, .. }
            | TransactionPayload::Blob { access_list, .. }
            | TransactionPayload::SetCode { access_list, .. } => access_list,
        }
    }

    /// The versioned hashes of the blobs; empty for every type but 3.
    pub fn blob_versioned_hashes(&self) -> &[B256] {
        match &self.payload {
            TransactionPayload::Blob { blob_versioned_hashes, .. } => blob_versioned_hashes,
            _ => &[],
        }
    }
}

/// A transaction whose sender has been recovered from its signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveredTransaction {
    /// The transaction.
    pub transaction: Arc<Transaction>,
    /// The recovered signer.
    pub sender: Address,
}
