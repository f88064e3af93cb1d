//! Requests for a signature.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};
use tenon_api::{Transaction, TransactionPayload};

/// A client's request for a signature.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The client, by the name that the service's settings give it.
    pub client: String,
    /// The account whose key signs.
    pub account: Address,
    /// What to sign.
    pub subject: Subject,
}

/// What a request asks to sign.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// An unsigned transaction.
    Transaction {
        /// Its fields. A transaction without a chain id is never signed.
        transaction: Box<Transaction>,
        /// The hash to sign.
        hash: B256,
    },
    /// A message (EIP-191).
    Message(Bytes),
    /// Typed data (EIP-712).
    TypedData(Box<TypedMessage>),
    /// Bytes whose meaning is unknown: their hash is signed.
    Raw(Bytes),
    /// A consensus message.
    Validator(ValidatorMessage),
}

/// Kinds of subjects, as a policy names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A transaction.
    Transaction,
    /// A message.
    Message,
    /// Typed data.
    TypedData,
    /// Bytes whose meaning is unknown.
    Raw,
    /// The seal of a block.
    Seal,
    /// A vote for a block.
    Vote,
    /// A timeout of a round.
    Timeout,
    /// Certificates for a peer that is behind.
    SyncInfo,
}

/// Typed data, reduced to what rules check and people read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedMessage {
    /// The domain.
    pub domain: Domain,
    /// Name of the structure that is signed.
    pub primary_type: String,
    /// The hash to sign.
    pub hash: B256,
    /// The message's members in order, as text.
    pub members: Vec<(String, String)>,
}

/// A typed-data domain. Missing standard members are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domain {
    /// Name of the program.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Chain id.
    pub chain_id: Option<U256>,
    /// The contract that verifies the signature.
    pub contract: Option<Address>,
    /// All other hashed members, as text: `salt`, custom members, and standard ones of an unusual form.
    pub others: Vec<(String, String)>,
}

/// A consensus message (`docs/spec/consensus.md` 5 to 7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatorMessage {
    /// Seal, vote, timeout or sync info.
    pub kind: Kind,
    /// Chain id.
    pub chain_id: u64,
    /// Round.
    pub round: u64,
    /// Height of the block, if the message has one.
    pub number: Option<u64>,
    /// The hash to sign.
    pub hash: B256,
}

impl Request {
    /// The kind of its subject.
    pub fn kind(&self) -> Kind {
        match &self.subject {
            Subject::Transaction { .. } => Kind::Transaction,
            Subject::Message(_) => Kind::Message,
            Subject::TypedData(_) => Kind::TypedData,
            Subject::Raw(_) => Kind::Raw,
            Subject::Validator(message) => message.kind,
        }
    }

    /// The most that the request can spend: value and maximum fee in wei, each saturating at 2^256 - 1.
    pub fn cost(&self) -> (U256, U256) {
        match &self.subject {
            Subject::Transaction { transaction, .. } => (transaction.value, max_fee(transaction)),
            _ => (U256::ZERO, U256::ZERO),
        }
    }
}

/// The most that a transaction can pay for gas, wei.
pub(crate) fn max_fee(transaction: &Transaction) -> U256 {
    let gas = U256::from(transaction.gas_limit);
    let price = match &transaction.payload {
        TransactionPayload::Legacy { gas_price } | TransactionPayload::AccessList { gas_price, .. } => *gas_price,
        TransactionPayload::DynamicFee { max_fee_per_gas, .. }
        | TransactionPayload::Blob { max_fee_per_gas, .. }
        | TransactionPayload::SetCode { max_fee_per_gas, .. } => *max_fee_per_gas,
    };
    gas.saturating_mul(price)
}
