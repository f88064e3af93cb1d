//! JSON strings in the reference's form (`docs/spec/rpc-eth.md` 3.1, `docs/spec/rpc-node.md` 1.3).

use std::{borrow::Cow, fmt::Write as _};

/// Appends `text` as a JSON string. `<`, `>` and `&` are escaped, as in all output of the reference.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut copied = 0;
    for (index, byte) in bytes.iter().copied().enumerate() {
        let short = match byte {
            b'"' | b'\\' => Some(byte),
            b'\n' => Some(b'n'),
            b'\r' => Some(b'r'),
            b'\t' => Some(b't'),
            0x08 => Some(b'b'),
            0x0c => Some(b'f'),
            0..=0x1f | b'<' | b'>' | b'&' => None,
            // U+2028 and U+2029 end a line in JavaScript; the reference escapes them too.
            0xe2 if bytes.get(index + 1) == Some(&0x80) && matches!(bytes.get(index + 2), Some(0xa8 | 0xa9)) => {
                out.extend_from_slice(&bytes[copied..index]);
                out.extend_from_slice(b"\\u202");
                out.push(HEX[usize::from(bytes[index + 2] & 0xf)]);
                copied = index + 3;
                continue;
            }
            _ => continue,
        };
        out.extend_from_slice(&bytes[copied..index]);
        match short {
            Some(letter) => out.extend_from_slice(&[b'\\', letter]),
            None => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]]);
            }
        }
        copied = index + 1;
    }
    out.extend_from_slice(&bytes[copied..]);
    out.push(b'"');
}

/// The text of a JSON string whose syntax the scanner has checked; `quoted` includes the quotation marks. An unpaired
/// surrogate becomes U+FFFD.
pub(crate) fn read_string(quoted: &str) -> Cow<'_, str> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Cow::Borrowed(inner);
    }
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        rest = read_escape(&rest[at + 1..], &mut text);
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// Reads the escape after a backslash and returns the text after it.
fn read_escape<'a>(rest: &'a str, text: &mut String) -> &'a str {
    let mut letters = rest.chars();
    match letters.next() {
        Some('u') => return read_unicode_escape(letters.as_str(), text),
        Some('n') => text.push('\n'),
        Some('r') => text.push('\r'),
        Some('t') => text.push('\t'),
        Some('b') => text.push('\u{8}'),
        Some('f') => text.push('\u{c}'),
        Some(other) => text.push(other),
        None => {}
    }
    letters.as_str()
}

fn read_unicode_escape<'a>(rest: &'a str, text: &mut String) -> &'a str {
    let unit = |digits: &str| digits.get(..4).and_then(|four| u16::from_str_radix(four, 16).ok());
    let Some(first) = unit(rest) else { return rest };
    let rest = &rest[4..];
    let second = rest.strip_prefix("\\u").and_then(unit);
    match (char::from_u32(u32::from(first)), second) {
        (Some(character), _) => text.push(character),
        (None, Some(second)) => {
            let mut pair = char::decode_utf16([first, second]);
            if let Some(Ok(character)) = pair.next() {
                text.push(character);
                return &rest[6..];
            }
            text.push(char::REPLACEMENT_CHARACTER);
        }
        (None, None) => text.push(char::REPLACEMENT_CHARACTER),
    }
    rest
}

/// The reference's name of an invalid byte in a syntax error: `'x'`, `'\n'`, `'\x01'`.
pub(crate) fn quote_byte(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => r"'\\'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        0x07 => r"'\a'".to_owned(),
        0x08 => r"'\b'".to_owned(),
        0x0b => r"'\v'".to_owned(),
        0x0c => r"'\f'".to_owned(),
        0..=0x1f | 0x7f => format!("'\\x{byte:02x}'"),
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        _ => {
            let mut text = String::with_capacity(4);
            // Writing to a string cannot fail.
            let _ = write!(text, "'{}'", char::from(byte));
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        write_string(&mut out, text);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn escapes_what_the_reference_escapes() {
        for (text, expected) in [
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("line\nfeed\r\t", r#""line\nfeed\r\t""#),
            ("<a>&", r#""\u003ca\u003e\u0026""#),
            ("\u{1}\u{1f}", r#""\u0001\u001f""#),
            ("é\u{2028}x\u{2029}", "\"é\\u2028x\\u2029\""),
            ("", "\"\""),
        ] {
            assert_eq!(written(text), expected, "{text:?}");
        }
    }

    #[test]
    fn reads_escapes_and_halves_of_surrogate_pairs() {
        for (quoted, expected) in [
            (r#""eth_\u0063hainId""#, "eth_chainId"),
            (r#""\ud83d\ude00!""#, "😀!"),
            (r#""\ud800x""#, "\u{fffd}x"),
            (r#""\ud800\u0041""#, "\u{fffd}A"),
            (r#""\"\\\/\n""#, "\"\\/\n"),
            (r#""""#, ""),
        ] {
            assert_eq!(read_string(quoted), expected, "{quoted}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_back(text: String) {
            let out = written(&text);

            proptest::prop_assert_eq!(read_string(&out).into_owned(), text.clone());
            proptest::prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
        }
    }
}
