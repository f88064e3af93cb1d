//! The state of a block: its parent's, and the changes above it.

mod block_state;
mod code_cache;
mod dirty_marks;
mod tracked_account;
mod whole_balances;

pub use block_state::{BlockState, StateError};
pub use code_cache::CodeCache;
pub use dirty_marks::{Change, DirtyMarks};
pub use whole_balances::{WholeBalances, could_overflow_u256, saturated, widen};

pub(crate) use block_state::CODE_HASH_OF_STORAGE_ALONE;
