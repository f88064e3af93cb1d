//! What a caller's endpoint exposes: namespaces and single methods, but never methods that are hidden from callers.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use support::{TestModules, rust_plugin, text};
use tenon_api::MethodPattern;
use tenon_bus::CallContext;
use tenon_host::{Caller, Exposure, NamespaceAlias, Router};
use tenon_sdk::FailureCode;

fn host(is_served: bool) -> TestModules {
    let alias = NamespaceAlias { name: "abacus".to_owned(), namespace: "counter".to_owned(), is_served };
    let test = TestModules::with_options(|options| options.aliases = vec![alias]);
    test.modules.load(&rust_plugin("tenon-test-counter"), "").unwrap();
    test
}

fn refusing(patterns: &[&str]) -> Caller {
    let patterns = patterns.iter().map(|pattern| MethodPattern::new(*pattern));
    Caller::new(Exposure::of(["counter", "abacus"]).refusing(patterns), CallContext::new())
}

/// The methods of the counter that answer.
async fn answering(router: &Router, caller: &Caller) -> Vec<&'static str> {
    let names = [
        "counter_next",
        "abacus_next",
        "counter_settings",
        "abacus_settings",
        "counter_abacus_settings",
        "counter_subscribe",
        "abacus_subscribe",
    ];
    let mut answering = Vec::new();
    for name in names {
        let answers = match name.strip_suffix("_subscribe") {
            Some(namespace) => router.subscribe(namespace, "progress", None, caller).await.map(drop),
            None => router.call_method(name, None, caller).await.map(text).map(drop),
        };
        match answers {
            Ok(()) => answering.push(name),
            Err(failure) => {
                assert_eq!(failure.code, FailureCode::METHOD_NOT_FOUND, "{name}");
                let message = format!("the method {name} does not exist/is not available");
                assert_eq!(failure.message, message);
            }
        }
    }
    answering
}

#[tokio::test]
async fn a_method_that_is_refused_by_one_of_its_names_is_refused_by_all() {
    let test = host(true);
    let router = test.modules.router();
    let rest = ["counter_settings", "abacus_settings", "counter_subscribe", "abacus_subscribe"];
    for pattern in ["counter_next", "abacus_next", "*_next", "counter_N*"] {
        assert_eq!(answering(&router, &refusing(&[pattern])).await, rest, "{pattern}");
    }
    // `abacus_settings` is not an alias of `counter_settings`: it is a separate method for the other name.
    for pattern in ["counter_settings", "abacus_settings"] {
        let rest = ["counter_next", "abacus_next", "counter_subscribe", "abacus_subscribe"];
        assert_eq!(answering(&router, &refusing(&[pattern])).await, rest, "{pattern}");
    }
    for pattern in ["counter_subscribe", "abacus_subscribe"] {
        let rest = ["counter_next", "abacus_next", "counter_settings", "abacus_settings"];
        assert_eq!(answering(&router, &refusing(&[pattern])).await, rest, "{pattern}");
    }
    assert!(answering(&router, &refusing(&["*"])).await.is_empty());
    assert_eq!(answering(&router, &refusing(&["other_*"])).await.len(), 6);
}

#[tokio::test]
async fn a_refusal_also_applies_to_later_loaded_plugins() {
    let test = TestModules::new();
    let router = test.modules.router();
    let caller = refusing(&["counter_next"]);
    assert!(router.call_method("counter_next", None, &caller).await.is_err());

    test.modules.load(&rust_plugin("tenon-test-counter"), "").unwrap();

    assert!(router.call_method("counter_next", None, &caller).await.is_err());
    assert!(router.call_method("counter_settings", None, &caller).await.is_ok());
}

#[tokio::test]
async fn a_method_of_one_name_is_not_served_under_the_other() {
    for is_served in [true, false] {
        let test = host(is_served);
        let router = test.modules.router();
        let listed: Vec<_> = router.namespaces()[0].methods.iter().map(|method| method.name.clone()).collect();

        assert!(router.call_method("counter_abacus_settings", None, &Caller::local()).await.is_err());
        assert_eq!(router.call_method("abacus_settings", None, &Caller::local()).await.is_ok(), is_served);
        assert_eq!(listed, ["counter_next", "counter_settings"]);
    }
}

#[tokio::test]
async fn namespaces_that_the_chain_lacks_are_neither_called_nor_listed() {
    let test = TestModules::with_options(|options| options.unserved = vec!["counter".to_owned()]);
    test.modules.load(&rust_plugin("tenon-test-counter"), "").unwrap();
    test.modules.load(&rust_plugin("tenon-example-hello"), "").unwrap();
    let router = test.modules.router();

    assert!(answering(&router, &Caller::local()).await.is_empty());
    assert_eq!(router.versions().len(), 1);
    assert_eq!(router.namespaces()[0].namespace, "hello");
    let module =
        test.modules.list().into_iter().find(|module| support::library_of(module).namespace == "counter").unwrap();
    assert_eq!(
        support::plugin_of(&module).warnings,
        ["this chain has no namespace counter: no call reaches the module"]
    );
}
