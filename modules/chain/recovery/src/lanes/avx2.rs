//! Eight lanes in two registers of AVX2, multiplied as floating-point numbers with FMA.
//!
//! A product of two limbs below 2^52 has up to 104 bits; a floating-point number holds 53. A fused multiply-add computes
//! `a × b + 2^104` and rounds once. Numbers from 2^104 on are multiples of 2^52, so the result contains the high part of
//! the product, rounded to the nearest. A second one subtracts the high part from `a × b`; the difference, the low part,
//! is exact and lies between −2^51 and 2^51. Both are added to numbers whose exponent is known, so that their bits,
//! minus a constant, are the parts as integers. All this requires rounding to the nearest, the mode of all Rust code.
//!
//! The sixteen registers hold the columns of four lanes only, so one half is multiplied after the other.
//!
//! The intrinsics are called in `unsafe` blocks for the reasons in `avx512.rs`.
#![allow(unsafe_code, reason = "intrinsics: each block says what makes it sound")]

use std::{
    arch::x86_64::*,
    ops::{Add, BitAnd, BitOr, BitXor, Sub},
};

use super::{LANES, Lanes, Limbs, Mask, Multiplication, Operation};
use crate::field::LOW_52;

/// Eight lanes: the first four, and the last four. Only code guarded by [`Self::is_supported`] uses this type: `lib.rs`
/// checks it before each batch, and so do the tests.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(Half, Half);

/// Four lanes.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Half(__m256i);

impl Avx2 {
    /// Returns whether the processor and the operating system support the instructions.
    pub(crate) fn is_supported() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }
}

/// Bits of 2^52. The integers between it and 2^53 have the bits that follow, in steps of 1.
const TWO_52: u64 = 0x433 << 52;
/// Bits of 2^104. The multiples of 2^52 above it, up to 2^105, have the bits that follow, in steps of 1.
const TWO_104: u64 = 0x467 << 52;
/// Bits of 2^104 − 3 × 2^51.
const TWO_104_LESS: u64 = TWO_104 - 3;
/// Bits of −3 × 2^51. Adding an integer between −2^51 and 2^51 to this number subtracts it from the bits.
const MINUS_3_TIMES_TWO_51: u64 = 0xc338 << 48;

/// A register of four equal floating-point numbers, from their bits.
#[inline(always)]
fn floats(bits: u64) -> __m256d {
    intrinsic!(_mm256_castsi256_pd(_mm256_set1_epi64x(bits.cast_signed())))
}

/// Its bits are the high part of a × b, rounded to the nearest, plus those of 2^104.
#[inline(always)]
fn biased_high_part(a: __m256d, b: __m256d) -> __m256d {
    intrinsic!(_mm256_fmadd_pd(a, b, floats(TWO_104)))
}

/// Its bits are those of −3 × 2^51, minus the low part of a × b.
#[inline(always)]
fn biased_low_part(a: __m256d, b: __m256d) -> __m256d {
    let high = biased_high_part(a, b);
    intrinsic!(_mm256_fmadd_pd(a, b, _mm256_sub_pd(floats(TWO_104_LESS), high)))
}

impl Add for Half {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(intrinsic!(_mm256_add_epi64(self.0, other.0)))
    }
}

impl Limbs for Half {
    type Operand = __m256d;

    /// A multiple of p. Columns 0 to 8 are at least 2^55: ten low parts, of −2^51 each, can be added.
    const START: [u64; 10] = [
        0x8f_ff7e_fffe_13af,
        0x8f_ff7f_fffe_1777,
        0x8f_ff7f_fffe_1777,
        0x8f_ff7f_fffe_1777,
        0x80_ff7f_fffe_1777,
        1 << 55,
        1 << 55,
        1 << 55,
        1 << 55,
        0,
    ];

    #[inline(always)]
    fn constant(number: u64) -> Self {
        Self(intrinsic!(_mm256_set1_epi64x(number.cast_signed())))
    }

    #[inline(always)]
    fn above_52_bits(self) -> Self {
        Self(intrinsic!(_mm256_srli_epi64::<52>(self.0)))
    }

    #[inline(always)]
    fn operand(self) -> __m256d {
        let biased = intrinsic!(_mm256_or_si256(self.0, Self::constant(TWO_52).0));
        intrinsic!(_mm256_sub_pd(_mm256_castsi256_pd(biased), floats(TWO_52)))
    }

