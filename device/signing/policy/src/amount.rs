//! Amounts in a policy file: a number and a unit.

use alloy_primitives::{
    U256,
    utils::{ParseUnits, format_units, parse_units},
};

/// The units, with their decimals.
const UNITS: [(&str, usize); 3] = [("wei", 0), ("gwei", 9), ("ether", 18)];

/// The text is not an amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an amount: write a number and wei, gwei or ether, such as \"1.5 ether\"")]
pub struct AmountError(String);

/// Reads an amount such as `1.5 ether`, `20 gwei` or `21000` (wei). Returns wei.
///
/// # Errors
/// [`AmountError`] if the text is not a number, is negative, has an unknown unit, is finer than a wei or exceeds
/// `U256::MAX`.
pub fn parse_amount(text: &str) -> Result<U256, AmountError> {
    let error = || AmountError(text.chars().take(80).collect());
    let (number, (unit, max_decimals)) = match text.trim().split_once(' ') {
        None => (text.trim(), UNITS[0]),
        Some((number, unit)) => {
            let named = UNITS.iter().find(|(name, _)| *name == unit.trim());
            (number.trim(), *named.ok_or_else(error)?)
        }
    };
    let decimals = number.split_once('.').map_or("", |(_, decimals)| decimals);
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && number.starts_with(|first: char| first.is_ascii_digit())
        && !number.ends_with('.');
    // `parse_units` silently drops decimals finer than a wei.
    if !is_number || decimals.len() > max_decimals {
        return Err(error());
    }
    match parse_units(number, unit) {
        Ok(ParseUnits::U256(wei)) => Ok(wei),
        _ => Err(error()),
    }
}

/// Formats an amount for a person: in coins without trailing zeros, or in wei if it is below 1 gwei.
pub fn show_amount(wei: U256) -> String {
    let coins = format_units(wei, "ether").unwrap_or_else(|_| wei.to_string());
    let coins = match coins.contains('.') {
        true => coins.trim_end_matches('0').trim_end_matches('.'),
        false => &coins,
    };
    match wei < U256::from(1_000_000_000_u64) && !wei.is_zero() {
        true => format!("{wei} wei"),
        false if coins == "1" => "1 coin".to_owned(),
        false => format!("{coins} coins"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_are_read_in_their_unit() {
        for (text, wei) in [
            ("0", "0"),
            ("21000", "21000"),
            ("5 wei", "5"),
            ("1.5 gwei", "1500000000"),
            (" 1  ether", "1000000000000000000"),
            ("0.000000000000000001 ether", "1"),
        ] {
            assert_eq!(parse_amount(text).map(|wei| wei.to_string()), Ok(wei.to_owned()), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let above = format!("{}0", U256::MAX);
        for text in
            ["", "-1", "1.", ".5 ether", "1.5", "1 coin", "1e18", "0x1", "1 2 ether", "1.2.3 ether", "+1", &above]
        {
            assert!(parse_amount(text).is_err(), "{text}");
        }
        assert!(parse_amount("0.0000000000000000001 ether").is_err(), "finer than a wei");
    }

    #[test]
    fn amounts_are_shown_in_coins_and_small_ones_in_wei() {
        for (wei, shown) in [
            (0_u128, "0 coins"),
            (1, "1 wei"),
            (1_000_000_000, "0.000000001 coins"),
            (1_000_000_000_000_000_000, "1 coin"),
            (1_500_000_000_000_000_000, "1.5 coins"),
            (20_000_000_000_000_000_000, "20 coins"),
        ] {
            assert_eq!(show_amount(U256::from(wei)), shown);
        }
    }

    proptest! {
        #[test]
        fn wei_are_read_as_they_are_written(limbs: [u64; 4]) {
            let wei = U256::from_limbs(limbs);
            prop_assert_eq!(parse_amount(&wei.to_string()), Ok(wei));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9. a-z+-]{0,40}") {
            let _ = parse_amount(&text);
        }
    }
}
