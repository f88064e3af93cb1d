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
mod whole_balances;

pub use executor::{ExecutedBlock, Executor};
pub use explain::{Explanation, ReferenceAccount, ReferenceBlock, ReferenceLog, ReferenceReceipt};
pub use transition::{StateBefore, Transition};

pub use any_evm::AnyEvm;
pub use dirty_marks::{Change, DirtyMarks};
pub use evm::{BlockContext, BlockEvm, EvmFailure, Step, access_list, transaction_env_at_any_price};
pub use execution::BlockExecution;
pub use instruction_changes::{InstructionChanges, InstructionFunction};
pub use interrupt::{Interrupt, Stopped};
pub use precompiles::{MovedPrecompiles, PrecompileSet, Precompiles};
pub use rules::{BlockRules, block_env_of_every_family, gas_table_of_eip_1283};
pub use state::{BlockState, StateError};
pub use system_calls::{HISTORY_STORAGE_ADDRESS, system_call};
pub use whole_balances::{WholeBalances, is_rich, saturated, widen};

pub use evm::{authorizations, build_evm, price, transaction_env};
pub use execution::{BlockOutcome, BlockResults, Prepared};
pub(crate) use executor::{StateChanges, assemble};
pub use memory::RunMemory;
pub(crate) use rules::ethereum_block_env;

pub use revm::context::transaction::AccessList;
