//! JSON-RPC texts and codes for refusals of the node, equal to those of the reference and go-ethereum
//! (`docs/spec/rpc-eth.md` 10, 12; `docs/spec/rpc-node.md` 4).

mod accounts;
mod calls;
mod chain;
mod devices;
mod enodes;
mod fees;
mod files;
mod front_ends;
mod pool;
mod recordings;
mod traces;

use crate::Failure;

pub use accounts::account_refusal_text;
pub use calls::{call_failure_text, revert_text};
pub use chain::{missing_state_text, round_problem_text, unresolved_block_text};
pub use devices::{device_status_text, wallet_failure_text};
pub use fees::percentile_problem_text;
pub use traces::trace_failure_text;

pub(crate) use chain::{epoch_refusal_text, missing_trie_node_text};
pub(crate) use enodes::enode_problem_text;
pub(crate) use files::unreadable_file_text;
pub(crate) use front_ends::front_end_refusal_text;
pub(crate) use recordings::recording_refusal_text;

/// A refusal that a request can have as its reply.
pub trait Refusal {
    /// The failure that a client receives.
    fn into_failure(self) -> Failure;
}

/// The answer to a request whose reply may be a refusal.
pub trait RefusableAnswer<T> {
    /// The reply, or the failure that a client receives.
    ///
    /// # Errors
    /// The refusal, or why there is no answer.
    fn or_failure(self) -> Result<T, Failure>;
}

impl<T, R: Refusal> RefusableAnswer<T> for Result<Result<T, R>, Failure> {
    fn or_failure(self) -> Result<T, Failure> {
        self?.map_err(Refusal::into_failure)
    }
}
