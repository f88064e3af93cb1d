//! The life cycle of actors: starts them in order, restarts them after a panic, stops them in reverse order.
//!
//! It owns one actix system and one thread per actor, and hides actix behind a thin trait ([`Actor`]), because actix's
//! own supervisor sees neither panics nor full mailboxes. Actors run the write path of the chain (the importer and the
//! storage's writer), the sealer, voting, peers and devices; in the pool and the accounts they apply changes that no
//! caller requests. Reads of the chain, calls and submissions never wait for an actor.
//!
//! Invariants:
//!
//! - an actor handles one message at a time;
//! - its mailbox is bounded, and a full one is an immediate error to the sender;
//! - a panic loses only the message that caused it: the actor is rebuilt after a pause, until it has failed too often;
//! - a stop lets every actor handle all messages accepted before it.
//!
//! The crate knows no actor by name.

#![forbid(unsafe_code)]

mod actor;
mod signals;
mod spawn_error;
mod supervised_actor;
mod supervisor;

pub use actor::{Actor, ActorHealth, ActorOptions, ActorState, Mailbox, RestartPolicy};
pub use signals::{Signal, Signals};
pub use spawn_error::{MakeError, SpawnError};
pub use supervisor::Supervisor;
