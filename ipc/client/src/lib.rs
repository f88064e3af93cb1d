//! A typed JSON-RPC client of a node's Unix socket, for the command line, tests and other programs.
//!
//! Owns the transport (one JSON text a line), the limits of a client ([`ClientSettings`]), and a trait for each
//! namespace with the forms of its answers. Calls, ids, batches and subscriptions are those of [`jsonrpsee`]'s
//! asynchronous client, which [`Client`] dereferences to.
//!
//! Invariants:
//!
//! - nothing is sent to a socket that another user may have put in the node's place;
//! - a message is never longer than the limit, and memory is not allocated for a length that was announced;
//! - this crate writes no parameter or answer to a log, which jsonrpsee does at its levels `debug` and `trace`.
//!
//! The crate knows no transport but the socket, and nothing of the node's internals: its types are those of the wire.
//!
//! The traits have the methods that the command line and the tests need, and the common ones of each namespace.
//! Call any other method with [`jsonrpsee::core::client::ClientT::request`] and the types of your choice.
//!
//! ```no_run
//! use tenon_ipc_client::{AdminClient as _, Client, EthClient as _, EthSubscriptions as _};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tenon_ipc_client::Error> {
//! let node = Client::connect("data/tenon.ipc").await?;
//! let number = node.answer(node.block_number()).await?;
//! for module in node.answer(node.list_modules()).await? {
//!     println!("block {number}: {} is {}", module.name, module.state.name());
//! }
//! let mut heads = node.answer(node.new_heads()).await?;
//! println!("block {}", node.next_item(&mut heads).await?.number);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod client;
mod error;
mod namespaces;
mod notices;
mod peer;
mod secret;
mod settings;
mod transport;

pub use client::Client;
pub use error::{Error, SocketError};
pub use jsonrpsee;
pub use namespaces::*;
pub use secret::SecretParams;
pub use settings::ClientSettings;