    #[inline(always)]
    fn low_operand(self) -> __m256d {
        Self(intrinsic!(_mm256_and_si256(self.0, Self::constant(LOW_52).0))).operand()
    }

    #[inline(always)]
    fn plus_low_part(self, a: __m256d, b: __m256d) -> Self {
        let low = intrinsic!(_mm256_castpd_si256(biased_low_part(a, b)));
        let low = intrinsic!(_mm256_sub_epi64(Self::constant(MINUS_3_TIMES_TWO_51).0, low));
        self + Self(low)
    }

    #[inline(always)]
    fn plus_high_part(self, a: __m256d, b: __m256d) -> Self {
        let high = intrinsic!(_mm256_castpd_si256(biased_high_part(a, b)));
        self + Self(intrinsic!(_mm256_sub_epi64(high, Self::constant(TWO_104).0)))
    }
}

impl Half {
    /// The low 52 bits of the product of the low 52 bits of both, and the bits above.
    #[inline(always)]
    fn exact_parts(a: Self, b: Self) -> (Self, Self) {
        let (a, b) = (a.low_operand(), b.low_operand());
        let (low, high) = (Self::constant(0).plus_low_part(a, b), Self::constant(0).plus_high_part(a, b));
        // All ones, that is −1, in the lanes in which the high part was rounded up.
        let rounded_up = Self(intrinsic!(_mm256_cmpgt_epi64(_mm256_setzero_si256(), low.0)));
        (Self(intrinsic!(_mm256_and_si256(low.0, Self::constant(LOW_52).0))), high + rounded_up)
    }

    #[inline(always)]
    fn zero_lanes(self) -> Mask {
        let zeros = intrinsic!(_mm256_cmpeq_epi64(self.0, _mm256_setzero_si256()));
        intrinsic!(_mm256_movemask_pd(_mm256_castsi256_pd(zeros))) as Mask
    }

    /// `yes` in the lanes whose bit of the mask, from bit 0 on, is set.
    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        let bits = intrinsic!(_mm256_setr_epi64x(1, 2, 4, 8));
        let set = intrinsic!(_mm256_and_si256(Self::constant(mask.into()).0, bits));
        Self(intrinsic!(_mm256_blendv_epi8(no.0, yes.0, _mm256_cmpeq_epi64(set, bits))))
    }
}

/// Calls an intrinsic on both halves of vectors.
macro_rules! both {
    ($intrinsic:ident, $($vector:expr),+) => {
        Avx2(
            Half(intrinsic!($intrinsic($($vector.0.0),+))),
            Half(intrinsic!($intrinsic($($vector.1.0),+))),
        )
    };
}

impl Add for Avx2 {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        both!(_mm256_add_epi64, self, other)
    }
}

impl Sub for Avx2 {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        both!(_mm256_sub_epi64, self, other)
    }
}

impl BitAnd for Avx2 {
    type Output = Self;
    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        both!(_mm256_and_si256, self, other)
    }
}

impl BitOr for Avx2 {
    type Output = Self;
    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        both!(_mm256_or_si256, self, other)
    }
}

impl BitXor for Avx2 {
    type Output = Self;
    #[inline(always)]
    fn bitxor(self, other: Self) -> Self {
        both!(_mm256_xor_si256, self, other)
    }
}

impl Avx2 {
    /// Shifts all lanes to the left; by 64 bits and more, to zero.
    #[inline(always)]
    fn shift_left_by(self, bits: u32) -> Self {
        let count = intrinsic!(_mm_cvtsi32_si128(bits.cast_signed()));
        Self(Half(intrinsic!(_mm256_sll_epi64(self.0.0, count))), Half(intrinsic!(_mm256_sll_epi64(self.1.0, count))))
    }
}

impl Lanes for Avx2 {
    #[inline(always)]
    fn splat(number: u64) -> Self {
        Self(Half::constant(number), Half::constant(number))
    }

    #[inline(always)]
    fn from_array(numbers: [u64; LANES]) -> Self {
        let (first, second) = (numbers[..4].as_ptr(), numbers[4..].as_ptr());
        // SAFETY: each half of the array has the 32 bytes that are read, at any alignment; the processor has the
        // instruction.
        unsafe { Self(Half(_mm256_loadu_si256(first.cast())), Half(_mm256_loadu_si256(second.cast()))) }
    }

