//! Every request and event, grouped by the room that answers or announces it.
//!
//! To add one: write the type, give it the next free topic number of its group, add it to the list in
//! `schema.rs` and its golden frame to `tests/golden_frames.rs`.

mod accounts;
mod chain;
mod events;
mod evm;
mod fees;
mod modules;
mod node;
mod pool;
mod state;

pub use accounts::*;
pub use chain::*;
pub use events::*;
pub use evm::*;
pub use fees::*;
pub use modules::*;
pub use node::*;
pub use pool::*;
pub use state::*;

/// Implements [`Request`](crate::Request) for a type.
macro_rules! request {
    ($type:ty => $reply:ty, topic $topic:literal, $capability:ident) => {
        impl crate::Request for $type {
            type Reply = $reply;
            const TOPIC: crate::Topic = crate::Topic($topic);
            const NAME: &'static str = stringify!($type);
            const CAPABILITY: crate::Capability = crate::Capability::$capability;
        }
    };
}

/// Implements [`Event`](crate::Event) for a type.
macro_rules! event {
    ($type:ty, topic $topic:literal, $capability:ident) => {
        impl crate::Event for $type {
            const TOPIC: crate::Topic = crate::Topic($topic);
            const NAME: &'static str = stringify!($type);
            const CAPABILITY: crate::Capability = crate::Capability::$capability;
        }
    };
}

pub(crate) use {event, request};
