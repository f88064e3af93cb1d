//! The peers of a node: which ones it dials, admits, disconnects and bans (`docs/spec/p2p.md` 10, 11).
//!
//! It owns the slots, the schedule of dialing ([`Dialer`]) and the reputation of peers ([`Reputation`]). These are
//! state machines without I/O: their inputs are events and a clock, their outputs are decisions.
//!
//! Invariants:
//!
//! - every map is bounded;
//! - static and trusted peers are disconnected for faults like others, but never banned;
//! - a second connection to a node is accepted, a third is not.

#![forbid(unsafe_code)]

mod dialer;
mod reputation;
mod slots;

pub use dialer::{Dial, Dialer, DialerSettings};
pub use reputation::{Fault, FaultOutcome, Reputation, ReputationSettings, StoredBan};
pub use slots::{Connection, Refusal, SlotSettings, Slots};
