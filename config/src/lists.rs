//! Lists of texts that are validated when they are read, so that a mistake never allows more than intended.

use std::time::Duration;

use crate::value::{SettingValue, Value};

/// Origins of web pages: `https://app.example`, or `*` for all.
#[derive(Clone, Debug, Default, PartialEq, Eq, derive_more::Deref)]
#[deref(forward)]
pub struct OriginList(Vec<String>);

/// Patterns of method names: `eth_sign*`.
#[derive(Clone, Debug, Default, PartialEq, Eq, derive_more::Deref)]
#[deref(forward)]
pub struct MethodPatterns(Vec<String>);

/// Maximum length of a pattern of methods, bytes.
const MAX_PATTERN: usize = 128;
/// Maximum number of patterns: each is compared with every method when plugins change.
const MAX_PATTERNS: usize = 256;

impl OriginList {
    /// Origins from a source other than the settings.
    ///
    /// # Errors
    /// Names the invalid one and the expected form.
    pub fn new(origins: Vec<String>) -> Result<Self, String> {
        origins.iter().try_for_each(|origin| check_origin(origin)).map(|()| Self(origins))
    }
}

impl MethodPatterns {
    /// Patterns from a source other than the settings.
    ///
    /// # Errors
    /// Names the invalid one and the expected form.
    pub fn new(patterns: Vec<String>) -> Result<Self, String> {
        if patterns.len() > MAX_PATTERNS {
            return Err(format!("expected at most {MAX_PATTERNS} patterns of methods, found {}", patterns.len()));
        }
        patterns.iter().try_for_each(|pattern| check_pattern(pattern)).map(|()| Self(patterns))
    }
}

/// Refuses an origin without a host, which would match every page.
fn check_origin(origin: &str) -> Result<(), String> {
    let origin = origin.trim();
    let host = origin.split_once("://").map_or(origin, |(_, host)| host);
    let host = host.split('/').next().unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    if origin == "*" || !host.is_empty() {
        return Ok(());
    }
    Err(format!("expected an origin such as \"https://app.example\", or \"*\" for all, found {origin:?}"))
}

/// Refuses a pattern that can match no method, and so would refuse nothing.
fn check_pattern(pattern: &str) -> Result<(), String> {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'*');
    let is_good = pattern.len() <= MAX_PATTERN && pattern.bytes().all(is_known) && pattern.contains(['_', '*']);
    if is_good {
        return Ok(());
    }
    Err(format!("expected a method or a pattern such as \"eth_sign*\", found {pattern:?}"))
}

/// The texts of a list. A single text is split at its commas; an empty text is an empty list.
fn texts(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Untyped(text) | Value::Text(text) if text.trim().is_empty() => Ok(Vec::new()),
        Value::Untyped(text) | Value::Text(text) => Ok(text.split(',').map(|part| part.trim().to_owned()).collect()),
        other => Vec::<String>::read(other),
    }
}

impl SettingValue for OriginList {
    const KIND: &'static str = "list";

    fn read(value: &Value) -> Result<Self, String> {
        Self::new(texts(value)?)
    }

    fn show(&self) -> Value {
        self.0.show()
    }
}

impl SettingValue for MethodPatterns {
    const KIND: &'static str = "list";

    fn read(value: &Value) -> Result<Self, String> {
        Self::new(texts(value)?)
    }

    fn show(&self) -> Value {
        self.0.show()
    }
}

/// Parses a duration as in settings and flags: `10m`, `1h30m`, `45s`.
///
/// # Errors
/// The expected form, and the text.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    Duration::read(&Value::Untyped(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(texts: &[&str]) -> Value {
        Value::List(texts.iter().map(|text| Value::Text((*text).to_owned())).collect())
    }

    #[test]
    fn an_origin_without_a_host_is_refused() {
        for good in [&[][..], &["*"], &["https://a.example"], &["a.example"], &["http://*.example:80"]] {
            assert_eq!(OriginList::read(&list(good)).map(|list| list.len()), Ok(good.len()), "{good:?}");
        }
        for bad in ["", " ", "http://", "https://:8080", "://", "/"] {
            let error = OriginList::read(&list(&["https://a.example", bad])).unwrap_err();
            assert!(error.starts_with("expected an origin such as"), "{bad:?}: {error}");
        }
        let untyped = |text: &str| OriginList::read(&Value::Untyped(text.into()));
        assert_eq!(untyped(""), Ok(OriginList::default()));
        assert_eq!(untyped("a.example, b.example").map(|list| list.len()), Ok(2));
        assert!(untyped("a.example,,b.example").is_err());
    }

    #[test]
    fn a_pattern_that_no_method_can_match_is_refused() {
        assert_eq!(MethodPatterns::read(&list(&["eth_sign*", "*", "debug_setHead"])).map(|list| list.len()), Ok(3));
        for bad in ["", "eth", "eth_sign?", "eth sign_", "!eth_sign", "eth_a,eth_b"] {
            assert!(MethodPatterns::read(&list(&[bad])).is_err(), "{bad}");
        }
        assert!(MethodPatterns::new(vec!["a_*".into(); MAX_PATTERNS + 1]).is_err());
        assert!(MethodPatterns::new(vec!["a_".repeat(MAX_PATTERN)]).is_err());
    }
}
