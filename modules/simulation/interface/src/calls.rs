//! The decisions of a chain family about calls, which change nothing: the message of a call object, the payer of its
//! gas, overrides of accounts, and the search of a gas estimate.

use std::sync::Arc;

use alloy_primitives::{Address, Bytes, U256};
use revm::{
    context::{BlockEnv, TxEnv, result::ExecutionResult, transaction::AccessList},
    primitives::hardfork::SpecId,
};
use tenon_api::{
    ChainReader, ConsensusEngine, SealedHeader, StoreError, WholeBalance,
    messages::{AccountOverride, BlockOverrides, CallContradiction, CallFailure, CallRequest, EstimateGas},
};
use tenon_execution_interface::{
    AnyEvm, BlockState, ContractRecords, MovedPrecompiles, OwnPrices, PrecompileSet, run_like_ethereum,
};

use crate::{CallEnd, CallError, RunFailure, Trials};

/// A block on which a call is made.
pub struct CallPlace {
    /// The header's base fee, wei, without the overrides of the call.
    pub base_fee: Option<u64>,
    /// The EVM's fork.
    pub spec_id: SpecId,
    /// Maximum gas of a call; zero for no limit.
    pub gas_cap: u64,
}

/// The payer of a message's gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payer {
    /// The gas is free: calls and estimates.
    None,
    /// The sender, with an unlimited balance; gas is deducted from it during the run.
    Sender,
    /// The sender, from its balance, wei.
    Account(WholeBalance),
    /// A token's deposit with this balance, wei.
    Token(U256),
}

/// What a family decides about calls. The provided methods are Ethereum's.
pub trait CallFamily {
    /// Converts a call object for the EVM, and returns the rules under which it runs.
    ///
    /// # Errors
    /// Contradictory or invalid members.
    fn message(
        &self,
        request: &CallRequest,
        place: &CallPlace,
    ) -> Result<(TxEnv, Box<dyn CallRules>), CallContradiction>;

    /// Applies state overrides, and returns the addresses of precompiled contracts.
    ///
    /// # Errors
    /// Contradictory overrides; the database failed, or the caller's memory is used up.
    fn override_accounts(
        &self,
        overrides: &[(Address, AccountOverride)],
        precompiles: PrecompileSet,
        state: &mut BlockState,
    ) -> Result<MovedPrecompiles, CallError>;

    /// Chain data that precompiled contracts read in a call on a block with this (possibly overridden) height.
    fn records(
        &self,
        _chain: &Arc<dyn ChainReader>,
        _engine: &Arc<dyn ConsensusEngine>,
        _block: &SealedHeader,
        _number: u64,
    ) -> Option<Arc<dyn ContractRecords>> {
        None
    }

    /// The payer of the gas during the creation of an access list for a call to this receiver.
    ///
    /// # Errors
    /// The database failed.
    fn access_list_payer(&self, _receiver: Option<Address>, _state: &mut BlockState) -> Result<Payer, StoreError> {
        Ok(Payer::None)
    }

    /// The block overrides that apply to an estimate.
    fn estimate_overrides(&self, estimate: &EstimateGas) -> BlockOverrides {
        estimate.block_overrides.clone()
    }

    /// Finds the gas that a call needs.
    ///
    /// # Errors
    /// The call fails with every gas limit, or the search was stopped.
    fn estimate(&self, estimate: &EstimateGas, trials: Box<dyn Trials + '_>) -> Result<u64, CallEnd>;
}

/// A message that could not run during the creation of an access list.
pub struct ListFailure<'a> {
    /// The call object.
    pub request: &'a CallRequest,
    /// Its message.
    pub message: &'a TxEnv,
    /// The block environment that instructions read.
    pub block: &'a BlockEnv,
    /// The chain's id.
    pub chain_id: u64,
}

/// The rules under which one message runs. The provided methods are Ethereum's.
pub trait CallRules: Send + Sync {
    /// Changes the payer.
    fn pay_by(&mut self, _payer: Payer) {}

    /// The sender's prices, if they exceed the EVM's numbers.
    fn own_prices(&self) -> Option<OwnPrices> {
        None
    }

    /// Makes the checks of these rules that precede the EVM's own.
    ///
    /// # Errors
    /// The reason why it may not run.
    fn check(&self, _message: &TxEnv) -> Result<(), RunFailure> {
        Ok(())
    }

    /// Runs a message and discards its changes.
    ///
    /// # Errors
    /// Why it may not run, or why the run was stopped.
    fn run(&self, evm: &mut AnyEvm<'_>, message: TxEnv) -> Result<ExecutionResult, RunFailure> {
        let outcome = run_like_ethereum(evm, message);
        let outcome = outcome.map_err(|failure| RunFailure::from_evm(failure, &evm.context().chain))?;
        Ok(outcome.result)
    }

    /// The failure of a reverted call.
    fn revert_failure(&self, output: Bytes) -> CallFailure {
        CallFailure::Reverted { output }
    }

    /// The access list with which the search for a complete list begins.
    fn first_access_list(&self, message: &TxEnv) -> AccessList {
        message.access_list.clone()
    }

    /// Adds to a list found by a run the entries of the given list that must be kept.
    fn complete_access_list(&self, _given: &AccessList, _found: &mut AccessList) {}

    /// Gives the message the list for its next run.
    fn set_access_list(&self, message: &mut TxEnv, list: AccessList) {
        message.access_list = list;
    }

    /// The failure of a message that could not run during the creation of an access list.
    ///
    /// # Errors
    /// The given failure, if it is reported as for a call.
    fn access_list_failure(&self, failure: RunFailure, _place: &ListFailure<'_>) -> Result<CallFailure, RunFailure> {
        Err(failure)
    }
}
