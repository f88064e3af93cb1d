//! Tests of calls, attempts, suspension and panics of handlers.

use std::time::Duration;

use tenon_api::{
    B256, BlockNumber, Capability,
    messages::{
        ChainChanges, GetChainChanges, GetClientVersion, GetDataFolder, GetSyncStatus, ListNamespaces, SetLogModules,
        SyncStatus,
    },
};

use super::*;

fn bus_with_version() -> Bus {
    let bus = Bus::new();
    bus.handle_read(|_: GetClientVersion, _: &CallContext| Ok("Tenon".to_owned())).unwrap();
    bus
}

#[tokio::test]
async fn a_closed_bus_keeps_nothing_alive() {
    let bus = Bus::new();
    let module = Arc::new(());
    let (held, own) = (Arc::clone(&module), bus.clone());
    bus.handle_read(move |_: GetClientVersion, _: &CallContext| {
        let _ = (&held, &own);
        Ok("Tenon".to_owned())
    })
    .unwrap();

    bus.close();

    assert_eq!(Arc::strong_count(&module), 1);
    assert!(bus.call(GetClientVersion, &CallContext::new()).await.is_err());
}

#[tokio::test]
async fn a_read_answers_typed_and_by_frame_alike() {
    let bus = bus_with_version();
    let context = CallContext::new();
    let frame = codec::encode(&GetClientVersion).unwrap();

    let typed = bus.call(GetClientVersion, &context).await.unwrap();
    let framed = bus.call_frame(GetClientVersion::TOPIC, 1, &frame, &context).await.unwrap();
    let read = bus.try_read_frame(GetClientVersion::TOPIC, 1, &frame, &context).unwrap().unwrap();

    assert_eq!(typed, "Tenon");
    assert_eq!(codec::decode::<String>(&framed).unwrap(), typed);
    assert_eq!(read, framed);
}

/// A request whose reply names the thread on which it is encoded.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct AskForThread;

#[derive(Debug, serde::Deserialize)]
struct EncodingThread(String);

impl serde::Serialize for EncodingThread {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct("EncodingThread", &format!("{:?}", std::thread::current().id()))
    }
}

impl Request for AskForThread {
    type Reply = EncodingThread;
    const TOPIC: Topic = Topic(0x7ff0);
    const NAME: &'static str = "AskForThread";
    const CAPABILITY: Capability = Capability::ReadChain;
}

#[tokio::test]
async fn the_frame_of_long_works_reply_is_encoded_in_its_job() {
    let (bus, pool) = (Bus::new(), WorkPool::new("test", 1, 1));
    bus.handle_work(&pool, |_: AskForThread, _: &CallContext| Ok(EncodingThread(String::new()))).unwrap();
    let frame = codec::encode(&AskForThread).unwrap();

    let framed = bus.call_frame(AskForThread::TOPIC, 1, &frame, &CallContext::new()).await.unwrap();

    let own = format!("{:?}", std::thread::current().id());
    assert_ne!(codec::decode::<EncodingThread>(&framed).unwrap().0, own);
}

#[test]
fn a_second_handler_is_refused_by_name() {
    let bus = bus_with_version();

    let refused = bus.handle_read(|_: GetClientVersion, _: &CallContext| Ok(String::new()));

    assert_eq!(refused.unwrap_err().to_string(), "request GetClientVersion (topic 0x0600) has a handler already");
    assert_eq!(bus.try_read(GetClientVersion, &CallContext::new()), Some(Ok("Tenon".to_owned())));
}

#[tokio::test]
async fn a_suspended_request_is_refused_with_its_modules_name_until_it_is_resumed() {
    let bus = bus_with_version();
    bus.handle(|_: GetSyncStatus, _| async { Ok(None) }).unwrap();
    let (context, stopped) = (CallContext::new(), BusError::Suspended { module: "node".to_owned() });
    let frame = codec::encode(&GetClientVersion).unwrap();
    let topics = [GetClientVersion::TOPIC, GetSyncStatus::TOPIC, Topic(0x7fff)];

    for _ in 0..2 {
        bus.suspend(&topics, "node");
    }
    assert_eq!(bus.call(GetClientVersion, &context).await, Err(stopped.clone()));
    assert_eq!(bus.call(GetSyncStatus, &context).await, Err(stopped.clone()));
    assert_eq!(bus.try_read(GetClientVersion, &context), Some(Err(stopped.clone())));
    assert_eq!(bus.call_frame(topics[0], 1, &frame, &context).await, Err(stopped.clone()));
    assert_eq!(bus.try_read_frame(topics[0], 1, &frame, &context), Some(Err(stopped)));
    let again = bus.handle_read(|_: GetClientVersion, _: &CallContext| Ok(String::new()));
    assert!(again.is_err(), "it is still taken");

    bus.resume(&topics);
    bus.resume(&topics);
    assert_eq!(bus.call(GetClientVersion, &context).await, Ok("Tenon".to_owned()));
    assert_eq!(bus.call(GetSyncStatus, &context).await, Ok(None));
}

