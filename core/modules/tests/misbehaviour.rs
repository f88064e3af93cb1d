//! Every way in which a plugin can misbehave: its callers get one clear error, others are unharmed, and operators see
//! it in `moduleInfo` and in the log.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed setup fails the test")]

mod support;

use std::{
    io,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use support::{
    TestModules,
    processes::{call_method, hostile, in_processes, plan, serves_again},
    rust_plugin,
};
use support::{plugin_of, process_of};
use tenon_api::{
    BusError, Request,
    messages::{GetClientVersion, ModuleChange, ModuleFaults, ModuleState, ModuleTerms},
};
use tenon_bus::CallContext;
use tenon_host::Caller;
use tenon_isolation::{Isolation, PluginLimits};
use tenon_modules::PluginPlan;
use tenon_sdk::{Failure, FailureCode};

/// What the host has logged since the test program began.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// The log of this test program, which all of its tests share.
    fn of_all() -> Self {
        static LOG: OnceLock<Log> = OnceLock::new();
        let log = LOG.get_or_init(|| {
            let log = Self::default();
            let writer = log.clone();
            let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
            tracing::subscriber::set_global_default(subscriber).expect("no other subscriber");
            log
        });
        log.clone()
    }

    fn holds(&self, words: &str) -> bool {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).contains(words)
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn faults(test: &TestModules) -> ModuleFaults {
    test.modules.info("bad").unwrap().faults
}

/// A plan of the misbehaving plugin with its own limits.
fn limited(isolation: Isolation, limits: PluginLimits) -> PluginPlan {
    let mut plan = plan(rust_plugin("tenon-test-misbehaving"), "{}");
    (plan.isolation, plan.limits) = (Some(isolation), limits);
    plan
}

#[tokio::test]
async fn module_info_and_the_log_report_each_end_of_a_process() {
    let log = Log::of_all();
    let test = TestModules::with_options(|options| in_processes(options, |processes| processes.restarts = 100));
    let router = hostile(&test);

    let cases = [
        ("hostile_crash", "signal 11, invalid access to memory"),
        ("hostile_abort", "signal 6, aborted"),
        ("hostile_exit", "exit code 7"),
        ("hostile_leak", "signal 6, aborted"),
        ("hostile_lie", "it announced a message of 4294967295 bytes; at most 67108864 are allowed"),
        ("hostile_kind", "it sent a message of the unknown kind 0x7f"),
        ("hostile_twice", "it answered request 999999, which was never sent or is already answered"),
    ];
    for (count, (method, reason)) in (1..).zip(cases) {
        let failure = call_method(&router, method, "[]").await.unwrap_err().message;
        serves_again(&router, "hostile_true").await;

        assert_eq!(failure, format!("plugin bad: its process has ended: {reason}"), "{method}");
        let ModuleFaults { restarts, last_end, failed_calls, .. } = faults(&test);
        assert_eq!((restarts, last_end.as_deref()), (count, Some(reason)), "{method}");
        // One for the call itself, and one for each call made before the plugin served again.
        assert!(failed_calls >= count, "{method}: {failed_calls}");
        assert!(log.holds(&format!("reason=\"{reason}\"")), "{method}");
    }
    assert_eq!(test.modules.info("bad").unwrap().state, ModuleState::Enabled);
}

#[tokio::test]
async fn a_silent_process_is_ended_and_its_caller_gets_an_error() {
    let log = Log::of_all();
    let test = TestModules::with_options(|options| {
        in_processes(options, |processes| processes.processor_time = Duration::from_millis(20));
    });
    let router = hostile(&test);
    let process = process_of(&test, "bad").unwrap();

    // SIGSTOP stops the whole process, so its own watchdog does not run either.
    let stopped = std::process::Command::new("kill").args(["-STOP", &process.to_string()]).status().unwrap();
    let failure = call_method(&router, "hostile_true", "[]").await.unwrap_err().message;

    assert!(stopped.success());
    let reason = "it did not respond for 1.08s";
    assert_eq!(failure, format!("plugin bad: its process has ended: {reason}"));
    assert_eq!(serves_again(&router, "hostile_true").await, "true");
    assert_eq!(faults(&test).last_end.as_deref(), Some(reason));
    assert!(log.holds(&format!("reason=\"{reason}\"")));
}

#[tokio::test]
async fn panics_and_malformed_answers_are_counted_in_and_out_of_process() {
    for isolation in [Isolation::InProcess, Isolation::Process] {
        let test = TestModules::with_options(|options| in_processes(options, |_| {}));
        test.modules.start(&[limited(isolation, PluginLimits::default())]).unwrap();
        let router = test.modules.router();
        let caller = Caller::local();

        for method in ["bad_panic", "bad_panicLater"] {
            assert_eq!(call_method(&router, method, "[]").await.unwrap_err(), Failure::crashed(FailureCode::CRASHED));
        }
        let mut stream = router.subscribe("bad", "panic", None, &caller).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap_err(), Failure::crashed(FailureCode::CRASHED));
        assert!(call_method(&router, "bad_greedy", "[]").await.is_err());
        assert_eq!(call_method(&router, "bad_echo", "[\"x\"]").await.as_deref(), Ok("\"x\""), "the rest serves on");

        let ModuleFaults { failed_calls, panics, restarts, .. } = faults(&test);
        assert_eq!((failed_calls, panics, restarts), (3, 3, 0), "{isolation:?}: an error that is an answer is none");
    }
}

