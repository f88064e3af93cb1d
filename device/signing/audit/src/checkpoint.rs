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

use crate::{AuditError, Line};

const KEY_FILE: &str = "audit.key";
const CHECKPOINT_FILE: &str = "checkpoint.json";
const NEW_CHECKPOINT_FILE: &str = "checkpoint.new";
/// Prefix of the signed bytes, so that a signature of this key is never valid for anything else.
const PURPOSE: &[u8] = b"tenon signing audit checkpoint 1";

/// The last entry of a log, signed with the log's key.
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
        let text = match fs::read(&path) {
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
    let path = folder.join(KEY_FILE);
    match fs::read(&path).map(Zeroizing::new) {
        Ok(bytes) => match read_key(&bytes) {
            Some(key) => Ok(Some(key.public_key(SECP256K1).serialize().to_vec().into())),
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
    /// Reads the log's key, or creates one if the log has no checkpoint yet.
    pub(crate) fn open(folder: &Path, checkpoint: Option<&Checkpoint>) -> Result<Self, AuditError> {
        let path = folder.join(KEY_FILE);
        if let Ok(metadata) = fs::metadata(&path) {
            check_secret(&metadata).map_err(|access| AuditError::Exposed { path: path.clone(), access })?;
        }
        let key = match fs::read(&path).map(Zeroizing::new) {
            Ok(bytes) => read_key(&bytes)
                .ok_or_else(|| AuditError::Checkpoint { path: path.clone(), reason: "it is not a key of 32 bytes" })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && checkpoint.is_none() => new_key(&path)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(AuditError::Checkpoint {
                    path,
                    reason: "the log's key is missing; restore it from a copy",
                });
            }
            Err(error) => return Err(AuditError::file(path, error)),
        };
        Ok(Self { folder: folder.to_owned(), key })
    }

    /// The public key, compressed (33 bytes).
    pub(crate) fn public_key(&self) -> Bytes {
        self.key.public_key(SECP256K1).serialize().to_vec().into()
    }

    /// Whether a checkpoint is for this key.
    pub(crate) fn has_signed(&self, checkpoint: &Checkpoint) -> bool {
        checkpoint.key == self.public_key()
    }

    /// Signs a line, so that it counts even if the service ends before the checkpoint names it.
    pub(crate) fn sign_line(&self, line: &mut Line) {
        line.sign(&self.key);
    }

    /// Replaces the checkpoint atomically.
    pub(crate) fn write(&self, number: u64, hash: B256) -> Result<(), AuditError> {
        let (new, path) = (self.folder.join(NEW_CHECKPOINT_FILE), self.folder.join(CHECKPOINT_FILE));
        let text = serde_json::to_vec(&Checkpoint::new(number, hash, &self.key)).unwrap_or_default();
        let written = || {
            // A leftover of a killed process, or a file that another user created. A symbolic link is removed, not
            // followed.
            match fs::remove_file(&new) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&new)?;
            file.write_all(&text)?;
            file.sync_data()?;
            fs::rename(&new, &path)?;
            fs::File::open(&self.folder)?.sync_all()
        };
        written().map_err(|error| AuditError::file(&path, error))
    }
}

fn read_key(bytes: &[u8]) -> Option<SecretKey> {
    SecretKey::from_byte_array(bytes.try_into().ok()?).ok()
}

fn new_key(path: &Path) -> Result<SecretKey, AuditError> {
    let key = loop {
        let bytes = Zeroizing::new(rand::random::<[u8; 32]>());
        if let Some(key) = read_key(&*bytes) {
            break key;
        }
    };
    let bytes = Zeroizing::new(key.secret_bytes());
    let written = || {
        let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
        file.write_all(&*bytes)?;
        file.sync_all()
    };
    written().map_err(|error| AuditError::file(path, error))?;
    Ok(key)
}
