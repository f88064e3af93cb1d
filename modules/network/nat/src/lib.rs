//! Makes the ports of a node behind a router reachable: asks the router to map them, by UPnP, NAT-PMP or PCP
//! (`docs/spec/p2p.md` 22).
//!
//! It owns the mappings: a [`PortKeeper`] searches the router, maps the ports, renews them, tells the address that others
//! see, and removes the mappings when it is stopped. [`Mechanism`] is what an operator chooses.
//!
//! Invariants: nothing waits for a router but the keeper's own task, and stopping it is bounded; a router that is not there,
//! refuses or answers wrongly costs a log line; nothing is mapped that was not asked for.

#![forbid(unsafe_code)]

mod gateway;
mod keeper;
mod mechanism;
mod router;

pub use keeper::{NatSettings, NatTiming, PortKeeper};
pub use mechanism::{Mechanism, MechanismError};
pub use router::{MappedPort, Transport};
