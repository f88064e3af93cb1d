//! Random native chains through both consensus engines, made by a slow model of the rules and imported by the node,
//! which must agree with the model about every block.
//!
//! It owns random networks ([`Network`]), a model of the voting contract that follows transactions only
//! ([`VotingTable`]), the model of the rules ([`Model`]), an engine that makes blocks by that model
//! ([`ModelEngine`]), the generator ([`Generator`]), and the comparison of a node with the model ([`Follower`]).
//!
//! What must always hold: the model is written from the specification and in its plainest words; it walks the chain
//! again for every question and remembers nothing but what each block says. It shares with the engines under test
//! only what published vectors hold fast bit by bit: encodings, hashes, signatures, the generator of random numbers and
//! the unstable sort. Everything random follows from one seed, which is printed and taken back from `TENON_SEED`.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "whatever goes wrong here fails a test")]

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
