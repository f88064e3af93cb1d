//! The client against the real front-end of a node, with a service of a few methods behind it.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::{path::PathBuf, time::Duration};

use tenon_api::SecretText;
use tenon_ipc::{
    Caller, EnvelopeLimits, Notifications, RawCall, RpcService, Servers, Settings, SocketLimits, SocketSettings,
};
use tenon_ipc_client::{
    AdminClient as _, Client, ClientSettings, Error, EthClient as _, EthSubscriptions as _, SecretParams, SocketError,
    jsonrpsee::{
        core::client::{ClientT as _, Subscription, SubscriptionClientT as _},
        core::params::BatchRequestBuilder,
        rpc_params,
    },
};
use tenon_sdk::{Failure, FailureCode};

/// Answers the methods of these tests.
#[derive(Clone)]
struct Service;

/// Notifications of a test: some items, and the end of the subscription or none.
struct Items(std::vec::IntoIter<String>, Option<Failure>);

impl Notifications for Items {
    type Json = String;

    async fn next(&mut self) -> Option<Result<String, Failure>> {
        match (self.0.next(), self.1.take()) {
            (Some(item), end) => {
                self.1 = end;
                Some(Ok(item))
            }
            (None, Some(end)) => Some(Err(end)),
            (None, None) => std::future::pending().await,
        }
    }
}

fn refused(message: &str) -> Failure {
    Failure { code: FailureCode(-32_000), message: message.to_owned(), data: Some("\"0x08\"".to_owned()) }
}

impl RpcService for Service {
    type Json = String;
    type Notifications = Items;

    async fn serve_call(&self, call: &mut RawCall<'_>, _: &Caller) -> Result<String, Failure> {
        let (method, params) = (call.method().to_owned(), call.params().unwrap_or("[]").to_owned());
        match method.as_str() {
            "eth_blockNumber" => Ok("\"0x36\"".to_owned()),
            "admin_datadir" => Err(refused("the folder is secret")),
            "test_echo" => Ok(params),
            "test_text" => {
                let length: usize = params.trim_matches(['[', ']']).parse().map_err(|_| refused("no number"))?;
                Ok(format!("\"{}\"", "x".repeat(length)))
            }
            "test_never" => std::future::pending().await,
            _ => Err(refused("unknown")),
        }
    }

    fn only_reads(&self, _: &str) -> bool {
        true
    }

    async fn subscribe(&self, _: &str, kind: &str, _: Option<&str>, _: &Caller) -> Result<Items, Failure> {
        let numbers = |count: u64| (1..=count).map(|number| number.to_string()).collect::<Vec<_>>().into_iter();
        match kind {
            "newHeads" => {
                let head = HEADER.replace("LOGS", &format!("0x{}", "0".repeat(512)));
                Ok(Items(vec!["\"no header\"".to_owned(), head].into_iter(), None))
            }
            "three" => Ok(Items(numbers(3), Some(refused("subscription closed: no more")))),
            "many" => Ok(Items(numbers(100), None)),
            _ => Err(refused("no such subscription")),
        }
    }
}

/// A head as the node announces it. The service replaces `LOGS` by an empty bloom filter.
const HEADER: &str = r#"{"number":"0x36","hash":"0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7","parentHash":"0x0000000000000000000000000000000000000000000000000000000000000001","nonce":"0x0000000000000000","mixHash":"0x0000000000000000000000000000000000000000000000000000000000000000","sha3Uncles":"0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347","logsBloom":"LOGS","transactionsRoot":"0x0000000000000000000000000000000000000000000000000000000000000002","stateRoot":"0x0000000000000000000000000000000000000000000000000000000000000003","receiptsRoot":"0x0000000000000000000000000000000000000000000000000000000000000004","miner":"0x0000000000000000000000000000000000000005","difficulty":"0x1","extraData":"0x","gasLimit":"0x1c9c380","gasUsed":"0x5208","timestamp":"0x65000000"}"#;

const LIMITS: SocketLimits = SocketLimits::new(ENVELOPE, 500, 64 << 20);

