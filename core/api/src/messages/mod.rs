//! Every request and event, grouped by the module that answers or publishes it.
//!
//! To add one: write the type, give it the next free topic number of its group, add it to the list in
//! `schema.rs` and its golden frame to `tests/golden_frames/`.

mod accounts;
mod call_failure;
mod chain;
mod consensus;
mod debug;
mod events;
mod evm;
mod fees;
mod modules;
mod network;
mod node;
mod pool;
mod pool_refusal;
mod sealing;
mod simulation;
mod space;
mod state;
mod trace_failure;
mod traces;
mod tracing;

pub use accounts::*;
pub use call_failure::*;
pub use chain::*;
pub use consensus::*;
pub use debug::*;
pub use events::*;
pub use evm::*;
pub use fees::*;
pub use modules::*;
pub use network::*;
pub use node::*;
pub use pool::*;
pub use pool_refusal::*;
pub use sealing::*;
pub use simulation::*;
pub use space::*;
pub use state::*;
pub use trace_failure::*;
pub use traces::*;
pub use tracing::*;

/// Implements [`Request`](crate::Request) for a type.
macro_rules! request {
    ($type:ty => $reply:ty, topic $topic:literal, $capability:ident) => {
        request!($type => $reply, topic $topic, schema 1, $capability);
    };
    ($type:ty => $reply:ty, topic $topic:literal, $capability:ident, with secrets) => {
        request!($type => $reply, topic $topic, schema 1, $capability, with secrets);
    };
    ($type:ty => $reply:ty, topic $topic:literal, schema $schema:literal, $capability:ident) => {
        request!($type => $reply, topic $topic, schema $schema, $capability, false);
    };
    ($type:ty => $reply:ty, topic $topic:literal, schema $schema:literal, $capability:ident, with secrets) => {
        request!($type => $reply, topic $topic, schema $schema, $capability, true);
    };
    ($type:ty => $reply:ty, topic $topic:literal, schema $schema:literal, $capability:ident, $has_secrets:literal) => {
        impl crate::Request for $type {
            type Reply = $reply;
            const TOPIC: crate::Topic = crate::Topic($topic);
            const NAME: &'static str = stringify!($type);
            const SCHEMA: u16 = $schema;
            const CAPABILITY: crate::Capability = crate::Capability::$capability;
            const HAS_SECRETS: bool = $has_secrets;
        }
    };
}

/// Implements [`Event`](crate::Event) for a type.
macro_rules! event {
    ($type:ty, topic $topic:literal, $capability:ident) => {
        event!($type, topic $topic, schema 1, $capability);
    };
    ($type:ty, topic $topic:literal, schema $schema:literal, $capability:ident) => {
        impl crate::Event for $type {
            const TOPIC: crate::Topic = crate::Topic($topic);
            const NAME: &'static str = stringify!($type);
            const SCHEMA: u16 = $schema;
            const CAPABILITY: crate::Capability = crate::Capability::$capability;
        }
    };
}

pub(crate) use {event, request};
