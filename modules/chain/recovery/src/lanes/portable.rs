//! Eight lanes as an array.

use std::{
    array,
    ops::{Add, BitAnd, BitOr, BitXor, Sub},
};

use super::{LANES, Lanes, Mask, Operation};

/// The low 52 bits.
const LOW: u64 = (1 << 52) - 1;

/// Eight lanes on any machine.
#[derive(Clone, Copy)]
pub(crate) struct Portable([u64; LANES]);

impl Portable {
    fn with(self, other: Self, each: impl Fn(u64, u64) -> u64) -> Self {
        Self(array::from_fn(|lane| each(self.0[lane], other.0[lane])))
    }
}

impl Add for Portable {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.with(other, u64::wrapping_add)
    }
}

impl Sub for Portable {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.with(other, u64::wrapping_sub)
    }
}

impl BitAnd for Portable {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        self.with(other, |a, b| a & b)
    }
}

impl BitOr for Portable {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.with(other, |a, b| a | b)
    }
}

impl BitXor for Portable {
    type Output = Self;
    fn bitxor(self, other: Self) -> Self {
        self.with(other, |a, b| a ^ b)
    }
}

/// The product of the low 52 bits of both.
fn product(a: u64, b: u64) -> u128 {
    u128::from(a & LOW) * u128::from(b & LOW)
}

impl Lanes for Portable {
    fn splat(number: u64) -> Self {
        Self([number; LANES])
    }

    fn from_array(numbers: [u64; LANES]) -> Self {
        Self(numbers)
    }

    fn to_array(self) -> [u64; LANES] {
        self.0
    }

    fn shift_left<const BITS: u32>(self) -> Self {
        Self(self.0.map(|number| number << BITS))
    }

    fn shift_right<const BITS: u32>(self) -> Self {
        Self(self.0.map(|number| number >> BITS))
    }

    fn shift_right_by(self, bits: u32) -> Self {
        Self(self.0.map(|number| number >> bits))
    }

    fn add_low_product(self, a: Self, b: Self) -> Self {
        self + a.with(b, |a, b| (product(a, b) as u64) & LOW)
    }

    fn add_high_product(self, a: Self, b: Self) -> Self {
        self + a.with(b, |a, b| (product(a, b) >> 52) as u64)
    }

    fn zero_lanes(self) -> Mask {
        self.0.iter().enumerate().fold(0, |mask, (lane, number)| mask | (Mask::from(*number == 0) << lane))
    }

    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        Self(array::from_fn(|lane| if mask >> lane & 1 == 1 { yes.0[lane] } else { no.0[lane] }))
    }

    fn look_up<const N: usize>(table: &[u64; N], index: Self) -> Self {
        Self(index.0.map(|index| table[index as usize & (N - 1)]))
    }

    fn rotate_left(self, bits: u32) -> Self {
        Self(self.0.map(|number| number.rotate_left(bits)))
    }

    fn not_and(self, other: Self) -> Self {
        self.with(other, |a, b| !a & b)
    }

    fn xor3(self, second: Self, third: Self) -> Self {
        self ^ second ^ third
    }

    fn run_operation<O: Operation>(operation: O) -> O::Output {
        operation.run()
    }
}
