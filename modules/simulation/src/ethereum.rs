//! The decisions of Ethereum's chains about calls and simulated blocks.

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use revm::{
    context::{BlockEnv, TxEnv},
    context_interface::block::BlobExcessGasAndPrice,
};
use tenon_api::{
    Header, SealedHeader,
    messages::{AccountOverride, BlockOverrides, BlockToSimulate, CallContradiction, CallRequest, EstimateGas},
};
use tenon_chain::{ChainSpec, Fork};
use tenon_execution_interface::{BlockState, MovedPrecompiles, PrecompileSet};
use tenon_simulation_interface::{
    CallEnd, CallError, CallFamily, CallPlace, CallRules, ClientBehaviour, SimulatedBlockFamily, Trials,
};

use crate::call;

/// Calls and simulations by Ethereum's rules, with the forks of one chain.
pub struct EthereumSimulation {
    spec: Arc<ChainSpec>,
}

impl EthereumSimulation {
    /// The simulation of a chain that has no other family's rules.
    pub const fn new(spec: Arc<ChainSpec>) -> Self {
        Self { spec }
    }
}

/// A message that runs as a transaction does.
struct EthereumCallRules;

impl CallRules for EthereumCallRules {}

impl CallFamily for EthereumSimulation {
    fn message(
        &self,
        request: &CallRequest,
        place: &CallPlace,
    ) -> Result<(TxEnv, Box<dyn CallRules>), CallContradiction> {
        let message = call::message_env(request, self.spec.chain_id, place.spec_id, place.gas_cap)?;
        Ok((message, Box::new(EthereumCallRules)))
    }

    fn override_accounts(
        &self,
        overrides: &[(Address, AccountOverride)],
        precompiles: PrecompileSet,
        state: &mut BlockState,
    ) -> Result<MovedPrecompiles, CallError> {
        call::apply_account_overrides(overrides, precompiles, state)
    }

    fn estimate(&self, estimate: &EstimateGas, trials: Box<dyn Trials + '_>) -> Result<u64, CallEnd> {
        call::search_gas(estimate, trials)
    }
}

/// The conventions of go-ethereum.
const CLIENT_BEHAVIOUR: ClientBehaviour = ClientBehaviour {
    // A thousandth of a gwei: go-ethereum's minimum tip for its own blocks.
    initial_tip: U256::from_limbs([1_000_000, 0, 0, 0]),
    idle_tip_divisor: 1,
    history_lacks_pending: false,
    pays_simulated_blocks: true,
};

impl SimulatedBlockFamily for EthereumSimulation {
    fn client_behaviour(&self) -> &'static ClientBehaviour {
        &CLIENT_BEHAVIOUR
    }

    fn complete_simulated(&self, header: &mut Header, parent: &SealedHeader, wanted: &BlockToSimulate) {
        let (spec, BlockToSimulate { overrides, beacon_root, .. }) = (&self.spec, wanted);
        let fork = spec.fork_of(header);
        if fork >= Fork::Shanghai {
            // There is no mining, though the base may be a genesis block that has a difficulty.
            header.difficulty = U256::ZERO;
            header.withdrawals_root = Some(tenon_chain::withdrawals_root(&[]));
        } else if fork < Fork::Paris {
            header.difficulty = overrides.difficulty.unwrap_or(header.difficulty);
        }
        if fork >= Fork::Cancun {
            let is_parent_before = spec.fork_of(parent) < Fork::Cancun;
            let excess = if is_parent_before { Some(0) } else { spec.next_excess_blob_gas(parent, header.timestamp) };
            header.blob_gas_used = Some(0);
            header.excess_blob_gas = Some(excess.unwrap_or_default());
            header.parent_beacon_block_root = Some(beacon_root.unwrap_or_default());
        }
    }

    fn override_simulated(&self, overrides: &BlockOverrides, block: &mut BlockEnv) {
        if let (Some(price), Some(blobs)) = (overrides.blob_base_fee, block.blob_excess_gas_and_price.as_mut()) {
            *blobs = BlobExcessGasAndPrice { blob_gasprice: price.saturating_to(), ..*blobs };
        }
    }
}
