//! Plugins in processes of their own: the same results, and what a plugin that misbehaves can and cannot do.

#![allow(clippy::expect_used, reason = "a failed setup fails the test")]

mod support;

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::join_all};
use rustix::process::{Pid, getpriority_process};
use support::{
    TestModules, c_library,
    processes::{call_method, host, hostile, in_processes, misbehaving, plan, serves_again},
    rust_plugin, text,
};
use support::{library_of, plugin_of, process_of};
use tenon_api::{
    BlockNumber,
    messages::{ModuleChange, ModuleTerms, SyncChanged, SyncStatus},
};
use tenon_bus::{CallContext, ClientId, Origin, Transport};
use tenon_host::{Caller, Exposure};
use tenon_isolation::Isolation;
use tenon_modules::PluginPlan;
use tenon_sdk::{Failure, FailureCode};

#[tokio::test]
async fn a_plugin_gives_the_same_results_in_a_process() {
    let (apart, inside) = (host(), TestModules::new());
    inside.modules.start(&[PluginPlan::new("bad", rust_plugin("tenon-test-misbehaving"))]).unwrap();
    for test in [&apart, &inside] {
        test.answer_version();
    }
    let (apart_router, inside_router) = (misbehaving(&apart), inside.modules.router());

    for (method, params) in [
        ("bad_echo", "[\"a \\\"text\\\" with \u{1f600}\"]"),
        ("bad_echo", "[7]"),
        ("bad_echo", "[]"),
        ("bad_echo", ""),
        ("bad_panic", "[]"),
        ("bad_panicLater", "[]"),
        ("bad_sleep", "[20]"),
        ("bad_version", "[]"),
        ("bad_greedy", "[]"),
        ("bad_namespaces", "[]"),
        ("bad_timeLeft", "[]"),
        ("bad_unwritable", "[]"),
        ("bad_missing", "[]"),
        ("bad_keep", "[]"),
        ("bad_useKept", "[]"),
    ] {
        let expected = call_method(&inside_router, method, params).await;
        assert_eq!(call_method(&apart_router, method, params).await, expected, "{method}");
    }
    let listed = Caller::new(Exposure::of(["bad"]), CallContext::with_timeout(Duration::from_secs(9)));
    assert_eq!(apart_router.call_method("bad_namespaces", None, &listed).await.map(text).as_deref(), Ok(r#"["bad"]"#));
    assert_eq!(apart_router.call_method("bad_timeLeft", None, &listed).await.map(text).as_deref(), Ok("true"));
    let client = Caller::local().with_origin(Origin::new(Transport::Http, ClientId::from_number(1 << 60 | 7)));
    for router in [&apart_router, &inside_router] {
        let told = router.call_method("bad_client", None, &client).await.map(text);
        assert_eq!(told.as_deref(), Ok((1_u64 << 60 | 7).to_string().as_str()));
    }
}

#[tokio::test]
async fn the_manifest_comes_from_the_child_and_the_module_names_it() {
    let test = host();
    misbehaving(&test);

    let info = test.modules.list().remove(0);

    assert_eq!((library_of(&info).isolation, library_of(&info).namespace.as_str()), (Isolation::Process, "bad"));
    let process = plugin_of(&info).process.expect("it has one");
    assert!(std::path::Path::new(&format!("/proc/{process}")).exists());
    let mapped = std::fs::read_to_string("/proc/self/maps").unwrap();
    let copies = test.folder.path().to_string_lossy().into_owned();
    assert!(!mapped.contains(&copies), "the library is not mapped in the node");
    test.modules.shutdown(Duration::from_secs(1)).await;
    for _ in 0..1000 {
        if !std::path::Path::new(&format!("/proc/{process}")).exists() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the process outlives its plugin");
}

#[tokio::test]
async fn a_process_that_an_operation_starts_has_the_nodes_priority() {
    let test = host();
    misbehaving(&test);
    let priority = |process: Option<u32>| {
        let process = process.map(|process| Pid::from_raw(process.cast_signed()).expect("a process has a number"));
        getpriority_process(process).expect("it is there")
    };

    for change in [
        ModuleChange::Replace { path: None, settings: None, terms: ModuleTerms::NONE },
        ModuleChange::Disable,
        ModuleChange::Enable,
    ] {
        test.modules.change("bad", change, true).await.expect("it is done");
    }

    let process = process_of(&test, "bad");
    assert_eq!(priority(Some(process.expect("it runs in one"))), priority(None));
}

#[tokio::test]
async fn a_library_that_is_refused_is_refused_by_the_same_words() {
    let test = host();
    let library = test.folder.path().join("plugin.so");
    let library = c_library(&library, "tests/plugins/broken.c", &["-DMAJOR=2"]);

    let refused = test.modules.start(&[plan(library, "{}")]).unwrap_err().to_string();
    let no = test.modules.start(&[plan(rust_plugin("tenon-test-misbehaving"), r#"{"please":"refuse"}"#)]);
    let panic = test.modules.start(&[plan(rust_plugin("tenon-test-misbehaving"), r#"{"please":"panic"}"#)]);

    assert!(refused.contains("plugin.so: built for plugin ABI 2.0, this node has 1.6"), "{refused}");
    assert!(no.unwrap_err().to_string().ends_with("did not start: told to refuse"));
    assert!(panic.unwrap_err().to_string().ends_with("did not start: the plugin crashed at start"));
}

#[tokio::test]
async fn many_calls_share_the_socket() {
    let test = host();
    test.answer_version();
    let router = misbehaving(&test);

    let calls = (0..500).map(|number| {
        let router = router.clone();
        async move {
            let params = match number % 3 {
                0 => ("bad_sleep", format!("[{}]", number % 7), (number % 7).to_string()),
                1 => ("bad_echo", format!("[\"{number}\"]"), format!("\"{number}\"")),
                _ => ("bad_version", "[]".to_owned(), "\"Tenon/test\"".to_owned()),
            };
            (call_method(&router, params.0, &params.1).await, params.2)
        }
    });

    for (answer, expected) in join_all(calls).await {
        assert_eq!(answer, Ok(expected));
    }
}

#[tokio::test]
async fn large_parameters_and_results_pass_whole() {
    let test = host();
    let router = misbehaving(&test);
    let large = "x".repeat(5 * 1024 * 1024);

    let answer = call_method(&router, "bad_echo", &format!("[\"{large}\"]")).await;

    assert_eq!(answer, Ok(format!("\"{large}\"")));
}

#[tokio::test]
async fn subscriptions_follow_events_and_end() {
    let test = host();
    let router = misbehaving(&test);
    let caller = Caller::local();

    let mut counted = router.subscribe("bad", "count", Some("[40]"), &caller).await.unwrap();
    let refused = router.subscribe("bad", "refuse", None, &caller).await.unwrap_err();
    let mut panics = router.subscribe("bad", "panic", None, &caller).await.unwrap();
    let mut flood = router.subscribe("bad", "flood", None, &caller).await.unwrap();
    let mut progress = router.subscribe("bad", "progress", None, &caller).await.unwrap();
    for current in 0..50 {
        let status = SyncStatus { starting: BlockNumber(0), current: BlockNumber(current), highest: BlockNumber(99) };
        test.bus.publish(SyncChanged { status: Some(status) });
    }

    for number in 0..40 {
        assert_eq!(counted.next().await.unwrap().map(text), Ok(number.to_string()));
    }
    assert!(counted.next().await.is_none());
    assert_eq!(refused, Failure::invalid_params("not today"));
    assert_eq!(panics.next().await.unwrap().unwrap_err(), Failure::crashed(FailureCode::CRASHED));
    for _ in 0..100 {
        assert_eq!(flood.next().await.unwrap().map(text).as_deref(), Ok("\"water\""));
    }
    for current in 0..50 {
        assert_eq!(progress.next().await.unwrap().map(text), Ok(current.to_string()));
    }
    drop((flood, progress));
    while call_method(&router, "bad_dropped", "[]").await.as_deref() != Ok("1") {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn dropping_a_call_cancels_it_in_the_child() {
    let test = host();
    let router = misbehaving(&test);
    let caller = Caller::local();
    let mut never = Box::pin(router.call_method("bad_never", None, &caller));
    assert!(never.as_mut().now_or_never().is_none());
    assert_eq!(call_method(&router, "bad_dropped", "[]").await.as_deref(), Ok("0"));

    drop(never);

    while call_method(&router, "bad_dropped", "[]").await.as_deref() != Ok("1") {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_call_that_is_never_answered_ends_at_the_longest_time() {
    let test = TestModules::with_options(|options| {
        in_processes(options, |processes| processes.max_call_time = Duration::from_millis(50));
    });
    let router = misbehaving(&test);

    let answer = call_method(&router, "bad_never", "[]").await;

    assert_eq!(answer, Err(Failure::limit("request timed out")));
    assert_eq!(call_method(&router, "bad_echo", "[\"x\"]").await.as_deref(), Ok("\"x\""));
}

/// The error that the caller gets for each way in which the process dies. Meanwhile all other calls are served, by the
/// other plugin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_costs_its_callers_one_error_and_comes_back() {
    let test = TestModules::with_options(|options| in_processes(options, |processes| processes.restarts = 100));
    let router = hostile(&test);
    test.modules.load(&rust_plugin("tenon-example-hello"), "").unwrap();
    let others = tokio::spawn({
        let router = router.clone();
        async move {
            loop {
                assert_eq!(call_method(&router, "hello_greet", "[]").await.as_deref(), Ok("\"hello world\""));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });

    for (method, reason) in [
        ("hostile_crash", "signal 11, invalid access to memory"),
        ("hostile_abort", "signal 6, aborted"),
        ("hostile_exit", "exit code 7"),
        ("hostile_leak", "signal 6, aborted"),
        ("hostile_lie", "it announced a message of 4294967295 bytes; at most 67108864 are allowed"),
        ("hostile_short", "it announced a message of 3 bytes, which is too short"),
        ("hostile_kind", "it sent a message of the unknown kind 0x7f"),
        ("hostile_twice", "it answered request 999999, which was never sent or is already answered"),
    ] {
        let failure = call_method(&router, method, "[]").await.unwrap_err();
        let expected = format!("plugin bad: its process has ended: {reason}");
        assert_eq!((failure.code, failure.message), (FailureCode::SERVER, expected), "{method}");
        assert_eq!(serves_again(&router, "hostile_true").await, "true");
    }

    others.abort();
    assert!(others.await.unwrap_err().is_cancelled(), "others were served all the time");
}

#[tokio::test]
async fn a_call_that_keeps_its_process_is_ended_whether_it_computes_or_waits() {
    let test = TestModules::with_options(|options| {
        in_processes(options, |processes| processes.processor_time = Duration::from_millis(300));
    });
    let router = hostile(&test);

    for method in ["hostile_loop", "hostile_block"] {
        let failure = call_method(&router, method, "[]").await.unwrap_err().message;
        let reason = format!("{method} used more than 300ms of processor time");
        assert_eq!(failure, format!("plugin bad: its process has ended: {reason}"));
        assert_eq!(serves_again(&router, "hostile_true").await, "true");
    }
}

#[tokio::test]
async fn results_that_are_not_json_become_errors() {
    let test = host();
    let router = hostile(&test);

    for method in ["hostile_garbage", "hostile_notUtf8"] {
        let failure = call_method(&router, method, "[]").await.unwrap_err();
        assert_eq!(failure, Failure::server("the plugin gave a result that is not JSON"), "{method}");
    }
    assert_eq!(call_method(&router, "hostile_true", "[]").await.as_deref(), Ok("true"));
}

#[tokio::test]
async fn the_sandbox_refuses_files_network_threads_and_programs() {
    let test = host();
    let router = hostile(&test);

    // Each method returns the error number of its attempt.
    for (method, refused) in [
        ("hostile_open", &["1"][..]),
        ("hostile_create", &["1"]),
        ("hostile_socket", &["1"]),
        ("hostile_fork", &["1"]),
        ("hostile_killNode", &["1"]),
        ("hostile_descriptors", &["0"]),
    ] {
        let answer = call_method(&router, method, "[]").await.unwrap();
        assert!(refused.contains(&answer.as_str()), "{method}: {answer}");
    }
}

#[tokio::test]
async fn a_flood_of_log_lines_delays_no_call() {
    let test = host();
    let router = hostile(&test);

    assert_eq!(call_method(&router, "hostile_flood", "[]").await.as_deref(), Ok("true"));
    assert_eq!(call_method(&router, "hostile_print", "[]").await.as_deref(), Ok("true"));
    assert_eq!(call_method(&router, "hostile_true", "[]").await.as_deref(), Ok("true"));
}

#[tokio::test]
async fn a_plugin_that_keeps_dying_fails_for_good() {
    let test = TestModules::with_options(|options| in_processes(options, |processes| processes.restarts = 2));
    let router = hostile(&test);

    for _ in 0..2 {
        assert!(call_method(&router, "hostile_crash", "[]").await.is_err());
        serves_again(&router, "hostile_true").await;
    }
    let last = call_method(&router, "hostile_crash", "[]").await.unwrap_err();
    let words = "plugin bad has failed: its process ended again after 2 restarts: signal 11, invalid access to memory";
    loop {
        let failure = call_method(&router, "hostile_true", "[]").await.unwrap_err();
        if failure.message == words {
            break;
        }
        assert_eq!(failure, last);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn streams_of_a_process_that_dies_end_with_the_reason() {
    let test = host();
    let router = Arc::new(misbehaving(&test));
    let mut silent = router.subscribe("bad", "silent", None, &Caller::local()).await.unwrap();
    let process = plugin_of(&test.modules.list()[0]).process.unwrap();

    let killed = std::process::Command::new("kill").args(["-9", &process.to_string()]).status().unwrap();

    assert!(killed.success());
    let notice = silent.next().await.unwrap().unwrap_err();
    assert_eq!(notice.message, "plugin bad: its process has ended: signal 9, killed");
    assert!(silent.next().await.is_none());
    assert_eq!(serves_again(&router, "bad_dropped").await, "0", "it starts afresh");
}
