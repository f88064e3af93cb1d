//! The field of the curve: numbers modulo p = 2^256 − 2^32 − 977, in five limbs of 52 bits.
//!
//! Carries are lazy. Three types bound the limbs, so that no sum is multiplied before its carries are propagated:
//!
//! | Type | limbs 0 to 3 | limb 4 | made by |
//! |---|---|---|---|
//! | [`Element`] | < 2^52 | < 2^48 + 2^11 | [`Columns::reduce`] |
//! | [`Factor`] | < 2^52 | < 2^51 | small sums of elements with propagated carries |
//! | [`Columns`] | < 2^62 | < 2^62, and < 2^38 above it | products and sums of them |
//!
//! None of them is fully reduced modulo p; [`Element::canonical`] is. Debug builds assert the bounds.

use crate::{
    lanes::{LANES, Lanes, Mask, Operation, five},
    product::{Product, Square, SumOfProducts},
};

/// The low 52 bits.
pub(crate) const LOW_52: u64 = (1 << 52) - 1;
/// The low 48 bits: the size of limb 4 of a number below 2^256.
const LOW_48: u64 = (1 << 48) - 1;
/// 2^256 modulo p.
const FOLD_256: u64 = 0x1_0000_03d1;
/// 2^260 modulo p: the weight of the fifth limb.
pub(crate) const FOLD_260: u64 = FOLD_256 << 4;
/// p in limbs.
const PRIME: [u64; 5] = [LOW_52 + 1 - FOLD_256, LOW_52, LOW_52, LOW_52, LOW_48];

/// Asserts in debug builds that all lanes are below a bound.
#[inline(always)]
fn assert_below<L: Lanes>(limb: L, bound: u64) {
    if cfg!(debug_assertions) {
        assert_all_below(limb.to_array(), bound);
    }
}

/// A function of its own, because inlining it into all arithmetic would take a minute to compile.
#[inline(never)]
fn assert_all_below(numbers: [u64; LANES], bound: u64) {
    assert!(numbers.iter().all(|number| *number < bound), "a limb beyond its bound of {bound:#x}");
}

/// A number modulo p in each lane. Limb 4 is below 2^48 + 2^11.
#[derive(Clone, Copy)]
pub(crate) struct Element<L>(pub(crate) [L; 5]);

/// A number modulo p in each lane, ready to be multiplied. Limb 4 is below 2^51.
#[derive(Clone, Copy)]
pub(crate) struct Factor<L>([L; 5]);

/// A sum of products in each lane, folded below 2^300, with carries not yet propagated.
#[derive(Clone, Copy)]
pub(crate) struct Columns<L>([L; 6]);

impl<L: Lanes> From<Element<L>> for Factor<L> {
    #[inline(always)]
    fn from(element: Element<L>) -> Self {
        Self(element.0)
    }
}

impl<L: Lanes> Factor<L> {
    #[inline(always)]
    fn asserted(limbs: [L; 5]) -> Self {
        for limb in &limbs[..4] {
            assert_below(*limb, 1 << 52);
        }
        assert_below(limbs[4], 1 << 51);
        Self(limbs)
    }

    /// From limbs, for tests.
    #[cfg(test)]
    pub(crate) fn of_limbs(limbs: [L; 5]) -> Self {
        Self::asserted(limbs)
    }

    /// The same number as an element.
    #[inline(always)]
    pub(crate) fn reduce(self) -> Element<L> {
        let [first, second, third, fourth, fifth] = self.0;
        Columns([first, second, third, fourth, fifth, L::splat(0)]).reduce()
    }

    /// The product.
    #[inline(always)]
    pub(crate) fn times(self, other: impl Into<Self>) -> Columns<L> {
        Columns(L::multiply::<Product, 2>([&self.0, &other.into().0]))
    }

    /// `self × other + a × b`.
    #[inline(always)]
    pub(crate) fn times_plus(self, other: impl Into<Self>, a: impl Into<Self>, b: impl Into<Self>) -> Columns<L> {
        Columns(L::multiply::<SumOfProducts, 4>([&self.0, &other.into().0, &a.into().0, &b.into().0]))
    }

    /// The square.
    #[inline(always)]
    pub(crate) fn square(self) -> Columns<L> {
        Columns(L::multiply::<Square, 1>([&self.0]))
    }
}

/// Propagates carries from limb 0 to limb 4, which absorbs them.
#[inline(always)]
fn carry<L: Lanes>(mut limbs: [L; 5]) -> [L; 5] {
    let low = L::splat(LOW_52);
    for i in 0..4 {
        limbs[i + 1] = limbs[i + 1] + limbs[i].shift_right::<52>();
        limbs[i] = limbs[i] & low;
    }
    limbs
}

/// Limb `index` of a multiple of p, 2^`POWER` × p, written so that every limb is at least 2^(POWER − 1) times the
/// largest of an [`Element`]. An element can then be subtracted from it limb by limb.
#[inline(always)]
fn multiple_of_prime<L: Lanes, const POWER: u32>(index: usize) -> L {
    L::splat(PRIME[index] << POWER)
}

