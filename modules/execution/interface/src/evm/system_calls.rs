//! Calls of system contracts, made by the block itself.

use alloy_primitives::{Address, Bytes, address};
use revm::{
    DatabaseCommit,
    context::{ContextSetters, ContextTr, TxEnv, result::ExecutionResult},
    handler::{Handler, MainnetHandler},
    primitives::TxKind,
};

use super::{any_evm::AnyEvm, context::EvmFailure};
use crate::state::StateError;

/// The sender expected by system contracts.
const SYSTEM_ADDRESS: Address = address!("fffffffffffffffffffffffffffffffffffffffe");
/// Gas of a system call, outside the block's gas.
const SYSTEM_CALL_GAS: u64 = 30_000_000;

/// Calls a system contract and applies its changes. No account pays, and only the contract is touched.
///
/// Does not use the EVM crate's helper, which gives more gas than the EIPs specify.
pub fn system_call(evm: &mut AnyEvm<'_>, contract: Address, input: Bytes) -> Result<ExecutionResult, EvmFailure> {
    evm.context().set_tx(TxEnv {
        caller: SYSTEM_ADDRESS,
        kind: TxKind::Call(contract),
        data: input,
        gas_limit: SYSTEM_CALL_GAS,
        chain_id: None,
        ..TxEnv::default()
    });
    let result: Result<ExecutionResult, EvmFailure> =
        MainnetHandler::<_, revm::context::result::EVMError<StateError>, _>::default().run_system_call(evm);
    let state = evm.take_changes();
    let result = result?;
    evm.context().db_mut().commit(state);
    Ok(result)
}
