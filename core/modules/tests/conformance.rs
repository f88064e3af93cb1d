//! The check of plugins (`tenon module check`), with correct and with faulty ones.

mod support;

use std::time::Duration;

use support::{c_library, rust_plugin};
use tenon_isolation::IsolationOptions;
use tenon_modules::{CheckReport, ModuleError, ModuleOptions, check_plugin};

#[allow(clippy::expect_used, reason = "a failed setup fails the test")]
async fn check(library: &std::path::Path) -> Result<CheckReport, ModuleError> {
    let cache = tempfile::tempdir().expect("a folder for the test");
    let mut processes = IsolationOptions::of_program::<String>(env!("CARGO_BIN_EXE_tenon-plugin-child"), []);
    processes.first_pause = Duration::from_millis(5);
    processes.processor_time = Duration::from_millis(300);
    processes.max_call_time = Duration::from_millis(500);
    let mut options = ModuleOptions::new(cache.path(), Duration::from_secs(2), 1024);
    options.processes = Some(processes);
    check_plugin(library, "{}", options).await
}

fn problems<'a>(report: &'a CheckReport, statement: &str) -> &'a [String] {
    let check = report.checks.iter().find(|check| check.statement.contains(statement));
    &check.unwrap_or_else(|| panic!("{statement} is checked")).problems
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn good_plugins_pass_every_check() {
    let folder = tempfile::tempdir().unwrap();
    let in_c = c_library(&folder.path().join("c_hello.so"), "plugins/examples/c_hello/c_hello.c", &[]);
    for library in [rust_plugin("tenon-example-hello"), rust_plugin("tenon-plugin-web3"), in_c] {
        let report = check(&library).await.unwrap();

        assert!(report.is_passed(), "{}: {:?}", library.display(), report.checks);
        assert_eq!(report.checks.len(), 12);
        let loads = report.loads.unwrap();
        assert_eq!((loads.count, loads.threads_after), (100, loads.threads_before));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_check_names_the_faults_of_a_bad_plugin() {
    let report = check(&rust_plugin("tenon-test-misbehaving")).await.unwrap();

    assert!(!report.is_passed());
    assert_eq!(problems(&report, "panics")[0], "bad_panic with no parameters: method handler crashed");
    assert!(problems(&report, "in time")[0].contains("request timed out"));
    let words = "plugin tenon_test_misbehaving was not granted Administer, which SetHead needs";
    assert_eq!(problems(&report, "declares")[0], format!("bad_greedy with no parameters: {words}"));
    assert!(problems(&report, "unloaded 100 times").is_empty(), "{:?}", report.checks);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_check_names_leftovers_of_an_unloaded_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str, &str); 5] = [
        (&[], "", ""),
        (&["-DLEAKS=131072"], "does not grow with its loads", "KiB over 100 loads"),
        (&["-DLEAVES_A_THREAD=1"], "leaves no thread behind", "threads were left after 100 stops"),
        // The signal depends on what is mapped at the address when the thread wakes.
        (&["-DLEAVES_A_THREAD_THAT_WAKES=1"], "can be loaded", "its process ended before it was ready (signal"),
        (
            &["-DCRASHES_AT_UNLOAD=1"],
            "can be loaded",
            "at load number 1: its process ended before it was ready (signal 11",
        ),
    ];
    for (flags, statement, words) in cases {
        let library = c_library(&folder.path().join("leaving.so"), "tests/plugins/leaving.c", flags);

        let report = check(&library).await.unwrap();

        let failed: Vec<_> = report.checks.iter().filter(|check| !check.problems.is_empty()).collect();
        if statement.is_empty() {
            assert!(report.is_passed(), "{failed:?}");
        } else {
            assert!(!report.is_passed() && problems(&report, statement)[0].contains(words), "{flags:?}: {failed:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_that_stays_mapped_after_it_was_unloaded_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let library = c_library(&folder.path().join("staying.so"), "tests/plugins/leaving.c", &["-DSTAYS=1"]);

    let report = check(&library).await.unwrap();

    let problem = &problems(&report, "it is unmapped when it is unloaded")[0];
    assert!(problem.starts_with("it stays mapped forever, because it has a thread, or a thread-local"), "{problem}");
    assert_eq!(report.checks.iter().filter(|check| !check.problems.is_empty()).count(), 1, "{:?}", report.checks);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_that_cannot_be_loaded_is_refused_as_the_node_does_it() {
    let folder = tempfile::tempdir().unwrap();
    let library = c_library(&folder.path().join("broken.so"), "tests/plugins/broken.c", &["-DMAJOR=2"]);

    let refused = check(&library).await.unwrap_err().to_string();

    assert!(refused.contains("built for plugin ABI 2.0, this node has 1.6"), "{refused}");
}
