//! The id of a request, kept while its text is not.

/// The longest id that is kept without an allocation.
const INLINE: usize = 23;

/// JSON text of an id.
#[derive(Debug)]
pub(super) enum RequestId {
    /// As nearly all are.
    Short {
        bytes: [u8; INLINE],
        length: u8,
    },
    Long(Box<str>),
}

impl RequestId {
    pub(super) fn new(text: &str) -> Self {
        let mut bytes = [0; INLINE];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(place), Ok(length)) => {
                place.copy_from_slice(text.as_bytes());
                Self::Short { bytes, length }
            }
            _ => Self::Long(text.into()),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Short { bytes, length } => {
                let text = bytes.get(..usize::from(*length)).unwrap_or_default();
                std::str::from_utf8(text).unwrap_or_default()
            }
            Self::Long(text) => text,
        }
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
