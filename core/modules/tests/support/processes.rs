//! Plugins in processes of their own.

use std::{path::PathBuf, time::Duration};

use tenon_host::{Caller, Router};
use tenon_isolation::{Isolation, IsolationOptions};
use tenon_modules::{ModuleOptions, PluginPlan};
use tenon_sdk::Failure;

use super::{TestModules, c_library, rust_plugin, text};

/// A host whose plugins run in processes, with little memory.
pub(crate) fn host() -> TestModules {
    TestModules::with_options(|options| in_processes(options, |_| {}))
}

pub(crate) fn in_processes(options: &mut ModuleOptions, change: impl FnOnce(&mut IsolationOptions)) {
    let mut processes = IsolationOptions::of_program::<String>(env!("CARGO_BIN_EXE_tenon-plugin-child"), []);
    processes.memory = 256 * 1024 * 1024;
    (processes.first_pause, processes.max_pause) = (Duration::from_millis(10), Duration::from_millis(20));
    change(&mut processes);
    options.processes = Some(processes);
}

pub(crate) fn plan(library: PathBuf, settings: &str) -> PluginPlan {
    let mut plan = PluginPlan::new("bad", library);
    plan.isolation = Some(Isolation::Process);
    plan.is_required = true;
    plan.settings = settings.to_owned();
    plan
}

/// Starts the misbehaving plugin.
pub(crate) fn misbehaving(test: &TestModules) -> Router {
    test.modules.start(&[plan(rust_plugin("tenon-test-misbehaving"), "{}")]).expect("it starts");
    test.modules.router()
}

/// Starts the C plugin that does what only unsafe code can do.
pub(crate) fn hostile(test: &TestModules) -> Router {
    let library = test.folder.path().join("hostile.so");
    let library = c_library(&library, "tests/plugins/hostile.c", &[]);
    test.modules.start(&[plan(library, "{}")]).expect("it starts");
    test.modules.router()
}

pub(crate) async fn call_method(router: &Router, method: &str, params: &str) -> Result<String, Failure> {
    router.call_method(method, Some(params), &Caller::local()).await.map(text)
}

/// Calls until the plugin serves again.
pub(crate) async fn serves_again(router: &Router, method: &str) -> String {
    loop {
        match call_method(router, method, "[]").await {
            Ok(answer) => return answer,
            Err(failure) => assert!(failure.message.contains("process has ended"), "{failure}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
