//! Aggregated range proofs with 64 bits per value (0x28; `docs/spec/chain.md` 5.4).
//!
//! The reference is lax: it ignores a truncated inner part, compares points only by their x coordinate, and computes
//! with "points" that are not on the curve. This implementation reproduces that as far as it is defined; otherwise the
//! input is [`ProofError::Undefined`].

use alloy_primitives::{B256, keccak256};
use k256::{ProjectivePoint, Scalar, elliptic_curve::Field};

use super::{
    ProofError::{self, Invalid, Undefined},
    check_interrupt,
    curve::{POINT_LENGTH, WrittenPoint, coordinates, hashed, point_at, scalar, take},
};
use tenon_execution_interface::Interrupt;

/// Bits per value.
const BITS: usize = 64;
/// The generator of values.
const VALUE_BASE: (B256, B256) = (
    alloy_primitives::b256!("50929b74c1a04954b78b4b6035e97a5e078a5a0f28ec96d547bfee9ace803ac0"),
    alloy_primitives::b256!("31d3c6863973926e049e637cb1b5f40a36dac28af1766968c30c2313f3a38904"),
);

struct Proof {
    commitments: Vec<WrittenPoint>,
    a: WrittenPoint,
    s: WrittenPoint,
    t1: WrittenPoint,
    t2: WrittenPoint,
    tau: Scalar,
    th: Scalar,
    mu: Scalar,
    /// `None` if it was truncated.
    inner: Option<InnerProduct>,
    cy: B256,
    cz: B256,
    cx: B256,
}

#[derive(Default)]
struct InnerProduct {
    left: Vec<WrittenPoint>,
    right: Vec<WrittenPoint>,
    a: Scalar,
    b: Scalar,
    challenges: Vec<B256>,
}

/// Verifies a proof.
///
/// # Errors
/// [`ProofError`].
pub(super) fn verify(input: &[u8], interrupt: &Interrupt) -> Result<(), ProofError> {
    let proof = Proof::read(input, interrupt)?;
    proof.check_challenges()?;
    Verification::of(&proof, interrupt)?.run()
}

/// Returns whether these bytes have the form of a proof.
pub(super) fn is_readable(input: &[u8]) -> bool {
    Proof::read(input, &Interrupt::never()).is_ok()
}

/// Consecutive points, preceded by their count if `count` is 0.
fn read_points(input: &[u8], count: u32, interrupt: &Interrupt) -> Result<Vec<WrittenPoint>, ProofError> {
    if input.len() <= 4 {
        return Err(Invalid);
    }
    let mut rest = input;
    let (count, prefix) = match count {
        0 => (u32::from_be_bytes(take(&mut rest).ok_or(Invalid)?), 4_u32),
        count => (count, 0),
    };
    // The reference computes the length in 32 bits.
    let length = u32::try_from(input.len()).map_err(|_| Undefined("an input of 4 GiB"))?;
    if length < prefix.wrapping_add(33_u32.wrapping_mul(count)) {
        return Err(Invalid);
    }
    let count = count as usize;
    if rest.len() / POINT_LENGTH < count {
        return Err(Undefined("a number of points beyond the input"));
    }
    let mut point = |_| {
        check_interrupt(interrupt)?;
        Ok(WrittenPoint::read(&take(&mut rest).ok_or(Invalid)?))
    };
    (0..count).map(&mut point).collect()
}

fn word_at(input: &[u8], offset: usize) -> Option<B256> {
    input.get(offset..offset.checked_add(32)?).map(B256::from_slice)
}

