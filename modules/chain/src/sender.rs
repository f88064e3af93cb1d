//! Recovers the sender of a transaction, and checks the signature rules of its height.

use alloy_primitives::{Address, B256, U256, uint};
use rayon::prelude::*;
use tenon_api::{Block, RecoveredBlock, SignedAuthorization, Transaction, TransactionType, messages::SenderProblem};
use tenon_recovery::{RecoveryError, Signature};

use crate::codec::{authorization_signing_hash, signing_hash};

/// Half of the group order: the maximum `s` from Homestead on (EIP-2).
const HALF_ORDER: U256 = uint!(0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0_U256);

/// Minimum number of signatures that are recovered in parallel: for fewer, handing the work over costs more than it
/// saves.
const PARALLEL_FROM: usize = 4;

/// A hash and its signature, for `tenon_recovery`.
pub type SignedHash = ([u8; 32], Signature);

/// Why a transaction has no valid sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// `v`, `r` or `s` is out of range, or `s` is high and only low is allowed.
    #[error("invalid transaction v, r, s values")]
    InvalidSignature,
    /// The numbers are in range but match no public key.
    #[error("invalid public key")]
    InvalidPublicKey,
    /// It was signed for another chain.
    #[error("invalid chain id for signer: have {found} want {wanted}")]
    WrongChain {
        /// The transaction's chain id.
        found: u64,
        /// This chain's id.
        wanted: u64,
    },
    /// Its type is not active at this height.
    #[error("transaction type not supported")]
    UnsupportedType {
        /// The type.
        found: TransactionType,
    },
}

impl From<RecoveryError> for RecoverError {
    fn from(error: RecoveryError) -> Self {
        match error {
            RecoveryError::RecoveryId | RecoveryError::OutOfRange => Self::InvalidSignature,
            RecoveryError::NoPublicKey => Self::InvalidPublicKey,
        }
    }
}

impl From<RecoverError> for SenderProblem {
    fn from(error: RecoverError) -> Self {
        match error {
            RecoverError::InvalidSignature => Self::InvalidSignature,
            RecoverError::InvalidPublicKey => Self::InvalidPublicKey,
            RecoverError::WrongChain { found, wanted } => Self::WrongChain { found, wanted },
            RecoverError::UnsupportedType { .. } => Self::UnsupportedType,
        }
    }
}

/// Whether a signature's `s` may be in the upper half of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HighS {
    /// Frontier.
    Allowed,
    /// From Homestead on, and always for typed transactions.
    Refused,
}

/// The signature rules of one height (`docs/spec/chain.md` 2.3, EIP-155, EIP-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignerRules {
    /// The chain id that a protected transaction must have.
    pub chain_id: u64,
    /// Upper half of `s`.
    pub high_s: HighS,
    /// Whether protected transactions of type 0 are active.
    pub replay_protection: bool,
    /// The highest active transaction type.
    pub highest_type: TransactionType,
    /// Whether blob transactions are among the active types; native chains never have them.
    pub allows_blobs: bool,
}

impl SignerRules {
    /// Recovers the sender of a transaction that follows the rules.
    ///
    /// # Errors
    /// [`RecoverError`].
    pub fn sender(&self, transaction: &Transaction) -> Result<Address, RecoverError> {
        let (hash, signature) = self.signed_hash(transaction)?;
        Ok(tenon_recovery::recover(&hash, &signature)?)
    }

    /// Returns whether transactions of a type may be in a block.
    pub fn is_active(&self, transaction_type: TransactionType) -> bool {
        transaction_type <= self.highest_type && (self.allows_blobs || transaction_type != TransactionType::Blob)
    }

    /// Checks everything except the signature itself, and returns the input for recovering its signer.
    ///
    /// # Errors
    /// [`RecoverError`].
    pub fn signed_hash(&self, transaction: &Transaction) -> Result<SignedHash, RecoverError> {
        let transaction_type = transaction.transaction_type();
        if !self.is_active(transaction_type) {
            return Err(RecoverError::UnsupportedType { found: transaction_type });
        }
        match transaction.chain_id {
            Some(found) if found != self.chain_id => {
                return Err(RecoverError::WrongChain { found, wanted: self.chain_id });
            }
            Some(_) if !self.replay_protection => return Err(RecoverError::InvalidSignature),
            _ => {}
        }
        signed_hash_of(transaction, self.high_s)
    }
}

/// Recovers a transaction's sender; rejects a high `s`.
///
/// # Errors
/// [`RecoverError::InvalidSignature`], [`RecoverError::InvalidPublicKey`].
pub fn recover_sender(transaction: &Transaction) -> Result<Address, RecoverError> {
    recover_sender_with(transaction, HighS::Refused)
}

