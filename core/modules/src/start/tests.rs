//! Plugins that fail at the start of the node, and plugins that wait for space on the disk.

use std::{
    env, fs, io,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tempfile::TempDir;
use tenon_api::messages::{ModuleChange, ModuleState};
use tenon_bus::Bus;
use tenon_host::{BUILT_IN_LIST, BuiltIns, HostError};

use super::*;
use crate::ModuleOptions;

/// A register with a plugin for whose copy the start found no space.
fn without_space() -> (Arc<ModuleRegister>, TempDir) {
    without_space_in(tempfile::tempdir().unwrap(), BuiltIns::default())
}

/// The same; the plugin is built in, so its namespace is known before its library is opened.
fn with_built_in_without_space() -> (Arc<ModuleRegister>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(BUILT_IN_LIST), format!("{}  libtenon_plugin_hello.so\n", "a".repeat(64))).unwrap();
    let built_ins = BuiltIns::read(folder.path()).unwrap().unwrap();
    without_space_in(folder, built_ins)
}

fn without_space_in(folder: TempDir, built_ins: BuiltIns) -> (Arc<ModuleRegister>, TempDir) {
    let mut options = ModuleOptions::new(folder.path().join("cache"), Duration::from_secs(2), 16);
    options.vouches_for_all = true;
    options.built_ins = built_ins;
    let register = ModuleRegister::new(Bus::new(), options);
    // A dev-dependency, whose library cargo puts next to the test program.
    let library = env::current_exe().unwrap().with_file_name("libtenon_example_hello.so");
    let plan = PluginPlan::new("hello", library);
    register.start(&[PluginPlan { is_enabled: false, ..plan.clone() }]).unwrap();
    register.note_not_started(&plan, no_space(folder.path())).unwrap();
    (register, folder)
}

fn no_space(folder: &Path) -> ModuleError {
    let reason = io::ErrorKind::StorageFull.into();
    HostError::File { path: folder.to_owned(), action: "cannot copy the library", reason }.into()
}

