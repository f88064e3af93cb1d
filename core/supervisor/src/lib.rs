//! The life of the node's actors: starting them in order, keeping them alive, stopping them in reverse order.
//!
//! It owns one actix system and one thread an actor, and hides actix behind a thin trait ([`Actor`]), because
//! actix's own supervisor sees neither panics nor full mailboxes. Actors own what
//! changes: the write path of the chain, the sealer, later peers and the device. Reads never pass through here.
//!
//! What must always hold: an actor handles one message at a time; its mailbox is bounded, and a full one is an
//! immediate error to the sender; a panic costs the message that caused it and nothing else: the actor is built
//! anew after a pause, until it has failed too often; stopping hands every message that was accepted before to
//! its actor. The crate knows no actor by name.

#![forbid(unsafe_code)]

mod actor;
mod guarded;
mod signals;
mod supervisor;

pub use actor::{Actor, ActorHealth, ActorOptions, ActorState, Mailbox, RestartPolicy};
pub use signals::{Signal, Signals};
pub use supervisor::Supervisor;
