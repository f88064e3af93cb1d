//! The message types of Tenon: every request, reply and event that crosses the bus, the plain data types in them, and
//! the traits by which one module offers its functions to another.
//!
//! It owns the wire form of those types ([`codec`]), their stable topic numbers ([`Topic`]), the schema
//! hash that host and plugin compare ([`schema_hash`]), and the C boundary between the two ([`abi`]).
//!
//! Invariants:
//!
//! - a topic number is never reused;
//! - a type's encoding changes only together with its `SCHEMA` number;
//! - nothing here does I/O or knows a chain's rules, a namespace or a transport.
//!
//! The crate builds without RocksDB, revm and tokio, because every plugin depends on it.

#![forbid(unsafe_code)]

pub mod abi;
mod allowance;
mod bus_error;
pub mod codec;
mod database_condition;
mod duration_text;
mod durations;
mod json_problem;
mod message;
pub mod messages;
mod method_pattern;
mod ports;
pub mod primitives;
mod request_error;
mod schema;
mod shown_text;
mod space;
mod store_error;

pub use allowance::{Allowance, Unlimited};
pub use bus_error::{ActorError, BusError, PoolBusy};
pub use database_condition::{BackgroundCondition, DatabaseWatch, WriteFailure, WriteOutcomes};
pub use duration_text::duration_text;
pub use durations::{DURATION_BOUNDS, DurationCounts, Durations};
pub use json_problem::shown_json_problem;
pub use message::{Capability, CapabilitySet, Event, EventPosition, Request, Topic};
pub use method_pattern::MethodPattern;
pub use ports::{
    AccountRecord, BatchObserver, BlockPort, BlockProducer, BlockProductionError, BlockRewards, BlockSigner,
    BlockVerdict, ChainReader, ChainWriter, ConsensusEngine, ConsensusError, EncodedChainReader, EngineRecords,
    FailedBlock, InsertOutcome, OwnAccounts, PeerTransactions, PendingTransactions, RefusalCause, RoundBuilder,
    RoundMessage, RoundMessageKind, RoundMessages, RoundNetwork, SealAttributes, SignError, SignerMessage, StateReader,
    SubmitError, TrieReader,
};
pub use primitives::*;
pub use request_error::{
    AccountRefusal, DeviceProblem, EnodeProblem, EpochRefusal, FrontEndRefusal, HostProblem, KeyFileProblem,
    KeyTextProblem, PathProblem, RecordingKind, RecordingRefusal, RequestError, UnresolvedBlock, UnusableNode,
    UrlProblem, WalletFeature,
};
pub use schema::{SchemaEntry, schema_entries, schema_hash};
pub use shown_text::{beginning_of, shown_name};
pub use space::{PluginSpaces, SpaceError, SpaceLimits};
pub use store_error::StoreError;
