//! One file per suite: its case format and its rule (`docs/spec/conformance.md` 6).

mod basic;
mod blocks;
mod difficulty;
mod genesis;
mod headers;
mod key_store;
mod rlp;
mod state_tests;
mod transactions;
mod tries;

use std::{collections::BTreeMap, str::FromStr};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use strum::{Display, IntoStaticStr, VariantArray};

use crate::{
    CaseFile, CaseReport, Difference, Selection,
    outcome::{Check, Unmet},
};

/// The suites, by folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display, IntoStaticStr, VariantArray, Serialize)]
#[serde(into = "&'static str")]
pub enum Suite {
    /// One transaction on a state.
    #[strum(serialize = "GeneralStateTests")]
    GeneralState,
    /// Chains of valid blocks, with exceptions.
    #[strum(serialize = "BlockchainTests/ValidBlocks")]
    ValidBlocks,
    /// Chains with a block that must be refused.
    #[strum(serialize = "BlockchainTests/InvalidBlocks")]
    InvalidBlocks,
    /// Chains on which a fork begins.
    #[strum(serialize = "BlockchainTests/TransitionTests")]
    Transitions,
    /// State tests with a block around the transaction.
    #[strum(serialize = "BlockchainTests/GeneralStateTests")]
    StateBlocks,
    /// Decoding and judging a single transaction.
    #[strum(serialize = "TransactionTests")]
    Transactions,
    /// Roots, order and proofs of tries.
    #[strum(serialize = "TrieTests")]
    Tries,
    /// Untyped RLP.
    #[strum(serialize = "RLPTests")]
    Rlp,
    /// Ethash difficulty.
    #[strum(serialize = "DifficultyTests")]
    Difficulty,
    /// Genesis files and their blocks.
    #[strum(serialize = "GenesisTests")]
    Genesis,
    /// Single functions.
    #[strum(serialize = "BasicTests")]
    Basic,
    /// Contract call encoding.
    #[strum(serialize = "ABITests")]
    Abi,
    /// Encrypted key files.
    #[strum(serialize = "KeyStoreTests")]
    KeyStore,
    /// Ethash proofs of work.
    #[strum(serialize = "PoWTests")]
    ProofOfWork,
}

/// Why ABI cases are not run.
const NO_ABI: &str = "encoding of contract calls: the node takes call data as bytes";
const NO_PROOF_OF_WORK: &str = "checking ethash proofs of work: no chain of this node is mined";

impl Suite {
    /// Every suite, in the order of the report.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The folder below the suites' root.
    pub fn folder(self) -> &'static str {
        self.into()
    }

    /// The folder in the releases of `ethereum/execution-spec-tests`, for the suites that they contain.
    const fn spec_tests_folder(self) -> Option<&'static str> {
        match self {
            Self::GeneralState => Some("state_tests"),
            Self::StateBlocks => Some("blockchain_tests"),
            Self::Transactions => Some("transaction_tests"),
            _ => None,
        }
    }

    /// The suite of a file and the offset of its folder in the path; `None` if it belongs to no suite.
    pub fn in_path(path: &str) -> Option<(Self, usize)> {
        let mut starts = std::iter::once(0).chain(path.match_indices('/').map(|(slash, _)| slash + 1));
        let is_of = |suite: &Self, start: usize| {
            let mut folders = [Some(suite.folder()), suite.spec_tests_folder()].into_iter().flatten();
            folders.any(|folder| path[start..].strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
        };
        starts.find_map(|start| Self::ALL.iter().find(|suite| is_of(suite, start)).map(|suite| (*suite, start)))
    }

    /// Runs the selected cases of one file.
    pub(crate) fn run(self, file: &CaseFile, selection: &Selection) -> Vec<CaseReport> {
        let cases = Cases { suite: self, path: &file.path, selection };
        let reports =
            file.read().map_err(|error| Difference::new("file", error, "a readable one").into()).and_then(|text| {
                match self {
                    Self::GeneralState => state_tests::run(&text, &cases),
                    Self::ValidBlocks | Self::InvalidBlocks | Self::Transitions | Self::StateBlocks => {
                        blocks::run(&text, &cases)
                    }
                    Self::Transactions => transactions::run(&text, &cases),
                    Self::Tries => tries::run(&text, &cases),
                    Self::Rlp => rlp::run(&text, &cases),
                    Self::Difficulty => difficulty::run(&text, &cases),
                    Self::Genesis => genesis::run(&text, &cases),
                    Self::Basic => basic::run(&text, &cases),
                    Self::Abi => cases.all_not_built(&text, NO_ABI),
                    Self::KeyStore => key_store::run(&text, &cases),
                    Self::ProofOfWork => cases.all_not_built(&text, NO_PROOF_OF_WORK),
                }
            });
        reports.unwrap_or_else(|unmet| selection.unmet(self, file.path.clone(), unmet).into_iter().collect())
    }
}

