//! Values of arguments, with errors in the words of the command line: those of the parsers of Rust name neither the form
//! nor the value.

use tenon_api::{Address, B256};

/// A whole number.
///
/// # Errors
/// The expected form.
pub(super) fn whole_number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = text.parse::<u64>().map_err(|_| "expected a whole number".to_owned())?;
    T::try_from(number).map_err(|_| "the number is too large".to_owned())
}

/// A hash, with or without `0x`.
///
/// # Errors
/// The expected form.
pub(super) fn hash(text: &str) -> Result<B256, String> {
    text.parse().map_err(|_| "expected a hash: 64 hexadecimal digits".to_owned())
}

/// An address with `0x`, `xdc` or neither.
///
/// # Errors
/// The expected form.
pub(super) fn address(text: &str) -> Result<Address, String> {
    let digits = text.strip_prefix("xdc").unwrap_or(text);
    digits.parse().map_err(|_| "expected an address: 40 hexadecimal digits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_expected_form() {
        assert_eq!(whole_number::<u16>("65535"), Ok(65_535));
        assert_eq!(whole_number::<u16>("65536"), Err("the number is too large".to_owned()));
        for text in ["", "x", "-1", "1.0", "0x1"] {
            assert_eq!(whole_number::<u64>(text), Err("expected a whole number".to_owned()), "{text}");
        }

        assert_eq!(hash(&"12".repeat(32)), Ok(B256::repeat_byte(0x12)));
        assert_eq!(hash(&format!("0x{}", "12".repeat(32))), Ok(B256::repeat_byte(0x12)));
        for text in ["", "0x12", "5", "latest"] {
            assert_eq!(hash(text), Err("expected a hash: 64 hexadecimal digits".to_owned()), "{text}");
        }
    }
}
