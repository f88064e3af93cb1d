//! Makes the ports of a node behind a router reachable: asks the router to map them, by UPnP, NAT-PMP or PCP
//! (`docs/spec/p2p.md` 22).
//!
//! It owns the mappings: a [`PortMapper`] searches for the router, maps the ports, renews the mappings, reports the
//! external address, and removes the mappings when it is stopped. [`Mechanism`] is the operator's choice.
//!
//! Invariants:
//!
//! - only the mapper's own task waits for a router, and stopping that task takes bounded time;
//! - a missing router, a refusal or a wrong answer only causes log lines;
//! - only requested ports are mapped.

#![forbid(unsafe_code)]

mod gateway;
mod mechanism;
mod port_mapper;
mod router;

pub use mechanism::{Mechanism, MechanismError};
pub use port_mapper::{NatSettings, NatTiming, PortMapper};
pub use router::{MappedPort, Transport};
