//! A vector of eight 64-bit lanes: its interface, and two implementations.
//!
//! The arithmetic is generic over [`Lanes`]. [`Portable`] runs everywhere and serves tests on machines without the
//! instructions; `Avx512` makes a batch fast.

use std::ops::{Add, BitAnd, BitOr, BitXor, Sub};

#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::{Avx512, is_supported};
pub(crate) use portable::Portable;

/// How many lanes a vector has.
pub(crate) const LANES: usize = 8;

/// One bit per lane; the lowest bit belongs to lane 0.
pub(crate) type Mask = u8;

/// Eight unsigned 64-bit numbers. All operations work lane by lane and wrap.
pub(crate) trait Lanes:
    Copy + Add<Output = Self> + Sub<Output = Self> + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self>
{
    /// The same number in all lanes.
    fn splat(number: u64) -> Self;
    /// Lane 0 first.
    fn from_array(numbers: [u64; LANES]) -> Self;
    /// Lane 0 first.
    fn to_array(self) -> [u64; LANES];
    /// Shifts by a number of bits known at compile time.
    fn shift_left<const BITS: u32>(self) -> Self;
    /// Shifts by a number of bits known at compile time.
    fn shift_right<const BITS: u32>(self) -> Self;
    /// Shifts all lanes by the same number of bits, less than 64.
    fn shift_right_by(self, bits: u32) -> Self;
    /// `self + low 52 bits of (low 52 bits of a × low 52 bits of b)`.
    fn add_low_product(self, a: Self, b: Self) -> Self;
    /// `self + bits 52 to 103 of (low 52 bits of a × low 52 bits of b)`.
    fn add_high_product(self, a: Self, b: Self) -> Self;
    /// The lanes that are zero.
    fn zero_lanes(self) -> Mask;
    /// Selects `yes` in the lanes of the mask and `no` in the others.
    fn select(mask: Mask, yes: Self, no: Self) -> Self;
    /// Looks up `table[index % N]` in each lane. `N` is a power of two.
    fn look_up<const N: usize>(table: &[u64; N], index: Self) -> Self;
    /// Rotates all lanes to the left by the same number of bits, less than 64.
    fn rotate_left(self, bits: u32) -> Self;
    /// `!self & other`.
    fn not_and(self, other: Self) -> Self;
    /// Exclusive or of three.
    fn xor3(self, second: Self, third: Self) -> Self;
    /// Runs an operation as a function of its own, compiled for the instructions of these lanes. Its code exists once,
    /// however many callers it has, so that loops fit into the instruction cache.
    fn call<O: Operation>(operation: O) -> O::Output;
}

/// A list of five, one for each limb, as `five!(i => limbs[i] + others[i])`.
///
/// Vector code uses no closures and no `array::from_fn`: these are separate functions, compiled without the target
/// features of the surrounding code, so that every operation in them would be a call through memory.
macro_rules! five {
    ($index:ident => $item:expr) => {
        [
            {
                let $index = 0;
                $item
            },
            {
                let $index = 1;
                $item
            },
            {
                let $index = 2;
                $item
            },
            {
                let $index = 3;
                $item
            },
            {
                let $index = 4;
                $item
            },
        ]
    };
}
pub(crate) use five;

/// An operation for [`Lanes::call`]. Implementations are `#[inline(always)]`.
pub(crate) trait Operation {
    /// Its result.
    type Output;
    /// Runs it.
    fn run(self) -> Self::Output;
}
