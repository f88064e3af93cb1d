//! Public-key encryption of the handshake's packets (`docs/spec/p2p.md` 6.1).

use aes::Aes128;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use tenon_network_identity::{NodeId, NodeKey};
use zeroize::Zeroizing;

use crate::HandshakeError;

/// Bytes added by encryption: the point (65), the initial vector (16) and the MAC (32).
pub(crate) const OVERHEAD: usize = POINT + IV + TAG;
const POINT: usize = 65;
const IV: usize = 16;
const TAG: usize = 32;
/// First byte of an uncompressed point.
const UNCOMPRESSED: u8 = 4;

/// Keys of one packet.
struct Keys {
    cipher: Zeroizing<[u8; 16]>,
    mac: Zeroizing<[u8; 32]>,
}

impl Keys {
    /// One round of the concatenation key derivation function with SHA-256.
    fn derive(shared: &[u8; 32]) -> Self {
        let mut round = Zeroizing::new([0; 32]);
        round.copy_from_slice(&Sha256::new().chain_update([0, 0, 0, 1]).chain_update(shared).finalize());
        let mut keys = Self { cipher: Zeroizing::new([0; 16]), mac: Zeroizing::new([0; 32]) };
        keys.cipher.copy_from_slice(&round[..16]);
        keys.mac.copy_from_slice(&Sha256::digest(&round[16..]));
        keys
    }

    fn apply(&self, iv: &[u8; IV], data: &mut [u8]) {
        Ctr128BE::<Aes128>::new((&*self.cipher).into(), iv.into()).apply_keystream(data);
    }

    /// The unfinished MAC over the initial vector, the encrypted content and the shared information.
    fn mac(&self, authenticated: &[&[u8]]) -> Option<Hmac<Sha256>> {
        // HMAC accepts keys of any length, so this is never `None`.
        let mut mac = Hmac::<Sha256>::new_from_slice(self.mac.as_slice()).ok()?;
        authenticated.iter().for_each(|part| mac.update(part));
        Some(mac)
    }
}

/// Encrypts `message` for `receiver`, and authenticates it together with `shared_information`.
///
/// `ephemeral` and `iv` must be random and must not be reused.
pub(crate) fn encrypt(
    ephemeral: &NodeKey,
    iv: &[u8; IV],
    receiver: &NodeId,
    message: &[u8],
    shared_information: &[u8],
) -> Result<Vec<u8>, HandshakeError> {
    let keys = Keys::derive(&*ephemeral.shared_x(receiver)?);
    let mut out = Vec::with_capacity(OVERHEAD + message.len());
    out.push(UNCOMPRESSED);
    out.extend_from_slice(&ephemeral.id().0);
    out.extend_from_slice(iv);
    out.extend_from_slice(message);
    keys.apply(iv, &mut out[POINT + IV..]);
    let tag = keys.mac(&[&out[POINT..], shared_information]).ok_or(HandshakeError::Undecryptable)?;
    out.extend_from_slice(&tag.finalize().into_bytes());
    Ok(out)
}

/// Decrypts the output of [`encrypt`] with the receiver's `key`.
///
/// # Errors
/// [`HandshakeError::Undecryptable`], [`HandshakeError::Key`].
pub(crate) fn decrypt(
    key: &NodeKey,
    packet: &[u8],
    shared_information: &[u8],
) -> Result<Zeroizing<Vec<u8>>, HandshakeError> {
    let (UNCOMPRESSED, Some(content)) = (packet.first().copied().unwrap_or_default(), packet.get(POINT..)) else {
        return Err(HandshakeError::Undecryptable);
    };
    let (authenticated, tag) = content.split_last_chunk::<TAG>().ok_or(HandshakeError::Undecryptable)?;
    let (iv, encrypted) = authenticated.split_first_chunk::<IV>().ok_or(HandshakeError::Undecryptable)?;
    let mut point = [0; 64];
    point.copy_from_slice(&packet[1..POINT]);
    // Fails if the point is not on the curve.
    let keys = Keys::derive(&*key.shared_x(&NodeId(point))?);
    let mac = keys.mac(&[authenticated, shared_information]).ok_or(HandshakeError::Undecryptable)?;
    mac.verify_slice(tag).map_err(|_| HandshakeError::Undecryptable)?;
    let mut message = Zeroizing::new(encrypted.to_vec());
    keys.apply(iv, &mut message);
    Ok(message)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::hex;
    use tenon_network_identity::parse_key;

    use super::*;

    fn receiver() -> NodeKey {
        parse_key("b71c71a67e1177ad4e901695e1b4b9ee17ae16c6668d313eac2f96dbcda3f291").unwrap()
    }

    /// `docs/spec/p2p.md` 26.1.
    #[test]
    fn the_specifications_packet_is_encrypted_and_decrypted() {
        let ephemeral = parse_key("869d6ecf5211f1cc60418a13b9d870b22959d0c16f02bec714c960dd2298a32d").unwrap();
        let iv: [u8; 16] = std::array::from_fn(|index| index as u8);

        let packet = encrypt(&ephemeral, &iv, &receiver().id(), b"hello", &[0x12, 0x34]).unwrap();

        assert_eq!(
            hex::encode(&packet),
            "04654d1044b69c577a44e5f01a1209523adb4026e70c62d1c13a067acabc09d2667a49821a0ad4b634554d330a15a58fe61f8a8e0544b310c6de7b0c8da7528a\
             8d000102030405060708090a0b0c0d0e0fbba4b8aaca1df002966a46e6d964ebd20131d47e52aaab873515edf009a7904b356fa408f9"
        );
        assert_eq!(decrypt(&receiver(), &packet, &[0x12, 0x34]).unwrap().as_slice(), b"hello");
        assert_eq!(decrypt(&receiver(), &packet, &[]).err(), Some(HandshakeError::Undecryptable));
        for position in 0..packet.len() {
            let mut changed = packet.clone();
            changed[position] ^= 1;
            assert!(decrypt(&receiver(), &changed, &[0x12, 0x34]).is_err(), "byte {position}");
            assert!(decrypt(&receiver(), &packet[..position], &[0x12, 0x34]).is_err(), "cut at {position}");
        }
    }
}
