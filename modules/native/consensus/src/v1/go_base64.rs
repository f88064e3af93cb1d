//! URL-safe base64 as decoded by Go's standard library, which returns the bytes decoded before an error
//! (`docs/spec/consensus.md` 2.5). Secrets of masternodes are arbitrary bytes, so the behaviour on errors matters too.

const PADDING: u8 = b'=';
/// Characters per group.
const GROUP: usize = 4;

/// Decodes all complete groups before the first error.
pub(super) fn decode_url_safe(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len() / GROUP * 3);
    let mut rest = text.iter().copied().filter(|byte| !matches!(byte, b'\n' | b'\r')).peekable();
    loop {
        let mut group = [0; GROUP];
        let mut digits = 0;
        while digits < GROUP {
            let Some(character) = rest.next() else { return decoded };
            if character == PADDING {
                // "x===" and "====" are errors, and so is "xx=" without a second "="; the rest is ignored.
                if digits == 3 || (digits == 2 && rest.next() == Some(PADDING)) {
                    decoded.extend_from_slice(&joined(group)[..digits - 1]);
                }
                return decoded;
            }
            let Some(digit) = value_of(character) else { return decoded };
            group[digits] = digit;
            digits += 1;
        }
        decoded.extend_from_slice(&joined(group));
    }
}

const fn joined([first, second, third, fourth]: [u8; GROUP]) -> [u8; 3] {
    [first << 2 | second >> 4, second << 4 | third >> 2, third << 6 | fourth]
}

const fn value_of(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'-' => Some(62),
        b'_' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_bytes_decoded_before_an_error() {
        let cases: [(&str, &[u8]); 16] = [
            ("", b""),
            ("QUJD", b"ABC"),
            ("QUI=", b"AB"),
            ("QQ==", b"A"),
            ("QR==", b"A"),
            ("-_-_", &[0xfb, 0xff, 0xbf]),
            ("QUJDQ", b"ABC"),
            ("QUJDQUI", b"ABC"),
            ("QUJDQQ=", b"ABC"),
            ("QUJDQQ=Q", b"ABC"),
            ("QUJD=", b"ABC"),
            ("QUJDQ===", b"ABC"),
            ("QUJD+UJD", b"ABC"),
            ("QUI=QUJD", b"AB"),
            ("QU\nJD\r\nQUI\n=", b"ABCAB"),
            ("QQ=\n=", b"A"),
        ];

        for (text, wanted) in cases {
            assert_eq!(decode_url_safe(text.as_bytes()), wanted, "{text:?}");
        }
    }
}
