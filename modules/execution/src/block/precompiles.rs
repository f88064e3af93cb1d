//! The precompiled contracts of a fork, and where a state override has moved them.

use std::borrow::Cow;

use alloy_primitives::{
    Address,
    map::{AddressMap, AddressSet},
};
use revm::{
    handler::{EthPrecompiles, PrecompileProvider},
    interpreter::{CallInputs, InterpreterResult},
    primitives::hardfork::SpecId,
};

use super::{evm::BlockContext, interrupt::Interrupt};
use crate::native::{EXTRA_PRECOMPILES, Prices, is_price_contract, run_extra_precompile};

/// Which precompiled contracts a block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrecompileSet {
    /// The Ethereum fork whose contracts and prices they are.
    pub(crate) standard: SpecId,
    /// Those of native chains are there too (`docs/spec/chain.md` 5.4).
    pub(crate) has_extras: bool,
}

/// Which addresses are precompiled contracts, after the state overrides of a call.
#[derive(Clone)]
pub(crate) struct MovedPrecompiles {
    /// Where contracts stand. Those of a fork are made once a process, and every call has an EVM of its own.
    addresses: Cow<'static, AddressSet>,
    /// Where the fork has them, once one was moved or removed. These addresses stay warm, and those where contracts were
    /// moved to do not become so, as in go-ethereum.
    unmoved: Option<AddressSet>,
    /// By the address where a contract now is: where it was.
    origins: AddressMap<Address>,
}

impl MovedPrecompiles {
    /// Those of a fork, none moved.
    pub(crate) fn new(set: PrecompileSet) -> Self {
        let mut addresses = Cow::Borrowed(EthPrecompiles::new(set.standard).precompiles.addresses_set());
        if set.has_extras {
            addresses.to_mut().extend(EXTRA_PRECOMPILES);
        }
        Self { addresses, unmoved: None, origins: AddressMap::default() }
    }

    /// Whether a precompiled contract stands at this address.
    pub(crate) fn is_precompile(&self, address: Address) -> bool {
        self.addresses.contains(&address)
    }

    /// Moves the contract at `from` to `to`; `from` is an ordinary address afterwards.
    pub(crate) fn relocate(&mut self, from: Address, to: Address) {
        self.keep_unmoved();
        let origin = self.origins.remove(&from).unwrap_or(from);
        let addresses = self.addresses.to_mut();
        addresses.remove(&from);
        addresses.insert(to);
        self.origins.insert(to, origin);
    }

    /// Makes an address an ordinary one.
    pub(crate) fn remove(&mut self, address: Address) {
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

/// The precompiled contracts that an EVM offers.
pub(crate) struct Precompiles {
    own: EthPrecompiles,
    moved: MovedPrecompiles,
    /// What the contracts for prices of the exchange tell; zeros where there are none.
    prices: Option<Prices>,
    /// Whether one of those contracts has run since these are told.
    was_asked_for_prices: bool,
}

impl Precompiles {
    /// Those of a fork.
    pub(crate) fn new(set: PrecompileSet) -> Self {
        let (own, moved) = (EthPrecompiles::new(set.standard), MovedPrecompiles::new(set));
        Self { own, moved, prices: None, was_asked_for_prices: false }
    }

    /// Takes over where the contracts of a call stand.
    pub(crate) fn apply(&mut self, moved: &MovedPrecompiles) {
        self.moved = moved.clone();
    }

    /// Has these prices told from here on; gives those that were told until now.
    pub(crate) const fn tell_prices(&mut self, prices: Option<Prices>) -> Option<Prices> {
        self.was_asked_for_prices = false;
        std::mem::replace(&mut self.prices, prices)
    }

    /// Whether a contract has asked for a price since then.
    pub(crate) const fn was_asked_for_prices(&self) -> bool {
        self.was_asked_for_prices
    }

    /// Where the contracts stand.
    pub(crate) const fn places(&self) -> &MovedPrecompiles {
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
            context.chain.look_soon();
        }
        if EXTRA_PRECOMPILES.contains(&inputs.bytecode_address) {
            self.was_asked_for_prices |= is_price_contract(inputs.bytecode_address);
            return run_extra_precompile(inputs.bytecode_address, context, inputs, self.prices.as_ref()).map(Some);
        }
        self.own.run(context, inputs)
    }
}

/// Precompiled contracts of which a run takes little, however it is asked: `ecrecover`, the two hashes, the copy, and
/// the addition of points.
const CHEAP: [Address; 5] = [
    Address::with_last_byte(1),
    Address::with_last_byte(2),
    Address::with_last_byte(3),
    Address::with_last_byte(4),
    Address::with_last_byte(6),
];
/// Most bytes that they are given in an attempt.
const MOST_BYTES_OF_ATTEMPT: usize = 4 << 10;

fn is_cheap(inputs: &CallInputs) -> bool {
    inputs.input.len() <= MOST_BYTES_OF_ATTEMPT && CHEAP.contains(&inputs.bytecode_address)
}

impl PrecompileProvider<BlockContext> for Precompiles {
    type Output = InterpreterResult;

    fn set_spec(&mut self, _spec: SpecId) -> bool {
        // An EVM is built for one block, whose fork does not change.
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
