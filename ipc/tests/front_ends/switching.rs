//! Opening and closing of HTTP and WebSocket while the others serve, and the traffic counts.

use std::{net::SocketAddr, time::Duration};

use tenon_ipc::{HttpSettings, Servers, StartError, WebSocketSettings};
use tokio::net::TcpStream;

use crate::{
    limits::{http_settings, websocket_settings},
    raw_http,
    service::{TestService, until},
    websocket,
};

const GRACE: Duration = Duration::from_secs(30);
const ECHO: &str = r#"{"id":1,"method":"test_echo","params":[7]}"#;

fn http(port: u16) -> HttpSettings {
    HttpSettings { port, ..http_settings(&["test"]) }
}

fn ws(port: u16) -> WebSocketSettings {
    WebSocketSettings { port, ..websocket_settings(&["test"]) }
}

/// Front-ends on one port, HTTP first.
async fn shared() -> (Servers<TestService>, SocketAddr, TestService) {
    let service = TestService::default();
    let servers = Servers::new(service.clone(), None);
    let address = servers.open_http(http(0), None).await.unwrap();
    assert_eq!(servers.open_websocket(ws(address.port()), None).await.unwrap(), address);
    (servers, address, service)
}

async fn is_closed(address: SocketAddr) -> bool {
    TcpStream::connect(address).await.is_err()
}

#[tokio::test]
async fn a_closed_front_end_frees_its_port_and_can_be_opened_there_again() {
    let servers = Servers::new(TestService::default(), None);
    let first = servers.open_http(http(0), None).await.unwrap();
    let mut client = raw_http::Client::connect(first).await;
    client.post(&[], ECHO).await;

    assert!(servers.close_http(GRACE).await);
    assert!(is_closed(first).await && servers.endpoints().http.is_none());
    assert!(client.answer(false).await.is_none(), "an idle connection is closed");
    let second = servers.open_http(http(first.port()), None).await.unwrap();

    assert_eq!(second, first);
    let answer = raw_http::Client::connect(second).await.post(&[], ECHO).await;
    assert_eq!(answer.text(), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[7]}\n");
    assert!(servers.close_http(GRACE).await && !servers.close_http(GRACE).await);
}

