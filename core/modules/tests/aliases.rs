//! Namespaces under a second name.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use support::{TestModules, rust_plugin, text};
use tenon_api::messages::ModuleChange;
use tenon_bus::CallContext;
use tenon_host::{Caller, Exposure, NamespaceAlias, Router};
use tenon_sdk::Failure;

fn host_with_alias(name: &str, namespace: &str) -> TestModules {
    let alias = NamespaceAlias { name: name.to_owned(), namespace: namespace.to_owned(), is_served: true };
    let test = TestModules::with_options(|options| options.aliases = vec![alias]);
    test.modules.load(&rust_plugin("tenon-test-counter"), "").unwrap();
    test
}

async fn call_method(router: &Router, method: &str) -> Result<String, Failure> {
    router.call_method(method, None, &Caller::local()).await.map(text)
}

#[tokio::test]
async fn a_namespace_and_its_alias_share_one_state() {
    let test = host_with_alias("abacus", "counter");
    let router = test.modules.router();

    assert_eq!(call_method(&router, "counter_next").await.unwrap(), "1");
    assert_eq!(call_method(&router, "abacus_next").await.unwrap(), "2");
    let unknown = call_method(&router, "abacus_previous").await.unwrap_err();
    assert_eq!(unknown.message, "the method abacus_previous does not exist/is not available");
    let namespaces = router.namespaces();
    assert_eq!(namespaces.len(), 1);
    assert_eq!((namespaces[0].namespace.as_str(), &*namespaces[0].aliases), ("counter", &["abacus".to_owned()][..]));
}

#[tokio::test]
async fn a_method_that_the_plugin_defines_under_the_alias_answers_there() {
    let test = host_with_alias("abacus", "counter");
    let router = test.modules.router();

    assert_eq!(call_method(&router, "counter_settings").await.unwrap(), r#""{}""#);
    assert_eq!(call_method(&router, "abacus_settings").await.unwrap(), r#""by another name""#);
}

#[tokio::test]
async fn a_methods_flags_hold_under_both_names() {
    let test = host_with_alias("abacus", "counter");
    let router = test.modules.router();
    let known = |names: &[&str]| names.iter().map(|name| router.only_reads(name)).collect::<Vec<_>>();

    assert_eq!(known(&["counter_settings", "abacus_settings"]), [true, true]);
    assert_eq!(known(&["counter_next", "abacus_next", "abacus_previous"]), [false, false, false]);
}

#[tokio::test]
async fn a_subscription_is_found_by_the_other_name() {
    let test = host_with_alias("abacus", "counter");

    assert!(test.modules.router().subscribe("abacus", "progress", None, &Caller::local()).await.is_ok());
}

#[tokio::test]
async fn an_alias_is_exposed_only_if_its_namespace_is() {
    let test = host_with_alias("abacus", "counter");
    let router = test.modules.router();
    let caller = |namespace| Caller::new(Exposure::of([namespace]), CallContext::new());

    assert!(router.call_method("abacus_next", None, &caller("counter")).await.is_ok());
    assert!(router.call_method("abacus_next", None, &caller("eth")).await.is_err());
}

#[tokio::test]
async fn an_alias_is_removed_with_its_namespace_and_never_hides_another() {
    let test = host_with_alias("counter", "bad");
    test.modules.load(&rust_plugin("tenon-test-misbehaving"), "").unwrap();
    let router = test.modules.router();

    assert_eq!(call_method(&router, "counter_next").await.unwrap(), "1");
    assert!(call_method(&router, "counter_echo").await.is_err());

    let test = host_with_alias("abacus", "counter");
    let name = test.modules.list()[0].name.clone();
    test.modules.change(&name, ModuleChange::Unload, true).await.unwrap();
    assert!(call_method(&test.modules.router(), "abacus_next").await.is_err());
}
