//! What `tenon genesis` and `tenon config` print and check of the rules of a chain.

use serde_json::Value;
use tenon_api::{Address, SealedHeader};
use tenon_chain::{Fork, Genesis};

/// The first block of a rule that only one family has.
pub(crate) struct RuleHeight {
    /// Its name.
    pub(crate) name: &'static str,
    /// The first block; `None`: the rule never begins.
    pub(crate) first: Option<u64>,
    /// The origin of the number, as readable text.
    pub(crate) source: String,
}

/// One statement about a genesis.
pub(crate) struct GenesisCheck {
    /// The checked part.
    pub(crate) subject: &'static str,
    /// The result.
    pub(crate) finding: String,
    /// Whether a chain can start from it.
    pub(crate) is_passed: bool,
}

impl GenesisCheck {
    pub(crate) const fn new(subject: &'static str, is_passed: bool, finding: String) -> Self {
        Self { subject, finding, is_passed }
    }
}

/// What a family has in addition to the rules of all chains. The defaults are those of a family that has nothing.
pub(crate) trait ChainDescription {
    /// The rules that only this family has.
    fn rule_heights(&self) -> Vec<RuleHeight> {
        Vec::new()
    }

    /// Whether this fork begins where the genesis file says. If not, it is among [`ChainDescription::rule_heights`].
    fn is_scheduled_by_file(&self, _: Fork) -> bool {
        true
    }

    /// The network id whose built-in constants apply, if the family has such constants.
    fn network_id_of_constants(&self) -> Option<u64> {
        None
    }

    /// The signers of the first epoch, which block 0 names.
    fn first_signers(&self, _genesis: &SealedHeader) -> Vec<Address> {
        Vec::new()
    }

    /// The consensus parameters, if the family has any.
    fn consensus_as_json(&self) -> Option<Value> {
        None
    }

    /// The same as a table, with the signers of the first epoch.
    fn consensus_as_table(&self, _genesis: &SealedHeader) -> String {
        String::new()
    }

    /// The checks of a genesis beyond its hash and its state root, in a fixed order.
    fn genesis_checks(&self, _file: &Genesis, _block: &SealedHeader) -> Vec<GenesisCheck> {
        Vec::new()
    }
}
