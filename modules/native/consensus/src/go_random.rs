//! The pseudo-random generator of Go's `math/rand` for an explicit seed (`docs/spec/consensus.md` Appendix B): additive
//! lagged Fibonacci, y(n) = y(n - 607) + y(n - 273). v1 draws second signers with it.
//!
//! Implemented here, because no crate gives Go's sequence, and every node must draw the same signers.

use std::sync::LazyLock;

const LENGTH: usize = 607;
const TAP: usize = 273;
/// Position of the first read after seeding.
const FEED: usize = LENGTH - TAP;
/// Modulus of the linear congruential generator that fills the state: 2^31 - 1.
const MODULUS: u64 = (1 << 31) - 1;
/// Replaces seeds that are multiples of the modulus.
const ZERO_SEED: u64 = 89_482_311;
/// Number of values that the generator had produced at the state stored in Go's source.
const TABLE_AGE: u64 = 7_800_000_000_000;

/// The table that is mixed into the seed: the state of the same generator after [`TABLE_AGE`] values. Computed once (43
/// squarings of polynomials, a few milliseconds) instead of copied from Go's source.
static TABLE: LazyLock<Box<[u64; LENGTH]>> = LazyLock::new(aged_state);

/// A generator. Its values are part of consensus; never use it for anything that must be hard to guess.
pub struct GoRandom {
    state: Box<[u64; LENGTH]>,
    tap: usize,
    feed: usize,
}

impl GoRandom {
    /// `rand.Seed(seed)`.
    pub fn seeded(seed: i64) -> Self {
        let start = match seed.rem_euclid(MODULUS.cast_signed()).cast_unsigned() {
            0 => ZERO_SEED,
            start => start,
        };
        let mut state = filled(start, 20);
        for (word, constant) in state.iter_mut().zip(TABLE.iter()) {
            *word ^= constant;
        }
        Self { state, tap: 0, feed: FEED }
    }

    fn next_64(&mut self) -> u64 {
        self.tap = before(self.tap);
        self.feed = before(self.feed);
        let value = self.state[self.feed].wrapping_add(self.state[self.tap]);
        self.state[self.feed] = value;
        value
    }

    /// `rand.Int63()`: 63 random bits.
    pub fn int_63(&mut self) -> u64 {
        self.next_64() & (u64::MAX >> 1)
    }

    /// `rand.Int31()`: the upper 31 of the 63 bits.
    fn int_31(&mut self) -> u32 {
        u32::try_from(self.int_63() >> 32).unwrap_or(u32::MAX)
    }

    /// `rand.Intn(bound)`: a number below `bound`, which must be less than 2^31; 0 for a bound of 0 or 1.
    ///
    /// Draws at least once even if the result is certain, like the reference.
    pub fn below(&mut self, bound: u32) -> u32 {
        let bound = bound.max(1);
        if bound.is_power_of_two() {
            return self.int_31() & (bound - 1);
        }
        let highest = (1 << 31) - 1 - (1_u32 << 31) % bound;
        loop {
            let value = self.int_31();
            if value <= highest {
                return value % bound;
            }
        }
    }
}

const fn before(position: usize) -> usize {
    if position == 0 { LENGTH - 1 } else { position - 1 }
}

/// `step` of the specification. Preserves the range `1..MODULUS`.
const fn step(x: u64) -> u64 {
    48_271 * x % MODULUS
}

/// A state generated from `start`: each word combines three steps, shifted by twice `shift`, by `shift` and not at all.
fn filled(start: u64, shift: u32) -> Box<[u64; LENGTH]> {
    let mut state = Box::new([0; LENGTH]);
    let mut x = start;
    for _ in 0..20 {
        x = step(x);
    }
    for word in state.iter_mut() {
        x = step(x);
        *word = x << (2 * shift);
        x = step(x);
        *word ^= x << shift;
        x = step(x);
        *word ^= x;
    }
    state
}