/// There is no suite with this name.
#[derive(Debug, thiserror::Error)]
#[error("no suite {name}; there are: {all}", all = Suite::ALL.iter().map(|suite| suite.folder()).collect::<Vec<_>>().join(", "))]
pub struct UnknownSuite {
    name: String,
}

impl FromStr for Suite {
    type Err = UnknownSuite;

    fn from_str(name: &str) -> Result<Self, UnknownSuite> {
        let wanted = |suite: &Self| suite.folder().eq_ignore_ascii_case(name);
        Self::ALL.iter().copied().find(wanted).ok_or_else(|| UnknownSuite { name: name.to_owned() })
    }
}

/// Results of a file's cases, or why it has none.
type FileReports = Result<Vec<CaseReport>, Unmet>;

/// The file whose cases are running.
struct Cases<'a> {
    suite: Suite,
    path: &'a str,
    selection: &'a Selection,
}

impl Cases<'_> {
    fn name(&self, case: &str) -> String {
        format!("{}: {case}", self.path)
    }

    /// Runs one case of the file, if it is selected.
    fn run(&self, case: &str, check: impl FnOnce() -> Check) -> Option<CaseReport> {
        self.selection.run(self.suite, self.name(case), check)
    }

    /// Counts a case of the file that cannot be run.
    fn unmet(&self, case: &str, unmet: Unmet) -> Option<CaseReport> {
        self.selection.unmet(self.suite, self.name(case), unmet)
    }

    fn not_built(&self, case: &str, what: &str) -> Option<CaseReport> {
        self.unmet(case, Unmet::NotBuilt(what.to_owned()))
    }

    fn all_not_built(&self, text: &[u8], what: &str) -> FileReports {
        Ok(cases_of(text)?.keys().filter_map(|case| self.not_built(case, what)).collect())
    }
}

/// The cases of a file by name, without the file's metadata (`_info`).
fn cases_of(text: &[u8]) -> Result<BTreeMap<String, &RawValue>, Unmet> {
    let mut file: BTreeMap<String, &RawValue> = parse(text)?;
    file.retain(|name, _| !name.starts_with('_') && !name.starts_with("//"));
    Ok(file)
}

/// Parses JSON of the suites.
fn parse<'a, T: serde::Deserialize<'a>>(text: &'a [u8]) -> Result<T, Unmet> {
    serde_json::from_slice(text).map_err(unreadable)
}

/// Parses one case of a file.
fn parse_case<T: DeserializeOwned>(raw: &RawValue) -> Result<T, Unmet> {
    serde_json::from_str(raw.get()).map_err(unreadable)
}

/// JSON of another form is a case of another suite or of a newer format; anything else is a broken file.
fn unreadable(error: serde_json::Error) -> Unmet {
    if error.is_data() {
        let words = error.to_string();
        let without_place = words.split(" at line ").next().unwrap_or_default();
        return Unmet::NotBuilt(format!("a form that this runner does not know: {without_place}"));
    }
    Difference::new("JSON", error, "readable").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_determines_its_suite_by_whole_folders() {
        let suite = |path| Suite::in_path(path).map(|(suite, start)| (suite.folder(), start));

        assert_eq!(suite("GeneralStateTests/a.json"), Some(("GeneralStateTests", 0)));
        assert_eq!(suite("BlockchainTests/GeneralStateTests/a.json"), Some(("BlockchainTests/GeneralStateTests", 0)));
        assert_eq!(suite("LegacyTests/Cancun/GeneralStateTests/x/a.json"), Some(("GeneralStateTests", 19)));
        assert_eq!(suite("state_tests/prague/a.json"), Some(("GeneralStateTests", 0)));
        assert_eq!(suite("blockchain_tests/static/state_tests/a.json"), Some(("BlockchainTests/GeneralStateTests", 0)));
        assert_eq!(suite("blockchain_tests_engine/prague/a.json"), None);
        assert_eq!(suite("src/GeneralStateTestsFiller/a.json"), None);
        assert_eq!(suite("EOFTests/a.json"), None);
        assert_eq!(suite("GeneralStateTests.json"), None);
    }
}
