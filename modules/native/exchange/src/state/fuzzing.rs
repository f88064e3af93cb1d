//! The decoders of the exchange's records, for [`fuzzing`](crate::fuzzing).

use alloy_rlp::Encodable as _;

use super::{Record, decode_level, list_of, number, put_number};

/// The record of an order book, a price level or an amount, decoded from these bytes and encoded again.
pub(crate) fn again(kind: u8, mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match kind % 3 {
        0 => return Some(Record::decode(bytes)?.encode()),
        1 => {
            let (volume, root) = decode_level(bytes)?;
            put_number(volume, &mut out);
            root.encode(&mut out);
            return Some(list_of(&out));
        }
        _ => put_number(number(&mut bytes)?, &mut out),
    }
    Some(out)
}
