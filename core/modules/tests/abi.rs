//! The stability of the boundary. A built plugin keeps loading, with any compiler and any options. A plugin that does
//! not match is refused with an error that states both version numbers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure fails the test")]

mod support;

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use support::{TestModules, c_plugin, process_of, text};
use tenon_bus::CallContext;
use tenon_host::{Caller, Exposure, Router};
use tenon_isolation::{Isolation, IsolationOptions};
use tenon_modules::PluginPlan;

/// Builds the plugin that has its own copy of the ABI's definitions.
fn bare_plugin(folder: &Path, flags: &[&str]) -> PathBuf {
    let library = folder.join("libbare.so");
    let mut compile = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    compile.args(["--crate-name", "bare", "--crate-type", "cdylib", "--edition", "2024", "-C", "prefer-dynamic=no"]);
    compile.args(["--check-cfg", "cfg(other_allocator)"]).args(flags).arg("-o").arg(&library);
    compile.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/plugins/abi/bare.rs"));
    let output = compile.output().expect("the Rust compiler starts");
    assert!(output.status.success(), "{compile:?}: {}", String::from_utf8_lossy(&output.stderr));
    library
}

fn host_with_processes() -> TestModules {
    TestModules::with_options(|options| {
        let program = env!("CARGO_BIN_EXE_tenon-plugin-child");
        options.processes = Some(IsolationOptions::of_program(program, Vec::<String>::new()));
    })
}

async fn ask(router: &Router, method: &str, params: &str) -> String {
    match router.call_method(method, Some(params), &Caller::local()).await {
        Ok(answer) => text(answer),
        Err(failure) => failure.message,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_in_c_of_the_first_and_the_previous_minor_number_load_and_answer_in_both_isolations() {
    let isolations = [Isolation::InProcess, Isolation::Process];
    let cases =
        ["first.c", "previous.c"].into_iter().flat_map(|source| isolations.map(|isolation| (source, isolation)));
    for (source, isolation) in cases {
        let test = host_with_processes();
        let library = c_plugin(test.folder.path(), &format!("tests/plugins/abi/{source}"), &[]);
        let plan = PluginPlan { isolation: Some(isolation), ..PluginPlan::new("old", library) };

        let modules = test.modules.start(&[plan]).unwrap();

        assert_eq!(modules[0].reason, None, "{isolation:?}");
        let router = test.modules.router();
        assert_eq!(ask(&router, "chello_greet", "[]").await, "\"hello from C\"", "{isolation:?}");
        assert_eq!(ask(&router, "chello_wait", "[]").await, "\"waited\"", "{isolation:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_of_minor_number_2_and_current_ones_learn_the_time_left_in_both_isolations() {
    for flags in [&["-DOF_MINOR_2"][..], &[]] {
        for isolation in [Isolation::InProcess, Isolation::Process] {
            let test = host_with_processes();
            let library = c_plugin(test.folder.path(), "tests/plugins/abi/deadline.c", flags);
            let plan = PluginPlan { isolation: Some(isolation), ..PluginPlan::new("deadline", library) };
            test.modules.start(&[plan]).unwrap();
            let router = test.modules.router();
            let caller = Caller::new(Exposure::all(), CallContext::with_timeout(Duration::from_secs(60)));

            let left = router.call_method("deadline_left", None, &caller).await.map(text).unwrap();

            let left = Duration::from_nanos(left.parse().unwrap());
            assert!(
                left > Duration::from_secs(50) && left <= Duration::from_secs(60),
                "{flags:?} {isolation:?}: {left:?}"
            );
            assert_eq!(ask(&router, "deadline_left", "[]").await, "null", "{flags:?} {isolation:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn optimisation_allocator_and_language_do_not_matter() {
    let cases: [&[&str]; 4] = [
        &["-C", "opt-level=0"],
        &["-C", "opt-level=3", "-C", "codegen-units=1"],
        &["-C", "opt-level=s", "-C", "debug-assertions=on"],
        &["-C", "opt-level=2", "--cfg", "other_allocator"],
    ];
    for flags in cases {
        let test = TestModules::new();
        let library = bare_plugin(test.folder.path(), flags);
        test.modules.load(&library, "").unwrap_or_else(|error| panic!("{flags:?}: {error}"));
        let router = test.modules.router();

        let long = format!("[\"{}\"]", "x".repeat(100_000));
        for params in ["[1,2]", "[]", &long] {
            assert_eq!(ask(&router, "bare_echo", params).await, params, "{flags:?}");
        }
        assert_eq!(ask(&router, "bare_panic", "[]").await, "caught", "{flags:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_whose_panics_abort_ends_its_own_process_only() {
    let test = host_with_processes();
    let library = bare_plugin(test.folder.path(), &["-C", "panic=abort", "-C", "opt-level=1"]);
    let plan = PluginPlan { isolation: Some(Isolation::Process), ..PluginPlan::new("bare", library) };
    test.modules.start(&[plan]).unwrap();
    let router = test.modules.router();
    assert_eq!(ask(&router, "bare_echo", "[1]").await, "[1]");

    let aborted = ask(&router, "bare_panic", "[]").await;

    assert!(aborted.contains("its process has ended") && aborted.contains("aborted"), "{aborted}");
    while process_of(&test, "bare").is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Its process id is known shortly before it serves.
    while ask(&router, "bare_echo", "[2]").await != "[2]" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_longer_table_of_a_later_minor_number_loads_unless_it_needs_more() {
    let test = TestModules::new();
    let later = c_plugin(test.folder.path(), "tests/plugins/abi/future.c", &[]);

    test.modules.load(&later, "").unwrap();

    assert_eq!(ask(&test.modules.router(), "chello_greet", "[]").await, "\"hello from C\"");
    let other = TestModules::new();
    let demanding = c_plugin(other.folder.path(), "tests/plugins/abi/future.c", &["-DNEEDS_MINOR=8"]);
    let error = other.modules.load(&demanding, "").unwrap_err().to_string();
    assert!(error.contains("built for plugin ABI 1.8, this node has 1.6"), "{error}");
}
