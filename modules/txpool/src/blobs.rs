//! Transactions of type 3 and their sidecars.
//!
//! The precompile's library verifies the proofs; the sidecar is then dropped: a block contains only hashes, and the
//! node has no peers on the Ethereum profile that would request the blobs.

use c_kzg::{Blob, Bytes48, KzgSettings, ethereum_kzg_settings};
use tenon_api::{Transaction, TransactionPayload, U256, messages::BlobProblem};
use tenon_chain::{
    BlobSidecar, Fork,
    codec::{CELLS_PER_EXTENDED_BLOB, KzgPoint},
    spec::MIN_BLOB_BASE_FEE,
};

use crate::validation::Rules;

/// Maximum number of blobs in a transaction from Osaka on (EIP-7594); before that, a block's maximum.
const MAX_BLOBS_OF_TRANSACTION: u64 = 6;
/// Precomputation level of the library. It speeds up proving only, not verification.
const NO_PRECOMPUTATION: u64 = 0;

/// Checks the transaction's blob fields.
pub(crate) fn check_fields(transaction: &Transaction, rules: &Rules) -> Result<(), BlobProblem> {
    let TransactionPayload::Blob { max_fee_per_blob_gas, blob_versioned_hashes, .. } = &transaction.payload else {
        return Ok(());
    };
    if transaction.to.is_none() {
        return Err(BlobProblem::Creation);
    }
    let found = blob_versioned_hashes.len();
    if found == 0 {
        return Err(BlobProblem::None);
    }
    let limit = if rules.fork >= Fork::Osaka { MAX_BLOBS_OF_TRANSACTION } else { rules.max_blobs };
    let limit = limit.min(rules.max_blobs);
    if found as u64 > limit {
        return Err(BlobProblem::TooMany { found, limit });
    }
    if *max_fee_per_blob_gas < U256::from(MIN_BLOB_BASE_FEE) {
        return Err(BlobProblem::Underpriced { found: *max_fee_per_blob_gas, wanted: MIN_BLOB_BASE_FEE });
    }
    Ok(())
}

/// Checks that the sidecar exists, belongs to the transaction and proves its blobs. Takes milliseconds, and the first
/// call in a process one to two seconds, in which the library prepares its trusted setup.
///
/// From Osaka on both forms of proofs are accepted, because clients still send the old one and this node forwards no
/// sidecar.
pub(crate) fn verify_sidecar(
    transaction: &Transaction,
    sidecar: Option<&BlobSidecar>,
    rules: &Rules,
) -> Result<(), BlobProblem> {
    let sidecar = sidecar.ok_or(BlobProblem::NoSidecar)?;
    if sidecar.version > u8::from(rules.fork >= Fork::Osaka) {
        return Err(BlobProblem::Version { found: sidecar.version, wanted: 0 });
    }
    if !sidecar.belongs_to(transaction) {
        return Err(BlobProblem::Mismatch);
    }
    let settings = ethereum_kzg_settings(NO_PRECOMPUTATION);
    let is_proven = if sidecar.version == 0 { prove_blobs(settings, sidecar) } else { prove_cells(settings, sidecar) };
    // The library returns an error for a point that is not on the curve or a blob that is not made of field elements.
    if is_proven.unwrap_or(false) { Ok(()) } else { Err(BlobProblem::Proof) }
}

/// A plain loop: iterator adapters would pass each blob (128 KiB) from frame to frame by value, and a build without
/// optimisation keeps all of those copies on the stack.
fn blobs(sidecar: &BlobSidecar) -> Result<Vec<Blob>, c_kzg::Error> {
    let mut blobs = Vec::with_capacity(sidecar.blobs.len());
    for bytes in &sidecar.blobs {
        blobs.push(Blob::from_bytes(bytes)?);
    }
    Ok(blobs)
}

fn points<'a>(points: impl IntoIterator<Item = &'a KzgPoint>) -> Vec<Bytes48> {
    points.into_iter().map(|point| Bytes48::new(point.0)).collect()
}

fn prove_blobs(settings: &KzgSettings, sidecar: &BlobSidecar) -> Result<bool, c_kzg::Error> {
    settings.verify_blob_kzg_proof_batch(&blobs(sidecar)?, &points(&sidecar.commitments), &points(&sidecar.proofs))
}

fn prove_cells(settings: &KzgSettings, sidecar: &BlobSidecar) -> Result<bool, c_kzg::Error> {
    let mut cells = Vec::with_capacity(sidecar.proofs.len());
    for blob in &blobs(sidecar)? {
        cells.extend(settings.compute_cells(blob)?.iter().cloned());
    }
    let per_blob = |commitment| std::iter::repeat_n(commitment, CELLS_PER_EXTENDED_BLOB);
    let commitments = points(sidecar.commitments.iter().flat_map(per_blob));
    let indices: Vec<u64> = (0..CELLS_PER_EXTENDED_BLOB as u64).cycle().take(cells.len()).collect();
    settings.verify_cell_kzg_proof_batch(&commitments, &indices, &cells, &points(&sidecar.proofs))
}
