//! The canonical layout of call arguments: where each part of their encoding must lie.
//!
//! A decoder follows any offset, so a few kilobytes in which many offsets point to the same place can decode to
//! gigabytes. This module compares the offsets with those that an encoder would write, in one pass over the data,
//! before anything is decoded.

use alloy_dyn_abi::DynSolType;

/// Length of a word, bytes.
const WORD: usize = 32;

/// Whether the arguments of these types are laid out exactly as an encoder would, to the last byte. Values are not
/// checked.
pub(crate) fn is_canonical(types: &[DynSolType], data: &[u8]) -> bool {
    walk(types.iter(), data, 0) == Some(data.len())
}

/// Whether a type contains a part that is encoded as zero bytes. A short encoding could hold a list of any number of
/// such items.
pub(crate) fn has_empty_part(kind: &DynSolType) -> bool {
    match kind {
        DynSolType::Array(item) => has_empty_part(item),
        DynSolType::FixedArray(item, count) => *count == 0 || has_empty_part(item),
        DynSolType::Tuple(members) => members.is_empty() || members.iter().any(has_empty_part),
        _ => false,
    }
}

/// Length in bytes of a type whose values all have the same length. `None` for dynamic types and on overflow.
fn static_length(kind: &DynSolType) -> Option<usize> {
    match kind {
        DynSolType::Bytes | DynSolType::String | DynSolType::Array(_) => None,
        DynSolType::FixedArray(item, count) => static_length(item)?.checked_mul(*count),
        DynSolType::Tuple(members) => {
            members.iter().try_fold(0_usize, |sum, member| sum.checked_add(static_length(member)?))
        }
        _ => Some(WORD),
    }
}

fn is_dynamic(kind: &DynSolType) -> bool {
    match kind {
        DynSolType::Bytes | DynSolType::String | DynSolType::Array(_) => true,
        DynSolType::FixedArray(item, _) => is_dynamic(item),
        DynSolType::Tuple(members) => members.iter().any(is_dynamic),
        _ => false,
    }
}

/// Length of a type's head among its neighbours: the value itself, or the offset of a dynamic value.
fn head_length(kind: &DynSolType) -> Option<usize> {
    if is_dynamic(kind) { Some(WORD) } else { static_length(kind) }
}

/// Walks over neighbouring values that begin at `start`; returns where the last one ends.
fn walk<'t>(kinds: impl Iterator<Item = &'t DynSolType> + Clone, data: &[u8], start: usize) -> Option<usize> {
    let mut heads = start;
    for kind in kinds.clone() {
        heads = within(data, heads.checked_add(head_length(kind)?)?)?;
    }
    let (mut head, mut end) = (start, heads);
    for kind in kinds {
        if is_dynamic(kind) {
            if number(data, head)? != end - start {
                return None;
            }
            end = walk_value(kind, data, end)?;
        }
        head += head_length(kind)?;
    }
    Some(end)
}

/// Walks over a value of a dynamic type that begins at `start`; returns where it ends.
fn walk_value(kind: &DynSolType, data: &[u8], start: usize) -> Option<usize> {
    match kind {
        DynSolType::Bytes | DynSolType::String => {
            let length = number(data, start)?.checked_next_multiple_of(WORD)?;
            within(data, start.checked_add(WORD)?.checked_add(length)?)
        }
        DynSolType::Array(item) => {
            let count = number(data, start)?;
            walk_items(item, count, data, start.checked_add(WORD)?)
        }
        DynSolType::FixedArray(item, count) => walk_items(item, *count, data, start),
        DynSolType::Tuple(members) => walk(members.iter(), data, start),
        _ => None,
    }
}

fn walk_items(item: &DynSolType, count: usize, data: &[u8], start: usize) -> Option<usize> {
    let heads = head_length(item)?.checked_mul(count)?;
    let end = within(data, start.checked_add(heads)?)?;
    if is_dynamic(item) { walk(std::iter::repeat_n(item, count), data, start) } else { Some(end) }
}

fn within(data: &[u8], end: usize) -> Option<usize> {
    (end <= data.len()).then_some(end)
}

