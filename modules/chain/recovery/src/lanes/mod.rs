//! A vector of eight 64-bit lanes: its interface, and three implementations.
//!
//! The arithmetic is generic over [`Lanes`]. `Avx512` and `Avx2` make a batch fast. [`Portable`] runs everywhere: it
//! serves tests, and makes the generator's table.

use std::ops::{Add, BitAnd, BitOr, BitXor, Sub};

/// Calls an intrinsic that works only on values.
#[cfg(target_arch = "x86_64")]
macro_rules! intrinsic {
    ($call:expr) => {
        // SAFETY: it accesses no memory, and the processor has the instruction: see `Avx512` and `Avx2`.
        unsafe { $call }
    };
}

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
pub(crate) use portable::Portable;

/// Instructions that make batches faster than the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
    /// AVX-512 with the 52-bit products of IFMA.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2 with FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Instructions {
    /// The fastest ones that the processor and the operating system support.
    pub(crate) fn of_machine() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if Avx512::is_supported() {
            return Some(Self::Avx512);
        } else if Avx2::is_supported() {
            return Some(Self::Avx2);
        }
        None
    }
}

/// How many lanes a vector has.
pub(crate) const LANES: usize = 8;

/// One bit per lane; the lowest bit belongs to lane 0.
pub(crate) type Mask = u8;

/// Vectors of limbs that are multiplied and added up in columns of 52 bits: all lanes, or a part of them.
///
/// The high part of a product may be rounded to the nearest, so that the low part is between −2^51 and 2^52.
pub(crate) trait Limbs: Copy + Add<Output = Self> {
    /// Limbs in the form in which they are multiplied.
    type Operand: Copy;

    /// What the columns of a product start with: a multiple of p that keeps every column from becoming negative if low
    /// parts can be negative, and zero otherwise.
    const START: [u64; 10];

    /// The same number in all lanes.
    fn constant(number: u64) -> Self;
    /// The bits above the low 52.
    fn above_52_bits(self) -> Self;
    /// Limbs below 2^52, to be multiplied.
    fn operand(self) -> Self::Operand;
    /// The low 52 bits, to be multiplied.
    fn low_operand(self) -> Self::Operand;
    /// `self + low part of a × b`.
    fn plus_low_part(self, a: Self::Operand, b: Self::Operand) -> Self;
    /// `self + high part of a × b`.
    fn plus_high_part(self, a: Self::Operand, b: Self::Operand) -> Self;
}

/// All lanes together, with exact parts.
impl<L: Lanes> Limbs for L {
    type Operand = Self;

    const START: [u64; 10] = [0; 10];

    #[inline(always)]
    fn constant(number: u64) -> Self {
        Self::splat(number)
    }

    #[inline(always)]
    fn above_52_bits(self) -> Self {
        self.shift_right::<52>()
    }

    #[inline(always)]
    fn operand(self) -> Self {
        self
    }

    #[inline(always)]
    fn low_operand(self) -> Self {
        self
    }

    #[inline(always)]
    fn plus_low_part(self, a: Self, b: Self) -> Self {
        self.add_low_product(a, b)
    }

    #[inline(always)]
    fn plus_high_part(self, a: Self, b: Self) -> Self {
        self.add_high_product(a, b)
    }
}

/// Products of numbers of five limbs, with their sum in six columns (`product.rs`).
pub(crate) trait Multiplication<const N: usize> {
    /// Multiplies all lanes, or a part of them.
    fn run<V: Limbs>(numbers: &[[V; 5]; N]) -> [V; 6];
}

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
    /// Multiplies numbers of five limbs.
    #[inline(always)]
    fn multiply<M: Multiplication<N>, const N: usize>(numbers: [&[Self; 5]; N]) -> [Self; 6] {
        let mut copies = [[Self::splat(0); 5]; N];
        for (copy, number) in copies.iter_mut().zip(numbers) {
            *copy = *number;
        }
        M::run(&copies)
    }
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
    fn run_operation<O: Operation>(operation: O) -> O::Output;
}

/// A list of five, one for each limb, as `five!(i => limbs[i] + others[i])`.
///
/// Vector code uses no closures and no `array::from_fn`. They are separate functions, compiled without the target
/// features of the surrounding code, so every operation in them would be a call that passes vectors through memory.
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

/// An operation for [`Lanes::run_operation`]. Implementations are `#[inline(always)]`.
pub(crate) trait Operation {
    /// Its result.
    type Output;
    /// Runs it.
    fn run(self) -> Self::Output;
}
