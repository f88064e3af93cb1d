//! What a family of chains decides about its fork schedule. The genesis file determines the family of a chain.

use std::{
    any::Any,
    fmt::Debug,
    ops::{Deref, DerefMut},
};

use alloy_primitives::B256;
use serde_json::Value;
use tenon_api::{EMPTY_ROOT_HASH, Header, TransactionType, messages::Profile};

use super::{ChainSpec, Fork, INITIAL_BASE_FEE, RuleList};
use crate::genesis::{EMPTY_REQUESTS_HASH, GenesisError, GenesisMembers};

/// The decisions of a chain family. The supertrait [`Any`] lets the family's crate downcast to its own type.
pub trait SpecFamily: Any + Debug + Send + Sync {
    /// The family in messages of the bus.
    fn profile(&self) -> Profile;

    /// Whether the block of this height has a base fee.
    fn has_base_fee(&self, spec: &ChainSpec, number: u64) -> bool;

    /// The base fee of every block that has one, wei; `None` if it follows from the parent (EIP-1559).
    fn fixed_base_fee(&self) -> Option<u64>;

    /// Whether a difficulty of zero marks a merged block (EIP-3675).
    fn merges_by_difficulty(&self) -> bool;

    /// The newest transaction type of a block.
    fn highest_transaction_type(&self, number: u64, fork: Fork) -> TransactionType;

    /// Whether blocks may contain blob transactions.
    fn allows_blobs(&self) -> bool;

    /// Adds the family's own rules about blocks to the list that is stored with the chain.
    fn add_rules(&self, list: &mut RuleList);

    /// A member of the genesis file that the family needs and the file does not have.
    fn missing_member(&self, members: &GenesisMembers) -> Option<&'static str>;

    /// Sets the items of the genesis header that only some families or forks have.
    fn complete_genesis_header(&self, spec: &ChainSpec, header: &mut Header, members: &GenesisMembers);

    /// Whether the program has constants for a genesis block with this chain id, so that its hash must be compared.
    fn has_built_in(&self, chain_id: u64) -> bool;

    /// Replaces parameters of the file by the built-in ones if this is the genesis block of a known network.
    ///
    /// # Errors
    /// [`GenesisError`] if the built-in parameters cannot be read.
    fn adopt_built_in(&mut self, genesis_hash: B256) -> Result<(), GenesisError>;

    /// The rules of a genesis file with this `config` under another network id; `None` if the id changes none of them.
    ///
    /// # Errors
    /// [`GenesisError`] if `config` does not fit the constants of this id.
    fn with_network_id(&self, config: &Value, network_id: u64) -> Result<Option<Box<dyn SpecFamily>>, GenesisError>;

    /// Whether both are the same family with the same rules.
    fn equals(&self, other: &dyn SpecFamily) -> bool;

    /// A copy, because `Clone` itself cannot be a supertrait of a trait object.
    fn boxed_clone(&self) -> Box<dyn SpecFamily>;
}

/// The family of a chain.
#[derive(Debug)]
pub(super) struct Family(Box<dyn SpecFamily>);

impl Family {
    /// A chain with Ethereum's rules.
    pub(super) fn ethereum() -> Self {
        Self(Box::new(Ethereum))
    }

    /// The family with these decisions.
    pub(super) fn of(family: Box<dyn SpecFamily>) -> Self {
        Self(family)
    }
}

impl Deref for Family {
    type Target = dyn SpecFamily;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl DerefMut for Family {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

impl Clone for Family {
    fn clone(&self) -> Self {
        Self(self.0.boxed_clone())
    }
}

impl PartialEq for Family {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(&*other.0)
    }
}

/// Chains with Ethereum's rules.
#[derive(Debug)]
struct Ethereum;

impl SpecFamily for Ethereum {
    fn profile(&self) -> Profile {
        Profile::Ethereum
    }

    fn has_base_fee(&self, spec: &ChainSpec, number: u64) -> bool {
        spec.is_london(number)
    }

    fn fixed_base_fee(&self) -> Option<u64> {
        None
    }

    fn merges_by_difficulty(&self) -> bool {
        true
    }

    fn highest_transaction_type(&self, _: u64, fork: Fork) -> TransactionType {
        match fork {
            fork if fork >= Fork::Prague => TransactionType::SetCode,
            fork if fork >= Fork::Cancun => TransactionType::Blob,
            fork if fork >= Fork::London => TransactionType::DynamicFee,
            fork if fork >= Fork::Berlin => TransactionType::AccessList,
            _ => TransactionType::Legacy,
        }
    }

    fn allows_blobs(&self) -> bool {
        true
    }

    fn add_rules(&self, _: &mut RuleList) {}

    fn missing_member(&self, _: &GenesisMembers) -> Option<&'static str> {
        None
    }

    fn complete_genesis_header(&self, spec: &ChainSpec, header: &mut Header, members: &GenesisMembers) {
        let fork = spec.fork_at(header.number, header.timestamp);
        let base_fee = members.base_fee_per_gas.unwrap_or(INITIAL_BASE_FEE);
        header.base_fee_per_gas = spec.has_base_fee(header.number).then_some(base_fee);
        header.withdrawals_root = (fork >= Fork::Shanghai).then_some(EMPTY_ROOT_HASH);
        if fork >= Fork::Cancun {
            header.blob_gas_used = Some(members.blob_gas_used.unwrap_or_default());
            header.excess_blob_gas = Some(members.excess_blob_gas.unwrap_or_default());
            header.parent_beacon_block_root = Some(members.parent_beacon_block_root.unwrap_or_default());
        }
        header.requests_hash = (fork >= Fork::Prague).then_some(EMPTY_REQUESTS_HASH);
    }

    fn has_built_in(&self, _: u64) -> bool {
        false
    }

    fn adopt_built_in(&mut self, _: B256) -> Result<(), GenesisError> {
        Ok(())
    }

    fn with_network_id(&self, _: &Value, _: u64) -> Result<Option<Box<dyn SpecFamily>>, GenesisError> {
        Ok(None)
    }

    fn equals(&self, other: &dyn SpecFamily) -> bool {
        let other: &dyn Any = other;
        other.is::<Self>()
    }

    fn boxed_clone(&self) -> Box<dyn SpecFamily> {
        Box::new(Self)
    }
}
