//! Reading key files: `docs/spec/rpc-node.md` 6.4.

use aes::{
    Aes128,
    cipher::{BlockModeDecrypt as _, KeyIvInit as _, StreamCipher as _, block_padding::Pkcs7},
};
use alloy_primitives::{Address, keccak256};
use hmac::Hmac;
use serde_json::Value;
use sha2::Sha256;
use tenon_api::KeyFileProblem;
use zeroize::Zeroizing;

use super::{
    CostLimits, KeyDerivation,
    members::{Members, bytes, exact_bytes, member, number, object, required, string},
};
use crate::key::Key;

/// Maximum length of a key file. Wallets write at most some 2 KiB.
pub const MAX_KEY_FILE_BYTES: usize = 64 << 10;
/// Bytes of a secret key.
const KEY_BYTES: usize = 32;
/// Minimum length of a derived key: 16 bytes for the cipher, 16 for the checksum.
const MIN_DERIVED_LENGTH: u64 = 32;
const AES_BLOCK: usize = 16;
const PRESALE_ROUNDS: u32 = 2000;
/// Maximum number of characters that an error quotes from a file.
const SHOWN_LETTERS: usize = 32;

const NO_INITIAL_VECTOR: &str = "does not have 16 bytes";
const NO_CHECKSUM: &str = "does not have 32 bytes";

type Aes128Ctr = ctr::Ctr128BE<Aes128>;
type Aes128CbcDecryptor = cbc::Decryptor<Aes128>;

