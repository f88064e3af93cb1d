//! Simulators and emulators: one packet per datagram (`docs/spec/device.md 3.8`).

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tenon_device_framing::{PACKET_LENGTH, Packet, Wire};
use tokio::net::UdpSocket;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use zeroize::Zeroizing;

use crate::{Found, Link, LinkError, Received, Transport};

/// Default port of a simulator's main interface. The debug link has the next port.
pub const DEFAULT_PORT: u16 = 21324;

/// A datagram that asks whether a simulator is running. It is not a packet.
pub const PING: &[u8; 8] = b"PINGPING";

/// The response to [`PING`].
pub const PONG: &[u8; 8] = b"PONGPONG";

/// Precedes the address in a path.
const PATH_PREFIX: &str = "udp:";

/// Time limit for a simulator's response to a [`PING`].
const PONG_TIMEOUT: Duration = Duration::from_millis(500);

/// Silence on a link after which a [`PING`] checks whether the simulator is still running.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// Time without a response to such pings after which the link counts as lost. A simulator is also silent while it
/// derives a seed.
const LOST_AFTER: Duration = Duration::from_secs(5);

/// Maximum number of unexpected datagrams that are read while waiting for a [`PONG`].
const MAX_STRAY: usize = 64;

/// Maximum number of packets that are buffered for a link during a ping. Further ones are dropped.
const MAX_EARLY: usize = 64;

/// The transport for devices over UDP at the addresses in the settings.
#[derive(Clone, Debug)]
pub struct UdpTransport {
    addresses: Vec<SocketAddr>,
    lines: Arc<HashMap<SocketAddr, Slot>>,
    /// Sockets that were opened in advance, by address.
    held: Option<Arc<HashMap<SocketAddr, HeldSockets>>>,
}

/// The latest line to an address, while its link is open. Locked while a link opens and during a ping.
type Slot = Mutex<Weak<Line>>;

/// Sockets for one address, for a process that can't open sockets later: one for links, and one for pings only, so that
/// a ping can't receive a packet of a link.
#[derive(Debug)]
struct HeldSockets {
    link: std::net::UdpSocket,
    question: std::net::UdpSocket,
}

/// The socket of a link. Pings use it too, because a simulator sends its responses to the address of the last datagram:
/// a ping from another socket would divert the link's response.
#[derive(Debug)]
struct Line {
    socket: UdpSocket,
    /// Packets that a ping received for the link. Locked during every read of the socket.
    early: Mutex<VecDeque<Received>>,
}

/// What a socket is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Link,
    Question,
}

impl UdpTransport {
    /// Creates a transport for these addresses of main interfaces.
    ///
    /// # Errors
    /// [`LinkError::NotLoopback`] if an address is not on this machine.
    pub fn new(addresses: impl IntoIterator<Item = SocketAddr>) -> Result<Self, LinkError> {
        let addresses: Vec<_> = addresses.into_iter().collect();
        match addresses.iter().find(|address| !address.ip().is_loopback()) {
            Some(address) => Err(LinkError::NotLoopback { address: address.to_string() }),
            None => {
                let lines = addresses.iter().map(|address| (*address, Slot::default())).collect();
                Ok(Self { addresses, lines: Arc::new(lines), held: None })
            }
        }
    }

    /// Opens and connects all sockets now, for a process that can't open any later. Afterwards only one link at a time
    /// can reach a simulator.
    ///
    /// # Errors
    /// [`LinkError::Open`] if the system can't open a socket for an address.
    pub fn with_open_sockets(self) -> Result<Self, LinkError> {
        let error = |address: &SocketAddr, reason: std::io::Error| LinkError::Open {
            path: Self::path(*address),
            reason: reason.to_string(),
        };
        let opened = self.addresses.iter().map(|address| {
            let socket = || connected(*address).map_err(|reason| error(address, reason));
            Ok((*address, HeldSockets { link: socket()?, question: socket()? }))
        });
        let held = opened.collect::<Result<HashMap<_, _>, LinkError>>()?;
        Ok(Self { held: Some(Arc::new(held)), ..self })
    }

    /// Opens a socket that receives only from this address.
    fn socket(&self, address: SocketAddr, purpose: Purpose) -> std::io::Result<UdpSocket> {
        let Some(held) = &self.held else { return UdpSocket::from_std(connected(address)?) };
        let sockets = held.get(&address).ok_or(std::io::ErrorKind::PermissionDenied)?;
        let socket = match purpose {
            Purpose::Link => &sockets.link,
            Purpose::Question => &sockets.question,
        };
        let socket = UdpSocket::from_std(socket.try_clone()?)?;
        // Drops datagrams of an earlier link.
        let mut stale = Zeroizing::new([0; PACKET_LENGTH + 1]);
        while socket.try_recv(stale.as_mut_slice()).is_ok() {}
        Ok(socket)
    }

    /// Whether a simulator is running at an address of the settings.
    async fn is_there(&self, address: SocketAddr) -> bool {
        let Some(slot) = self.lines.get(&address) else { return false };
        // While this is locked no link opens, whose first response would otherwise arrive at the socket of the ping.
        let slot = slot.lock().await;
        if let Some(line) = slot.upgrade() {
            return line.is_there().await;
        }
        let Ok(socket) = self.socket(address, Purpose::Question) else { return false };
        answers_ping(&socket).await
    }