const ENVELOPE: EnvelopeLimits = EnvelopeLimits {
    batch_items: 10_000,
    batch_concurrency: 16,
    response_bytes: 64 << 20,
    batch_response_bytes: 25_000_000,
    call_timeout: Some(Duration::from_secs(600)),
    computing_time: Some(Duration::from_secs(30)),
    subscriptions: 256,
    client_subscriptions: 256,
};

struct Node {
    servers: Option<Servers<Service>>,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Node {
    async fn start() -> Self {
        Self::start_with(LIMITS).await
    }

    async fn start_with(limits: SocketLimits) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tenon.ipc");
        let socket = SocketSettings { path: path.clone(), limits };
        let settings = Settings { socket: Some(socket), ..Settings::default() };
        let servers = Servers::start(settings, Service, None).await.unwrap();
        Self { servers: Some(servers), path, _folder: folder }
    }

    async fn client(&self) -> Client {
        Client::connect(&self.path).await.unwrap()
    }

    async fn client_with(&self, settings: ClientSettings) -> Client {
        Client::connect_with(&self.path, settings).await.unwrap()
    }

    async fn stop(&mut self) {
        assert!(self.servers.take().unwrap().stop(Duration::from_secs(5)).await);
    }
}

#[tokio::test]
async fn answers_and_errors_are_typed() {
    let node = Node::start().await;
    let client = node.client().await;

    let number = client.answer(client.block_number()).await.unwrap();
    let error = client.answer(client.data_folder()).await.unwrap_err();

    assert_eq!(number.to::<u64>(), 0x36);
    assert_eq!((error.refusal(), error.to_string().as_str()), (Some("the folder is secret"), "the folder is secret"));
    let Error::Refused(error) = error else { panic!("{error}") };
    assert_eq!((error.code(), error.data().unwrap().get()), (-32_000, "\"0x08\""));
}

#[tokio::test]
async fn an_answer_as_long_as_the_node_allows_arrives() {
    let node = Node::start().await;
    let client = node.client().await;
    let length = (64 << 20) - 2;

    let text: String = client.answer(client.request("test_text", rpc_params![length])).await.unwrap();

    assert_eq!(text.len(), length);
}

