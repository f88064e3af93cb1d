//! Memory reserved for messages, calls and answers, and refusals of those that do not fit.

use std::{net::SocketAddr, sync::atomic::Ordering};

use serde_json::Value;
use tenon_bus::{ClientId, MemoryBudget, MemoryLimits, MemoryUse};
use tenon_ipc::{EnvelopeLimits, Servers, WebSocketLimits, WebSocketSettings};
use tokio::net::TcpStream;

use crate::{
    limits::{ENVELOPE, WEBSOCKET, http_settings, websocket_settings},
    raw_http,
    service::{TestService, until},
    websocket,
};

const MB: usize = 1 << 20;

struct Started {
    _servers: Servers<TestService>,
    http: SocketAddr,
    websocket: SocketAddr,
    service: TestService,
    memory: MemoryBudget,
}

/// Front-ends whose clients may hold this many bytes each.
async fn start(share: usize) -> Started {
    start_with(share, ENVELOPE).await
}

async fn start_with(share: usize, envelope: EnvelopeLimits) -> Started {
    let memory = MemoryBudget::new(MemoryLimits { total: 1 << 30, client: share });
    let service = TestService::default();
    let servers = Servers::new(service.clone(), None).with_memory(memory.clone());
    let http = http_settings(&["test"]);
    let limits = WebSocketLimits { envelope, ..WEBSOCKET };
    let websocket = WebSocketSettings { limits, ..websocket_settings(&["test"]) };
    let http = servers.open_http(http, None).await.unwrap();
    let websocket = servers.open_websocket(websocket, None).await.unwrap();
    Started { _servers: servers, http, websocket, service, memory }
}

impl Started {
    fn held(&self, by: MemoryUse) -> usize {
        self.memory.usage().held[by as usize]
    }

    async fn client(&self) -> websocket::Client {
        websocket::Client::connect(self.websocket).await
    }
}

