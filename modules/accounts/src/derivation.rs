//! Key derivation from a mnemonic: BIP-39 for the seed, BIP-32 along the path of BIP-44.
//!
//! `coins-bip39` checks the words and stretches them to the seed. The derivation is implemented here so that its
//! intermediate secrets can be wiped: a chain code and a parent key are as valuable as the child key.

use coins_bip39::{English, Mnemonic};
use hmac::{Hmac, KeyInit as _, Mac};
use secp256k1::{PublicKey, Scalar, SecretKey};
use sha2::Sha512;
use zeroize::Zeroizing;

use crate::{AccountsError, key::Key};

/// The first number of the hardened range.
const HARDENED: u32 = 0x8000_0000;
/// `m/44'/60'`: Ethereum's coin.
const BASE_PATH: [u32; 2] = [44 | HARDENED, 60 | HARDENED];
/// HMAC key for the seed, from BIP-32.
const MASTER_KEY: &[u8] = b"Bitcoin seed";

/// A BIP-32 private node: key and chain code.
struct Node {
    key: Zeroizing<[u8; 32]>,
    chain_code: Zeroizing<[u8; 32]>,
}

/// The first `count` keys on `m/44'/60'/account'/0/i`: the external chain of an account.
pub(crate) fn keys(phrase: &str, account: u32, count: u32) -> Result<Vec<Key>, AccountsError> {
    // The library's errors repeat the words, so they are not passed on.
    let phrase = Zeroizing::new(phrase.split_whitespace().collect::<Vec<_>>().join(" "));
    let mnemonic = Mnemonic::<English>::new_from_phrase(&phrase).map_err(|_| AccountsError::InvalidMnemonic)?;
    let seed = Zeroizing::new(mnemonic.to_seed(None).map_err(|_| AccountsError::InvalidMnemonic)?);
    let mut base = split(&hash(MASTER_KEY, &[seed.as_slice()]));
    for index in BASE_PATH.into_iter().chain([account | HARDENED, 0]) {
        base = child(&base, index).ok_or(AccountsError::InvalidMnemonic)?;
    }
    (0..count)
        .map(|index| {
            let node = child(&base, index).ok_or(AccountsError::InvalidKey { index })?;
            Key::from_secret(node.key).ok_or(AccountsError::InvalidKey { index })
        })
        .collect()
}

/// The private child of BIP-32; `None` if the result is not a valid key.
fn child(parent: &Node, index: u32) -> Option<Node> {
    let mut secret = SecretKey::from_byte_array(*parent.key).ok()?;
    let digest = if index & HARDENED != 0 {
        hash(parent.chain_code.as_slice(), &[&[0], parent.key.as_slice(), &index.to_be_bytes()])
    } else {
        let public = PublicKey::from_secret_key_global(&secret).serialize();
        hash(parent.chain_code.as_slice(), &[&public, &index.to_be_bytes()])
    };
    let mut node = split(&digest);
    let derived = Scalar::from_be_bytes(*node.key).ok().and_then(|tweak| secret.add_tweak(&tweak).ok());
    secret.non_secure_erase();
    let mut derived = derived?;
    node.key = Zeroizing::new(derived.secret_bytes());
    derived.non_secure_erase();
    Some(node)
}

fn hash(key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; 64]> {
    // HMAC accepts a key of any length; the error type exists for other MACs.
    let Ok(mut mac) = Hmac::<Sha512>::new_from_slice(key) else { return Zeroizing::new([0; 64]) };
    for part in parts {
        mac.update(part);
    }
    Zeroizing::new(mac.finalize().into_bytes().into())
}

fn split(digest: &[u8; 64]) -> Node {
    let mut node = Node { key: Zeroizing::new([0; 32]), chain_code: Zeroizing::new([0; 32]) };
    node.key.copy_from_slice(&digest[..32]);
    node.chain_code.copy_from_slice(&digest[32..]);
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derives_the_first_vector_of_bip_32() {
        let seed: Vec<u8> = (0..16).collect();
        let master = split(&hash(MASTER_KEY, &[&seed]));
        let child = child(&master, HARDENED).unwrap();

        let hex = alloy_primitives::hex::encode(*master.key);
        assert_eq!(hex, "e8f32e723decf4051aefac8e2c93c9c5b214313817cdb01a1494b917c8436b35");
        let hex = alloy_primitives::hex::encode(*child.key);
        assert_eq!(hex, "edb2e14f9ee77d26dd93b4ecede8d16ed408ce149b6cd80b0715a2d911a0afea");
        let hex = alloy_primitives::hex::encode(*child.chain_code);
        assert_eq!(hex, "47fdacbd0f1097043b78c63c20c34ef4ed9a111d980047ad16282c7ae6236141");
    }
}