#[tokio::test]
async fn a_request_with_too_many_values_is_refused_as_that() {
    let bus = Bus::new();
    bus.handle_read(|_: SetLogModules, _: &CallContext| Ok(())).unwrap();
    let modules = vec![(String::new(), 0_u8); codec::MAX_REQUEST_ITEMS + 1];
    let frame = codec::encode(&SetLogModules { modules }).unwrap();
    let context = CallContext::new();

    let read = bus.try_read_frame(SetLogModules::TOPIC, SetLogModules::SCHEMA, &frame, &context).unwrap().unwrap_err();
    let called = bus.call_frame(SetLogModules::TOPIC, SetLogModules::SCHEMA, &frame, &context).await.unwrap_err();

    for refused in [read, called] {
        let error = codec::CodecError::TooManyItems;
        assert_eq!(refused, BusError::MalformedRequest { request: SetLogModules::NAME, error });
    }
}

#[tokio::test]
async fn unknown_topics_and_schemas_are_named() {
    let bus = bus_with_version();
    let context = CallContext::new();

    let unhandled = bus.call(GetSyncStatus, &context).await.unwrap_err();
    let unknown = bus.call_frame(Topic(0x7fff), 1, &[], &context).await.unwrap_err();
    let newer = bus.call_frame(GetClientVersion::TOPIC, 2, &[], &context).await.unwrap_err();
    let malformed = bus.call_frame(GetClientVersion::TOPIC, 1, &[1], &context).await.unwrap_err();

    assert_eq!(unhandled, BusError::NoHandler { request: "GetSyncStatus" });
    assert_eq!(unknown, BusError::UnknownTopic { topic: Topic(0x7fff) });
    assert_eq!(newer, BusError::WrongSchema { request: "GetClientVersion", known: 1, sent: 2 });
    assert!(matches!(malformed, BusError::MalformedRequest { request: "GetClientVersion", .. }), "{malformed}");
}

#[tokio::test]
async fn a_panic_returns_an_error_to_its_caller_only() {
    let bus = bus_with_version();
    bus.handle_read(|_: GetSyncStatus, _: &CallContext| panic!("on purpose")).unwrap();
    bus.handle(|_: GetChainChanges, _| async { panic!("on purpose") }).unwrap();
    let context = CallContext::new();

    let before = handler_panics();
    let crashed = BusError::HandlerCrashed;
    let changes = GetChainChanges { since: B256::ZERO, limit: 1 };

    assert_eq!(bus.call(GetSyncStatus, &context).await, Err(crashed.clone()));
    assert_eq!(bus.call(changes, &context).await, Err(crashed));
    assert_eq!(bus.call(GetClientVersion, &context).await, Ok("Tenon".to_owned()));
    // Other tests of this process panic on purpose too.
    assert!(handler_panics() >= before + 2);
}

