//! Products in the field: columns of 52 bits, folded below 2^300.
//!
//! A product of two limbs has a low part, of the weight of its column, and a high part, 2^52 times that.

use crate::{
    field::FOLD_260,
    lanes::{Limbs, Multiplication},
};

/// a × b: 50 products of limbs, and 14 to fold them.
pub(crate) struct Product;

impl Multiplication<2> for Product {
    #[inline(always)]
    fn run<V: Limbs>([a, b]: &[[V; 5]; 2]) -> [V; 6] {
        let mut columns = first_columns();
        add_product(&mut columns, a, b);
        fold(columns)
    }
}

/// a × b + c × d, folded once.
pub(crate) struct SumOfProducts;

impl Multiplication<4> for SumOfProducts {
    #[inline(always)]
    fn run<V: Limbs>([a, b, c, d]: &[[V; 5]; 4]) -> [V; 6] {
        let mut columns = first_columns();
        add_product(&mut columns, a, b);
        add_product(&mut columns, c, d);
        fold(columns)
    }
}

/// a²: 30 products of limbs, those of two different limbs once and doubled, and 14 to fold them.
pub(crate) struct Square;

impl Multiplication<1> for Square {
    #[inline(always)]
    fn run<V: Limbs>([limbs]: &[[V; 5]; 1]) -> [V; 6] {
        let a = operands(limbs);
        let mut columns = [V::constant(0); 10];
        for i in 0..5 {
            for j in i + 1..5 {
                columns[i + j] = columns[i + j].plus_low_part(a[i], a[j]);
                columns[i + j + 1] = columns[i + j + 1].plus_high_part(a[i], a[j]);
            }
        }
        for (column, start) in columns.iter_mut().zip(V::START) {
            *column = *column + *column + V::constant(start);
        }
        for i in 0..5 {
            columns[2 * i] = columns[2 * i].plus_low_part(a[i], a[i]);
            columns[2 * i + 1] = columns[2 * i + 1].plus_high_part(a[i], a[i]);
        }
        fold(columns)
    }
}

#[inline(always)]
fn first_columns<V: Limbs>() -> [V; 10] {
    let mut columns = [V::constant(0); 10];
    for (column, start) in columns.iter_mut().zip(V::START) {
        *column = V::constant(start);
    }
    columns
}

#[inline(always)]
fn operands<V: Limbs>(limbs: &[V; 5]) -> [V::Operand; 5] {
    [limbs[0].operand(), limbs[1].operand(), limbs[2].operand(), limbs[3].operand(), limbs[4].operand()]
}

/// Adds a product to ten columns of 52 bits. After one or two products, each is below 2^57.
#[inline(always)]
fn add_product<V: Limbs>(columns: &mut [V; 10], a: &[V; 5], b: &[V; 5]) {
    let (a, b) = (operands(a), operands(b));
    for i in 0..5 {
        for j in 0..5 {
            columns[i + j] = columns[i + j].plus_low_part(a[i], b[j]);
            columns[i + j + 1] = columns[i + j + 1].plus_high_part(a[i], b[j]);
        }
    }
}

/// Folds columns 5 to 9 onto the lower ones: 2^260 is [`FOLD_260`] modulo p. A product takes only the low 52 bits of a
/// column; the bits above them, less than 2^5, are multiplied separately, one column further up.
#[inline(always)]
fn fold<V: Limbs>(columns: [V; 10]) -> [V; 6] {
    let weight = V::constant(FOLD_260).operand();
    let mut folded = [columns[0], columns[1], columns[2], columns[3], columns[4], V::constant(0)];
    for i in 0..5 {
        let column = columns[i + 5].low_operand();
        folded[i] = folded[i].plus_low_part(column, weight);
        folded[i + 1] = folded[i + 1].plus_high_part(column, weight);
    }
    for i in 0..4 {
        // Below 2^5 × 2^37: no high part. Column 9, of the high parts of limbs below 2^51, has no bits above 52.
        folded[i + 1] = folded[i + 1].plus_low_part(columns[i + 5].above_52_bits().operand(), weight);
    }
    folded
}
