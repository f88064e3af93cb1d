//! A batch, in vectors of eight signatures: prepares, lifts and multiplies each vector. All vectors share the two
//! inversions.

use crate::{
    PublicKey, Signature,
    field::Element,
    generator::{GeneratorTable, words_of_bytes},
    keccak::keccak256_of_64_bytes,
    lanes::{LANES, Lanes, Mask, Operation},
    point::{Digits, Jacobian, Lift, MultiplyAndAdd},
    scalar::{ORDER, Scalar},
    split::split,
};

/// p − n in words: an x of r + n exists for smaller r only.
const PRIME_LESS_ORDER: [u64; 4] = [0x402d_a172_2fc9_baee, 0x4551_2319_50b7_5fc4, 1, 0];

/// One signature as words, lowest first, within the range of the vector code: r and s are between 0 and n, and x is
/// below p.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    message: [u64; 4],
    r: [u64; 4],
    s: [u64; 4],
    x: [u64; 4],
    is_odd: bool,
}

impl Job {
    /// `None` for a signature that no key can have made, or whose numbers are out of range: the C library then returns
    /// the error.
    pub(crate) fn new(hash: &[u8; 32], signature: &Signature) -> Option<Self> {
        let (r, s) = (words_of_bytes(&signature.r), words_of_bytes(&signature.s));
        let in_range = |number: [u64; 4]| number != [0; 4] && is_below(number, ORDER);
        if signature.recovery_id > 3 || !in_range(r) || !in_range(s) {
            return None;
        }
        let x = match signature.recovery_id & 2 {
            0 => r,
            _ if is_below(r, PRIME_LESS_ORDER) => plus_order(r),
            _ => return None,
        };
        Some(Self { message: words_of_bytes(hash), r, s, x, is_odd: signature.recovery_id & 1 == 1 })
    }
}

fn is_below(a: [u64; 4], b: [u64; 4]) -> bool {
    a.iter().rev().lt(b.iter().rev())
}

/// `number + n`, which is below 2^256 here.
fn plus_order(number: [u64; 4]) -> [u64; 4] {
    let mut carry = 0_u128;
    std::array::from_fn(|i| {
        carry += u128::from(number[i]) + u128::from(ORDER[i]);
        let word = carry as u64;
        carry >>= 64;
        word
    })
}

/// A public key and its hash, or `None` if the signature must be recovered singly.
pub(crate) type Recovered = Option<(PublicKey, [u8; 32])>;

/// Recovers the keys of jobs. `None` if x is not on the curve, if the key would be infinite, or if the ladder added
/// equal, opposite or infinite points (`point.rs`).
pub(crate) fn recover<L: Lanes>(table: &GeneratorTable, jobs: &[Job]) -> Vec<Recovered> {
    L::run_operation(Batch::<L>(table, jobs, std::marker::PhantomData))
}

/// [`recover`] as an [`Operation`].
struct Batch<'a, L>(&'a GeneratorTable, &'a [Job], std::marker::PhantomData<L>);

impl<L: Lanes> Operation for Batch<'_, L> {
    type Output = Vec<Recovered>;

    #[inline(always)]
    fn run(self) -> Vec<Recovered> {
        let vectors: Vec<[&Job; LANES]> = self
            .1
            .chunks(LANES)
            // Lanes without a signature repeat the first one.
            .map(|jobs| std::array::from_fn(|lane| jobs.get(lane).unwrap_or(&jobs[0])))
            .collect();
        let multipliers = multipliers::<L>(&vectors);
        let mut keys: Vec<(Jacobian<L>, Mask)> = Vec::with_capacity(vectors.len());
        for (vector, [generator_digits, point_digits]) in vectors.iter().zip(&multipliers) {
            let (x, odd) = (Element::from_words(&vector.map(|job| job.x)), lanes_where(vector, |job| job.is_odd));
            let (point, wrong) = L::run_operation(Lift(&x, odd));
            let product = MultiplyAndAdd { generator: self.0, generator_digits, point: &point, point_digits };
            keys.push((L::run_operation(product), wrong));
        }
        let mut recovered = Vec::with_capacity(vectors.len() * LANES);
        for (x, y, wrong) in affine(&keys) {
            append_keys(&mut recovered, x, y, wrong);
        }
        recovered.truncate(self.1.len());
        recovered
    }
}

fn lanes_where(vector: &[&Job; LANES], is_so: impl Fn(&Job) -> bool) -> Mask {
    vector.iter().enumerate().fold(0, |mask, (lane, job)| mask | Mask::from(is_so(job)) << lane)
}

