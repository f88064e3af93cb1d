//! The reference's error texts for replayed blocks and transactions. Its hashes have no prefix.

use std::fmt::Display;

use tenon_api::BlockId;
use tenon_traces::{ReplayTexts, unknown_block_text};

/// The texts of the reference.
pub(super) const TEXTS: ReplayTexts = ReplayTexts {
    unknown_transaction: |hash| format!("transaction {hash:x} not found"),
    unknown_block_of_transaction: |hash| format!("block {hash:x} not found"),
    unknown_block: |id| match id {
        BlockId::Hash { hash, .. } => format!("block #{hash:x} not found"),
        id => unknown_block_text(id),
    },
    unknown_parent: |hash| format!("parent {hash:x} not found"),
    index_out_of_range: |index, block| format!("tx index {index} out of range for block {block:x}"),
    transaction_name: |hash| format!("tx {hash:x}"),
    undecodable: decoder_error_text,
};

/// The error of Go's decoder for bytes that are not a block, if it depends on their beginning; otherwise ours.
fn decoder_error_text(bytes: &[u8], error: &dyn Display) -> String {
    let Some((first, rest)) = bytes.split_first() else { return "EOF".to_owned() };
    let long = |base: u8| {
        let digits = rest.get(..usize::from(first - base))?;
        let start = digits.iter().position(|digit| *digit != 0).unwrap_or(digits.len());
        let significant = digits.get(start..).filter(|digits| digits.len() <= 8)?;
        let length = significant.iter().fold(0_u64, |length, digit| length << 8 | u64::from(*digit));
        length.checked_add(digits.len() as u64)
    };
    let needed = match first {
        0x00..=0x7f => Some(0),
        0x80..=0xb7 => Some(u64::from(first - 0x80)),
        0xb8..=0xbf => long(0xb7),
        0xc0..=0xf7 => Some(u64::from(first - 0xc0)),
        0xf8..=0xff => long(0xf7),
    };
    match needed {
        Some(needed) if needed > rest.len() as u64 => "rlp: value size exceeds available input length".to_owned(),
        Some(_) if *first < 0xc0 => "rlp: expected input list for types.extblock".to_owned(),
        Some(_) if *first == 0xc0 => "rlp: too few elements for types.extblock".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undecodable_blocks_have_gos_error_texts() {
        let cases: [(&[u8], &str); 8] = [
            (&[], "EOF"),
            (&[0x7f, 0x9d], "rlp: expected input list for types.extblock"),
            (&[0x81, 0x9d], "rlp: expected input list for types.extblock"),
            (&[0x83, 0x9d], "rlp: value size exceeds available input length"),
            (&[0xd3, 0x17, 0x34], "rlp: value size exceeds available input length"),
            (&[0xf9, 0x01, 0x00], "rlp: value size exceeds available input length"),
            (&[0xc0], "rlp: too few elements for types.extblock"),
            (&[0xc1, 0x80], "ours"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(decoder_error_text(bytes, &"ours"), expected, "{bytes:02x?}");
        }
    }
}
