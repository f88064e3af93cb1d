//! Makes texts from a device safe to show.

/// Maximum length of a shown text from a device, bytes (`docs/spec/device.md 11`).
pub const MAX_SHOWN_TEXT: usize = 256;

/// Makes a label or failure text safe for logs, terminals and responses: replaces invalid UTF-8, removes control and
/// directional characters, and cuts the text between characters to [`MAX_SHOWN_TEXT`] bytes.
pub fn shown_text(text: &[u8]) -> String {
    // Cut before decoding too, so that the work is bounded. A character has at most four bytes, and a removed one makes
    // room for another.
    let mut shown = String::new();
    for letter in String::from_utf8_lossy(&text[..text.len().min(4 * MAX_SHOWN_TEXT)]).chars() {
        if letter.is_control() || is_direction(letter) {
            continue;
        }
        if shown.len() + letter.len_utf8() > MAX_SHOWN_TEXT {
            break;
        }
        shown.push(letter);
    }
    shown
}

/// Whether a character changes the order in which others are shown, so that a text could look like another, or
/// separates lines.
fn is_direction(letter: char) -> bool {
    matches!(
        letter,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_control_characters_and_direction_marks() {
        assert_eq!(shown_text("a\u{1b}[31mb\r\n\u{202e}c\u{2066}d\0é".as_bytes()), "a[31mbcdé");
    }

    #[test]
    fn replaces_invalid_utf8() {
        assert_eq!(shown_text(b"caf\xc3"), "caf\u{fffd}");
    }

    #[test]
    fn cuts_at_a_letter() {
        let shown = shown_text("é".repeat(600).as_bytes());

        assert_eq!(shown, "é".repeat(128));
        assert_eq!(shown_text(format!("a{}", "é".repeat(600)).as_bytes()).len(), 255);
        assert_eq!(shown_text(&[b'x'; 1 << 20]).len(), MAX_SHOWN_TEXT);
    }
}