    #[inline(always)]
    fn to_array(self) -> [u64; LANES] {
        let mut numbers = [0; LANES];
        let (first, second) = numbers.split_at_mut(4);
        // SAFETY: each half of the array has the 32 bytes that are written, at any alignment; the processor has the
        // instruction.
        unsafe {
            _mm256_storeu_si256(first.as_mut_ptr().cast(), self.0.0);
            _mm256_storeu_si256(second.as_mut_ptr().cast(), self.1.0);
        }
        numbers
    }

    #[inline(always)]
    fn shift_left<const BITS: u32>(self) -> Self {
        self.shift_left_by(BITS)
    }

    #[inline(always)]
    fn shift_right<const BITS: u32>(self) -> Self {
        self.shift_right_by(BITS)
    }

    #[inline(always)]
    fn shift_right_by(self, bits: u32) -> Self {
        let count = intrinsic!(_mm_cvtsi32_si128(bits.cast_signed()));
        Self(Half(intrinsic!(_mm256_srl_epi64(self.0.0, count))), Half(intrinsic!(_mm256_srl_epi64(self.1.0, count))))
    }

    #[inline(always)]
    fn add_low_product(self, a: Self, b: Self) -> Self {
        let (first, _) = Half::exact_parts(a.0, b.0);
        let (second, _) = Half::exact_parts(a.1, b.1);
        self + Self(first, second)
    }

    #[inline(always)]
    fn add_high_product(self, a: Self, b: Self) -> Self {
        let (_, first) = Half::exact_parts(a.0, b.0);
        let (_, second) = Half::exact_parts(a.1, b.1);
        self + Self(first, second)
    }

    #[inline(always)]
    fn multiply<M: Multiplication<N>, const N: usize>(numbers: [&[Self; 5]; N]) -> [Self; 6] {
        let (mut first, mut second) = ([[Half::constant(0); 5]; N], [[Half::constant(0); 5]; N]);
        for n in 0..N {
            for limb in 0..5 {
                (first[n][limb], second[n][limb]) = (numbers[n][limb].0, numbers[n][limb].1);
            }
        }
        let (first, second) = (M::run(&first), M::run(&second));
        let mut columns = [Self::splat(0); 6];
        for column in 0..6 {
            columns[column] = Self(first[column], second[column]);
        }
        columns
    }

    #[inline(always)]
    fn zero_lanes(self) -> Mask {
        self.0.zero_lanes() | self.1.zero_lanes() << 4
    }

    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        Self(Half::select(mask, yes.0, no.0), Half::select(mask >> 4, yes.1, no.1))
    }

    #[inline(always)]
    fn look_up<const N: usize>(table: &[u64; N], index: Self) -> Self {
        const { assert!(N.is_power_of_two() && N <= 1 << 30) };
        let within = index & Self::splat(N as u64 - 1);
        let table = table.as_ptr().cast();
        // SAFETY: each lane of `within` is less than N, so eight bytes at eight times it lie in the table; the processor
        // has the instruction.
        unsafe {
            Self(
                Half(_mm256_i64gather_epi64::<8>(table, within.0.0)),
                Half(_mm256_i64gather_epi64::<8>(table, within.1.0)),
            )
        }
    }

    #[inline(always)]
    fn rotate_left(self, bits: u32) -> Self {
        self.shift_left_by(bits) | self.shift_right_by(64 - bits)
    }

    #[inline(always)]
    fn not_and(self, other: Self) -> Self {
        both!(_mm256_andnot_si256, self, other)
    }

    #[inline(always)]
    fn xor3(self, second: Self, third: Self) -> Self {
        self ^ second ^ third
    }

    #[inline(always)]
    fn run_operation<O: Operation>(operation: O) -> O::Output {
        debug_assert!(Self::is_supported(), "vectors on a processor without their instructions");
        // SAFETY: the processor has the features that the function is compiled for: see `Avx2`.
        unsafe { compiled_for_the_instructions(operation) }
    }
}

#[target_feature(enable = "avx2,fma")]
#[inline(never)]
fn compiled_for_the_instructions<O: Operation>(operation: O) -> O::Output {
    operation.run()
}
