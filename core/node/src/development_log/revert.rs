//! The reason of a revert, from the call's output.

use alloy_primitives::U256;

use super::abi::{bytes, selector, shown_bytes, shown_hex, word};

/// The reason in words; `None` if the output is empty.
pub(super) fn reason(output: &[u8]) -> Option<String> {
    let Some((called, arguments)) = output.split_first_chunk::<4>() else {
        return (!output.is_empty()).then(|| format!("data {}", shown_hex(output)));
    };
    if *called == selector("Error(string)")
        && let Some(text) = bytes(arguments, 0)
    {
        return Some(shown_bytes(text));
    }
    if *called == selector("Panic(uint256)")
        && let Some(code) = word(arguments, 0)
    {
        let code = U256::from_be_slice(code);
        return Some(format!("panic 0x{code:02x}: {}", meaning(code)));
    }
    Some(format!("custom error {}", shown_hex(output)))
}

/// The meaning of a Solidity panic code.
fn meaning(code: U256) -> &'static str {
    match u64::try_from(code).unwrap_or(u64::MAX) {
        0x01 => "assertion failed",
        0x11 => "arithmetic overflow or underflow",
        0x12 => "division by zero",
        0x21 => "no such value of the enumeration",
        0x22 => "storage byte array encoded wrongly",
        0x31 => "pop of an empty array",
        0x32 => "index out of bounds",
        0x41 => "too much memory",
        0x51 => "call of an uninitialised function",
        _ => "unknown code",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_texts_panics_and_custom_errors() {
        let word = |number: u64| U256::from(number).to_be_bytes::<32>().to_vec();
        let text = [selector("Error(string)").to_vec(), word(32), word(3), b"n\x1bo".to_vec()].concat();
        let panic = [selector("Panic(uint256)").to_vec(), word(0x11)].concat();
        let torn = [selector("Error(string)").to_vec(), word(u64::MAX)].concat();

        assert_eq!(reason(&[]), None);
        assert_eq!(reason(&text).as_deref(), Some("no"));
        assert_eq!(reason(&panic).as_deref(), Some("panic 0x11: arithmetic overflow or underflow"));
        assert!(reason(&torn).unwrap().starts_with("custom error 0x08c379a0"));
        assert_eq!(reason(&[1, 2]).as_deref(), Some("data 0x0102"));
    }
}
