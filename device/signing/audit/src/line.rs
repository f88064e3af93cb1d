//! Entries and their encoding as lines.

use alloy_primitives::{Address, B256, Bytes, U256};
use secp256k1::{Message, PublicKey, SECP256K1, SecretKey, ecdsa::Signature};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tenon_signing_policy::Kind;

/// Maximum length of a line, bytes.
pub(crate) const MAX_LINE: usize = 256 << 10;
/// Prefix of the signed bytes, so that a signature of a line is never valid for a checkpoint.
const PURPOSE: &[u8] = b"tenon signing audit line 1";

/// A step in the life of a request or of the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// The service started with this policy.
    Started {
        /// Hash of the policy.
        policy: B256,
    },
    /// Another policy came into force.
    PolicyApplied {
        /// Hash of the policy.
        policy: B256,
    },
    /// A client requested a signature.
    Asked {
        /// Number of the request, which its later steps repeat.
        request: u64,
        /// The client's name.
        client: String,
        /// The account whose key should sign.
        account: Address,
        /// The kind of request.
        kind: Kind,
        /// The hash to sign.
        hash: B256,
    },
    /// The policy decided about the request.
    Decided {
        /// The request.
        request: u64,
        /// `allow`, `ask` or `deny`.
        outcome: String,
        /// The rule that decided, if one did.
        rule: Option<String>,
        /// Why.
        reason: String,
    },
    /// The request was shown to a person.
    Shown {
        /// The request.
        request: u64,
        /// The place: command line, page or program.
        place: String,
    },
    /// A person approved the request.
    Approved {
        /// The request.
        request: u64,
        /// The person.
        by: String,
        /// The hash that the person approved.
        hash: B256,
    },
    /// A person refused the request, or it timed out.
    Refused {
        /// The request.
        request: u64,
        /// Why.
        reason: String,
    },
    /// The signature of a transaction is about to be released.
    SignedTransaction {
        /// The request.
        request: u64,
        /// The rule whose windows it counts in.
        rule: String,
        /// The account whose key signed.
        account: Address,
        /// Chain id.
        chain_id: u64,
        /// Nonce.
        nonce: u64,
        /// Value, wei.
        value: U256,
        /// Maximum fee, wei.
        fee: U256,
        /// The hash that was signed.
        hash: B256,
    },
    /// The signature of a message, typed data or raw bytes is about to be released.
    Signed {
        /// The request.
        request: u64,
        /// The rule whose windows it counts in.
        rule: String,
        /// The account whose key signed.
        account: Address,
        /// The hash that was signed.
        hash: B256,
    },
    /// The signature of a consensus message is about to be released.
    SignedForConsensus {
        /// The request.
        request: u64,
        /// The rule whose windows it counts in.
        rule: String,
        /// The account whose key signed.
        account: Address,
        /// Chain id.
        chain_id: u64,
        /// Seal, vote, timeout or sync info.
        kind: Kind,
        /// Round.
        round: u64,
        /// The hash that was signed.
        hash: B256,
    },
    /// Signing failed.
    Failed {
        /// The request.
        request: u64,
        /// Why.
        reason: String,
    },
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Number of the entry, counted from 1 through all files.
    pub number: u64,
    /// Seconds since 1970, never less than in the previous line.
    pub time: u64,
    /// SHA-256 of the previous line without its line end; zero for the first.
    pub previous: B256,
    /// The entry.
    pub entry: Step,
    /// Signature of the log's key (64 bytes, r and s) over the other members. Required beyond the checkpoint; `None`
    /// in lines that were written before lines were signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Bytes>,
}

impl Line {
    /// Sets the signature.
    pub(crate) fn sign(&mut self, key: &SecretKey) {
        let signature = SECP256K1.sign_ecdsa(self.message(), key);
        self.signature = Some(signature.serialize_compact().to_vec().into());
    }

    /// Whether the signature is valid for this public key.
    pub(crate) fn is_signed_by(&self, key: &[u8]) -> bool {
        let signature = self.signature.as_ref().map_or(&[][..], |signature| &signature[..]);
        let (Ok(key), Ok(signature)) = (PublicKey::from_slice(key), Signature::from_compact(signature)) else {
            return false;
        };
        SECP256K1.verify_ecdsa(self.message(), &signature, &key).is_ok()
    }

    fn message(&self) -> Message {
        let unsigned = Self { signature: None, ..self.clone() };
        let text = serde_json::to_vec(&unsigned).unwrap_or_default();
        Message::from_digest(Sha256::new().chain_update(PURPOSE).chain_update(text).finalize().into())
    }
}

/// SHA-256 of a line without its line end.
pub(crate) fn hash_of(line: &[u8]) -> B256 {
    B256::from_slice(&Sha256::digest(line))
}
