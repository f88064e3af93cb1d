//! Makes a client's text safe to show: removes characters that could move, reorder or hide others.

use std::fmt;

/// Maximum number of characters shown of one text.
pub const MAX_SHOWN_CHARACTERS: usize = 1_024;

/// A client's text in the form shown to a person.
///
/// It is for display only: signing, hashing and comparing always use the original text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisplayText {
    text: String,
    removed: usize,
    is_cut: bool,
}

impl DisplayText {
    /// Removes control, direction and invisible characters from `text`, and cuts it after [`MAX_SHOWN_CHARACTERS`].
    ///
    /// Linear in the length of `text`, with bounded memory.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut shown = Self { text: String::new(), removed: 0, is_cut: false };
        let mut characters = 0;
        for character in text.chars() {
            if misleads(character) {
                shown.removed += 1;
            } else if characters == MAX_SHOWN_CHARACTERS {
                shown.is_cut = true;
            } else {
                shown.text.push(character);
                characters += 1;
            }
        }
        shown
    }

    /// The characters that are shown.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Number of characters removed from the whole text, including those after the cut.
    #[must_use]
    pub const fn removed(&self) -> usize {
        self.removed
    }

    /// Whether printable characters were left out because the text is too long.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }
}

impl fmt::Display for DisplayText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Whether a character moves, reorders or hides its neighbours: controls (Unicode category Cc), line and paragraph
/// separators, directional marks and overrides (UAX #9), and characters that are invisible.
fn misleads(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' // lines, direction
            | '\u{00ad}' | '\u{034f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::{DisplayText, MAX_SHOWN_CHARACTERS};
    use proptest::prelude::*;

    #[test]
    fn plain_text_is_shown_as_it_came() {
        let shown = DisplayText::new("Überweisung 1.5 → 東京");
        assert_eq!(shown.as_str(), "Überweisung 1.5 → 東京");
        assert_eq!((shown.removed(), shown.is_cut()), (0, false));
    }

    #[test]
    fn an_override_of_direction_does_not_turn_an_amount_round() {
        let shown = DisplayText::new("pay \u{202e}0001\u{202c} now");
        assert_eq!((shown.as_str(), shown.removed()), ("pay 0001 now", 2));
    }

    #[test]
    fn terminal_sequences_and_new_lines_do_not_reach_the_screen() {
        let shown = DisplayText::new("a\u{1b}[2Jb\r\nc\u{9b}1Ad\u{2028}e");
        assert_eq!((shown.as_str(), shown.removed()), ("a[2Jbc1Ade", 5));
    }

    #[test]
    fn invisible_characters_are_removed() {
        let shown = DisplayText::new("to\u{200b}ken\u{e0041}\u{feff}\u{2060}");
        assert_eq!((shown.as_str(), shown.removed()), ("token", 4));
    }

    #[test]
    fn a_long_text_is_cut_and_marked_as_cut() {
        let whole = "é".repeat(MAX_SHOWN_CHARACTERS);
        assert!(!DisplayText::new(&whole).is_cut());
        let shown = DisplayText::new(&format!("{whole}!\u{7}"));
        assert_eq!((shown.as_str(), shown.removed(), shown.is_cut()), (whole.as_str(), 1, true));
    }

    proptest! {
        #[test]
        fn what_is_shown_is_bounded_and_needs_no_second_pass(characters in prop::collection::vec(any::<char>(), 0..2_000)) {
            let text: String = characters.iter().collect();
            let shown = DisplayText::new(&text);
            let count = shown.as_str().chars().count();
            prop_assert!(count <= MAX_SHOWN_CHARACTERS);
            prop_assert!(!shown.as_str().chars().any(char::is_control));
            prop_assert_eq!(shown.is_cut() || count + shown.removed() == characters.len(), true);
            let again = DisplayText::new(shown.as_str());
            prop_assert_eq!((again.as_str(), again.removed(), again.is_cut()), (shown.as_str(), 0, false));
        }
    }
}
