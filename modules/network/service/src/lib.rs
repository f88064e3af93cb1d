//! The peer-to-peer network of a running node (`docs/spec/p2p.md` 10 to 12, 15, 23): its sockets, its connections, and the actor
//! that decides about them.
//!
//! [`Network`] starts and stops. The actor owns one `Switchboard` (slots, dialing, standing), one `Discovery` and one
//! [`ChainSync`](tenon_network_sync::ChainSync) (whom to ask for which blocks), which are state machines; listener, datagrams and connections are thin tasks that tell it what happens. Each connection has a `Conversation`
//! of its own, and answers what its peer asks for from a [`ChainReader`](tenon_api::ChainReader).
//!
//! Invariants: no decision stands in a task that owns a socket; everything that comes from outside is bounded, by connection and
//! as a whole (`Doorkeeper`, [`ReceiveBudget`](tenon_network_connection::ReceiveBudget), the mailbox); a peer that stalls costs
//! its own connection only; reads (`GetNetworkStatus`, `ListPeers`) never wait for the actor.

#![forbid(unsafe_code)]

mod actor;
mod ban_file;
mod board;
mod connections;
mod conversation;
mod doorkeeper;
mod files;
mod importing;
mod local_chain;
mod network;
mod progress;
mod rounds;
mod serving;
mod settings;
mod sockets;
mod switchboard;
mod traffic;
mod transactions;

pub use network::{Network, NetworkPorts};
pub use settings::{NetworkSettings, StartError};
pub use tenon_network_connection::{BandwidthLimits, MIN_BYTES_PER_SECOND};
pub use tenon_network_nat::Mechanism;
pub use traffic::{MessageCount, Traffic};
