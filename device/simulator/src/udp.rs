//! A simulated device over UDP, like the vendor's emulators (`docs/spec/device.md 3.8`).

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tenon_device_transport::udp::{PING, PONG};
use tenon_device_transport::{Link as _, PACKET_LENGTH, Wire};
use tokio::net::UdpSocket;

use crate::Simulator;

/// The two sockets of a device, on consecutive ports of the loopback address.
pub struct Sockets {
    main: UdpSocket,
    debug: UdpSocket,
}

/// Number of port pairs to try if no port is given.
const ATTEMPTS: usize = 64;

impl Sockets {
    /// Binds `port` and the next one. For port 0, binds any free pair.
    ///
    /// # Errors
    /// The error of the operating system if a port is in use.
    pub async fn bind(port: u16) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..if port == 0 { ATTEMPTS } else { 1 } {
            match Self::bind_pair(port).await {
                Ok(sockets) => return Ok(sockets),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn bind_pair(port: u16) -> io::Result<Self> {
        let main = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let next = main.local_addr()?.port().checked_add(1).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self { main, debug: UdpSocket::bind((Ipv4Addr::LOCALHOST, next)).await? })
    }

    /// The address of the main interface.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.main.local_addr()
    }
}

/// Forwards packets between a device and its sockets while the future is polled.
///
/// # Errors
/// The error of the operating system.
pub async fn serve(simulator: Arc<Simulator>, sockets: Sockets) -> io::Result<()> {
    let main = serve_wire(&simulator, Wire::Main, sockets.main);
    let debug = serve_wire(&simulator, Wire::Debug, sockets.debug);
    tokio::try_join!(main, debug).map(|_| ())
}

/// Sends responses to the sender of the last datagram. Pads datagrams that are shorter than a packet with zeros.
async fn serve_wire(simulator: &Simulator, wire: Wire, socket: UdpSocket) -> io::Result<()> {
    let mut host: Option<SocketAddr> = None;
    let (mut to_device, mut from_device) = (simulator.link(wire), simulator.link(wire));
    let mut buffer = [0; PACKET_LENGTH + 1];
    loop {
        tokio::select! {
            received = socket.recv_from(&mut buffer) => {
                // An error here is about an earlier response that was not delivered. It is ignored.
                let Ok((length, sender)) = received else { continue };
                if !simulator.is_plugged() {
                    continue;
                }
                host = Some(sender);
                if buffer[..length] == PING[..] {
                    socket.send_to(PONG, sender).await?;
                } else if length <= PACKET_LENGTH {
                    let mut packet = [0; PACKET_LENGTH];
                    packet[..length].copy_from_slice(&buffer[..length]);
                    // If the device was just disconnected, the packet is lost, as with a real one.
                    let _ = to_device.send_bytes(packet).await;
                }
            }
            packet = from_device.receive(), if simulator.is_plugged() => {
                if let (Ok(packet), Some(host)) = (packet, host) {
                    socket.send_to(packet.as_bytes(), host).await?;
                }
            }
        }
    }
}