/// For each vector, the digits of −message / r, which multiplies the generator, and of s / r, which multiplies the
/// signature's point. One inversion serves all vectors: that of the product of all r.
#[inline(always)]
fn multipliers<L: Lanes>(vectors: &[[&Job; LANES]]) -> Vec<[Digits<L>; 2]> {
    let (mut r, mut before) = (Vec::with_capacity(vectors.len()), Vec::with_capacity(vectors.len()));
    let mut product = Scalar::one();
    for jobs in vectors {
        let of_vector = Scalar::from_words(&jobs.map(|job| job.r)).into_montgomery();
        r.push(of_vector);
        before.push(product);
        product = product.times(of_vector);
    }
    let mut inverse = product.inverse();
    let mut multipliers: Vec<[Digits<L>; 2]> = Vec::with_capacity(vectors.len());
    for ((jobs, r), before) in vectors.iter().zip(&r).zip(&before).rev() {
        let r_inverse = inverse.times(*before);
        inverse = inverse.times(*r);
        let message = Scalar::from_words(&jobs.map(|job| job.message)).times(r_inverse);
        let s = Scalar::from_words(&jobs.map(|job| job.s)).times(r_inverse);
        multipliers.push([digits(message, true), digits(s, false)]);
    }
    multipliers.reverse();
    multipliers
}

/// The digits of a scalar, or of its negative.
#[inline(always)]
fn digits<L: Lanes>(scalar: Scalar<L>, is_negated: bool) -> Digits<L> {
    let [first, second, third, fourth] = scalar.words();
    let words = [first.to_array(), second.to_array(), third.to_array(), fourth.to_array()];
    let (mut limbs, mut negative) = ([[[0; LANES]; 3]; 2], [0; 2]);
    for lane in 0..LANES {
        for (half, part) in split(words.map(|word| word[lane])).into_iter().enumerate() {
            part.digits.into_iter().zip(&mut limbs[half]).for_each(|(limb, lanes)| lanes[lane] = limb);
            negative[half] |= Mask::from(part.is_negative ^ is_negated) << lane;
        }
    }
    let [[a, b, c], [d, e, f]] = limbs;
    let vector = L::from_array;
    Digits { halves: [[vector(a), vector(b), vector(c)], [vector(d), vector(e), vector(f)]], negative }
}

/// x and y of each point, and the lanes without one. One inversion serves all vectors: that of the product of all Z.
#[inline(always)]
fn affine<L: Lanes>(points: &[(Jacobian<L>, Mask)]) -> Vec<(Element<L>, Element<L>, Mask)> {
    let one = Element::splat([1, 0, 0, 0]);
    let mut product = one;
    let mut before: Vec<(Element<L>, Element<L>, Mask)> = Vec::with_capacity(points.len());
    for (point, wrong) in points {
        let infinite = point.z.zero_lanes();
        let z = Element::select(infinite, one, point.z);
        before.push((z, product, wrong | infinite));
        product = product.times(z);
    }
    let mut inverse = product.inverse();
    let mut affine = Vec::with_capacity(points.len());
    for ((point, _), (z, before, wrong)) in points.iter().zip(&before).rev() {
        let z_inverse = inverse.times(*before);
        inverse = inverse.times(*z);
        let squared = z_inverse.squared(1);
        affine.push((point.x.times(squared), point.y.times(squared.times(z_inverse)), *wrong));
    }
    affine.reverse();
    affine
}

/// Appends the keys of a vector, with their hashes.
#[inline(always)]
fn append_keys<L: Lanes>(recovered: &mut Vec<Recovered>, x: Element<L>, y: Element<L>, wrong: Mask) {
    let (x, y) = (x.words(), y.words());
    // Keys are big-endian and begin with x; the hash function reads little-endian words.
    let key = [x[3], x[2], x[1], x[0], y[3], y[2], y[1], y[0]];
    let (mut words, mut message) = ([[0; LANES]; 8], [L::splat(0); 8]);
    for i in 0..8 {
        words[i] = key[i].to_array().map(u64::swap_bytes);
        message[i] = L::from_array(words[i]);
    }
    let hash = keccak256_of_64_bytes(&message);
    let hash = [hash[0].to_array(), hash[1].to_array(), hash[2].to_array(), hash[3].to_array()];
    for lane in 0..LANES {
        recovered.push((wrong >> lane & 1 == 0).then(|| {
            let (mut key, mut digest) = ([0; 64], [0; 32]);
            key.as_chunks_mut::<8>()
                .0
                .iter_mut()
                .zip(&words)
                .for_each(|(bytes, word)| *bytes = word[lane].to_le_bytes());
            digest
                .as_chunks_mut::<8>()
                .0
                .iter_mut()
                .zip(&hash)
                .for_each(|(bytes, word)| *bytes = word[lane].to_le_bytes());
            (PublicKey(key), digest)
        }));
    }
}
