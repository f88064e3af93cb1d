//! Odd multiples of the generator, computed once.

use std::sync::OnceLock;

use secp256k1::{PublicKey, SECP256K1, SecretKey};

use crate::{
    field::{Element, limbs_of},
    lanes::{Lanes, Portable, five},
    point::{BETA, GENERATOR_WIDTH},
};

/// Entries: G, 3G, …, 1023G.
const ENTRIES: usize = 1 << (GENERATOR_WIDTH - 1);
/// Words per entry: five limbs each of x, of β × x and of y, and one for padding to two cache lines.
const WORDS: usize = 16;
/// Index of the first limb of β × x.
const X_OF_LAMBDA: u64 = 5;
/// Index of the first limb of y.
const Y: u64 = 10;

/// Odd multiples of the generator and of λ times it, with Z = 1. 64 KiB.
#[repr(align(64))]
pub(crate) struct GeneratorTable([u64; ENTRIES * WORDS]);

impl GeneratorTable {
    /// The table, computed on the first call in some milliseconds. `None` if the C library failed to add points, which
    /// does not happen.
    pub(crate) fn get() -> Option<&'static Self> {
        static TABLE: OnceLock<Option<Box<GeneratorTable>>> = OnceLock::new();
        TABLE.get_or_init(Self::new).as_deref()
    }

    fn new() -> Option<Box<Self>> {
        let mut one = [0; 32];
        one[31] = 1;
        let generator = PublicKey::from_secret_key(SECP256K1, &SecretKey::from_byte_array(one).ok()?);
        let double = generator.combine(&generator).ok()?;
        let mut table = Box::new(Self([0; ENTRIES * WORDS]));
        let mut multiple = generator;
        for entry in table.0.chunks_exact_mut(WORDS) {
            let bytes = multiple.serialize_uncompressed();
            let (x, y) = (words_of_bytes(&bytes[1..33]), words_of_bytes(&bytes[33..65]));
            let x_of_lambda = Element::<Portable>::splat(x).times(Element::splat(BETA)).words();
            entry[..5].copy_from_slice(&limbs_of(x));
            entry[5..10].copy_from_slice(&limbs_of(x_of_lambda.map(|word| word.to_array()[0])));
            entry[10..15].copy_from_slice(&limbs_of(y));
            multiple = multiple.combine(&double).ok()?;
        }
        Some(table)
    }

    /// The entry of each lane, or the entry times λ.
    #[inline(always)]
    pub(crate) fn look_up<L: Lanes>(&self, index: L, times_lambda: bool) -> (Element<L>, Element<L>) {
        let place = index.shift_left::<4>();
        let first = if times_lambda { X_OF_LAMBDA } else { 0 };
        let x = five!(limb => L::look_up(&self.0, place + L::splat(first + limb)));
        (Element(x), Element(five!(limb => L::look_up(&self.0, place + L::splat(Y + limb)))))
    }
}

/// Words of 64 bits, lowest first, of a big-endian number of 32 bytes. A longer one is truncated, a shorter one padded
/// with zeros.
pub(crate) fn words_of_bytes(bytes: &[u8]) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().rev().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_be_bytes(*bytes);
    }
    words
}
