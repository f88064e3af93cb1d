//! Eight lanes in one register of AVX-512, with the 52-bit products of IFMA.
//!
//! The intrinsics are called in `unsafe` blocks because trait methods cannot declare target features, and functions
//! that do cannot be forced inline. Every method is inlined into a function that [`Lanes::run_operation`] compiles for
//! these instructions, where the intrinsics become single instructions.
#![allow(unsafe_code, reason = "intrinsics: each block says what makes it sound")]

use std::{
    arch::x86_64::*,
    ops::{Add, BitAnd, BitOr, BitXor, Sub},
};

use super::{LANES, Lanes, Mask, Operation};

/// Eight lanes in a register. Only code guarded by [`Self::is_supported`] uses this type: `lib.rs` checks it before each
/// batch, and so do the tests.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Avx512(__m512i);

impl Avx512 {
    /// Returns whether the processor and the operating system support the instructions.
    pub(crate) fn is_supported() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512ifma")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
    }
}

impl Add for Avx512 {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_add_epi64(self.0, other.0)))
    }
}

impl Sub for Avx512 {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_sub_epi64(self.0, other.0)))
    }
}

impl BitAnd for Avx512 {
    type Output = Self;
    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_and_si512(self.0, other.0)))
    }
}

impl BitOr for Avx512 {
    type Output = Self;
    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_or_si512(self.0, other.0)))
    }
}

impl BitXor for Avx512 {
    type Output = Self;
    #[inline(always)]
    fn bitxor(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_xor_si512(self.0, other.0)))
    }
}

impl Lanes for Avx512 {
    #[inline(always)]
    fn splat(number: u64) -> Self {
        Self(intrinsic!(_mm512_set1_epi64(number.cast_signed())))
    }

    #[inline(always)]
    fn from_array(numbers: [u64; LANES]) -> Self {
        // SAFETY: the array has the 64 bytes that are read, at any alignment; the processor has the instruction.
        Self(unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) })
    }

    #[inline(always)]
    fn to_array(self) -> [u64; LANES] {
        let mut numbers = [0; LANES];
        // SAFETY: the array has the 64 bytes that are written, at any alignment; the processor has the instruction.
        unsafe { _mm512_storeu_si512(numbers.as_mut_ptr().cast(), self.0) };
        numbers
    }

    #[inline(always)]
    fn shift_left<const BITS: u32>(self) -> Self {
        Self(intrinsic!(_mm512_slli_epi64::<BITS>(self.0)))
    }

    #[inline(always)]
    fn shift_right<const BITS: u32>(self) -> Self {
        Self(intrinsic!(_mm512_srli_epi64::<BITS>(self.0)))
    }

    #[inline(always)]
    fn shift_right_by(self, bits: u32) -> Self {
        Self(intrinsic!(_mm512_srlv_epi64(self.0, _mm512_set1_epi64(i64::from(bits)))))
    }

    #[inline(always)]
    fn add_low_product(self, a: Self, b: Self) -> Self {
        Self(intrinsic!(_mm512_madd52lo_epu64(self.0, a.0, b.0)))
    }

    #[inline(always)]
    fn add_high_product(self, a: Self, b: Self) -> Self {
        Self(intrinsic!(_mm512_madd52hi_epu64(self.0, a.0, b.0)))
    }

    #[inline(always)]
    fn zero_lanes(self) -> Mask {
        intrinsic!(_mm512_testn_epi64_mask(self.0, self.0))
    }

    #[inline(always)]
    fn select(mask: Mask, yes: Self, no: Self) -> Self {
        Self(intrinsic!(_mm512_mask_blend_epi64(mask, no.0, yes.0)))
    }

    #[inline(always)]
    fn look_up<const N: usize>(table: &[u64; N], index: Self) -> Self {
        const { assert!(N.is_power_of_two() && N <= 1 << 30) };
        let within = index & Self::splat(N as u64 - 1);
        // SAFETY: each lane of `within` is less than N, so eight bytes at eight times it lie in the table; the processor has
        // the instruction.
        Self(unsafe { _mm512_i64gather_epi64::<8>(within.0, table.as_ptr().cast()) })
    }

    #[inline(always)]
    fn rotate_left(self, bits: u32) -> Self {
        Self(intrinsic!(_mm512_rolv_epi64(self.0, _mm512_set1_epi64(i64::from(bits)))))
    }

    #[inline(always)]
    fn not_and(self, other: Self) -> Self {
        Self(intrinsic!(_mm512_andnot_si512(self.0, other.0)))
    }

    #[inline(always)]
    fn xor3(self, second: Self, third: Self) -> Self {
        // 0x96 is the truth table of the exclusive or of three bits.
        Self(intrinsic!(_mm512_ternarylogic_epi64::<0x96>(self.0, second.0, third.0)))
    }

    #[inline(always)]
    fn run_operation<O: Operation>(operation: O) -> O::Output {
        debug_assert!(Self::is_supported(), "vectors on a processor without their instructions");
        // SAFETY: the processor has the features that the function is compiled for: see `Avx512`.
        unsafe { compiled_for_the_instructions(operation) }
    }
}

#[target_feature(enable = "avx512f,avx512ifma,avx512dq,avx512bw,avx512vl")]
#[inline(never)]
fn compiled_for_the_instructions<O: Operation>(operation: O) -> O::Output {
    operation.run()
}
