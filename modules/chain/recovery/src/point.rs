//! Points of the curve y² = x³ + 7 in Jacobian coordinates: (X, Y, Z) stands for (X / Z², Y / Z³).
//!
//! The formulas of addition are not complete: they are wrong if both points are equal, opposite or infinite. In each of
//! these cases they make Z zero, and then every later sum and double has Z zero too, since each formula multiplies the
//! old Z. So no step checks for such a case: [`MultiplyAndAdd`] ends with a Z of zero in that lane, and the caller
//! recovers that signature singly. Anyone who knows the nonce of a signature can construct such a collision; it costs
//! one seventh more than the C library alone with AVX-512, and up to twice as much with AVX2. Lanes whose x is not on
//! the curve compute on another curve and are dropped at the end. No point of the curve has y = 0, so doubling has no
//! such case.

use crate::{
    field::{Element, Factor},
    generator::GeneratorTable,
    lanes::{LANES, Lanes, Mask, Operation, five},
    split::{HALF_BITS, LIMB_BITS},
};

/// Bits per digit of the scalar of the signature's point.
const POINT_WIDTH: u32 = 5;
/// Number of its odd multiples: 1, 3, …, 31.
const POINT_ENTRIES: usize = 1 << (POINT_WIDTH - 1);
/// Bits per digit of the generator's scalar: one such digit for two of the others.
pub(crate) const GENERATOR_WIDTH: u32 = 10;

/// β in words: a cube root of one modulo p.
pub(crate) const BETA: [u64; 4] =
    [0xc139_6c28_7195_01ee, 0x9cf0_4975_12f5_8995, 0x6e64_479e_ac34_34e9, 0x7ae9_6a2b_657c_0710];

/// A point that is not infinite, with Z = 1.
#[derive(Clone, Copy)]
pub(crate) struct Affine<L> {
    pub(crate) x: Element<L>,
    pub(crate) y: Element<L>,
}

/// A point in Jacobian coordinates.
#[derive(Clone, Copy)]
pub(crate) struct Jacobian<L> {
    pub(crate) x: Element<L>,
    pub(crate) y: Element<L>,
    pub(crate) z: Element<L>,
}

/// Two odd halves of a scalar in each lane (`split.rs`).
#[derive(Clone, Copy)]
pub(crate) struct Digits<L> {
    /// Limbs of each half.
    pub(crate) halves: [[L; 3]; 2],
    /// Lanes in which the half is negative.
    pub(crate) negative: [Mask; 2],
}

impl<L: Lanes> Digits<L> {
    /// Bits of a half: digit `place` of a width that divides [`LIMB_BITS`].
    #[inline(always)]
    fn digit<const WIDTH: u32>(&self, half: usize, place: u32) -> L {
        let bit = place * WIDTH;
        self.halves[half][(bit / LIMB_BITS) as usize].shift_right_by(bit % LIMB_BITS) & L::splat((1 << WIDTH) - 1)
    }
}

/// The entry for a digit in a table of odd multiples (`split.rs`), and the lanes in which it is subtracted.
#[inline(always)]
fn entry<L: Lanes, const WIDTH: u32>(digit: L, negative: Mask) -> (L, Mask) {
    let half = 1_u64 << (WIDTH - 1);
    let minus = (digit & L::splat(half)).zero_lanes();
    let index = L::select(minus, digit ^ L::splat(half - 1), digit) & L::splat(half - 1);
    (index, minus ^ negative)
}

impl<L: Lanes> Jacobian<L> {
    /// Doubles in place: 4 squares, 3 products.
    #[inline(always)]
    fn double(&mut self) {
        let (x, y) = (Factor::from(self.x), Factor::from(self.y));
        let (x_squared, y_squared) = (x.square().reduce(), Factor::from(y.square().reduce()));
        let x_y_squared = x.times(y_squared).reduce();
        let slope = x_squared.three_times();
        let y_fourth = y_squared.square().reduce();
        self.z = y.times(self.z).doubled().reduce();
        self.x = slope.square().minus::<3, 4>(x_y_squared).reduce();
        self.y = slope.times(x_y_squared.four_times_minus(self.x)).minus::<3, 4>(y_fourth).reduce();
    }

