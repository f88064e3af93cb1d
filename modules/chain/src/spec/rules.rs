//! The rules of a chain as a list that is stored with it: a chain continues only under the rules that made it.
//!
//! The list contains everything that determines a block's validity or effect, under the names used in genesis files and
//! `config/networks`, and every named height, also the two without an effect on blocks. It does not contain other behaviour of
//! a node, such as waiting for a round.

use std::fmt;

use alloy_primitives::U256;
use serde::{Deserialize, Serialize};

use super::{Activation, ChainSpec};

/// Version of the list, raised when an entry changes its meaning. Adding an entry does not need a new version: a folder
/// accepts it if it affects none of the folder's blocks.
const LIST: u32 = 1;

/// When a rule begins to apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Since {
    /// The block of this height.
    #[display("from block {_0}")]
    Block(u64),
    /// The first block whose timestamp is not below this, seconds.
    #[display("from time {_0}")]
    Time(u64),
    /// The first block whose parent has at least this total difficulty.
    #[display("from total difficulty {_0}")]
    TotalDifficulty(U256),
    /// The first block of a v2 round that is not below this (`docs/spec/consensus.md` 12.3).
    #[display("from round {_0}")]
    Round(u64),
}

impl Since {
    /// Returns whether a rule with this start applies in a block. None applies in block 0, which is not executed: it is
    /// the genesis state.
    fn is_reached(self, block: &BlockPlace) -> bool {
        block.number > 0
            && match self {
                Self::Block(number) => block.number >= number,
                Self::Time(time) => block.timestamp >= time,
                Self::TotalDifficulty(difficulty) => block.parent_total_difficulty >= difficulty,
                Self::Round(round) => block.round.is_some_and(|reached| reached >= round),
            }
    }
}

/// A block's position, as far as rules depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    /// Height.
    pub number: u64,
    /// Unix time in seconds.
    pub timestamp: u64,
    /// Total difficulty of the parent.
    pub parent_total_difficulty: U256,
    /// Round of a v2 block; `None` for any other.
    pub round: Option<u64>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// When it begins to apply.
    pub since: Since,
    /// Its value; empty if the name says everything.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.value.is_empty() {
            write!(formatter, "is {} ", self.value)?;
        }
        self.since.fmt(formatter)
    }
}

/// Why a list of rules cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The text is not such a list.
    #[error("{0}")]
    Form(#[from] serde_json::Error),
    /// A later release wrote another version of the list.
    #[error("the list of rules has version {found}, but this release knows version {LIST}")]
    OtherList {
        /// Its version.
        found: u32,
    },
}

/// All rules of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    list: u32,
    rules: Vec<Rule>,
}

/// A changed rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleChange {
    /// Its name.
    pub name: String,
    /// The old rule; `None` if there was none.
    pub before: Option<Rule>,
    /// The new rule; `None` if there is none.
    pub now: Option<Rule>,
}

impl RuleChange {
    /// Returns whether one of the two applies in a block. If so, it does in every later block too.
    pub fn is_reached(&self, block: &BlockPlace) -> bool {
        self.holds(block) != (false, false)
    }

    /// Returns whether a block's rule has changed.
    pub fn concerns(&self, block: &BlockPlace) -> bool {
        match self.holds(block) {
            (true, true) => self.before.as_ref().map(|rule| &rule.value) != self.now.as_ref().map(|rule| &rule.value),
            (before, now) => before != now,
        }
    }

    fn holds(&self, block: &BlockPlace) -> (bool, bool) {
        let holds = |rule: &Option<Rule>| rule.as_ref().is_some_and(|rule| rule.since.is_reached(block));
        (holds(&self.before), holds(&self.now))
    }
}

impl fmt::Display for RuleChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |rule: &Option<Rule>| rule.as_ref().map_or_else(|| "not set".to_owned(), Rule::to_string);
        write!(
            formatter,
            "{} {} in this chain, {} in the configured rules",
            self.name,
            text(&self.before),
            text(&self.now)
        )
    }
}

impl Rules {
    /// The encoded list.
    ///
    /// # Errors
    /// [`RulesError::Form`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, RulesError> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Decodes [`Rules::to_bytes`].
    ///
    /// # Errors
    /// [`RulesError`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RulesError> {
        let rules: Self = serde_json::from_slice(bytes)?;
        if rules.list == LIST { Ok(rules) } else { Err(RulesError::OtherList { found: rules.list }) }
    }

    /// All rules.
    pub fn all(&self) -> &[Rule] {
        &self.rules
    }

    /// The rules that differ from `before`, in the order of the list.
    pub fn changed_since(&self, before: &Self) -> Vec<RuleChange> {
        let find = |rules: &Self, name: &str| rules.rules.iter().find(|rule| rule.name == name).cloned();
        let own = self.rules.iter().map(|rule| rule.name.as_str());
        let gone = before.rules.iter().map(|rule| rule.name.as_str()).filter(|name| find(self, name).is_none());
        let changes = own.chain(gone).map(|name| RuleChange {
            name: name.to_owned(),
            before: find(before, name),
            now: find(self, name),
        });
        changes.filter(|change| change.before != change.now).collect()
    }
}