#[tokio::test]
async fn requests_from_before_the_close_are_answered_after_it() {
    let service = TestService::default();
    let servers = Servers::new(service.clone(), None);
    let address = servers.open_http(http(0), None).await.unwrap();
    let mut client = raw_http::Client::connect(address).await;
    let call = tokio::spawn(async move { client.post(&[], r#"{"id":1,"method":"test_wait"}"#).await });
    service.call_after(0).await;

    assert!(servers.close_http(GRACE).await);
    let is_closed = is_closed(address).await;
    service.gate.notify_one();

    assert!(is_closed, "the close does not wait for the call");
    assert_eq!(call.await.unwrap().text(), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"waited\"}\n");
}

#[tokio::test]
async fn a_call_that_outlives_the_grace_is_cut_and_cancelled() {
    let service = TestService::default();
    let servers = Servers::new(service.clone(), None);
    let address = servers.open_websocket(ws(0), None).await.unwrap();
    let mut client = websocket::Client::connect(address).await;
    client.send(r#"{"id":1,"method":"test_forever"}"#).await;
    let context = service.call_after(0).await;

    assert!(servers.close_websocket(Duration::from_millis(20)).await);

    assert!(client.receive().await.unwrap().contains("the server is stopping"));
    assert_eq!((client.receive().await, client.close_code), (None, Some(1001)));
    until(|| context.is_cancelled()).await;
}

#[tokio::test]
async fn websocket_leaves_a_shared_port_with_1001_and_http_stays() {
    let (servers, address, _) = shared().await;
    let mut socket = websocket::Client::connect(address).await;
    assert!(socket.ask(ECHO).await.contains("[7]"));
    let mut old = raw_http::Client::connect(address).await;
    old.post(&[], ECHO).await;

    assert!(servers.close_websocket(GRACE).await);

    assert_eq!((socket.receive().await, socket.close_code), (None, Some(1001)));
    let upgrade = [("Host", "127.0.0.1"), ("Upgrade", "websocket"), ("Connection", "Upgrade")];
    let mut fresh = raw_http::Client::connect(address).await;
    for client in [&mut old, &mut fresh] {
        let refused = client.request("GET", "/", &upgrade, None).await;
        assert_ne!(refused.status, 101);
        assert!(client.post(&[], ECHO).await.text().contains("[7]"));
    }
    servers.open_websocket(ws(address.port()), None).await.unwrap();
    assert!(websocket::Client::connect(address).await.ask(ECHO).await.contains("[7]"));
}

#[tokio::test]
async fn a_request_for_a_websocket_during_the_stop_is_refused_and_its_connection_closed() {
    let (servers, address, _) = shared().await;
    let mut client = raw_http::Client::connect(address).await;
    client.post(&[], ECHO).await;
    let upgrade = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    client.send(upgrade.as_bytes()).await;
    // The request arrives here, and is read only after the stop has begun.
    tokio::task::yield_now().await;

    assert!(servers.stop(GRACE).await);

    let refused = client.answer(false).await.unwrap();
    assert_eq!((refused.status, refused.text().as_str()), (503, "the server is stopping\n"));
    assert_eq!(refused.header("connection"), Some("close"));
    assert!(client.answer(false).await.is_none());
}

#[tokio::test]
async fn http_leaves_a_shared_port_and_websocket_stays() {
    let (servers, address, _) = shared().await;
    let mut socket = websocket::Client::connect(address).await;

    assert!(servers.close_http(GRACE).await);

    assert!(socket.ask(ECHO).await.contains("[7]"));
    assert_eq!(raw_http::Client::connect(address).await.post(&[], ECHO).await.status, 404);
    assert_eq!((servers.endpoints().http, servers.endpoints().websocket), (None, Some(address)));
    assert!(servers.close_websocket(GRACE).await);
    assert!(is_closed(address).await, "the last one closes the port");
}

#[tokio::test]
async fn a_front_end_that_listens_is_not_opened_twice() {
    let (servers, address, _) = shared().await;

    let again = servers.open_http(http(0), None).await.unwrap_err();

    assert!(matches!(again, StartError::AlreadyRunning { .. }));
    assert_eq!(again.to_string(), format!("HTTP server already running on {address}"));
    let again = servers.open_websocket(ws(0), None).await.unwrap_err();
    assert_eq!(again.to_string(), format!("WebSocket server already running on {address}"));
}

#[tokio::test]
async fn a_port_in_use_by_another_process_leaves_nothing_open() {
    let taken = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let servers = Servers::new(TestService::default(), None);

    let error = servers.open_http(http(taken.local_addr().unwrap().port()), None).await.unwrap_err();

    assert!(matches!(error, StartError::Listen { .. }), "{error}");
    assert!(servers.endpoints().http.is_none() && !servers.close_http(GRACE).await);
}

#[tokio::test]
async fn connections_and_bytes_are_counted_for_the_transport_that_they_end_on() {
    let (servers, address, _) = shared().await;
    let mut client = raw_http::Client::connect(address).await;
    let sent = client.post(&[], ECHO).await;
    let mut socket = websocket::Client::connect(address).await;
    socket.ask(r#"{"id":1,"method":"test_subscribe","params":["three"]}"#).await;
    for _ in 0..3 {
        socket.receive().await.unwrap();
    }
    let traffic = servers.traffic().clone();
    until(|| traffic.http.counted().open == 1).await;
    assert_eq!((traffic.websocket.counted().open, traffic.websocket.counted().notifications), (1, 3));

    drop((client, socket));

    until(|| traffic.http.counted().open == 0 && traffic.websocket.counted().open == 0).await;
    let (http, websocket) = (traffic.http.counted(), traffic.websocket.counted());
    assert_eq!((http.accepted, websocket.accepted), (2, 1), "a WebSocket begins as HTTP");
    assert!(http.received as usize > ECHO.len() && http.sent as usize > sent.body.len(), "{http:?}");
    assert!(websocket.sent > 4 * 40 && websocket.received > 50, "{websocket:?}");
}