impl<L: Lanes> Columns<L> {
    /// From columns, for tests.
    #[cfg(test)]
    pub(crate) fn of_columns(columns: [L; 6]) -> Self {
        Self(columns)
    }

    /// Adds an element.
    #[inline(always)]
    pub(crate) fn plus(mut self, other: Element<L>) -> Self {
        for i in 0..5 {
            self.0[i] = self.0[i] + other.0[i];
        }
        self
    }

    /// Doubles.
    #[inline(always)]
    pub(crate) fn doubled(self) -> Self {
        let [first, second, third, fourth, fifth, above] = self.0;
        Self([first + first, second + second, third + third, fourth + fourth, fifth + fifth, above + above])
    }

    /// Subtracts 2^`POWER` times an element. `NEXT` is `POWER + 1`.
    #[inline(always)]
    pub(crate) fn minus<const POWER: u32, const NEXT: u32>(mut self, other: Element<L>) -> Self {
        const { assert!(NEXT == POWER + 1 && POWER <= 3) };
        for i in 0..5 {
            self.0[i] = self.0[i] + (multiple_of_prime::<L, NEXT>(i) - other.0[i].shift_left::<POWER>());
        }
        self
    }

    /// Propagates the carries and folds the part above 2^256.
    #[inline(always)]
    pub(crate) fn reduce(self) -> Element<L> {
        for column in &self.0[..5] {
            assert_below(*column, 1 << 62);
        }
        assert_below(self.0[5], 1 << 38);
        let [mut first, mut second, third, fourth, fifth, above] = self.0;
        // Below 2^14 + 2^42. Its product with 2^256 modulo p is below 2^75: 23 bits go to the second limb.
        let top = fifth.shift_right::<48>() + above.shift_left::<4>();
        let weight = L::splat(FOLD_256);
        first = first.add_low_product(top, weight);
        second = second.add_high_product(top, weight);
        // The fourth column is below 2^62 + 2^11, so limb 4 gets less than 2^11.
        Element::asserted(carry([first, second, third, fourth, fifth & L::splat(LOW_48)]))
    }
}

impl<L: Lanes> Element<L> {
    #[inline(always)]
    fn asserted(limbs: [L; 5]) -> Self {
        for limb in &limbs[..4] {
            assert_below(*limb, 1 << 52);
        }
        assert_below(limbs[4], (1 << 48) + (1 << 11));
        Self(limbs)
    }

    /// The same number in all lanes, from 64-bit words, the lowest first.
    #[inline(always)]
    pub(crate) fn splat(words: [u64; 4]) -> Self {
        let limbs = limbs_of(words);
        Self(five!(i => L::splat(limbs[i])))
    }

    /// 64-bit words of each lane, the lowest first.
    #[inline(always)]
    pub(crate) fn from_words(words: &[[u64; 4]; LANES]) -> Self {
        Self(vectors_of(words))
    }

    /// The product, as a function of its own.
    #[inline(always)]
    pub(crate) fn times(self, other: Self) -> Self {
        L::run_operation(Times(&self, &other))
    }

    /// Squares the number `count` times, as a function of its own.
    #[inline(always)]
    pub(crate) fn squared(self, count: u32) -> Self {
        L::run_operation(Squared(&self, count))
    }

    /// `self − other`.
    #[inline(always)]
    pub(crate) fn minus(self, other: Self) -> Factor<L> {
        Factor::asserted(carry(five!(i => self.0[i] + multiple_of_prime::<L, 1>(i) - other.0[i])))
    }

    /// `4 × self − other`.
    #[inline(always)]
    pub(crate) fn four_times_minus(self, other: Self) -> Factor<L> {
        Factor::asserted(carry(five!(i => self.0[i].shift_left::<2>() + multiple_of_prime::<L, 1>(i) - other.0[i])))
    }

    /// `3 × self`.
    #[inline(always)]
    pub(crate) fn three_times(self) -> Factor<L> {
        Factor::asserted(carry(five!(i => self.0[i] + self.0[i] + self.0[i])))
    }

    /// `−self`.
    #[inline(always)]
    pub(crate) fn negated(self) -> Factor<L> {
        Factor::asserted(carry(five!(i => multiple_of_prime::<L, 1>(i) - self.0[i])))
    }

    /// `−self` in the lanes of the mask, `self` in the others.
    #[inline(always)]
    pub(crate) fn negated_in(self, mask: Mask) -> Factor<L> {
        Factor::asserted(carry(five!(i => L::select(mask, multiple_of_prime::<L, 1>(i) - self.0[i], self.0[i]))))
    }

    /// `yes` in the lanes of the mask and `no` in the others.
    #[inline(always)]
    pub(crate) fn select(mask: Mask, yes: Self, no: Self) -> Self {
        Self(five!(i => L::select(mask, yes.0[i], no.0[i])))
    }

    /// The lanes that are zero modulo p.
    #[inline(always)]
    pub(crate) fn zero_lanes(self) -> Mask {
        let [first, second, third, fourth, fifth] = self.canonical().0;
        (first | second | third | fourth | fifth).zero_lanes()
    }