    /// Adds a point with Z = 1 in place: 3 squares, 8 products. Returns the factor of the new Z.
    #[inline(always)]
    fn add(&mut self, x: Element<L>, y: Factor<L>) -> Element<L> {
        let z = Factor::from(self.z);
        let z_squared = Factor::from(z.square().reduce());
        let z_cubed = z.times(z_squared).reduce();
        let ratio = Factor::from(x).times(z_squared).minus::<0, 1>(self.x).reduce();
        let run = Factor::from(ratio);
        let rise = Factor::from(y.times(z_cubed).minus::<0, 1>(self.y).reduce());
        let run_squared = Factor::from(run.square().reduce());
        let run_cubed = run.times(run_squared).reduce();
        let middle = Factor::from(self.x).times(run_squared).reduce();
        self.z = z.times(run).reduce();
        self.x = rise.square().minus::<0, 1>(run_cubed).minus::<1, 2>(middle).reduce();
        self.y = rise.times_plus(middle.minus(self.x), self.y.negated(), run_cubed).reduce();
        ratio
    }
}

/// Doubles a point several times.
struct Double<'a, L>(&'a mut Jacobian<L>, u32);

impl<L: Lanes> Operation for Double<'_, L> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let mut point = *self.0;
        for _ in 0..self.1 {
            point.double();
        }
        *self.0 = point;
    }
}

/// Adds a point with Z = 1. Returns the factor of the new Z.
struct Add<'a, L>(&'a mut Jacobian<L>, &'a Affine<L>);

impl<L: Lanes> Operation for Add<'_, L> {
    type Output = Element<L>;
    #[inline(always)]
    fn run(self) -> Element<L> {
        self.0.add(self.1.x, self.1.y.into())
    }
}

/// Limbs of one coordinate of the odd multiples: of entry `e` and lane `l` at `8 × e + l`.
#[repr(align(64))]
struct Coordinate([[u64; POINT_ENTRIES * LANES]; 5]);

impl Coordinate {
    const EMPTY: Self = Self([[0; POINT_ENTRIES * LANES]; 5]);

    #[inline(always)]
    fn set<L: Lanes>(&mut self, entry: usize, element: Element<L>) {
        for (limb, values) in element.0.iter().zip(&mut self.0) {
            values[entry * LANES..][..LANES].copy_from_slice(&limb.to_array());
        }
    }

    #[inline(always)]
    fn look_up<L: Lanes>(&self, index: L) -> Element<L> {
        Element(five!(limb => L::look_up(&self.0[limb], index)))
    }
}

/// The odd multiples P, 3P, …, 31P of a point in each lane. They are on an isomorphic curve on which each of them has Z
/// = 1: (x, y) represents (x / Z², y / Z³) with one Z for all multiples of a lane.
struct PointTable<L> {
    x: Coordinate,
    /// β × x: the x of λ times the multiple.
    x_of_lambda: Coordinate,
    y: Coordinate,
    z: Element<L>,
}

impl<L: Lanes> PointTable<L> {
    #[inline(always)]
    fn new(point: &Affine<L>) -> Self {
        let mut table = Self {
            x: Coordinate::EMPTY,
            x_of_lambda: Coordinate::EMPTY,
            y: Coordinate::EMPTY,
            z: Element::splat([1, 0, 0, 0]),
        };
        let mut double = Jacobian { x: point.x, y: point.y, z: Element::splat([1, 0, 0, 0]) };
        L::run_operation(Double(&mut double, 1));
        // On the curve on which the double has Z = 1, the point is scaled by the double's Z.
        let z_squared = double.z.times(double.z);
        let mut sum = Jacobian {
            x: point.x.times(z_squared),
            y: point.y.times(z_squared.times(double.z)),
            z: Element::splat([1, 0, 0, 0]),
        };
        let step = Affine { x: double.x, y: double.y };
        let mut multiples = [sum; POINT_ENTRIES];
        // Ratios of the Z of each multiple to that of the previous one.
        let mut ratios = [sum.z; POINT_ENTRIES];
        for (multiple, ratio) in multiples.iter_mut().zip(&mut ratios).skip(1) {
            *ratio = L::run_operation(Add(&mut sum, &step));
            *multiple = sum;
        }
        table.z = double.z.times(sum.z);
        // All multiples get the Z of the last one.
        let (mut scale, beta) = (Element::splat([1, 0, 0, 0]), Element::splat(BETA));
        for entry in (0..POINT_ENTRIES).rev() {
            let multiple = &multiples[entry];
            let (mut x, mut y) = (multiple.x, multiple.y);
            if entry + 1 < POINT_ENTRIES {
                scale = scale.times(ratios[entry + 1]);
                let squared = scale.squared(1);
                x = x.times(squared);
                y = y.times(squared.times(scale));
            }
            table.x.set(entry, x);
            table.x_of_lambda.set(entry, x.times(beta));
            table.y.set(entry, y);
        }
        table
    }