/// A key file whose form and cost have been checked. It contains no plain secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    address: Option<Address>,
    protection: Protection,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Protection {
    /// Versions 1 and 3, which differ in the cipher.
    Sealed(Sealed),
    /// A wallet of the 2014 presale.
    Presale { initial_vector: [u8; AES_BLOCK], ciphertext: Vec<u8> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Sealed {
    cipher: Cipher,
    derivation: KeyDerivation,
    salt: Vec<u8>,
    initial_vector: [u8; AES_BLOCK],
    ciphertext: Vec<u8>,
    checksum: [u8; 32],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cipher {
    /// Version 3: AES-128-CTR.
    Counter,
    /// Version 1: AES-128-CBC under a hash of the derived key.
    Chained,
}

impl KeyFile {
    /// Reads version 3, version 1 and presale files. Decrypts nothing, and does not allocate the memory that the stated
    /// cost requires.
    ///
    /// # Errors
    /// [`KeyFileProblem`] naming the invalid member, or the excessive cost.
    pub fn parse(text: &[u8], limits: &CostLimits) -> Result<Self, KeyFileProblem> {
        let members = parse_object(text)?;
        if member(&members, "encseed").is_some() {
            return presale(&members);
        }
        let cipher = version(&members)?;
        let crypto = object(&members, "crypto")?;
        let address = stated_address(&members)?;
        Ok(Self { address, protection: Protection::Sealed(sealed(crypto, cipher, limits)?) })
    }

    /// The address in the file.
    pub const fn address(&self) -> Option<Address> {
        self.address
    }

    /// Memory that `KeyFile::open` allocates, for the budget.
    pub const fn memory(&self) -> u64 {
        match &self.protection {
            Protection::Sealed(sealed) => sealed.derivation.memory(),
            Protection::Presale { .. } => 0,
        }
    }

    /// Returns the key's address if the password is correct. Blocks the thread for the time of the cost.
    ///
    /// # Errors
    /// [`KeyFileProblem::WrongPassword`], [`KeyFileProblem::InvalidKey`], [`KeyFileProblem::OtherAccount`].
    pub fn check(&self, password: &[u8]) -> Result<Address, KeyFileProblem> {
        self.open(password).map(|key| key.address())
    }

    /// Decrypts the key. Blocks the thread for the time of the cost.
    ///
    /// # Errors
    /// [`KeyFileProblem::WrongPassword`], [`KeyFileProblem::InvalidKey`], [`KeyFileProblem::OtherAccount`].
    pub(crate) fn open(&self, password: &[u8]) -> Result<Key, KeyFileProblem> {
        let secret = match &self.protection {
            Protection::Sealed(sealed) => sealed.decrypt(password)?,
            Protection::Presale { initial_vector, ciphertext } => {
                decrypt_presale(initial_vector, ciphertext, password)?
            }
        };
        let key = Key::from_secret(secret).ok_or(KeyFileProblem::InvalidKey)?;
        match self.address {
            Some(want) if want != key.address() => Err(match &self.protection {
                // Presale files have no checksum: a wrong password results in another address.
                Protection::Presale { .. } => KeyFileProblem::WrongPassword,
                Protection::Sealed(_) => KeyFileProblem::OtherAccount { have: key.address(), want },
            }),
            _ => Ok(key),
        }
    }
}

impl Sealed {
    fn decrypt(&self, password: &[u8]) -> Result<Zeroizing<[u8; KEY_BYTES]>, KeyFileProblem> {
        let derived = self.derivation.derive(password, &self.salt)?;
        if checksum(&derived[16..], &self.ciphertext) != self.checksum {
            return Err(KeyFileProblem::WrongPassword);
        }
        match self.cipher {
            Cipher::Counter => {
                let mut plain = Zeroizing::new(self.ciphertext.clone());
                apply_counter_cipher(&first_half(&derived), &self.initial_vector, &mut plain);
                padded(&plain)
            }
            Cipher::Chained => {
                let key = first_half(&keccak256(&derived[..16]).0);
                let plain = decrypt_chained(&key, &self.initial_vector, &self.ciphertext)?;
                padded(&plain)
            }
        }
    }
}

/// Keccak-256 over the second half of the derived key and the ciphertext. The comparison need not take constant time:
/// the number of equal bytes reveals nothing about the password.
pub(super) fn checksum(second_half: &[u8], ciphertext: &[u8]) -> [u8; 32] {
    let mut text = Zeroizing::new(Vec::with_capacity(second_half.len() + ciphertext.len()));
    text.extend_from_slice(second_half);
    text.extend_from_slice(ciphertext);
    keccak256(text.as_slice()).0
}

pub(super) fn first_half(bytes: &[u8; 32]) -> Zeroizing<[u8; 16]> {
    let mut half = Zeroizing::new([0; 16]);
    half.copy_from_slice(&bytes[..16]);
    half
}

/// Encrypts or decrypts: counter mode is its own inverse.
pub(super) fn apply_counter_cipher(key: &[u8; 16], initial_vector: &[u8; AES_BLOCK], bytes: &mut [u8]) {
    Aes128Ctr::new(&(*key).into(), &(*initial_vector).into()).apply_keystream(bytes);
}

/// Old wallets omitted leading zero bytes of a key.
fn padded(plain: &[u8]) -> Result<Zeroizing<[u8; KEY_BYTES]>, KeyFileProblem> {
    let mut secret = Zeroizing::new([0; KEY_BYTES]);
    let missing = KEY_BYTES.checked_sub(plain.len()).ok_or(KeyFileProblem::InvalidKey)?;
    secret[missing..].copy_from_slice(plain);
    Ok(secret)
}

fn decrypt_chained(
    key: &[u8; 16],
    initial_vector: &[u8; AES_BLOCK],
    ciphertext: &[u8],
) -> Result<Zeroizing<Vec<u8>>, KeyFileProblem> {
    let mut buffer = Zeroizing::new(ciphertext.to_vec());
    let cipher = Aes128CbcDecryptor::new(&(*key).into(), &(*initial_vector).into());
    let plain = cipher.decrypt_padded::<Pkcs7>(&mut buffer).map_err(|_| KeyFileProblem::WrongPassword)?.len();
    buffer.truncate(plain);
    Ok(buffer)
}

fn decrypt_presale(
    initial_vector: &[u8; AES_BLOCK],
    ciphertext: &[u8],
    password: &[u8],
) -> Result<Zeroizing<[u8; KEY_BYTES]>, KeyFileProblem> {
    let mut key = Zeroizing::new([0; 16]);
    pbkdf2::pbkdf2::<Hmac<Sha256>>(password, password, PRESALE_ROUNDS, key.as_mut_slice())
        .map_err(|_| KeyFileProblem::WrongPassword)?;
    let seed = decrypt_chained(&key, initial_vector, ciphertext)?;
    Ok(Zeroizing::new(keccak256(seed.as_slice()).0))
}

pub(super) fn parse_object(text: &[u8]) -> Result<Members, KeyFileProblem> {
    if text.len() > MAX_KEY_FILE_BYTES {
        return Err(KeyFileProblem::TooLong { allowed: MAX_KEY_FILE_BYTES });
    }
    match serde_json::from_slice(text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(KeyFileProblem::NotJson { line: 1, column: 1 }),
        Err(error) => Err(KeyFileProblem::NotJson { line: error.line(), column: error.column() }),
    }
}

/// The address in an object: 40 hexadecimal digits, with or without `0x` or `xdc`. `None` if missing.
pub(super) fn stated_address(members: &Members) -> Result<Option<Address>, KeyFileProblem> {
    address_of(members, "address")
}

fn address_of(members: &Members, name: &'static str) -> Result<Option<Address>, KeyFileProblem> {
    const NO_ADDRESS: &str = "is not an address";
    let Some(value) = member(members, name).filter(|value| !value.is_null()) else { return Ok(None) };
    let text = value.as_str().ok_or(KeyFileProblem::Field { name, problem: NO_ADDRESS })?;
    let has_prefix = text.get(..3).is_some_and(|prefix| prefix.eq_ignore_ascii_case("xdc"));
    let digits = if has_prefix { &text[3..] } else { text };
    if digits.is_empty() {
        return Ok(None);
    }
    let mut address = Address::ZERO;
    alloy_primitives::hex::decode_to_slice(digits, address.as_mut_slice())
        .map_err(|_| KeyFileProblem::Field { name, problem: NO_ADDRESS })?;
    Ok(Some(address))
}

/// The part of a file's text that errors show: its beginning, without control characters.
fn shown(words: &str) -> String {
    words.chars().filter(|letter| !letter.is_control()).take(SHOWN_LETTERS).collect()
}

fn version(members: &Members) -> Result<Cipher, KeyFileProblem> {
    let version = required(members, "version")?;
    match version {
        Value::Number(number) if number.as_u64() == Some(3) => Ok(Cipher::Counter),
        Value::String(text) if text == "1" => Ok(Cipher::Chained),
        // Some wallets write the number as a text.
        Value::String(text) if text == "3" => Ok(Cipher::Counter),
        Value::String(text) => Err(KeyFileProblem::Version(shown(text))),
        other => Err(KeyFileProblem::Version(shown(&other.to_string()))),
    }
}

fn sealed(crypto: &Members, cipher: Cipher, limits: &CostLimits) -> Result<Sealed, KeyFileProblem> {
    // Version 1 files name a cipher that they do not use.
    if cipher == Cipher::Counter {
        let name = string(crypto, "cipher")?;
        if name != "aes-128-ctr" {
            return Err(KeyFileProblem::Cipher(shown(name)));
        }
    }
    let parameters = object(crypto, "kdfparams")?;
    let derivation = derivation(crypto, parameters, limits)?;
    let ciphertext = bytes(crypto, "ciphertext")?;
    let has_possible_length = match cipher {
        Cipher::Counter => (1..=KEY_BYTES).contains(&ciphertext.len()),
        Cipher::Chained => [KEY_BYTES, KEY_BYTES + AES_BLOCK].contains(&ciphertext.len()),
    };
    if !has_possible_length {
        return Err(KeyFileProblem::Field { name: "ciphertext", problem: "does not have the length of a key" });
    }
    let initial_vector = exact_bytes(object(crypto, "cipherparams")?, "iv", NO_INITIAL_VECTOR)?;
    let checksum = exact_bytes(crypto, "mac", NO_CHECKSUM)?;
    let salt = bytes(parameters, "salt")?;
    Ok(Sealed { cipher, derivation, salt, initial_vector, ciphertext, checksum })
}

fn derivation(crypto: &Members, parameters: &Members, limits: &CostLimits) -> Result<KeyDerivation, KeyFileProblem> {
    let name = string(crypto, "kdf")?;
    if !["scrypt", "pbkdf2"].contains(&name) {
        return Err(KeyFileProblem::Kdf(shown(name)));
    }
    // The first 32 bytes are the same for every length, so only these are derived.
    if number(parameters, "dklen")? < MIN_DERIVED_LENGTH {
        return Err(KeyFileProblem::Field { name: "dklen", problem: "is below 32" });
    }
    if name == "scrypt" {
        let number = |name| number(parameters, name);
        return KeyDerivation::scrypt(number("n")?, number("r")?, number("p")?, limits);
    }
    let function = string(parameters, "prf")?;
    if function != "hmac-sha256" {
        return Err(KeyFileProblem::Prf(shown(function)));
    }
    KeyDerivation::pbkdf2(number(parameters, "c")?, limits)
}

fn presale(members: &Members) -> Result<KeyFile, KeyFileProblem> {
    let seed = bytes(members, "encseed")?;
    let problem = "is not an initialisation vector followed by whole blocks";
    let Some((initial_vector, ciphertext)) = seed
        .split_first_chunk::<AES_BLOCK>()
        .filter(|(_, rest)| !rest.is_empty() && rest.len().is_multiple_of(AES_BLOCK))
    else {
        return Err(KeyFileProblem::Field { name: "encseed", problem });
    };
    // Without the address a wrong password could not be detected.
    let address = address_of(members, "ethaddr")?;
    let address = address.ok_or(KeyFileProblem::Field { name: "ethaddr", problem: "is missing" })?;
    let protection = Protection::Presale { initial_vector: *initial_vector, ciphertext: ciphertext.to_vec() };
    Ok(KeyFile { address: Some(address), protection })
}
