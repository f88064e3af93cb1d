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
        .filter_map(|candidate| Some((distance(word, candidate, limit)?, candidate)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The set of letters as bits; letters that share a bit count as one.
fn letters_of(word: &str) -> u64 {
    word.chars().fold(0, |letters, letter| letters | 1 << (u32::from(letter) % u64::BITS))
}

/// Number of insertions, deletions, replacements and swaps of neighbours between the words; `None` if above `limit`.
fn distance(left: &str, right: &str, limit: usize) -> Option<usize> {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut previous = vec![0; right.len() + 1];
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for row in 1..=left.len() {
        let mut cells = Vec::with_capacity(right.len() + 1);
        cells.push(row);
        for column in 1..=right.len() {
            let replaced = above[column - 1] + usize::from(left[row - 1] != right[column - 1]);
            let edited = (above[column] + 1).min(cells[column - 1] + 1).min(replaced);
            let swapped =
                row > 1 && column > 1 && left[row - 1] == right[column - 2] && left[row - 2] == right[column - 1];
            cells.push(if swapped { edited.min(previous[column - 2] + 1) } else { edited });
        }
        // Every path to the end passes through one of two neighbouring rows, and none becomes cheaper.
        if cells.iter().chain(&above).all(|cell| *cell > limit) {
            return None;
        }
        previous = std::mem::replace(&mut above, cells);
    }
    above.last().copied().filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn finds_the_nearest_word_and_nothing_if_none_is_near() {
        let known = ["http.port", "http.addr", "ws.port"];

        assert_eq!(nearest("http.prot", known), Some("http.port"));
        assert_eq!(nearest("htp.addr", known), Some("http.addr"));
        assert_eq!(nearest("colour", known), None);
    }
    #[test]
    fn counts_changes_up_to_the_limit() {
        for (left, right, limit, wanted) in [
            ("", "", 0, Some(0)),
            ("", "ab", 2, Some(2)),
            ("port", "port", 0, Some(0)),
            ("port", "prot", 1, Some(1)),
            ("kitten", "sitting", 3, Some(3)),
            ("kitten", "sitting", 2, None),
            ("abcdefgh", "zyxwvuts", 7, None),
        ] {
            assert_eq!(distance(left, right, limit), wanted, "{left} {right} {limit}");
            assert_eq!(distance(right, left, limit), wanted, "{right} {left} {limit}");
        }
    }
}