#[tokio::test]
async fn an_answer_beyond_the_limit_of_the_client_ends_the_connection_and_says_so() {
    let node = Node::start().await;
    let client = node.client_with(ClientSettings { max_message_bytes: 1_000, ..ClientSettings::default() }).await;

    let long = client.answer(client.request::<String, _>("test_text", rpc_params![1_000])).await.unwrap_err();
    let later = client.answer(client.block_number()).await.unwrap_err();

    for error in [long, later] {
        assert!(
            error.to_string().contains("an answer is longer than 1000 bytes; raise `max_message_bytes`"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_batch_is_answered_in_order() {
    let node = Node::start().await;
    let client = node.client().await;
    let mut batch = BatchRequestBuilder::new();
    for number in 0..3 {
        batch.insert("test_echo", rpc_params![number]).unwrap();
    }

    let answers = client.answer(client.batch_request::<Vec<u64>>(batch)).await.unwrap();

    let answers: Vec<_> = answers.into_ok().unwrap().collect();
    assert_eq!(answers, [[0], [1], [2]]);
}

#[tokio::test]
async fn a_node_that_never_answers_is_given_up_and_later_calls_work() {
    let node = Node::start().await;
    let limits = ClientSettings { request_timeout: Duration::from_millis(50), ..ClientSettings::default() };
    let client = node.client_with(limits).await;

    let never = client.answer(client.request::<String, _>("test_never", rpc_params![])).await;

    assert!(matches!(never, Err(Error::NoAnswer { .. })), "{never:?}");
    assert!(client.answer(client.block_number()).await.is_ok());
}

#[tokio::test]
async fn new_heads_arrive_over_the_socket() {
    let node = Node::start().await;
    let client = node.client().await;

    let mut heads = client.answer(client.new_heads()).await.unwrap();
    let wrong = client.next_item(&mut heads).await;
    let head = client.next_item(&mut heads).await.unwrap();

    assert!(matches!(wrong, Err(Error::Unreadable(_))), "{wrong:?}");
    assert_eq!(
        (head.number, head.gas_limit, head.hash.to_string()[..6].to_owned()),
        (0x36, 30_000_000, "0xd226".into())
    );
    heads.unsubscribe().await.unwrap();
    assert!(client.answer(client.block_number()).await.is_ok());
}

async fn subscribe(client: &Client, kind: &str) -> Result<Subscription<u64>, Error> {
    client.answer(client.subscribe("test_subscribe", rpc_params![kind], "test_unsubscribe")).await
}

#[tokio::test]
async fn the_reason_for_the_end_of_a_subscription_is_returned() {
    let node = Node::start().await;
    let client = node.client().await;

    let mut three = subscribe(&client, "three").await.unwrap();
    for expected in 1..=3 {
        assert_eq!(client.next_item(&mut three).await.unwrap(), expected);
    }
    let end = client.next_item(&mut three).await.unwrap_err();
    let unknown = subscribe(&client, "unknown").await.unwrap_err();

    assert_eq!(end.to_string(), "subscription closed: no more");
    assert!(matches!(end, Error::SubscriptionEnded { .. }));
    let again = client.next_item(&mut three).await.unwrap_err();
    assert_eq!(again.to_string(), "the subscription has ended", "a caller that asks again gets an answer");
    assert_eq!(unknown.refusal(), Some("no such subscription"));
}

#[tokio::test]
async fn a_subscription_that_is_not_read_is_closed_and_the_connection_continues() {
    let node = Node::start().await;
    let client = node.client_with(ClientSettings { max_waiting_items: 2, ..ClientSettings::default() }).await;

    let mut many = subscribe(&client, "many").await.unwrap();
    // Answered after the items, which the node sends first.
    while many.close_reason().is_none() {
        client.answer(client.block_number()).await.unwrap();
    }
    let end = loop {
        match client.next_item(&mut many).await {
            Ok(_) => {}
            Err(end) => break end,
        }
    };

    assert!(matches!(end, Error::Lagged(2)), "{end}");
}

#[tokio::test]
async fn the_end_of_the_node_ends_calls_and_subscriptions() {
    let mut node = Node::start().await;
    let client = node.client().await;
    let mut many = subscribe(&client, "many").await.unwrap();

    node.stop().await;
    let end = loop {
        match client.next_item(&mut many).await {
            Ok(_) => {}
            Err(end) => break end,
        }
    };

    assert_eq!(end.to_string(), "the node closed the connection");
    let call = client.answer(client.block_number()).await.unwrap_err();
    assert!(matches!(call, Error::Disconnected(_)), "{call}");
    let again = Client::connect(&node.path).await.unwrap_err();
    assert!(matches!(&again, SocketError::Connect { .. }));
    assert!(again.to_string().contains("tenon.ipc: no node listens on it; start one"), "{again}");
}

#[tokio::test]
async fn a_message_that_the_node_refuses_ends_the_connection_with_the_nodes_reason() {
    let node = Node::start_with(SocketLimits { message_bytes: 1_000, ..LIMITS }).await;
    let client = node.client().await;
    let long = "x".repeat(1 << 20);

    let refused = client.answer(client.request::<String, _>("test_echo", rpc_params![long])).await.unwrap_err();

    assert!(refused.to_string().contains("the node refused a message: message too large"), "{refused}");
}

#[tokio::test]
async fn secrets_travel_on_a_connection_of_their_own() {
    let node = Node::start().await;
    let client = node.client().await;
    let params = || SecretParams::new().plain(&1)?.secret(&SecretText::from("pass\"word"));

    let echo: (u64, String) = client.call_with_secret("test_echo", params().unwrap()).await.unwrap();
    let refused = client.call_with_secret::<bool>("admin_datadir", params().unwrap()).await.unwrap_err();

    assert_eq!(echo, (1, "pass\"word".to_owned()));
    assert_eq!(refused.refusal(), Some("the folder is secret"));
}
