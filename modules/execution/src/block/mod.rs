//! Executing one block.

mod any_evm;
mod code_cache;
mod dao_fork;
mod dirty_marks;
mod evm;
mod execution;
mod executor;
mod explain;
mod instruction_changes;
mod interrupt;
mod memory;
mod precompiles;
mod requests;
mod rules;
mod state;
mod system_calls;
mod transition;

pub use executor::{ExecutedBlock, Executor};
pub use explain::{Explanation, ReferenceAccount, ReferenceBlock, ReferenceLog, ReferenceReceipt};
pub use transition::{StateBefore, Transition};

pub(crate) use any_evm::AnyEvm;
pub(crate) use dirty_marks::{Change, DirtyMarks};
pub(crate) use evm::{
    BlockContext, BlockEvm, EvmFailure, Step, access_list, authorizations, build_evm, price, transaction_env,
};
pub(crate) use execution::{BlockExecution, BlockOutcome, Prepared};
pub(crate) use executor::{StateChanges, assemble};
pub(crate) use instruction_changes::InstructionChanges;
pub(crate) use interrupt::{Interrupt, Stopped};
pub(crate) use memory::RunMemory;
pub(crate) use precompiles::{MovedPrecompiles, PrecompileSet};
pub(crate) use rules::{BlockRules, block_env_of_every_family, ethereum_block_env, gas_table_of_eip_1283};
pub(crate) use state::{BlockState, StateError};
pub(crate) use system_calls::{HISTORY_STORAGE_ADDRESS, system_call};

pub(crate) use revm::context::transaction::AccessList;
