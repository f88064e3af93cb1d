//! Texts of requests that errors repeat: of a long one, the beginning. Otherwise one request could cause megabytes of
//! answers and log lines.

/// Maximum length of a repeated name, in characters.
const MAX_NAME: usize = 256;

/// The first characters of a text, and dots if it has more.
pub fn beginning_of(text: &str, max_length: usize) -> (&str, &'static str) {
    match text.char_indices().nth(max_length) {
        Some((end, _)) => (text.split_at(end).0, "…"),
        None => (text, ""),
    }
}

/// A name in a request, for an error.
pub fn shown_name(name: &str) -> String {
    let (beginning, dots) = beginning_of(name, MAX_NAME);
    [beginning, dots].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(shown_name("eth"), "eth");
        assert_eq!(shown_name(&"é".repeat(MAX_NAME)), "é".repeat(MAX_NAME));
        assert_eq!(shown_name(&"é".repeat(MAX_NAME + 1)), "é".repeat(MAX_NAME) + "…");
    }
}
