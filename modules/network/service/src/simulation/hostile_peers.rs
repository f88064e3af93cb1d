//! Programs that connect to a node's port and do not behave like a node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{B256, U256};
use tenon_api::{Header, SealedHeader};
use tenon_memory_chain::network_ports::header_after;
use tenon_network_connection::{Bandwidth, Channels, Command, ConnectionEnd, Event, ReceiveBudget, drive};
use tenon_network_identity::{Enode, NodeId, NodeKey};
use tenon_network_rlpx::{OfferedProtocol, Session, SessionSettings};
use tenon_network_wire::{EthSession, HeaderOrigin, HeaderRequest, Kind, Message, Status, version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
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

/// A connection to a node, after Hello and this side's Status.
struct Connected {
    events: Receiver<Event>,
    urgent: Sender<Command>,
    /// Not used, but the connection ends if it is dropped.
    _bulk: Sender<Command>,
    driving: JoinHandle<ConnectionEnd>,
}

async fn connect(name: &str, key: &Arc<NodeKey>, node: &Enode, status: Status) -> Connected {
    let version = version(100).unwrap();
    let stream = TcpStream::connect(address(node)).await.unwrap();
    let settings = SessionSettings::new(name, vec![OfferedProtocol::new("eth", 100, version.length)]);
    let random = system::random_for_handshake().unwrap();
    let session = Session::dial(settings, key, node.id, random, Duration::ZERO).unwrap();
    let ((events_in, mut events), (urgent, urgent_out), (bulk_in, bulk)) = (channel(1), channel(1), channel(1));
    let bandwidth = Bandwidth::default().share();
    let (budget, address) = (ReceiveBudget::default(), stream.peer_addr().unwrap().ip());
    let channels = Channels { events: events_in, urgent: urgent_out, bulk, budget, address, bandwidth };
    let driving = tokio::task::spawn_local(drive(stream, session, channels, Instant::now()));
    assert!(matches!(events.recv().await, Some(Event::Authenticated(_))));
    urgent.send(Command::Admit).await.unwrap();
    assert!(matches!(events.recv().await, Some(Event::Greeted { .. })));
    urgent.send(Command::Admit).await.unwrap();
    let payload = EthSession::new(version, status, Duration::ZERO).status_payload();
    urgent.send(send(0, payload)).await.unwrap();
    Connected { events, urgent, _bulk: bulk_in, driving }
}

const fn send(code: u64, payload: Vec<u8>) -> Command {
    Command::Send { protocol: 0, code, payload, written: None }
}

/// A peer that requests headers and does not read the answers.
pub(super) struct SlowReader {
    /// Its identifier.
    pub(super) id: NodeId,
    key: Arc<NodeKey>,
}

impl SlowReader {
    pub(super) fn new() -> Self {
        let key = Arc::new(system::random_key());
        Self { id: key.id(), key }
    }

    /// Returns how long the session lasted, and its end as this side sees it.
    pub(super) async fn run(self, node: Enode, status: Status, requests: usize) -> (Duration, ConnectionEnd) {
        let mut connected = connect("slow", &self.key, &node, status).await;
        let begun = Instant::now();

        // Nothing more is read while this is held.
        let _held = connected.events.recv().await;
        let amount = HeaderRequest { origin: HeaderOrigin::Number(0), amount: 5, skip: 0, is_reverse: false };
        let (kind, payload) = Message::GetBlockHeaders(amount).encode().unwrap();
        assert_eq!(kind, Kind::GetBlockHeaders);
        let code = version(100).unwrap().code(kind).unwrap();
        for _ in 0..requests {
            // Fails once the node has closed the connection.
            let _ = connected.urgent.send(send(code, payload.clone())).await;
        }
        (begun.elapsed(), connected.driving.await.unwrap())
    }
}

/// Time after which a [`FalseClaim`] answers: just within the limit.
const LATE_ANSWER: Duration = Duration::from_millis(4_500);

/// A peer that claims a chain of an immense total difficulty.
pub(super) struct FalseClaim {
    key: Arc<NodeKey>,
    /// The real chain, on which its headers are based; empty if it answers nothing.
    real: Vec<SealedHeader>,
    /// The head that it claims.
    head: SealedHeader,
}

impl FalseClaim {
    /// Answers requests for headers late: with real headers, and with forged ones above those.
    pub(super) fn with_forgeries_above(real: Vec<SealedHeader>) -> Self {
        let head = forged(real.len() as u64 + 150, B256::repeat_byte(4));
        Self { key: Arc::new(system::random_key()), real, head }
    }

    /// Answers nothing.
    pub(super) fn silent() -> Self {
        Self { key: Arc::new(system::random_key()), real: Vec::new(), head: forged(150, B256::repeat_byte(5)) }
    }

    /// Runs until the node ends the connection.
    pub(super) async fn run(self, node: Enode, genesis: B256) {
        let head = self.head.hash();
        let status = Status { head, total_difficulty: U256::from(1) << 200, ..empty_status(genesis) };
        let mut connected = connect("liar", &self.key, &node, status).await;
        let version = version(100).unwrap();
        let mut forgeries = self.real.clone();
        while let Some(event) = connected.events.recv().await {
            let Event::Message { code, payload, .. } = event else { continue };
            let Ok(Message::GetBlockHeaders(request)) = Message::decode(version, code, &payload) else { continue };
            if self.real.is_empty() {
                continue;
            }
            let (kind, answer) = Message::BlockHeaders(self.answer(&request, &mut forgeries)).encode().unwrap();
            sleep(LATE_ANSWER).await;
            // Fails once the node has closed the connection.
            let _ = connected.urgent.send(send(version.code(kind).unwrap(), answer)).await;
        }
    }

    /// `forgeries`: the headers so far, from genesis on.
    fn answer(&self, request: &HeaderRequest, forgeries: &mut Vec<SealedHeader>) -> Vec<SealedHeader> {
        let HeaderOrigin::Number(first) = request.origin else { return vec![self.head.clone()] };
        if let Some(real) = self.real.get(usize::try_from(first).unwrap()..).filter(|real| !real.is_empty()) {
            return real.to_vec();
        }
        let parent = forgeries.last().unwrap().hash();
        let header = forged(first, parent);
        forgeries.push(header.clone());
        vec![header]
    }
}

/// A header whose body no peer has.
fn forged(number: u64, parent: B256) -> SealedHeader {
    let header = header_after(parent, number).header().clone();
    tenon_chain::seal(Header { ommers_hash: B256::repeat_byte(3), ..header })
}

/// The Status of a peer that has nothing but the genesis block.
pub(super) fn empty_status(genesis: B256) -> Status {
    let total_difficulty = U256::from(1);
    Status { version: 100, network: NETWORK_ID, total_difficulty, head: genesis, genesis, fork_id: None }
}
