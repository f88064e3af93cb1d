//! Suggestions for misspelt words.

/// The candidate nearest to `word`, `None` if none is near.
///
/// Near means: at most a third of the word's letters differ (two at least), by the optimal string alignment distance,
/// which counts swapped neighbours once.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let limit = (length / 3).max(2);
    let letters = letters_of(word);
    candidates
        .into_iter()
        // Skips candidates whose length differs too much, so that a long word is not compared letter by letter with
        // every key.
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= limit)
        // Skips words that share too few letters: every missing letter costs a change.
        .filter(|candidate| {
            let others = letters_of(candidate);
            let lacking = (letters & !others).count_ones().max((others & !letters).count_ones());
            usize::try_from(lacking).is_ok_and(|lacking| lacking <= limit)
        })
        .map(|candidate| (strsim::osa_distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The set of letters as bits; letters that share a bit count as one.
fn letters_of(word: &str) -> u64 {
    word.chars().fold(0, |letters, letter| letters | 1 << (u32::from(letter) % u64::BITS))
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_the_nearest_word_and_nothing_if_none_is_near() {
        let known = ["http.port", "http.addr", "ws.port"];

        assert_eq!(nearest("http.prot", known), Some("http.port"));
        assert_eq!(nearest("htp.addr", known), Some("http.addr"));
        assert_eq!(nearest("colour", known), None);
    }

    #[test]
    fn takes_words_up_to_the_limit() {
        for (word, known, is_near) in [
            ("", "ab", true),
            ("", "abc", false),
            ("port", "prot", true),
            ("kitten", "sittin", true),
            ("kitten", "sitting", false),
            ("abcdefghi", "abcdefxyz", true),
            ("abcdefghi", "abcdevxyz", false),
        ] {
            assert_eq!(nearest(word, [known]).is_some(), is_near, "{word} {known}");
        }
    }
}
