//! Keys of the simulated device: seed by BIP-39, derivation by BIP-32.

use alloy_primitives::{Address, keccak256};
use hmac::{Hmac, KeyInit as _, Mac};
use ripemd::Ripemd160;
use secp256k1::{Message, PublicKey, SECP256K1, Scalar, SecretKey};
use sha2::{Digest as _, Sha256, Sha512};
use tenon_proto::common::HdNodeType;
use zeroize::Zeroizing;

/// Offset of hardened indices.
pub(crate) const HARDENED: u32 = 0x8000_0000;

/// HMAC key for the master key in BIP-32.
const MASTER_KEY: &[u8] = b"Bitcoin seed";

/// Version bytes of an extended public key of the main network.
const XPUB_VERSION: [u8; 4] = [0x04, 0x88, 0xb2, 0x1e];

/// Number of PBKDF2 rounds in BIP-39.
const SEED_ROUNDS: u32 = 2048;

/// A BIP-39 seed.
pub(crate) type Seed = Zeroizing<[u8; 64]>;

/// Derives a seed from a mnemonic and a passphrase. The words are not checked.
pub(crate) fn seed(words: &str, passphrase: &str) -> Seed {
    let salt = Zeroizing::new(format!("mnemonic{passphrase}"));
    let mut seed = Zeroizing::new([0; 64]);
    pbkdf2::pbkdf2_hmac::<Sha512>(words.as_bytes(), salt.as_bytes(), SEED_ROUNDS, seed.as_mut_slice());
    seed
}

/// A key with the data from which BIP-32 derives its children.
#[derive(Clone)]
pub(crate) struct Node {
    secret: SecretKey,
    chain_code: [u8; 32],
    depth: u8,
    parent_fingerprint: u32,
    child_number: u32,
}

/// A signature with the bit for public key recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature {
    pub(crate) r: [u8; 32],
    pub(crate) s: [u8; 32],
    pub(crate) recovery_bit: u8,
}

impl Signature {
    /// Encodes as `r ‖ s ‖ 27 + bit`.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [&self.r[..], &self.s, &[27 + self.recovery_bit]].concat()
    }
}

impl Node {
    /// The key at the end of a path. `None` if a derived number is not a valid key, with a probability of 2^-127.
    pub(crate) fn at(seed: &Seed, path: &[u32]) -> Option<Self> {
        let digest = hmac_sha512(MASTER_KEY, &[seed.as_slice()]);
        let (secret, chain_code) = split(&digest);
        let secret = SecretKey::from_byte_array(*secret).ok()?;
        let master = Self { secret, chain_code, depth: 0, parent_fingerprint: 0, child_number: 0 };
        path.iter().try_fold(master, |node, index| node.child(*index))
    }

    fn child(&self, index: u32) -> Option<Self> {
        let public = self.public_key();
        let digest = if index & HARDENED != 0 {
            let secret = Zeroizing::new(self.secret.secret_bytes());
            hmac_sha512(&self.chain_code, &[&[0], secret.as_slice(), &index.to_be_bytes()])
        } else {
            hmac_sha512(&self.chain_code, &[&public, &index.to_be_bytes()])
        };
        let (tweak, chain_code) = split(&digest);
        let secret = self.secret.add_tweak(&Scalar::from_be_bytes(*tweak).ok()?).ok()?;
        let depth = self.depth.checked_add(1)?;
        Some(Self { secret, chain_code, depth, parent_fingerprint: fingerprint(&public), child_number: index })
    }

    /// The compressed public key.
    fn public_key(&self) -> [u8; 33] {
        PublicKey::from_secret_key(SECP256K1, &self.secret).serialize()
    }

    pub(crate) fn address(&self) -> Address {
        let public = PublicKey::from_secret_key(SECP256K1, &self.secret).serialize_uncompressed();
        Address::from_slice(&keccak256(&public[1..])[12..])
    }

    /// Signs with a nonce by RFC 6979 and an s in the lower half.
    pub(crate) fn sign(&self, hash: [u8; 32]) -> Signature {
        let signature = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(hash), &self.secret);
        let (id, compact) = signature.serialize_compact();
        let mut made = Signature { r: [0; 32], s: [0; 32], recovery_bit: i32::from(id) as u8 & 1 };
        made.r.copy_from_slice(&compact[..32]);
        made.s.copy_from_slice(&compact[32..]);
        made
    }

    /// The public part, in the form of a message.
    pub(crate) fn to_message(&self) -> HdNodeType {
        let mut node = HdNodeType::default();
        node.depth = Some(u32::from(self.depth));
        node.fingerprint = Some(self.parent_fingerprint);
        node.child_num = Some(self.child_number);
        node.chain_code = Some(self.chain_code.to_vec());
        node.public_key = Some(self.public_key().to_vec());
        node
    }

    /// The extended public key as text.
    pub(crate) fn xpub(&self) -> String {
        let mut bytes = XPUB_VERSION.to_vec();
        bytes.push(self.depth);
        bytes.extend(self.parent_fingerprint.to_be_bytes());
        bytes.extend(self.child_number.to_be_bytes());
        bytes.extend(self.chain_code);
        bytes.extend(self.public_key());
        bs58::encode(bytes).with_check().into_string()
    }
}

/// The first four bytes of HASH160.
fn fingerprint(public_key: &[u8; 33]) -> u32 {
    let digest = Ripemd160::digest(Sha256::digest(public_key));
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}

/// The checksummed address. On the two coin types of RSK, the checksum includes the chain id.
pub(crate) fn checksummed(address: Address, path: &[u32]) -> String {
    let chain_id = match path.get(1).map(|element| element & !HARDENED) {
        Some(137) => Some(30),
        Some(37310) => Some(31),
        _ => None,
    };
    address.to_checksum(chain_id)
}

/// HMAC-SHA256, which session states use to prove a passphrase.
pub(crate) fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    // Never fails: HMAC accepts keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

fn hmac_sha512(key: &[u8], parts: &[&[u8]]) -> Zeroizing<[u8; 64]> {
    let Ok(mut mac) = Hmac::<Sha512>::new_from_slice(key) else { return Zeroizing::new([0; 64]) };
    parts.iter().for_each(|part| mac.update(part));
    Zeroizing::new(mac.finalize().into_bytes().into())
}

fn split(digest: &[u8; 64]) -> (Zeroizing<[u8; 32]>, [u8; 32]) {
    let (mut left, mut right) = (Zeroizing::new([0; 32]), [0; 32]);
    left.copy_from_slice(&digest[..32]);
    right.copy_from_slice(&digest[32..]);
    (left, right)
}
