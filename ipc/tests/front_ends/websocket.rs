//! WebSocket, with soketto as the client.

use std::{net::SocketAddr, time::Duration};

use soketto::{
    Data, Incoming, Receiver, Sender,
    handshake::{Client as Handshake, ServerResponse, client::Header},
};
use tenon_ipc::{EnvelopeLimits, HttpSettings, Servers, Settings, WebSocketLimits, WebSocketSettings};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_util::compat::{Compat, TokioAsyncReadCompatExt as _};

use crate::{
    limits::{ENVELOPE, WEBSOCKET, http_settings, websocket_settings},
    raw_http,
    service::{TestService, until},
};

/// A WebSocket client.
pub(crate) struct Client {
    sender: Sender<Compat<TcpStream>>,
    receiver: Receiver<Compat<TcpStream>>,
    pub(crate) close_code: Option<u16>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::connect_with(address, &[]).await
    }

    /// Like `connect`, with these headers in the handshake.
    pub(crate) async fn connect_with<'h>(address: SocketAddr, headers: &'h [Header<'h>]) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        // soketto writes header and payload separately.
        stream.set_nodelay(true).unwrap();
        let mut handshake = Handshake::new(stream.compat(), "127.0.0.1", "/");
        handshake.set_headers(headers);
        assert!(matches!(handshake.handshake().await.unwrap(), ServerResponse::Accepted { .. }));
        let (sender, receiver) = handshake.into_builder().finish();
        Self { sender, receiver, close_code: None }
    }

    pub(crate) async fn send(&mut self, text: &str) {
        let _ = self.sender.send_text(text).await;
        let _ = self.sender.flush().await;
    }

    /// The next text; `None` once the connection is closed.
    pub(crate) async fn receive(&mut self) -> Option<String> {
        let mut message = Vec::new();
        loop {
            match self.receiver.receive(&mut message).await {
                Ok(Incoming::Data(Data::Text(_))) => return Some(String::from_utf8(message).unwrap()),
                Ok(Incoming::Closed(reason)) => {
                    self.close_code = Some(reason.code);
                    return None;
                }
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }

    /// Sends a text and returns the next one.
    pub(crate) async fn ask(&mut self, text: &str) -> String {
        self.send(text).await;
        self.receive().await.expect("an answer")
    }
}

async fn start(limits: WebSocketLimits) -> (Servers<TestService>, SocketAddr, TestService) {
    let service = TestService::default();
    let websocket = WebSocketSettings { limits, ..websocket_settings(&["test"]) };
    let settings = Settings { websocket: Some(websocket), ..Settings::default() };
    let servers = Servers::start(settings, service.clone(), None).await.unwrap();
    let address = servers.endpoints().websocket.unwrap();
    (servers, address, service)
}

#[tokio::test]
async fn a_fast_call_overtakes_a_slow_one() {
    let (_servers, address, service) = start(WEBSOCKET).await;
    let mut client = Client::connect(address).await;

    client.send(r#"{"id":1,"method":"test_wait"}"#).await;
    let first = client.ask(r#"{"id":2,"method":"test_echo","params":["<é>"]}"#).await;
    service.gate.notify_one();
    let second = client.receive().await.unwrap();

    assert_eq!(first, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":[\"<é>\"]}\n");
    assert_eq!(second, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"waited\"}\n");
}

#[tokio::test]
async fn notifications_follow_the_answer_with_their_id() {
    let (_servers, address, _) = start(WEBSOCKET).await;
    let mut client = Client::connect(address).await;

    let answer = client.ask(r#"{"id":1,"method":"test_subscribe","params":["three"]}"#).await;
    let id = answer.split("\"result\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let notification = client.receive().await.unwrap();

    assert!(id.starts_with("0x") && id.len() <= 34, "{id}");
    let expected =
        format!(r#"{{"jsonrpc":"2.0","method":"test_subscription","params":{{"subscription":"{id}","result":1}}}}"#);
    assert_eq!(notification, expected + "\n");
}

#[tokio::test]
async fn subscriptions_in_a_batch_notify_after_the_batch() {
    let (_servers, address, _) = start(WEBSOCKET).await;
    let mut client = Client::connect(address).await;

    let answer = client
        .ask(r#"[{"id":1,"method":"test_subscribe","params":["echo",  {"a":[1]}]},{"id":2,"method":"test_yield","params":[7]}]"#)
        .await;
    let notification = client.receive().await.unwrap();

    assert!(answer.starts_with('[') && answer.contains(r#""id":2,"result":[7]"#), "{answer}");
    assert!(notification.contains(r#""result":[  {"a":[1]}]"#), "{notification}");
}

#[tokio::test]
async fn unsubscribing_works_once_and_subscriptions_are_limited() {
    let envelope = EnvelopeLimits { subscriptions: 1, ..ENVELOPE };
    let (_servers, address, _) = start(WebSocketLimits { envelope, ..WEBSOCKET }).await;
    let mut client = Client::connect(address).await;
    let subscribe = r#"{"id":1,"method":"test_subscribe","params":["never"]}"#;

    let answer = client.ask(subscribe).await;
    let id = answer.split("\"result\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let refused = client.ask(subscribe).await;
    let unsubscribe = format!(r#"{{"id":2,"method":"test_unsubscribe","params":["{id}"]}}"#);
    let done = client.ask(&unsubscribe).await;
    let again = client.ask(&unsubscribe).await;
    let another = client.ask(subscribe).await;

    assert!(
        refused.contains(r#""code":-32005,"message":"too many subscriptions: at most 1 on a connection""#),
        "{refused}"
    );
    assert!(done.contains(r#""id":2,"result":true"#), "{done}");
    assert!(again.contains(r#""code":-32000,"message":"subscription not found""#), "{again}");
    assert!(another.contains(r#""result":"0x"#), "{another}");
}

#[tokio::test]
async fn a_message_beyond_the_limit_closes_with_1009() {
    let (_servers, address, _) = start(WebSocketLimits { message_bytes: 1_000, ..WEBSOCKET }).await;
    let mut client = Client::connect(address).await;

    // More than the system buffers: the close frame must reach a client that is still sending.
    client.send(&"x".repeat(8_000_000)).await;

    assert_eq!(client.receive().await, None);
    assert_eq!(client.close_code, Some(1009));
}

#[tokio::test]
async fn a_client_that_leaves_while_its_messages_wait_unread_cancels_its_calls() {
    let (_servers, address, service) = start(WebSocketLimits { calls_in_flight: 1, ..WEBSOCKET }).await;
    let mut client = Client::connect(address).await;
    for _ in 0..3 {
        client.send(r#"{"id":1,"method":"test_forever"}"#).await;
    }
    let context = service.call_after(0).await;

    drop(client);

    until(|| context.is_cancelled()).await;
    assert_eq!(service.begun.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_cancels_its_calls() {
    let (_servers, address, service) = start(WEBSOCKET).await;
    let mut client = Client::connect(address).await;
    client.send(r#"{"id":1,"method":"test_forever"}"#).await;
    let context = service.call_after(0).await;
    assert!(!context.is_cancelled());

    drop(client);

    until(|| context.is_cancelled()).await;
}

#[tokio::test]
async fn a_subscriber_that_never_reads_is_disconnected() {
    let limits = WebSocketLimits { queued_bytes: 1 << 20, ..WEBSOCKET };
    let (servers, address, _) = start(limits).await;
    let mut client = Client::connect(address).await;
    client.send(r#"{"id":1,"method":"test_subscribe","params":["flood"]}"#).await;
    client.receive().await.unwrap();

    // The flood never ends by itself, so an orderly stop is quick only if the connection is already gone. Data that the
    // system has buffered can still be read before the connection ends.
    let mut count = 0_usize;
    tokio::time::sleep(Duration::from_millis(300)).await;
    while client.receive().await.is_some() {
        count += 1;
    }

    assert!(count < 1_000, "{count} notifications of 60 kB came through");
    assert!(servers.stop(Duration::from_secs(5)).await);
}

#[tokio::test]
async fn pings_keep_a_quiet_connection_alive_and_silence_ends_it() {
    let limits = WebSocketLimits { ping_interval: Some(Duration::from_millis(50)), ..WEBSOCKET };
    let (_servers, address, _) = start(limits).await;
    let mut mute = TcpStream::connect(address).await.unwrap();
    let handshake = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    mute.write_all(handshake.as_bytes()).await.unwrap();

    let mut received = Vec::new();
    mute.read_to_end(&mut received).await.unwrap();

    // It never answers a ping, so it is disconnected after three intervals.
    assert!(received.ends_with(&[0x89, 0]), "{received:?}");
}

#[tokio::test]
async fn web_pages_of_other_origins_are_refused() {
    let (_servers, address, _) = start(WEBSOCKET).await;
    let upgrade = [
        ("Host", "127.0.0.1"),
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for (origin, path, status, body) in [
        ("http://evil.example", "/", 403, "Forbidden\n"),
        ("http://localhost", "/", 101, ""),
        ("http://localhost", "/ws", 404, ""),
    ] {
        let headers = [&upgrade[..], &[("Origin", origin)]].concat();
        let mut client = raw_http::Client::connect(address).await;
        let answer = client.request("GET", path, &headers, None).await;
        assert_eq!((answer.status, answer.text().as_str()), (status, body), "{origin} {path}");
    }
    let mut client = raw_http::Client::connect(address).await;
    assert_eq!(client.post(&[], "{}").await.status, 404);
}

#[tokio::test]
async fn http_and_websocket_share_a_port() {
    let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = probe.local_addr().unwrap().port();
    drop(probe);
    let settings = Settings {
        http: Some(HttpSettings { port, ..http_settings(&["test"]) }),
        websocket: Some(WebSocketSettings { port, ..websocket_settings(&["test"]) }),
        ..Settings::default()
    };
    let servers = Servers::start(settings, TestService::default(), None).await.unwrap();
    let address = servers.endpoints().http.unwrap();
    assert_eq!(servers.endpoints().websocket, Some(address));
    let call = r#"{"id":1,"method":"test_echo"}"#;

    let over_http = raw_http::Client::connect(address).await.post(&[], call).await.text();
    let over_websocket = Client::connect(address).await.ask(call).await;

    assert_eq!(over_http, over_websocket);
}

#[tokio::test]
async fn stopping_finishes_running_calls_and_sends_a_close_frame() {
    let (servers, address, service) = start(WEBSOCKET).await;
    let mut client = Client::connect(address).await;
    client.send(r#"{"id":1,"method":"test_wait"}"#).await;
    client.ask(r#"{"id":2,"method":"test_echo"}"#).await;

    let stopping = tokio::spawn(async move { servers.stop(Duration::from_secs(10)).await });
    until(|| std::net::TcpStream::connect(address).is_err()).await;
    service.gate.notify_one();

    assert!(client.receive().await.unwrap().contains("waited"));
    assert_eq!(client.receive().await, None);
    assert_eq!(client.close_code, Some(1001));
    assert!(stopping.await.unwrap());
}

#[tokio::test]
async fn a_call_that_outlives_the_stop_is_cancelled_and_its_client_gets_an_error_and_a_close_frame() {
    let (servers, address, service) = start(WEBSOCKET).await;
    let mut client = Client::connect(address).await;
    client.send(r#"{"id":1,"method":"test_forever"}"#).await;
    let context = service.call_after(0).await;

    assert!(!servers.stop(Duration::from_millis(50)).await);

    assert!(context.is_cancelled());
    assert!(
        client
            .receive()
            .await
            .unwrap()
            .contains(r#""id":1,"error":{"code":-32000,"message":"the server is stopping"}"#)
    );
    assert_eq!((client.receive().await, client.close_code), (None, Some(1001)));
}
