//! Makes a client's text safe to show: removes characters that could move, reorder or hide others.

use icu_properties::{
    CodePointMapData, CodePointSetData,
    props::{DefaultIgnorableCodePoint, GeneralCategory},
};

/// Maximum number of characters shown of one text.
pub const MAX_SHOWN_CHARACTERS: usize = 1_024;

/// Characters without ink that Unicode counts as symbols or marks: the blank Braille pattern, the object replacement
/// character, the filler of Khitan, and the null note head of music.
const BLANKS: [char; 4] = ['\u{2800}', '\u{fffc}', '\u{16fe4}', '\u{1d159}'];

/// A client's text in the form shown to a person.
///
/// It is for display only: signing, hashing and comparing always use the original text.
#[derive(Debug, Clone, PartialEq, Eq, derive_more::Display)]
#[display("{text}")]
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

/// Whether a character moves, reorders or hides its neighbours, or is invisible:
///
/// - controls, line and paragraph separators;
/// - format characters, which include the directional marks and overrides of UAX #9;
/// - characters for private use, which have no defined shape;
/// - characters that programs may ignore.
fn misleads(character: char) -> bool {
    let category = CodePointMapData::<GeneralCategory>::new().get(character);
    matches!(
        category,
        GeneralCategory::Control
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::Format
            | GeneralCategory::PrivateUse
    ) || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(character)
        || BLANKS.contains(&character)
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
    fn whole_categories_of_invisible_characters_are_removed() {
        let invisible = "\u{61c}\u{ad}\u{34f}\u{115f}\u{17b4}\u{180e}\u{2029}\u{2064}\u{206f}\u{2800}\u{3164}\
            \u{e000}\u{fe0f}\u{ffa0}\u{fff0}\u{fff9}\u{fffc}\u{13430}\u{16fe4}\u{1bca0}\u{1d159}\u{1d173}\
            \u{e01ef}\u{f0000}\u{10fffd}";
        for character in invisible.chars() {
            let shown = DisplayText::new(&format!("ab{character}cd"));
            assert_eq!((shown.as_str(), shown.removed()), ("abcd", 1), "{character:?}");
        }
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
