//! Recorded exchanges with the reference, replayed over real sockets (`data/README.md`).

use std::{path::PathBuf, sync::Arc};

use serde_json::{Value, value::RawValue};
use tenon_ipc::{
    Endpoints, HttpRules, HttpSettings, Servers, Settings, SocketSettings, WebSocketRules, WebSocketSettings,
};
use tenon_sdk::{Failure, FailureCode};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

use crate::{
    limits::{SOCKET, http_rules, http_settings, websocket_rules, websocket_settings},
    raw_http::Client,
    service::{Outcomes, TestService},
    websocket,
};

const PROBE: &str = r#"{"id":"probe","method":"eth_chainId"}"#;

/// One line of a recording.
#[derive(serde::Deserialize)]
struct Line {
    id: u64,
    #[serde(default)]
    raw: String,
    http: Option<Value>,
    response: Value,
}

fn lines(name: &str) -> Vec<Line> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(&comparable(line)).unwrap()).collect()
}

/// serde_json rejects an unpaired surrogate; the reference and this node do not.
fn comparable(text: &str) -> String {
    text.replace("\\ud800", "\\ufffd")
}

/// The recorder normalised numbers: `-0` became `0`.
fn value(text: &str) -> Value {
    serde_json::from_str(&comparable(&text.replace("\"id\":-0,", "\"id\":0,"))).unwrap()
}

/// The outcome of each recorded call, to be replayed.
fn outcomes() -> Outcomes {
    #[derive(serde::Deserialize)]
    struct Call<'a> {
        method: String,
        #[serde(borrow)]
        params: Option<&'a RawValue>,
    }
    let mut outcomes = Outcomes::new();
    for Line { raw, response, .. } in lines("protocol-http.jsonl") {
        let Ok(call) = serde_json::from_str::<Call<'_>>(&raw) else { continue };
        let params = call.params.map_or("[]", RawValue::get).to_owned();
        let outcome = match (response.get("result"), response.get("error")) {
            (Some(result), _) => Ok(result.to_string()),
            (_, Some(error)) => Err(Failure {
                code: FailureCode(i32::try_from(error["code"].as_i64().unwrap()).unwrap()),
                message: error["message"].as_str().unwrap().to_owned(),
                data: error.get("data").map(Value::to_string),
            }),
            _ => continue,
        };
        outcomes.insert((call.method, params), outcome);
    }
    // The only recorded methods that no plain request above calls.
    outcomes.insert(
        ("eth_chainId".to_owned(), "[1]".to_owned()),
        Err(Failure::invalid_params("too many arguments, want at most 0")),
    );
    outcomes.insert(("net_version".to_owned(), "[]".to_owned()), Ok("\"5151\"".to_owned()));
    outcomes
}

async fn start(folder: &std::path::Path) -> (Servers<TestService>, Endpoints) {
    let all = ["XDPoS", "admin", "debug", "eth", "miner", "net", "rpc", "txpool", "web3"];
    let settings = Settings {
        http: Some(HttpSettings {
            rules: HttpRules {
                cors_origins: vec!["*".to_owned()],
                virtual_hosts: vec!["*".to_owned()],
                ..http_rules(&all)
            },
            ..http_settings(&all)
        }),
        websocket: Some(WebSocketSettings {
            rules: WebSocketRules { origins: vec!["*".to_owned()], ..websocket_rules(&all) },
            ..websocket_settings(&all)
        }),
        socket: Some(SocketSettings { path: folder.join("tenon.ipc"), limits: SOCKET }),
        token_secret: None,
    };
    let service = TestService { outcomes: Arc::new(outcomes()), ..TestService::default() };
    let servers = Servers::start(settings, service, None).await.unwrap();
    let endpoints = servers.endpoints().clone();
    (servers, endpoints)
}

#[tokio::test]
async fn answers_the_recorded_texts_over_http_as_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let (_servers, endpoints) = start(folder.path()).await;
    let mut client = Client::connect(endpoints.http.unwrap()).await;
    let mut count = 0;
    for Line { id, raw, response, .. } in lines("protocol-http.jsonl") {
        let answer = client.post(&[], &raw).await;

        assert_eq!(answer.status, 200, "{id}: {raw}");
        if response.get("empty").is_some() {
            assert_eq!(answer.text(), "", "{id}: {raw}");
        } else {
            assert!(answer.text().ends_with('\n'), "{id}");
            assert_eq!(value(&answer.text()), response, "{id}: {raw}");
        }
        count += 1;
    }
    assert_eq!(count, 229);
}

