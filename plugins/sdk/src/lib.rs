//! The SDK for authors of Tenon plugins: a method is a plain `async fn` with typed positional
//! parameters, registered in one [`Table`]; the SDK decodes them, checks arity and optionals, and words errors.
//!
//! | For | Use |
//! |---|---|
//! | methods, subscriptions, background work | [`Table`], [`Sink`], [`Table::background`] |
//! | blocks, state, logs, calls | [`Node`], for a [`Context`] and a [`Host`]; every message of [`api`] through their `call` |
//! | events, and the chain step by step through reorganisations | [`Context::events`], [`Follower`] |
//! | transactions of the node's accounts | [`transactions`] |
//! | RLP of the node's own bytes | [`rlp`] |
//! | records that survive a restart | [`Storage`], [`Batch`] |
//! | tests without a node | [`testing`] |
//!
//! It owns the plugin's side of the C boundary ([`boundary`], shared with the host), the decoding of parameters
//! ([`param`]), the texts of errors ([`error_texts`]), the writing of results ([`output`]) and test doubles of a node
//! ([`testing`]).
//!
//! Invariants:
//!
//! - no panic leaves a plugin;
//! - nothing here starts a thread, a runtime or a socket;
//! - all `unsafe` code is in [`boundary`].
//!
//! The SDK knows no namespace.
//!
//! ```standalone_crate
//! use tenon_sdk::prelude::*;
//!
//! struct Hello;
//! impl Plugin for Hello {
//!     fn start(_host: Host, _settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
//!         Ok(Self)
//!     }
//! }
//! async fn greet(_context: Context<Hello>, name: Option<String>) -> Result<String, Failure> {
//!     Ok(format!("hello {}", name.as_deref().unwrap_or("world")))
//! }
//! fn table() -> Table<Hello> {
//!     Table::new("hello", "1.0").read("hello_greet", &["name"], "Greets.", greet)
//! }
//! tenon_sdk::export!(Hello, table);
//! # fn main() {}
//! ```

#![deny(unsafe_code)]

#[allow(unsafe_code, reason = "the C boundary passes raw pointers")]
pub mod boundary;
mod context;
pub mod error_texts;
mod failure;
mod follower;
mod node;
pub mod output;
pub mod param;
mod plugin;
pub mod rlp;
pub mod shapes;
mod sink;
mod storage;
mod table;
pub mod testing;
pub mod transactions;

pub use context::{Context, Delivery, Events, HeldMemory, Host, LogLevel};
pub use failure::{Failure, FailureCode};
pub use follower::{Follower, Step};
pub use node::Node;
pub use output::{Data, RawJson};
pub use param::{
    ArgumentError, BlockNumberParam, BlockParam, Index, Json, Number, Object, Param, Quantity, RawArgument,
};
pub use plugin::{Exported, Plugin};
pub use sink::Sink;
pub use storage::{Batch, Storage};
pub use table::{MethodFunction, SubscriptionFunction, Table};

pub use tenon_api as api;

/// Everything that a plugin's source usually needs.
pub mod prelude {
    pub use alloy_primitives::{Address, B256, Bytes, U256, address, keccak256};
    pub use serde::{Deserialize, Serialize};
    pub use tenon_api::{messages::*, *};

    pub use crate::{
        ArgumentError, Batch, BlockNumberParam, BlockParam, Context, Data, Delivery, Events, Failure, FailureCode,
        Follower, HeldMemory, Host, Index, Json, LogLevel, Node, Number, Object, Param, Plugin, Quantity, RawArgument,
        RawJson, Sink, Storage, Table, error_texts::RefusableAnswer,
    };
}

/// Exports a plugin: `export!(State, table)` defines the library's one C symbol.
///
/// `State` implements [`Plugin`], `table` is a function that returns its [`Table`]. Use it once per crate.
#[macro_export]
macro_rules! export {
    ($plugin:ty, $table:path) => {
        impl $crate::Exported for $plugin {
            fn table() -> &'static $crate::Table<Self> {
                static TABLE: ::std::sync::OnceLock<$crate::Table<$plugin>> = ::std::sync::OnceLock::new();
                TABLE.get_or_init($table)
            }
        }

        /// The symbol that the host looks up; returns the plugin's static table.
        #[allow(unsafe_code, reason = "the host finds the symbol by this name")]
        #[unsafe(no_mangle)]
        pub extern "C" fn tenon_plugin_v1() -> *const $crate::api::abi::TenonPlugin {
            static DESCRIPTOR: ::std::sync::OnceLock<$crate::boundary::Descriptor> = ::std::sync::OnceLock::new();
            $crate::boundary::descriptor::<$plugin>(&DESCRIPTOR, env!("CARGO_PKG_NAME"))
        }
    };
}

/// Compiles the example of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/plugins.md")]
struct Guide;
