//! The mnemonic from which a development network's keys are derived.

use std::fmt;

use zeroize::Zeroizing;

use crate::value::{SettingValue, Value};

/// The mnemonic of development networks in all tools of this family; its keys are public.
pub const DEVELOPMENT_MNEMONIC: &str = "test test test test test test test test test test test junk";

/// A mnemonic. Printed only if it is the well-known test mnemonic.
#[derive(Clone, PartialEq, Eq, derive_more::Deref)]
#[deref(forward)]
pub struct Mnemonic(Zeroizing<String>);

impl Mnemonic {
    /// A mnemonic of these words.
    pub fn new(words: impl Into<String>) -> Self {
        Self(Zeroizing::new(words.into()))
    }

    /// Returns whether these are the words known to every tool for development networks, whose keys protect nothing.
    pub fn is_well_known(&self) -> bool {
        self.0.split_whitespace().eq(DEVELOPMENT_MNEMONIC.split(' '))
    }
}

impl Default for Mnemonic {
    fn default() -> Self {
        Self::new(DEVELOPMENT_MNEMONIC)
    }
}

impl fmt::Debug for Mnemonic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.is_well_known() { DEVELOPMENT_MNEMONIC } else { "(not shown)" })
    }
}

impl SettingValue for Mnemonic {
    const KIND: &'static str = "text";

    fn read(value: &Value) -> Result<Self, String> {
        // The error's text would repeat the words.
        String::read(value).map(Self::new).map_err(|_| "expected text in quotes".to_owned())
    }

    fn show(&self) -> Value {
        Value::Text(format!("{self:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_well_known_words_are_shown() {
        let own = Mnemonic::new("legal winner thank year wave sausage worth useful legal winner thank yellow");
        let spaced = Mnemonic::new(DEVELOPMENT_MNEMONIC.replace(' ', "  "));

        assert_eq!(Mnemonic::default().show(), Value::Text(DEVELOPMENT_MNEMONIC.into()));
        assert!(spaced.is_well_known() && !own.is_well_known());
        for shown in [format!("{own:?}"), own.show().to_string(), Mnemonic::read(&Value::Integer(7)).unwrap_err()] {
            assert!(!shown.contains("winner") && !shown.contains('7'), "{shown}");
        }
    }
}
