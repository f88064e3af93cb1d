//! Just enough RLP to split lists into items. The node decodes chain data; plugins need only the hashes of uncles (a
//! block contains their headers, not their hashes) and the signatures of transactions in canonical form.

use alloy_primitives::U256;

/// An item of a list.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Header and payload.
    pub encoded: &'a [u8],
    /// Payload only.
    pub payload: &'a [u8],
    /// Whether it is a list.
    pub is_list: bool,
}

impl<'a> Item<'a> {
    /// Splits the first item off `bytes`; `None` if they are malformed.
    pub fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let first = *bytes.first()?;
        let (header, length, is_list) = match first {
            0..=0x7f => (0, 1, false),
            0x80..=0xb7 => (1, usize::from(first - 0x80), false),
            0xb8..=0xbf => long_length(bytes, first - 0xb7)?.with(false),
            0xc0..=0xf7 => (1, usize::from(first - 0xc0), true),
            0xf8..=0xff => long_length(bytes, first - 0xf7)?.with(true),
        };
        let end = header.checked_add(length)?;
        let encoded = bytes.get(..end)?;
        Some((Self { encoded, payload: &encoded[header..], is_list }, &bytes[end..]))
    }

    /// The only item of `bytes`.
    pub fn whole(bytes: &'a [u8]) -> Option<Self> {
        let (item, rest) = Self::split(bytes)?;
        rest.is_empty().then_some(item)
    }

    /// The items of this list.
    pub fn items(&self) -> Option<Vec<Self>> {
        let mut rest = self.payload;
        let mut items = Vec::new();
        while !rest.is_empty() {
            let (item, after) = Self::split(rest)?;
            items.push(item);
            rest = after;
        }
        self.is_list.then_some(items)
    }

    /// The payload as a number; `None` if it is longer than 32 bytes.
    pub fn number(&self) -> Option<U256> {
        U256::try_from_be_slice(self.payload)
    }
}

struct LongLength {
    header: usize,
    length: usize,
}

impl LongLength {
    const fn with(self, is_list: bool) -> (usize, usize, bool) {
        (self.header, self.length, is_list)
    }
}

fn long_length(bytes: &[u8], count: u8) -> Option<LongLength> {
    let header = 1 + usize::from(count);
    let digits = bytes.get(1..header)?;
    let length =
        digits.iter().try_fold(0_usize, |length, digit| length.checked_mul(256)?.checked_add(usize::from(*digit)))?;
    Some(LongLength { header, length })
}

/// Appends a string.
pub fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    if !matches!(bytes, [0..=0x7f]) {
        write_header(out, 0x80, bytes.len());
    }
    out.extend_from_slice(bytes);
}

/// Appends a number: its bytes without leading zeroes.
pub fn write_number(out: &mut Vec<u8>, number: U256) {
    write_bytes(out, &number.to_be_bytes_trimmed_vec());
}

/// Appends a list with this payload.
pub fn write_list(out: &mut Vec<u8>, payload: &[u8]) {
    write_header(out, 0xc0, payload.len());
    out.extend_from_slice(payload);
}

fn write_header(out: &mut Vec<u8>, kind: u8, length: usize) {
    if let Ok(short @ 0..=55) = u8::try_from(length) {
        out.push(kind + short);
        return;
    }
    let bytes = length.to_be_bytes();
    let digits = &bytes[(length.leading_zeros() / 8) as usize..];
    out.push(kind + 55 + digits.len() as u8);
    out.extend_from_slice(digits);
}

/// Length of the RLP of a list with this payload length.
pub const fn list_length(payload: usize) -> usize {
    if payload < 56 {
        return payload + 1;
    }
    payload + 1 + (usize::BITS as usize / 8 - payload.leading_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_cut_into_its_items() {
        let bytes = [0xc8, 0x05, 0x82, 0x01, 0x02, 0xc1, 0x80, 0x81, 0x90];

        let items = Item::whole(&bytes).and_then(|list| list.items()).unwrap_or_default();

        let seen: Vec<(&[u8], bool)> = items.iter().map(|item| (item.payload, item.is_list)).collect();
        let expected: [(&[u8], bool); 4] = [(&[5], false), (&[1, 2], false), (&[0x80], true), (&[0x90], false)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn malformed_bytes_give_nothing() {
        let cases: [&[u8]; 6] = [
            &[],
            &[0x82, 1],
            &[0xc2, 0x01],
            &[0xb8],
            &[0xbf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            &[1, 2],
        ];

        for bytes in cases {
            assert!(Item::whole(bytes).is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn written_items_are_read_back() {
        for length in [0, 1, 55, 56, 300, 70_000] {
            let (bytes, mut text, mut list) = (vec![0x80; length], Vec::new(), Vec::new());
            write_bytes(&mut text, &bytes);
            write_number(&mut text, U256::from(length));
            write_list(&mut list, &text);

            let items = Item::whole(&list).and_then(|list| list.items()).unwrap_or_default();

            let seen: Vec<_> = items.iter().map(|item| (item.payload.len(), item.number())).collect();
            assert_eq!(seen.first().map(|(length, _)| *length), Some(length));
            assert_eq!(seen.get(1).and_then(|(_, number)| *number), Some(U256::from(length)));
        }
    }

    #[test]
    fn list_lengths_count_their_header() {
        for (payload, expected) in [(0, 1), (55, 56), (56, 58), (255, 257), (256, 259), (65_536, 65_540)] {
            assert_eq!(list_length(payload), expected);
        }
    }
}
