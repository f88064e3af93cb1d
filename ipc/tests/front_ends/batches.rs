//! The order of a batch's calls, over every transport.

use std::{sync::atomic::Ordering, time::Duration};

use tenon_ipc::{EnvelopeLimits, Servers, Settings, SocketLimits, SocketSettings};

use crate::{
    limits::{ENVELOPE, SOCKET, http_settings, websocket_settings},
    raw_http,
    service::TestService,
    socket, websocket,
};

/// All front-ends, with a client of each.
struct FrontEnds {
    service: TestService,
    http: raw_http::Client,
    websocket: websocket::Client,
    socket: socket::Client,
    _servers: Servers<TestService>,
    _folder: tempfile::TempDir,
}

impl FrontEnds {
    async fn start(envelope: EnvelopeLimits) -> Self {
        let service = TestService::default();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tenon.ipc");
        let (mut http, mut websocket) = (http_settings(&["test"]), websocket_settings(&["test"]));
        (http.limits.envelope, websocket.limits.envelope) = (envelope.clone(), envelope.clone());
        let limits = SocketLimits { envelope, ..SOCKET };
        let settings = Settings {
            http: Some(http),
            websocket: Some(websocket),
            socket: Some(SocketSettings { path: path.clone(), limits }),
            token_secret: None,
        };
        let servers = Servers::start(settings, service.clone(), None).await.unwrap();
        let endpoints = servers.endpoints();
        Self {
            service,
            http: raw_http::Client::connect(endpoints.http.unwrap()).await,
            websocket: websocket::Client::connect(endpoints.websocket.unwrap()).await,
            socket: socket::Client::connect(&path).await,
            _servers: servers,
            _folder: folder,
        }
    }

    /// The answers of each transport, in turn, to a batch of these methods. Calls whose name ends with `!` have no id.
    async fn ask(&mut self, methods: &[&str]) -> [Vec<serde_json::Value>; 3] {
        let call = |(id, method): (usize, &&str)| match method.strip_suffix('!') {
            Some(method) => format!(r#"{{"method":"{method}"}}"#),
            None => format!(r#"{{"id":{id},"method":"{method}"}}"#),
        };
        let body = format!("[{}]", methods.iter().enumerate().map(call).collect::<Vec<_>>().join(","));
        let http = self.http.post(&[], &body).await.text();
        let websocket = self.websocket.ask(&body).await;
        self.socket.send(&body).await;
        let socket = self.socket.receive().await.unwrap();
        [http, websocket, socket].map(|text| serde_json::from_str(&text).unwrap())
    }

    fn changes(&self) -> u64 {
        self.service.changes.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn calls_that_change_something_keep_their_order_among_reads() {
    let mut front_ends = FrontEnds::start(ENVELOPE).await;
    let batch = [
        "test_changesLater",
        "test_changesLater",
        "test_change",
        "test_changes",
        "test_changesLater",
        "test_changesLater",
        "test_change",
        "test_change!",
        "test_changes",
    ];
    let by_id = [0, 0, -1, 1, 1, 1, -1, -1, 3];

    for round in 0..20 {
        let already = i64::try_from(front_ends.changes()).unwrap();
        for (answers, earlier) in front_ends.ask(&batch).await.into_iter().zip([0, 3, 6]) {
            let ids: Vec<u64> = answers.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
            assert_eq!(ids, [0, 1, 2, 3, 4, 5, 6, 8], "the answers of round {round} stand in order");
            for answer in answers {
                let seen = by_id[usize::try_from(answer["id"].as_u64().unwrap()).unwrap()];
                let expected = if seen < 0 { serde_json::Value::Null } else { (already + earlier + seen).into() };
                assert_eq!(answer["result"], expected, "round {round}: {answer}");
            }
        }
    }
}

#[tokio::test]
async fn a_call_is_not_begun_after_the_time_limit() {
    let limits = EnvelopeLimits { call_timeout: Some(Duration::from_millis(50)), ..ENVELOPE };
    let mut front_ends = FrontEnds::start(limits).await;
    let body = r#"[{"id":0,"method":"test_forever"},{"id":1,"method":"test_change"},{"id":2,"method":"test_changes"}]"#;

    let websocket = front_ends.websocket.ask(body).await;
    front_ends.socket.send(body).await;
    let socket = front_ends.socket.receive().await.unwrap();

    let failure = r#""error":{"code":-32005,"message":"request timed out"}}"#;
    let expected: Vec<_> = (0..3).map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},{failure}"#)).collect();
    let expected = format!("[{}]", expected.join(","));
    assert_eq!((websocket.trim_end(), socket.as_str()), (&*expected, &*expected));
    assert_eq!(front_ends.changes(), 0);
}

#[tokio::test]
async fn a_call_is_not_begun_beyond_the_byte_limit_of_the_batch() {
    let limits = EnvelopeLimits { batch_response_bytes: 3, ..ENVELOPE };
    let mut front_ends = FrontEnds::start(limits).await;

    let answers = front_ends.ask(&["test_change", "test_change"]).await;

    for answers in answers {
        for answer in answers {
            assert_eq!(answer["error"]["code"], -32003, "{answer}");
        }
    }
    assert_eq!(front_ends.changes(), 3, "the first of each batch was too large when it had answered");
}

#[tokio::test]
async fn a_subscription_of_a_batch_keeps_its_place() {
    let mut front_ends = FrontEnds::start(EnvelopeLimits { subscriptions: 1, ..ENVELOPE }).await;
    let never = r#""method":"test_subscribe","params":["never"]"#;
    let body = format!(r#"[{{"id":0,"method":"test_yield"}},{{"id":1,{never}}},{{"id":2,{never}}}]"#);

    let answer = front_ends.websocket.ask(&body).await;

    let answers: Vec<serde_json::Value> = serde_json::from_str(&answer).unwrap();
    assert!(answers[1]["result"].is_string(), "{answer}");
    assert_eq!(answers[2]["error"]["message"], "too many subscriptions: at most 1 on a connection");
}
