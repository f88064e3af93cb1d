//! A hardware wallet in software, for tests and for trying the node without a device.
//!
//! It owns the models that it simulates ([`Model`]), how they read and prompt, their keys, and the faults that hosts must
//! survive ([`Fault`]). It is reached over UDP, as the vendor's emulators are ([`udp::serve`]), or in memory
//! ([`Simulator::link`]).
//!
//! What must always hold: it behaves as measured on the real firmware (`docs/spec/device.md`, marks `[M]`), also where that
//! is odd; what differs by model is decided by [`Model`]; anything may be sent to it. It is a test's tool: its keys lie
//! in ordinary memory, and nobody should keep money behind them.

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
mod signing;
mod simulator;
mod storage;
mod typed_data;
pub mod udp;

pub use fault::{Fault, FaultPlan, UnknownFault};
pub use model::{Model, UnknownModel};
pub use settings::{Approval, PassphraseSource, SimulatorSettings};
pub use simulator::{MemoryLink, MemoryTransport, Observed, Simulator};