#[tokio::test]
async fn answers_the_recorded_texts_over_websocket_as_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let (_servers, endpoints) = start(folder.path()).await;
    for Line { id, raw, response, .. } in lines("protocol-ws.jsonl") {
        let stays_open = response["then"] == "open";
        let expected = response["answers"].as_array().unwrap();
        let mut client = websocket::Client::connect(endpoints.websocket.unwrap()).await;

        client.send(&raw).await;
        let mut answers = Vec::new();
        if stays_open {
            client.send(PROBE).await;
            for _ in 0..=expected.len() {
                answers.push(value(&client.receive().await.expect("an answer")));
            }
        } else {
            while let Some(text) = client.receive().await {
                answers.push(value(&text));
            }
        }

        compare(id, &raw, answers, expected, stays_open);
    }
}

#[tokio::test]
async fn answers_the_recorded_texts_over_the_socket_as_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let (_servers, endpoints) = start(folder.path()).await;
    for Line { id, raw, response, .. } in lines("protocol-ipc.jsonl") {
        // Truncated texts: the probe would become a part of them.
        let is_truncated = [177, 190, 192, 201].contains(&id);
        let stays_open = response["then"] == "open" && !is_truncated;
        let mut stream = UnixStream::connect(endpoints.socket.as_ref().unwrap()).await.unwrap();

        let probe = if is_truncated { "" } else { PROBE };
        let _ = stream.write_all(format!("{raw}\n{probe}").as_bytes()).await;
        let _ = stream.shutdown().await;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let answers = text.lines().map(value).collect();

        compare(id, &raw, answers, response["answers"].as_array().unwrap(), stays_open);
    }
}

/// Answers may arrive in any order; the probe's is among them if the connection stays open.
fn compare(id: u64, raw: &str, mut answers: Vec<Value>, expected: &[Value], stays_open: bool) {
    let probe = answers.iter().position(|answer| answer.get("id") == Some(&Value::from("probe")));
    assert_eq!(probe.is_some(), stays_open, "{id}: {raw}: {answers:?}");
    if let Some(probe) = probe {
        answers.remove(probe);
    }
    let sorted = |answers: &[Value]| {
        let mut texts: Vec<String> = answers.iter().map(Value::to_string).collect();
        texts.sort();
        texts
    };
    assert_eq!(sorted(&answers), sorted(expected), "{id}: {raw}");
}

/// Exchanges that are not replayed: the handling of `//` by Go's router, which is not part of the protocol.
const NOT_PLAYED: [u64; 1] = [32];

#[tokio::test]
async fn answers_the_recorded_http_exchanges_as_the_reference() {
    let folder = tempfile::tempdir().unwrap();
    let (_servers, endpoints) = start(folder.path()).await;
    for Line { id, http, response, .. } in lines("raw-http.jsonl") {
        if NOT_PLAYED.contains(&id) {
            continue;
        }
        let http = http.unwrap();
        let mut client = Client::connect(endpoints.http.unwrap()).await;
        let mut headers: Vec<(&str, &str)> = http["headers"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (&name[..], value.as_str().unwrap()))
            .collect();
        if !headers.iter().any(|(name, _)| *name == "Host") {
            headers.push(("Host", "127.0.0.1"));
        }
        let body = match &http["body"] {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            repeated => {
                let times = usize::try_from(repeated["times"].as_u64().unwrap()).unwrap();
                Some(repeated["repeat"].as_str().unwrap().repeat(times))
            }
        };

        let answer = client
            .request(
                http["method"].as_str().unwrap(),
                http["path"].as_str().unwrap(),
                &headers,
                body.as_deref().map(str::as_bytes),
            )
            .await;

        assert_eq!(u64::from(answer.status), response["status"].as_u64().unwrap(), "{id}");
        for (name, expected) in response["headers"].as_object().unwrap() {
            // hyper closes the connection after a body that it did not read, without announcing it.
            if name == "connection" && id == 58 {
                continue;
            }
            assert_eq!(answer.header(name), expected.as_str(), "{id}: {name}");
        }
        if let Some(expected) = response["body"].as_str() {
            let text = answer.text();
            assert!(text == expected, "{id}: {:.200}", text);
        }
    }
}