#[tokio::test]
async fn panics_are_counted_for_each_request_on_every_path() {
    let bus = bus_with_version();
    bus.handle_read(|_: GetDataFolder, _: &CallContext| panic!("on purpose")).unwrap();
    let pool = WorkPool::new("test", 1, 4);
    bus.handle_work(&pool, |_: ListNamespaces, _: &CallContext| panic!("on purpose")).unwrap();
    let context = CallContext::new();
    let frame = codec::encode(&GetDataFolder).unwrap();

    bus.call(GetDataFolder, &context).await.unwrap_err();
    bus.try_read(GetDataFolder, &context).unwrap().unwrap_err();
    bus.try_read_frame(GetDataFolder::TOPIC, 1, &frame, &context).unwrap().unwrap_err();
    let job = bus.call(ListNamespaces, &context).await;

    assert_eq!(job, Err(BusError::HandlerCrashed));
    assert_eq!(bus.panics(&[GetDataFolder::TOPIC]), 3);
    assert_eq!(bus.panics(&[GetDataFolder::TOPIC, ListNamespaces::TOPIC, Topic(0x7fff)]), 4);
    assert_eq!(bus.panics(&[GetClientVersion::TOPIC]), 0);
    bus.suspend(&[GetDataFolder::TOPIC], "node");
    assert_eq!(bus.panics(&[GetDataFolder::TOPIC]), 3, "also while it is stopped");
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_deadline_and_cancels_its_work() {
    let bus = Bus::new();
    let (tell, told) = std::sync::mpsc::channel();
    bus.handle(move |_: GetSyncStatus, context: CallContext| {
        let tell = tell.clone();
        async move {
            tell.send(context).unwrap();
            std::future::pending::<Result<Option<SyncStatus>, BusError>>().await
        }
    })
    .unwrap();

    let answer = bus.call(GetSyncStatus, &CallContext::with_timeout(Duration::from_secs(5))).await;

    assert_eq!(answer, Err(BusError::TimedOut));
    assert!(told.recv().unwrap().is_cancelled());
}

#[tokio::test]
async fn dropping_a_call_cancels_its_work() {
    let bus = Bus::new();
    let (tell, told) = std::sync::mpsc::channel();
    bus.handle(move |_: GetSyncStatus, context: CallContext| {
        tell.send(context).unwrap();
        std::future::pending::<Result<Option<SyncStatus>, BusError>>()
    })
    .unwrap();
    let context = CallContext::new();
    let mut call = Box::pin(bus.call(GetSyncStatus, &context));
    assert!(call.as_mut().now_or_never().is_none());
    let seen_by_the_work = told.recv().unwrap();
    assert!(!seen_by_the_work.is_cancelled());

    drop(call);

    assert!(seen_by_the_work.is_cancelled());
}

#[tokio::test]
async fn work_runs_on_the_pool() {
    let bus = Bus::new();
    let pool = WorkPool::new("test", 1, 1);
    bus.handle_work(&pool, |request: GetChainChanges, _| {
        Ok(ChainChanges { removed: vec![], added: vec![(BlockNumber(request.limit), request.since)] })
    })
    .unwrap();

    let answer = bus.call(GetChainChanges { since: B256::ZERO, limit: 3 }, &CallContext::new()).await.unwrap();

    assert_eq!(answer.added, [(BlockNumber(3), B256::ZERO)]);
}

/// Answers odd limits on the caller's thread, as height 1, gives up at even ones and panics at 7; the pool answers
/// with height 2.
fn bus_that_attempts() -> (Bus, WorkPool) {
    let (bus, pool) = (Bus::new(), WorkPool::new("test", 1, 1));
    let changes = |height| ChainChanges { removed: vec![], added: vec![(BlockNumber(height), B256::ZERO)] };
    let attempt = move |request: &GetChainChanges, _: &CallContext| {
        assert_ne!(request.limit, 7, "on purpose");
        (request.limit % 2 == 1).then(|| Ok(changes(1)))
    };
    bus.handle_attempt(&pool, attempt, move |_: GetChainChanges, _| Ok(changes(2))).unwrap();
    (bus, pool)
}

#[tokio::test]
async fn an_attempt_answers_on_the_callers_task_or_leaves_it_to_the_pool() {
    let (bus, _pool) = bus_that_attempts();
    let context = CallContext::new();
    let height = |changes: ChainChanges| changes.added[0].0.0;
    let asked = |limit| GetChainChanges { since: B256::ZERO, limit };

    assert_eq!(bus.call(asked(1), &context).await.map(height), Ok(1));
    assert_eq!(bus.call(asked(2), &context).await.map(height), Ok(2));
    assert_eq!(bus.try_read(asked(1), &context), None);
    assert_eq!(bus.call(asked(7), &context).await, Err(BusError::HandlerCrashed));

    let (topic, schema) = (GetChainChanges::TOPIC, GetChainChanges::SCHEMA);
    let frame = |limit| codec::encode(&asked(limit)).unwrap();
    let decoded = |frame: Vec<u8>| height(codec::decode::<ChainChanges>(&frame).unwrap());
    assert_eq!(bus.try_read_frame(topic, schema, &frame(1), &context).unwrap().map(decoded), Ok(1));
    assert_eq!(bus.try_read_frame(topic, schema, &frame(2), &context), None);
    assert_eq!(bus.call_frame(topic, schema, &frame(1), &context).await.map(decoded), Ok(2));
    let malformed = bus.try_read_frame(topic, schema, &[1], &context).unwrap().unwrap_err();
    assert!(matches!(malformed, BusError::MalformedRequest { request: "GetChainChanges", .. }), "{malformed:?}");
}
