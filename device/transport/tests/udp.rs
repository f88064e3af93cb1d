//! UDP with sockets of the test.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::net::SocketAddr;
use std::time::Duration;

use tenon_device_framing::Packets;
use tenon_device_transport::udp::{PING, PONG};
use tenon_device_transport::{Link, LinkError, Packet, Transport, UdpTransport, Wire};
use tokio::net::UdpSocket;
use tokio::time::timeout;

async fn device() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn packet() -> Packet {
    Packets::new(55, b"").unwrap().next().unwrap()
}

/// Responds to one ping; returns its sender.
async fn answer_ping(socket: &UdpSocket) -> SocketAddr {
    let mut buffer = [0; 100];
    let (length, host) = socket.recv_from(&mut buffer).await.unwrap();
    assert_eq!(&buffer[..length], PING);
    socket.send_to(PONG, host).await.unwrap();
    host
}

/// Opens the main link of a device. Returns the device's socket, the transport, the link, and the link's address.
async fn open_link() -> (UdpSocket, UdpTransport, Box<dyn Link>, SocketAddr) {
    let (socket, address) = device().await;
    let transport = UdpTransport::new([address]).unwrap();
    let path = UdpTransport::path(address);
    let (link, host) = tokio::join!(transport.open(&path, Wire::Main), answer_ping(&socket));
    (socket, transport, link.unwrap(), host)
}

#[tokio::test]
async fn carries_one_packet_per_datagram() {
    let (socket, _transport, mut link, host) = open_link().await;

    link.send(&packet()).await.unwrap();
    let mut buffer = [0; 100];
    let (length, _) = socket.recv_from(&mut buffer).await.unwrap();
    socket.send_to(PONG, host).await.unwrap();
    socket.send_to(&[7; 64], host).await.unwrap();

    assert_eq!(buffer[..length], packet().as_bytes()[..]);
    assert_eq!(link.receive().await.unwrap().as_bytes(), [7; 64], "the stray answer to a ping is skipped");
}

#[tokio::test]
async fn returns_datagrams_of_other_lengths_unchanged() {
    let (socket, _transport, mut link, host) = open_link().await;

    for length in [0, 1, 63, 65, 1400] {
        socket.send_to(&vec![1; length], host).await.unwrap();

        assert_eq!(link.receive().await.unwrap().as_bytes().len(), length.min(65), "{length}");
    }
}

#[tokio::test]
async fn loses_nothing_when_a_wait_is_dropped() {
    let (socket, _transport, mut link, host) = open_link().await;

    assert!(timeout(Duration::from_millis(20), link.receive()).await.is_err());
    socket.send_to(&[9; 64], host).await.unwrap();

    assert_eq!(link.receive().await.unwrap().as_bytes(), [9; 64]);
}

#[tokio::test]
async fn lists_those_that_answer() {
    let (there, address) = device().await;
    let (silent, other) = device().await;
    let (gone, third) = device().await;
    drop(gone);
    let transport = UdpTransport::new([other, third, address]).unwrap();

    let (found, _) = tokio::join!(transport.list(), answer_ping(&there));

    let paths: Vec<String> = found.unwrap().into_iter().map(|found| found.path).collect();
    assert_eq!(paths, [UdpTransport::path(address)]);
    drop(silent);
}

/// A simulator sends its responses to the address of the last datagram.
#[tokio::test]
async fn pings_from_the_socket_of_an_open_link_so_that_no_response_is_diverted() {
    let (socket, transport, mut link, host) = open_link().await;

    let answers_packet_and_then_ping = async {
        let mut buffer = [0; 100];
        let (_, requester) = socket.recv_from(&mut buffer).await.unwrap();
        link.send(&packet()).await.unwrap();
        let (length, sender) = socket.recv_from(&mut buffer).await.unwrap();
        assert_eq!((length, requester, sender), (64, host, host));
        socket.send_to(&[9; 64], sender).await.unwrap();
        let received = link.receive().await.unwrap();
        socket.send_to(PONG, requester).await.unwrap();
        received
    };
    let (found, received) = tokio::join!(transport.list(), answers_packet_and_then_ping);

    assert_eq!((found.unwrap().len(), received.as_bytes()), (1, &[9; 64][..]));
}

