//! Paths of nibbles, one per byte, and their packed "hex prefix" form inside nodes.

/// The nibbles of these bytes, high half first.
pub(super) fn unpack(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]).collect()
}

/// Length of the common prefix of two paths.
pub(super) fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

/// The hex prefix form: a flag nibble (2 for a leaf, plus 1 for an odd number), then the path.
pub fn to_hex_prefix(path: &[u8], leaf: bool) -> Vec<u8> {
    let flag = if leaf { 0x20 } else { 0x00 };
    let mut packed = Vec::with_capacity(path.len() / 2 + 1);
    let even = if let (true, Some((first, rest))) = (path.len() % 2 == 1, path.split_first()) {
        packed.push(flag | 0x10 | first);
        rest
    } else {
        packed.push(flag);
        path
    };
    packed.extend(even.chunks_exact(2).map(|pair| (pair[0] << 4) | pair[1]));
    packed
}

/// The path and whether it is a leaf's; `None` unless the input has the form made by [`to_hex_prefix`].
pub fn from_hex_prefix(packed: &[u8]) -> Option<(Vec<u8>, bool)> {
    let (first, rest) = packed.split_first()?;
    let leaf = match first >> 4 {
        0 | 1 => false,
        2 | 3 => true,
        _ => return None,
    };
    let mut path = Vec::with_capacity(packed.len() * 2);
    if first & 0x10 != 0 {
        path.push(first & 0x0f);
    } else if first & 0x0f != 0 {
        return None;
    }
    path.extend(rest.iter().flat_map(|byte| [byte >> 4, byte & 0x0f]));
    Some((path, leaf))
}
