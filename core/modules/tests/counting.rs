//! The counts of calls.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use futures_util::future::poll_immediate;
use support::{TestModules, rust_plugin};
use tenon_api::messages::{ModuleChange, ModuleTerms};
use tenon_bus::{ClientId, Origin, Transport};
use tenon_host::{CallCounts, Caller, NamespaceAlias, Router};
use tenon_modules::PluginPlan;

fn counts(router: &Router, method: &str) -> Vec<CallCounts> {
    router.calls().into_iter().filter(|count| count.method == method).collect()
}

#[tokio::test]
async fn calls_are_counted_by_method_transport_and_end() {
    let test = TestModules::with_misbehaving();
    let router = test.modules.router();
    let over = |transport| Caller::local().with_origin(Origin::new(transport, ClientId::INSIDE));

    router.call_method("bad_echo", Some("[\"x\"]"), &over(Transport::Http)).await.unwrap();
    router.call_method("bad_echo", Some("[]"), &over(Transport::Http)).await.unwrap_err();
    router.call_method("bad_echo", Some("[\"x\"]"), &over(Transport::Socket)).await.unwrap();
    let caller = over(Transport::WebSocket);
    assert!(poll_immediate(router.call_method("bad_never", None, &caller)).await.is_none(), "its client leaves");
    router.call_method("bad_missing", None, &over(Transport::Http)).await.unwrap_err();

    let ends = |method| -> Vec<_> {
        let of = |count: &CallCounts| (count.transport, count.calls, count.failed, count.cancelled);
        counts(&router, method).iter().map(of).collect()
    };
    assert_eq!(ends("bad_echo"), [(Transport::Socket, 1, 0, 0), (Transport::Http, 2, 1, 0)]);
    assert_eq!(ends("bad_never"), [(Transport::WebSocket, 1, 0, 1)]);
    assert_eq!(ends("bad_missing"), []);
    assert_eq!(router.unknown_calls().map(|(_, calls)| calls), [0, 0, 1, 0]);
}

#[tokio::test]
async fn calls_are_timed_while_a_client_asks_for_it() {
    let test = TestModules::with_misbehaving();
    let router = test.modules.router();
    let call = || async { router.call_method("bad_echo", Some("[\"x\"]"), &Caller::local()).await.map(drop) };

    call().await.unwrap();
    router.time_calls(true);
    call().await.unwrap();
    call().await.unwrap();
    router.time_calls(false);
    call().await.unwrap();

    let count = &counts(&router, "bad_echo")[0];
    assert_eq!((count.calls, count.durations.number()), (4, 2));
    assert!(count.durations.nanoseconds > 0);
}

#[tokio::test]
async fn a_namespace_is_counted_under_one_name_and_on_over_its_replacement() {
    let alias = NamespaceAlias { name: "abacus".to_owned(), namespace: "counter".to_owned(), is_served: true };
    let test = TestModules::with_options(|options| options.aliases = vec![alias]);
    let router = test.modules.router();
    test.modules.start(&[PluginPlan::new("counter", rust_plugin("tenon-test-counter"))]).unwrap();

    router.call_method("counter_next", None, &Caller::local()).await.unwrap();
    router.call_method("abacus_next", None, &Caller::local()).await.unwrap();
    let replace = ModuleChange::Replace { path: None, settings: None, terms: ModuleTerms::NONE };
    test.modules.change("counter", replace, true).await.unwrap();
    router.call_method("abacus_next", None, &Caller::local()).await.unwrap();

    assert_eq!(counts(&router, "counter_next")[0].calls, 3);
    assert_eq!(counts(&router, "abacus_next"), []);
}