impl Proof {
    fn read(input: &[u8], interrupt: &Interrupt) -> Result<Self, ProofError> {
        let commitments = read_points(input, 0, interrupt)?;
        let head = 4 + commitments.len() * POINT_LENGTH;
        if input.len() <= head + 4 + 4 * POINT_LENGTH + 6 * 32 {
            return Err(Invalid);
        }
        let mut rest = &input[head..];
        let mut point = || take(&mut rest).map(|bytes| WrittenPoint::read(&bytes)).ok_or(Invalid);
        let [a, s, t1, t2] = [point()?, point()?, point()?, point()?];
        let mut number = || take(&mut rest).map(|bytes| scalar(bytes.into())).ok_or(Invalid);
        let [tau, th, mu] = [number()?, number()?, number()?];
        let (inner, is_whole, length) = InnerProduct::read(rest, rounds(commitments.len()), interrupt)?;
        let challenge = |index: usize| {
            word_at(rest, length + index * 32).ok_or(Undefined("a proof that ends before its challenges"))
        };
        let (cy, cz, cx) = (challenge(0)?, challenge(1)?, challenge(2)?);
        let inner = is_whole.then_some(inner);
        Ok(Self { commitments, a, s, t1, t2, tau, th, mu, inner, cy, cz, cx })
    }

    /// The challenges must be the hashes of the preceding data.
    fn check_challenges(&self) -> Result<(), ProofError> {
        let mut text: Vec<u8> = self.commitments.iter().flat_map(WrittenPoint::hashed).collect();
        text.extend_from_slice(&self.a.hashed());
        let cy = keccak256(&text);
        text.extend_from_slice(&self.s.hashed());
        let cz = keccak256(&text);
        text.extend_from_slice(&self.t1.hashed());
        text.extend_from_slice(&self.t2.hashed());
        let cx = keccak256(&text);
        if (cy, cz, cx) == (self.cy, self.cz, self.cx) { Ok(()) } else { Err(Invalid) }
    }
}

/// Rounds of the inner product: the logarithm of the number of bits, rounded down. `None` without values.
fn rounds(values: usize) -> Option<u32> {
    (values * BITS).checked_ilog2()
}

impl InnerProduct {
    /// Reads as far as the bytes go: returns what was read, whether it is complete, and its presumed length.
    ///
    /// Without values, the reference computes the number of rounds from the logarithm of zero. It then reads the number
    /// of points from the input, and reads no challenge.
    fn read(input: &[u8], rounds: Option<u32>, interrupt: &Interrupt) -> Result<(Self, bool, usize), ProofError> {
        let mut inner = Self::default();
        let is_whole = inner.fill(input, rounds, interrupt)?;
        let points = inner.left.len() + inner.right.len();
        let length = points * POINT_LENGTH + inner.challenges.len() * 32 + 64;
        Ok((inner, is_whole && rounds.is_some(), length))
    }

    fn fill(&mut self, input: &[u8], rounds: Option<u32>, interrupt: &Interrupt) -> Result<bool, ProofError> {
        if input.len() <= 12 {
            return Ok(false);
        }
        let count = rounds.unwrap_or(0);
        match read_points(input, count, interrupt) {
            Ok(points) => self.left = points,
            Err(Invalid) => return Ok(false),
            Err(other) => return Err(other),
        }
        let offset = self.left.len() * POINT_LENGTH;
        match read_points(&input[offset..], count, interrupt) {
            Ok(points) => self.right = points,
            Err(Invalid) => return Ok(false),
            Err(other) => return Err(other),
        }
        let offset = offset + self.right.len() * POINT_LENGTH;
        if input.len() <= offset + 64 + 4 {
            return Ok(false);
        }
        let (Some(a), Some(b)) = (word_at(input, offset), word_at(input, offset + 32)) else { return Ok(false) };
        (self.a, self.b) = (scalar(a), scalar(b));
        let offset = offset + 64;
        let challenges = rounds.map_or(0, |rounds| rounds as usize + 1);
        if input.len() <= offset + 32 * challenges.max(1) {
            return Ok(false);
        }
        self.challenges = (0..challenges).filter_map(|index| word_at(input, offset + index * 32)).collect();
        Ok(true)
    }
}

/// The points and numbers of a proof with correct challenges.
struct Verification<'a> {
    proof: &'a Proof,
    inner: &'a InnerProduct,
    value_base: ProjectivePoint,
    commitments: Vec<ProjectivePoint>,
    a: ProjectivePoint,
    s: ProjectivePoint,
    t1: ProjectivePoint,
    t2: ProjectivePoint,
    left: Vec<ProjectivePoint>,
    right: Vec<ProjectivePoint>,
    cx: Scalar,
    cz: Scalar,
    cy: Scalar,
    /// Bits of all values.
    bits: usize,
    interrupt: &'a Interrupt,
}

