//! Programs that connect to a node's port and do not behave like a node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::U256;
use tenon_network_connection::{Bandwidth, Channels, Command, ConnectionEnd, Event, ReceiveBudget, drive};
use tenon_network_identity::{Enode, NodeId};
use tenon_network_rlpx::{Offer, Session, SessionSettings};
use tenon_network_wire::{EthSession, HeaderOrigin, HeaderRequest, Kind, Message, Status, version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc::channel;
use tokio::time::{Instant, sleep};

use super::node::NETWORK_ID;
use super::system::{self, TcpStream};

fn address(enode: &Enode) -> SocketAddr {
    enode.endpoint.unwrap().tcp_address()
}

/// Connects and says nothing. Returns how long the connection lasted.
pub(super) async fn connect_without_sending(node: Enode) -> Duration {
    let Ok(mut stream) = TcpStream::connect(address(&node)).await else { return Duration::ZERO };
    let begun = Instant::now();
    // Anything that is not a byte ends the connection.
    let read = stream.read(&mut [0]).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    begun.elapsed()
}

/// Connects and sends the beginning of a handshake, a byte at a time. Returns how long the connection lasted.
pub(super) async fn send_handshake_slowly(node: Enode) -> Duration {
    let mut stream = TcpStream::connect(address(&node)).await.unwrap();
    let begun = Instant::now();
    loop {
        tokio::select! {
            biased;
            read = stream.read_u8() => {
                assert!(read.is_err(), "{read:?}");
                return begun.elapsed();
            }
            () = sleep(Duration::from_millis(200)) => {}
        }
        if stream.write_all(&[1]).await.is_err() {
            return begun.elapsed();
        }
    }
}

/// A peer that requests headers and does not read the answers.
pub(super) struct SlowReader {
    /// Its identifier.
    pub(super) id: NodeId,
    key: Arc<tenon_network_identity::NodeKey>,
}

impl SlowReader {
    pub(super) fn new() -> Self {
        let key = Arc::new(system::random_key());
        Self { id: key.id(), key }
    }

    /// Returns how long the session lasted, and its end as this side sees it.
    pub(super) async fn run(self, node: Enode, status: Status, requests: usize) -> (Duration, ConnectionEnd) {
        let version = version(100).unwrap();
        let stream = TcpStream::connect(address(&node)).await.unwrap();
        let settings = SessionSettings::new("slow", vec![Offer::new("eth", 100, version.length)]);
        let random = system::random_for_handshake().unwrap();
        let session = Session::dial(settings, &self.key, node.id, random, Duration::ZERO).unwrap();
        let ((events_in, mut events), (urgent, urgent_out), (_bulk, bulk)) = (channel(1), channel(1), channel(1));
        let bandwidth = Bandwidth::default().share();
        let (budget, address) = (ReceiveBudget::default(), stream.peer_addr().unwrap().ip());
        let channels = Channels { events: events_in, urgent: urgent_out, bulk, budget, address, bandwidth };
        let driving = tokio::task::spawn_local(drive(stream, session, channels, Instant::now()));
        assert!(matches!(events.recv().await, Some(Event::Authenticated(_))));
        urgent.send(Command::Admit).await.unwrap();
        assert!(matches!(events.recv().await, Some(Event::Greeted { .. })));
        urgent.send(Command::Admit).await.unwrap();
        let send = |code, payload| Command::Send { protocol: 0, code, payload, written: None };
        let payload = EthSession::new(version, status, Duration::ZERO).status_payload();
        urgent.send(send(0, payload)).await.unwrap();
        let begun = Instant::now();

        // Nothing more is read while this is held.
        let _held = events.recv().await;
        let amount = HeaderRequest { origin: HeaderOrigin::Number(0), amount: 5, skip: 0, is_reverse: false };
        let (kind, payload) = Message::GetBlockHeaders(amount).encode().unwrap();
        assert_eq!(kind, Kind::GetBlockHeaders);
        for _ in 0..requests {
            // Fails once the node has closed the connection.
            let _ = urgent.send(send(version.code(kind).unwrap(), payload.clone())).await;
        }
        (begun.elapsed(), driving.await.unwrap())
    }
}

/// The Status of a peer that has nothing but the genesis block.
pub(super) fn empty_status(genesis: alloy_primitives::B256) -> Status {
    let total_difficulty = U256::from(1);
    Status { version: 100, network: NETWORK_ID, total_difficulty, head: genesis, genesis, fork_id: None }
}
