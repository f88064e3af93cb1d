//! The peer-to-peer network of a running node (`docs/spec/p2p.md` 10 to 12, 15, 23): its sockets, its connections, and the actor
//! that decides about them.
//!
//! [`Network`] starts and stops. The actor owns one `ConnectionManager` (slots, dialing, reputation), one `Discovery` and one
//! [`ChainSync`](tenon_network_sync::ChainSync) (which blocks to request from which peer), which are state machines. Listener,
//! datagrams and connections are thin tasks that report events to it. Each connection has its own `Conversation`, and
//! answers the requests of its peer from an [`EncodedChainReader`](tenon_api::EncodedChainReader).
//!
//! Invariants:
//!
//! - no task that owns a socket makes a decision;
//! - everything that comes from outside is bounded, by connection and as a whole (`ConnectionLimiter`,
//!   [`ReceiveBudget`](tenon_network_connection::ReceiveBudget), the mailbox);
//! - a stalled peer delays its own connection only;
//! - reads (`GetNetworkStatus`, `ListPeers`) never wait for the actor.

#![forbid(unsafe_code)]

mod actor;
mod ban_file;
mod connection_limiter;
mod connection_manager;
mod connections;
mod conversation;
mod files;
mod handshake_slot;
mod importing;
mod input;
mod link;
mod local_chain;
mod message_work;
mod network;
mod opening;
mod pool;
mod progress;
mod published_state;
mod rounds;
mod serving;
mod settings;
#[cfg(test)]
mod simulation;
mod sockets;
mod system;
mod traffic;
mod transactions;

pub use network::{ACTOR, MAX_NETWORK_STOP_TIME, Network, NetworkPorts};
pub use settings::{NetworkSettings, NetworkStartError};
pub use tenon_network_connection::{BandwidthLimits, MIN_BYTES_PER_SECOND};
pub use tenon_network_nat::Mechanism;
pub use traffic::{MessageCount, Traffic};
