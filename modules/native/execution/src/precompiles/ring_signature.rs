//! Ring signatures over several rings at once (0x1e; `docs/spec/chain.md` 5.4).

use alloy_primitives::{B256, U256, keccak256};
use k256::{ProjectivePoint, Scalar};

use super::{
    ProofError::{self, Invalid},
    check_interrupt,
    curve::{ORDER, POINT_LENGTH, WrittenPoint, canonical_scalar, coordinates, hashed, point_at, scalar, take},
};
use tenon_execution_interface::Interrupt;

/// Length of a signature without its rings: both counts, the message, the first challenge.
const HEAD_LENGTH: u64 = 80;
/// Length per ring member: a response and a public key.
const MEMBER_LENGTH: u64 = 65;

struct RingSignature {
    message: B256,
    challenge: B256,
    /// By ring: responses of its members.
    responses: Vec<Vec<B256>>,
    /// By ring: public keys of its members.
    keys: Vec<Vec<WrittenPoint>>,
    /// By ring.
    images: Vec<WrittenPoint>,
    /// Members of each ring.
    size: usize,
}

/// Verifies a signature.
///
/// # Errors
/// [`ProofError::Invalid`], or [`ProofError::Abandoned`] if the run must stop early.
pub(super) fn verify(input: &[u8], interrupt: &Interrupt) -> Result<(), ProofError> {
    RingSignature::read(input, interrupt)?.verify(interrupt)
}

impl RingSignature {
    fn read(mut input: &[u8], interrupt: &Interrupt) -> Result<Self, ProofError> {
        let (rings, size) = counts(&mut input).ok_or(Invalid)?;
        let (message, challenge) = (word(&mut input)?, word(&mut input)?);
        let mut responses = Vec::with_capacity(rings);
        for _ in 0..rings {
            responses.push((0..size).map(|_| word(&mut input)).collect::<Result<Vec<_>, _>>()?);
        }
        let mut point = || -> Result<WrittenPoint, ProofError> {
            check_interrupt(interrupt)?;
            Ok(WrittenPoint::read(&take(&mut input).ok_or(Invalid)?))
        };
        let mut points = |count: usize| (0..count).map(|_| point()).collect::<Result<Vec<_>, _>>();
        let keys = (0..rings).map(|_| points(size)).collect::<Result<Vec<_>, _>>()?;
        let images = points(rings)?;
        Ok(Self { message, challenge, responses, keys, images, size })
    }

    /// Computes the challenges around the rings: the last must equal the first.
    fn verify(&self, interrupt: &Interrupt) -> Result<(), ProofError> {
        let is_on_curve = |point: &WrittenPoint| point.point.is_some();
        if !self.images.iter().all(is_on_curve) || !self.keys.iter().flatten().all(is_on_curve) {
            return Err(Invalid);
        }
        let mut challenge = self.challenge;
        for position in 0..self.size {
            let mut text = self.message.to_vec();
            for ring in 0..self.keys.len() {
                check_interrupt(interrupt)?;
                let [left, right] = self.commitments(ring, position, challenge).ok_or(Invalid)?;
                text.extend_from_slice(&hashed(&left));
                text.extend_from_slice(&hashed(&right));
            }
            challenge = keccak256(text);
        }
        if challenge == self.challenge { Ok(()) } else { Err(Invalid) }
    }

    /// `s·G + c·P` and `s·H(P) + c·I`. Both numbers must be nonzero and below the order of the group.
    fn commitments(&self, ring: usize, position: usize, challenge: B256) -> Option<[ProjectivePoint; 2]> {
        let usable = |number: B256| canonical_scalar(number).filter(|scalar| *scalar != Scalar::ZERO);
        let (response, challenge) = (usable(self.responses[ring][position])?, usable(challenge)?);
        let key = &self.keys[ring][position];
        let base = hash_to_point(key)?;
        let left = ProjectivePoint::GENERATOR * response + key.point? * challenge;
        let right = base * response + self.images[ring].point? * challenge;
        Some([left, right])
    }
}

