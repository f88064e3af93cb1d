//! Which peers a node has: whom it dials, whom it lets in, whom it cuts and bans (`docs/spec/p2p.md` 10, 11).
//!
//! It owns the slots, the schedule of dialing ([`Dialer`]) and the standing of peers ([`Reputation`]). State machines without
//! I/O: events and a clock go in, decisions come out.
//!
//! Invariants: every map has a bound; static and trusted peers are cut like others, but never banned; of two connections of
//! one node the second is accepted, a third is not.

#![forbid(unsafe_code)]

mod dialer;
mod reputation;
mod slots;

pub use dialer::{Dial, Dialer, DialerSettings};
pub use reputation::{Fault, Reputation, ReputationSettings, Standing, StoredBan};
pub use slots::{Connection, Refusal, SlotSettings, Slots};