#[tokio::test(start_paused = true)]
async fn a_plugin_without_space_for_its_copy_starts_once_there_is_space() {
    let (register, _folder) = without_space();
    let failed = register.info("hello").unwrap();

    register.clone().start_when_there_is_space().await;

    assert_eq!(failed.state, ModuleState::Failed);
    let reason = failed.reason.unwrap();
    assert!(
        reason.ends_with("cannot copy the library: no storage space; it starts once there is space on the disk"),
        "{reason}"
    );
    assert_eq!(register.info("hello").unwrap().state, ModuleState::Enabled);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_without_space_that_the_operator_enables_or_disables_is_left_alone() {
    for (change, state) in [
        (ModuleChange::Enable, ModuleState::Enabled),
        (ModuleChange::Disable, ModuleState::Disabled),
        (ModuleChange::Unload, ModuleState::Unloaded),
    ] {
        let (register, _folder) = without_space();

        register.change("hello", change, true).await.unwrap();
        register.clone().start_when_there_is_space().await;

        assert_eq!(register.info("hello").map_or(ModuleState::Unloaded, |info| info.state), state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_fails_for_another_reason_when_there_is_space_is_not_tried_again() {
    let (register, _folder) = without_space();
    register.modules.lock().get_mut("hello").unwrap().plan.path = "/nowhere/hello.so".into();

    register.clone().start_when_there_is_space().await;

    let reason = register.info("hello").unwrap().reason.unwrap();
    assert!(reason.starts_with("plugin /nowhere/hello.so: cannot open the library"), "{reason}");
}

/// Plans of plugins in C with these namespaces, also their names, and needs.
fn in_c<const N: usize>(folder: &Path, plugins: [(&str, &str); N]) -> [PluginPlan; N] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    plugins.map(|(namespace, needs)| {
        let library = folder.join(format!("{namespace}.so"));
        let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let mut words = compiler.split_whitespace();
        let mut compile = Command::new(words.next().unwrap());
        compile.args(words).args(["-std=c11", "-shared", "-fPIC", "-I"]).arg(root.join("plugins/sdk/include"));
        compile.args([format!("-DNAMESPACE=\"{namespace}\""), format!("-DNEEDS=\"{needs}\""), "-o".to_owned()]);
        assert!(compile.arg(&library).arg(root.join("tests/plugins/broken.c")).status().unwrap().success());
        PluginPlan::new(namespace, library)
    })
}

/// Runs the retries for `seconds`; returns whether none is left. Pauses for a real moment in each second, because the
/// paused clock does not wait for the threads that open libraries.
async fn all_retried(register: &Arc<ModuleRegister>, seconds: u32) -> bool {
    let task = tokio::spawn(Arc::clone(register).start_when_there_is_space());
    for _ in 0..seconds {
        if task.is_finished() {
            return true;
        }
        thread::sleep(Duration::from_millis(1));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    task.abort();
    false
}

fn state_of(register: &ModuleRegister, name: &str) -> (ModuleState, String) {
    let info = register.info(name).unwrap();
    (info.state, info.reason.unwrap_or_default())
}

/// Notes plugins whose libraries were opened at the start, but whose needs are not met.
fn note_unmet<const N: usize>(register: &ModuleRegister, plans: &[PluginPlan; N]) {
    let opened = plans.each_ref().map(|plan| {
        let library = register.check_and_copy(plan, true, &NoCallbacks).unwrap();
        let checked = register.check_candidate(library, plan, false).unwrap();
        let stage = register.open_checked(checked, plan, Duration::MAX).unwrap();
        let module = KnownPlugin {
            plan: plan.clone(),
            is_path_configured: true,
            build: Some(stage.build.clone()),
            granted: Vec::new(),
            state: State::Disabled,
        };
        register.modules.lock().by_name.insert(plan.name.clone(), module);
        Waiting { plan: plan.clone(), stage }
    });
    register.note_unmet(opened.into()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn two_plugins_that_need_a_third_one_do_not_wait_for_each_other() {
    let (register, folder) = without_space();
    let plans = in_c(folder.path(), [("one", "third"), ("two", "third")]);
    register.start(&plans.clone().map(|plan| PluginPlan { is_enabled: false, ..plan })).unwrap();
    for plan in &plans {
        register.note_not_started(plan, no_space(folder.path())).unwrap();
    }

    let has_ended = all_retried(&register, 5_000).await;

    assert!(has_ended, "neither is tried for ever");
    for name in ["one", "two"] {
        let failed = (ModuleState::Failed, format!("module {name} needs third: no module serves that namespace"));
        assert_eq!(state_of(&register, name), failed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_waits_for_the_one_with_its_namespace_and_for_no_other() {
    let (register, folder) = with_built_in_without_space();
    let plans =
        in_c(folder.path(), [("last", "next"), ("next", "hello"), ("other", "nothing"), ("both", "hello, nothing")]);

    note_unmet(&register, &plans);
    let noted = ["next", "last", "other", "both"].map(|name| state_of(&register, name).1);
    let has_ended = all_retried(&register, 5_000).await;

    assert_eq!(
        noted,
        [
            "module next needs hello: no module serves that namespace; it waits until there is space on the disk for hello",
            "module last needs next: module next is failed; it waits until there is space on the disk for next",
            "module other needs nothing: no module serves that namespace",
            "module both needs nothing: no module serves that namespace",
        ]
    );
    assert!(has_ended);
    let states = ["hello", "next", "last", "other", "both"].map(|name| state_of(&register, name).0);
    let (enabled, failed) = (ModuleState::Enabled, ModuleState::Failed);
    assert_eq!(states, [enabled, enabled, enabled, failed, failed]);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_no_longer_waits_once_the_namespace_of_another_is_known() {
    let (register, folder) = without_space();
    let plans = in_c(folder.path(), [("other", "nothing")]);

    note_unmet(&register, &plans);
    let noted = state_of(&register, "other").1;
    assert!(all_retried(&register, 5_000).await);

    assert!(noted.ends_with("it waits until there is space on the disk for hello"), "{noted}");
    assert_eq!(state_of(&register, "hello").0, ModuleState::Enabled);
    assert_eq!(state_of(&register, "other").1, "module other needs nothing: no module serves that namespace");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_fails_with_the_one_that_it_waits_for() {
    let (register, folder) = with_built_in_without_space();
    note_unmet(&register, &in_c(folder.path(), [("next", "hello"), ("last", "next")]));
    register.modules.lock().get_mut("hello").unwrap().plan.path = "/nowhere/hello.so".into();

    assert!(all_retried(&register, 5_000).await);

    assert!(state_of(&register, "hello").1.starts_with("plugin /nowhere/hello.so: cannot open the library"));
    assert_eq!(state_of(&register, "next").1, "module next needs hello: no module serves that namespace");
    assert_eq!(state_of(&register, "last").1, "module last needs next: module next is failed");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_without_space_is_not_even_opened_while_the_node_stops() {
    let (register, folder) = without_space();
    register.modules.lock().is_shutting_down = true;

    let has_ended = all_retried(&register, 100).await;

    assert!(!has_ended, "it still waits");
    assert!(register.modules.lock().get("hello").unwrap().lacks_space());
    assert!(!folder.path().join("cache").exists(), "no copy was made");
}

#[test]
fn work_runs_concurrently_within_a_limit_and_results_come_in_order() {
    let (running, highest) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = |number: usize| {
        highest.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(20));
        running.fetch_sub(1, Ordering::SeqCst);
        number * 2
    };

    let outcomes = run_in_parallel((0..40).collect(), &work);

    assert_eq!(outcomes, (0..40).map(|number| number * 2).collect::<Vec<_>>());
    assert!((2..=MAX_AT_ONCE).contains(&highest.load(Ordering::SeqCst)));
    assert!(run_in_parallel(Vec::new(), &work).is_empty());
}