/// A request padded with this number of bytes of white space.
fn padded(id: u64, method: &str, bytes: usize) -> String {
    format!(r#"{{"id":{id},"method":"{method}"{}}}"#, " ".repeat(bytes))
}

fn code(answer: &str) -> i64 {
    let answer: Value = serde_json::from_str(answer).unwrap();
    answer["error"]["code"].as_i64().unwrap_or_default()
}

#[tokio::test]
async fn a_call_that_waits_holds_its_parameters_and_not_its_message() {
    let started = start(64 * MB).await;
    let mut client = started.client().await;

    for id in 0..10 {
        client.send(&padded(id, "test_wait", 2 * MB)).await;
    }
    started.service.call_after(9).await;
    until(|| started.held(MemoryUse::Messages) == 0).await;

    let held = started.held(MemoryUse::Calls);
    assert!((10 * 1024..MB).contains(&held), "ten calls without parameters hold {held} bytes");
    for _ in 0..10 {
        started.service.gate.notify_one();
        assert!(client.receive().await.unwrap().contains("waited"));
    }
    until(|| started.held(MemoryUse::Calls) == 0).await;
    drop(client);
    until(|| started.memory.usage().held == [0; MemoryUse::ALL.len()]).await;
}

#[tokio::test]
async fn calls_that_do_not_fit_are_refused_by_id_and_running_ones_continue() {
    let started = start(MB).await;
    let mut client = started.client().await;

    for id in 0..60 {
        client.send(&format!(r#"{{"id":{id},"method":"test_wait","params":["{}"]}}"#, "x".repeat(10_000))).await;
    }
    let first = client.receive().await.unwrap();
    let in_flight = started.held(MemoryUse::Calls);
    started.service.gate.notify_one();
    let answers = loop {
        let answer = client.receive().await.unwrap();
        if !answer.contains("out of memory") {
            break answer;
        }
    };

    assert_eq!(code(&first), -32005, "{first}");
    let id = serde_json::from_str::<Value>(&first).unwrap()["id"].as_u64().unwrap();
    // Parameters of a waiting call count four times, for their decoded form.
    assert!((12..20).contains(&id), "the first {id} fit");
    assert!(in_flight > 12 * 40_000, "{in_flight}");
    assert!(answers.contains("waited"), "{answers}");
}

#[tokio::test]
async fn a_message_that_does_not_fit_is_skipped_and_the_connection_stays() {
    let started = start(2 * MB).await;
    let mut client = started.client().await;

    let refused = client.ask(&padded(1, "test_echo", 8 * MB)).await;
    let served = client.ask(r#"{"id":2,"method":"test_echo","params":[7]}"#).await;

    assert_eq!(code(&refused), -32005, "{refused}");
    assert!(refused.contains(r#""id":null"#), "{refused}");
    assert_eq!(served, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":[7]}\n");
    until(|| started.held(MemoryUse::Messages) == 0).await;
}

#[tokio::test]
async fn a_body_that_does_not_fit_is_answered_with_503_and_retry_after() {
    let started = start(2 * MB).await;
    let mut client = raw_http::Client::connect(started.http).await;

    let refused = client.post(&[], &padded(1, "test_echo", 3 * MB)).await;
    let mut client = raw_http::Client::connect(started.http).await;
    let served = client.post(&[], &padded(2, "test_echo", MB / 4)).await;

    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!(refused.text().starts_with("out of memory"), "{}", refused.text());
    assert_eq!(served.text(), "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":[]}\n");
    until(|| started.held(MemoryUse::Messages) == 0).await;
}

#[tokio::test]
async fn answers_that_are_not_read_are_held_and_further_ones_refused() {
    let started = start(40 * MB).await;
    let large = format!(r#"{{"id":1,"method":"test_large","params":[{}]}}"#, 16 * MB);
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let request = format!("{head}Content-Length: {}\r\n\r\n{large}", large.len());
    let mut deaf: Vec<TcpStream> = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(started.http).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
        deaf.push(stream);
    }
    until(|| started.held(MemoryUse::Answers) >= 32 * MB).await;

    let mut client = raw_http::Client::connect(started.http).await;
    let refused = client.post(&[], &large).await.text();
    let small = client.post(&[], r#"{"id":2,"method":"test_large","params":[1000]}"#).await.text();

    assert_eq!(code(&refused), -32005, "{refused}");
    assert!(small.len() > 1000, "{small}");
    drop(deaf);
    until(|| started.held(MemoryUse::Answers) == 0).await;
    assert!(client.post(&[], &large).await.text().len() > 16 * MB);
}

#[tokio::test]
async fn the_results_of_a_batch_are_counted_as_they_arrive_and_no_call_begins_beyond_the_memory() {
    let started = start(8 * MB).await;
    let mut client = raw_http::Client::connect(started.http).await;
    let one = format!(r#"{{"id":1,"method":"test_large","params":[{MB}]}}"#);
    let batch = format!(r#"[{},{{"id":2,"method":"test_change"}}]"#, vec![one; 6].join(","));

    let answer = client.post(&[], &batch).await.text();

    let entries: Vec<Value> = serde_json::from_str(&answer).unwrap();
    let codes: Vec<i64> = entries.iter().map(|entry| entry["error"]["code"].as_i64().unwrap_or_default()).collect();
    let (fit, refused) = (0, -32005);
    assert_eq!(
        codes,
        [fit, fit, fit, refused, refused, refused, refused],
        "each result counts twice while the answer is put together"
    );
    assert_eq!(started.service.changes.load(Ordering::Relaxed), 0);
    until(|| started.held(MemoryUse::Answers) == 0).await;
}

#[tokio::test]
async fn a_subscription_is_counted_while_it_is_open() {
    let started = start(8 * MB).await;
    let mut client = started.client().await;
    let subscribe = |id: u64| {
        let pad = " ".repeat(700_000);
        format!(r#"{{"id":{id},"method":"test_subscribe","params":["never"{pad}]}}"#)
    };

    let first = client.ask(&subscribe(1)).await;
    let id = first.split("\"result\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    assert!(started.held(MemoryUse::Subscriptions) < 100_000, "without the blanks around its parameters");
    let with_arguments = client
        .ask(&format!(r#"{{"id":2,"method":"test_subscribe","params":["echo","{}"]}}"#, "x".repeat(400_000)))
        .await;

    assert_eq!(code(&with_arguments), 0);
    assert!(started.held(MemoryUse::Subscriptions) > 400_000);
    let mut unsubscribed = client.ask(&format!(r#"{{"id":3,"method":"test_unsubscribe","params":["{id}"]}}"#)).await;
    if unsubscribed.contains("test_subscription") {
        // The notification of the other subscription arrived first.
        unsubscribed = client.receive().await.unwrap();
    }
    assert!(unsubscribed.contains("true"), "{unsubscribed}");
    drop(client);
    until(|| started.held(MemoryUse::Subscriptions) == 0).await;
}

#[tokio::test]
async fn a_client_has_a_limited_number_of_subscriptions_over_all_its_connections() {
    let limits = EnvelopeLimits { client_subscriptions: 3, ..ENVELOPE };
    let started = start_with(64 * MB, limits).await;
    let subscribe = r#"{"id":1,"method":"test_subscribe","params":["never"]}"#;
    let (mut first, mut second) = (started.client().await, started.client().await);

    for _ in 0..2 {
        assert_eq!(code(&first.ask(subscribe).await), 0);
    }
    assert_eq!(code(&second.ask(subscribe).await), 0);
    let refused = second.ask(subscribe).await;

    assert!(refused.contains("too many subscriptions: at most 3 of a client"), "{refused}");
    drop(first);
    until(|| started.held(MemoryUse::Subscriptions) < 20_000).await;
    assert_eq!(code(&second.ask(subscribe).await), 0);
}

#[tokio::test]
async fn clients_do_not_use_each_others_share() {
    let started = start(2 * MB).await;
    // A client other than those at this address.
    let other = started.memory.client(ClientId::from_number(7));
    let _taken = other.reserve(MemoryUse::Traces, 2 * MB).unwrap();

    let answer = started.client().await.ask(&padded(1, "test_echo", MB / 2)).await;

    assert_eq!(code(&answer), 0);
}
