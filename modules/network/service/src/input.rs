//! What the actor receives from the tasks of the network.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use alloy_primitives::{B256, U256};
use tenon_api::messages::PeerChange;
use tenon_api::{Block, BlockVerdict, FailedBlock, RoundMessage, SealedHeader, UnusableNode};
use tenon_network_identity::{Enode, NodeId};
use tenon_network_peers::Fault;
use tenon_network_rlpx::{DisconnectReason, Hello};
use tenon_network_sync::CheckedBody;
use tenon_network_wire::Status;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::connection_manager::ConnectionId;
use crate::conversation::Delivery;
use crate::handshake_slot::HandshakeSlot;
use crate::message_work::InProgress;
use crate::system::TcpStream;
use crate::transactions::GossipItem;

/// An event or a request for the actor.
pub(crate) enum Input {
    /// An inbound connection passed the connection limiter.
    Arrived {
        stream: TcpStream,
        remote: SocketAddr,
        /// Held until its handshake is over.
        place: HandshakeSlot,
    },
    /// A peer has authenticated: the handshake proved its key.
    Authenticated {
        connection: ConnectionId,
        node: NodeId,
        local: Option<SocketAddr>,
        answer: oneshot::Sender<Result<(), DisconnectReason>>,
    },
    /// A peer has sent Hello.
    Greeted { connection: ConnectionId, hello: Hello, answer: oneshot::Sender<Result<(), DisconnectReason>> },
    /// A peer has sent the Status of the same chain.
    Established { connection: ConnectionId, status: Status },
    /// The head of a peer has changed.
    NewHead { connection: ConnectionId, hash: B256, total_difficulty: U256, number: u64 },
    /// A peer has sent a message.
    PeerMessage {
        connection: ConnectionId,
        delivered: PeerMessage,
        /// Reading from this peer continues when this is dropped.
        in_progress: Option<InProgress>,
    },
    /// The import has inserted blocks.
    Imported,
    /// The import has ended.
    ImportEnded(Result<(), FailedBlock>),
    /// A header was verified, or refused.
    HeaderVerified { hash: B256, verdict: BlockVerdict },
    /// A block was inserted, or refused.
    Inserted { header: Arc<SealedHeader>, verdict: BlockVerdict },
    /// A consensus message. It is sent to the peers that do not know it, or to all peers if it is repeated.
    Broadcast { message: RoundMessage, is_repeated: bool },
    /// This node has made a block.
    Announce(Arc<Block>, U256),
    /// Transactions became pending.
    Pending(Vec<GossipItem>),
    /// Pending transactions for a new peer.
    PendingForPeer(NodeId, Vec<GossipItem>),
    /// A fault of a peer.
    Fault { connection: ConnectionId, fault: Fault },
    /// A connection has ended.
    Ended { connection: ConnectionId, reason: String },
    /// A datagram, with its place in the queue.
    Datagram { from: SocketAddr, bytes: Vec<u8>, _place: OwnedSemaphorePermit },
    /// A router has named the public address of this node.
    External(IpAddr),
    /// A request of the operator about a peer.
    Change { enode: Enode, change: PeerChange, answer: oneshot::Sender<Result<(), UnusableNode>> },
    /// The timer has fired.
    Tick,
}

/// A message of a peer, prepared for the actor.
pub(crate) enum PeerMessage {
    /// Every message but bodies.
    Plain(Delivery),
    /// Bodies with their computed roots.
    Bodies(Vec<CheckedBody>),
}
