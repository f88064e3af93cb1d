//! What is asked to be signed.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};
use tenon_api::{Transaction, TransactionPayload};

/// What a client asks to be signed.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Who asks: the name that the service's settings give to the client.
    pub client: String,
    /// Whose key signs.
    pub account: Address,
    /// What is signed.
    pub subject: Subject,
}

/// What is signed.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A transaction, with its signature missing.
    Transaction {
        /// Its fields. Only transactions with a chain id are signed.
        transaction: Box<Transaction>,
        /// The hash to sign.
        hash: B256,
    },
    /// A message (EIP-191).
    Message(Bytes),
    /// Typed data (EIP-712).
    TypedData(Box<TypedMessage>),
    /// Bytes whose meaning is not known: their hash is signed.
    Raw(Bytes),
    /// A message of the consensus.
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
    /// Bytes whose meaning is not known.
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

/// Typed data as far as rules and people look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedMessage {
    /// The domain's members.
    pub domain: Domain,
    /// The structure that is signed.
    pub primary_type: String,
    /// The hash to sign.
    pub hash: B256,
    /// The message's members, in their order, as text.
    pub members: Vec<(String, String)>,
}

/// A typed-data domain. Standard members that are missing are `None`.
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
    /// The other members that are hashed, as text: `salt`, those of the program itself, and standard ones of an unusual form.
    pub others: Vec<(String, String)>,
}

/// A message of the consensus (`docs/spec/consensus.md` 5 to 7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidatorMessage {
    /// Which one: seal, vote, timeout or sync info.
    pub kind: Kind,
    /// Chain id.
    pub chain_id: u64,
    /// Round.
    pub round: u64,
    /// Height of the block, where there is one.
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

    /// What it can spend: value and highest fee, wei. Sums above 2^256 - 1 count as that.
    pub fn cost(&self) -> (U256, U256) {
        match &self.subject {
            Subject::Transaction { transaction, .. } => (transaction.value, max_fee(transaction)),
            _ => (U256::ZERO, U256::ZERO),
        }
    }
}

/// The most that a transaction can pay for its gas, wei.
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
