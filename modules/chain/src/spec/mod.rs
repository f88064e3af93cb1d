//! The rules of each block: the fork schedule as data, and the numbers that depend on it.

mod blobs;
mod difficulty;
mod family;
mod fees;
mod fork;
mod fork_id;
mod gas;
mod rules;

use alloy_primitives::{Address, U256};
use tenon_api::{Header, messages::Profile};

pub use blobs::{BLOB_GAS_PER_BLOB, BlobParameters, MIN_BLOB_BASE_FEE, blob_gas_used, fake_exponential};
pub use difficulty::MINIMUM_DIFFICULTY;
pub use family::SpecFamily;
pub use fees::{BASE_FEE_CHANGE_DENOMINATOR, ELASTICITY_MULTIPLIER, INITIAL_BASE_FEE};
pub use fork::{Activation, Fork};
pub use fork_id::ForkId;
pub use gas::{
    ACCESS_LIST_ADDRESS_GAS, ACCESS_LIST_KEY_GAS, AUTHORIZATION_GAS, CREATION_GAS, GAS_LIMIT_BOUND_DIVISOR,
    MAX_GAS_LIMIT, MAX_INITCODE_SIZE, MIN_GAS_LIMIT, NONZERO_BYTE_GAS, TRANSACTION_GAS, TRANSACTION_GAS_CAP,
    ZERO_BYTE_GAS, calldata_tokens, floor_data_gas, floor_gas, initcode_gas, intrinsic_gas, stepped_gas_limit,
};
pub use rules::{BlockPlace, Rule, RuleChange, RuleList, Rules, RulesError, Since};

use crate::sender::{HighS, SignerRules};
use family::Family;

/// A chain's identity and fork schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainSpec {
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// Network id of the peer protocol; equal to the chain id unless set otherwise.
    pub network_id: u64,
    /// Height from which protected transactions are active (EIP-155); on Ethereum together with EIP-158.
    pub eip155_block: Option<u64>,
    /// Height of the DAO fork, if the chain had one.
    pub dao_fork_block: Option<u64>,
    /// Whether the chain adopted the DAO fork.
    pub dao_fork_support: bool,
    /// Height by which peers distinguish merged chains from others (EIP-3675); not the height of the merge.
    pub merge_netsplit_block: Option<u64>,
    /// The deposit contract (EIP-6110).
    pub deposit_contract: Option<Address>,
    family: Family,
    /// Sorted, without `Frontier`, which is always active.
    activations: Vec<(Fork, Activation)>,
    /// Sorted by fork; only forks that change blob parameters.
    blob_schedule: Vec<(Fork, BlobParameters)>,
}

impl ChainSpec {
    /// A chain of the Ethereum profile with these forks, in any order. Blob parameters are mainnet's.
    pub fn ethereum(chain_id: u64, activations: impl IntoIterator<Item = (Fork, Activation)>) -> Self {
        let mut activations: Vec<_> = activations.into_iter().filter(|(fork, _)| *fork != Fork::Frontier).collect();
        activations.sort_by_key(|(fork, _)| *fork);
        activations.dedup_by_key(|(fork, _)| *fork);
        let mut spec = Self {
            chain_id,
            network_id: chain_id,
            eip155_block: None,
            dao_fork_block: None,
            dao_fork_support: false,
            merge_netsplit_block: None,
            deposit_contract: None,
            family: Family::ethereum(),
            activations,
            blob_schedule: BlobParameters::MAINNET_SCHEDULE.to_vec(),
        };
        spec.eip155_block = match spec.activation(Fork::SpuriousDragon) {
            Some(Activation::Block(block)) => Some(block),
            _ => None,
        };
        spec
    }

    /// A chain of the Ethereum profile on which every fork up to this one is active from genesis.
    pub fn ethereum_at(chain_id: u64, fork: Fork) -> Self {
        let activation = |each: &Fork| match *each {
            Fork::Paris => Activation::TotalDifficulty(U256::ZERO),
            timed if timed.is_timed() => Activation::Time(0),
            _ => Activation::Block(0),
        };
        Self::ethereum(chain_id, Fork::ALL.iter().filter(|each| **each <= fork).map(|each| (*each, activation(each))))
    }

    /// Replaces the blob parameters of some forks and keeps the others.
    #[must_use]
    pub fn with_blob_schedule(mut self, schedule: impl IntoIterator<Item = (Fork, BlobParameters)>) -> Self {
        for (fork, parameters) in schedule {
            self.blob_schedule.retain(|(each, _)| *each != fork);
            self.blob_schedule.push((fork, parameters));
        }
        self.blob_schedule.sort_by_key(|(fork, _)| *fork);
        self
    }

