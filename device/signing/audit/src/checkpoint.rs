//! The signed checkpoint, which names the last entry of the log.
//!
//! A hash chain reveals a change inside it, but not a missing end. The checkpoint does, and it is signed with the log's
//! own key, so a person who can write the log's files but cannot read its key can't forge one. Restoring an older log
//! together with its checkpoint is detected only by comparing with a checkpoint that was kept elsewhere.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use alloy_primitives::{B256, Bytes};
use secp256k1::{Message, PublicKey, SECP256K1, SecretKey, ecdsa::Signature};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tenon_file_access::check_secret;
use zeroize::Zeroizing;

use crate::{AuditError, Line, bounded};

pub(crate) const KEY_FILE: &str = "audit.key";
pub(crate) const CHECKPOINT_FILE: &str = "checkpoint.json";
const NEW_CHECKPOINT_FILE: &str = "checkpoint.new";
const NEW_KEY_FILE: &str = "audit.key.new";
/// Maximum length of a checkpoint's file, bytes.
const MAX_CHECKPOINT: u64 = 4 << 10;
/// Length of the key's file, bytes.
const KEY_BYTES: u64 = 32;
/// Prefix of the signed bytes, so that a signature of this key is never valid for anything else.
const PURPOSE: &[u8] = b"tenon signing audit checkpoint 1";

/// The last entry of a log, signed with the log's key. A new log begins with a checkpoint for number 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// Number of the entry.
    pub number: u64,
    /// SHA-256 of its line.
    pub hash: B256,
    /// The key, compressed.
    pub key: Bytes,
    /// Signature (64 bytes, r and s).
    pub signature: Bytes,
}

impl Checkpoint {
    fn new(number: u64, hash: B256, key: &SecretKey) -> Self {
        let signature = SECP256K1.sign_ecdsa(message(number, hash), key);
        Self {
            number,
            hash,
            key: key.public_key(SECP256K1).serialize().to_vec().into(),
            signature: signature.serialize_compact().to_vec().into(),
        }
    }

    /// Whether the signature is valid for the key in the checkpoint.
    pub fn is_signed(&self) -> bool {
        let (Ok(key), Ok(signature)) = (PublicKey::from_slice(&self.key), Signature::from_compact(&self.signature))
        else {
            return false;
        };
        SECP256K1.verify_ecdsa(message(self.number, self.hash), &signature, &key).is_ok()
    }

    /// Reads the checkpoint of a folder; `None` if the file does not exist.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, AuditError> {
        let path = folder.join(CHECKPOINT_FILE);
        let text = match bounded::read(&path, MAX_CHECKPOINT) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(AuditError::file(path, error)),
        };
        let checkpoint: Self = serde_json::from_slice(&text)
            .map_err(|_| AuditError::Checkpoint { path: path.clone(), reason: "it is not a checkpoint" })?;
        match checkpoint.is_signed() {
            true => Ok(Some(checkpoint)),
            false => Err(AuditError::Checkpoint { path, reason: "its signature is not valid" }),
        }
    }
}

fn message(number: u64, hash: B256) -> Message {
    let digest = Sha256::new().chain_update(PURPOSE).chain_update(number.to_be_bytes()).chain_update(hash).finalize();
    Message::from_digest(digest.into())
}

/// The public key (33 bytes) of the log's key file; `None` if the file does not exist.
pub(crate) fn public_key(folder: &Path) -> Result<Option<Bytes>, AuditError> {
    Ok(read_key(folder)?.map(|key| key.public_key(SECP256K1).serialize().to_vec().into()))
}

