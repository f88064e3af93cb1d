//! The decisions of a native chain about calls and simulated blocks.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use revm::context::{BlockEnv, TxEnv};
use tenon_api::{
    ChainReader, ConsensusEngine, Header, NativeSeal, SealedHeader, StoreError,
    messages::{AccountOverride, BlockOverrides, BlockToSimulate, CallContradiction, CallRequest, EstimateGas},
};
use tenon_chain::ChainSpec;
use tenon_execution_interface::{BlockState, ContractRecords, Fees, MovedPrecompiles, PrecompileSet};
use tenon_native_execution::{PriceRecords, capacity_of};
use tenon_native_spec::NativeSettings;
use tenon_simulation_interface::{
    CallEnd, CallError, CallFamily, CallPlace, CallRules, ClientBehaviour, Payer, SimulatedBlockFamily, Trials,
};

use crate::{estimate, message, overrides};

/// Calls and simulations by the rules of one native chain.
pub(crate) struct NativeSimulation {
    spec: Arc<ChainSpec>,
    settings: Arc<NativeSettings>,
}

impl NativeSimulation {
    /// The calls and simulations of this chain; `None` if it is not native.
    pub(crate) fn of(spec: &Arc<ChainSpec>) -> Option<Self> {
        let settings = Arc::new(NativeSettings::of(spec).cloned()?);
        Some(Self { spec: Arc::clone(spec), settings })
    }
}

impl CallFamily for NativeSimulation {
    fn message(
        &self,
        request: &CallRequest,
        place: &CallPlace,
    ) -> Result<(TxEnv, Box<dyn CallRules>), CallContradiction> {
        let (message, call_rules) = message::message(request, self.spec.chain_id, place)?;
        Ok((message, Box::new(call_rules)))
    }

    fn override_accounts(
        &self,
        overrides: &[(Address, AccountOverride)],
        precompiles: PrecompileSet,
        state: &mut BlockState,
    ) -> Result<MovedPrecompiles, CallError> {
        overrides::apply(overrides, precompiles, state)
    }

    /// Prices of the historic exchange, while it was active.
    fn records(
        &self,
        chain: &Arc<dyn ChainReader>,
        engine: &Arc<dyn ConsensusEngine>,
        block: &SealedHeader,
        number: u64,
    ) -> Option<Arc<dyn ContractRecords>> {
        Some(Arc::new(PriceRecords::of_call(&self.settings, chain, engine, block, number)?))
    }

    /// The deposit of the called token if it pays for gas, otherwise the sender.
    fn access_list_payer(&self, receiver: Option<Address>, state: &mut BlockState) -> Result<Payer, StoreError> {
        let capacity = capacity_of(receiver, self.settings.contracts.trc21_issuer, state)?;
        Ok(capacity.map_or(Payer::Sender, Payer::Token))
    }

    /// Returns no overrides: the reference's estimate has no block overrides.
    fn estimate_overrides(&self, _estimate: &EstimateGas) -> BlockOverrides {
        BlockOverrides::default()
    }

    fn estimate(&self, estimate: &EstimateGas, trials: Box<dyn Trials + '_>) -> Result<u64, CallEnd> {
        estimate::search(estimate, trials)
    }
}

/// The conventions of the reference.
const CLIENT_BEHAVIOUR: ClientBehaviour = ClientBehaviour {
    // The reference's minimum price for the blocks that it makes.
    initial_tip: U256::ONE,
    idle_tip_divisor: 2,
    history_lacks_pending: true,
    // Rewards depend on signing transactions and checkpoints, which a simulation does not have.
    pays_simulated_blocks: false,
};

impl SimulatedBlockFamily for NativeSimulation {
    fn client_behaviour(&self) -> &'static ClientBehaviour {
        &CLIENT_BEHAVIOUR
    }

    fn complete_simulated(&self, header: &mut Header, _parent: &SealedHeader, wanted: &BlockToSimulate) {
        header.native_seal = Some(NativeSeal::default());
        header.difficulty = wanted.overrides.difficulty.unwrap_or(header.difficulty);
    }

    /// A simulated header has no seal that would identify the author.
    fn simulated_author(&self, _header: &Header, wanted: Option<Address>, base: Address) -> Address {
        wanted.unwrap_or(base)
    }

    fn override_simulated(&self, overrides: &BlockOverrides, block: &mut BlockEnv) {
        if overrides.prev_randao.is_some() {
            block.prevrandao = overrides.prev_randao;
        }
    }

    /// A simulated block has no denylist, no sponsorship and no receiver of fees; transactions to contracts that a
    /// block handles without the EVM are executed.
    fn simulated_fees(&self) -> Option<Fees> {
        Some(Fees::BURNED)
    }

    fn min_tip(&self, head: &Header) -> U256 {
        match head.base_fee_per_gas {
            Some(_) => U256::ZERO,
            None => U256::from(self.settings.heights.min_price(head.number)),
        }
    }
}
