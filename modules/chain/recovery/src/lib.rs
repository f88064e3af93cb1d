//! Recovers the signers of secp256k1 signatures (ECDSA with a recovery id, as used by Ethereum), in batches.
//!
//! On processors with AVX-512 IFMA, or with AVX2 and FMA, a batch is computed eight signatures at a time, faster than
//! with the C library (libsecp256k1). Other processors, and single signatures, use the C library. Results and errors
//! equal the C library's for every input.
//!
//! Signatures, hashes and keys are public, and the vector code does not hide them: its time and memory accesses depend
//! on them. Never use it with secrets.
//!
//! ```
//! use tenon_recovery::{Signature, recover_batch};
//!
//! # fn of(block: &[([u8; 32], Signature)]) {
//! for signer in recover_batch(block) {
//!     match signer {
//!         Ok(address) => println!("signed by {address}"),
//!         Err(error) => println!("{error}"),
//!     }
//! }
//! # }
//! ```

#![deny(unsafe_code)]
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_variables, reason = "vectors faster than the C library exist on x86-64 only")
)]

mod batch;
mod check;
mod field;
mod generator;
mod keccak;
mod lanes;
mod point;
mod product;
mod scalar;
mod single;
mod split;

use alloy_primitives::{Address, keccak256};

use batch::{Job, Recovered};
use check::{CHECKS, Checks};
pub use check::{CheckStatus, check_one_in, check_status};
use generator::GeneratorTable;
use lanes::{Instructions, LANES};

/// A signature with its recovery id. Numbers are big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    /// The x of a point, modulo the group's order.
    pub r: [u8; 32],
    /// (hash + r × private key) / nonce modulo the group's order. Both halves of its range are valid.
    pub s: [u8; 32],
    /// Bit 0: the point's y is odd. Bit 1: the point's x is r plus the group's order.
    pub recovery_id: u8,
}

impl From<&[u8; 65]> for Signature {
    /// From r, s and recovery id.
    fn from(bytes: &[u8; 65]) -> Self {
        let (mut r, mut s) = ([0; 32], [0; 32]);
        r.copy_from_slice(&bytes[..32]);
        s.copy_from_slice(&bytes[32..64]);
        Self { r, s, recovery_id: bytes[64] }
    }
}

/// A public key: x and y, 32 bytes each, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PublicKey(pub [u8; 64]);

impl PublicKey {
    /// The account of this key: the last 20 bytes of its hash.
    pub fn address(&self) -> Address {
        Address::from_slice(&keccak256(self.0)[12..])
    }
}

/// Why no signer can be recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// The recovery id is 4 or more.
    #[error("the recovery id is not 0, 1, 2 or 3")]
    RecoveryId,
    /// r or s is zero, or not below the group's order.
    #[error("r or s is zero or not below the order of the group")]
    OutOfRange,
    /// The numbers are in range, but the curve has no such point, or the key would be the point at infinity.
    #[error("no public key matches the signature")]
    NoPublicKey,
}

/// Maximum number of signatures that share their inversions. Larger batches gain nothing and need more memory (5.6 kB
/// for eight signatures).
const MAX_SHARED_INVERSION: usize = 1024;

/// Returns whether signatures are recovered eight at a time: the processor supports it, and no check has found a wrong
/// result.
pub fn is_vectorised() -> bool {
    instructions(&CHECKS).is_some()
}

/// Rounds up the number of signatures that a thread recovers, if its last vector would otherwise waste lanes. Callers
/// that split work over threads use parts of this size.
pub fn part_size(signatures: usize) -> usize {
    match instructions(&CHECKS) {
        None => signatures,
        // A vector takes as long as two signatures in the C library: an additional thread costs more than it saves.
        #[cfg(target_arch = "x86_64")]
        Some(Instructions::Avx512) => signatures.next_multiple_of(LANES),
        Some(instructions) if vectorised(instructions, signatures) == signatures => signatures.next_multiple_of(LANES),
        Some(_) => signatures,
    }
}

