//! Patterns of method names.

/// A pattern of method names: `eth_sign*`. `*` matches any text, including none. Case is ignored, so that a pattern
/// in the wrong case still refuses the methods that it was written for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MethodPattern(String);

impl MethodPattern {
    /// A pattern from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a method's name matches.
    pub fn matches(&self, method: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), method.as_bytes());
        let (mut at, mut position) = (0, 0);
        // The last `*`, and the end of the text that it matches so far.
        let mut star: Option<(usize, usize)> = None;
        while position < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, position));
                    at += 1;
                }
                Some(byte) if byte.eq_ignore_ascii_case(&name[position]) => {
                    at += 1;
                    position += 1;
                }
                _ => {
                    let Some((star_at, end)) = star else { return false };
                    star = Some((star_at, end + 1));
                    at = star_at + 1;
                    position = end + 1;
                }
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use super::MethodPattern;

    #[test]
    fn a_star_matches_any_text_and_case_is_ignored() {
        for (pattern, name, wanted) in [
            ("eth_sign*", "eth_sign", true),
            ("eth_sign*", "eth_signTransaction", true),
            ("eth_Sign*", "eth_signTransaction", true),
            ("eth_sign*", "eth_sendTransaction", false),
            ("eth_sign", "eth_signTransaction", false),
            ("*_sign*", "personal_sign", true),
            ("*Transaction", "eth_sendTransaction", true),
            ("*Transaction", "eth_sendTransactions", false),
            ("debug_*By*", "debug_traceBlockByHash", true),
            ("debug_*By*", "debug_traceBlock", false),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
            ("*", "eth_call", true),
            ("", "eth_call", false),
            ("eth_call*", "", false),
        ] {
            assert_eq!(MethodPattern::new(pattern).matches(name), wanted, "{pattern} {name}");
        }
    }
}