    /// When a fork begins, `None` if it is not scheduled. `Frontier` begins with block 0.
    pub fn activation(&self, fork: Fork) -> Option<Activation> {
        if fork == Fork::Frontier {
            return Some(Activation::Block(0));
        }
        self.activations.iter().find(|(each, _)| *each == fork).map(|(_, activation)| *activation)
    }

    /// All scheduled forks except `Frontier`, oldest first.
    pub fn activations(&self) -> &[(Fork, Activation)] {
        &self.activations
    }

    /// Total difficulty of the merge, `None` if there is none.
    pub fn terminal_total_difficulty(&self) -> Option<U256> {
        match self.activation(Fork::Paris) {
            Some(Activation::TotalDifficulty(difficulty)) => Some(difficulty),
            _ => None,
        }
    }

    fn is_scheduled_at(&self, fork: Fork, activation: Activation, number: u64, timestamp: u64) -> bool {
        match activation {
            Activation::Block(block) => number >= block,
            // Time alone does not activate a fork on a chain that has not reached London by height.
            Activation::Time(time) => timestamp >= time && (fork < Fork::London || self.is_london(number)),
            Activation::TotalDifficulty(difficulty) => {
                difficulty.is_zero() || self.merge_netsplit_block.is_some_and(|block| number >= block)
            }
        }
    }

    fn is_london(&self, number: u64) -> bool {
        matches!(self.activation(Fork::London), Some(Activation::Block(block)) if number >= block)
    }

    /// The newest active fork at a height and time.
    ///
    /// Height and time alone do not show whether a chain with a positive terminal total difficulty has merged: prefer
    /// [`ChainSpec::fork_of`] if there is a header. Here the netsplit height is used instead of the merge.
    pub fn fork_at(&self, number: u64, timestamp: u64) -> Fork {
        self.activations
            .iter()
            .rev()
            .find(|(fork, activation)| self.is_scheduled_at(*fork, *activation, number, timestamp))
            .map_or(Fork::Frontier, |(fork, _)| *fork)
    }

    /// The decisions of its family.
    pub fn family(&self) -> &dyn SpecFamily {
        &*self.family
    }

    /// The decisions of its family, to change them.
    pub fn family_mut(&mut self) -> &mut dyn SpecFamily {
        &mut *self.family
    }

    /// Makes this a chain of another family.
    pub fn set_family(&mut self, family: Box<dyn SpecFamily>) {
        self.family = Family::of(family);
    }

    /// The family of rules and header forms.
    pub fn profile(&self) -> Profile {
        self.family.profile()
    }

    /// The newest active fork in the block of this header. A difficulty of zero marks a merged block.
    pub fn fork_of(&self, header: &Header) -> Fork {
        let fork = self.fork_at(header.number, header.timestamp);
        if !self.family.merges_by_difficulty() {
            return fork;
        }
        let merges = self.activation(Fork::Paris).is_some();
        match (merges && header.difficulty.is_zero(), fork) {
            (true, fork) => fork.max(Fork::Paris),
            (false, Fork::Paris) => self.newest_before_merge(header.number),
            (false, fork) => fork,
        }
    }

    fn newest_before_merge(&self, number: u64) -> Fork {
        self.activations
            .iter()
            .rev()
            .find(|(fork, activation)| {
                *fork < Fork::Paris && matches!(activation, Activation::Block(block) if number >= *block)
            })
            .map_or(Fork::Frontier, |(fork, _)| *fork)
    }

    /// Whether a fork is active at a height and time; see [`ChainSpec::fork_at`].
    pub fn is_active(&self, fork: Fork, number: u64, timestamp: u64) -> bool {
        self.fork_at(number, timestamp) >= fork
    }

    /// Returns whether the block of this height has a base fee.
    pub fn has_base_fee(&self, number: u64) -> bool {
        self.family.has_base_fee(self, number)
    }

    /// The signature rules and transaction types of a block of this height and time.
    pub fn signer_rules(&self, number: u64, timestamp: u64) -> SignerRules {
        let fork = self.fork_at(number, timestamp);
        SignerRules {
            chain_id: self.chain_id,
            high_s: if fork >= Fork::Homestead { HighS::Refused } else { HighS::Allowed },
            replay_protection: self.eip155_block.is_some_and(|block| number >= block),
            highest_type: self.family.highest_transaction_type(number, fork),
            allows_blobs: self.family.allows_blobs(),
        }
    }
}
