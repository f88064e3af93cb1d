//! A scripted peer: a socket, a session of the transport, and the messages of `eth` over it.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use tenon_api::{B256, U256};
use tenon_network_identity::{Enode, NodeKey};
use tenon_network_rlpx::{HandshakeRandom, OfferedProtocol, Output, Session, SessionSettings};
use tenon_network_wire::{AcceptedMessages, EthSession, Kind, Message, Received, Status, VERSIONS, Version, version};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::Outcome;

const READ_BYTES: usize = 64 * 1024;
/// Limit of the wait for any message.
const LIMIT: Duration = Duration::from_secs(60);
/// The newest version that every node of these chains speaks.
const VERSION: u32 = 100;

/// The node that the peers connect to.
#[derive(Args, Clone, Debug)]
pub(crate) struct Target {
    /// Its enode URL
    #[arg(long)]
    node: Enode,
    /// Its network id
    #[arg(long, default_value_t = 5151)]
    network: u64,
    /// Hash of its genesis block
    #[arg(long)]
    genesis: B256,
}

/// A connection after the exchange of Status.
pub(crate) struct Peer {
    stream: TcpStream,
    session: Session,
    version: &'static Version,
    began: Instant,
    /// Bytes that the socket has not taken yet. Kept here, so that a dropped future loses none.
    unwritten: Vec<u8>,
    /// Messages that have arrived but were not taken yet.
    arrived: VecDeque<(u64, Vec<u8>)>,
}

/// A local address for a peer. The node limits the connections of one address.
pub(crate) const fn source(place: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1, place + 1)
}

impl Target {
    /// Connects a peer that claims this head and total difficulty.
    pub(crate) async fn connect(&self, from: Ipv4Addr, head: B256, total_difficulty: U256) -> Outcome<Peer> {
        let version = version(VERSION).ok_or("no such version")?;
        let mut peer = self.greet(from, version).await?;
        let status = Status {
            version: VERSION,
            network: self.network,
            total_difficulty,
            head,
            genesis: self.genesis,
            fork_id: None,
        };
        let mut eth = EthSession::new(version, status, Duration::ZERO);
        peer.send(Kind::Status, &eth.status_payload()).await?;
        let (code, payload) = peer.next().await?;
        let acceptance = AcceptedMessages::ALL;
        match eth.receive(code, &payload, acceptance)? {
            Received::Established(_) => Ok(peer),
            other => Err(format!("not a Status: {other:?}").into()),
        }
    }

    /// Connects a peer that only has the genesis block.
    pub(crate) async fn connect_empty(&self, from: Ipv4Addr) -> Outcome<Peer> {
        self.connect(from, self.genesis, U256::from(1)).await
    }

    async fn greet(&self, from: Ipv4Addr, version: &'static Version) -> Outcome<Peer> {
        let endpoint = self.node.endpoint.ok_or("the URL has no address")?;
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(from.into(), 0))?;
        let stream = socket.connect(SocketAddr::new(endpoint.ip, endpoint.tcp)).await?;
        stream.set_nodelay(true)?;
        let offers = VERSIONS.iter().filter(|offered| offered.number == version.number);
        let offers = offers.map(|offered| OfferedProtocol::new("eth", offered.number.into(), offered.length)).collect();
        let (key, random) = (Arc::new(NodeKey::random()?), HandshakeRandom::generate()?);
        let settings = SessionSettings::new("tenon-bench-network", offers);
        let session = Session::dial(settings, &key, self.node.id, random, Duration::ZERO)?;
        let (began, unwritten, arrived) = (Instant::now(), Vec::new(), VecDeque::new());
        let mut peer = Peer { stream, session, version, began, unwritten, arrived };
        timeout(LIMIT, async {
            while peer.session.agreed().is_empty() {
                peer.turn().await?;
            }
            Outcome::Ok(())
        })
        .await??;
        Ok(peer)
    }
}

impl Peer {
    /// Handles what was received, writes what has to be written, then waits for more. May be dropped at any time.
    async fn turn(&mut self) -> Outcome<()> {
        self.handle()?;
        self.flush().await?;
        if !self.arrived.is_empty() {
            return Ok(());
        }
        let mut bytes = [0; READ_BYTES];
        let read = self.stream.read(&mut bytes).await?;
        if read == 0 {
            return Err("the node closed the connection".into());
        }
        self.session.receive(&bytes[..read]);
        self.handle()
    }

    fn handle(&mut self) -> Outcome<()> {
        let now = self.began.elapsed();
        while let Some(output) = self.session.next_output(now) {
            match output {
                Output::Write(bytes) => self.unwritten.extend(bytes),
                Output::Authenticated { .. } | Output::Greeted { .. } => self.session.admit(now),
                Output::Message { code, payload, .. } => self.arrived.push_back((code, payload)),
                Output::Closed(reason) => return Err(reason.into()),
            }
        }
        Ok(())
    }

    /// Writes everything. May be dropped at any time.
    pub(crate) async fn flush(&mut self) -> Outcome<()> {
        while !self.unwritten.is_empty() {
            let written = self.stream.write(&self.unwritten).await?;
            self.unwritten.drain(..written);
        }
        Ok(())
    }

    /// Sends a payload.
    pub(crate) async fn send(&mut self, kind: Kind, payload: &[u8]) -> Outcome<()> {
        self.session.send(0, self.version.code(kind).ok_or("not in this version")?, payload)?;
        self.handle()?;
        self.flush().await
    }

    /// Sends a message.
    pub(crate) async fn send_message(&mut self, message: &Message) -> Outcome<()> {
        let (kind, payload) = message.encode().ok_or("never sent")?;
        self.send(kind, &payload).await
    }

    /// The next message, without a time limit: its code and payload. May be dropped at any time.
    pub(crate) async fn next(&mut self) -> Outcome<(u64, Vec<u8>)> {
        loop {
            if let Some(message) = self.arrived.pop_front() {
                return Ok(message);
            }
            self.turn().await?;
        }
    }

    /// The payload of the next message of this kind; others are dropped.
    pub(crate) async fn next_of(&mut self, kind: Kind) -> Outcome<Vec<u8>> {
        let code = self.version.code(kind).ok_or("not in this version")?;
        let wanted = async {
            loop {
                let (found, payload) = self.next().await?;
                if found == code {
                    return Outcome::Ok(payload);
                }
            }
        };
        timeout(LIMIT, wanted).await?
    }

    /// The next message of this kind; others are dropped.
    pub(crate) async fn next_message(&mut self, kind: Kind) -> Outcome<Message> {
        let payload = self.next_of(kind).await?;
        self.decode(self.version.code(kind).ok_or("not in this version")?, &payload)
    }

    /// Decodes a message that arrived.
    pub(crate) fn decode(&self, code: u64, payload: &[u8]) -> Outcome<Message> {
        Ok(Message::decode(self.version, code, payload)?)
    }
}
