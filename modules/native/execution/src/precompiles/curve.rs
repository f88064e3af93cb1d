//! secp256k1 in the form used by both proofs: points of 33 bytes, coordinates of 32 bytes, infinity as (0, 0).

use alloy_primitives::{B256, U256, uint};
use k256::{
    AffinePoint, FieldBytes, ProjectivePoint, Scalar,
    elliptic_curve::{
        ops::Reduce,
        point::DecompressPoint,
        sec1::{FromEncodedPoint, ToEncodedPoint},
        subtle::Choice,
    },
};

/// Length of a compressed point.
pub(super) const POINT_LENGTH: usize = 33;
/// Order of the field.
const FIELD: U256 = uint!(0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEFFFFFC2F_U256);
/// Order of the group.
pub(super) const ORDER: U256 = uint!(0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141_U256);

/// An encoded point: its x coordinate may be outside the field.
#[derive(Clone, Copy)]
pub(super) struct WrittenPoint {
    /// The abscissa as written.
    x: B256,
    /// The y coordinate computed by the reference, even if no point has this x.
    y: B256,
    /// The point; `None` if no point has this x.
    pub(super) point: Option<ProjectivePoint>,
}

impl WrittenPoint {
    /// Decodes a compressed point: the parity is the lowest bit of the first byte, whose other bits are ignored.
    pub(super) fn read(bytes: &[u8; POINT_LENGTH]) -> Self {
        let x = B256::from_slice(&bytes[1..]);
        let reduced = U256::from_be_bytes(x.0) % FIELD;
        let field_bytes = FieldBytes::from(reduced.to_be_bytes::<32>());
        let found: Option<AffinePoint> = AffinePoint::decompress(&field_bytes, Choice::from(bytes[0] & 1)).into();
        let y = match &found {
            Some(point) => coordinates(&ProjectivePoint::from(*point)).1,
            None => y_without_point(reduced, bytes[0] & 1 == 1),
        };
        Self { x, y, point: found.map(ProjectivePoint::from) }
    }

    /// Both coordinates, as hashed.
    pub(super) fn hashed(&self) -> [u8; 64] {
        joined(self.x, self.y)
    }
}

/// The y coordinate that the reference computes for an x without a point: a square root of `-(x³ + 7)`.
fn y_without_point(x: U256, is_odd: bool) -> B256 {
    const EXPONENT: U256 = uint!(0x3fffffffffffffffffffffffffffffffffffffffffffffffffffffffbfffff0c_U256);
    let cube = x.mul_mod(x, FIELD).mul_mod(x, FIELD);
    let root = cube.add_mod(U256::from(7), FIELD).pow_mod(EXPONENT, FIELD);
    let y = if root.bit(0) == is_odd { root } else { FIELD - root };
    B256::from(y)
}

/// A point by its coordinates; `None` if it is not on the curve.
pub(super) fn point_at(x: B256, y: B256) -> Option<ProjectivePoint> {
    let encoded = k256::EncodedPoint::from_affine_coordinates(&x.0.into(), &y.0.into(), false);
    ProjectivePoint::from_encoded_point(&encoded).into()
}

/// Both coordinates of a point; zero for infinity.
pub(super) fn coordinates(point: &ProjectivePoint) -> (B256, B256) {
    let encoded = point.to_affine().to_encoded_point(false);
    let word = |bytes: Option<&FieldBytes>| bytes.map_or(B256::ZERO, |bytes| B256::from_slice(bytes));
    (word(encoded.x()), word(encoded.y()))
}

/// Both coordinates, one after the other.
pub(super) fn hashed(point: &ProjectivePoint) -> [u8; 64] {
    let (x, y) = coordinates(point);
    joined(x, y)
}

fn joined(x: B256, y: B256) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..32].copy_from_slice(x.as_slice());
    bytes[32..].copy_from_slice(y.as_slice());
    bytes
}

/// A number modulo the order of the group.
pub(super) fn scalar(number: B256) -> Scalar {
    <Scalar as Reduce<k256::U256>>::reduce_bytes(&number.0.into())
}

/// A number that must be below the order of the group.
pub(super) fn canonical_scalar(number: B256) -> Option<Scalar> {
    (U256::from_be_bytes(number.0) < ORDER).then(|| scalar(number))
}

/// Removes the next bytes from an input.
pub(super) fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(*taken)
}
