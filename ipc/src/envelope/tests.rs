//! Tests of the envelope without a transport, for cases that are not in the recordings.

use std::time::Duration;

use tenon_bus::{CallContext, ClientId, MemoryLimits, Origin};

use super::{large_answers::LARGE_ANSWER, *};
use crate::{
    service::{Exposure, NoNotifications},
    stop_signals::StopSignals,
};

#[derive(Clone)]
struct Echo;

impl RpcService for Echo {
    type Json = String;
    type Notifications = NoNotifications<String>;

    async fn serve_call(&self, call: &mut RawCall<'_>, _: &Caller) -> Result<String, Failure> {
        let (method, params) = (call.method(), call.params());
        match method {
            "fail" => {
                Err(Failure { code: FailureCode(3), message: "<reverted>".into(), data: Some("\"0x01\"".into()) })
            }
            _ => Ok(format!("[{},{}]", serde_json::json!(method), params.unwrap_or("null"))),
        }
    }

    fn only_reads(&self, _: &str) -> bool {
        true
    }

    async fn subscribe(&self, _: &str, _: &str, _: Option<&str>, _: &Caller) -> Result<Self::Notifications, Failure> {
        Ok(NoNotifications::default())
    }
}

/// Without a timer, which needs a runtime.
const LIMITS: EnvelopeLimits = EnvelopeLimits {
    batch_items: 10_000,
    batch_concurrency: 16,
    response_bytes: 64 << 20,
    batch_response_bytes: 25_000_000,
    call_timeout: None,
    computing_time: Some(Duration::from_secs(30)),
    subscriptions: 256,
    client_subscriptions: 256,
};

fn answer(body: &[u8]) -> Option<String> {
    let caller = Caller::new(Exposure::all(), CallContext::new());
    let dispatcher = Dispatcher::new(Echo, LIMITS);
    let answer = dispatcher.answer_text(body, &caller).now_or_never().expect("the service never waits");
    answer.map(|text| String::from_utf8(text).unwrap())
}

