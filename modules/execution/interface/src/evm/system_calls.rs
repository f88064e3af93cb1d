//! System contracts: calls made by the block itself.

use alloy_primitives::{Address, Bytes, address};
use revm::{
    DatabaseCommit,
    context::{ContextSetters, ContextTr, TxEnv, result::ExecutionResult},
    handler::{Handler, MainnetHandler},
    primitives::TxKind,
};

use super::{any_evm::AnyEvm, block_evm::EvmFailure};
use crate::state::StateError;

/// Stores roots of beacon blocks (EIP-4788).
pub(crate) const BEACON_ROOTS_ADDRESS: Address = address!("000f3df6d732807ef1319fb7b8bb8522d0beac02");
/// Stores hashes of past blocks (EIP-2935).
pub const HISTORY_STORAGE_ADDRESS: Address = address!("0000f90827f1c53a10cb7a02335b175320002935");
/// Queue of withdrawal requests (EIP-7002).
pub(crate) const WITHDRAWAL_REQUESTS_ADDRESS: Address = address!("00000961ef480eb55e80d19ad83579a64c007002");
/// Queue of consolidation requests (EIP-7251).
pub(crate) const CONSOLIDATION_REQUESTS_ADDRESS: Address = address!("0000bbddc7ce488642fb579f8b00f3a590007251");

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
