//! Accounts with known keys, and transactions that they sign.
#![allow(clippy::unwrap_used, reason = "keys and signatures made here are valid")]

use alloy_primitives::keccak256;
use secp256k1::{Message, PublicKey, SECP256K1, SecretKey};
use tenon_api::{Address, B256, Bytes, OwnAccounts, Transaction, TransactionPayload, TransactionSignature, U256};

/// Chain id of the transactions.
pub const CHAIN_ID: u64 = 31337;

/// The secret key of test account `index`.
fn secret(index: u8) -> SecretKey {
    SecretKey::from_byte_array([index + 1; 32]).unwrap()
}

/// The address of test account `index`.
pub fn address(index: u8) -> Address {
    let public = PublicKey::from_secret_key_global(&secret(index)).serialize_uncompressed();
    Address::from_slice(&keccak256(&public[1..])[12..])
}

/// A node with the key of one test account.
#[derive(Clone, Copy, Debug)]
pub struct KeysOf(pub u8);

impl OwnAccounts for KeysOf {
    fn has_key(&self, wanted: Address) -> bool {
        address(self.0) == wanted
    }

    fn signer_of(&self, _: B256) -> Option<Address> {
        None
    }
}

/// A transfer with a tip cap of `tip` and a fee cap of `fee`, to be changed before it is signed.
pub fn transfer(nonce: u64, fee: u64, tip: u64) -> Transaction {
    Transaction {
        hash: B256::ZERO,
        chain_id: Some(CHAIN_ID),
        nonce,
        gas_limit: 21_000,
        to: Some(Address::repeat_byte(9)),
        value: U256::ZERO,
        input: Bytes::new(),
        payload: TransactionPayload::DynamicFee {
            max_fee_per_gas: U256::from(fee),
            max_priority_fee_per_gas: U256::from(tip),
            access_list: Vec::new(),
        },
        signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
    }
}

/// Signs with the key of test account `index`.
pub fn sign(index: u8, mut transaction: Transaction) -> Transaction {
    let hash = tenon_chain::signing_hash(&transaction);
    let signature = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(hash.0), &secret(index));
    let (recovery, bytes) = signature.serialize_compact();
    let parity = u64::try_from(i32::from(recovery)).unwrap();
    let v = match (&transaction.payload, transaction.chain_id) {
        (TransactionPayload::Legacy { .. }, Some(chain_id)) => 35 + 2 * chain_id + parity,
        (TransactionPayload::Legacy { .. }, None) => 27 + parity,
        _ => parity,
    };
    let (r, s) = (U256::from_be_slice(&bytes[..32]), U256::from_be_slice(&bytes[32..]));
    transaction.signature = TransactionSignature { v, r, s };
    transaction.hash = tenon_chain::transaction_hash(&transaction);
    transaction
}

/// Canonical bytes, signed by test account `index`.
pub fn signed(index: u8, transaction: Transaction) -> Vec<u8> {
    tenon_chain::encode_transaction(&sign(index, transaction))
}
