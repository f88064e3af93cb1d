//! The native engine: v1 up to the switch block, v2 after it (`docs/spec/consensus.md`).
//!
//! It owns:
//!
//! - [`NativeEngine`], which implements the engine port and selects the engine by height;
//! - the modules `v1` and `v2` with the rules of each;
//! - the parts shared by both: extra data, messages, seal hashes, signer recovery, candidates read from the voting
//!   contract, rewards.
//!
//! Where each rule of `docs/spec/consensus.md` is implemented:
//!
//! | Section | Rule | File |
//! |---|---|---|
//! | 1.2, 1.3 | seal hashes, signers, low S | `seal_hash.rs`, `signers.rs` |
//! | 2.1 to 2.4 | v1: extra data, snapshot, header, turn and difficulty | `extra.rs`, `v1/snapshot.rs`, `v1/header.rs`, `v1/turn.rs` |
//! | 2.5 | v1: double validation | `v1/second_signer.rs`, `v1/randomize.rs` |
//! | 2.6, 2.7 | v1: checkpoints, penalties | `v1/checkpoint.rs`, `v1/penalties.rs` |
//! | 3 | v2: messages, extra data, gap number, thresholds | `messages.rs`, `extra.rs`, `v2/epoch.rs`, `v2/certificate.rs` |
//! | 4.1 to 4.5 | v2: epochs, snapshots, candidates, masternodes, penalties | `v2/epoch.rs`, `v2/snapshot.rs`, `candidates.rs`, `v2/penalty.rs` |
//! | 5 | v2: votes, timeouts, rounds, pools, countdown | `native/voting`: `replica.rs`, `pool.rs`, `countdown.rs` |
//! | 5.6 | v2: received certificates | `v2/certificate.rs` |
//! | 6, 7 | v2: header, making blocks | `v2/header.rs`, `v2/sealing.rs` |
//! | 8, 9 | finality, fork choice, forensics | `v2/finality.rs`, `engine.rs`; `native/voting`: `forensics.rs` |
//! | 10, 11 | signing transactions, rewards (`docs/spec/chain.md` 4.3) | `signing.rs`, `signing_transaction_builder.rs`, `rewards` |
//! | 17, A, B | persistent records, the unstable sort, Go's random numbers | `records.rs`, `go_sort.rs`, `go_random.rs` |
//!
//! Invariants:
//!
//! - every rule's comment names its section;
//! - an error has the reference's text if the specification gives one;
//! - all caches of an engine can be recomputed from the database, are bounded, and are keyed by block hash so that a
//!   reorganisation cannot make them wrong.

#![forbid(unsafe_code)]

mod ancestry;
mod candidates;
mod contract_slots;
mod engine;
mod extra;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod go_random;
pub mod go_sort;
mod header_chain;
mod header_link;
mod messages;
pub mod queries;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod recorded_chain;
#[cfg(test)]
mod recorded_state;
mod records;
pub mod rewards;
mod seal_hash;
mod signers;
mod signing;
mod signing_transaction_builder;
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
pub use header_chain::{HeaderProblem, HeaderVerifier, RefusedHeader, VerificationLevel, VerifierError};
pub use messages::{
    BlockInfo, QuorumCertificate, SyncInfo, Timeout, TimeoutCertificate, Vote, timeout_digest, vote_digest,
};
pub use records::VotingState;
pub use seal_hash::{hash_without_validator, v1_seal_hash, v2_seal_hash};
pub use signers::{HeaderSigners, SignatureProblem, SignerCache, is_low_s, recover};
pub use signing::{
    BLOCK_SIGNERS, MERGE_SIGN_RANGE, SigningIndex, SigningTransaction, SigningTransactionFilter,
    is_signing_transaction, signing_transactions,
};
pub use signing_transaction_builder::SigningTransactionBuilder;
