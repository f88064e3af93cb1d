//! Executing one block.

mod code_cache;
mod dao_fork;
mod evm;
mod execution;
mod executor;
mod explain;
mod interrupt;
mod memory;
mod precompiles;
mod requests;
mod rules;
mod state;
mod system_calls;
mod transition;
mod whole_balances;

pub use executor::{ExecutedBlock, Executor};
pub use explain::{Explanation, ReferenceAccount, ReferenceBlock, ReferenceLog, ReferenceReceipt};
pub use transition::{StateBefore, Transition};

pub(crate) use evm::{
    BlockContext, BlockEvm, EvmFailure, Step, access_list, authorizations, build_evm, native_transaction_env, price,
};
pub(crate) use execution::{BlockExecution, BlockOutcome, Prepared};
pub(crate) use executor::{StateChanges, assemble};
pub(crate) use interrupt::{Interrupt, Stopped};
pub(crate) use memory::RunMemory;
pub(crate) use precompiles::{MovedPrecompiles, PrecompileSet};
pub(crate) use rules::{BlockRules, gas_table_of_eip_1283};
pub(crate) use state::{BlockState, StateError};
pub(crate) use system_calls::{HISTORY_STORAGE_ADDRESS, system_call};
pub(crate) use whole_balances::{is_rich, saturated, widen};

pub(crate) use revm::context::transaction::AccessList;
