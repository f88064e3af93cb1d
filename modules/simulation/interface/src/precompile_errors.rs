//! Error texts of failed precompiled contracts, derived from their input (`docs/spec/rpc-eth.md` 10.1).

use std::borrow::Cow;

use alloy_primitives::{Address, U256};
use revm::precompile::bn254::run_pair;
use tenon_execution_interface::ExtraPrecompiles;

use crate::HaltCause;

/// Size of a pair: one point of each of the two curves, bytes.
const PAIR: usize = 192;

/// Why a precompiled contract refused an input, with the reference's text; `None` for contracts with only one kind of
/// failure. `extras` are those of the chain's family.
pub fn precompile_failure(
    extras: Option<&'static dyn ExtraPrecompiles>,
    contract: Address,
    input: &[u8],
) -> Option<HaltCause> {
    const BLAKE_INPUT: usize = 213;
    if let Some(text) = extras.and_then(|extras| extras.failure_text(contract, input)) {
        return Some(HaltCause::Other(Cow::Borrowed(text)));
    }
    let (leading, [number]) = contract.as_slice().split_last_chunk::<1>()?;
    if leading.iter().any(|byte| *byte != 0) {
        return None;
    }
    Some(HaltCause::Other(Cow::Borrowed(match number {
        // Sizes beyond any machine's memory cost more gas than exists.
        0x05 => return Some(HaltCause::OutOfGas),
        0x08 if !input.len().is_multiple_of(PAIR) => "bad elliptic curve pairing size",
        0x06..=0x08 => curve_failure(*number, input),
        0x09 if input.len() != BLAKE_INPUT => "invalid input length",
        0x09 => "invalid final flag",
        _ => return None,
    })))
}

/// Why the alt_bn128 contracts refuse an input. The reference reads one point after another: the first one that has a
/// coordinate beyond the field, or is not on its curve, determines the error.
fn curve_failure(contract: u8, input: &[u8]) -> &'static str {
    const MODULUS: U256 =
        U256::from_limbs([0x3c20_8c16_d87c_fd47, 0x9781_6a91_6871_ca8d, 0xb850_45b6_8181_585d, 0x3064_4e72_e131_a029]);
    const MALFORMED: &str = "bn256: malformed point";
    // Missing bytes are zeroes. A multiplication has one point; the scalar after it may have any value.
    let length = match contract {
        0x06 => 128,
        0x07 => 64,
        _ => input.len(),
    };
    let mut padded = input.get(..length).unwrap_or(input).to_vec();
    padded.resize(length, 0);
    let words = padded.chunks_exact(32).map(|word| U256::from_be_slice(word).cmp(&MODULUS));
    let Some((place, order)) = words.enumerate().find(|(_, order)| order.is_ge()) else { return MALFORMED };
    if has_malformed_point(contract, &padded[..32 * place]) {
        return MALFORMED;
    }
    if order.is_gt() { "bn256: coordinate exceeds modulus" } else { "bn256: coordinate equals modulus" }
}

/// Whether one of the whole points at the beginning of an input is not on its curve. Their coordinates are in the field.
fn has_malformed_point(contract: u8, input: &[u8]) -> bool {
    const POINT: usize = 64;
    // Points of the first curve are paired with the second's point at infinity.
    let mut pairs = Vec::with_capacity(input.len() + PAIR);
    if contract == 0x08 {
        let whole = input.len() / PAIR * PAIR;
        pairs.extend_from_slice(&input[..whole]);
        pairs.extend_from_slice(input[whole..].get(..POINT).unwrap_or_default());
    } else {
        for point in input.chunks_exact(POINT) {
            pairs.extend_from_slice(point);
            pairs.resize(pairs.len() + PAIR - POINT, 0);
        }
    }
    pairs.resize(pairs.len().next_multiple_of(PAIR), 0);
    run_pair(&pairs, 0, 0, u64::MAX).is_err()
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{address, hex};

    use super::*;

    #[test]
    fn failures_of_precompiled_contracts_have_the_references_texts() {
        let modulus = hex!("30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47");
        let cases = [
            (0x06, vec![1; 128], "bn256: malformed point"),
            (0x06, vec![0xff; 128], "bn256: coordinate exceeds modulus"),
            (0x06, modulus.to_vec(), "bn256: coordinate equals modulus"),
            (0x06, [vec![1; 64], modulus.to_vec()].concat(), "bn256: malformed point"),
            (0x06, [vec![0; 64], modulus.to_vec()].concat(), "bn256: coordinate equals modulus"),
            (0x08, [vec![0; 64], modulus.to_vec(), vec![0; 96]].concat(), "bn256: coordinate equals modulus"),
            (0x08, [vec![1; 64], modulus.to_vec(), vec![0; 96]].concat(), "bn256: malformed point"),
            (0x08, [vec![0; 192], vec![1; 64], vec![0xff; 128]].concat(), "bn256: malformed point"),
            (0x08, [vec![0; 192], vec![0; 64], vec![0xff; 128]].concat(), "bn256: coordinate exceeds modulus"),
            (0x07, [vec![1; 64], vec![0xff; 32]].concat(), "bn256: malformed point"),
            (0x08, vec![0; 191], "bad elliptic curve pairing size"),
            (0x09, vec![0; 212], "invalid input length"),
            (0x09, vec![2; 213], "invalid final flag"),
        ];
        for (contract, input, expected) in cases {
            let found = precompile_failure(None, Address::with_last_byte(contract), &input);
            assert_eq!(found, Some(HaltCause::Other(expected.into())), "{contract:#x}");
        }
        let exponentiation = Address::with_last_byte(0x05);
        assert_eq!(precompile_failure(None, exponentiation, &[0xff; 96]), Some(HaltCause::OutOfGas));
        let elsewhere = address!("0x0100000000000000000000000000000000000006");
        assert_eq!(precompile_failure(None, elsewhere, &modulus), None);
        assert_eq!(precompile_failure(None, Address::with_last_byte(0x0a), &modulus), None);
    }
}
