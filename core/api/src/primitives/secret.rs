//! Secret texts: passwords, PINs, keys.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

/// A password or another secret text. It is wiped on drop, and `Debug` does not show it.
///
/// It is serialised as a plain text, because secrets cross the plugin boundary: code that encodes a message with a
/// secret must wipe the frame.
#[derive(Clone, Default, PartialEq, Eq, derive_more::Debug)]
#[debug("SecretText(…)")]
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    /// Takes ownership of a text, without copying it.
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    /// The secret itself. Never put it into an error, a log line or a name.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SecretText {
    fn from(text: &str) -> Self {
        Self::new(text.to_owned())
    }
}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = SecretText::from("correct horse");

        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "SecretText(…) Some(SecretText(…))");
        assert_eq!(secret.expose(), "correct horse");
    }
}
