//! Base64 of the standard alphabet, padded, as in Go's JSON. Implemented here, because errors give the position that
//! Go's decoder gives, which libraries count differently.

/// Decodes a text; line breaks are ignored. The error is the position that Go's decoder gives.
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
    use base64::{Engine, engine::general_purpose::STANDARD};

    use super::*;

    #[test]
    fn the_text_of_another_encoder_is_decoded() {
        for length in 0..70_u8 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(37)).collect();
            assert_eq!(decode_base64(STANDARD.encode(&bytes).as_bytes()), Ok(bytes));
        }
    }
}
