//! The list of skipped cases, one entry and one reason each.

use serde::Deserialize;

use crate::Suite;

/// Why a list of skips is invalid.
#[derive(Debug, thiserror::Error)]
pub enum SkipsError {
    /// It is not TOML, or a member is missing.
    #[error("skips: {0}")]
    Toml(#[from] toml::de::Error),
    /// An entry has an empty member.
    #[error("skips: entry {index} has an empty case or reason")]
    Empty {
        /// Its position.
        index: usize,
    },
}

/// A skipped case.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    /// The name of the case as printed by the runner, or the path of a file for all its cases.
    pub case: String,
    /// The reason.
    pub reason: String,
}

/// All skipped cases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skips {
    #[serde(default)]
    skip: Vec<Skip>,
}

impl Skips {
    /// The project's own list, `tests/ethereum/skips.toml`.
    ///
    /// # Errors
    /// [`SkipsError`] if the list is invalid.
    pub fn of_project() -> Result<Self, SkipsError> {
        Self::from_toml(include_str!("../skips.toml"))
    }

    /// Reads a list.
    ///
    /// # Errors
    /// [`SkipsError`] if the list is invalid.
    pub fn from_toml(text: &str) -> Result<Self, SkipsError> {
        let skips: Self = toml::from_str(text)?;
        match skips.skip.iter().position(|skip| skip.case.is_empty() || skip.reason.is_empty()) {
            Some(index) => Err(SkipsError::Empty { index }),
            None => Ok(skips),
        }
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = &Skip> {
        self.skip.iter()
    }

    /// The entry of a case: with its full name, or with the path of its file, from the suite's folder on.
    pub(crate) fn find(&self, name: &str) -> Option<&Skip> {
        let name = Suite::in_path(name).map_or(name, |(_, start)| &name[start..]);
        let file = name.split_once(": ").map_or(name, |(file, _)| file);
        self.skip.iter().find(|skip| skip.case == name || skip.case == file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_skips_exactly_one_case_or_file() {
        let skips = Skips::from_toml("[[skip]]\ncase = \"a/b.json\"\nreason = \"x\"\n").unwrap();

        assert!(skips.find("a/b.json: one").is_some());
        assert!(skips.find("a/b.json2: one").is_none());
        assert!(skips.find("z/a/b.json: one").is_none());
    }

    #[test]
    fn an_entry_applies_wherever_the_suite_is() {
        let skips = Skips::from_toml("[[skip]]\ncase = \"RLPTests/b.json\"\nreason = \"x\"\n").unwrap();

        assert!(skips.find("LegacyTests/Cancun/RLPTests/b.json: one").is_some());
        assert!(skips.find("LegacyTests/Cancun/OtherRLPTests/b.json: one").is_none());
    }

    #[test]
    fn an_entry_without_a_reason_is_refused() {
        assert!(Skips::from_toml("[[skip]]\ncase = \"a\"\n").is_err());
        assert!(Skips::from_toml("[[skip]]\ncase = \"a\"\nreason = \"\"\n").is_err());
    }
}