    /// The entry for a digit, or the entry times λ.
    #[inline(always)]
    fn look_up(&self, digit: L, negative: Mask, times_lambda: bool) -> (Element<L>, Factor<L>) {
        let (index, minus) = entry::<L, POINT_WIDTH>(digit, negative);
        let place = index.shift_left::<3>() | L::from_array([0, 1, 2, 3, 4, 5, 6, 7]);
        let x = if times_lambda { self.x_of_lambda.look_up(place) } else { self.x.look_up(place) };
        (x, self.y.look_up::<L>(place).negated_in(minus))
    }
}

/// Adds the multiple of the signature's point for one digit of one half.
struct AddPoint<'a, L> {
    sum: &'a mut Jacobian<L>,
    table: &'a PointTable<L>,
    digits: &'a Digits<L>,
    half: usize,
    place: u32,
}

impl<L: Lanes> Operation for AddPoint<'_, L> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let digit = self.digits.digit::<POINT_WIDTH>(self.half, self.place);
        let (x, y) = self.table.look_up(digit, self.digits.negative[self.half], self.half == 1);
        self.sum.add(x, y);
    }
}

/// Adds the multiple of the generator for one digit of one half, on the table's isomorphic curve.
struct AddGenerator<'a, L> {
    sum: &'a mut Jacobian<L>,
    table: &'a GeneratorTable,
    digits: &'a Digits<L>,
    half: usize,
    place: u32,
    /// Z² and Z³ of the curve.
    scale: &'a [Element<L>; 2],
}

impl<L: Lanes> Operation for AddGenerator<'_, L> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let digit = self.digits.digit::<GENERATOR_WIDTH>(self.half, self.place);
        let (index, minus) = entry::<L, GENERATOR_WIDTH>(digit, self.digits.negative[self.half]);
        let (x, y) = self.table.look_up(index, self.half == 1);
        let x = Factor::from(x).times(self.scale[0]).reduce();
        let y = Factor::from(y).times(self.scale[1]).reduce().negated_in(minus);
        self.sum.add(x, y);
    }
}

/// `generator_digits × G + point_digits × point`. Z is zero in the lanes in which a sum of the ladder had equal or
/// opposite points.
pub(crate) struct MultiplyAndAdd<'a, L> {
    /// Multiples of G.
    pub(crate) generator: &'a GeneratorTable,
    /// The scalar of G.
    pub(crate) generator_digits: &'a Digits<L>,
    /// The other point.
    pub(crate) point: &'a Affine<L>,
    /// The scalar of `point`.
    pub(crate) point_digits: &'a Digits<L>,
}

impl<L: Lanes> Operation for MultiplyAndAdd<'_, L> {
    type Output = Jacobian<L>;

    #[inline(always)]
    fn run(self) -> Jacobian<L> {
        let table = PointTable::new(self.point);
        let z_squared = table.z.squared(1);
        let scale = [z_squared, z_squared.times(table.z)];
        let top = HALF_BITS / POINT_WIDTH - 1;
        let digits = self.point_digits;
        let (x, y) = table.look_up(digits.digit::<POINT_WIDTH>(0, top), digits.negative[0], false);
        let mut sum = Jacobian { x, y: y.reduce(), z: Element::splat([1, 0, 0, 0]) };
        L::run_operation(AddPoint { sum: &mut sum, table: &table, digits, half: 1, place: top });
        for place in (0..top).rev() {
            L::run_operation(Double(&mut sum, POINT_WIDTH));
            for half in 0..2 {
                L::run_operation(AddPoint { sum: &mut sum, table: &table, digits, half, place });
            }
            if place % 2 == 0 {
                for half in 0..2 {
                    let (sum, table, digits) = (&mut sum, self.generator, self.generator_digits);
                    L::run_operation(AddGenerator { sum, table, digits, half, place: place / 2, scale: &scale });
                }
            }
        }
        sum.z = sum.z.times(table.z);
        sum
    }
}

/// The point with an x, and with an odd y in the lanes of the mask. Also returns the lanes in which the curve has no
/// such point.
pub(crate) struct Lift<'a, L>(pub(crate) &'a Element<L>, pub(crate) Mask);

impl<L: Lanes> Operation for Lift<'_, L> {
    type Output = (Affine<L>, Mask);

    #[inline(always)]
    fn run(self) -> (Affine<L>, Mask) {
        let (x, odd) = (*self.0, self.1);
        let square = Factor::from(x.squared(1)).times(x).plus(Element::splat([7, 0, 0, 0])).reduce();
        let root = square.square_root().canonical();
        let wrong = !root.squared(1).minus(square).reduce().zero_lanes();
        let even = (root.0[0] & L::splat(1)).zero_lanes();
        // Negates if the parity of the lowest bit differs from the mask.
        (Affine { x, y: root.negated_in(!even ^ odd).reduce() }, wrong)
    }
}
