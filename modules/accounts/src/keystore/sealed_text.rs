//! Writing key files of version 3: `docs/spec/rpc-node.md` 6.4.

use alloy_primitives::hex;
use rand::{TryRngCore as _, rngs::OsRng};
use tenon_api::KeyFileProblem;
use zeroize::Zeroizing;

use super::{
    KeyDerivation, KeyFolderError,
    key_file::{apply_counter_cipher, checksum, first_half},
};
use crate::key::Key;

/// Random bytes that a new file needs.
struct Randomness {
    salt: [u8; 32],
    initial_vector: [u8; 16],
    id: [u8; 16],
}

impl Randomness {
    fn take() -> Result<Self, KeyFolderError> {
        let mut randomness = Self { salt: [0; 32], initial_vector: [0; 16], id: [0; 16] };
        fill_random(&mut randomness.salt)?;
        fill_random(&mut randomness.initial_vector)?;
        fill_random(&mut randomness.id)?;
        Ok(randomness)
    }
}

/// Fills with the system's random bytes.
pub(super) fn fill_random(bytes: &mut [u8]) -> Result<(), KeyFolderError> {
    OsRng.try_fill_bytes(bytes).map_err(|_| KeyFolderError::NoRandomness)
}

/// The text of a key file: one line, members in the reference's order. Blocks the thread for the time of the
/// derivation.
pub(super) fn seal(key: &Key, password: &[u8], derivation: KeyDerivation) -> Result<String, KeyFolderError> {
    let randomness = Randomness::take()?;
    Ok(text(key, password, derivation, &randomness)?)
}

fn text(
    key: &Key,
    password: &[u8],
    derivation: KeyDerivation,
    Randomness { salt, initial_vector, id }: &Randomness,
) -> Result<String, KeyFileProblem> {
    let derived = derivation.derive(password, salt)?;
    let mut ciphertext: Zeroizing<[u8; 32]> = key.secret();
    apply_counter_cipher(&first_half(&derived), initial_vector, ciphertext.as_mut_slice());
    let (kdf, parameters) = kdf_members(derivation, &hex::encode(salt));
    Ok(format!(
        "{{\"address\":\"{}\",\"crypto\":{{\"cipher\":\"aes-128-ctr\",\"ciphertext\":\"{}\",\"cipherparams\":{{\"iv\":\"{}\"}},\
         \"kdf\":\"{kdf}\",\"kdfparams\":{parameters},\"mac\":\"{}\"}},\"id\":\"{}\",\"version\":3}}",
        hex::encode(key.address()),
        hex::encode(ciphertext.as_slice()),
        hex::encode(initial_vector),
        hex::encode(checksum(&derived[16..], ciphertext.as_slice())),
        uuid_text(*id),
    ))
}

fn kdf_members(derivation: KeyDerivation, salt: &str) -> (&'static str, String) {
    match derivation {
        KeyDerivation::Scrypt { log_n, r, p } => {
            let n = 1_u64 << log_n;
            ("scrypt", format!("{{\"dklen\":32,\"n\":{n},\"p\":{p},\"r\":{r},\"salt\":\"{salt}\"}}"))
        }
        KeyDerivation::Pbkdf2 { rounds } => {
            ("pbkdf2", format!("{{\"c\":{rounds},\"dklen\":32,\"prf\":\"hmac-sha256\",\"salt\":\"{salt}\"}}"))
        }
    }
}

/// A random UUID (RFC 9562, version 4).
fn uuid_text(mut id: [u8; 16]) -> String {
    id[6] = id[6] & 0x0f | 0x40;
    id[8] = id[8] & 0x3f | 0x80;
    let digits = hex::encode(id);
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reproduces the scrypt vector of 6.4 from the same random bytes.
    #[test]
    fn writes_the_recorded_vector() {
        let secret = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d";
        let key = Key::from_secret(Zeroizing::new(hex::decode_to_array(secret).unwrap())).unwrap();
        let randomness = Randomness {
            salt: hex::decode_to_array("ab0c7876052600dd703518d6fc3fe8984592145b591fc8fb5c6d43190334ba19").unwrap(),
            initial_vector: hex::decode_to_array("83dbcc02d8ccb40e466191a123791e0e").unwrap(),
            id: [0xff; 16],
        };

        let derivation = KeyDerivation::Scrypt { log_n: 18, r: 1, p: 8 };
        let text = text(&key, b"testpassword", derivation, &randomness).unwrap();

        assert_eq!(
            text,
            "{\"address\":\"008aeeda4d805471df9b2a5b0f38a0c3bcba786b\",\"crypto\":{\"cipher\":\"aes-128-ctr\",\
             \"ciphertext\":\"d172bf743a674da9cdad04534d56926ef8358534d458fffccd4e6ad2fbde479c\",\"cipherparams\":\
             {\"iv\":\"83dbcc02d8ccb40e466191a123791e0e\"},\"kdf\":\"scrypt\",\"kdfparams\":{\"dklen\":32,\"n\":262144,\
             \"p\":8,\"r\":1,\"salt\":\"ab0c7876052600dd703518d6fc3fe8984592145b591fc8fb5c6d43190334ba19\"},\"mac\":\
             \"2103ac29920d71da29f15d75b4a16dbe95cfd7ff8faea1056c33131d846e3097\"},\"id\":\
             \"ffffffff-ffff-4fff-bfff-ffffffffffff\",\"version\":3}"
        );
    }
}
