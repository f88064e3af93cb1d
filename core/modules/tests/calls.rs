//! Calls: how a plugin can affect its caller and the node, and how it cannot.

mod support;

use std::{
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use futures_util::{FutureExt, future::poll_immediate};
use support::{TestModules, c_plugin, processes, rust_plugin, text};
use tenon_api::messages::{GetClientVersion, ModuleChange};
use tenon_bus::{CallContext, ClientId, MemoryBudget, MemoryLimits, MemoryUse, Origin, PluginId, Transport};
use tenon_host::{Caller, Exposure, Router};
use tenon_sdk::{Failure, FailureCode};

async fn call_method(router: &Router, method: &str, params: &str) -> Result<String, Failure> {
    router.call_method(method, Some(params), &Caller::local()).await.map(text)
}

fn unknown(method: &str) -> Failure {
    let message = format!("the method {method} does not exist/is not available");
    Failure { code: FailureCode::METHOD_NOT_FOUND, message, data: None }
}

#[tokio::test]
async fn unknown_and_unexposed_methods_look_alike() {
    let test = TestModules::with_misbehaving();
    let router = test.modules.router();
    let outsider = Caller::new(Exposure::of(["eth"]), CallContext::new());
    let insider = Caller::new(Exposure::of(["bad"]), CallContext::new());

    let unexposed = router.call_method("bad_echo", Some("[\"x\"]"), &outsider).await.unwrap_err();
    let exposed = router.call_method("bad_namespaces", None, &insider).await.map(text);

    assert_eq!(call_method(&router, "bad_missing", "[]").await, Err(unknown("bad_missing")));
    assert_eq!(call_method(&router, "other_echo", "[]").await, Err(unknown("other_echo")));
    assert_eq!(unexposed, unknown("bad_echo"));
    assert_eq!(exposed.as_deref(), Ok(r#"["bad"]"#));
    assert_eq!(call_method(&router, "bad_namespaces", "").await.as_deref(), Ok("null"));
}

#[tokio::test]
async fn parameters_are_refused_in_the_reference_words() {
    let test = TestModules::with_misbehaving();
    let router = test.modules.router();

    for (params, words) in [
        ("[]", "missing value for required argument 0"),
        ("[\"a\",\"b\"]", "too many arguments, want at most 1"),
        ("[7]", "invalid argument 0: json: cannot unmarshal number into Go value of type string"),
        ("{}", "non-array args"),
    ] {
        assert_eq!(call_method(&router, "bad_echo", params).await, Err(Failure::invalid_params(words)), "{params}");
    }
}

#[tokio::test]
async fn panics_cost_their_caller_one_error() {
    let test = TestModules::with_misbehaving();
    let router = test.modules.router();
    let crashed = Err(Failure::crashed(FailureCode::CRASHED));

    for _ in 0..3 {
        assert_eq!(call_method(&router, "bad_panic", "[]").await, crashed);
        assert_eq!(call_method(&router, "bad_panicLater", "[]").await, crashed);
    }
    let caller = Caller::local();
    let never = router.call_method("bad_panicInDrop", None, &caller);
    assert!(poll_immediate(never).await.is_none(), "it is dropped while it waits");

    assert_eq!(call_method(&router, "bad_echo", "[\"still here\"]").await.as_deref(), Ok("\"still here\""));
}

#[tokio::test]
async fn dropping_a_call_cancels_it_inside_the_plugin() {
    let test = TestModules::with_misbehaving();
    let router = test.modules.router();
    let caller = Caller::local();
    let mut never = Box::pin(router.call_method("bad_never", None, &caller));
    assert!(never.as_mut().now_or_never().is_none());
    assert_eq!(call_method(&router, "bad_dropped", "[]").await.as_deref(), Ok("0"));

    drop(never);

    assert_eq!(call_method(&router, "bad_dropped", "[]").await.as_deref(), Ok("1"));
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_its_deadline() {
    let test = TestModules::with_misbehaving();
    let router = test.modules.router();
    let hurried = Caller::new(Exposure::all(), CallContext::with_timeout(Duration::from_secs(5)));

    let knows = router.call_method("bad_timeLeft", None, &hurried).await.map(text);
    let answer = router.call_method("bad_never", None, &hurried).await;

    assert_eq!(knows.as_deref(), Ok("true"));
    assert_eq!(answer.unwrap_err(), Failure::limit("request timed out"));
    assert_eq!(call_method(&router, "bad_dropped", "[]").await.as_deref(), Ok("1"));
    assert_eq!(call_method(&router, "bad_timeLeft", "[]").await.as_deref(), Ok("false"));
}

#[tokio::test(start_paused = true)]
async fn a_plugin_sleeps_on_the_hosts_timer() {
    let test = TestModules::with_misbehaving();
    let router = test.modules.router();
    let caller = Caller::local();

    let (long, short) = tokio::join!(
        router.call_method("bad_sleep", Some("[60000]"), &caller),
        router.call_method("bad_sleep", Some("[10]"), &caller),
    );

    assert_eq!((text(long.unwrap()), text(short.unwrap())), ("60000".to_owned(), "10".to_owned()));
}

#[tokio::test]
async fn a_call_that_waits_is_woken_on_another_thread() {
    let test = Arc::new(TestModules::with_misbehaving());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let calls: Vec<_> = (0..64)
        .map(|number| {
            let router = test.modules.router();
            runtime.spawn(async move { call_method(&router, "bad_sleep", &format!("[{}]", number % 7)).await })
        })
        .collect();

    for (number, handle) in calls.into_iter().enumerate() {
        assert_eq!(handle.await.unwrap(), Ok((number % 7).to_string()));
    }

    runtime.shutdown_background();
}

#[tokio::test]
async fn the_bus_answers_only_requests_with_a_granted_capability() {
    let test = TestModules::with_misbehaving();
    test.answer_version();
    let router = test.modules.router();

    let granted = call_method(&router, "bad_version", "[]").await;
    let greedy = call_method(&router, "bad_greedy", "[]").await;

    assert_eq!(granted.as_deref(), Ok("\"Tenon/test\""));
    let words = "plugin tenon_test_misbehaving was not granted Administer, which SetHead needs";
    assert_eq!(greedy, Err(Failure::server(words)));
}

#[tokio::test]
async fn a_context_that_outlives_its_call_does_no_harm() {
    let test = TestModules::with_misbehaving();
    test.answer_version();
    let router = test.modules.router();

    assert_eq!(call_method(&router, "bad_keep", "[]").await.as_deref(), Ok("true"));

    // A call with the kept context is one on the plugin's own behalf: it has no deadline and no caller.
    assert_eq!(call_method(&router, "bad_useKept", "[]").await.as_deref(), Ok("\"Tenon/test\""));
}

#[tokio::test]
async fn slow_calls_wait_for_their_turn_and_the_queue_is_bounded() {
    let test = TestModules::with_options(|options| {
        options.slow_calls = std::num::NonZeroUsize::MIN;
        options.slow_queue = 1;
    });
    test.modules.load(&support::rust_plugin("tenon-test-misbehaving"), "").unwrap();
    let router = test.modules.router();
    let caller = Caller::local();
    let mut running = Box::pin(router.call_method("bad_neverSlow", None, &caller));
    assert!(running.as_mut().now_or_never().is_none());
    let mut waiting = Box::pin(router.call_method("bad_slow", None, &caller));
    assert!(waiting.as_mut().now_or_never().is_none());

    let refused = call_method(&router, "bad_slow", "[]").await.unwrap_err();
    let fast = call_method(&router, "bad_dropped", "[]").await;
    drop(running);
    let turn = waiting.await.map(text);

    assert_eq!(refused.code, FailureCode::LIMIT_EXCEEDED);
    assert_eq!(fast.as_deref(), Ok("0"), "fast calls do not wait");
    assert_eq!(turn.as_deref(), Ok("true"));
    assert_eq!(call_method(&router, "bad_slow", "[]").await.as_deref(), Ok("true"));
}

#[tokio::test]
async fn answers_that_break_the_rules_become_errors() {
    let test = TestModules::new();
    test.answer_version();
    let library = c_plugin(test.folder.path(), "tests/plugins/broken.c", &[]);
    test.modules.load(&library, "").unwrap();
    let misbehaving = TestModules::with_misbehaving();
    let router = test.modules.router();

    for (method, words) in [
        ("broken_code", "the plugin boundary answered a poll with the unknown code 77"),
        ("broken_nothing", "the plugin gave no result"),
        ("broken_end", "the plugin boundary ended a call without an answer"),
        ("broken_length", "the plugin gave no result"),
        ("broken_bus", "plugin plugin_in_c has no schema hash and so cannot use the bus"),
    ] {
        assert_eq!(call_method(&router, method, "[]").await, Err(Failure::server(words)), "{method}");
    }
    let opened = router.subscribe("broken", "nothing", None, &Caller::local()).await;
    assert_eq!(opened.unwrap_err().message, "the plugin boundary returned a future without a poll function");
    let unwritable = call_method(&misbehaving.modules.router(), "bad_unwritable", "[]").await.unwrap_err();
    assert!(unwritable.message.starts_with("json: "), "{unwritable}");
}

#[tokio::test]
async fn a_call_that_wakes_itself_for_ever_can_be_dropped() {
    let test = TestModules::new();
    let library = c_plugin(test.folder.path(), "tests/plugins/broken.c", &[]);
    test.modules.load(&library, "").unwrap();
    let (router, caller) = (test.modules.router(), Caller::local());
    let mut spinning = Box::pin(router.call_method("broken_spin", None, &caller));

    for _ in 0..100 {
        let polled = std::future::poll_fn(|task| Poll::Ready(spinning.as_mut().poll(task).is_pending())).await;
        assert!(polled);
    }

    drop(spinning);
}

#[tokio::test]
async fn a_plugins_requests_are_made_for_its_caller_in_both_isolations() {
    let asked = Origin { has_token: true, ..Origin::new(Transport::Http, ClientId::of_process(7)) };
    let (apart, inside) = (processes::host(), TestModules::with_misbehaving());
    processes::misbehaving(&apart);

    // By their names in the host, not by those in their manifests.
    for (test, name) in [(&apart, "bad"), (&inside, "tenon_test_misbehaving")] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let origins = Arc::clone(&seen);
        let answer = move |_: GetClientVersion, context: CallContext| {
            origins.lock().unwrap().push(context.origin());
            async { Ok("Tenon/test".to_owned()) }
        };
        test.bus.handle(answer).unwrap();

        let caller = Caller::local().with_origin(asked);
        test.modules.router().call_method("bad_version", None, &caller).await.unwrap();

        let plugin = PluginId::of_name(name);
        assert_eq!(*seen.lock().unwrap(), [asked.by_plugin(plugin)]);
    }
}

#[tokio::test]
async fn memory_held_by_a_plugin_is_charged_to_its_client_and_released_with_the_plugin() {
    let memory = MemoryBudget::new(MemoryLimits { total: 100_000, client: 1_000 });
    let test = TestModules::with_options(|options| options.memory = memory.clone());
    test.modules.load(&rust_plugin("tenon-test-misbehaving"), "").unwrap();
    let router = test.modules.router();
    let [first, second] = [7, 8].map(|number| {
        let client = ClientId::from_number(number);
        Caller::local().with_origin(Origin::new(Transport::Http, client))
    });
    let ask = async |caller: &Caller, method: &str, params: &str| match router
        .call_method(method, Some(params), caller)
        .await
    {
        Ok(answer) => text(answer),
        Err(failure) => format!("{}", failure.code.0),
    };

    assert_eq!(ask(&first, "bad_client", "[]").await, "7");
    assert_eq!(ask(&first, "bad_hold", "[600]").await, "true");
    assert_eq!(ask(&first, "bad_hold", "[600]").await, "-32005", "beyond the client's share");
    assert_eq!(ask(&second, "bad_hold", "[600]").await, "true", "another has one of its own");
    assert_eq!(memory.usage().held[MemoryUse::PluginState as usize], 1_200);

    assert_eq!(ask(&second, "bad_release", "[]").await, "true");
    assert_eq!(memory.usage().held[MemoryUse::PluginState as usize], 0);
    assert_eq!(ask(&first, "bad_hold", "[1000]").await, "true");
    let name = test.modules.list()[0].name.clone();
    test.modules.change(&name, ModuleChange::Disable, true).await.unwrap();
    assert_eq!(memory.usage().held, [0; MemoryUse::ALL.len()]);
}
