//! Private parsers, for the fuzz targets (`fuzz/`) only.

/// Runs the contract that verifies ring signatures (`is_ring`), or the one that verifies range proofs; returns whether it
/// accepts the input. Checks that every refusal has a reason.
pub fn native_proof(is_ring: bool, input: &[u8]) -> bool {
    crate::precompiles::proof_is_valid(is_ring, input)
}
