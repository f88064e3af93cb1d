//! Simulators and emulators: a packet a datagram (`docs/spec/device.md 3.8`).

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tenon_device_framing::{PACKET_LENGTH, Packet, Wire};
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout};
use zeroize::Zeroizing;

use crate::{Found, Link, LinkError, Received, Transport};

/// The port of a simulator's main interface, unless another is chosen. The debug link's is the next.
pub const DEFAULT_PORT: u16 = 21324;

/// What asks whether a simulator is there; it is no packet.
pub const PING: &[u8; 8] = b"PINGPING";

/// The answer to [`PING`].
pub const PONG: &[u8; 8] = b"PONGPONG";

/// In front of the address in a path.
const PATH_PREFIX: &str = "udp:";

/// How long a simulator has to answer a [`PING`].
const PONG_TIMEOUT: Duration = Duration::from_millis(500);

/// How long a link is silent before a [`PING`] asks whether the simulator is still there.
const PING_EVERY: Duration = Duration::from_secs(1);

/// How long such questions go unanswered before the link counts as lost. A simulator that derives a seed is silent, too.
const LOST_AFTER: Duration = Duration::from_secs(5);

/// Stray datagrams that are read while waiting for a [`PONG`].
const MAX_STRAY: usize = 64;

/// Devices over UDP at the addresses that the settings name.
#[derive(Clone, Debug)]
pub struct UdpTransport {
    addresses: Vec<SocketAddr>,
    /// Sockets that were opened beforehand, by address.
    held: Option<Arc<HashMap<SocketAddr, HeldSockets>>>,
}

/// Sockets of an address for a process that may open none later: one for exchanges, and one that only asks whether a
/// simulator is there, so that it takes no answer away.
#[derive(Debug)]
struct HeldSockets {
    link: std::net::UdpSocket,
    question: std::net::UdpSocket,
}

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Link,
    Question,
}

impl UdpTransport {
    /// A transport to these addresses, each that of a main interface.
    ///
    /// # Errors
    /// [`LinkError::NotLoopback`] for an address beyond this machine.
    pub fn new(addresses: impl IntoIterator<Item = SocketAddr>) -> Result<Self, LinkError> {
        let addresses: Vec<_> = addresses.into_iter().collect();
        match addresses.iter().find(|address| !address.ip().is_loopback()) {
            Some(address) => Err(LinkError::NotLoopback { address: address.to_string() }),
            None => Ok(Self { addresses, held: None }),
        }
    }

    /// The same with sockets that are opened now and connected: for a process that gives up opening others. One exchange
    /// at a time reaches a simulator then.
    ///
    /// # Errors
    /// [`LinkError::Open`]: the system has no socket for an address.
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

    /// A socket that hears this address only.
    fn socket(&self, address: SocketAddr, purpose: Purpose) -> std::io::Result<UdpSocket> {
        let Some(held) = &self.held else { return UdpSocket::from_std(connected(address)?) };
        let sockets = held.get(&address).ok_or(std::io::ErrorKind::PermissionDenied)?;
        let socket = match purpose {
            Purpose::Link => &sockets.link,
            Purpose::Question => &sockets.question,
        };
        let socket = UdpSocket::from_std(socket.try_clone()?)?;
        // What came for an earlier exchange is not for this one.
        let mut stale = Zeroizing::new([0; PACKET_LENGTH + 1]);
        while socket.try_recv(stale.as_mut_slice()).is_ok() {}
        Ok(socket)
    }

    /// The path of the device at an address.
    pub fn path(address: SocketAddr) -> String {
        format!("{PATH_PREFIX}{address}")
    }

    fn address(&self, path: &str) -> Option<SocketAddr> {
        self.addresses.iter().copied().find(|address| Self::path(*address) == path)
    }
}

impl Transport for UdpTransport {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Found>, LinkError>> {
        Box::pin(async move {
            let answers = self.addresses.iter().map(|address| async move {
                let socket = self.socket(*address, Purpose::Question).ok()?;
                answers_ping(&socket).await.then(|| Self::path(*address))
            });
            let mut paths: Vec<String> = futures_util::future::join_all(answers).await.into_iter().flatten().collect();
            paths.sort();
            let found = |path| Found { path, serial: None, transport: "udp", is_bootloader: false };
            Ok(paths.into_iter().map(found).collect())
        })
    }

    fn open<'a>(&'a self, path: &'a str, wire: Wire) -> BoxFuture<'a, Result<Box<dyn Link>, LinkError>> {
        Box::pin(async move {
            let mut address = self.address(path).ok_or_else(|| LinkError::UnknownPath { path: path.into() })?;
            if wire == Wire::Debug {
                address.set_port(address.port().saturating_add(1));
            }
            let error = |reason: String| LinkError::Open { path: path.into(), reason };
            let socket = self.socket(address, Purpose::Link).map_err(|cause| error(cause.to_string()))?;
            if !answers_ping(&socket).await {
                return Err(error(format!("nothing answers at {address}")));
            }
            Ok(Box::new(UdpLink { socket }) as Box<dyn Link>)
        })
    }
}

/// A socket that hears this address only, for a runtime.
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
        let mut buffer = Zeroizing::new([0; PACKET_LENGTH]);
        for _ in 0..MAX_STRAY {
            let length = socket.recv(buffer.as_mut_slice()).await.ok()?;
            if buffer[..length] == PONG[..] {
                return Some(());
            }
        }
        None
    };
    matches!(timeout(PONG_TIMEOUT, asked).await, Ok(Some(())))
}

struct UdpLink {
    socket: UdpSocket,
}

impl Link for UdpLink {
    fn send<'a>(&'a mut self, packet: &'a Packet) -> BoxFuture<'a, Result<(), LinkError>> {
        Box::pin(async move {
            let written = self.socket.send(packet.as_bytes()).await.map_err(LinkError::lost)?;
            if written == PACKET_LENGTH {
                Ok(())
            } else {
                Err(LinkError::ShortWrite { written, length: PACKET_LENGTH })
            }
        })
    }

    fn receive(&mut self) -> BoxFuture<'_, Result<Received, LinkError>> {
        Box::pin(async {
            // A person may take minutes, and a datagram to nobody fails nothing: a simulator that is gone is found out by asking.
            let mut unanswered = None;
            loop {
                // One byte more than a packet has, so that a longer datagram is seen to be longer.
                let mut buffer = Zeroizing::new([0; PACKET_LENGTH + 1]);
                let Ok(received) = timeout(PING_EVERY, self.socket.recv(buffer.as_mut_slice())).await else {
                    if unanswered.is_some_and(|since: Instant| since.elapsed() >= LOST_AFTER) {
                        return Err(LinkError::lost("nothing answers any more"));
                    }
                    unanswered.get_or_insert_with(Instant::now);
                    self.socket.send(PING).await.map_err(LinkError::lost)?;
                    continue;
                };
                let length = received.map_err(LinkError::lost)?;
                unanswered = None;
                if buffer[..length] != PONG[..] {
                    return Ok(Received::new(buffer[..length].to_vec()));
                }
            }
        })
    }
}