/// Reads the word at `at` as a length or an offset.
fn number(data: &[u8], at: usize) -> Option<usize> {
    let word = data.get(at..at.checked_add(WORD)?)?;
    let (high, low) = word.split_last_chunk::<8>()?;
    if high.iter().any(|byte| *byte != 0) {
        return None;
    }
    usize::try_from(u64::from_be_bytes(*low)).ok()
}

#[cfg(test)]
mod tests {
    use alloy_dyn_abi::DynSolValue;
    use proptest::prelude::*;

    use super::*;

    fn types(list: &[&str]) -> Vec<DynSolType> {
        list.iter().map(|kind| kind.parse().unwrap()).collect()
    }

    fn kind() -> impl Strategy<Value = DynSolType> {
        let leaf = prop_oneof![
            Just(DynSolType::Bool),
            Just(DynSolType::Uint(256)),
            Just(DynSolType::Bytes),
            Just(DynSolType::String),
            Just(DynSolType::FixedBytes(4)),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|item| DynSolType::Array(Box::new(item))),
                (inner.clone(), 1_usize..3).prop_map(|(item, count)| DynSolType::FixedArray(Box::new(item), count)),
                prop::collection::vec(inner, 1..3).prop_map(DynSolType::Tuple),
            ]
        })
    }

    /// A value of the type; `seed` determines the lengths.
    fn value(kind: &DynSolType, seed: u64) -> DynSolValue {
        let next = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let count = (next >> 60) as usize % 4;
        match kind {
            DynSolType::Bool => DynSolValue::Bool(next & 1 == 0),
            DynSolType::Bytes => DynSolValue::Bytes(vec![7; count * 20]),
            DynSolType::String => DynSolValue::String("s".repeat(count * 20)),
            DynSolType::FixedBytes(length) => DynSolValue::FixedBytes(Default::default(), *length),
            DynSolType::Array(item) => DynSolValue::Array((0..count as u64).map(|at| value(item, next ^ at)).collect()),
            DynSolType::FixedArray(item, count) => {
                DynSolValue::FixedArray((0..*count as u64).map(|at| value(item, next ^ at)).collect())
            }
            DynSolType::Tuple(members) => {
                DynSolValue::Tuple(members.iter().zip(0..).map(|(member, at)| value(member, next ^ at)).collect())
            }
            _ => DynSolValue::Uint(Default::default(), 256),
        }
    }

    proptest! {
        #[test]
        fn what_an_encoder_writes_is_canonical_and_nothing_longer(kinds in prop::collection::vec(kind(), 1..4), seed: u64) {
            let values = kinds.iter().zip(0..).map(|(kind, at)| value(kind, seed ^ at)).collect();
            let mut data = DynSolValue::Tuple(values).abi_encode_params();

            prop_assert!(is_canonical(&kinds, &data));
            data.extend([0; 32]);
            prop_assert!(!is_canonical(&kinds, &data));
        }

        #[test]
        fn any_bytes_are_walked_over(kinds in prop::collection::vec(kind(), 1..4), data in prop::collection::vec(any::<u8>(), 0..400)) {
            is_canonical(&kinds, &data);
        }
    }

    #[test]
    fn many_offsets_to_one_place_are_not_canonical() {
        let word = |number: usize| DynSolValue::Uint(alloy_primitives::U256::from(number), 256).abi_encode();
        let offsets = 2_000;
        let mut data = [word(32), word(offsets)].concat();
        for _ in 0..offsets {
            data.extend(word(32 * offsets));
        }
        data.extend([word(60_000), vec![1; 60_000]].concat());

        assert!(!is_canonical(&types(&["bytes[]"]), &data));
        assert!(!is_canonical(&types(&["uint256[][][][]"]), &vec![0x20; 6_400]));
        assert!(!is_canonical(&types(&["uint256[4000000000]"]), &[0; 64]));
        assert!(!is_canonical(&types(&["bytes[]"]), &[[0; 31].as_slice(), &[32], &[0xff; 32]].concat()));
    }

    #[test]
    fn types_without_bytes_are_seen() {
        let none = DynSolType::FixedArray(Box::new(DynSolType::Uint(256)), 0);
        assert!(has_empty_part(&DynSolType::Array(Box::new(none))) && has_empty_part(&DynSolType::Tuple(Vec::new())));
        assert!(!has_empty_part(&types(&["(uint256,bytes)[2][]"])[0]));
    }
}