fn read_key(folder: &Path) -> Result<Option<SecretKey>, AuditError> {
    let path = folder.join(KEY_FILE);
    match bounded::read(&path, KEY_BYTES).map(Zeroizing::new) {
        Ok(bytes) => match key_of(&bytes) {
            Some(key) => Ok(Some(key)),
            None => Err(AuditError::Checkpoint { path, reason: "it is not a key of 32 bytes" }),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(AuditError::file(path, error)),
    }
}

/// Signs lines and checkpoints, and writes checkpoints.
pub(crate) struct Sealer {
    folder: PathBuf,
    key: SecretKey,
}

impl Drop for Sealer {
    fn drop(&mut self) {
        self.key.non_secure_erase();
    }
}

impl Sealer {
    /// Reads the log's key. If the log has no files, no checkpoint of an entry and no key, it is new: creates its key and
    /// a checkpoint for number 0.
    pub(crate) fn open(folder: &Path, checkpoint: Option<&Checkpoint>, files: usize) -> Result<Self, AuditError> {
        let path = folder.join(KEY_FILE);
        if let Ok(metadata) = fs::metadata(&path) {
            check_secret(&metadata).map_err(|access| AuditError::Exposed { path: path.clone(), access })?;
        }
        let is_new = files == 0 && checkpoint.is_none_or(|checkpoint| checkpoint.number == 0);
        match (read_key(folder)?, checkpoint) {
            (Some(key), Some(checkpoint)) => Self { folder: folder.to_owned(), key }.checked(checkpoint),
            (Some(_), None) => Err(AuditError::NoLog { folder: folder.to_owned(), has_key: true }),
            (None, _) if is_new => Self::create(folder),
            (None, _) => {
                Err(AuditError::Checkpoint { path, reason: "the log's key is missing; restore it from a copy" })
            }
        }
    }

    fn checked(self, checkpoint: &Checkpoint) -> Result<Self, AuditError> {
        if checkpoint.key == self.public_key() {
            return Ok(self);
        }
        let path = self.folder.join(CHECKPOINT_FILE);
        Err(AuditError::Checkpoint { path, reason: "it is not signed with the key of the log" })
    }

    /// Writes the checkpoint before the key: if the service is killed between them, the next start repeats both, and a
    /// key without a checkpoint always means that the log was removed.
    fn create(folder: &Path) -> Result<Self, AuditError> {
        let key = loop {
            let bytes = Zeroizing::new(rand::random::<[u8; 32]>());
            if let Some(key) = key_of(&*bytes) {
                break key;
            }
        };
        let sealer = Self { folder: folder.to_owned(), key };
        sealer.write(0, B256::ZERO)?;
        replace(folder, NEW_KEY_FILE, KEY_FILE, &*Zeroizing::new(sealer.key.secret_bytes()))?;
        Ok(sealer)
    }

    /// The public key, compressed (33 bytes).
    pub(crate) fn public_key(&self) -> Bytes {
        self.key.public_key(SECP256K1).serialize().to_vec().into()
    }

    /// Signs a line, so that it counts even if the service ends before the checkpoint names it.
    pub(crate) fn sign_line(&self, line: &mut Line) {
        line.sign(&self.key);
    }

    /// Replaces the checkpoint atomically.
    pub(crate) fn write(&self, number: u64, hash: B256) -> Result<(), AuditError> {
        let text = serde_json::to_vec(&Checkpoint::new(number, hash, &self.key)).unwrap_or_default();
        replace(&self.folder, NEW_CHECKPOINT_FILE, CHECKPOINT_FILE, &text)
    }
}

fn key_of(bytes: &[u8]) -> Option<SecretKey> {
    SecretKey::from_byte_array(bytes.try_into().ok()?).ok()
}

/// Replaces a file of the folder atomically; `new` is the name while it is written.
fn replace(folder: &Path, new: &str, name: &str, content: &[u8]) -> Result<(), AuditError> {
    let (new, path) = (folder.join(new), folder.join(name));
    let written = || {
        // A leftover of a killed process, or a file that another user created. A symbolic link is removed, not
        // followed.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new)?;
        file.write_all(content)?;
        file.sync_data()?;
        fs::rename(&new, &path)?;
        fs::File::open(folder)?.sync_all()
    };
    written().map_err(|error| AuditError::file(&path, error))
}