impl ChainSpec {
    /// All rules that determine this chain's blocks.
    pub fn rules(&self) -> Rules {
        let mut list = RuleList(Vec::new());
        for (fork, activation) in self.activations() {
            list.add(fork.name(), Some(since(*activation)), "");
        }
        list.add("eip155Block", self.eip155_block.map(Since::Block), "");
        let dao = if self.dao_fork_support { "supported" } else { "opposed" };
        list.add("daoForkBlock", self.dao_fork_block.map(Since::Block), dao);
        list.add("mergeNetsplitBlock", self.merge_netsplit_block.map(Since::Block), "");
        if let Some(contract) = self.deposit_contract {
            list.add("depositContractAddress", Some(Since::Block(1)), contract);
        }
        for (fork, blobs) in &self.blob_schedule {
            let value = format!("{} to {} blobs, fraction {}", blobs.target, blobs.max, blobs.update_fraction);
            list.add(&format!("blobSchedule.{fork}"), self.activation(*fork).map(since), value);
        }
        self.family.add_rules(&mut list);
        Rules { list: LIST, rules: list.0 }
    }
}

fn since(activation: Activation) -> Since {
    match activation {
        Activation::Block(number) => Since::Block(number),
        Activation::Time(time) => Since::Time(time),
        Activation::TotalDifficulty(difficulty) => Since::TotalDifficulty(difficulty),
    }
}

/// Collects the list of [`ChainSpec::rules`].
#[derive(Debug)]
pub struct RuleList(Vec<Rule>);

impl RuleList {
    /// Adds a rule unless it never applies.
    pub fn add(&mut self, name: &str, since: Option<Since>, value: impl fmt::Display) {
        if let Some(since) = since.filter(|since| *since != Since::Block(u64::MAX)) {
            self.0.push(Rule { name: name.to_owned(), since, value: value.to_string() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Fork;

    fn place(number: u64, timestamp: u64) -> BlockPlace {
        BlockPlace { number, timestamp, parent_total_difficulty: U256::ZERO, round: None }
    }

    fn spec(shanghai: u64) -> ChainSpec {
        let forks = [(Fork::Homestead, Activation::Block(5)), (Fork::London, Activation::Block(10))];
        ChainSpec::ethereum(1, forks.into_iter().chain([(Fork::Shanghai, Activation::Time(shanghai))]))
    }

    #[test]
    fn a_list_round_trips() {
        for rules in [spec(7).rules(), ChainSpec::ethereum_at(1, Fork::Osaka).rules()] {
            assert_eq!(Rules::from_bytes(&rules.to_bytes().unwrap()).unwrap(), rules);
            assert!(rules.changed_since(&rules).is_empty());
            let names: std::collections::BTreeSet<_> = rules.all().iter().map(|rule| &rule.name).collect();
            assert_eq!(names.len(), rules.all().len(), "every rule has a name of its own");
        }
    }

    #[test]
    fn a_later_list_is_refused_with_its_version() {
        let later = Rules { list: LIST + 1, rules: Vec::new() };
        let error = Rules::from_bytes(&later.to_bytes().unwrap()).unwrap_err().to_string();
        assert_eq!(error, "the list of rules has version 2, but this release knows version 1");
    }

    #[test]
    fn a_moved_fork_concerns_the_blocks_between_its_old_and_new_start() {
        let changes = spec(50).rules().changed_since(&spec(100).rules());

        let [change] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!(change.to_string(), "Shanghai from time 100 in this chain, from time 50 in the configured rules");
        let concerned = [(0, 70), (4, 49), (5, 50), (9, 99), (10, 100)].map(|(number, time)| {
            let place = place(number, time);
            (change.is_reached(&place), change.concerns(&place))
        });
        assert_eq!(concerned, [(false, false), (false, false), (true, true), (true, true), (true, false)]);
    }

    #[test]
    fn added_removed_and_changed_rules_are_named() {
        let with = ChainSpec::ethereum_at(1, Fork::Cancun);
        let without = ChainSpec::ethereum_at(1, Fork::Shanghai);
        let blobs = crate::spec::BlobParameters { target: 1, max: 2, update_fraction: 3 };
        let other = with.clone().with_blob_schedule([(Fork::Cancun, blobs)]);

        let names = |now: &ChainSpec, before: &ChainSpec| {
            let changes = now.rules().changed_since(&before.rules());
            assert!(changes.iter().all(|change| change.concerns(&place(1, 0)) && !change.concerns(&place(0, 0))));
            changes.into_iter().map(|change| change.name).collect::<Vec<_>>()
        };

        assert_eq!(names(&with, &without), ["Cancun", "blobSchedule.Cancun"]);
        assert_eq!(names(&without, &with), ["Cancun", "blobSchedule.Cancun"]);
        assert_eq!(names(&other, &with), ["blobSchedule.Cancun"]);
    }
}
