//! The local socket.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::{Duration, Instant},
};

use tenon_bus::CallContext;
use tenon_ipc::{EnvelopeLimits, Servers, Settings, SocketLimits, SocketSettings, StartError};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use crate::{
    limits::{ENVELOPE, SOCKET},
    service::{TestService, take_turns, until},
};

async fn try_start(
    path: &Path,
    limits: SocketLimits,
    service: TestService,
) -> Result<Servers<TestService>, StartError> {
    let settings = Settings { socket: Some(SocketSettings { path: path.to_owned(), limits }), ..Settings::default() };
    Servers::start(settings, service, None).await
}

pub(crate) struct Client {
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl Client {
    pub(crate) async fn connect(path: &Path) -> Self {
        let (reader, writer) = UnixStream::connect(path).await.unwrap().into_split();
        Self { lines: BufReader::new(reader).lines(), writer }
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> Option<String> {
        self.lines.next_line().await.unwrap()
    }
}

#[tokio::test]
async fn requests_may_be_concatenated_split_and_pretty_printed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/tenon.ipc");
    let _servers = try_start(&path, SOCKET, TestService::default()).await.unwrap();
    let mut client = Client::connect(&path).await;

    client.send(r#"{"id":1,"method":"test_echo"}{"id":2,"method":"test_echo"}[{"id":3,"meth"#).await;
    assert_eq!(client.receive().await.unwrap(), r#"{"jsonrpc":"2.0","id":1,"result":[]}"#);
    assert_eq!(client.receive().await.unwrap(), r#"{"jsonrpc":"2.0","id":2,"result":[]}"#);
    client.send("od\": \"test_echo\"\n}\n,\n\n").await;
    client.send("{\n  \"id\": \"4\",\n  \"method\": \"test_echo\",\n  \"params\": [\n    1\n  ]\n}]").await;

    let answer = client.receive().await.unwrap();
    assert!(
        answer.starts_with(r#"[{"jsonrpc":"2.0","id":3,"result":[]},{"jsonrpc":"2.0","id":"4","result":[ "#)
            || answer.ends_with('['),
        "{answer}"
    );
}

#[tokio::test]
async fn only_the_owner_may_open_it_and_it_disappears_with_the_node() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new").join("tenon.ipc");

    let servers = try_start(&path, SOCKET, TestService::default()).await.unwrap();

    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&folder.path().join("new"))), (0o600, 0o700));
    assert!(servers.stop(Duration::from_secs(5)).await);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_stale_socket_is_replaced_but_not_one_in_use_or_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenon.ipc");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());

    let _servers = try_start(&path, SOCKET, TestService::default()).await.unwrap();
    let second = try_start(&path, SOCKET, TestService::default()).await;
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let third = try_start(&file, SOCKET, TestService::default()).await;

    assert!(matches!(second, Err(StartError::SocketInUse { .. })));
    assert!(matches!(third, Err(StartError::NotASocket { .. })));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[tokio::test]
async fn a_program_that_stops_sending_still_gets_its_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenon.ipc");
    let service = TestService::default();
    let _servers = try_start(&path, SOCKET, service.clone()).await.unwrap();
    let mut stream = UnixStream::connect(&path).await.unwrap();

    stream.write_all(br#"{"id":1,"method":"test_wait"}{"id":2,"method":"test_echo"}"#).await.unwrap();
    stream.shutdown().await.unwrap();
    service.gate.notify_one();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();

    assert_eq!(text.lines().count(), 2, "{text}");
}

#[tokio::test]
async fn a_program_that_dies_cancels_its_calls() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenon.ipc");
    let service = TestService::default();
    let _servers = try_start(&path, SOCKET, service.clone()).await.unwrap();
    let mut client = Client::connect(&path).await;
    client.send(r#"{"id":1,"method":"test_forever"}"#).await;
    let context = service.call_after(0).await;
    assert!(!context.is_cancelled());

    drop(client);

    until(|| context.is_cancelled()).await;
}

/// A connection without room for further calls polls whether its client is still there. The later wait for the last
/// calls must not depend on that polling interval. The clock is paused here.
#[tokio::test(start_paused = true)]
async fn a_program_that_dies_after_its_calls_waited_cancels_them_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenon.ipc");
    let service = TestService::default();
    let limits = SocketLimits { calls_in_flight: 1, ..SOCKET };
    let _servers = try_start(&path, limits, service.clone()).await.unwrap();
    let mut client = Client::connect(&path).await;
    client.send(r#"{"id":1,"method":"test_wait"}{"id":2,"method":"test_forever"}"#).await;
    service.call_after(0).await;
    service.gate.notify_one();
    let context = service.call_after(1).await;
    // With unread data the system would report the end of the client, and no polling would be needed.
    client.receive().await.unwrap();

    drop(client);
    take_turns(1_000).await;

    assert!(context.is_cancelled());
}

#[tokio::test]
async fn calls_beyond_the_maximum_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenon.ipc");
    let service = TestService::default();
    let limits = SocketLimits { calls_in_flight: 2, ..SOCKET };
    let _servers = try_start(&path, limits, service.clone()).await.unwrap();
    let mut client = Client::connect(&path).await;

    client.send(&r#"{"id":1,"method":"test_forever"}"#.repeat(5)).await;
    until(|| service.begun.lock().unwrap().len() == 2).await;
    tokio::time::sleep(Duration::from_millis(50)).await;

    assert_eq!(service.begun.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_thousand_requests_at_once_are_all_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenon.ipc");
    let _servers = try_start(&path, SOCKET, TestService::default()).await.unwrap();
    let mut stream = UnixStream::connect(&path).await.unwrap();
    let requests: String =
        (0..1_000).map(|id| format!(r#"{{"id":{id},"method":"test_yield","params":[{id}]}}"#)).collect();

    stream.write_all(requests.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();

    let mut ids: Vec<u64> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_u64().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..1_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_message_without_end_is_refused_with_a_named_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenon.ipc");
    let limits = SocketLimits { message_bytes: 10_000, ..SOCKET };
    let _servers = try_start(&path, limits, TestService::default()).await.unwrap();
    let mut client = Client::connect(&path).await;

    let text = format!("{}[\"{}", " ".repeat(50_000), "x".repeat(20_000));
    let _ = client.writer.write_all(text.as_bytes()).await;

    let expected =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"message too large: at most 10000 bytes"}}"#;
    assert_eq!(client.receive().await.as_deref(), Some(expected));
    assert_eq!(client.lines.next_line().await.ok().flatten(), None);
}

#[tokio::test]
async fn a_call_beyond_its_time_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenon.ipc");
    let envelope = EnvelopeLimits { call_timeout: Some(Duration::from_millis(20)), ..ENVELOPE };
    let service = TestService::default();
    let _servers = try_start(&path, SocketLimits { envelope, ..SOCKET }, service.clone()).await.unwrap();
    let mut client = Client::connect(&path).await;

    client.send(r#"{"id":1,"method":"test_forever"}"#).await;

    let expected = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"request timed out"}}"#;
    assert_eq!(client.receive().await.as_deref(), Some(expected));
    client.send(r#"{"id":2,"method":"test_echo"}"#).await;
    assert!(client.receive().await.unwrap().contains(r#""id":2"#));
    until(|| service.begun.lock().unwrap()[0].is_cancelled()).await;
}

#[tokio::test]
async fn calls_that_outlive_the_stop_are_cancelled_and_answered_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenon.ipc");
    let service = TestService::default();
    let servers = try_start(&path, SOCKET, service.clone()).await.unwrap();
    let mut client = Client::connect(&path).await;
    client
        .send(r#"{"id":"a","method":"test_forever"}[{"id":"b","method":"test_forever"}]{"method":"test_forever"}"#)
        .await;
    service.call_after(2).await;
    let begun = Instant::now();

    assert!(!servers.stop(Duration::from_millis(20)).await);

    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(service.begun.lock().unwrap().iter().all(CallContext::is_cancelled));
    let failed = |id| {
        let error = r#""error":{"code":-32000,"message":"the server is stopping"}"#;
        format!(r#"{{"jsonrpc":"2.0","id":"{id}",{error}}}"#)
    };
    let mut answers = [client.receive().await.unwrap(), client.receive().await.unwrap()];
    answers.sort();
    assert_eq!(answers, [format!("[{}]", failed("b")), failed("a")]);
    assert_eq!(client.receive().await, None);
}

#[tokio::test]
async fn a_program_that_never_reads_its_answers_is_disconnected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenon.ipc");
    let limits = SocketLimits { queued_bytes: 1 << 20, write_timeout: Duration::from_millis(100), ..SOCKET };
    let _servers = try_start(&path, limits, TestService::default()).await.unwrap();
    let mut client = Client::connect(&path).await;

    let request = r#"{"id":1,"method":"test_large","params":[500000]}"#.repeat(100);
    // Ends only because the other side closes the connection: it reads no request while a megabyte waits to be read.
    while client.writer.write_all(request.as_bytes()).await.is_ok() {}
}
