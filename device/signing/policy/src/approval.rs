//! Calls that approve another account for an unlimited amount of tokens.

/// `approve(address,uint256)` of ERC-20.
const APPROVE: [u8; 4] = [0x09, 0x5e, 0xa7, 0xb3];
/// `increaseAllowance(address,uint256)`, which many ERC-20 tokens add.
const INCREASE_ALLOWANCE: [u8; 4] = [0x39, 0x50, 0x93, 0x51];
/// `setApprovalForAll(address,bool)` of ERC-721 and ERC-1155.
const SET_APPROVAL_FOR_ALL: [u8; 4] = [0xa2, 0x2c, 0xb4, 0x65];

/// Returns the account that a call with this data approves for an unlimited amount of tokens; `None` for any other
/// call.
///
/// An amount of at least 2⁹⁶ − 1 counts as unlimited, because tokens with 96-bit balances treat that value so. Bytes
/// after the two arguments are ignored, as contracts ignore them. Calls nested in other calls and signed permits are
/// not detected.
#[must_use]
pub fn unlimited_approval(data: &[u8]) -> Option<[u8; 20]> {
    let (selector, arguments) = data.split_first_chunk::<4>()?;
    let (first, rest) = arguments.split_first_chunk::<32>()?;
    let (second, _) = rest.split_first_chunk::<32>()?;
    let is_unlimited = match *selector {
        APPROVE | INCREASE_ALLOWANCE => is_unlimited_amount(second),
        SET_APPROVAL_FOR_ALL => second.iter().any(|byte| *byte != 0),
        _ => false,
    };
    let spender = first.last_chunk::<20>()?;
    is_unlimited.then_some(*spender)
}

/// Whether a big-endian number is at least 2⁹⁶ − 1.
fn is_unlimited_amount(amount: &[u8; 32]) -> bool {
    let (high, low) = amount.split_at(20);
    high.iter().any(|byte| *byte != 0) || low.iter().all(|byte| *byte == 0xff)
}

#[cfg(test)]
mod tests {
    use super::{APPROVE, INCREASE_ALLOWANCE, SET_APPROVAL_FOR_ALL, unlimited_approval};
    use proptest::prelude::*;

    fn call(selector: [u8; 4], second: [u8; 32]) -> Vec<u8> {
        [&selector[..], &[0; 12], &[7; 20], &second].concat()
    }

    fn number(value: u128) -> [u8; 32] {
        let mut word = [0; 32];
        word[16..].copy_from_slice(&value.to_be_bytes());
        word
    }

    #[test]
    fn an_amount_is_unlimited_from_96_bits_of_ones_on() {
        for selector in [APPROVE, INCREASE_ALLOWANCE] {
            assert_eq!(unlimited_approval(&call(selector, [0xff; 32])), Some([7; 20]));
            assert_eq!(unlimited_approval(&call(selector, number((1 << 96) - 1))), Some([7; 20]));
            assert_eq!(unlimited_approval(&call(selector, number(1 << 96))), Some([7; 20]));
            assert_eq!(unlimited_approval(&call(selector, number((1 << 96) - 2))), None);
        }
    }

    #[test]
    fn an_operator_for_all_tokens_is_unlimited_until_it_is_taken_back() {
        assert_eq!(unlimited_approval(&call(SET_APPROVAL_FOR_ALL, number(1))), Some([7; 20]));
        assert_eq!(unlimited_approval(&call(SET_APPROVAL_FOR_ALL, number(0))), None);
    }

    #[test]
    fn extra_bytes_after_the_arguments_and_truncated_calls_do_not_match() {
        let mut data = call(APPROVE, [0xff; 32]);
        assert_eq!(unlimited_approval(&data[..67]), None);
        data.push(0);
        assert_eq!(unlimited_approval(&data), Some([7; 20]));
    }

    proptest! {
        #[test]
        fn other_selectors_approve_nothing(selector: [u8; 4], second: [u8; 32]) {
            prop_assume!(![APPROVE, INCREASE_ALLOWANCE, SET_APPROVAL_FOR_ALL].contains(&selector));
            prop_assert_eq!(unlimited_approval(&call(selector, second)), None);
        }
    }
}