#[tokio::test]
async fn lists_a_device_while_its_response_is_pending() {
    let (socket, transport, mut link, host) = open_link().await;
    let answers_later = async {
        let found = transport.list().await.unwrap();
        socket.send_to(&[9; 64], host).await.unwrap();
        found
    };

    let (received, found) = tokio::join!(biased; link.receive(), answers_later);

    assert_eq!((received.unwrap().as_bytes(), found.len()), (&[9; 64][..], 1));
    drop(link);
    assert_eq!(transport.list().await.unwrap(), [], "it does not answer");
}

#[tokio::test]
async fn a_link_opens_only_after_a_running_ping() {
    let (socket, address) = device().await;
    let transport = UdpTransport::new([address]).unwrap();
    let path = UdpTransport::path(address);
    let answers_in_turn = async {
        let mut buffer = [0; 100];
        let (_, requester) = socket.recv_from(&mut buffer).await.unwrap();
        let early = timeout(Duration::from_millis(100), socket.recv_from(&mut buffer)).await;
        assert!(early.is_err(), "a second question before the first is answered: {early:?}");
        socket.send_to(PONG, requester).await.unwrap();
        assert_ne!(answer_ping(&socket).await, requester);
    };

    let (found, link, ()) = tokio::join!(biased; transport.list(), transport.open(&path, Wire::Main), answers_in_turn);

    assert!(found.unwrap().len() == 1 && link.is_ok());
}

#[tokio::test]
async fn opens_the_debug_link_at_the_next_port() {
    let (main, debug, address) = loop {
        let (main, address) = device().await;
        let Some(next) = address.port().checked_add(1) else { continue };
        if let Ok(debug) = UdpSocket::bind(("127.0.0.1", next)).await {
            break (main, debug, address);
        }
    };
    let transport = UdpTransport::new([address]).unwrap();
    let path = UdpTransport::path(address);

    let (link, _) = tokio::join!(transport.open(&path, Wire::Debug), answer_ping(&debug));

    assert!(link.is_ok());
    drop(main);
}

#[tokio::test]
async fn reports_devices_that_cannot_be_opened() {
    let (silent, address) = device().await;
    let transport = UdpTransport::new([address]).unwrap();
    let path = UdpTransport::path(address);

    let unanswered = transport.open(&path, Wire::Main).await.err().unwrap();
    let unknown = transport.open("udp:127.0.0.1:1", Wire::Main).await.err().unwrap();
    let far = UdpTransport::new(["192.0.2.1:21324".parse().unwrap()]).unwrap_err();

    assert_eq!(unanswered.to_string(), format!("the device at {path} cannot be opened: nothing answers at {address}"));
    assert_eq!(unknown, LinkError::UnknownPath { path: "udp:127.0.0.1:1".into() });
    assert_eq!(far, LinkError::NotLoopback { address: "192.0.2.1:21324".into() });
    drop(silent);
}

#[tokio::test]
async fn a_simulator_that_is_gone_is_noticed_while_its_response_is_pending() {
    let (socket, _transport, mut link, host) = open_link().await;
    let answers_once = async {
        // A slow simulator still responds to pings, so the link keeps waiting for it.
        answer_ping(&socket).await;
        socket.send_to(&[9; 64], host).await.unwrap();
    };
    let (received, ()) = tokio::join!(link.receive(), answers_once);
    assert_eq!(received.unwrap().as_bytes(), [9; 64]);

    let lost = timeout(Duration::from_secs(60), link.receive()).await.expect("the loss is not noticed").err();

    assert!(matches!(lost, Some(LinkError::Lost { .. })), "{lost:?}");
}
