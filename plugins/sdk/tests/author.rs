//! The SDK from an author's view: methods, subscriptions, events and the fake host.

use std::{sync::Arc, time::Duration};

use tenon_sdk::{prelude::*, testing::FakeHost};

struct Author;

impl Plugin for Author {
    fn start(_host: Host, _settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
        Ok(Self)
    }
}

async fn six(
    _context: Context<Author>,
    a: Address,
    b: Option<Quantity>,
    c: Option<bool>,
    d: Option<String>,
    e: Option<Vec<f64>>,
    f: Option<BlockParam>,
) -> Result<String, Failure> {
    Ok(format!("{a} {b:?} {c:?} {d:?} {e:?} {f:?}"))
}

async fn sleep(context: Context<Author>) -> Result<u64, Failure> {
    let before = context.host().now();
    context.sleep(Duration::from_secs(5)).await;
    Ok((context.host().now() - before).as_secs())
}

async fn boom(_context: Context<Author>) -> Result<(), Failure> {
    panic!("on purpose")
}

async fn version(context: Context<Author>) -> Result<String, Failure> {
    context.host().log(LogLevel::Debug, "asking");
    context.call(GetClientVersion).await
}

async fn exposed(context: Context<Author>, namespace: String) -> Result<bool, Failure> {
    Ok(context.is_exposed(&namespace))
}

async fn progress(context: Context<Author>, sink: Sink, limit: Option<Number>) -> Result<(), Failure> {
    let mut events = context.events::<SyncChanged>();
    sink.accept().await;
    let mut left = limit.map_or(u64::MAX, |limit| limit.0);
    while left > 0 {
        match events.next().await? {
            Some(Delivery::Event(event)) => sink.send(&event.status.is_some()).await?,
            Some(Delivery::Missed(missed)) => sink.send(&missed).await?,
            None => break,
        }
        left -= 1;
    }
    Ok(())
}

async fn at_once(_context: Context<Author>, sink: Sink) -> Result<(), Failure> {
    sink.send("first").await?;
    Err(Failure::server("enough"))
}

async fn both_at_once(_context: Context<Author>, sink: Sink) -> Result<(), Failure> {
    sink.accept().await;
    let (one, two) = futures_util::future::join(sink.send("one"), sink.send("two")).await;
    one.and(two)
}

async fn forgetful(_context: Context<Author>, _sink: Sink) -> Result<(), Failure> {
    Ok(())
}

async fn crash_later(_context: Context<Author>, sink: Sink) -> Result<(), Failure> {
    sink.send(&1).await?;
    panic!("on purpose")
}

fn table() -> Table<Author> {
    Table::new("author", "1.0")
        .method("author_six", &["a", "b", "c", "d", "e", "f"], "Takes six.", six)
        .method("author_sleep", &[], "Sleeps.", sleep)
        .slow_method("author_boom", &[], "Panics.", boom)
        .method("author_version", &[], "Asks.", version)
        .method("author_exposed", &["namespace"], "Looks.", exposed)
        .subscription("progress", progress)
        .subscription("atOnce", at_once)
        .subscription("bothAtOnce", both_at_once)
        .subscription("forgetful", forgetful)
        .subscription("crashLater", crash_later)
}

tenon_sdk::export!(Author, table);

fn call_method(host: &FakeHost, method: &str, params: &str) -> Result<String, Failure> {
    host.call_method(&table(), &Arc::new(Author), method, params)
}

fn subscribe(kind: &str, params: &str, host: &FakeHost) -> Vec<Result<String, Failure>> {
    host.subscribe(&table(), &Arc::new(Author), kind, params)
}

fn items(texts: &[&str]) -> Vec<Result<String, Failure>> {
    texts.iter().map(|text| Ok((*text).to_owned())).collect()
}

fn changed(status: Option<SyncStatus>) -> SyncChanged {
    SyncChanged { status }
}

#[test]
fn a_plugin_exports_its_table() {
    assert!(!tenon_plugin_v1().is_null());
}

