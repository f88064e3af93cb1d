//! Subscriptions, and the end of everything.

mod support;

use std::time::Duration;

use futures_util::{FutureExt, future::poll_immediate};
use support::{TestModules, rust_plugin, text};
use tenon_api::{
    BlockNumber,
    messages::{SyncChanged, SyncStatus},
};
use tenon_bus::CallContext;
use tenon_host::{Caller, Exposure, PluginStream};
use tenon_modules::ShutdownReport;
use tenon_sdk::{Failure, FailureCode};

async fn open(test: &TestModules, kind: &str, params: &str) -> Result<PluginStream, Failure> {
    test.modules.router().subscribe("bad", kind, Some(params), &Caller::local()).await
}

async fn item(stream: &mut PluginStream) -> Option<Result<String, Failure>> {
    stream.next().await.map(|item| item.map(text))
}

fn progress(current: u64) -> SyncChanged {
    let number = BlockNumber;
    SyncChanged { status: Some(SyncStatus { starting: number(0), current: number(current), highest: number(9) }) }
}

#[tokio::test]
async fn items_come_in_order_and_the_stream_ends() {
    let test = TestModules::with_misbehaving();
    let mut stream = open(&test, "count", "[3]").await.unwrap();

    for number in ["0", "1", "2"] {
        assert_eq!(item(&mut stream).await, Some(Ok(number.to_owned())));
    }

    assert_eq!(item(&mut stream).await, None);
    assert_eq!(item(&mut stream).await, None, "and stays ended");
}

#[tokio::test]
async fn a_subscription_is_refused_before_it_is_opened() {
    let test = TestModules::with_misbehaving();
    let outsider = Caller::new(Exposure::of(["eth"]), CallContext::new());
    let not_found =
        |message: &str| Failure { code: FailureCode::METHOD_NOT_FOUND, message: message.to_owned(), data: None };

    let unexposed = test.modules.router().subscribe("bad", "count", Some("[1]"), &outsider).await;

    assert_eq!(open(&test, "refuse", "[]").await.unwrap_err(), Failure::invalid_params("not today"));
    assert_eq!(
        open(&test, "count", "[]").await.unwrap_err(),
        Failure::invalid_params("missing value for required argument 1")
    );
    assert_eq!(open(&test, "wrong", "[]").await.unwrap_err(), not_found("no \"wrong\" subscription in bad namespace"));
    assert_eq!(unexposed.unwrap_err(), not_found("the method bad_subscribe does not exist/is not available"));
}

#[tokio::test]
async fn a_panic_ends_the_stream_with_an_error() {
    let test = TestModules::with_misbehaving();
    let mut stream = open(&test, "panic", "[]").await.unwrap();

    assert_eq!(item(&mut stream).await, Some(Err(Failure::crashed(FailureCode::CRASHED))));
    assert_eq!(item(&mut stream).await, None);
}

#[tokio::test]
async fn a_flood_waits_for_its_reader_and_ends_with_it() {
    let test = TestModules::with_misbehaving();
    let mut stream = open(&test, "flood", "[]").await.unwrap();
    for _ in 0..1000 {
        assert_eq!(item(&mut stream).await, Some(Ok("\"water\"".to_owned())));
    }

    drop(stream);

    let dropped = test.modules.router().call_method("bad_dropped", None, &Caller::local()).await.unwrap();
    assert_eq!(text(dropped), "1");
}

#[tokio::test]
async fn events_reach_the_subscriber_and_lost_ones_are_counted() {
    let test = TestModules::with_misbehaving();
    let mut stream = open(&test, "progress", "[]").await.unwrap();
    assert!(poll_immediate(item(&mut stream)).await.is_none(), "nothing has happened yet");

    test.bus.publish(progress(1));
    test.bus.publish(progress(2));
    assert_eq!(item(&mut stream).await, Some(Ok("1".to_owned())));
    assert_eq!(item(&mut stream).await, Some(Ok("2".to_owned())));
    for number in 0..100_000 {
        test.bus.publish(progress(number));
    }

    let missed = item(&mut stream).await.unwrap().unwrap();
    assert!(missed.starts_with("\"missed "), "{missed}");
}

#[tokio::test]
async fn a_waiting_subscriber_is_woken_by_an_event() {
    let test = TestModules::with_misbehaving();
    let mut stream = open(&test, "progress", "[]").await.unwrap();
    let reader = tokio::spawn(async move { item(&mut stream).await });
    tokio::task::yield_now().await;

    test.bus.publish(progress(5));

    assert_eq!(reader.await.unwrap(), Some(Ok("5".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn opening_has_a_deadline_but_the_open_stream_has_none() {
    let test = TestModules::with_misbehaving();
    let hurried = Caller::new(Exposure::all(), CallContext::with_timeout(Duration::from_secs(5)));
    let mut stream = test.modules.router().subscribe("bad", "progress", None, &hurried).await.unwrap();

    tokio::time::sleep(Duration::from_secs(60)).await;
    test.bus.publish(progress(3));

    assert_eq!(item(&mut stream).await, Some(Ok("3".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn shutdown_closes_streams_with_a_notice_drains_calls_and_refuses_new_ones() {
    let test = TestModules::with_misbehaving();
    let router = test.modules.router();
    let mut stream = open(&test, "silent", "[]").await.unwrap();
    let reader = tokio::spawn(async move { (item(&mut stream).await, item(&mut stream).await) });
    let running = {
        let router = router.clone();
        tokio::spawn(async move { router.call_method("bad_sleep", Some("[500]"), &Caller::local()).await.map(text) })
    };
    tokio::task::yield_now().await;

    let report = test.modules.shutdown(Duration::from_secs(10)).await;

    let (notice, end) = reader.await.unwrap();
    let notice = notice.unwrap().unwrap_err().message;
    assert_eq!(notice, "subscription closed: namespace bad is not available any more");
    assert_eq!(end, None);
    assert_eq!(running.await.unwrap().as_deref(), Ok("500"), "a running call finishes");
    assert_eq!(report, ShutdownReport { stopped: vec!["tenon_test_misbehaving".into()], abandoned: Vec::new() });
    let refused = router.call_method("bad_dropped", None, &Caller::local()).await.unwrap_err();
    assert_eq!(refused.code, FailureCode::METHOD_NOT_FOUND);
    assert!(
        test.modules.load(&rust_plugin("tenon-example-hello"), "").unwrap_err().to_string().contains("shutting down")
    );
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_ever_and_a_crash_at_stop_is_contained() {
    let test = TestModules::new();
    test.modules.load(&rust_plugin("tenon-test-misbehaving"), r#"{"please":"crash at stop"}"#).unwrap();
    test.modules.load(&rust_plugin("tenon-example-hello"), "").unwrap();
    let router = test.modules.router();
    let caller = Caller::local();
    let mut never = Box::pin(router.call_method("bad_never", None, &caller));
    assert!(never.as_mut().now_or_never().is_none());

    let report = test.modules.shutdown(Duration::from_secs(1)).await;

    assert_eq!(report.abandoned, [("tenon_test_misbehaving".to_owned(), 1)]);
    assert_eq!(report.stopped, ["tenon_example_hello"]);
    drop(never);
}
