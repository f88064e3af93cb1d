//! A secret key as hexadecimal text.

use tenon_api::KeyTextProblem;
use zeroize::Zeroizing;

use crate::key::Key;

/// Reads 64 digits, with or without `0x`.
///
/// # Errors
/// [`KeyTextProblem`], which contains nothing of the text.
pub fn parse_key_text(text: &str) -> Result<Zeroizing<[u8; 32]>, KeyTextProblem> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if !digits.chars().all(|letter| letter.is_ascii_hexdigit()) {
        return Err(KeyTextProblem::Letter);
    }
    if !digits.len().is_multiple_of(2) {
        return Err(KeyTextProblem::OddLength);
    }
    let mut secret = Zeroizing::new([0; 32]);
    alloy_primitives::hex::decode_to_slice(digits, secret.as_mut_slice()).map_err(|_| KeyTextProblem::Length)?;
    if secret.iter().all(|byte| *byte == 0) {
        return Err(KeyTextProblem::Zero);
    }
    match Key::from_secret(secret.clone()) {
        Some(_) => Ok(secret),
        None => Err(KeyTextProblem::TooLarge),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_keys_are_refused_without_showing_a_character_of_them() {
        let (zero, order) = ("0".repeat(64), "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");
        let cases = [
            ("xyz", KeyTextProblem::Letter),
            ("0", KeyTextProblem::OddLength),
            ("", KeyTextProblem::Length),
            ("07", KeyTextProblem::Length),
            (zero.as_str(), KeyTextProblem::Zero),
            (order, KeyTextProblem::TooLarge),
        ];
        for (text, wanted) in cases {
            assert_eq!(parse_key_text(text).unwrap_err(), wanted, "{text}");
        }
    }

    #[test]
    fn a_key_is_read_with_and_without_prefix() {
        let digits = "07".repeat(32);

        assert_eq!(*parse_key_text(&digits).unwrap(), [7; 32]);
        assert_eq!(*parse_key_text(&format!("0x{digits}")).unwrap(), [7; 32]);
    }
}
