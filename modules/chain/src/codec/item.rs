//! Untyped RLP: strings and lists, with limited nesting.

use super::error::{DecodeError, DecodeProblem};
use super::rlp::{Reader, write_bytes, write_list};

/// Maximum nesting of lists. The sender chooses the depth, and the decoder recurses.
const MAX_DEPTH: usize = 1024;

/// One RLP item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RlpItem {
    /// A byte string.
    String(Vec<u8>),
    /// A list of items.
    List(Vec<RlpItem>),
}

/// Decodes exactly one item in its canonical form, at all levels.
///
/// # Errors
/// [`DecodeError`] for any other form, for bytes after the item, and for lists nested more than 1,024 deep.
pub fn decode_item(input: &[u8]) -> Result<RlpItem, DecodeError> {
    let mut reader = Reader::new(input);
    let item = read_item(&mut reader, 0)?;
    reader.finish("item")?;
    Ok(item)
}

fn read_item(reader: &mut Reader<'_>, depth: usize) -> Result<RlpItem, DecodeError> {
    if reader.next_is_list() != Some(true) {
        return Ok(RlpItem::String(reader.bytes("item")?.to_vec()));
    }
    if depth == MAX_DEPTH {
        return Err(reader.error("item", DecodeProblem::InvalidValue));
    }
    let mut list = reader.list("item")?;
    let mut items = Vec::new();
    while !list.is_empty() {
        items.push(read_item(&mut list, depth + 1)?);
    }
    Ok(RlpItem::List(items))
}

/// The item's RLP.
pub fn encode_item(item: &RlpItem) -> Vec<u8> {
    let mut out = Vec::new();
    write_item(item, &mut out);
    out
}

fn write_item(item: &RlpItem, out: &mut Vec<u8>) {
    match item {
        RlpItem::String(bytes) => write_bytes(out, bytes),
        RlpItem::List(items) => write_list(out, |out| items.iter().for_each(|item| write_item(item, out))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_beyond_the_limit_are_refused_without_exhausting_the_stack() {
        let nested = |depth: usize| {
            (1..depth).fold(vec![0xc0], |inner, _| {
                let mut out = Vec::new();
                write_list(&mut out, |out| out.extend_from_slice(&inner));
                out
            })
        };

        assert!(decode_item(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(decode_item(&nested(MAX_DEPTH + 1)).unwrap_err().problem, DecodeProblem::InvalidValue);
    }
}
