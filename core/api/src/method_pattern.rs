/// A pattern of method names: `eth_sign*`. `*` stands for any text, also none; capitals don't count, so that a pattern
/// with a wrong capital refuses what it was meant for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MethodPattern(String);

impl MethodPattern {
    /// A pattern of this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a method's name fits.
    pub fn matches(&self, method: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), method.as_bytes());
        let (mut at, mut position) = (0, 0);
        // The last `*`, and where the text that it stands for ends so far.
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
    fn a_star_stands_for_any_text_and_capitals_do_not_count() {
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
