/// The candidate that was most likely meant by `word`, none when nothing is near.
///
/// Near means: at most a third of the word's letters differ (two at least), by the optimal string alignment
/// distance, so that swapped neighbours count once.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let limit = (length / 3).max(2);
    candidates
        .into_iter()
        // Too long or too short to be near: a word of kilobytes is not compared letter by letter with every key.
        .filter(|candidate| candidate.chars().count().abs_diff(length) <= limit)
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let width = right.len() + 1;
    let mut cells = vec![0usize; (left.len() + 1) * width];
    for row in 0..=left.len() {
        for column in 0..=right.len() {
            let at = |row: usize, column: usize| cells[row * width + column];
            let best = if row == 0 || column == 0 {
                row + column
            } else {
                let replaced = at(row - 1, column - 1) + usize::from(left[row - 1] != right[column - 1]);
                let edited = (at(row - 1, column) + 1).min(at(row, column - 1) + 1).min(replaced);
                let swapped =
                    row > 1 && column > 1 && left[row - 1] == right[column - 2] && left[row - 2] == right[column - 1];
                if swapped { edited.min(at(row - 2, column - 2) + 1) } else { edited }
            };
            cells[row * width + column] = best;
        }
    }
    cells[left.len() * width + right.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_the_word_that_was_meant_and_nothing_when_none_is_near() {
        let known = ["http.port", "http.addr", "ws.port"];

        assert_eq!(nearest("http.prot", known), Some("http.port"));
        assert_eq!(nearest("htp.addr", known), Some("http.addr"));
        assert_eq!(nearest("colour", known), None);
    }
}
