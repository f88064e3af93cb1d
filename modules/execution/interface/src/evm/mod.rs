//! The EVM of a block: its instructions, precompiled contracts and rules, and what stops a run.

mod any_evm;
mod block_evm;
mod context;
mod extra_precompiles;
mod instruction_changes;
mod interrupt;
mod own_failure;
mod precompiles;
mod rules;
mod system_calls;
mod system_contracts;
mod transaction_env;
mod used_memory;

pub use any_evm::AnyEvm;
pub use block_evm::{BlockEvm, build_evm};
pub use context::{BlockContext, EvmFailure, Step};
pub use extra_precompiles::{ContractRecords, ExtraPrecompiles};
pub use instruction_changes::{InstructionChanges, InstructionFunction};
pub use interrupt::{Interrupt, Stopped};
pub use own_failure::OwnFailure;
pub use precompiles::{MovedPrecompiles, PrecompileSet, Precompiles};
pub use rules::{BlockRules, RequestRules, block_env_of_every_family, gas_table_of_eip_1283};
pub use system_calls::system_call;
pub use system_contracts::HISTORY_STORAGE_ADDRESS;
pub use transaction_env::{
    PriceTooHigh, access_list, authorizations, price, transaction_env, transaction_env_at_any_price,
};

pub(crate) use rules::ethereum_block_env;
