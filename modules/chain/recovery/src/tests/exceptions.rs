//! Constructed signatures that make the ladder add equal or opposite points, at each of its steps in turn.
//!
//! With u1 and u2 chosen and R = k × G, every sum of the ladder, and every summand, is (a + b × k) × G with numbers
//! given by the digits. The k for which they are equal, or opposite, is the solution of a linear equation modulo n.

use num_bigint::{BigInt, BigUint, Sign};
use rand::{Rng, SeedableRng, rngs::StdRng};
use secp256k1::{PublicKey, SECP256K1, SecretKey};

use super::{number_of_words, order, with_all_lanes, words_of_number};
use crate::{
    Signature,
    batch::{self, Job},
    generator::GeneratorTable,
    lanes::{LANES, Lanes},
    single,
    split::{Half, split},
};

/// The point `generator` × G + `point` × R.
#[derive(Clone, Debug)]
struct Sum {
    generator: BigInt,
    point: BigInt,
}

impl Sum {
    fn plus(&self, other: &Self) -> Self {
        Self { generator: &self.generator + &other.generator, point: &self.point + &other.point }
    }

    fn times(&self, factor: i64) -> Self {
        Self { generator: &self.generator * factor, point: &self.point * factor }
    }
}

fn modulo(number: &BigInt) -> BigUint {
    let order = BigInt::from_biguint(Sign::Plus, order());
    ((number % &order + &order) % &order).to_biguint().unwrap()
}

fn digit(half: &Half, place: u32, width: u32) -> BigInt {
    let digit = number_of_words(&half.digits, 50) >> (place * width) & ((BigUint::from(1_u8) << width) - 1_u8);
    let digit: BigInt = BigInt::from(digit) * 2 + 1 - (BigInt::from(1) << width);
    if half.is_negative { -digit } else { digit }
}

/// The ladder's sum before each of its additions, and the summand.
fn steps(u1: &BigUint, u2: &BigUint) -> Vec<(Sum, Sum)> {
    let lambda = BigInt::parse_bytes(b"5363ad4cc05c30e0a5261c028812645a122e22ea20816678df02967c1b23bd72", 16).unwrap();
    let factor = |half: usize| if half == 0 { BigInt::from(1) } else { lambda.clone() };
    // The ladder splits the negative of u1 and changes all signs.
    let generator =
        split(words_of_number(&((order() - u1) % order()))).map(|half| Half { is_negative: !half.is_negative, ..half });
    let point = split(words_of_number(u2));
    let of_point =
        |half: usize, place| Sum { generator: BigInt::default(), point: digit(&point[half], place, 5) * factor(half) };
    let of_generator = |half: usize, place| Sum {
        generator: digit(&generator[half], place, 10) * factor(half),
        point: BigInt::default(),
    };
    let mut sum = of_point(0, 25);
    let mut steps = vec![(sum.clone(), of_point(1, 25))];
    sum = sum.plus(&of_point(1, 25));
    for place in (0..25).rev() {
        sum = sum.times(32);
        let mut added = vec![of_point(0, place), of_point(1, place)];
        if place % 2 == 0 {
            added.extend([of_generator(0, place / 2), of_generator(1, place / 2)]);
        }
        for next in added {
            steps.push((sum.clone(), next.clone()));
            sum = sum.plus(&next);
        }
    }
    assert_eq!((modulo(&sum.generator), modulo(&sum.point)), (u1.clone(), u2.clone()));
    steps
}

fn bytes_of(number: &BigUint) -> [u8; 32] {
    let (mut bytes, digits) = ([0; 32], number.to_bytes_be());
    bytes[32 - digits.len()..].copy_from_slice(&digits);
    bytes
}

/// The message and signature for which the ladder computes u1 × G + u2 × (k × G); `None` if the x of that point is not
/// below n.
fn signature_of(u1: &BigUint, u2: &BigUint, k: &BigUint) -> Option<([u8; 32], Signature)> {
    let point =
        PublicKey::from_secret_key(SECP256K1, &SecretKey::from_byte_array(bytes_of(k)).ok()?).serialize_uncompressed();
    let r = BigUint::from_bytes_be(&point[1..33]);
    if r >= order() {
        return None;
    }
    let message = (order() - u1) * &r % order();
    let signature = Signature { r: bytes_of(&r), s: bytes_of(&(u2 * &r % order())), recovery_id: point[64] & 1 };
    Some((bytes_of(&message), signature))
}

fn random_scalar(random: &mut StdRng) -> BigUint {
    BigUint::from_bytes_be(&random.random::<[u8; 32]>()) % order()
}

/// A signature for which the sum at this step equals the summand, or its negative.
fn colliding(random: &mut StdRng, step: usize, is_opposite: bool) -> ([u8; 32], Signature) {
    loop {
        let (u1, u2) = (random_scalar(random), random_scalar(random));
        let (sum, next) = steps(&u1, &u2).swap_remove(step);
        let next = if is_opposite { next.times(-1) } else { next };
        let difference = sum.plus(&next.times(-1));
        let inverse = modulo(&difference.point).modpow(&(order() - 2_u8), &order());
        let k = modulo(&-difference.generator) * inverse % order();
        if let Some(signature) = signature_of(&u1, &u2, &k) {
            return signature;
        }
    }
}

fn collisions_are_left_to_the_library<L: Lanes>() {
    let mut random = StdRng::seed_from_u64(16);
    let table = GeneratorTable::get().unwrap();
    let count = steps(&BigUint::from(1_u8), &BigUint::from(1_u8)).len();
    assert_eq!(count, 1 + 25 * 2 + 13 * 2);
    let mut seen = 0;
    for step in 0..count {
        for is_opposite in [false, true] {
            // The first three steps add multiples of R only, which collide only for an infinite R.
            if step < 3 {
                continue;
            }
            let lane = random.random_range(0..LANES);
            let signatures: [([u8; 32], Signature); LANES] = std::array::from_fn(|at| {
                if at == lane {
                    return colliding(&mut random, step, is_opposite);
                }
                loop {
                    let [u1, u2, k] = std::array::from_fn(|_| random_scalar(&mut random));
                    if let Some(signature) = signature_of(&u1, &u2, &k) {
                        break signature;
                    }
                }
            });
            let jobs = signatures.map(|(hash, signature)| Job::new(&hash, &signature).unwrap());
            for (at, found) in batch::recover::<L>(table, &jobs).into_iter().enumerate() {
                let (hash, signature) = &signatures[at];
                match found {
                    Some((key, _)) => {
                        assert_ne!(at, lane, "step {step} was not detected");
                        assert_eq!(Ok(key), single::recover(hash, signature));
                    }
                    None => {
                        assert_eq!(at, lane, "step {step} affected another lane");
                        seen += 1;
                    }
                }
            }
            let all = crate::recover_public_keys(&signatures);
            let alone = signatures.map(|(hash, signature)| single::recover(&hash, &signature));
            assert_eq!(all, alone, "step {step}");
        }
    }
    assert_eq!(seen, 2 * (count - 3));
}

#[test]
fn collisions_at_each_step_are_detected_and_left_to_the_library() {
    with_all_lanes!(collisions_are_left_to_the_library());
}
