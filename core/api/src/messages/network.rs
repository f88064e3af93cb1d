//! The peer-to-peer network. Topics `0x0b00..`.

use serde::{Deserialize, Serialize};

use super::{event, request};
use crate::{B256, BlockNumber, U256};

/// This node's identity and addresses on the network; `None` while the network is off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetNetworkNode;
request!(GetNetworkNode => Option<NetworkNode>, topic 0x0b00, ReadNode);

/// This node's identity and addresses on the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkNode {
    /// Its public key, 128 hexadecimal digits.
    pub id: String,
    /// Its enode URL.
    pub enode: String,
    /// The address in that URL.
    pub ip: String,
    /// Address and port that it listens on.
    pub listen_address: String,
    /// UDP port of discovery; 0 if discovery is off.
    pub discovery_port: u16,
    /// TCP port.
    pub listener_port: u16,
}

/// The connected peers, by their identifiers; none while the network is off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListPeers;
request!(ListPeers => Vec<PeerInfo>, topic 0x0b01, ReadNode);

/// A connected peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerInfo {
    /// Its public key, 128 hexadecimal digits.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Protocols that it supports, such as `eth/100`, sorted by name and version.
    pub capabilities: Vec<String>,
    /// Address and port of this side.
    pub local_address: String,
    /// Address and port of the peer.
    pub remote_address: String,
    /// Whether the peer dialed.
    pub is_inbound: bool,
    /// Whether it is exempt from limits.
    pub is_trusted: bool,
    /// Whether the operator named it.
    pub is_static: bool,
    /// Connections with it: one or two.
    pub connections: u64,
    /// What it says about its chain; `None` until its Status.
    pub chain: Option<PeerChain>,
}

/// What a peer says about its chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerChain {
    /// Agreed version of `eth`.
    pub version: u32,
    /// Total difficulty of its head.
    pub total_difficulty: U256,
    /// Hash of its head.
    pub head: B256,
    /// Height of its head, once the peer has shown the header.
    pub number: Option<BlockNumber>,
}

/// A change of a peer's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerChange {
    /// Keep a connection to it.
    Add,
    /// End its connection and do not dial it again.
    Remove,
    /// Exempt it from limits.
    Trust,
    /// End the exemption.
    Distrust,
}

/// Checks an enode URL and changes the status of its node. True means that the change is recorded; the connection may
/// not exist yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangePeer {
    /// The URL.
    pub url: String,
    /// The change.
    pub change: PeerChange,
}
request!(ChangePeer => bool, topic 0x0b02, Administer);

/// A connection was established or has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerChanged {
    /// The peer's public key, 128 hexadecimal digits.
    pub peer: String,
    /// Whether the connection was established.
    pub is_connected: bool,
    /// Why it ended.
    pub error: Option<String>,
}
event!(PeerChanged, topic 0x8009, ReadNode);