/// Recovers a transaction's sender under a rule for high `s`.
///
/// # Errors
/// See [`recover_sender`].
pub fn recover_sender_with(transaction: &Transaction, high_s: HighS) -> Result<Address, RecoverError> {
    let (hash, signature) = signed_hash_of(transaction, high_s)?;
    Ok(tenon_recovery::recover(&hash, &signature)?)
}

/// The input for recovering a transaction's sender, if its `s` is allowed.
///
/// # Errors
/// [`RecoverError::InvalidSignature`].
pub fn signed_hash_of(transaction: &Transaction, high_s: HighS) -> Result<SignedHash, RecoverError> {
    let signature = &transaction.signature;
    let parity = signature.y_parity(transaction.transaction_type()).ok_or(RecoverError::InvalidSignature)?;
    signed_hash(signing_hash(transaction), parity, signature.r, signature.s, high_s)
}

/// Recovers the signers of authorizations (EIP-7702) in one batch.
pub fn recover_authorities(authorizations: &[SignedAuthorization]) -> Vec<Result<Address, RecoverError>> {
    recover_all(authorizations, |authorization| {
        let parity = match authorization.y_parity {
            0 => false,
            1 => true,
            _ => return Err(RecoverError::InvalidSignature),
        };
        let hash = authorization_signing_hash(authorization);
        signed_hash(hash, parity, authorization.r, authorization.s, HighS::Refused)
    })
}

/// The input for recovering a signature, if its `s` is allowed.
///
/// # Errors
/// [`RecoverError::InvalidSignature`].
pub fn signed_hash(hash: B256, y_parity: bool, r: U256, s: U256, high_s: HighS) -> Result<SignedHash, RecoverError> {
    if high_s == HighS::Refused && s > HALF_ORDER {
        return Err(RecoverError::InvalidSignature);
    }
    let recovery_id = u8::from(y_parity);
    Ok((hash.0, Signature { r: r.to_be_bytes(), s: s.to_be_bytes(), recovery_id }))
}

/// Recovers the signers of all items in one batch on the caller's thread.
fn recover_all<T>(
    items: &[T],
    signed_hash: impl Fn(&T) -> Result<SignedHash, RecoverError>,
) -> Vec<Result<Address, RecoverError>> {
    let checked: Vec<_> = items.iter().map(signed_hash).collect();
    let signatures: Vec<SignedHash> = checked.iter().flatten().copied().collect();
    let mut recovered = tenon_recovery::recover_batch(&signatures).into_iter();
    let signer = |checked: Result<SignedHash, RecoverError>| {
        checked?;
        // There is one result for each signature.
        Ok(recovered.next().unwrap_or(Err(RecoveryError::NoPublicKey))?)
    };
    checked.into_iter().map(signer).collect()
}

/// Recovers the senders of transactions under the rules of their heights, in order. The work is split over the threads
/// of the caller's pool in parts of at least `part`: small parts finish sooner, large ones cost less in total.
pub fn recover_senders_of(
    transactions: &[(&SignerRules, &Transaction)],
    part: usize,
) -> Vec<Result<Address, RecoverError>> {
    recover_in_parts(transactions, part, |(rules, transaction)| rules.signed_hash(transaction))
}

fn recover_in_parts<T: Sync>(
    items: &[T],
    part: usize,
    signed_hash: impl Fn(&T) -> Result<SignedHash, RecoverError> + Sync,
) -> Vec<Result<Address, RecoverError>> {
    let part = tenon_recovery::part_size(items.len().div_ceil(rayon::current_num_threads()).max(part));
    if items.len() <= part || items.len() < PARALLEL_FROM {
        return recover_all(items, signed_hash);
    }
    items.par_chunks(part).flat_map_iter(|items| recover_all(items, &signed_hash)).collect()
}

/// Recovers all senders of a block on all cores; rejects a high `s`.
///
/// # Errors
/// The error of the first transaction without a sender.
pub fn recover_senders(block: Block) -> Result<RecoveredBlock, RecoverError> {
    recover_senders_with(block, |transaction| signed_hash_of(transaction, HighS::Refused))
}

/// Recovers all senders of a block on all cores, under the rules of its height.
///
/// # Errors
/// The error of the first transaction that breaks them.
pub fn recover_senders_under(block: Block, rules: &SignerRules) -> Result<RecoveredBlock, RecoverError> {
    recover_senders_with(block, |transaction| rules.signed_hash(transaction))
}

fn recover_senders_with(
    block: Block,
    signed_hash: impl Fn(&Transaction) -> Result<SignedHash, RecoverError> + Sync,
) -> Result<RecoveredBlock, RecoverError> {
    let senders = recover_in_parts(&block.transactions, 1, |transaction| signed_hash(transaction));
    let senders = senders.into_iter().collect::<Result<_, _>>()?;
    Ok(RecoveredBlock { block, senders })
}
