//! Secret keys and signatures.

use alloy_primitives::{eip191_hash_message, keccak256};
use secp256k1::{
    Message, PublicKey, SECP256K1, SecretKey,
    ecdsa::{RecoverableSignature, RecoveryId},
};
use tenon_api::{AccountRefusal, Address, B256, Bytes, U256};
use zeroize::Zeroizing;

use crate::AccountsError;

/// More than the stack use of the functions that handle keys by value; measured by the memory scan of
/// `tests/faults/test_secrets.py`.
const SCRUBBED_BYTES: usize = 32 * 1024;

/// A secret key and its address. The secret is wiped on drop.
#[derive(derive_more::Debug)]
#[debug("Key({address})")]
pub(crate) struct Key {
    /// Boxed, so that moving the key leaves no copy behind.
    secret: Box<Zeroizing<[u8; 32]>>,
    address: Address,
}

/// The address of a secret key; `None` if the number is not a valid key.
pub fn address_of_secret(secret: Zeroizing<[u8; 32]>) -> Option<Address> {
    Key::from_secret(secret).map(|key| key.address())
}

/// Overwrites the remains of earlier calls on this thread's stack. Keys that are passed and returned by value leave
/// copies there, which nothing else wipes.
#[inline(never)]
pub(crate) fn scrub_stack() {
    let mut area = [0_u8; SCRUBBED_BYTES];
    std::hint::black_box(&mut area);
}

/// Recovers the signer of a message in the form of EIP-191.
///
/// # Errors
/// [`AccountRefusal::SignatureLength`], [`AccountRefusal::SignatureParity`], [`AccountRefusal::NotRecovered`].
pub(crate) fn recover_signer(message: &[u8], signature: &[u8]) -> Result<Address, AccountsError> {
    let (compact, v) = match signature {
        [compact @ .., v] if compact.len() == 64 => (compact, *v),
        _ => return Err(AccountRefusal::SignatureLength.into()),
    };
    let parity = i32::from(v) - 27;
    if !matches!(parity, 0 | 1) {
        return Err(AccountRefusal::SignatureParity.into());
    }
    let failed = |_| AccountRefusal::NotRecovered;
    let id = RecoveryId::try_from(parity).map_err(failed)?;
    let signature = RecoverableSignature::from_compact(compact, id).map_err(failed)?;
    Ok(recover(eip191_hash_message(message), &signature).ok_or(AccountRefusal::NotRecovered)?)
}

fn recover(hash: B256, signature: &RecoverableSignature) -> Option<Address> {
    let public = SECP256K1.recover_ecdsa(Message::from_digest(hash.0), signature).ok()?;
    Some(address_of(&public))
}

/// The last 20 bytes of the hash of both coordinates.
fn address_of(public: &PublicKey) -> Address {
    // The first byte marks the uncompressed form.
    Address::from_slice(&keccak256(&public.serialize_uncompressed()[1..])[12..])
}

/// A signature over a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashSignature {
    /// r.
    pub r: U256,
    /// s, in the lower half.
    pub s: U256,
    /// The parity of the nonce's point.
    pub y_parity: bool,
}

impl Key {
    /// `None` if the number is not a valid secret key.
    pub(crate) fn from_secret(secret: Zeroizing<[u8; 32]>) -> Option<Self> {
        let mut key = SecretKey::from_byte_array(*secret).ok()?;
        let address = address_of(&PublicKey::from_secret_key_global(&key));
        key.non_secure_erase();
        Some(Self { secret: Box::new(secret), address })
    }

    pub(crate) const fn address(&self) -> Address {
        self.address
    }

    /// The public key: x and y.
    pub(crate) fn public_key(&self) -> Option<[u8; 64]> {
        let mut key = SecretKey::from_byte_array(**self.secret).ok()?;
        let public = PublicKey::from_secret_key_global(&key).serialize_uncompressed();
        key.non_secure_erase();
        public.last_chunk().copied()
    }

    pub(crate) fn secret(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::clone(&self.secret)
    }

    /// `0x` and 64 hexadecimal digits.
    pub(crate) fn reveal(&self) -> Zeroizing<String> {
        Zeroizing::new(alloy_primitives::hex::encode_prefixed(self.secret.as_slice()))
    }

    /// Signs deterministically (RFC 6979) with `s` in the lower half. Never `None` for a key from [`Key::from_secret`].
    pub(crate) fn sign(&self, hash: B256) -> Option<HashSignature> {
        let signature = self.sign_deeper(hash);
        scrub_stack();
        signature
    }

    #[inline(never)]
    fn sign_deeper(&self, hash: B256) -> Option<HashSignature> {
        let mut key = SecretKey::from_byte_array(**self.secret).ok()?;
        let signature = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(hash.0), &key);
        key.non_secure_erase();
        Some(HashSignature::from(&signature))
    }
}

impl HashSignature {
    /// The address whose key made this signature over a hash; `None` if no key did.
    pub fn signer_of(&self, hash: B256) -> Option<Address> {
        let compact = [self.r.to_be_bytes::<32>(), self.s.to_be_bytes::<32>()].concat();
        let id = RecoveryId::try_from(i32::from(self.y_parity)).ok()?;
        recover(hash, &RecoverableSignature::from_compact(&compact, id).ok()?)
    }

    /// `r ‖ s ‖ v` with `v` 27 or 28.
    pub fn to_message_bytes(self) -> Bytes {
        let mut bytes = Vec::with_capacity(65);
        bytes.extend_from_slice(&self.r.to_be_bytes::<32>());
        bytes.extend_from_slice(&self.s.to_be_bytes::<32>());
        bytes.push(27 + u8::from(self.y_parity));
        bytes.into()
    }

    /// `r ‖ s ‖ parity`, as in blocks of native chains.
    pub fn to_block_bytes(self) -> [u8; 65] {
        let mut bytes = [0; 65];
        bytes[..32].copy_from_slice(&self.r.to_be_bytes::<32>());
        bytes[32..64].copy_from_slice(&self.s.to_be_bytes::<32>());
        bytes[64] = u8::from(self.y_parity);
        bytes
    }
}

impl From<&RecoverableSignature> for HashSignature {
    fn from(signature: &RecoverableSignature) -> Self {
        let (recovery, bytes) = signature.serialize_compact();
        let (r, s) = bytes.split_at(32);
        Self { r: U256::from_be_slice(r), s: U256::from_be_slice(s), y_parity: i32::from(recovery) & 1 == 1 }
    }
}
