//! Tests field, scalars, digits and hashes against big integers, with random numbers and with each limb at its bound.

use std::array;

use num_bigint::{BigInt, BigUint, Sign};
use proptest::{collection::vec, prelude::*};

use super::{number_of_words, numbers_of, order, prime, with_all_lanes, words_of_number};
use crate::{
    field::{Columns, Element, Factor},
    keccak::keccak256_of_64_bytes,
    lanes::{LANES, Lanes},
    scalar::{ORDER, Scalar},
    split::{Half, split},
};

/// A limb: any number below a bound, often one of the largest or smallest.
fn limb(bound: u64) -> impl Strategy<Value = u64> {
    prop_oneof![0..bound, Just(bound - 1), Just(0), Just(bound / 2), Just(1)]
}

/// Five limbs in each lane; the fifth has a separate bound. The strategies are in vectors, because arrays of them need
/// megabytes of the stack.
fn limbs(top: u64) -> impl Strategy<Value = [[u64; 5]; LANES]> {
    (vec(limb(1 << 52), 4 * LANES), vec(limb(top), LANES)).prop_map(|(low, top)| {
        array::from_fn(|lane| {
            let low = &low[4 * lane..];
            [low[0], low[1], low[2], low[3], top[lane]]
        })
    })
}

const ELEMENT_TOP: u64 = (1 << 48) + (1 << 11);
const FACTOR_TOP: u64 = 1 << 51;

fn vectors<L: Lanes, const N: usize>(lanes: &[[u64; N]; LANES]) -> [L; N] {
    array::from_fn(|limb| L::from_array(array::from_fn(|lane| lanes[lane][limb])))
}

fn assert_equal<L: Lanes>(found: Element<L>, expected: impl Fn(usize) -> BigUint, what: &str) {
    let canonical = numbers_of(found.canonical().0, 52);
    for (lane, number) in numbers_of(found.0, 52).into_iter().enumerate() {
        assert_eq!(&number % prime(), expected(lane) % prime(), "{what} in lane {lane}");
        assert_eq!(canonical[lane], number % prime(), "canonical {what} in lane {lane}");
    }
}

fn field_operations<L: Lanes>(a: &[[u64; 5]; LANES], b: &[[u64; 5]; LANES], c: &[[u64; 5]; LANES], mask: u8) {
    let [x, y, z] = [a, b, c].map(|lanes| Element::<L>(vectors(lanes)));
    let number = |lanes: &[[u64; 5]; LANES], lane: usize| number_of_words(&lanes[lane], 52);
    let (of_a, of_b, of_c) = (|lane| number(a, lane), |lane| number(b, lane), |lane| number(c, lane));
    // Far above every element, so that no difference is negative.
    let zero = prime() << 16_u32;

    assert_equal(x.minus(y).reduce(), |lane| of_a(lane) + &zero - of_b(lane), "a − b");
    assert_equal(x.four_times_minus(y).reduce(), |lane| of_a(lane) * 4_u8 + &zero - of_b(lane), "4a − b");
    assert_equal(x.three_times().reduce(), |lane| of_a(lane) * 3_u8, "3a");
    assert_equal(x.negated().reduce(), |lane| &zero - of_a(lane), "−a");
    let chosen = |lane: usize| if mask >> lane & 1 == 1 { &zero - of_a(lane) } else { of_a(lane) };
    assert_equal(x.negated_in(mask).reduce(), chosen, "−a in some lanes");
    assert_equal(x.times(y), |lane| of_a(lane) * of_b(lane), "a × b");
    assert_equal(x.squared(3), |lane| of_a(lane).pow(8), "a^8");
    let columns = Factor::from(x).times(y).plus(z).minus::<3, 4>(z).minus::<1, 2>(x).minus::<0, 1>(y).doubled();
    let expected =
        |lane: usize| (of_a(lane) * of_b(lane) + &zero - of_c(lane) * 7_u8 - of_a(lane) * 2_u8 - of_b(lane)) * 2_u8;
    assert_equal(columns.reduce(), expected, "a sum of columns");
}

fn products_of_factors<L: Lanes>(
    a: &[[u64; 5]; LANES],
    b: &[[u64; 5]; LANES],
    c: &[[u64; 5]; LANES],
    d: &[[u64; 5]; LANES],
) {
    let [w, x, y, z] = [a, b, c, d].map(|lanes| Factor::<L>::of_limbs(vectors(lanes)));
    let number = |lanes: &[[u64; 5]; LANES], lane: usize| number_of_words(&lanes[lane], 52);
    assert_equal(w.times(x).reduce(), |lane| number(a, lane) * number(b, lane), "a × b");
    assert_equal(w.square().reduce(), |lane| number(a, lane).pow(2), "a²");
    let sum = |lane| number(a, lane) * number(b, lane) + number(c, lane) * number(d, lane);
    assert_equal(w.times_plus(x, y, z).reduce(), sum, "a × b + c × d");
}

