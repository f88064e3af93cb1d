//! Random native chains through both consensus engines, made by a slow model of the rules and imported by the node,
//! which must agree with the model on every block.
//!
//! It owns:
//!
//! - random networks ([`Network`]) and the generator of blocks ([`Generator`]);
//! - a model of the voting contract based on transactions only ([`VotingTable`]), and the model of the rules
//!   ([`Model`]);
//! - an engine that makes blocks by that model ([`ModelEngine`]);
//! - the comparison of a node with the model ([`Follower`]).
//!
//! Invariants:
//!
//! - The model is a direct transcription of the specification.
//! - It walks the chain for every query and keeps only the facts of each block.
//! - It shares with the engines under test only code pinned by published vectors: encodings, hashes, signatures, the
//!   random generator and the unstable sort.
//! - All random data derives from one seed, which is printed and can be set by `TENON_SEED`.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure fails the test")]

mod follower;
mod generator;
mod model;
mod model_engine;
mod network;
mod traffic;
mod voting_table;

pub use follower::{Agreement, Follower};
pub use generator::{Generator, Made};
pub use model::{Epoch, Facts, Model, Plan};
pub use model_engine::ModelEngine;
pub use network::{Network, RoundRules};
pub use voting_table::VotingTable;