    /// The same numbers, reduced below p.
    #[inline(always)]
    pub(crate) fn canonical(self) -> Self {
        let (low_48, fold) = (L::splat(LOW_48), L::splat(FOLD_256));
        // Below 2^256 after this: the part above it is less than 2, and if it is 1, the rest is small.
        let [first, second, third, fourth, fifth] = self.0;
        let above = fifth.shift_right::<48>();
        let once = carry([first.add_low_product(above, fold), second, third, fourth, fifth & low_48]);
        // Adding 2^256 − p carries into bit 256 exactly if the number is at least p, and leaves the reduced number
        // below it.
        let mut less = once;
        less[0] = less[0] + fold;
        let less = carry(less);
        let is_smaller = less[4].shift_right::<48>().zero_lanes();
        let mut limbs = five!(i => L::select(is_smaller, once[i], less[i]));
        limbs[4] = limbs[4] & low_48;
        Self(limbs)
    }

    /// The reduced number as 64-bit words of each lane, lowest first.
    #[inline(always)]
    pub(crate) fn words(self) -> [L; 4] {
        words_of(self.canonical().0)
    }

    /// self^((p + 1) / 4): a square root of either sign if there is one, otherwise an unrelated number.
    #[inline(always)]
    pub(crate) fn square_root(self) -> Self {
        let powers = self.powers();
        let root = powers.ones_223.squared(23).times(powers.ones_22);
        root.squared(6).times(powers.ones_2).squared(2)
    }

    /// The inverse, and zero for zero: self^(p − 2).
    #[inline(always)]
    pub(crate) fn inverse(self) -> Self {
        let powers = self.powers();
        let inverse = powers.ones_223.squared(23).times(powers.ones_22).squared(5).times(self);
        inverse.squared(3).times(powers.ones_2).squared(2).times(self)
    }

    /// self^(2^n − 1) for n = 2, 22 and 223. The exponents of the two functions above are composed of these.
    #[inline(always)]
    fn powers(self) -> Powers<L> {
        let ones_2 = self.squared(1).times(self);
        let ones_3 = ones_2.squared(1).times(self);
        let ones_6 = ones_3.squared(3).times(ones_3);
        let ones_9 = ones_6.squared(3).times(ones_3);
        let ones_11 = ones_9.squared(2).times(ones_2);
        let ones_22 = ones_11.squared(11).times(ones_11);
        let ones_44 = ones_22.squared(22).times(ones_22);
        let ones_88 = ones_44.squared(44).times(ones_44);
        let ones_176 = ones_88.squared(88).times(ones_88);
        let ones_220 = ones_176.squared(44).times(ones_44);
        let ones_223 = ones_220.squared(3).times(ones_3);
        Powers { ones_2, ones_22, ones_223 }
    }
}

/// See [`Element::powers`].
struct Powers<L> {
    ones_2: Element<L>,
    ones_22: Element<L>,
    ones_223: Element<L>,
}

/// [`Element::times`].
struct Times<'a, L>(&'a Element<L>, &'a Element<L>);

impl<L: Lanes> Operation for Times<'_, L> {
    type Output = Element<L>;
    #[inline(always)]
    fn run(self) -> Element<L> {
        Factor::from(*self.0).times(*self.1).reduce()
    }
}

/// [`Element::squared`].
struct Squared<'a, L>(&'a Element<L>, u32);

impl<L: Lanes> Operation for Squared<'_, L> {
    type Output = Element<L>;
    #[inline(always)]
    fn run(self) -> Element<L> {
        let mut element = *self.0;
        for _ in 0..self.1 {
            element = Factor::from(element).square().reduce();
        }
        element
    }
}

/// Limbs of 52 bits from words of 64, the lowest first.
#[inline(always)]
pub(crate) const fn limbs_of(words: [u64; 4]) -> [u64; 5] {
    [
        words[0] & LOW_52,
        (words[0] >> 52 | words[1] << 12) & LOW_52,
        (words[1] >> 40 | words[2] << 24) & LOW_52,
        (words[2] >> 28 | words[3] << 36) & LOW_52,
        words[3] >> 16,
    ]
}

/// Limbs of 52 bits of eight numbers, lane by lane, from words of 64, the lowest first.
#[inline(always)]
pub(crate) fn vectors_of<L: Lanes>(words: &[[u64; 4]; LANES]) -> [L; 5] {
    let mut limbs = [[0; LANES]; 5];
    for (lane, words) in words.iter().enumerate() {
        for (limb, value) in limbs_of(*words).into_iter().enumerate() {
            limbs[limb][lane] = value;
        }
    }
    five!(i => L::from_array(limbs[i]))
}

/// Words of 64 bits from limbs of 52 with propagated carries, of a number below 2^256.
#[inline(always)]
pub(crate) fn words_of<L: Lanes>(limbs: [L; 5]) -> [L; 4] {
    [
        limbs[0] | limbs[1].shift_left::<52>(),
        limbs[1].shift_right::<12>() | limbs[2].shift_left::<40>(),
        limbs[2].shift_right::<24>() | limbs[3].shift_left::<28>(),
        limbs[3].shift_right::<36>() | limbs[4].shift_left::<16>(),
    ]
}