fn reduction_of_columns<L: Lanes>(columns: &[[u64; 6]; LANES]) {
    let expected = |lane: usize| number_of_words(&columns[lane], 52);
    assert_equal(Columns::<L>::of_columns(vectors(columns)).reduce(), expected, "columns");
}

fn roots_and_inverses<L: Lanes>(a: &[[u64; 5]; LANES]) {
    let x = Element::<L>(vectors(a));
    let number = |lane: usize| number_of_words(&a[lane], 52);
    let root = (prime() + 1_u8) / 4_u8;
    assert_equal(x.square_root(), |lane| number(lane).modpow(&root, &prime()), "root of a");
    let inverse = prime() - 2_u8;
    assert_equal(x.inverse(), |lane| number(lane).modpow(&inverse, &prime()), "1 / a");
    let zeros = (0..LANES).fold(0, |mask, lane| mask | u8::from(number(lane) % prime() == BigUint::default()) << lane);
    assert_eq!(x.zero_lanes(), zeros);
}

fn numbers_at_the_prime<L: Lanes>() {
    for offset in 0..=4_u8 {
        // p − 2 to p + 2, and zero to four.
        for number in [prime() + offset - 2_u8, BigUint::from(offset)] {
            let element = Element::<L>::splat(words_of_number(&number));
            assert_equal(element, |_| number.clone(), "a number at the prime");
            let is_zero = &number % prime() == BigUint::default();
            assert_eq!(element.zero_lanes(), if is_zero { 0xff } else { 0 }, "{number}");
        }
    }
}

fn scalar_operations<L: Lanes>(a: &[[u64; 4]; LANES], b: &[[u64; 4]; LANES]) {
    let (x, y) = (Scalar::<L>::from_words(a), Scalar::<L>::from_words(b));
    let number = |words: &[[u64; 4]; LANES], lane: usize| number_of_words(&words[lane], 64);
    let product = numbers_of(x.into_montgomery().times(y).words(), 64);
    let inverse =
        numbers_of(x.into_montgomery().inverse().times(Scalar::from_words(&[[1, 0, 0, 0]; LANES])).words(), 64);
    for lane in 0..LANES {
        assert_eq!(product[lane], number(a, lane) * number(b, lane) % order(), "a × b in lane {lane}");
        let expected = number(a, lane).modpow(&(order() - 2_u8), &order());
        assert_eq!(inverse[lane], expected, "1 / a in lane {lane}");
    }
}

/// The number represented by digits of some width.
fn number_of_digits(half: &Half, width: u32) -> BigInt {
    let digits = number_of_words(&half.digits, 50);
    let mut sum = BigInt::default();
    for place in (0..130 / width).rev() {
        let digit = (&digits >> (place * width)) % (BigUint::from(1_u8) << width);
        sum = (sum << width) + BigInt::from(digit) * 2 + 1 - (BigInt::from(1) << width);
    }
    if half.is_negative { -sum } else { sum }
}

fn check_split(words: [u64; 4]) {
    let halves = split(words);
    // λ: a cube root of one modulo n.
    let lambda = BigInt::parse_bytes(b"5363ad4cc05c30e0a5261c028812645a122e22ea20816678df02967c1b23bd72", 16).unwrap();
    let order = BigInt::from_biguint(Sign::Plus, order());
    for width in [5, 10] {
        let [first, second] = [number_of_digits(&halves[0], width), number_of_digits(&halves[1], width)];
        let difference = first + second * &lambda - BigInt::from(number_of_words(&words, 64));
        assert_eq!(difference % &order, BigInt::default(), "{words:x?} in digits of {width} bits");
    }
}

fn hashes<L: Lanes>(messages: &[[u64; 8]; LANES]) {
    let found = keccak256_of_64_bytes::<L>(&vectors(messages)).map(L::to_array);
    for (lane, message) in messages.iter().enumerate() {
        let bytes: Vec<u8> = message.iter().flat_map(|word| word.to_le_bytes()).collect();
        let hash: Vec<u8> = found.iter().flat_map(|word| word[lane].to_le_bytes()).collect();
        assert_eq!(hash, alloy_primitives::keccak256(bytes).0, "lane {lane}");
    }
}

