//! The native engine: v1 up to the switch block, v2 after it (`spec/consensus.md`).
//!
//! It owns [`NativeEngine`], which serves the engine port and picks the engine by height; the rooms `v1` and
//! `v2` with the rules of each; and what both share: extra data, messages, seal hashes, signer recovery,
//! candidates read from the voting contract, rewards.
//!
//! What must always hold: every rule's comment names its section; a refusal has the reference's text where the
//! specification gives one; whatever an engine remembers can be computed again from the database, is bounded,
//! and is keyed by block hash so that a reorganisation cannot make it wrong.

mod ancestry;
mod candidates;
mod contract_slots;
mod engine;
mod extra;
#[doc(hidden)]
pub mod fuzzing;
pub mod go_random;
pub mod go_sort;
mod header_chain;
mod messages;
pub mod questions;
#[cfg(test)]
mod recorded_chain;
#[cfg(test)]
mod recorded_state;
mod records;
pub mod rewards;
mod seal_hash;
mod signers;
mod signing;
mod signing_duty;
mod standalone;
#[cfg(test)]
mod tampering;
#[cfg(test)]
mod test_data;
pub mod v1;
pub mod v2;

pub use candidates::{ContractCandidates, MasternodeSource, read_candidates};
pub use engine::{Clock, NativeEngine, NativeError};
pub use extra::{ExtraFields, ExtraProblem, addresses_of, v1_masternodes};
pub use header_chain::{HeaderProblem, HeaderVerifier, RefusedHeader, Standing, VerifierError};
pub use messages::{
    BlockInfo, QuorumCertificate, SyncInfo, Timeout, TimeoutCertificate, Vote, timeout_digest, vote_digest,
};
pub use seal_hash::{hash_without_validator, v1_seal_hash, v2_seal_hash};
pub use signers::{SignatureProblem, SignerCache, is_low_s, recover};
pub use signing::{
    BLOCK_SIGNER_CONTRACT, Counted, MERGE_SIGN_RANGE, SigningIndex, SigningTransaction, is_signing_transaction,
    signing_transactions,
};
pub use signing_duty::SigningDuty;
pub use standalone::HeaderSigners;
