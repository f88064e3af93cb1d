//! A plugin that tries to exceed its grants: with requests, file names, limits, frames and system calls.

#![allow(clippy::expect_used, reason = "a failed setup fails the test")]

mod support;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use support::{
    TestModules,
    processes::{call_method, in_processes, serves_again},
    rust_plugin,
};
use tenon_api::{
    Capability,
    messages::{GetChainConfig, SetHead},
};
use tenon_bus::{CallContext, MemoryBudget, MemoryLimits, MemoryUse};
use tenon_host::Router;
use tenon_modules::PluginPlan;

/// A host over which the intruder is a foreign plugin with these grants.
fn host(granted: &[Capability], change: impl FnOnce(&mut tenon_isolation::IsolationOptions)) -> TestModules {
    host_within(&MemoryBudget::unbounded(), granted, change)
}

/// The same, with memory counted in this budget.
fn host_within(
    memory: &MemoryBudget,
    granted: &[Capability],
    change: impl FnOnce(&mut tenon_isolation::IsolationOptions),
) -> TestModules {
    let test = TestModules::with_options(|options| {
        options.memory = memory.clone();
        in_processes(options, |processes| {
            processes.restarts = 1000;
            change(processes);
        });
        options.vouches_for_all = false;
    });
    let mut plan = PluginPlan::new("intruder", rust_plugin("tenon-test-intruder"));
    (plan.capabilities, plan.is_required) = (Some(granted.to_vec()), true);
    test.modules.start(&[plan]).expect("it starts");
    test
}

async fn names(router: &Router, method: &str) -> Vec<String> {
    let names = call_method(router, method, "[]").await.expect("it answers");
    serde_json::from_str(&names).expect("a list of names")
}

async fn attempt(router: &Router, name: &str) -> Result<String, tenon_sdk::Failure> {
    call_method(router, "intruder_try", &serde_json::to_string(&[name]).expect("a text")).await
}

#[tokio::test]
async fn no_attempt_of_a_foreign_plugin_gets_anywhere() {
    let test = host(&[], |_| {});
    let router = test.modules.router();

    let attempts = names(&router, "intruder_attempts").await;

    assert!(attempts.len() >= 50, "{}", attempts.len());
    for name in attempts {
        let outcome = attempt(&router, &name).await.unwrap_or_else(|failure| panic!("{name}: {failure}"));
        assert!(outcome.starts_with("\"refused: "), "{name}: {outcome}");
    }
}

/// Without the sandbox, which the operator must switch off explicitly, the same attempts succeed: they are real ones.
#[tokio::test]
async fn the_attempts_are_real() {
    let test = TestModules::with_options(|options| {
        in_processes(options, |processes| processes.arguments = vec!["without-seccomp".to_owned()]);
        options.vouches_for_all = false;
    });
    let mut plan = PluginPlan::new("intruder", rust_plugin("tenon-test-intruder"));
    plan.may_run_unsandboxed = true;
    plan.is_required = true;
    test.modules.start(&[plan]).expect("it starts");

    for name in ["read the size of a file", "name a file without opening it", "open a TCP socket"] {
        let outcome = attempt(&test.modules.router(), name).await.expect("it answers");
        assert!(outcome.starts_with("\"got in: "), "{name}: {outcome}");
    }
}

#[tokio::test]
async fn each_grant_opens_only_the_named_capability() {
    for granted in Capability::ALL.iter().copied() {
        let test = host(&[granted], |_| {});
        let router = test.modules.router();
        let questions = names(&router, "intruder_attempts").await;
        for name in questions.into_iter().filter(|name| name.contains(": ")) {
            // Nothing publishes these events here, so a permitted subscription receives none.
            if (granted, name.as_str()) == (Capability::ReadChain, "ReadChain: events") {
                continue;
            }
            let outcome = attempt(&router, &name).await.unwrap_or_else(|failure| panic!("{name}: {failure}"));
            let is_granted = name.starts_with(&format!("{}: ", granted.name()));
            let expected = if is_granted { "\"got in: " } else { "\"refused: " };
            assert!(outcome.starts_with(expected), "{granted:?}, {name}: {outcome}");
        }
    }
}

