//! Tests the arithmetic against a slow model, and the ladder at its exceptions. The public interface is tested in
//! `tests/`.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod arithmetic;
mod exceptions;

use num_bigint::BigUint;

use crate::lanes::{self, LANES};

/// Runs a generic test with portable lanes, and with all vectors whose instructions the machine has.
macro_rules! with_all_lanes {
    ($test:ident ( $($argument:expr),* )) => {{
        $test::<$crate::lanes::Portable>($($argument),*);
        #[cfg(target_arch = "x86_64")]
        {
            if $crate::lanes::Avx512::is_supported() {
                $test::<$crate::lanes::Avx512>($($argument),*);
            }
            if $crate::lanes::Avx2::is_supported() {
                $test::<$crate::lanes::Avx2>($($argument),*);
            }
        }
    }};
}
use with_all_lanes;

/// p of the field.
fn prime() -> BigUint {
    (BigUint::from(1_u8) << 256_u32) - (BigUint::from(1_u8) << 32_u32) - 977_u32
}

/// n of the group.
fn order() -> BigUint {
    number_of_words(&crate::scalar::ORDER, 64)
}

/// The number represented by words of some bits, lowest first. Words may have more bits than that.
fn number_of_words(words: &[u64], bits: u32) -> BigUint {
    words.iter().rev().fold(BigUint::default(), |number, word| (number << bits) + BigUint::from(*word))
}

/// Four words of 64 bits of a number below 2^256.
fn words_of_number(number: &BigUint) -> [u64; 4] {
    let mut words = [0; 4];
    number.to_u64_digits().into_iter().zip(&mut words).for_each(|(digit, word)| *word = digit);
    words
}

/// The number of each lane represented by vectors of limbs.
fn numbers_of<L: lanes::Lanes, const N: usize>(limbs: [L; N], bits: u32) -> [BigUint; LANES] {
    let limbs = limbs.map(L::to_array);
    std::array::from_fn(|lane| number_of_words(&limbs.map(|limb| limb[lane]), bits))
}
