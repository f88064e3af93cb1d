//! Splits a scalar into two halves, and the halves into digits.
//!
//! The curve has an endomorphism: λ × (x, y) = (β × x, y). So k × P is k1 × P + k2 × (λ × P) with k1 + k2 × λ = k
//! modulo n, where both halves have some 128 bits (Gallant, Lambert, Vanstone). Both are made odd here by adding
//! vectors of the zero lattice, (a1, b1) and (a2, b2), whose parities are (1, 1) and (0, 1). An odd number can be
//! written with odd digits only, so that no window of the ladder is empty and all lanes run the same steps.

/// Bits of a half: |k1| and |k2| are below 2^129, and the top digit needs one more.
pub(crate) const HALF_BITS: u32 = 130;
/// Bits per limb of [`Half`]: a multiple of both digit widths.
pub(crate) const LIMB_BITS: u32 = 50;

/// a1 = b2.
const A1: [u64; 3] = [0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd, 0];
/// a2.
const A2: [u64; 3] = [0x57c1_108d_9d44_cfd8, 0x14ca_50f7_a8e2_f3f6, 1];
/// −b1.
const MINUS_B1: [u64; 3] = [0x6f54_7fa9_0abf_e4c3, 0xe443_7ed6_010e_8828, 0];
/// 2^384 × b2 / n, rounded.
const G1: [u64; 4] = [0xe893_209a_45db_b031, 0x3daa_8a14_71e8_ca7f, 0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd];
/// 2^384 × −b1 / n, rounded.
const G2: [u64; 4] = [0x1571_b4ae_8ac4_7f71, 0x2212_08ac_9df5_06c6, 0x6f54_7fa9_0abf_e4c4, 0xe443_7ed6_010e_8828];

/// One half of a scalar: an odd number with a sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Half {
    /// Whether it is below zero.
    pub(crate) is_negative: bool,
    /// (|k| − 1) / 2 + 2^129 in limbs of [`LIMB_BITS`] bits, lowest first. Each group of `w` bits `u` encodes a digit
    /// of `w` bits: 2u + 1 − 2^w, an odd number between −2^w and 2^w. (Digit i is |k| / 2^(wi) with its lowest bit set,
    /// modulo 2^(w + 1), minus 2^w; the 2^129 gives the top digit, which is the rest, the same form.)
    pub(crate) digits: [u64; 3],
}

/// Splits a number below n, in words of 64 bits, the lowest first.
pub(crate) fn split(number: [u64; 4]) -> [Half; 2] {
    let (c1, c2) = (rounded_high_part(number, G1), rounded_high_part(number, G2));
    let low = [number[0], number[1], number[2]];
    // Both results are far below 2^191, so three words, modulo 2^192, represent them with their signs.
    let mut k1 = minus(minus(low, low_product(c1, A1)), low_product(c2, A2));
    let mut k2 = minus(low_product(c1, MINUS_B1), low_product(c2, A1));
    if k1[0] & 1 == 0 {
        k1 = plus(k1, A1);
        k2 = minus(k2, MINUS_B1);
    }
    if k2[0] & 1 == 0 {
        k1 = plus(k1, A2);
        k2 = plus(k2, A1);
    }
    [half(k1), half(k2)]
}

/// An odd number modulo 2^192.
fn half(number: [u64; 3]) -> Half {
    let is_negative = number[2] >> 63 == 1;
    let [low, middle, high] = if is_negative { minus([0; 3], number) } else { number };
    debug_assert!(low & 1 == 1 && high < 2, "half of {high:x} {middle:x} {low:x}");
    let (low, middle, high) = (low >> 1 | middle << 63, middle >> 1 | high << 63, high >> 1 | 2);
    let mask = (1 << LIMB_BITS) - 1;
    let digits = [low & mask, (low >> 50 | middle << 14) & mask, middle >> 36 | high << 28];
    Half { is_negative, digits }
}

/// `a + b` modulo 2^192.
fn plus(a: [u64; 3], b: [u64; 3]) -> [u64; 3] {
    let (low, first) = a[0].overflowing_add(b[0]);
    let (middle, second) = a[1].overflowing_add(b[1]);
    let (middle, third) = middle.overflowing_add(u64::from(first));
    [low, middle, a[2].wrapping_add(b[2]).wrapping_add(u64::from(second || third))]
}

/// `a − b` modulo 2^192.
fn minus(a: [u64; 3], b: [u64; 3]) -> [u64; 3] {
    let (low, first) = a[0].overflowing_sub(b[0]);
    let (middle, second) = a[1].overflowing_sub(b[1]);
    let (middle, third) = middle.overflowing_sub(u64::from(first));
    [low, middle, a[2].wrapping_sub(b[2]).wrapping_sub(u64::from(second || third))]
}

/// `a × b` modulo 2^192.
fn low_product(a: [u64; 2], b: [u64; 3]) -> [u64; 3] {
    let lowest = u128::from(a[0]) * u128::from(b[0]);
    let middle = (lowest >> 64) + u128::from(a[0]) * u128::from(b[1]);
    let other = u128::from(middle as u64) + u128::from(a[1]) * u128::from(b[0]);
    let high = ((middle >> 64) as u64)
        .wrapping_add((other >> 64) as u64)
        .wrapping_add(a[0].wrapping_mul(b[2]))
        .wrapping_add(a[1].wrapping_mul(b[1]));
    [lowest as u64, other as u64, high]
}

/// `a × b / 2^384`, rounded to the nearest.
fn rounded_high_part(a: [u64; 4], b: [u64; 4]) -> [u64; 2] {
    let mut product = [0_u64; 8];
    for (i, a) in a.into_iter().enumerate() {
        let mut above = 0_u128;
        for (j, b) in b.into_iter().enumerate() {
            let sum = u128::from(a) * u128::from(b) + u128::from(product[i + j]) + above;
            product[i + j] = sum as u64;
            above = sum >> 64;
        }
        product[i + 4] = above as u64;
    }
    let (low, carried) = product[6].overflowing_add(product[5] >> 63);
    [low, product[7] + u64::from(carried)]
}