#[test]
fn passes_raw_params_and_ids_through_unchanged() {
    for (body, expected) in [
        (
            r#"{"id": 1.50e+3 ,"method":"m","params":[ 1e400, "\u00e9" ]}"#,
            r#""id":1.50e+3,"result":["m",[ 1e400, "\u00e9" ]]"#,
        ),
        (r#"{"id":"\ud800\"","method":"a\nb"}"#, r#""id":"\ud800\"","result":["a\nb",null]"#),
        (r#"{"id":-0,"method":"m","params":{"a":1}}"#, r#""id":-0,"result":["m",{"a":1}]"#),
        (r#"{"id":7,"method":"fail"}"#, r#""id":7,"error":{"code":3,"message":"\u003creverted\u003e","data":"0x01"}"#),
    ] {
        assert_eq!(answer(body.as_bytes()).unwrap(), format!("{{\"jsonrpc\":\"2.0\",{expected}}}\n"), "{body}");
    }
}

#[test]
fn drops_messages_that_are_not_requests() {
    for body in [
        r#"{"method":"m"}"#,
        r#"{"method":"eth_subscribe","params":["newHeads"]}"#,
        r#"{"id":1,"result":null}"#,
        r#"[{"method":"m"},{"id":1,"error":{}}]"#,
        " \n",
    ] {
        assert_eq!(answer(body.as_bytes()), None, "{body}");
    }
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_answered_with_json_or_silence(bytes: Vec<u8>) {
        check_answer(&bytes)?;
    }

    #[test]
    fn any_fragments_of_requests_are_answered_with_json_or_silence(
        pieces in proptest::collection::vec(proptest::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"id\"", "\"method\"", "\"params\"", "\"m\"", "\"eth_subscribe\"",
            "\"eth_unsubscribe\"", "1", "null", "-", "\"\\ud8", "00\"", "\"", " ", "\u{e9}", "true", "\"result\"",
        ]), 0..30),
    ) {
        check_answer(pieces.concat().as_bytes())?;
    }
}

fn check_answer(bytes: &[u8]) -> Result<(), proptest::test_runner::TestCaseError> {
    if let Some(text) = answer(bytes) {
        proptest::prop_assert!(text.ends_with('\n'));
        let parsed = serde_json::from_str::<&serde_json::value::RawValue>(&text);
        proptest::prop_assert!(parsed.is_ok(), "{}", text);
    }
    Ok(())
}

/// Records the calls that were prepared.
#[derive(Clone, Default)]
struct Ahead(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

impl RpcService for Ahead {
    type Json = String;
    type Notifications = NoNotifications<String>;

    async fn serve_call(&self, call: &mut RawCall<'_>, _: &Caller) -> Result<String, Failure> {
        self.0.lock().unwrap().push(format!("{} {}", call.method(), call.params().unwrap_or("-")));
        Ok("1".to_owned())
    }

    fn only_reads(&self, method: &str) -> bool {
        method == "read"
    }

    fn is_called_ahead(&self, method: &str) -> bool {
        method == "send"
    }

    async fn call_ahead(&self, method: &str, params: &[&str], _: &Caller) {
        self.0.lock().unwrap().push(format!("{method} ahead {}", params.join(";")));
    }

    async fn subscribe(&self, _: &str, _: &str, _: Option<&str>, _: &Caller) -> Result<Self::Notifications, Failure> {
        Ok(NoNotifications::default())
    }
}

fn seen_of_batch(calls: &[String]) -> Vec<String> {
    let service = Ahead::default();
    let dispatcher = Dispatcher::new(service.clone(), LIMITS);
    let caller = Caller::new(Exposure::all(), CallContext::new());
    let body = format!("[{}]", calls.join(","));
    dispatcher.answer_text(body.as_bytes(), &caller).now_or_never().expect("the service never waits");
    std::mem::take(&mut *service.0.lock().unwrap())
}

#[test]
fn successive_calls_are_prepared_before_the_first_one_runs() {
    let call = |method: &str, params: &str| format!(r#"{{"id":1,"method":"{method}","params":{params}}}"#);
    let calls = [
        call("read", "[0]"),
        call("send", "[1]"),
        call("send", "[2]"),
        r#"{"id":2,"method":"send"}"#.to_owned(),
        call("send", "[3]"),
        call("send", "[4]"),
        call("read", "[5]"),
        call("send", "[6]"),
    ];
    let expected = [
        "read [0]",
        "send ahead [1];[2]",
        "send [1]",
        "send [2]",
        "send -",
        "send ahead [3];[4]",
        "send [3]",
        "send [4]",
        "read [5]",
        "send [6]",
    ];
    assert_eq!(seen_of_batch(&calls), expected);
}

#[test]
fn no_more_calls_are_prepared_than_the_bounds_allow() {
    let call = |params: &str| format!(r#"{{"id":1,"method":"send","params":["{params}"]}}"#);
    let shown = |calls: &[String]| {
        let seen = seen_of_batch(calls).into_iter();
        seen.filter_map(|line| line.strip_prefix("send ahead ").map(|params| params.split(';').count()))
            .collect::<Vec<_>>()
    };
    assert_eq!(shown(&vec![call("1"); 86]), [32, 32, 22]);
    assert_eq!(shown(&vec![call(&"1".repeat(30_000)); 5]), [2, 2]);
    assert!(shown(&vec![call(&"1".repeat(100_000)); 3]).is_empty());
}

/// Records the names that were queried.
#[derive(Clone, Default)]
struct RecordingService(Arc<std::sync::Mutex<Vec<String>>>);

impl RpcService for RecordingService {
    type Json = String;
    type Notifications = NoNotifications<String>;

    async fn serve_call(&self, _: &mut RawCall<'_>, _: &Caller) -> Result<String, Failure> {
        Ok("1".to_owned())
    }

    fn only_reads(&self, _: &str) -> bool {
        true
    }

    fn takes_secrets(&self, method: &[u8]) -> bool {
        self.0.lock().unwrap().push(String::from_utf8_lossy(method).into_owned());
        false
    }

    async fn subscribe(&self, _: &str, _: &str, _: Option<&str>, _: &Caller) -> Result<Self::Notifications, Failure> {
        Ok(NoNotifications::default())
    }
}

#[test]
fn takes_secrets_is_queried_by_the_unescaped_name() {
    let service = RecordingService::default();
    let dispatcher = Dispatcher::new(service.clone(), LIMITS);
    for text in [
        r#"{"method":"personal_sign","id":"\n"}"#,
        r#"{"id":"\n","method":"personal\u005fsign","params":["\t"]}"#,
        r#"[{"method":"personal_sign"},1,{"method":"personal\u005fsign"}]"#,
    ] {
        let Parsed::Message(message) = dispatcher.parse(text.as_bytes()) else { panic!("{text}") };
        dispatcher.sealed_text(BytesMut::from(text), &message);
    }

    assert_eq!(*service.0.lock().unwrap(), ["personal_sign"; 4]);
}

#[test]
fn a_repaired_message_is_queried_for_secrets_too() {
    let service = RecordingService::default();
    let dispatcher = Dispatcher::new(service.clone(), LIMITS);
    let caller = Caller::new(Exposure::all(), CallContext::new());
    let body = b"{\"id\":1,\"method\":\"personal_sign\",\"params\":[\"pass\xffword\"]}";

    dispatcher.answer_text(body, &caller).now_or_never();

    assert_eq!(*service.0.lock().unwrap(), ["personal_sign"; 2], "before and after the repair");
}

/// Records a large answer that is recent for as long as the test runs.
fn record_for_an_hour(dispatcher: &Dispatcher<Echo>, client: ClientId) {
    dispatcher.turns.large_answers.record(client, Instant::now() + Duration::from_secs(3_600));
}

/// A dispatcher, a client that has just had a large answer, and another client.
async fn after_a_large_answer() -> (Dispatcher<Echo>, Caller, Caller) {
    let dispatcher = Dispatcher::new(Echo, LIMITS);
    let [greedy, modest] = [1, 2].map(|number| {
        let origin = Origin { client: ClientId::from_number(number), ..Origin::default() };
        Caller::new(Exposure::all(), CallContext::new().with_origin(origin))
    });
    let large = format!(r#"{{"id":1,"method":"m","params":["{}"]}}"#, "x".repeat(LARGE_ANSWER));
    let (begun, client) = (Instant::now(), greedy.context.origin().client);
    dispatcher.answer_text(large.as_bytes(), &greedy).await.unwrap();
    assert!(dispatcher.turns.large_answers.has_recent(client, || begun));
    record_for_an_hour(&dispatcher, client);
    (dispatcher, greedy, modest)
}

#[tokio::test]
async fn an_answer_is_large_at_a_smaller_size_if_its_client_has_many_connections() {
    let dispatcher = Dispatcher::new(Echo, LIMITS);
    let origin = Origin { client: ClientId::from_number(1), ..Origin::default() };
    let caller = Caller::new(Exposure::all(), CallContext::new().with_origin(origin));
    let body = format!(r#"{{"id":1,"method":"m","params":["{}"]}}"#, "x".repeat(LARGE_ANSWER / 4));
    let begun = Instant::now();

    for (connections, is_large) in [(1, false), (4 * 64, true)] {
        let _open: Vec<_> = (0..connections).map(|_| dispatcher.memory_of(origin).open_connection(1)).collect();
        dispatcher.answer_text(body.as_bytes(), &caller).await.unwrap();
        assert_eq!(dispatcher.turns.large_answers.has_recent(origin.client, || begun), is_large, "{connections}");
    }
}

#[tokio::test]
async fn calls_of_a_client_with_a_large_answer_wait_for_its_turn_and_those_of_others_do_not() {
    let (dispatcher, greedy, modest) = after_a_large_answer().await;
    // The only place, because this runtime has one thread.
    let mut place = dispatcher.turns.at_rest(greedy.context.origin().client);
    place.take().await;
    let small = br#"{"id":1,"method":"m"}"#;

    let mut waiting = pin!(dispatcher.answer_text(small, &greedy));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    assert!(poll_once(pin!(dispatcher.answer_text(small, &modest))).await.is_ready());

    drop(place);
    assert!(waiting.await.is_some());
}

#[tokio::test]
async fn calls_of_others_that_are_ready_go_before_those_of_a_client_with_a_large_answer() {
    let (dispatcher, greedy, modest) = after_a_large_answer().await;
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));

    let tasks = [&greedy, &greedy, &greedy, &modest].map(|caller| {
        let (dispatcher, caller, order) = (dispatcher.clone(), caller.clone(), Arc::clone(&order));
        tokio::spawn(async move {
            dispatcher.answer_text(br#"{"id":1,"method":"m"}"#, &caller).await.unwrap();
            order.lock().unwrap().push(caller.context.origin().client.as_number());
        })
    });
    for task in tasks {
        task.await.unwrap();
    }

    assert_eq!(*order.lock().unwrap(), [2, 1, 1, 1]);
}

/// A dispatcher with a memory budget, whose client has had a large answer and has no free place.
struct Turnless {
    dispatcher: Dispatcher<Echo>,
    memory: MemoryBudget,
    client: Origin,
    /// The only place, because the test's runtime has one thread.
    place: TaskTurn,
}

impl Turnless {
    fn new(share: usize) -> Self {
        let memory = MemoryBudget::new(MemoryLimits { total: 1 << 30, client: share });
        let dispatcher = Dispatcher::new(Echo, LIMITS).with_memory(memory.clone());
        let client = Origin { client: ClientId::from_number(1), ..Origin::default() };
        record_for_an_hour(&dispatcher, client.client);
        let mut place = dispatcher.turns.at_rest(client.client);
        assert!(place.try_take());
        Self { dispatcher, memory, client, place }
    }

    fn caller(&self) -> Caller {
        Caller::new(Exposure::all(), CallContext::new().with_origin(self.client))
    }

    fn held(&self) -> usize {
        self.memory.usage().held.iter().sum()
    }
}

#[tokio::test]
async fn calls_and_batches_that_wait_for_their_turn_are_counted() {
    let started = Turnless::new(1 << 20);
    let caller = started.caller();
    for (body, least) in [(r#"{"id":1,"method":"m"}"#, 20 << 10), (r#"[{"id":1,"method":"m"}]"#, 48 << 10)] {
        let mut waiting = pin!(started.dispatcher.answer_text(body.as_bytes(), &caller));
        assert!(poll_once(waiting.as_mut()).await.is_pending());
        assert!(started.held() >= least, "{body}: {}", started.held());
    }
    assert_eq!(started.held(), 0);

    let full = started.memory.client(started.client.client).reserve(MemoryUse::Answers, (1 << 20) - 1000).unwrap();
    for body in [r#"{"id":1,"method":"m"}"#, r#"[{"id":1,"method":"m"}]"#] {
        let refused = started.dispatcher.answer_text(body.as_bytes(), &caller).await.unwrap();
        assert!(String::from_utf8(refused).unwrap().contains("out of memory"), "{body}");
    }
    drop(full);
    drop(started.place);
    let reply = started.dispatcher.answer_text(br#"{"id":1,"method":"m"}"#, &caller).await.unwrap();
    assert!(String::from_utf8(reply).unwrap().contains(r#""result":["m",null]"#));
}

#[tokio::test]
async fn a_call_that_waits_for_its_turn_ends_at_its_deadline_and_at_the_end_of_a_stop() {
    let started = Turnless::new(1 << 20);
    let body = br#"{"id":1,"method":"m"}"#;
    let late =
        Caller::new(Exposure::all(), CallContext::with_timeout(Duration::from_millis(1)).with_origin(started.client));
    let reply = started.dispatcher.answer_text(body, &late).await.unwrap();
    assert!(String::from_utf8(reply).unwrap().contains("request timed out"));

    let signals = StopSignals::default();
    let dispatcher = started.dispatcher.clone().with_cut_signal(signals.cut.clone());
    let caller = started.caller();
    let mut waiting = pin!(dispatcher.answer_text(body, &caller));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    signals.cut.set();
    let reply = waiting.await.unwrap();
    assert!(String::from_utf8(reply).unwrap().contains("the server is stopping"));
}