impl<'a> Verification<'a> {
    fn of(proof: &'a Proof, interrupt: &'a Interrupt) -> Result<Self, ProofError> {
        let on_curve = |point: &WrittenPoint| point.point.ok_or(Undefined("points that are on no curve"));
        let all = |points: &[WrittenPoint]| points.iter().map(on_curve).collect::<Result<Vec<_>, _>>();
        let inner = proof.inner.as_ref().ok_or(Undefined("a proof without its inner part"))?;
        Ok(Self {
            proof,
            inner,
            value_base: point_at(VALUE_BASE.0, VALUE_BASE.1).ok_or(Undefined("its generator"))?,
            commitments: all(&proof.commitments)?,
            a: on_curve(&proof.a)?,
            s: on_curve(&proof.s)?,
            t1: on_curve(&proof.t1)?,
            t2: on_curve(&proof.t2)?,
            left: all(&inner.left)?,
            right: all(&inner.right)?,
            cx: scalar(proof.cx),
            cz: scalar(proof.cz),
            cy: scalar(proof.cy),
            bits: proof.commitments.len() * BITS,
            interrupt,
        })
    }

    fn run(&self) -> Result<(), ProofError> {
        self.check_polynomial()?;
        self.check_inner_product()
    }

    /// `th·Hc + tau·Gc = delta·Hc + cx·T1 + cx²·T2 + Σ cz^(2+j)·V_j`.
    fn check_polynomial(&self) -> Result<(), ProofError> {
        let square = self.cz.square();
        let mut committed = ProjectivePoint::IDENTITY;
        for (point, power) in self.commitments.iter().zip(powers(self.cz)) {
            check_interrupt(self.interrupt)?;
            committed += *point * (square * power);
        }
        let left = self.value_base * self.proof.th + ProjectivePoint::GENERATOR * self.proof.tau;
        let right = self.value_base * self.delta() + self.t1 * self.cx + self.t2 * self.cx.square() + committed;
        have_same_x(&left, &right)
    }

    fn delta(&self) -> Scalar {
        let sum: Scalar = self.powers_of_y().sum();
        let largest = Scalar::from(u64::MAX);
        let cube = self.cz.square() * self.cz;
        let values: Scalar = powers(self.cz).take(self.commitments.len()).map(|power| cube * power * largest).sum();
        (self.cz - self.cz.square()) * sum - values
    }

    /// `h'_i = y^(-i)·h_i`.
    fn scaled_generators(&self) -> Result<Vec<ProjectivePoint>, ProofError> {
        let scaled = |(index, power): (usize, Scalar)| {
            check_interrupt(self.interrupt)?;
            let inverse = inverse(&power)?;
            Ok(self.value_base * (Scalar::from(index as u64 * 2 + 1) * inverse))
        };
        self.powers_of_y().enumerate().map(scaled).collect()
    }

