//! The interface that a family of chains implements for the execution of blocks, with the EVM and the state that it
//! uses.
//!
//! It owns the traits [`ChainFamily`] and [`FamilyBlock`] with Ethereum's implementation ([`EthereumFamily`]), the rules of
//! a block ([`BlockRules`]), revm's EVM with our changes ([`BlockEvm`]; [`AnyEvm`] for families), the state of a block
//! above its parent's ([`BlockState`]), and the errors of execution. `tenon-execution-block` runs blocks with them,
//! `tenon-simulation` calls and traces; `modules/native/execution` is the family of native chains.
//!
//! Invariants: the crate knows the steps of a block only as methods that a family adds to them, and no family but
//! Ethereum's. Differences between forks are data in [`BlockRules`]. It reads the database through a `StateReader` and
//! writes nothing; a run for a client stops when its caller has disconnected, its time limit has passed or its memory
//! is used up.

#![forbid(unsafe_code)]

mod error;
mod evm;
mod family;
mod run_memory;
mod state;

pub use error::{ExecutionError, TransactionRejection};
pub use evm::{
    AnyEvm, BlockContext, BlockEvm, BlockRules, ContractRecords, EvmFailure, ExtraPrecompiles, HISTORY_STORAGE_ADDRESS,
    InstructionChanges, InstructionFunction, Interrupt, MovedPrecompiles, OwnFailure, PrecompileSet, Precompiles,
    PriceTooHigh, RequestRules, Step, Stopped, access_list, authorizations, block_env_of_every_family, build_evm,
    gas_table_of_eip_1283, price, system_call, transaction_env, transaction_env_at_any_price,
};
pub use family::{
    BlockOrigin, BranchAnnouncement, ChainFamily, EthereumFamily, Executed, ExecutionDecision, FamilyBlock, Fees,
    Opening, Outcome, OwnPrices, apply_authorizations, effective_price, inspect, run_like_ethereum, run_with, transact,
};
pub use run_memory::RunMemory;
pub use state::{
    BlockState, Change, CodeCache, DirtyMarks, StateError, WholeBalances, could_overflow_u256, saturated, widen,
};
