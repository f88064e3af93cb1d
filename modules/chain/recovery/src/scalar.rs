//! Numbers modulo the order n of the curve's group, in five limbs of 52 bits, multiplied as Montgomery does with 2^260.

use crate::{
    field::{LOW_52, limbs_of, vectors_of, words_of},
    lanes::{LANES, Lanes, Operation, five},
};

/// n in words of 64 bits, the lowest first.
pub(crate) const ORDER: [u64; 4] =
    [0xbfd2_5e8c_d036_4141, 0xbaae_dce6_af48_a03b, 0xffff_ffff_ffff_fffe, 0xffff_ffff_ffff_ffff];
/// n in limbs.
const ORDER_LIMBS: [u64; 5] = limbs_of(ORDER);
/// −1/n modulo 2^52.
const NEGATIVE_INVERSE: u64 = 0xd_ff66_5588_b13f;
/// 2^520 modulo n: brings a number into Montgomery's form.
const INTO_MONTGOMERY: [u64; 5] =
    [0xe_180c_268b_3b23, 0x9_4fd6_e33e_4c8e, 0xd_07c7_3b97_5948, 0xc_5e69_7f5e_45bc, 0x671c_d581_c69b];
/// 2^260 modulo n: one in Montgomery's form.
const ONE: [u64; 5] = [0xa_1732_fc9b_ebf0, 0x9_50b7_5fc4_402d, 0x1455_1231, 0, 0];

/// A number below 2n in each lane; limbs 0 to 3 are below 2^52. The type does not record whether it is in Montgomery
/// form (multiplied by 2^260).
#[derive(Clone, Copy)]
pub(crate) struct Scalar<L>([L; 5]);

impl<L: Lanes> Scalar<L> {
    /// From words of 64 bits, the lowest first, of numbers below 2^256.
    #[inline(always)]
    pub(crate) fn from_words(words: &[[u64; 4]; LANES]) -> Self {
        Self(vectors_of(words))
    }

    /// One in Montgomery's form.
    #[inline(always)]
    pub(crate) fn one() -> Self {
        Self(five!(i => L::splat(ONE[i])))
    }

    /// Brings a number into Montgomery's form.
    #[inline(always)]
    pub(crate) fn into_montgomery(self) -> Self {
        self.times(Self(five!(i => L::splat(INTO_MONTGOMERY[i]))))
    }

    /// `self × other / 2^260`. For two numbers in Montgomery form this is their product in that form; for one in
    /// Montgomery form and one that is not, it is their plain product.
    #[inline(always)]
    pub(crate) fn times(self, other: Self) -> Self {
        L::run_operation(Times(&self, &other))
    }

    /// The inverse of a number in Montgomery's form, in that form; zero for zero. It is self^(n − 2), four bits at a time.
    #[inline(always)]
    pub(crate) fn inverse(self) -> Self {
        let mut exponent = ORDER;
        exponent[0] -= 2;
        let mut powers = [Self::one(); 16];
        for power in 1..16 {
            powers[power] = powers[power - 1].times(self);
        }
        let mut inverse = Self::one();
        for place in (0..64).rev() {
            for _ in 0..4 {
                inverse = inverse.times(inverse);
            }
            inverse = inverse.times(powers[(exponent[place / 16] >> (4 * (place % 16)) & 15) as usize]);
        }
        inverse
    }

    /// The reduced number as 64-bit words of each lane, lowest first.
    #[inline(always)]
    pub(crate) fn words(self) -> [L; 4] {
        let low = L::splat(LOW_52);
        let mut less = self.0;
        let mut borrow = L::splat(0);
        for (limb, order) in less.iter_mut().zip(ORDER_LIMBS) {
            let difference = *limb - L::splat(order) - borrow;
            borrow = difference.shift_right::<63>();
            *limb = difference & low;
        }
        let is_below = (borrow ^ L::splat(1)).zero_lanes();
        words_of(five!(i => L::select(is_below, self.0[i], less[i])))
    }
}

/// [`Scalar::times`].
struct Times<'a, L>(&'a Scalar<L>, &'a Scalar<L>);

impl<L: Lanes> Operation for Times<'_, L> {
    type Output = Scalar<L>;

    /// Five rounds: each adds one limb's products, then the multiple of n that clears the lowest column, which is
    /// dropped. A column stays below 20 × 2^52, and the result is below a × b / 2^260 + n, so below 2n for factors
    /// below 2n.
    #[inline(always)]
    fn run(self) -> Scalar<L> {
        let (Scalar(a), Scalar(b)) = (self.0, self.1);
        let (order, inverse, zero) = (five!(i => L::splat(ORDER_LIMBS[i])), L::splat(NEGATIVE_INVERSE), L::splat(0));
        let mut columns = [zero; 6];
        for limb in a {
            for j in 0..5 {
                columns[j] = columns[j].add_low_product(*limb, b[j]);
                columns[j + 1] = columns[j + 1].add_high_product(*limb, b[j]);
            }
            let multiple = zero.add_low_product(columns[0], inverse);
            for j in 0..5 {
                columns[j] = columns[j].add_low_product(multiple, order[j]);
                columns[j + 1] = columns[j + 1].add_high_product(multiple, order[j]);
            }
            let above = columns[0].shift_right::<52>();
            columns = [columns[1] + above, columns[2], columns[3], columns[4], columns[5], zero];
        }
        let low = L::splat(LOW_52);
        let [mut limbs @ .., _] = columns;
        for i in 0..4 {
            limbs[i + 1] = limbs[i + 1] + limbs[i].shift_right::<52>();
            limbs[i] = limbs[i] & low;
        }
        Scalar(limbs)
    }
}
