//! The part of the contract ABI that the log needs. The data comes from contracts, so every length is checked, and the
//! shown text is limited.

use alloy_primitives::{U256, keccak256};

/// Maximum number of shown characters of a text.
const MAX_SHOWN: usize = 512;

/// The first four bytes of a signature's hash.
pub(super) fn selector(signature: &str) -> [u8; 4] {
    let [a, b, c, d, ..] = keccak256(signature.as_bytes()).0;
    [a, b, c, d]
}

/// The word at this index of the arguments.
pub(super) fn word(arguments: &[u8], index: usize) -> Option<&[u8; 32]> {
    arguments.get(index.checked_mul(32)?..)?.first_chunk()
}

/// The bytes that the word at this index points to.
pub(super) fn bytes(arguments: &[u8], index: usize) -> Option<&[u8]> {
    let at = usize::try_from(U256::from_be_slice(word(arguments, index)?)).ok()?;
    let rest = arguments.get(at..)?;
    let length = usize::try_from(U256::from_be_slice(rest.first_chunk::<32>()?)).ok()?;
    rest.get(32..)?.get(..length)
}

/// A text as the log shows it: without control characters or characters that change the writing direction, and limited
/// in length.
pub(super) fn shown(text: &str) -> String {
    let is_shown = |character: &char| {
        !character.is_control()
            && !matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut characters = text.chars().filter(is_shown);
    let mut short: String = characters.by_ref().take(MAX_SHOWN).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

/// [`shown`] for bytes that should be text.
pub(super) fn shown_bytes(bytes: &[u8]) -> String {
    // At most four bytes per character; the rest would not be shown.
    shown(&String::from_utf8_lossy(bytes.get(..MAX_SHOWN * 4 + 4).unwrap_or(bytes)))
}

/// Bytes in hexadecimal, limited in length.
pub(super) fn shown_hex(bytes: &[u8]) -> String {
    let dots = if bytes.len() > MAX_SHOWN / 2 { "…" } else { "" };
    alloy_primitives::hex::encode_prefixed(bytes.get(..MAX_SHOWN / 2).unwrap_or(bytes)) + dots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_no_control_characters_and_no_endless_text() {
        assert_eq!(shown("a\u{1b}[2Jb\nc\r\u{202e}d"), "a[2Jbcd");
        assert_eq!(shown(&"x".repeat(600)).chars().count(), MAX_SHOWN + 1);
        assert_eq!(shown_hex(&[7; 1000]).chars().count(), MAX_SHOWN + 3);
        assert_eq!(shown_bytes(&[0xff, b'a']), "\u{fffd}a");
    }

    #[test]
    fn reads_nothing_beyond_the_arguments() {
        let beyond = [0xff_u8; 64];
        assert_eq!((word(&beyond, 2), word(&beyond, usize::MAX), bytes(&beyond, 0)), (None, None, None));
        let mut long = [0_u8; 64];
        long[31] = 32;
        long[63] = 9;
        assert_eq!(bytes(&long, 0), None);
        long[63] = 0;
        assert_eq!(bytes(&long, 0), Some(&[][..]));
    }
}
