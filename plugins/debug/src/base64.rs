//! Base64 of the standard alphabet, padded: how Go writes bytes in JSON.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text of some bytes.
pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=group.len()].copy_from_slice(group);
        let word = u32::from_be_bytes(word);
        for place in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * place) & 0x3f) as usize];
            text.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// The bytes of a text; line breaks do not count. The error is the position that Go's decoder names.
pub(crate) fn decode_base64(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut collected, mut digits) = (0_u32, 0);
    let mut characters = text.iter().enumerate().filter(|(_, character)| !matches!(character, b'\r' | b'\n'));
    while let Some((position, character)) = characters.next() {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' if digits >= 2 => {
                if digits == 2 {
                    match characters.next() {
                        None => return Err(text.len()),
                        Some((_, b'=')) => {}
                        Some((next, _)) => return Err(next - 1),
                    }
                }
                let last = (collected << (6 * (4 - digits))).to_be_bytes();
                bytes.extend_from_slice(&last[1..digits]);
                return characters.next().map_or(Ok(bytes), |(next, _)| Err(next));
            }
            _ => return Err(position),
        };
        collected = collected << 6 | u32::from(value);
        digits += 1;
        if digits == 4 {
            bytes.extend_from_slice(&collected.to_be_bytes()[1..]);
            (collected, digits) = (0, 0);
        }
    }
    if digits == 0 { Ok(bytes) } else { Err(text.len() - digits) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_they_went() {
        for length in 0..70_u8 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(37)).collect();
            assert_eq!(decode_base64(encode_base64(&bytes).as_bytes()), Ok(bytes));
        }
        assert_eq!(encode_base64(b"a"), "YQ==");
    }
}
