//! Who signed a transaction, and whether the rules of its height let such a signature stand.

use alloy_primitives::{Address, B256, U256, keccak256, uint};
use rayon::prelude::*;
use secp256k1::ecdsa::{RecoverableSignature, RecoveryId};
use secp256k1::{Message, SECP256K1};
use tenon_api::{Block, RecoveredBlock, SignedAuthorization, Transaction, TransactionType};

use crate::codec::{authorization_signing_hash, signing_hash};

/// Half of the group order: the largest `s` from Homestead on (EIP-2).
const HALF_ORDER: U256 = uint!(0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0_U256);

/// Blocks with fewer transactions are recovered on the caller's thread: handing work over costs more.
const PARALLEL_FROM: usize = 4;

/// Why a transaction has no valid sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoverError {
    /// `v`, `r` or `s` is out of range, or `s` is high where only low is allowed.
    #[error("invalid transaction v, r, s values")]
    InvalidSignature,
    /// The numbers are in range but no public key belongs to them.
    #[error("invalid public key")]
    InvalidPublicKey,
    /// It was signed for another chain.
    #[error("invalid chain id for signer: have {found} want {wanted}")]
    WrongChain {
        /// The transaction's.
        found: u64,
        /// This chain's.
        wanted: u64,
    },
    /// Its type is not active at this height.
    #[error("transaction type not supported")]
    UnsupportedType {
        /// The type.
        found: TransactionType,
    },
}

/// Whether a signature's `s` may be in the upper half of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HighS {
    /// Frontier.
    Allowed,
    /// From Homestead on, and always for typed transactions.
    Refused,
}

/// Which transactions may be signed how, at one height (`docs/spec/chain.md` 2.3, EIP-155, EIP-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignerRules {
    /// The chain that a protected transaction must name.
    pub chain_id: u64,
    /// Upper half of `s`.
    pub high_s: HighS,
    /// Whether protected transactions of type 0 are known yet.
    pub replay_protection: bool,
    /// The highest transaction type that is active.
    pub highest_type: TransactionType,
}

impl SignerRules {
    /// Recovers the sender of a transaction that obeys the rules.
    ///
    /// # Errors
    /// [`RecoverError`].
    pub fn sender(&self, transaction: &Transaction) -> Result<Address, RecoverError> {
        let transaction_type = transaction.transaction_type();
        if transaction_type > self.highest_type {
            return Err(RecoverError::UnsupportedType { found: transaction_type });
        }
        match transaction.chain_id {
            Some(found) if found != self.chain_id => {
                return Err(RecoverError::WrongChain { found, wanted: self.chain_id });
            }
            Some(_) if !self.replay_protection => return Err(RecoverError::InvalidSignature),
            _ => {}
        }
        recover_sender_with(transaction, self.high_s)
    }
}

/// Recovers a transaction's sender; a high `s` is refused.
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
    let signature = &transaction.signature;
    let parity = signature.y_parity(transaction.transaction_type()).ok_or(RecoverError::InvalidSignature)?;
    recover_signer(signing_hash(transaction), parity, signature.r, signature.s, high_s)
}

/// Recovers who signed a delegation (EIP-7702).
///
/// # Errors
/// See [`recover_sender`].
pub fn recover_authority(authorization: &SignedAuthorization) -> Result<Address, RecoverError> {
    let parity = match authorization.y_parity {
        0 => false,
        1 => true,
        _ => return Err(RecoverError::InvalidSignature),
    };
    let hash = authorization_signing_hash(authorization);
    recover_signer(hash, parity, authorization.r, authorization.s, HighS::Refused)
}

/// Recovers the address whose key signed `hash`.
///
/// # Errors
/// See [`recover_sender`].
pub fn recover_signer(hash: B256, y_parity: bool, r: U256, s: U256, high_s: HighS) -> Result<Address, RecoverError> {
    if high_s == HighS::Refused && s > HALF_ORDER {
        return Err(RecoverError::InvalidSignature);
    }
    let mut compact = [0; 64];
    compact[..32].copy_from_slice(&r.to_be_bytes::<32>());
    compact[32..].copy_from_slice(&s.to_be_bytes::<32>());
    let recovery_id = if y_parity { RecoveryId::One } else { RecoveryId::Zero };
    // The library refuses numbers beyond the group order here, and zero in the recovery.
    let signature =
        RecoverableSignature::from_compact(&compact, recovery_id).map_err(|_| RecoverError::InvalidSignature)?;
    if r.is_zero() || s.is_zero() {
        return Err(RecoverError::InvalidSignature);
    }
    let key = SECP256K1
        .recover_ecdsa(Message::from_digest(hash.0), &signature)
        .map_err(|_| RecoverError::InvalidPublicKey)?;
    let public = key.serialize_uncompressed();
    Ok(Address::from_slice(&keccak256(&public[1..])[12..]))
}

/// Recovers all senders of a block, in parallel; a high `s` is refused.
///
/// # Errors
/// The error of one of the transactions that have none.
pub fn recover_senders(block: Block) -> Result<RecoveredBlock, RecoverError> {
    recover_senders_with(block, recover_sender)
}

/// Recovers all senders of a block, in parallel, under the rules of its height.
///
/// # Errors
/// The error of one of the transactions that break them.
pub fn recover_senders_under(block: Block, rules: &SignerRules) -> Result<RecoveredBlock, RecoverError> {
    recover_senders_with(block, |transaction| rules.sender(transaction))
}

fn recover_senders_with(
    block: Block,
    recover: impl Fn(&Transaction) -> Result<Address, RecoverError> + Sync,
) -> Result<RecoveredBlock, RecoverError> {
    let senders = if block.transactions.len() < PARALLEL_FROM {
        block.transactions.iter().map(|transaction| recover(transaction)).collect::<Result<Vec<_>, _>>()?
    } else {
        block.transactions.par_iter().map(|transaction| recover(transaction)).collect::<Result<Vec<_>, _>>()?
    };
    Ok(RecoveredBlock { block, senders })
}