    /// Opens a line to an interface of the device at an address. `None` if nothing responds.
    async fn line(&self, address: SocketAddr, wire: Wire) -> std::io::Result<Option<Arc<Line>>> {
        if wire == Wire::Debug {
            // No pings are sent to this port.
            let next = SocketAddr::new(address.ip(), address.port().saturating_add(1));
            return Line::open(self.socket(next, Purpose::Link)?).await;
        }
        let slot = self.lines.get(&address).ok_or(std::io::ErrorKind::NotFound)?;
        let mut slot = slot.lock().await;
        let line = Line::open(self.socket(address, Purpose::Link)?).await?;
        if let Some(line) = &line {
            *slot = Arc::downgrade(line);
        }
        Ok(line)
    }

    /// The path of the device at an address.
    pub fn path(address: SocketAddr) -> String {
        format!("{PATH_PREFIX}{address}")
    }

    fn address(&self, path: &str) -> Option<SocketAddr> {
        self.addresses.iter().copied().find(|address| Self::path(*address) == path)
    }
}

#[async_trait]
impl Transport for UdpTransport {
    fn name(&self) -> &'static str {
        "udp"
    }

    async fn list(&self) -> Result<Vec<Found>, LinkError> {
        let answers = self
            .addresses
            .iter()
            .map(|address| async move { self.is_there(*address).await.then(|| Self::path(*address)) });
        let mut paths: Vec<String> = futures_util::future::join_all(answers).await.into_iter().flatten().collect();
        paths.sort();
        let found = |path| Found { path, serial: None, transport: "udp", is_bootloader: false };
        Ok(paths.into_iter().map(found).collect())
    }

    async fn open(&self, path: &str, wire: Wire) -> Result<Box<dyn Link>, LinkError> {
        let address = self.address(path).ok_or_else(|| LinkError::UnknownPath { path: path.into() })?;
        let error = |reason: String| LinkError::Open { path: path.into(), reason };
        let line = self.line(address, wire).await.map_err(|cause| error(cause.to_string()))?;
        let line = line.ok_or_else(|| error(format!("nothing answers at {address}")))?;
        Ok(Box::new(UdpLink { line }))
    }
}

/// A connected, non-blocking socket, which receives only from this address.
fn connected(address: SocketAddr) -> std::io::Result<std::net::UdpSocket> {
    let local: SocketAddr = match address {
        SocketAddr::V4(_) => (Ipv4Addr::LOCALHOST, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::LOCALHOST, 0).into(),
    };
    let socket = std::net::UdpSocket::bind(local)?;
    socket.connect(address)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

async fn answers_ping(socket: &UdpSocket) -> bool {
    let asked = async {
        socket.send(PING).await.ok()?;
        for _ in 0..MAX_STRAY {
            if is_pong(&receive(socket).await.ok()?) {
                return Some(());
            }
        }
        None
    };
    matches!(timeout(PONG_TIMEOUT, asked).await, Ok(Some(())))
}

impl Line {
    /// `None` if nothing responds to a ping.
    async fn open(socket: UdpSocket) -> std::io::Result<Option<Arc<Self>>> {
        let is_there = answers_ping(&socket).await;
        Ok(is_there.then(|| Arc::new(Self { socket, early: Mutex::default() })))
    }

    /// Pings the simulator. Returns `true` if the link is waiting for a packet, because it sends its own pings then.
    async fn is_there(&self) -> bool {
        let Ok(mut early) = self.early.try_lock() else { return true };
        let asked = async {
            self.socket.send(PING).await.ok()?;
            let received = receive(&self.socket).await.ok()?;
            if !is_pong(&received) && early.len() < MAX_EARLY {
                early.push_back(received);
            }
            Some(())
        };
        matches!(timeout(PONG_TIMEOUT, asked).await, Ok(Some(())))
    }
}

/// Receives the next datagram. Dropping the future loses none.
async fn receive(socket: &UdpSocket) -> std::io::Result<Received> {
    // One byte longer than a packet, so that a longer datagram is noticed.
    let mut buffer = Zeroizing::new([0; PACKET_LENGTH + 1]);
    let length = socket.recv(buffer.as_mut_slice()).await?;
    Ok(Received::new(buffer[..length].to_vec()))
}

fn is_pong(received: &Received) -> bool {
    received.as_bytes() == PONG
}

struct UdpLink {
    line: Arc<Line>,
}

#[async_trait]
impl Link for UdpLink {
    async fn send(&mut self, packet: &Packet) -> Result<(), LinkError> {
        let written = self.line.socket.send(packet.as_bytes()).await.map_err(LinkError::lost)?;
        if written == PACKET_LENGTH { Ok(()) } else { Err(LinkError::ShortWrite { written, length: PACKET_LENGTH }) }
    }

    async fn receive(&mut self) -> Result<Received, LinkError> {
        // A person may take minutes, and sending to a closed port reports no error, so pings are needed to notice
        // that a simulator is gone.
        let mut early = self.line.early.lock().await;
        if let Some(received) = early.pop_front() {
            return Ok(received);
        }
        let socket = &self.line.socket;
        let mut unanswered = None;
        loop {
            let Ok(received) = timeout(PING_INTERVAL, receive(socket)).await else {
                if unanswered.is_some_and(|since: Instant| since.elapsed() >= LOST_AFTER) {
                    return Err(LinkError::lost("the simulator no longer answers"));
                }
                unanswered.get_or_insert_with(Instant::now);
                socket.send(PING).await.map_err(LinkError::lost)?;
                continue;
            };
            let received = received.map_err(LinkError::lost)?;
            unanswered = None;
            if !is_pong(&received) {
                return Ok(received);
            }
        }
    }
}
