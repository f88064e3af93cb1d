//! Reading trie nodes apart, independently of the code that writes them.

use alloy_primitives::{B256, U256};

/// A child of a node.
pub(super) enum Child<'a> {
    /// Stored under its hash.
    Hash(B256),
    /// Shorter than 32 bytes, and therefore inside its parent.
    Embedded(&'a [u8]),
}

/// A trie node.
pub(super) enum Node<'a> {
    /// Up to sixteen children by nibble.
    Branch(Vec<(u8, Child<'a>)>),
    /// Some nibbles, then a child.
    Extension(Vec<u8>, Child<'a>),
    /// Some nibbles, then a value.
    Leaf(Vec<u8>, &'a [u8]),
}

/// An item of an RLP list.
struct Item<'a> {
    raw: &'a [u8],
    payload: &'a [u8],
    is_list: bool,
}

fn items(rlp: &[u8]) -> Option<Vec<Item<'_>>> {
    let mut rest = rlp;
    let list = alloy_rlp::Header::decode(&mut rest).ok()?;
    if !list.list || rest.len() != list.payload_length {
        return None;
    }
    let mut items = Vec::with_capacity(17);
    while !rest.is_empty() {
        let mut inner = rest;
        let header = alloy_rlp::Header::decode(&mut inner).ok()?;
        let (payload, after) = inner.split_at_checked(header.payload_length)?;
        let raw = rest.get(..rest.len() - after.len())?;
        items.push(Item { raw, payload, is_list: header.list });
        rest = after;
    }
    Some(items)
}

fn child<'a>(item: &Item<'a>) -> Option<Option<Child<'a>>> {
    match (item.is_list, item.payload.len()) {
        (true, _) => Some(Some(Child::Embedded(item.raw))),
        (false, 0) => Some(None),
        (false, 32) => Some(Some(Child::Hash(B256::from_slice(item.payload)))),
        (false, _) => None,
    }
}

/// Takes a node apart; none when it is not one.
pub(super) fn parse(rlp: &[u8]) -> Option<Node<'_>> {
    let items = items(rlp)?;
    match items.as_slice() {
        [path, value] => {
            let (is_leaf, path) = nibbles(path.payload)?;
            if is_leaf { Some(Node::Leaf(path, value.payload)) } else { Some(Node::Extension(path, child(value)??)) }
        }
        branch if branch.len() == 17 => {
            let mut children = Vec::new();
            for (nibble, item) in (0_u8..16).zip(branch) {
                children.extend(child(item)?.map(|child| (nibble, child)));
            }
            Some(Node::Branch(children))
        }
        _ => None,
    }
}

/// Undoes the hex-prefix encoding: whether it is a leaf's, and the nibbles.
fn nibbles(encoded: &[u8]) -> Option<(bool, Vec<u8>)> {
    let (first, rest) = encoded.split_first()?;
    let mut nibbles = Vec::with_capacity(2 * encoded.len());
    if first & 0x10 != 0 {
        nibbles.push(first & 0x0f);
    }
    nibbles.extend(rest.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]));
    Some((first & 0x20 != 0, nibbles))
}

/// The storage root and code hash of an account's leaf.
pub(super) fn account_leaf(value: &[u8]) -> Option<(B256, B256)> {
    let items = items(value)?;
    let [nonce, balance, root, code] = items.as_slice() else { return None };
    let is_number = nonce.payload.len() <= 8 && U256::try_from_be_slice(balance.payload).is_some();
    is_number.then_some(())?;
    Some((B256::try_from(root.payload).ok()?, B256::try_from(code.payload).ok()?))
}