/// Instructions for the vectors, unless they are missing or have computed a wrong result.
fn instructions(checks: &Checks) -> Option<Instructions> {
    Instructions::of_machine().filter(|_| !checks.have_failed())
}

/// Number of signatures of a batch that are recovered in vectors. The last vector is used only if it is faster than the
/// C library although some of its lanes are empty.
fn vectorised(instructions: Instructions, batch: usize) -> usize {
    let rest = batch % LANES;
    let min_rest = match instructions {
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => 2,
        // The inversions alone take as long as two signatures.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 if batch < LANES => LANES,
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => 5,
    };
    if rest < min_rest { batch - rest } else { batch }
}

/// Recovers the account that signed a hash.
///
/// # Errors
/// [`RecoveryError`].
pub fn recover(hash: &[u8; 32], signature: &Signature) -> Result<Address, RecoveryError> {
    single::recover(hash, signature).map(|key| key.address())
}

/// Recovers the accounts of signatures and their hashes, in order.
pub fn recover_batch(signatures: &[([u8; 32], Signature)]) -> Vec<Result<Address, RecoveryError>> {
    batch_of(&CHECKS, signatures, recover, |(_, digest)| Address::from_slice(&digest[12..]))
}

/// Recovers the public keys of signatures and their hashes, in order.
pub fn recover_public_keys(signatures: &[([u8; 32], Signature)]) -> Vec<Result<PublicKey, RecoveryError>> {
    batch_of(&CHECKS, signatures, single::recover, |(key, _)| key)
}

/// Recovers in vectors if the machine supports them and they are faster, and the rest singly.
fn batch_of<T: PartialEq + Copy>(
    checks: &Checks,
    signatures: &[([u8; 32], Signature)],
    alone: impl Fn(&[u8; 32], &Signature) -> Result<T, RecoveryError>,
    of_vector: impl Fn((PublicKey, [u8; 32])) -> T,
) -> Vec<Result<T, RecoveryError>> {
    let mut results = Vec::with_capacity(signatures.len());
    let mut uses_vectors = false;
    for together in signatures.chunks(MAX_SHARED_INVERSION) {
        let recovered = in_vectors(checks, together);
        uses_vectors |= !recovered.is_empty();
        for (index, (hash, signature)) in together.iter().enumerate() {
            results.push(match recovered.get(index).copied().flatten() {
                Some(found) => checks.confirmed(of_vector(found), || alone(hash, signature)),
                None => alone(hash, signature),
            });
        }
    }
    if uses_vectors && checks.have_failed() {
        // A vector result, of this or of another thread, was wrong: all of them are discarded.
        return signatures.iter().map(|(hash, signature)| alone(hash, signature)).collect();
    }
    results
}

/// The results of the vectors. An empty entry, or one missing at the end, must be recovered singly.
fn in_vectors(checks: &Checks, signatures: &[([u8; 32], Signature)]) -> Vec<Recovered> {
    let Some(instructions) = instructions(checks) else { return Vec::new() };
    let count = vectorised(instructions, signatures.len());
    if count == 0 {
        return Vec::new();
    }
    let Some(table) = GeneratorTable::get() else { return Vec::new() };
    let jobs: Vec<Option<Job>> =
        signatures[..count].iter().map(|(hash, signature)| Job::new(hash, signature)).collect();
    let possible: Vec<Job> = jobs.iter().copied().flatten().collect();
    let mut recovered = recover_jobs(instructions, table, &possible).into_iter();
    // Each valid job has its result; the other entries stay empty.
    jobs.iter().map(|job| job.and_then(|_| recovered.next().flatten())).collect()
}

/// Recovers in vectors, on a machine that has the instructions.
fn recover_jobs(instructions: Instructions, table: &GeneratorTable, jobs: &[Job]) -> Vec<Recovered> {
    match instructions {
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => batch::recover::<lanes::Avx512>(table, jobs),
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => batch::recover::<lanes::Avx2>(table, jobs),
    }
}

#[cfg(test)]
mod tests;
