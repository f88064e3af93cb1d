//! A hardware wallet in software, for tests and for trying out the node without a device.
//!
//! It owns the simulated models ([`Model`]), the way they read packets and prompt, their keys, and the faults that
//! hosts must survive ([`Fault`]). It is reached over UDP, like the vendor's emulators ([`udp::serve`]), or in memory
//! ([`Simulator::link`]).
//!
//! Invariants: it behaves as measured on the real firmware (`docs/spec/device.md`, marks `[M]`), even where
//! that is odd. [`Model`] determines what differs between models. It handles any input. It is a tool for tests: its
//! keys are in ordinary memory and must not hold money.

#![forbid(unsafe_code)]

mod debug_link;
mod device;
mod ethereum;
mod fault;
mod keys;
mod limits;
mod management;
mod model;
mod prompts;
mod reader;
mod reset;
mod settings;
mod shared;
mod signing;
mod simulator;
mod storage;
mod transaction;
mod typed_data;
pub mod udp;

pub use fault::{Fault, FaultPlan, UnknownFault};
pub use model::{Model, UnknownModel};
pub use settings::{Approval, PassphraseSource, SimulatorSettings};
pub use shared::Observed;
pub use simulator::{MemoryLink, MemoryTransport, Simulator};
