//! The id of a request, kept longer than its text.

use arrayvec::ArrayString;

/// Maximum length of an id that is kept without an allocation.
const INLINE: usize = 23;

/// JSON text of an id.
#[derive(Debug)]
pub(super) enum RequestId {
    /// Nearly all ids.
    Short(ArrayString<INLINE>),
    Long(Box<str>),
}

impl RequestId {
    pub(super) fn new(text: &str) -> Self {
        ArrayString::from(text).map_or_else(|_| Self::Long(text.into()), Self::Short)
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Short(text) => text,
            Self::Long(text) => text,
        }
    }

    /// Length of its text in bytes.
    pub(super) fn len(&self) -> usize {
        self.as_str().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_ids_of_any_length() {
        for length in [0, 1, 22, 23, 24, 300, 100_000] {
            let text = "é1".repeat(length)[..].chars().take(length).collect::<String>();

            assert_eq!(RequestId::new(&text).as_str(), text, "{length}");
        }
    }
}
