//! Blob transactions in the form used before inclusion in a block: with their blobs (EIP-4844, EIP-7594).

use alloy_primitives::{B256, Bytes, FixedBytes, keccak256};
use alloy_rlp::Encodable;
use sha2::{Digest, Sha256};
use tenon_api::{Transaction, TransactionType};

use super::error::{DecodeError, DecodeProblem};
use super::rlp::{Reader, write_bytes, write_list};
use super::transaction::{decode_transaction, encode_signed_list, read_typed, split_type};

/// Length of a blob, bytes.
pub const BLOB_BYTES: usize = 131_072;
/// First byte of a versioned hash of a KZG commitment.
pub const VERSIONED_HASH_VERSION: u8 = 1;
/// Proofs per blob in a sidecar of version 1, one per cell of the extended blob.
pub const CELLS_PER_EXTENDED_BLOB: usize = 128;

/// A KZG commitment or proof: a compressed point.
pub type KzgPoint = FixedBytes<48>;

/// The blobs of a transaction of type 3, with commitments and proofs. Not part of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobSidecar {
    /// 0: one proof per blob (EIP-4844). 1: [`CELLS_PER_EXTENDED_BLOB`] proofs per blob (EIP-7594).
    pub version: u8,
    /// The blobs, [`BLOB_BYTES`] each.
    pub blobs: Vec<Bytes>,
    /// One per blob.
    pub commitments: Vec<KzgPoint>,
    /// As many as `version` requires.
    pub proofs: Vec<KzgPoint>,
}

impl BlobSidecar {
    /// Returns whether the commitments match the transaction's hashes, in order, and the numbers of blobs and proofs
    /// match. Does not verify the proofs.
    pub fn belongs_to(&self, transaction: &Transaction) -> bool {
        let hashes = transaction.blob_versioned_hashes();
        let proofs_per_blob = if self.version == 0 { 1 } else { CELLS_PER_EXTENDED_BLOB };
        hashes.len() == self.commitments.len()
            && self.blobs.len() == self.commitments.len()
            && self.proofs.len() == self.blobs.len() * proofs_per_blob
            && self.commitments.iter().zip(hashes).all(|(commitment, hash)| versioned_hash(commitment) == *hash)
    }
}

/// The versioned hash of a KZG commitment: SHA-256 with its first byte replaced by the version.
pub fn versioned_hash(commitment: &KzgPoint) -> B256 {
    let mut hash: [u8; 32] = Sha256::digest(commitment).into();
    hash[0] = VERSIONED_HASH_VERSION;
    B256::new(hash)
}

/// Decodes a transaction as submitted by clients: canonical bytes, for type 3 optionally with the sidecar.
///
/// # Errors
/// [`DecodeError`] for anything else, trailing bytes included.
pub fn decode_pooled_transaction(input: &[u8]) -> Result<(Transaction, Option<BlobSidecar>), DecodeError> {
    if input.first() != Some(&(TransactionType::Blob as u8)) {
        return Ok((decode_transaction(input)?, None));
    }
    let (_, mut payload) = split_type(Reader::new(input))?;
    let mut items = payload.list("transaction")?;
    if items.next_is_list() != Some(true) {
        return Ok((decode_transaction(input)?, None));
    }
    let raw = {
        let mut probe = items;
        probe.raw_item("transaction")?
    };
    let mut canonical = Vec::with_capacity(raw.len() + 1);
    canonical.push(TransactionType::Blob as u8);
    canonical.extend_from_slice(raw);
    let mut fields = items.list("transaction")?;
    let transaction = read_typed(&mut fields, TransactionType::Blob, keccak256(&canonical))?;
    let sidecar = read_sidecar(&mut items)?;
    payload.finish("transaction")?;
    Ok((transaction, Some(sidecar)))
}

fn read_sidecar(items: &mut Reader<'_>) -> Result<BlobSidecar, DecodeError> {
    let version = match items.next_is_list() {
        Some(false) => {
            let start = *items;
            let version = items.u8("sidecar version")?;
            if version != 1 {
                return Err(start.error("sidecar version", DecodeProblem::InvalidValue));
            }
            version
        }
        _ => 0,
    };
    let mut blob_list = items.list("blobs")?;
    let mut blobs = Vec::new();
    while !blob_list.is_empty() {
        blobs.push(Bytes::copy_from_slice(blob_list.fixed_slice("blob", BLOB_BYTES)?));
    }
    let commitments = read_points(items, "commitment")?;
    let proofs = read_points(items, "blob proof")?;
    (*items).finish_list("sidecar", 4)?;
    Ok(BlobSidecar { version, blobs, commitments, proofs })
}

fn read_points(items: &mut Reader<'_>, what: &'static str) -> Result<Vec<KzgPoint>, DecodeError> {
    let mut list = items.list(what)?;
    let mut points = Vec::new();
    while !list.is_empty() {
        points.push(KzgPoint::new(list.fixed(what)?));
    }
    Ok(points)
}

/// The transaction with its sidecar, as exchanged by peers and clients. `transaction` must be of type 3.
pub fn encode_pooled_transaction(transaction: &Transaction, sidecar: &BlobSidecar) -> Vec<u8> {
    let mut out = Vec::with_capacity(sidecar.blobs.len() * (BLOB_BYTES + 128) + 512);
    out.push(TransactionType::Blob as u8);
    write_list(&mut out, |out| {
        encode_signed_list(transaction, out);
        if sidecar.version != 0 {
            sidecar.version.encode(out);
        }
        write_list(out, |out| sidecar.blobs.iter().for_each(|blob| write_bytes(out, blob)));
        write_list(out, |out| sidecar.commitments.iter().for_each(|point| point.encode(out)));
        write_list(out, |out| sidecar.proofs.iter().for_each(|point| point.encode(out)));
    });
    out
}