/// Numbers near each boundary of the algorithm.
fn notable_scalars() -> Vec<[u64; 4]> {
    let one = BigUint::from(1_u8);
    let lambda = BigUint::parse_bytes(b"5363ad4cc05c30e0a5261c028812645a122e22ea20816678df02967c1b23bd72", 16).unwrap();
    let mut numbers =
        vec![BigUint::default(), one.clone(), order() - 1_u8, order() / 2_u8, lambda.clone(), order() - &lambda];
    let small: Vec<BigUint> = [0_u32, 1, 2, 31, 32, 1023, 1024].map(BigUint::from).to_vec();
    let edges: Vec<BigUint> = (0..=128_u32).map(|bit| &one << bit).chain(small).collect();
    for edge in &edges {
        for second in [&edges[0], &edges[64], &edges[127], edge] {
            // Halves of these sizes and of both signs.
            numbers.push(edge + second * &lambda);
            numbers.push(order() * &lambda + edge - second * &lambda);
            numbers.push(order() - (edge % order()) + second * &lambda);
        }
    }
    numbers.into_iter().map(|number| words_of_number(&(number % order()))).collect()
}

#[test]
fn notable_numbers_are_split_into_digits() {
    let numbers = notable_scalars();
    assert!(numbers.len() > 1000);
    numbers.into_iter().for_each(check_split);
}

#[test]
fn numbers_at_the_prime_are_reduced_below_it() {
    with_all_lanes!(numbers_at_the_prime());
}

#[test]
fn the_largest_limbs_stay_within_their_bounds() {
    let largest = |top: u64| [[(1 << 52) - 1, (1 << 52) - 1, (1 << 52) - 1, (1 << 52) - 1, top - 1]; LANES];
    let (elements, factors) = (largest(ELEMENT_TOP), largest(FACTOR_TOP));
    with_all_lanes!(field_operations(&elements, &elements, &elements, 0x5a));
    with_all_lanes!(field_operations(&elements, &[[0; 5]; LANES], &elements, 0xff));
    with_all_lanes!(field_operations(&[[0; 5]; LANES], &elements, &elements, 0));
    with_all_lanes!(products_of_factors(&factors, &factors, &factors, &factors));
    let top = (1 << 62) - 1;
    with_all_lanes!(reduction_of_columns(&[[top, top, top, top, top, (1 << 38) - 1]; LANES]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn field_operations_equal_the_model(
        a in limbs(ELEMENT_TOP), b in limbs(ELEMENT_TOP), c in limbs(ELEMENT_TOP), mask in any::<u8>()
    ) {
        with_all_lanes!(field_operations(&a, &b, &c, mask));
    }

    #[test]
    fn products_equal_the_model(
        a in limbs(FACTOR_TOP), b in limbs(FACTOR_TOP), c in limbs(FACTOR_TOP), d in limbs(FACTOR_TOP)
    ) {
        with_all_lanes!(products_of_factors(&a, &b, &c, &d));
    }

    #[test]
    fn columns_are_reduced_as_by_the_model(
        columns in proptest::array::uniform8((proptest::array::uniform5(limb(1 << 62)), limb(1 << 38)))
    ) {
        let columns = columns.map(|([first, second, third, fourth, fifth], above)| {
            [first, second, third, fourth, fifth, above]
        });
        with_all_lanes!(reduction_of_columns(&columns));
    }

    #[test]
    fn scalars_are_split_into_digits(words in proptest::array::uniform4(any::<u64>())) {
        check_split(words_of_number(&(number_of_words(&words, 64) % order())));
    }

    #[test]
    fn hashes_equal_the_library(messages in proptest::array::uniform8(proptest::array::uniform8(any::<u64>()))) {
        with_all_lanes!(hashes(&messages));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn roots_and_inverses_equal_the_model(a in limbs(ELEMENT_TOP)) {
        with_all_lanes!(roots_and_inverses(&a));
    }

    #[test]
    fn scalar_operations_equal_the_model(
        a in proptest::array::uniform8(scalar()), b in proptest::array::uniform8(scalar())
    ) {
        with_all_lanes!(scalar_operations(&a, &b));
    }
}

/// Any number below 2^256, often one at the order.
fn scalar() -> impl Strategy<Value = [u64; 4]> {
    let mut below = ORDER;
    below[0] -= 1;
    let mut above = ORDER;
    above[0] += 1;
    prop_oneof![
        4 => proptest::array::uniform4(any::<u64>()),
        1 => prop_oneof![Just([0; 4]), Just([1, 0, 0, 0]), Just(below), Just(ORDER), Just(above), Just([u64::MAX; 4])],
    ]
}