#[tokio::test]
async fn a_panic_in_the_node_fails_the_call_but_is_not_counted_for_the_plugin() {
    for isolation in [Isolation::InProcess, Isolation::Process] {
        let test = TestModules::with_options(|options| in_processes(options, |_| {}));
        let panics = |_: GetClientVersion, _: &CallContext| -> Result<String, BusError> { panic!("on purpose") };
        test.bus.handle_read(panics).unwrap();
        test.modules.start(&[limited(isolation, PluginLimits::default())]).unwrap();
        let (router, before) = (test.modules.router(), test.bus.panics(&[GetClientVersion::TOPIC]));

        let failure = call_method(&router, "bad_version", "[]").await.unwrap_err();
        assert_eq!(failure, Failure::crashed(FailureCode::CALLEE_CRASHED));
        assert_eq!(failure.for_client(), Failure::server("method handler crashed"));
        assert_eq!(call_method(&router, "bad_panic", "[]").await.unwrap_err(), Failure::crashed(FailureCode::CRASHED));
        assert_eq!(call_method(&router, "bad_echo", "[\"x\"]").await.as_deref(), Ok("\"x\""), "the rest serves on");

        assert_eq!(test.bus.panics(&[GetClientVersion::TOPIC]) - before, 1, "{isolation:?}");
        let ModuleFaults { failed_calls, panics, .. } = faults(&test);
        assert_eq!((failed_calls, panics), (2, 1), "{isolation:?}: both calls failed, one panic was its own");
    }
}

#[tokio::test]
async fn calls_that_are_never_answered_end_in_time_are_counted_and_named_in_the_log() {
    let log = Log::of_all();
    for isolation in [Isolation::InProcess, Isolation::Process] {
        let test = TestModules::with_options(|options| in_processes(options, |_| {}));
        test.modules.start(&[limited(isolation, PluginLimits::default())]).unwrap();
        let (router, mut caller) = (test.modules.router(), Caller::local());
        caller.context = CallContext::with_timeout(Duration::from_millis(20));

        let failure = router.call_method("bad_never", None, &caller).await.unwrap_err();

        assert_eq!((failure.code.0, failure.message.as_str()), (-32005, "request timed out"), "{isolation:?}");
        assert_eq!((faults(&test).failed_calls, faults(&test).panics), (1, 0));
        assert!(log.holds("calls were not answered in time plugin=\"bad\" method=\"bad_never\" count=1"));
        assert_eq!(call_method(&router, "bad_echo", "[\"x\"]").await.as_deref(), Ok("\"x\""));
    }
}

#[tokio::test]
async fn log_lines_over_the_limit_are_dropped_and_counted_in_and_out_of_process() {
    let log = Log::of_all();
    let limits = PluginLimits { log_lines: Some(5), ..PluginLimits::default() };
    for isolation in [Isolation::InProcess, Isolation::Process] {
        let test = TestModules::with_options(|options| in_processes(options, |_| {}));
        test.modules.start(&[limited(isolation, limits)]).unwrap();
        let router = test.modules.router();

        assert_eq!(call_method(&router, "bad_log", "[500]").await.as_deref(), Ok("500"));

        // A burst of twenty lines is written, and a few more that the rate allows meanwhile. Lines of a process arrive
        // after the answer.
        while faults(&test).omitted_lines < 400 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(log.holds("log lines of the plugin were dropped: it exceeds its limit of lines"));
    }
}

