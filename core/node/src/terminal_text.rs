//! Text for a terminal. Parts of it come from a node, a peer or a file and may contain control characters, which can
//! move the cursor, hide lines or change the terminal's title.

use std::borrow::Cow;

/// The text with `\u{fffd}` in place of each control character. Line breaks and tabs stay.
pub(crate) fn without_control_characters(text: &str) -> Cow<'_, str> {
    let is_replaced = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if !text.contains(is_replaced) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(is_replaced, "\u{fffd}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced_and_lines_stay() {
        assert_eq!(without_control_characters("a\u{1b}[2Jb\r\u{9b}1m\n\tc"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}1m\n\tc");
        assert!(matches!(without_control_characters("eth  enabled\n"), Cow::Borrowed(_)));
    }
}