/// The state after [`TABLE_AGE`] values, by jumping ahead: with s(j) the values in order, s(N + i) is the sum of a(j)
/// s(j + i), where x^N equals the polynomial with coefficients a(j), modulo x^607 - x^334 - 1.
fn aged_state() -> Box<[u64; LENGTH]> {
    let slot = |age: u64| {
        let age = usize::try_from(age % LENGTH as u64).unwrap_or(0);
        (FEED + LENGTH - age) % LENGTH
    };
    let initial = filled(1, 10);
    let mut sequence: Vec<u64> = (1..=LENGTH as u64).map(|age| initial[slot(age)]).collect();
    for index in LENGTH..2 * LENGTH {
        sequence.push(sequence[index - LENGTH].wrapping_add(sequence[index - TAP]));
    }
    let coefficients = power_of_x(TABLE_AGE);
    let mut state = Box::new([0; LENGTH]);
    for (offset, age) in (1..=LENGTH as u64).enumerate() {
        let terms = coefficients.iter().zip(&sequence[offset..]);
        state[slot(TABLE_AGE + age)] = terms.fold(0, |sum: u64, (a, s)| sum.wrapping_add(a.wrapping_mul(*s)));
    }
    state
}

/// Coefficients of x^exponent modulo x^607 - x^334 - 1 and modulo 2^64, lowest first.
fn power_of_x(exponent: u64) -> Vec<u64> {
    let mut power = vec![0_u64; LENGTH];
    power[0] = 1;
    for bit in (0..u64::BITS - exponent.leading_zeros()).rev() {
        power = squared(&power);
        if exponent >> bit & 1 == 1 {
            power.insert(0, 0);
            reduce(&mut power);
        }
    }
    power
}

fn squared(polynomial: &[u64]) -> Vec<u64> {
    let mut square = vec![0_u64; 2 * LENGTH - 1];
    for (shift, factor) in polynomial.iter().enumerate() {
        for (target, other) in square[shift..].iter_mut().zip(polynomial) {
            *target = target.wrapping_add(factor.wrapping_mul(*other));
        }
    }
    reduce(&mut square);
    square
}

/// Replaces x^607 by x^334 + 1, from the highest power down.
fn reduce(polynomial: &mut Vec<u64>) {
    while polynomial.len() > LENGTH {
        let highest = polynomial.pop().unwrap_or(0);
        let lower = polynomial.len() - LENGTH;
        polynomial[lower] = polynomial[lower].wrapping_add(highest);
        polynomial[lower + FEED] = polynomial[lower + FEED].wrapping_add(highest);
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::hex;
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::test_data;

    #[test]
    fn computes_gos_table() {
        let vectors = test_data::consensus_vectors();
        let wanted = &vectors["goRand_derived"];
        let words = |name: &str| -> Vec<u64> {
            let words = wanted[name].as_array().unwrap();
            words.iter().map(|word| word.as_str().unwrap().parse().unwrap()).collect()
        };
        let low: Vec<u64> = TABLE.iter().map(|word| word & (u64::MAX >> 1)).collect();

        assert_eq!(low[..6], words("tableFirst6_low63"));
        assert_eq!(low[LENGTH - 3..], words("tableLast3_low63"));
        let digest = |words: Vec<[u8; 8]>| hex::encode(Sha256::digest(words.concat()));
        let little_endian = low.iter().map(|word| word.to_le_bytes()).collect();
        assert_eq!(digest(little_endian), wanted["sha256_low63_607xLE64"].as_str().unwrap());
        let big_endian = TABLE.iter().map(|word| word.to_be_bytes()).collect();
        assert_eq!(digest(big_endian), wanted["sha256_full64_607xBE64"].as_str().unwrap());
    }

    #[test]
    fn draws_the_same_numbers_as_go() {
        let vectors = test_data::consensus_vectors();
        let wanted = &vectors["goRand_derived"];
        let int_63: Vec<u64> =
            wanted["seed1_Int63"].as_array().unwrap().iter().map(|v| v.as_str().unwrap().parse().unwrap()).collect();
        let below_100: Vec<u32> = serde_json::from_value(wanted["seed1_Intn100"].clone()).unwrap();

        let mut first = GoRandom::seeded(1);
        let mut second = GoRandom::seeded(1);

        assert_eq!(int_63.iter().map(|_| first.int_63()).collect::<Vec<_>>(), int_63);
        assert_eq!(below_100.iter().map(|_| second.below(100)).collect::<Vec<_>>(), below_100);
    }

    #[test]
    fn seeds_that_are_equal_modulo_the_prime_draw_the_same() {
        let modulus = MODULUS.cast_signed();
        for (left, right) in [(0, 89_482_311), (modulus, 0), (-1, modulus - 1), (i64::MIN, i64::MIN + modulus)] {
            assert_eq!(GoRandom::seeded(left).int_63(), GoRandom::seeded(right).int_63(), "{left} {right}");
        }
    }
}
