//! RLP: the parts of `alloy-rlp` that plugins use. The node decodes chain data; plugins need only the hashes of uncles
//! (a block contains their headers, not their hashes), the signatures of transactions, and the stored form of slots.
//!
//! Only canonical bytes are read. The node makes all bytes that plugins read here.

pub use alloy_rlp::{Decodable, Encodable, Header, encode};

use alloy_rlp::PayloadView;

/// The encoded items of the list that is the whole of `bytes`; `None` if they are not canonical.
pub fn list_items(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    match Header::decode_raw(&mut bytes) {
        Ok(PayloadView::List(items)) if bytes.is_empty() => Some(items),
        _ => None,
    }
}

/// Appends a list whose items are already encoded.
pub fn write_list(out: &mut Vec<u8>, payload: &[u8]) {
    Header { list: true, payload_length: payload.len() }.encode(out);
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;

    use super::*;

    #[test]
    fn a_list_is_cut_into_its_items() {
        let bytes = [0xc8, 0x05, 0x82, 0x01, 0x02, 0xc1, 0x80, 0x81, 0x90];

        let items = list_items(&bytes).expect("a list");

        let expected: [&[u8]; 4] = [&[5], &[0x82, 1, 2], &[0xc1, 0x80], &[0x81, 0x90]];
        assert_eq!(items, expected);
    }

    #[test]
    fn malformed_bytes_give_nothing() {
        let cases: [&[u8]; 8] = [
            &[],
            &[0x82, 1],
            &[0xc2, 0x01],
            &[0xb8],
            &[0xf8],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            &[0xc1, 1, 2],
            &[1],
        ];

        for bytes in cases {
            assert_eq!(list_items(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_canonical_give_nothing() {
        let with_length = |header: &[u8], length: usize| [header, &vec![0x80; length]].concat();
        let cases = [
            // A single byte with a prefix, in a list.
            vec![0xc2, 0x81, 0x01],
            // A short list with a long header.
            with_length(&[0xf8, 55], 55),
            // A length with a leading zero.
            with_length(&[0xf9, 0, 56], 56),
        ];

        for bytes in cases {
            assert_eq!(list_items(&bytes), None, "{bytes:?}");
        }
        assert_eq!(list_items(&with_length(&[0xf8, 56], 56)).map(|items| items.len()), Some(56));
        assert!(U256::decode(&mut &[0x82, 0, 1][..]).is_err());
    }

    #[test]
    fn written_items_are_read_back() {
        for length in [0, 1, 55, 56, 300, 70_000] {
            let (mut payload, mut list) = (Vec::new(), Vec::new());
            vec![0x80_u8; length].as_slice().encode(&mut payload);
            U256::from(length).encode(&mut payload);
            write_list(&mut list, &payload);

            let items = list_items(&list).expect("a list");

            let [mut text, mut number] = items[..] else { panic!("{} items", items.len()) };
            assert_eq!(Header::decode_bytes(&mut text, false).map(<[u8]>::len), Ok(length));
            assert_eq!(U256::decode(&mut number), Ok(U256::from(length)));
        }
    }

    #[test]
    fn list_lengths_count_their_header() {
        for (payload_length, expected) in [(0, 1), (55, 56), (56, 58), (255, 257), (256, 259), (65_536, 65_540)] {
            assert_eq!(Header { list: true, payload_length }.length_with_payload(), expected);
        }
    }
}