#[tokio::test]
async fn more_calls_than_may_run_are_refused_at_once_wherever_the_plugin_runs() {
    let limits = PluginLimits { calls: Some(2), ..PluginLimits::default() };
    for isolation in [Isolation::InProcess, Isolation::Process] {
        let test = TestModules::with_options(|options| in_processes(options, |_| {}));
        test.modules.start(&[limited(isolation, limits)]).unwrap();
        let router = test.modules.router();
        let running = [router.clone(), router.clone()]
            .map(|router| tokio::spawn(async move { call_method(&router, "bad_sleep", "[60000]").await }));
        while plugin_of(&test.modules.info("bad").unwrap()).running_calls < 2 {
            tokio::task::yield_now().await;
        }

        let refused = call_method(&router, "bad_echo", "[\"x\"]").await.unwrap_err();

        assert_eq!(refused.code, FailureCode::LIMIT_EXCEEDED);
        let words = "plugin bad has the maximum number of calls (2); try again later";
        assert_eq!(refused.message, words);
        assert_eq!(faults(&test).refused_calls, 1);
        assert_eq!(plugin_of(&test.modules.info("bad").unwrap()).limits.calls, Some(2));
        for call in running {
            call.abort();
            let _ = call.await;
        }
        assert_eq!(call_method(&router, "bad_echo", "[\"x\"]").await.as_deref(), Ok("\"x\""));
    }
}

#[tokio::test]
async fn bounds_of_one_plugin_hold_in_its_process_and_are_named_where_they_do_not() {
    let memory = PluginLimits { memory: Some(64 << 20), restarts: Some(1), ..PluginLimits::default() };
    let time = PluginLimits { call_time: Some(Duration::from_millis(100)), ..PluginLimits::default() };
    let start = |isolation, limits| {
        let test = TestModules::with_options(|options| in_processes(options, |_| {}));
        test.modules.start(&[limited(isolation, limits)]).unwrap();
        test
    };

    let test = start(Isolation::Process, time);
    assert_eq!(plugin_of(&test.modules.info("bad").unwrap()).limits.call_millis, Some(100));
    let looped = call_method(&test.modules.router(), "bad_loop", "[]").await.unwrap_err().message;
    assert!(looped.ends_with("bad_loop used more than 100ms of processor time"), "{looped}");

    let test = start(Isolation::Process, memory);
    let (router, shown) = (test.modules.router(), plugin_of(&test.modules.info("bad").unwrap()).limits);
    assert_eq!((shown.memory, shown.restarts), (Some(64 << 20), Some(1)));
    for _ in 0..2 {
        serves_again(&router, "bad_dropped").await;
        let filled = call_method(&router, "bad_fill", "[128]").await.unwrap_err().message;
        assert!(filled.contains("its process has ended: signal 6, aborted"), "{filled}");
    }
    while test.modules.info("bad").unwrap().state != ModuleState::Failed {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    let all = PluginLimits { call_time: time.call_time, ..memory };
    let info = start(Isolation::InProcess, all).modules.info("bad").unwrap();
    assert_eq!(plugin_of(&info).limits.memory, None);
    let named: Vec<_> =
        plugin_of(&info).warnings.iter().map(|warning| warning.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(named, ["limits.memory", "limits.call-time", "limits.restarts"]);
}

#[tokio::test]
async fn state_is_handed_over_from_one_process_to_the_next() {
    let test = TestModules::with_options(|options| in_processes(options, |_| {}));
    let mut plan = plan(rust_plugin("tenon-test-counter"), "{}");
    plan.name = "counter".to_owned();
    test.modules.start(std::slice::from_ref(&plan)).unwrap();
    let router = test.modules.router();
    for number in 1..=3 {
        assert_eq!(call_method(&router, "counter_next", "[]").await, Ok(number.to_string()));
    }
    let before = process_of(&test, "counter");

    test.modules
        .change("counter", ModuleChange::Replace { path: None, settings: None, terms: ModuleTerms::NONE }, true)
        .await
        .unwrap();

    assert_eq!(call_method(&router, "counter_next", "[]").await.as_deref(), Ok("4"));
    let info = test.modules.info("counter").unwrap();
    assert!(plugin_of(&info).process.is_some() && plugin_of(&info).process != before);
    assert_eq!(info.faults, ModuleFaults::default(), "a process that was replaced did not end by itself");
}
