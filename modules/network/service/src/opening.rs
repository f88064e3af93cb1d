//! Opens the connection to a peer: accepted, or dialed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tenon_network_identity::{NodeId, NodeKey};
use tenon_network_peers::Fault;
use tenon_network_rlpx::{DisconnectReason, Session, SessionSettings};
use tokio::sync::mpsc::Receiver;
use tokio::time::timeout;

use crate::handshake_slot::HandshakeSlot;
use crate::system::{self, TcpStream};

/// Time limit for a dial.
const DIAL_TIMEOUT: Duration = Duration::from_secs(15);

/// The direction of a connection.
pub(crate) enum Start {
    /// Inbound.
    Accepted { stream: TcpStream, remote: SocketAddr, place: HandshakeSlot },
    /// Outbound: this node dials.
    Dial { node: NodeId, address: SocketAddr },
}

/// Why a connection was not opened, or has ended.
pub(crate) struct EndReason {
    pub(crate) reason: String,
    pub(crate) fault: Option<Fault>,
}

impl EndReason {
    pub(crate) fn new(reason: impl ToString) -> Self {
        Self { reason: reason.to_string(), fault: None }
    }
}

/// A connection before its handshake.
pub(crate) struct Opened {
    pub(crate) stream: TcpStream,
    pub(crate) remote: SocketAddr,
    pub(crate) session: Session,
    /// Held until the end of the handshake.
    pub(crate) place: Option<HandshakeSlot>,
}

/// Takes an accepted connection, or dials. Dialing ends with the first of `disconnects`.
pub(crate) async fn open(
    start: Start,
    settings: SessionSettings,
    key: &Arc<NodeKey>,
    disconnects: &mut Receiver<DisconnectReason>,
) -> Result<Opened, EndReason> {
    let random = system::random_for_handshake().map_err(EndReason::new)?;
    match start {
        Start::Accepted { stream, remote, place } => {
            let session = Session::accept(settings, key, random, Duration::ZERO);
            Ok(Opened { stream, remote, session, place: Some(place) })
        }
        Start::Dial { node, address } => {
            let dialed = tokio::select! {
                biased;
                dialed = timeout(DIAL_TIMEOUT, TcpStream::connect(address)) => dialed,
                _ = disconnects.recv() => {
                    return Err(EndReason::new("dial cancelled: the connection is no longer needed"));
                }
            };
            let stream = dialed.map_err(|_| EndReason::new("dial timeout"))?.map_err(EndReason::new)?;
            let session = Session::dial(settings, key, node, random, Duration::ZERO).map_err(EndReason::new)?;
            Ok(Opened { stream, remote: address, session, place: None })
        }
    }
}
