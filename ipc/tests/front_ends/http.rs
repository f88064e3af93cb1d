//! HTTP beyond the recordings: limits, tokens, cancellation, stop.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use tenon_ipc::{
    EnvelopeLimits, Exposure, HealthReport, HttpLimits, HttpRules, HttpSettings, PortExposure, Servers, Settings,
    StartError,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    limits::{ENVELOPE, HTTP, http_rules, http_settings},
    raw_http::Client,
    service::{TestService, take_turns, until},
};

async fn start(http: HttpSettings) -> (Servers<TestService>, SocketAddr, TestService) {
    let service = TestService::default();
    let settings = Settings { http: Some(http), ..Settings::default() };
    let servers = Servers::start(settings, service.clone(), None).await.unwrap();
    let address = servers.endpoints().http.unwrap();
    (servers, address, service)
}

fn with_limits(limits: HttpLimits) -> HttpSettings {
    HttpSettings { limits, ..http_settings(&["test"]) }
}

#[tokio::test]
async fn a_port_serves_only_exposed_namespaces_and_only_local_programs() {
    let (_silent, address, _) = start(http_settings(&[])).await;
    let nothing = Client::connect(address).await.post(&[], r#"{"id":1,"method":"eth_open"}"#).await;
    assert!(nothing.text().contains("does not exist/is not available"), "no namespace is exposed");
    let (_servers, address, _) = start(http_settings(&["eth"])).await;
    assert!(address.ip().is_loopback());
    let mut client = Client::connect(address).await;

    let open = client.post(&[("Origin", "http://a.example")], r#"{"id":1,"method":"eth_open"}"#).await;
    let hidden = client.post(&[], r#"{"id":1,"method":"debug_secret"}"#).await;
    let rebound = client
        .request("POST", "/", &[("Host", "evil.example"), ("Content-Type", "application/json")], Some(b"{}"))
        .await;

    assert_eq!(open.text(), "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":true}\n");
    assert_eq!((open.header("vary"), open.header("access-control-allow-origin")), (None, None));
    assert!(hidden.text().contains("the method debug_secret does not exist/is not available"));
    assert_eq!((rebound.status, rebound.text().as_str()), (403, "invalid host specified\n"));
}

#[tokio::test]
async fn powerful_namespaces_need_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("jwt.hex");
    std::fs::write(&secret, "07".repeat(32)).unwrap();
    let exposure = PortExposure { open: Exposure::of(["eth"]), with_token: Exposure::of(["eth", "debug"]) };
    let rules = HttpRules { exposure, ..http_rules(&[]) };
    let settings = Settings {
        http: Some(HttpSettings { rules, ..http_settings(&[]) }),
        token_secret: Some(secret),
        ..Settings::default()
    };
    let servers = Servers::start(settings, TestService::default(), None).await.unwrap();
    let mut client = Client::connect(servers.endpoints().http.unwrap()).await;
    let call = r#"{"id":1,"method":"debug_secret"}"#;

    let without = client.post(&[], call).await.text();
    let with = client.post(&[("Authorization", &format!("Bearer {}", token(0)))], call).await.text();
    let stale = client.post(&[("Authorization", &format!("Bearer {}", token(120)))], call).await;

    assert!(without.contains("does not exist/is not available"), "{without}");
    assert!(with.contains(r#""result":true"#), "{with}");
    assert_eq!(stale.status, 401);
}

/// The header value with a fresh token that has further members in its claims.
pub(crate) fn token_for(members: &str) -> String {
    format!("Bearer {}", token_with(0, members))
}

/// A token for the secret of the test above, `age` seconds old.
fn token(age: u64) -> String {
    token_with(age, "")
}

fn token_with(age: u64, members: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
    use hmac::{Hmac, KeyInit as _, Mac as _};
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let signed = format!(
        "{}.{}",
        BASE64.encode(r#"{"alg":"HS256","typ":"JWT"}"#),
        BASE64.encode(format!(r#"{{"iat":{}{members}}}"#, now - age))
    );
    let mut hash = Hmac::<sha2::Sha256>::new_from_slice(&[7; 32]).unwrap();
    hash.update(signed.as_bytes());
    format!("{signed}.{}", BASE64.encode(hash.finalize().into_bytes()))
}

#[tokio::test]
async fn a_client_that_leaves_cancels_its_call() {
    let (_servers, address, service) = start(with_limits(HTTP)).await;
    let mut client = Client::connect(address).await;
    client.send(post(r#"{"id":1,"method":"test_forever"}"#).as_bytes()).await;
    let context = service.call_after(0).await;
    assert!(!context.is_cancelled());

    drop(client);

    until(|| context.is_cancelled()).await;
}

#[tokio::test]
async fn a_call_of_a_broken_connection_is_cancelled_at_once() {
    let (_servers, address, service) = start(with_limits(HTTP)).await;
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_zero_linger().unwrap();
    let mut client = Client::over(stream);
    client.send(post(r#"{"id":1,"method":"test_forever"}"#).as_bytes()).await;
    let context = service.call_after(0).await;

    drop(client);

    until(|| context.is_cancelled()).await;
}

#[tokio::test]
async fn a_client_that_stops_sending_gets_answers_that_come_soon() {
    let (_servers, address, service) = start(with_limits(HTTP)).await;
    let later = post(r#"{"id":1,"method":"test_changesLater"}"#);
    let large = post(r#"{"id":2,"method":"test_large","params":[8000000]}"#);
    for requests in [&[&later][..], &[&later, &later], &[&later, &large]] {
        let mut client = half_closed(address, requests).await;
        for request in requests {
            let answer = client.answer(false).await.expect("an answer");
            assert!(answer.status == 200 && answer.text().ends_with("}\n"), "{request}");
        }
        assert!(client.answer(false).await.is_none(), "then the connection ends");
    }

    let forever = post(r#"{"id":1,"method":"test_forever"}"#);
    let answer = half_closed(address, &[&forever]).await.answer(false).await.expect("an answer");

    let reason = "the call was cancelled, because its client closed its side of the connection\n";
    assert_eq!((answer.status, answer.text().as_str()), (400, reason));
    assert!(service.call_after(0).await.is_cancelled());
}

#[tokio::test]
async fn a_request_with_two_hosts_or_origins_is_refused() {
    let (_servers, address, _) = start(with_limits(HTTP)).await;
    for (name, value) in [("Host", "localhost"), ("Origin", "http://b.example")] {
        let headers = [("Origin", "http://a.example"), (name, value)];

        let answer = Client::connect(address).await.post(&headers, r#"{"id":1,"method":"test_yield"}"#).await;

        assert_eq!(answer.status, 400, "{}", answer.text());
    }
}

/// A client that has sent these requests and closed its sending direction.
async fn half_closed(address: SocketAddr, requests: &[&String]) -> Client {
    let mut stream = TcpStream::connect(address).await.unwrap();
    for request in requests {
        stream.write_all(request.as_bytes()).await.unwrap();
    }
    stream.shutdown().await.unwrap();
    Client::over(stream)
}

/// A request with this body.
fn post(body: &str) -> String {
    let head = "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n";
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn a_call_beyond_the_time_limit_gets_503_and_is_cancelled() {
    let limits = HttpLimits { request_timeout: Duration::from_millis(50), ..HTTP };
    let (_servers, address, service) = start(with_limits(limits)).await;

    let answer = Client::connect(address).await.post(&[], r#"{"id":1,"method":"test_forever"}"#).await;

    assert_eq!((answer.status, answer.text().as_str()), (503, r#"{"error":"http server timeout"}"#));
    assert!(service.call_after(0).await.is_cancelled());
}

#[tokio::test]
async fn batches_run_at_the_same_time_and_answer_in_order() {
    let (_servers, address, service) = start(with_limits(HTTP)).await;
    let mut client = Client::connect(address).await;
    let calls: Vec<String> = (0..40)
        .map(|id| {
            let method = if id < 10 { "test_wait" } else { "test_yield" };
            format!(r#"{{"id":{id},"method":"{method}"}}"#)
        })
        .collect();
    let body = format!("[{}]", calls.join(","));
    // If the ten waited one after another, only the first would begin.
    let opener = async {
        service.call_after(9).await;
        // `Notify` stores at most one notification, so it is repeated.
        loop {
            service.gate.notify_one();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };

    let answer = tokio::select! {
        answer = client.post(&[], &body) => answer.text(),
        () = opener => unreachable!("it opens until all are answered"),
    };

    let answers: Vec<serde_json::Value> = serde_json::from_str(&answer).unwrap();
    let ids: Vec<u64> = answers.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (0..40).collect::<Vec<_>>());
}

#[tokio::test]
async fn limits_answer_with_named_errors() {
    let envelope = EnvelopeLimits { batch_items: 3, response_bytes: 100, batch_response_bytes: 150, ..ENVELOPE };
    let (_servers, address, _) = start(with_limits(HttpLimits { envelope, ..HTTP })).await;
    let mut client = Client::connect(address).await;
    for (body, expected) in [
        (
            "[1,2,3,4]",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"batch too large: 4 requests, at most 3"}}"#,
        ),
        (
            r#"{"id":1,"method":"test_large","params":[99]}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32003,"message":"response too large: 101 bytes, at most 100"}}"#,
        ),
        (
            r#"[{"id":1,"method":"test_large","params":[1]},{"id":2,"method":"test_large","params":[97]},{"id":3,"method":"test_large","params":[97]}]"#,
            &format!(
                r#"[{{"jsonrpc":"2.0","id":1,"result":"x"}},{{"jsonrpc":"2.0","id":2,"result":"{}"}},{{"jsonrpc":"2.0","id":3,"error":{{"code":-32003,"message":"response too large: batch beyond 150 bytes"}}}}]"#,
                "x".repeat(97)
            ),
        ),
        (
            r#"{"id":1,"method":"test_panic"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"method handler crashed"}}"#,
        ),
    ] {
        assert_eq!(client.post(&[], body).await.text(), format!("{expected}\n"), "{body}");
    }
}

#[tokio::test]
async fn large_results_arrive_whole_plain_and_compressed() {
    let (_servers, address, _) = start(with_limits(HTTP)).await;
    let mut client = Client::connect(address).await;
    let call = r#"{"id":"big","method":"test_large","params":[3000000]}"#;

    let plain = client.post(&[], call).await;
    let compressed = client.post(&[("Accept-Encoding", "deflate, gzip;q=1.0")], call).await;

    assert_eq!(plain.body.len(), 3_000_002 + r#"{"jsonrpc":"2.0","id":"big","result":}"#.len() + 1);
    assert_eq!(compressed.header("content-encoding"), Some("gzip"));
    assert!(plain.body == compressed.body);
}

#[tokio::test]
async fn bodies_that_are_not_utf8_are_repaired_or_refused() {
    let (_servers, address, _) = start(with_limits(HTTP)).await;
    let mut client = Client::connect(address).await;
    let headers = [("Host", "127.0.0.1"), ("Content-Type", "application/json")];

    let body = b"{\"x\":\"\xff\xff\",\"id\":\"\xff\",\"method\":\"test_echo\",\"params\":[\"\xf0\x9f\"]}";
    let repaired = client.request("POST", "/", &headers, Some(body)).await.text();
    let refused = client.request("POST", "/", &headers, Some(b"\xff")).await.text();
    let deep = client.request("POST", "/", &headers, Some("[".repeat(1_000_000).as_bytes())).await.text();

    assert_eq!(repaired, "{\"jsonrpc\":\"2.0\",\"id\":\"\u{fffd}\",\"result\":[\"\u{fffd}\"]}\n");
    assert!(refused.contains("parse error") && deep.contains("parse error"));
}

#[tokio::test]
async fn an_undeclared_body_is_cut_at_the_limit() {
    let (_servers, address, _) = start(with_limits(HttpLimits { body_bytes: 64, ..HTTP })).await;
    let headers = [("Host", "127.0.0.1"), ("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")];
    for (text, expected) in [
        (format!("{:100}", r#"{"id":1,"method":"test_echo"}"#), r#""result":[]"#),
        (format!(r#"{{"id":1,"method":"test_echo","x":"{:100}"}}"#, ""), "parse error"),
    ] {
        let body = format!("{:x}\r\n{text}\r\n0\r\n\r\n", text.len());
        let answer = Client::connect(address).await.request("POST", "/", &headers, Some(body.as_bytes())).await.text();
        assert!(answer.contains(expected), "{answer}");
    }
}

#[tokio::test]
async fn health_determines_the_status() {
    for (is_healthy, status) in [(true, 200), (false, 503)] {
        let details = r#"{"head":7}"#.to_owned();
        let check = Arc::new(move || HealthReport { is_healthy, details: details.clone() });
        let settings = Settings { http: Some(http_settings(&[])), ..Settings::default() };
        let servers = Servers::start(settings, TestService::default(), Some(check)).await.unwrap();

        let mut client = Client::connect(servers.endpoints().http.unwrap()).await;
        let answer = client.request("GET", "/health", &[("Host", "127.0.0.1")], None).await;

        assert_eq!((answer.status, answer.text().as_str()), (status, "{\"head\":7}\n"));
    }
}

#[tokio::test]
async fn silent_connections_are_closed() {
    let limits = HttpLimits { idle_timeout: Duration::from_millis(200), ..HTTP };
    let (_servers, address, _) = start(with_limits(limits)).await;
    let mut client = Client::connect(address).await;
    client.post(&[], r#"{"id":1,"method":"test_echo"}"#).await;

    assert!(client.answer(false).await.is_none());
}

#[tokio::test]
async fn a_slow_head_has_no_more_time_than_a_request() {
    let limits = HttpLimits { request_timeout: Duration::from_millis(300), ..HTTP };
    let (_servers, address, _) = start(with_limits(limits)).await;
    let mut slow = TcpStream::connect(address).await.unwrap();
    let mut quiet = Client::connect(address).await;
    let call = r#"{"id":1,"method":"test_echo"}"#;
    quiet.post(&[], call).await;

    // Ends when the node closes the connection; a byte every few milliseconds keeps the connection from being idle.
    let mut answer = [0];
    while slow.write_all(b"X").await.is_ok() {
        let read = tokio::time::timeout(Duration::from_millis(20), slow.read(&mut answer)).await;
        if read.is_ok_and(|read| read.is_err() || read.is_ok_and(|count| count == 0)) {
            break;
        }
    }

    // A connection that sends nothing is not slow: between requests the idle time limit applies.
    assert_eq!(quiet.post(&[], call).await.status, 200);
}

#[tokio::test]
async fn stopping_waits_for_calls_only_within_its_grace() {
    let (servers, address, service) = start(with_limits(HTTP)).await;
    let call =
        tokio::spawn(async move { Client::connect(address).await.post(&[], r#"{"id":1,"method":"test_wait"}"#).await });
    let mut idle = Client::connect(address).await;
    idle.post(&[], r#"{"id":1,"method":"test_echo"}"#).await;
    service.call_after(0).await;
    let stopping = tokio::spawn(async move { servers.stop(Duration::from_secs(10)).await });
    until(|| std::net::TcpStream::connect(address).is_err()).await;
    service.gate.notify_one();
    assert!(stopping.await.unwrap());
    assert!(call.await.unwrap().text().contains("waited"));

    let (servers, address, service) = start(with_limits(HTTP)).await;
    let stuck = tokio::spawn(async move {
        let mut client = Client::connect(address).await;
        client.send(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 32\r\n\r\n{\"id\":1,\"method\":\"test_forever\"}").await;
        client.answer(false).await
    });
    let context = service.call_after(0).await;
    assert!(!servers.stop(Duration::from_millis(50)).await);
    assert!(context.is_cancelled());
    let answer = stuck.await.unwrap().unwrap();
    let expected =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"the server is stopping\"}}\n";
    assert_eq!((answer.status, answer.text().as_str()), (200, expected));
    assert_eq!(answer.header("connection"), Some("close"));
}

#[tokio::test]
async fn a_batch_that_outlives_the_stop_answers_its_finished_calls_and_fails_the_others() {
    let (servers, address, service) = start(with_limits(HTTP)).await;
    let call = |id: u32, method: &str| format!(r#"{{"id":{id},"method":"test_{method}"}}"#);
    let invalid = "7".to_owned();
    let notification = r#"{"method":"test_echo"}"#.to_owned();
    let calls = [
        call(1, "echo"),
        call(2, "forever"),
        call(3, "change"),
        call(4, "echo"),
        invalid,
        notification,
        call(5, "echo"),
    ];
    let batch = format!("[{}]", calls.join(","));
    let client = tokio::spawn(async move { Client::connect(address).await.post(&[], &batch).await });
    let context = service.call_after(0).await;
    let begun = Instant::now();

    assert!(!servers.stop(Duration::from_millis(20)).await);

    assert!(begun.elapsed() < Duration::from_secs(5) && context.is_cancelled());
    let failed = |id| {
        let error = r#""error":{"code":-32000,"message":"the server is stopping"}"#;
        format!(r#"{{"jsonrpc":"2.0","id":{id},{error}}}"#)
    };
    let done = r#"{"jsonrpc":"2.0","id":1,"result":[]}"#;
    let invalid = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}"#;
    let expected = format!("[{done},{},{},{},{invalid},{}]\n", failed(2), failed(3), failed(4), failed(5));
    assert_eq!(client.await.unwrap().text(), expected);
    assert_eq!(service.changes.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_connection_without_a_whole_request_does_not_delay_the_stop() {
    let (servers, address, _) = start(with_limits(HTTP)).await;
    let mut clients = Vec::new();
    let head = "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n";
    for part in ["", "PO", &head[..60], head, &format!("{head}{{\"id\":")] {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(part.as_bytes()).await.unwrap();
        clients.push(client);
    }
    until(|| servers.traffic().http.counted().open == 5).await;
    // The connections read what has arrived.
    take_turns(100).await;

    assert!(servers.stop(Duration::from_secs(10)).await, "all connections have ended in time");

    for (number, mut client) in clients.into_iter().enumerate() {
        let mut answer = Vec::new();
        // The system may report a reset instead of the end.
        let _ = client.read_to_end(&mut answer).await;
        let wanted = if number < 3 { "" } else { "HTTP/1.1 503 Service Unavailable\r\n" };
        assert!(answer.starts_with(wanted.as_bytes()) && (number > 2 || answer.is_empty()), "{number}: {answer:?}");
    }
}

#[tokio::test]
async fn a_client_that_uploads_while_the_front_end_stops_can_send_everything_and_gets_503() {
    let (servers, address, _) = start(with_limits(HTTP)).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let (piece, pieces) = (vec![b' '; 40_000], 50);
    let length = piece.len() * pieces;
    let head = format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await.unwrap();
    until(|| servers.traffic().http.counted().open == 1).await;
    // The connection reads what has arrived.
    take_turns(100).await;
    let begun = Instant::now();
    let stopping = tokio::spawn(async move { servers.stop(Duration::from_secs(10)).await });
    until(|| std::net::TcpStream::connect(address).is_err()).await;

    for _ in 0..pieces {
        client.write_all(&piece).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 503 Service Unavailable\r\n"), "{answer:?}");
    drop(client);
    assert!(stopping.await.unwrap() && begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn methods_that_are_not_served_are_refused() {
    let (_servers, address, _) = start(with_limits(HTTP)).await;
    let json = [("Content-Type", "application/json")];
    let call = r#"{"id":1,"method":"test_echo"}"#.as_bytes();
    for (method, target) in [("PUT", "/"), ("DELETE", "/"), ("TRACE", "/"), ("BREW", "/"), ("CONNECT", "a.example:443")]
    {
        for body in [Some(call), None] {
            let answer = Client::connect(address).await.request(method, target, &json, body).await;
            assert_eq!((answer.status, answer.text().as_str()), (405, "method not allowed\n"), "{method}");
        }
    }
    for method in ["GET", "OPTIONS", "PATCH", "POST"] {
        let answer = Client::connect(address).await.request(method, "/", &json, Some(call)).await;
        assert_eq!(answer.status, 200, "{method}");
    }
}

#[tokio::test]
async fn a_refused_request_with_a_whole_body_leaves_the_connection_open() {
    let (_servers, address, _) = start(with_limits(HTTP)).await;
    let mut client = Client::connect(address).await;
    let chunked = [("Transfer-Encoding", "chunked")];
    for (headers, body) in [(&[][..], "{}"), (&chunked, "2\r\n{}\r\n0\r\n\r\n")] {
        let refused = client.request("PUT", "/", headers, Some(body.as_bytes())).await;
        assert_eq!((refused.status, refused.header("connection")), (405, None), "{body}");
        assert_eq!(client.post(&[], r#"{"id":1,"method":"test_echo"}"#).await.status, 200, "{body}");
    }

    let refused = client.request("PUT", "/", &chunked, Some(b"2\r\n{}\r\n")).await;

    assert_eq!((refused.status, refused.header("connection")), (405, Some("close")), "the body continues");
}

#[tokio::test]
async fn gzip_is_not_used_if_the_client_refuses_it() {
    let (_servers, address, _) = start(with_limits(HTTP)).await;
    let mut client = Client::connect(address).await;
    for (codings, used) in [("gzip;q=0", None), ("*;q=0", None), ("identity", None), ("gzip;q=0.5", Some("gzip"))] {
        let answer = client.post(&[("Accept-Encoding", codings)], r#"{"id":1,"method":"test_echo"}"#).await;
        assert_eq!(answer.header("content-encoding"), used, "{codings}");
    }
}

#[tokio::test]
async fn a_chunk_of_an_impossible_size_ends_the_connection() {
    let limits = HttpLimits { request_timeout: Duration::from_millis(300), ..HTTP };
    let (_servers, address, _) = start(with_limits(limits)).await;
    let head =
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let call = r#"{"id":1,"method":"test_echo"}"#;
    // A size that fits 64 bits is that of a chunk whose rest does not arrive in time.
    for (size, status) in [("10000000000000000", 400), ("ffffffffffffffffff", 400), ("ffffffffffffffff", 503)] {
        let mut client = Client::connect(address).await;
        client.send(format!("{head}{size}\r\n{call}\r\n0\r\n\r\n").as_bytes()).await;

        let answer = client.answer(false).await.map(|answer| answer.status);

        assert_eq!(answer, Some(status), "{size}");
        assert!(client.answer(false).await.is_none(), "{size}");
    }
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let (_servers, address, _) = start(http_settings(&[])).await;
    let settings =
        Settings { http: Some(HttpSettings { port: address.port(), ..http_settings(&[]) }), ..Settings::default() };

    let error = Servers::start(settings, TestService::default(), None).await.unwrap_err();

    assert!(matches!(error, StartError::Listen { .. }) && error.to_string().contains(&address.to_string()), "{error}");
}
