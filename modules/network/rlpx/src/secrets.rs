//! The secrets of a connection, and its running MACs (`docs/spec/p2p.md` 6.3, 7).

use aes::Aes256;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use alloy_primitives::{B256, Keccak256};
use zeroize::Zeroizing;

/// The secrets that both sides have derived.
pub(crate) struct Secrets {
    /// Key of the cipher.
    pub(crate) aes: Zeroizing<[u8; 32]>,
    /// The MAC of frames that the initiator sends.
    pub(crate) initiator_mac: RunningMac,
    /// The MAC of frames that the responder sends.
    pub(crate) responder_mac: RunningMac,
}

/// The inputs of the derivation.
pub(crate) struct Agreement<'a> {
    /// X coordinate of the point shared by the two ephemeral keys.
    pub(crate) ecdhe: &'a [u8; 32],
    pub(crate) initiator_nonce: &'a [u8; 32],
    pub(crate) responder_nonce: &'a [u8; 32],
    /// The packets as sent, with their size prefixes.
    pub(crate) auth: &'a [u8],
    pub(crate) ack: &'a [u8],
}

fn hash_of_two(first: &[u8], second: &[u8]) -> Zeroizing<[u8; 32]> {
    let mut hasher = Keccak256::new();
    hasher.update(first);
    hasher.update(second);
    let mut hash = Zeroizing::new([0; 32]);
    hasher.finalize_into(hash.as_mut_slice());
    hash
}

impl Secrets {
    pub(crate) fn derive(agreement: &Agreement<'_>) -> Self {
        let nonces = hash_of_two(agreement.responder_nonce, agreement.initiator_nonce);
        let shared = hash_of_two(agreement.ecdhe, nonces.as_slice());
        let aes = hash_of_two(agreement.ecdhe, shared.as_slice());
        let mac = hash_of_two(agreement.ecdhe, aes.as_slice());
        let initiator_mac = RunningMac::new(&mac, agreement.responder_nonce, agreement.auth);
        let responder_mac = RunningMac::new(&mac, agreement.initiator_nonce, agreement.ack);
        Self { aes, initiator_mac, responder_mac }
    }
}

/// A MAC over everything sent in one direction. The state is not wiped: it reveals no key.
pub(crate) struct RunningMac {
    state: Keccak256,
    cipher: Aes256,
}

impl RunningMac {
    fn new(mac: &[u8; 32], nonce: &[u8; 32], packet: &[u8]) -> Self {
        let mut state = Keccak256::new();
        let seed: Zeroizing<[u8; 32]> = Zeroizing::new(std::array::from_fn(|index| mac[index] ^ nonce[index]));
        state.update(seed.as_slice());
        state.update(packet);
        Self { state, cipher: Aes256::new(mac.into()) }
    }

    /// The digest of everything so far.
    pub(crate) fn digest(&self) -> B256 {
        self.state.clone().finalize()
    }

    /// The MAC of a header.
    pub(crate) fn header(&mut self, encrypted: &[u8; 16]) -> [u8; 16] {
        self.step(encrypted)
    }

    /// The MAC of a body.
    pub(crate) fn body(&mut self, encrypted: &[u8]) -> [u8; 16] {
        self.state.update(encrypted);
        let seed = first_half(&self.digest());
        self.step(&seed)
    }

    fn step(&mut self, seed: &[u8; 16]) -> [u8; 16] {
        let mut block = first_half(&self.digest()).into();
        self.cipher.encrypt_block(&mut block);
        let mixed: [u8; 16] = std::array::from_fn(|index| block[index] ^ seed[index]);
        self.state.update(mixed);
        first_half(&self.digest())
    }
}

fn first_half(hash: &B256) -> [u8; 16] {
    std::array::from_fn(|index| hash[index])
}
