//! What native chains decide about their fork schedule (`docs/spec/chain.md` 1.6, 4) and their genesis (7).

use std::any::Any;

use alloy_primitives::B256;
use serde_json::Value;
use tenon_api::{Header, NativeSeal, TransactionType, messages::Profile};
use tenon_chain::genesis::{FamilyConfig, GenesisMembers};
use tenon_chain::spec::{RuleList, SpecFamily};
use tenon_chain::{ChainSpec, Fork, GenesisError};

use crate::genesis::ConfigFile;
use crate::{NATIVE_BASE_FEE, NativeSettings};

impl NativeSettings {
    /// The settings of a native chain; `None` on chains of other families.
    pub fn of(spec: &ChainSpec) -> Option<&Self> {
        let family: &dyn Any = spec.family();
        family.downcast_ref()
    }

    /// The settings of a native chain, to change them.
    pub fn of_mut(spec: &mut ChainSpec) -> Option<&mut Self> {
        let family: &mut dyn Any = spec.family_mut();
        family.downcast_mut()
    }
}

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

    fn add_rules(&self, list: &mut RuleList) {
        self.list_rules(list);
    }

    /// The members without which the reference rejects a file (`docs/spec/chain.md` 7.2).
    fn missing_member(&self, members: &GenesisMembers) -> Option<&'static str> {
        [
            ("gasLimit", members.has_gas_limit),
            ("difficulty", members.has_difficulty),
            ("alloc.balance", members.has_balances),
        ]
        .into_iter()
        .find_map(|(name, is_given)| (!is_given).then_some(name))
    }

    fn complete_genesis_header(&self, spec: &ChainSpec, header: &mut Header, members: &GenesisMembers) {
        header.native_seal = Some(NativeSeal::default());
        // The reference writes the base fee of the file even before base fees are active.
        let base_fee_in_force = spec.has_base_fee(header.number).then_some(NATIVE_BASE_FEE);
        header.base_fee_per_gas = members.base_fee_per_gas.or(base_fee_in_force);
    }

    fn has_built_in(&self, chain_id: u64) -> bool {
        Self::known_genesis(chain_id).is_some()
    }

    fn adopt_built_in(&mut self, genesis_hash: B256) -> Result<(), GenesisError> {
        Ok(self.adopt_consensus_of(genesis_hash)?)
    }

    fn with_network_id(&self, config: &Value, network_id: u64) -> Result<Option<Box<dyn SpecFamily>>, GenesisError> {
        let config: ConfigFile = serde_json::from_value(config.clone())?;
        if config.is_native() { config.family(network_id).map(Some) } else { Ok(None) }
    }

    fn equals(&self, other: &dyn SpecFamily) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref() == Some(self)
    }

    fn boxed_clone(&self) -> Box<dyn SpecFamily> {
        Box::new(self.clone())
    }
}
