//! Limits of Model One on the fields of a message. A message that exceeds them can't be decoded.

use prost::encoding::{WireType, decode_key, decode_varint};
use tenon_proto::{LimitKind, registry};

/// Checks a body against the limits of its message type. The error is the failure text of the firmware's decoder.
pub(crate) fn check(id: u16, body: &[u8]) -> Result<(), &'static str> {
    let Some(entry) = registry::known(id) else { return Ok(()) };
    let mut items = vec![0u32; entry.limits.len()];
    let mut rest = body;
    while !rest.is_empty() {
        let (field, wire_type) = decode_key(&mut rest).map_err(|_| "end-of-stream")?;
        let value = take_value(&mut rest, wire_type)?;
        for (limit, items) in entry.limits.iter().zip(&mut items).filter(|(limit, _)| limit.field == field) {
            let length = value.len() as u32;
            match limit.kind {
                LimitKind::Items if wire_type == WireType::LengthDelimited => *items += packed_items(value)?,
                LimitKind::Items => *items += 1,
                LimitKind::Bytes if length > limit.max => return Err("bytes overflow"),
                LimitKind::Text if length > limit.max => return Err("string overflow"),
                LimitKind::Bytes | LimitKind::Text => {}
            }
            if *items > limit.max {
                return Err("array overflow");
            }
        }
    }
    Ok(())
}

/// Takes the value of a field from the front.
fn take_value<'body>(rest: &mut &'body [u8], wire_type: WireType) -> Result<&'body [u8], &'static str> {
    let length = match wire_type {
        WireType::Varint => {
            let before = rest.len();
            let mut after = *rest;
            decode_varint(&mut after).map_err(|_| "end-of-stream")?;
            before - after.len()
        }
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
        WireType::LengthDelimited => {
            usize::try_from(decode_varint(rest).map_err(|_| "end-of-stream")?).map_err(|_| "end-of-stream")?
        }
        WireType::StartGroup | WireType::EndGroup => return Err("invalid wire_type"),
    };
    let (value, after) = rest.split_at_checked(length).ok_or("end-of-stream")?;
    *rest = after;
    Ok(value)
}

fn packed_items(mut value: &[u8]) -> Result<u32, &'static str> {
    let mut count = 0;
    while !value.is_empty() {
        decode_varint(&mut value).map_err(|_| "end-of-stream")?;
        count += 1;
    }
    Ok(count)
}
