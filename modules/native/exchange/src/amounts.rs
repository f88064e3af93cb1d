//! Numbers of the exchange. The reference computes with unbounded integers. The largest product is that of a fee, of
//! three words (quantity, price and rate) and the value of a token with 255 decimals: below 2^1700.

use alloy_primitives::{U256, Uint};
use alloy_rlp::{Encodable, Header as Prefix};

/// A number large enough that no step of the exchange overflows.
pub type Wide = Uint<2048, 32>;

/// One coin of the chain's own, in wei.
pub(super) const COIN: Wide = Wide::from_limbs(limbs(1_000_000_000_000_000_000));
/// Denominator of fee rates.
pub(super) const FEE_BASE: Wide = Wide::from_limbs(limbs(10_000));
/// A relayer's fee for each matched order: 0.001 coins.
pub(super) const RELAYER_FEE: Wide = Wide::from_limbs(limbs(1_000_000_000_000_000));
/// A relayer's fee for a cancelled order: 0.0001 coins.
pub(super) const CANCEL_FEE: Wide = Wide::from_limbs(limbs(100_000_000_000_000));

const fn limbs(low: u64) -> [u64; 32] {
    let mut limbs = [0; 32];
    limbs[0] = low;
    limbs
}

/// A relayer's minimum deposit: 20,000 coins.
pub(super) fn locked_fund() -> Wide {
    COIN * Wide::from(20_000_u64)
}

/// A word as a number.
pub(super) fn wide(word: U256) -> Wide {
    Wide::from(word)
}

/// A number as a word; `None` if it has more than 256 bits.
pub(super) fn word(number: Wide) -> Option<U256> {
    U256::checked_from_limbs_slice(number.as_limbs())
}

/// The low 256 bits of a number.
pub(super) fn low_word(number: Wide) -> U256 {
    U256::from_limbs_slice(&number.as_limbs()[..4])
}

/// Appends the RLP of a number: its bytes without leading zeros.
pub(super) fn put_number(number: Wide, out: &mut Vec<u8>) {
    number.to_be_bytes_trimmed_vec().as_slice().encode(out);
}

/// Wraps RLP items into a list.
pub(super) fn list_of(items: &[u8]) -> Vec<u8> {
    let mut list = Vec::with_capacity(items.len() + 4);
    Prefix { list: true, payload_length: items.len() }.encode(&mut list);
    list.extend_from_slice(items);
    list
}