/// Number of rings and members per ring. `None` if the length does not match.
fn counts(input: &mut &[u8]) -> Option<(usize, usize)> {
    let length = input.len() as u64;
    let rings = u64::from_be_bytes(take(input)?);
    let size = u64::from_be_bytes(take(input)?);
    if (rings == 0) != (size == 0) {
        return None;
    }
    let members = rings.checked_mul(size)?.checked_mul(MEMBER_LENGTH)?;
    let images = rings.checked_mul(POINT_LENGTH as u64)?;
    if HEAD_LENGTH.checked_add(members)?.checked_add(images)? != length {
        return None;
    }
    // Both are now bounded by the length of the input.
    Some((usize::try_from(rings).ok()?, usize::try_from(size).ok()?))
}

fn word(input: &mut &[u8]) -> Result<B256, ProofError> {
    take(input).map(B256::from).ok_or(Invalid)
}

/// The hash of a public key times the generator. Its coordinates must be below the order of the group.
fn hash_to_point(key: &WrittenPoint) -> Option<ProjectivePoint> {
    let point = ProjectivePoint::GENERATOR * scalar(keccak256(key.hashed()));
    let (x, y) = coordinates(&point);
    let is_small = |number: B256| U256::from_be_bytes(number.0) < ORDER;
    if is_small(x) && is_small(y) { point_at(x, y) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_valid(input: &[u8]) -> bool {
        verify(input, &Interrupt::never()).is_ok()
    }

    #[test]
    fn a_signature_without_rings_is_valid_and_one_without_members_is_not() {
        assert!(is_valid(&[0; 80]));
        let mut without_members = vec![0; 80 + 33];
        without_members[7] = 1;
        assert!(!is_valid(&without_members));
        assert!(!is_valid(&[0; 79]));
    }

    #[test]
    fn signatures_over_one_and_several_rings_are_valid() {
        let proofs = crate::precompiles::recorded_proofs("0x1e");
        assert_eq!(proofs.len(), 3);
        for proof in proofs {
            assert!(is_valid(&proof));
        }
    }

    // A signature made here by the rules: one ring of two, signed by the second member.
    #[test]
    fn a_signature_of_a_member_is_valid_and_no_other() {
        let secret = scalar(keccak256("secret"));
        let other = ProjectivePoint::GENERATOR * scalar(keccak256("other"));
        let own = ProjectivePoint::GENERATOR * secret;
        let message = keccak256("message");
        let written = |point: &ProjectivePoint| {
            let (x, y) = coordinates(point);
            let mut bytes = [0; POINT_LENGTH];
            bytes[0] = 2 | (y[31] & 1);
            bytes[1..].copy_from_slice(x.as_slice());
            bytes
        };
        let own_base = hash_to_point(&WrittenPoint::read(&written(&own))).unwrap();
        let image = own_base * secret;
        let nonce = scalar(keccak256("nonce"));
        let next = |left: ProjectivePoint, right: ProjectivePoint| {
            keccak256([message.as_slice(), &hashed(&left), &hashed(&right)].concat())
        };
        let first = next(ProjectivePoint::GENERATOR * nonce, own_base * nonce);
        let free = keccak256("free");
        let other_base = hash_to_point(&WrittenPoint::read(&written(&other))).unwrap();
        let second = next(
            ProjectivePoint::GENERATOR * scalar(free) + other * scalar(first),
            other_base * scalar(free) + image * scalar(first),
        );
        let closing = nonce - scalar(second) * secret;
        let mut bytes = [1_u64.to_be_bytes(), 2_u64.to_be_bytes()].concat();
        bytes.extend_from_slice(message.as_slice());
        bytes.extend_from_slice(first.as_slice());
        bytes.extend_from_slice(free.as_slice());
        bytes.extend_from_slice(&closing.to_bytes());
        for point in [&other, &own, &image] {
            bytes.extend_from_slice(&written(point));
        }
        assert!(is_valid(&bytes));
        for position in [20, 60, 100, 130, 150, 190, 220] {
            let mut tampered = bytes.clone();
            tampered[position] ^= 1;
            assert!(!is_valid(&tampered), "byte {position}");
        }
    }
}
