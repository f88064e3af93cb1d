//! Which connections are closed for new ones when all places are taken.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tenon_bus::CallContext;
use tenon_ipc::{HttpLimits, HttpSettings, Servers, Settings, WebSocketSettings};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use crate::{
    limits::{HTTP, http_settings, websocket_settings},
    raw_http::Client,
    service::{TestService, until},
    websocket,
};

const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const CALL: &str = r#"{"id":1,"method":"test_echo"}"#;

/// A node with this many places on a port of HTTP and WebSocket.
async fn start(connections: usize) -> (Servers<TestService>, SocketAddr, TestService) {
    let service = TestService::default();
    let limits = HttpLimits { connections, ..HTTP };
    let http = HttpSettings { limits, ..http_settings(&["test"]) };
    let settings = Settings { http: Some(http), ..Settings::default() };
    let servers = Servers::start(settings, service.clone(), None).await.unwrap();
    let address = servers.endpoints().http.unwrap();
    let websocket = WebSocketSettings { port: address.port(), ..websocket_settings(&["test"]) };
    servers.open_websocket(websocket, None).await.unwrap();
    (servers, address, service)
}

/// A connection from another address of this machine.
async fn connect_from(source: Ipv4Addr, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((IpAddr::from(source), 0).into()).unwrap();
    socket.connect(address).await.unwrap()
}

async fn post(stream: TcpStream, body: &str) -> (Client, u16) {
    let mut client = Client::over(stream);
    let status = client.post(&[], body).await.status;
    (client, status)
}

/// Starts calls that never end.
async fn at_work(count: usize, address: SocketAddr, service: &TestService) -> Vec<Client> {
    let body = r#"{"id":1,"method":"test_forever"}"#;
    let mut clients = Vec::new();
    for number in 0..count {
        let mut client = Client::connect(address).await;
        let head = "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n";
        client.send(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await;
        service.call_after(number).await;
        clients.push(client);
    }
    clients
}

#[tokio::test]
async fn an_idle_connection_gives_way_to_a_newcomer_also_from_its_own_address() {
    let (servers, address, _) = start(2).await;
    let (mut first, _) = post(TcpStream::connect(address).await.unwrap(), CALL).await;
    let (mut second, _) = post(TcpStream::connect(address).await.unwrap(), CALL).await;

    let (_third, own) = post(TcpStream::connect(address).await.unwrap(), CALL).await;
    let (_fourth, other) = post(connect_from(OTHER, address).await, CALL).await;

    assert_eq!((own, other), (200, 200));
    let first_is_closed = first.post_if_open(CALL).await.is_none();
    let second_is_closed = second.post_if_open(CALL).await.is_none();
    assert!(first_is_closed || second_is_closed);
    assert_eq!(servers.traffic().http.counted().refused, 0);
}

#[tokio::test]
async fn a_busy_connection_is_closed_only_for_an_address_with_fewer_connections() {
    let (servers, address, service) = start(2).await;
    let _busy = at_work(2, address, &service).await;
    let calls = [service.call_after(0).await, service.call_after(1).await];

    let mut own = TcpStream::connect(address).await.unwrap();
    let own_is_closed = own.read(&mut [0]).await.map_or(true, |count| count == 0);
    let (_other, status) = post(connect_from(OTHER, address).await, CALL).await;

    assert!(own_is_closed);
    assert_eq!((status, servers.traffic().http.counted().refused), (200, 1));
    until(|| calls.iter().any(CallContext::is_cancelled)).await;
    assert!(!calls.iter().all(CallContext::is_cancelled), "one was enough");
}

#[tokio::test]
async fn a_connection_whose_answer_is_being_written_is_closed_only_afterwards() {
    const LENGTH: usize = 18 << 20;
    let (servers, address, _) = start(2).await;
    let body = format!(r#"{{"id":1,"method":"test_large","params":[{LENGTH}]}}"#);
    let head = "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n";
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    slow.readable().await.unwrap();

    let mut newcomers = Vec::new();
    for _ in 0..5 {
        newcomers.push(post(TcpStream::connect(address).await.unwrap(), CALL).await);
    }
    let mut slow = Client::over(slow);
    let answer = slow.answer(false).await.expect("the whole answer");
    for _ in 0..3 {
        newcomers.push(post(TcpStream::connect(address).await.unwrap(), CALL).await);
    }

    assert!(answer.body.len() > LENGTH);
    assert!(newcomers.iter().all(|(_, status)| *status == 200));
    assert!(slow.post_if_open(CALL).await.is_none(), "it was idle longest");
    assert_eq!(servers.traffic().http.counted().refused, 0);
}

#[tokio::test]
async fn a_websocket_is_closed_for_an_address_with_fewer_connections_like_a_busy_connection() {
    let (_servers, address, _) = start(2).await;
    let mut first = websocket::Client::connect(address).await;
    first.ask(CALL).await;
    let mut second = websocket::Client::connect(address).await;
    second.ask(CALL).await;

    let mut own = TcpStream::connect(address).await.unwrap();
    let own_is_closed = own.read(&mut [0]).await.map_or(true, |count| count == 0);
    let (_other, status) = post(connect_from(OTHER, address).await, CALL).await;

    assert!(own_is_closed);
    assert_eq!(status, 200);
    first.send(CALL).await;
    second.send(CALL).await;
    let answers = [first.receive().await, second.receive().await];
    assert_eq!(answers.iter().flatten().count(), 1, "{answers:?}");
}