    fn check_inner_product(&self) -> Result<(), ProofError> {
        let scaled = self.scaled_generators()?;
        let generator = |index: usize| -> Result<ProjectivePoint, ProofError> {
            check_interrupt(self.interrupt)?;
            Ok(ProjectivePoint::GENERATOR * Scalar::from(index as u64 * 2 + 2))
        };
        let generators = (0..self.bits).map(generator).collect::<Result<Vec<_>, _>>()?;
        let point = self.inner_commitment(&generators, &scaled)?;
        let challenge = keccak256(hashed(&point));
        let inner = self.inner;
        let rounds = inner.challenges.len().saturating_sub(1);
        if inner.challenges.get(rounds) != Some(&challenge) {
            return Err(Invalid);
        }
        for (index, (left, right)) in inner.left.iter().zip(&inner.right).enumerate() {
            if inner.challenges[index] != keccak256([left.hashed(), right.hashed()].concat()) {
                return Err(Invalid);
            }
        }
        let base = ProjectivePoint::GENERATOR * Scalar::from(self.bits as u64 + 3) * scalar(challenge);
        let challenges: Vec<Scalar> = inner.challenges[..rounds].iter().map(|challenge| scalar(*challenge)).collect();
        let inverses = challenges.iter().map(inverse).collect::<Result<Vec<_>, _>>()?;
        let mut given = point + base * self.proof.th;
        for (index, (left, right)) in self.left.iter().zip(&self.right).enumerate() {
            given += *left * challenges[index].square() + *right * inverses[index].square();
        }
        let mut wanted = base * (inner.a * inner.b);
        for (index, (generator, scaled)) in generators.iter().zip(&scaled).enumerate() {
            check_interrupt(self.interrupt)?;
            let (mut factor, mut inverse) = (Scalar::ONE, Scalar::ONE);
            for (bit, (challenge, inverted)) in challenges.iter().zip(&inverses).enumerate() {
                let is_set = index >> bit & 1 == 1;
                factor *= if is_set { challenge } else { inverted };
                inverse *= if is_set { inverted } else { challenge };
            }
            wanted += *generator * (factor * inner.a) + *scaled * (inverse * inner.b);
        }
        have_same_x(&given, &wanted)
    }

    /// `A + cx·S - cz·Σ g_i + Σ (cz·y^(64j+i) + cz^(2+j)·2^i)·h'_(64j+i) - mu·Gc`.
    fn inner_commitment(
        &self,
        generators: &[ProjectivePoint],
        scaled: &[ProjectivePoint],
    ) -> Result<ProjectivePoint, ProofError> {
        let mut sum = self.a + self.s * self.cx - ProjectivePoint::GENERATOR * self.proof.mu;
        let all: ProjectivePoint = generators.iter().sum();
        sum -= all * self.cz;
        let mut power_of_z = self.cz.square();
        let mut powers_of_y = self.powers_of_y();
        for value in scaled.chunks(BITS) {
            let mut power_of_two = Scalar::ONE;
            for (point, power) in value.iter().zip(&mut powers_of_y) {
                check_interrupt(self.interrupt)?;
                sum += *point * (self.cz * power + power_of_z * power_of_two);
                power_of_two = power_of_two.double();
            }
            power_of_z *= self.cz;
        }
        Ok(sum)
    }

    /// Powers of `cy`, one per bit: too many to store.
    fn powers_of_y(&self) -> impl Iterator<Item = Scalar> + use<> {
        powers(self.cy).take(self.bits)
    }
}

fn powers(base: Scalar) -> impl Iterator<Item = Scalar> {
    std::iter::successors(Some(Scalar::ONE), move |power| Some(power * &base))
}

fn inverse(number: &Scalar) -> Result<Scalar, ProofError> {
    Option::from(number.invert()).ok_or(Undefined("a challenge that is zero"))
}

/// The reference compares only the x coordinate.
fn have_same_x(left: &ProjectivePoint, right: &ProjectivePoint) -> Result<(), ProofError> {
    if coordinates(left).0 == coordinates(right).0 { Ok(()) } else { Err(Invalid) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::precompiles::recorded_proofs;

    fn verified(input: &[u8]) -> Result<(), ProofError> {
        verify(input, &Interrupt::never())
    }

    #[test]
    fn proofs_of_one_two_and_four_values_are_valid_and_no_others() {
        let proofs = recorded_proofs("0x28");
        assert_eq!(proofs.len(), 3);
        for proof in proofs {
            assert_eq!(verified(&proof), Ok(()));
            for position in [10, proof.len() / 3, proof.len() / 2, proof.len() - 1] {
                let mut tampered = proof.clone();
                tampered[position] ^= 1;
                assert_ne!(verified(&tampered), Ok(()), "byte {position}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_proof_are_invalid_or_undefined() {
        for length in [0, 4, 5, 64, 331, 400, 1000] {
            assert_ne!(verified(&vec![0; length]), Ok(()), "{length} bytes");
            assert_ne!(verified(&vec![0xff; length]), Ok(()), "{length} bytes");
        }
        assert_eq!(verified(&[0; 64]), Err(Invalid));
        assert_eq!(verified(&[0; 1000]), Err(Invalid));
    }
}
