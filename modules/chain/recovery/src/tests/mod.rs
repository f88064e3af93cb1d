//! Tests the arithmetic against a slow model, and the ladder at its exceptions. The public interface is tested in
//! `tests/`.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod arithmetic;
mod exceptions;

use num_bigint::BigUint;

use crate::{
    PublicKey, Signature,
    check::Checks,
    lanes::{self, LANES},
};

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

#[cfg(target_arch = "x86_64")]
#[test]
fn a_last_vector_is_used_if_it_is_faster_than_the_library() {
    use lanes::Instructions::{Avx2, Avx512};
    let of = |instructions, batches: [usize; 6]| batches.map(|batch| crate::vectorised(instructions, batch));
    assert_eq!(of(Avx512, [0, 1, 2, 8, 9, 10]), [0, 0, 2, 8, 8, 10]);
    assert_eq!(of(Avx2, [0, 7, 8, 12, 13, 21]), [0, 0, 8, 8, 13, 21]);
    let (has_avx2, has_avx512) = (lanes::Avx2::is_supported(), lanes::Avx512::is_supported());
    assert_eq!(crate::is_vectorised(), has_avx2 || has_avx512);
}

/// The library's result of a check is made to differ. The results that were not checked must not be kept.
#[test]
fn after_a_wrong_result_the_library_recovers_the_whole_batch() {
    let signature = Signature { r: [1; 32], s: [1; 32], recovery_id: 0 };
    let batch: Vec<_> = (0..20).map(|number| ([number; 32], signature)).collect();
    let checks = Checks::new(7);
    let other = PublicKey([0; 64]);

    let results = crate::batch_of(&checks, &batch, |_, _| Ok(other), |(key, _)| key);

    assert_eq!(checks.have_failed(), crate::is_vectorised());
    assert_eq!(results, [Ok(other); 20]);
    let again = crate::batch_of(&checks, &batch, |_, _| Ok(other), |(key, _)| key);
    assert_eq!(again, results);
}
