//! What a family of chains decides about its fork schedule. The genesis file says which family a chain has; the schedule asks it.

use std::{
    fmt::Debug,
    ops::{Deref, DerefMut},
};

use tenon_api::{TransactionType, messages::Profile};

use super::{ChainSpec, Fork, NATIVE_BASE_FEE, NativeSettings, rules::List};

/// The decisions of a family.
pub(super) trait SpecFamily: Debug + Send + Sync {
    /// Its name.
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

    /// Adds the family's own rules about blocks.
    fn add_rules(&self, list: &mut List);

    /// The settings of a native chain.
    fn settings(&self) -> Option<&NativeSettings> {
        None
    }

    /// The settings of a native chain, to change them.
    fn settings_mut(&mut self) -> Option<&mut NativeSettings> {
        None
    }

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

    /// A native chain with these settings.
    pub(super) fn native(settings: NativeSettings) -> Self {
        Self(Box::new(settings))
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
        self.profile() == other.profile() && self.settings() == other.settings()
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

    fn add_rules(&self, _: &mut List) {}

    fn boxed_clone(&self) -> Box<dyn SpecFamily> {
        Box::new(Self)
    }
}

/// Native chains (`docs/spec/chain.md` 1.6, 4).
impl SpecFamily for NativeSettings {
    fn profile(&self) -> Profile {
        Profile::Native
    }

    fn has_base_fee(&self, _: &ChainSpec, number: u64) -> bool {
        number >= self.heights.eip1559
    }

    fn fixed_base_fee(&self) -> Option<u64> {
        Some(NATIVE_BASE_FEE)
    }

    fn merges_by_difficulty(&self) -> bool {
        false
    }

    fn highest_transaction_type(&self, number: u64, _: Fork) -> TransactionType {
        self.heights.highest_transaction_type(number)
    }

    fn allows_blobs(&self) -> bool {
        false
    }

    fn add_rules(&self, list: &mut List) {
        list.add_native(self);
    }

    fn settings(&self) -> Option<&NativeSettings> {
        Some(self)
    }

    fn settings_mut(&mut self) -> Option<&mut NativeSettings> {
        Some(self)
    }

    fn boxed_clone(&self) -> Box<dyn SpecFamily> {
        Box::new(self.clone())
    }
}