#[test]
fn six_parameters_are_decoded_in_order() {
    let address = "0x00000000000000000000000000000000deadbeef";
    let all = format!("[\"{address}\",\"0x7\",true,\"s\",[1.5],\"latest\"]");
    let checksummed = "0x00000000000000000000000000000000DeaDBeef";

    let given = call_method(&FakeHost::new(), "author_six", &all).unwrap();
    let missing = call_method(&FakeHost::new(), "author_six", &format!("[\"{address}\"]")).unwrap();
    let too_many = call_method(&FakeHost::new(), "author_six", &all.replace(']', ",1]").replace("1.5,1]", "1.5]"));

    let tail = "Some(Quantity(7)) Some(true) Some(\\\"s\\\") Some([1.5]) Some(BlockParam { block: Some(Tag(Latest)), is_object: false })";
    assert_eq!(given, format!("\"{checksummed} {tail}\""));
    assert_eq!(missing, format!("\"{checksummed} None None None None None\""));
    assert_eq!(too_many, Err(Failure::invalid_params("too many arguments, want at most 6")));
}

#[test]
fn requests_are_answered_by_closures_and_logs_are_kept() {
    let host = FakeHost::new().answer(|_: GetClientVersion| Err(Failure::limit("later").with_data("{}")));

    assert_eq!(call_method(&host, "author_version", "[]"), Err(Failure::limit("later").with_data("{}")));
    assert_eq!(host.logged(), [(LogLevel::Debug, "asking".to_owned())]);
    let unprepared = call_method(&FakeHost::new(), "author_version", "[]").unwrap_err();
    assert_eq!(unprepared.message, "the fake host has no answer for topic 0x0600");
}

#[test]
fn time_passes_at_once() {
    assert_eq!(call_method(&FakeHost::new(), "author_sleep", "[]").as_deref(), Ok("5"));
}

#[test]
fn panics_are_one_error() {
    assert_eq!(call_method(&FakeHost::new(), "author_boom", "[]"), Err(Failure::server("method handler crashed")));
}

#[test]
fn exposure_is_that_of_the_caller() {
    let host = FakeHost::new().exposing(&["eth", "net"]);
    for (namespace, answer) in [("eth", "true"), ("net", "true"), ("admin", "false"), ("e", "false")] {
        assert_eq!(
            call_method(&host, "author_exposed", &format!("[\"{namespace}\"]")).as_deref(),
            Ok(answer),
            "{namespace}"
        );
    }
    assert_eq!(call_method(&FakeHost::new(), "author_exposed", "[\"admin\"]").as_deref(), Ok("true"));
}

#[test]
fn events_arrive_in_order_and_missed_ones_are_counted() {
    let host = || {
        FakeHost::new()
            .announce(&changed(None))
            .announce_missed::<SyncChanged>(12)
            .announce(&changed(Some(SyncStatus { starting: 1.into(), current: 2.into(), highest: 3.into() })))
    };

    assert_eq!(subscribe("progress", "", &host()), items(&["", "false", "12", "true"]));
    assert_eq!(subscribe("progress", "[2]", &host()), items(&["", "false", "12"]));
}

#[test]
fn a_subscription_reports_its_end() {
    let with_failure = |texts: &[&str], words: &str| {
        let mut expected = items(texts);
        expected.push(Err(Failure::server(words)));
        expected
    };
    let host = FakeHost::new();

    assert_eq!(subscribe("atOnce", "[]", &host), with_failure(&["", "\"first\""], "enough"));
    assert_eq!(subscribe("bothAtOnce", "[]", &host), items(&["", "\"one\"", "\"two\""]));
    assert_eq!(subscribe("crashLater", "[]", &host), with_failure(&["", "1"], "method handler crashed"));
    assert_eq!(subscribe("forgetful", "[]", &host), with_failure(&[], "the subscription ended before it was opened"));
}

#[test]
fn arguments_of_a_subscription_are_refused_with_the_same_texts() {
    let refused = subscribe("progress", "[1,2]", &FakeHost::new());

    assert_eq!(refused, [Err(Failure::invalid_params("too many arguments, want at most 2"))], "the kind counts");
}
