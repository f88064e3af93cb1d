//! The precompiled contracts of a fork, and those moved by state overrides.

use std::{borrow::Cow, sync::Arc};

use alloy_primitives::{
    Address,
    map::{AddressMap, AddressSet},
};
use revm::{
    handler::{EthPrecompiles, PrecompileProvider},
    interpreter::{CallInputs, InterpreterResult},
    primitives::hardfork::SpecId,
};

use super::{
    context::BlockContext,
    extra_precompiles::{ContractRecords, ExtraPrecompiles},
    interrupt::Interrupt,
};

/// The set of a block's precompiled contracts.
#[derive(Clone, Copy)]
pub struct PrecompileSet {
    /// The Ethereum fork of the contracts and prices.
    pub standard: SpecId,
    /// Additional contracts of the chain's family, if the block has them.
    pub extras: Option<&'static dyn ExtraPrecompiles>,
}

impl PrecompileSet {
    /// Returns whether the block has contracts in addition to those of a fork.
    pub const fn has_extras(&self) -> bool {
        self.extras.is_some()
    }
}

/// Addresses of precompiled contracts, after the state overrides of a call.
#[derive(Clone)]
pub struct MovedPrecompiles {
    /// Current addresses. Borrowed from the fork's set, which is built once, because every call has an EVM of its own.
    addresses: Cow<'static, AddressSet>,
    extras: Option<&'static dyn ExtraPrecompiles>,
    /// The fork's addresses, set when the first contract is moved or removed. Only these are warm, not the new
    /// addresses of moved contracts, as in go-ethereum.
    unmoved: Option<AddressSet>,
    /// Original address by current address, for moved contracts.
    origins: AddressMap<Address>,
}

impl MovedPrecompiles {
    /// The contracts of a fork, at their original addresses.
    pub fn new(set: PrecompileSet) -> Self {
        let mut addresses = Cow::Borrowed(EthPrecompiles::new(set.standard).precompiles.addresses_set());
        if let Some(extras) = set.extras {
            addresses.to_mut().extend(extras.addresses());
        }
        Self { addresses, extras: set.extras, unmoved: None, origins: AddressMap::default() }
    }

    /// Returns whether the address is a precompiled contract.
    pub fn is_precompile(&self, address: Address) -> bool {
        self.addresses.contains(&address)
    }

    /// The additional contracts of the chain's family.
    pub const fn extras(&self) -> Option<&'static dyn ExtraPrecompiles> {
        self.extras
    }

    /// The addresses, in no order.
    pub fn addresses(&self) -> impl Iterator<Item = Address> {
        self.addresses.iter().copied()
    }

    /// Moves the contract at `from` to `to`; `from` becomes an ordinary address.
    pub fn relocate(&mut self, from: Address, to: Address) {
        self.keep_unmoved();
        let origin = self.origins.remove(&from).unwrap_or(from);
        let addresses = self.addresses.to_mut();
        addresses.remove(&from);
        addresses.insert(to);
        self.origins.insert(to, origin);
    }

    /// Makes an address ordinary.
    pub fn remove(&mut self, address: Address) {
        if self.addresses.contains(&address) {
            self.keep_unmoved();
            self.addresses.to_mut().remove(&address);
        }
        self.origins.remove(&address);
    }

    fn keep_unmoved(&mut self) {
        if self.unmoved.is_none() {
            self.unmoved = Some(self.addresses.clone().into_owned());
        }
    }
}

/// The precompiled contracts of an EVM.
pub struct Precompiles {
    own: EthPrecompiles,
    extras: Option<&'static dyn ExtraPrecompiles>,
    moved: MovedPrecompiles,
    /// Chain data that some contracts of the chain's family read. Without it they return a default answer.
    records: Option<Arc<dyn ContractRecords>>,
    /// Whether such a contract has run since these records were set.
    has_read_records: bool,
}

impl Precompiles {
    /// The contracts of a fork.
    pub fn new(set: PrecompileSet) -> Self {
        let (own, moved) = (EthPrecompiles::new(set.standard), MovedPrecompiles::new(set));
        Self { own, extras: set.extras, moved, records: None, has_read_records: false }
    }

    /// Applies a call's overrides of addresses.
    pub fn apply(&mut self, moved: &MovedPrecompiles) {
        self.moved = moved.clone();
    }

    /// Sets the records of the chain for contracts; returns the previous ones.
    pub const fn set_records(&mut self, records: Option<Arc<dyn ContractRecords>>) -> Option<Arc<dyn ContractRecords>> {
        self.has_read_records = false;
        std::mem::replace(&mut self.records, records)
    }

    /// Returns whether a contract has read the records since they were set.
    pub const fn has_read_records(&self) -> bool {
        self.has_read_records
    }

    /// The addresses of the contracts.
    pub const fn places(&self) -> &MovedPrecompiles {
        &self.moved
    }

    fn run_original(
        &mut self,
        context: &mut BlockContext,
        inputs: &CallInputs,
    ) -> Result<Option<InterpreterResult>, String> {
        if context.chain.is_attempt() && !is_cheap(inputs) {
            return Err(Interrupt::MARK.to_owned());
        }
        if !is_cheap(inputs) {
            context.chain.check_soon();
        }
        let contract = inputs.bytecode_address;
        if let Some(extras) = self.extras.filter(|extras| extras.addresses().contains(&contract)) {
            self.has_read_records |= extras.reads_records(contract);
            return extras.run(contract, context, inputs, self.records.as_deref()).map(Some);
        }
        self.own.run(context, inputs)
    }
}

/// Precompiled contracts that are cheap for any input: `ecrecover`, the two hashes, the copy, and the addition of
/// points.
const CHEAP: [Address; 5] = [
    Address::with_last_byte(1),
    Address::with_last_byte(2),
    Address::with_last_byte(3),
    Address::with_last_byte(4),
    Address::with_last_byte(6),
];
/// Maximum length of their input in an attempt, bytes.
const MAX_BYTES_OF_ATTEMPT: usize = 4 << 10;

fn is_cheap(inputs: &CallInputs) -> bool {
    inputs.input.len() <= MAX_BYTES_OF_ATTEMPT && CHEAP.contains(&inputs.bytecode_address)
}

impl PrecompileProvider<BlockContext> for Precompiles {
    type Output = InterpreterResult;

    fn set_spec(&mut self, _spec: SpecId) -> bool {
        // An EVM is built for one block, so its fork does not change.
        false
    }

    fn run(&mut self, context: &mut BlockContext, inputs: &CallInputs) -> Result<Option<InterpreterResult>, String> {
        if !self.moved.is_precompile(inputs.bytecode_address) {
            return Ok(None);
        }
        let Some(original) = self.moved.origins.get(&inputs.bytecode_address) else {
            return self.run_original(context, inputs);
        };
        let inputs = CallInputs { bytecode_address: *original, ..inputs.clone() };
        self.run_original(context, &inputs)
    }

    fn warm_addresses(&self) -> &AddressSet {
        self.moved.unmoved.as_ref().unwrap_or(&self.moved.addresses)
    }
}