#[tokio::test]
async fn frames_of_its_own_making_end_its_process_or_are_refused_like_all_others() {
    let test = host(&[Capability::ReadChain], |processes| processes.processor_time = Duration::from_millis(300));
    let router = test.modules.router();
    let heads = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&heads);
    let set = move |_: SetHead, _: &CallContext| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    test.bus.handle_read(set).expect("no other handler");

    assert_eq!(call_method(&router, "intruder_forge", "[]").await.as_deref(), Ok("true"));
    let endings = names(&router, "intruder_endings").await;
    assert!(endings.len() >= 10);
    for name in endings {
        let failure = attempt(&router, &name).await.expect_err(&name).message;
        assert!(failure.starts_with("plugin intruder: its process has ended: "), "{name}: {failure}");
        serves_again(&router, "intruder_endings").await;
    }

    assert_eq!(heads.load(Ordering::Relaxed), 0, "a frame is checked whatever its origin");
}

/// Observed: a plugin that did not read its answers made the node use gigabytes within seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_that_asks_and_does_not_read_makes_the_node_hold_no_more_than_it_may() {
    const PAUSE: usize = 1 << 20;
    let memory = MemoryBudget::unbounded();
    let frames = || memory.usage().held[MemoryUse::PluginFrames as usize];
    let test = host_within(&memory, &[Capability::ReadChain], |processes| processes.pause_at = PAUSE);
    let answer = "x".repeat(100_000);
    let config = move |_: GetChainConfig, _: &CallContext| Ok(answer.clone());
    test.bus.handle_read(config).expect("no other handler");
    let router = test.modules.router();

    let mut deaf = tokio::spawn(async move { call_method(&router, "intruder_deafen", "[2000]").await });
    let (mut max, mut counted) = (0, 0);
    let asked = loop {
        let held = test.modules.held_for_processes();
        counted = counted.max(frames());
        max = max.max(held.iter().map(|(_, bytes)| *bytes).sum());
        tokio::select! {
            asked = &mut deaf => break asked.expect("it does not panic").expect("it answers"),
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
    };

    let asked: u64 = asked.parse().expect("a number");
    assert!(asked >= 1000, "it asked {asked} times");
    // The waiting bytes may exceed the bound by the one answer that reached it.
    assert!(max > 0 && max <= PAUSE + 200_000, "{max} bytes were held");
    assert!(counted > max / 2, "{counted} bytes of frames were counted in the budget, {max} were held");
    // The plugin has read the answers, so their memory is released.
    while frames() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_answers_of_a_plugin_stay_within_its_share_of_the_budget() {
    const SHARE: usize = 1 << 20;
    let memory = MemoryBudget::new(MemoryLimits { total: 8 * SHARE, client: SHARE });
    // The plugin's own limits would allow more.
    let test = host_within(&memory, &[Capability::ReadChain], |processes| processes.pause_at = 4 * SHARE);
    let answer = "x".repeat(100_000);
    let config = move |_: GetChainConfig, _: &CallContext| Ok(answer.clone());
    test.bus.handle_read(config).expect("no other handler");
    let router = test.modules.router();

    let mut deaf = tokio::spawn(async move { call_method(&router, "intruder_deafen", "[500]").await });
    let mut max = 0;
    loop {
        max = max.max(memory.usage().held[MemoryUse::PluginFrames as usize]);
        tokio::select! {
            asked = &mut deaf => break drop(asked.expect("it does not panic").expect("it answers")),
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
    }

    // The node stops reading from it once half of its share is waiting for it.
    assert!(max > SHARE / 4 && max <= SHARE, "{max} bytes were held");
    serves_again(&test.modules.router(), "intruder_endings").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_with_too_many_waiting_answers_is_ended_with_the_reason() {
    let test = host(&[Capability::ReadChain], |processes| {
        (processes.pause_at, processes.end_at) = (1 << 20, 2 << 20);
    });
    let answer = "x".repeat(3 << 20);
    let config = move |_: GetChainConfig, _: &CallContext| Ok(answer.clone());
    test.bus.handle_read(config).expect("no other handler");
    let router = test.modules.router();

    let failure = call_method(&router, "intruder_deafen", "[2000]").await.unwrap_err().message;

    let reason = "it did not read the answers to its requests: more than 2 MiB were waiting";
    assert_eq!(failure, format!("plugin intruder: its process has ended: {reason}"));
    serves_again(&router, "intruder_endings").await;
}
