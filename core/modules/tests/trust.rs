//! Trust in a build (built in, vouched for by the operator, or foreign), and its consequences.

#![allow(clippy::expect_used, reason = "a failed setup fails the test")]

mod support;

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sha2::{Digest as _, Sha256};
use support::{
    TestModules, libraries,
    processes::{call_method, in_processes},
    rust_plugin,
};
use support::{library_of, plugin_of};
use tenon_api::{
    Capability,
    messages::{ModuleChange, ModuleInfo, ModuleState, ModuleTerms},
};
use tenon_host::{BUILT_IN_LIST, BuiltIns, NamespaceAlias, PluginFolder, Trust, VouchedBuilds};
use tenon_isolation::{Isolation, IsolationOptions, PluginLimits};
use tenon_modules::{ModuleOptions, PluginPlan};

/// Removes the list of built-in plugins.
fn not_listed(options: &mut ModuleOptions) {
    options.built_ins = BuiltIns::default();
}

/// A case's change of the host's options.
type ChangeOptions = Box<dyn FnOnce(&mut ModuleOptions)>;

const NET: &str = "tenon-plugin-net";
const BAD: &str = "tenon-test-misbehaving";

fn hash(library: &Path) -> String {
    Sha256::digest(fs::read(library).expect("it is there")).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Another build of a plugin: the same code, another content.
fn other_build(folder: &Path, crate_name: &str, name: &str) -> PathBuf {
    let path = folder.join(name);
    fs::copy(rust_plugin(crate_name), &path).expect("it is copied");
    let mut file = fs::OpenOptions::new().append(true).open(&path).expect("it is there");
    file.write_all(name.as_bytes()).expect("it is written");
    path
}

/// A host whose only built-in plugin is `net`; every other build is foreign.
fn host(change: impl FnOnce(&mut ModuleOptions)) -> TestModules {
    let test = TestModules::with_options(|options| {
        in_processes(options, |_| {});
        options.vouches_for_all = false;
        let folder = tempfile::tempdir().expect("a folder for the list");
        let line = format!("{}  libtenon_plugin_net.so\n", hash(&rust_plugin(NET)));
        fs::write(folder.path().join(BUILT_IN_LIST), line).expect("it is written");
        options.built_ins = BuiltIns::read(folder.path()).expect("it is read").expect("it is there");
        change(options);
    });
    test.answer_version();
    test
}

/// A module's trust, isolation and capabilities.
fn permissions_of(info: &ModuleInfo) -> (Trust, Isolation, Vec<&str>) {
    (
        library_of(info).trust,
        library_of(info).isolation,
        plugin_of(info).granted.iter().map(|capability| capability.name()).collect(),
    )
}

fn load(path: &Path, terms: ModuleTerms) -> ModuleChange {
    ModuleChange::Load { path: Some(path.display().to_string()), settings: None, is_enabled: true, terms }
}

fn replace(path: &Path, is_vouched_for: bool) -> ModuleChange {
    let terms = ModuleTerms { grant: None, is_vouched_for };
    ModuleChange::Replace { path: Some(path.display().to_string()), settings: None, terms }
}

#[tokio::test]
async fn a_foreign_plugin_is_granted_nothing_and_runs_in_a_process_whatever_its_file_is_called() {
    let test = host(|_| {});
    // It has the name of a built-in plugin, and requests the same capabilities.
    let foreign = other_build(test.folder.path(), BAD, "libtenon_plugin_mine.so");
    let renamed = test.folder.path().join("whatever.so");
    fs::copy(rust_plugin(NET), &renamed).unwrap();

    let modules = test.modules.start(&[PluginPlan::new("mine", foreign), PluginPlan::new("other", renamed)]).unwrap();

    assert_eq!(permissions_of(&modules[0]), (Trust::Foreign, Isolation::Process, vec![]));
    assert_eq!(library_of(&modules[0]).wanted, [Capability::ReadNode]);
    assert_eq!(permissions_of(&modules[1]).0, Trust::BuiltIn);
    assert_eq!(library_of(&modules[1]).isolation, Isolation::InProcess);
    assert_eq!(plugin_of(&modules[1]).granted, library_of(&modules[1]).wanted);
    let refused = call_method(&test.modules.router(), "bad_version", "[]").await.unwrap_err().message;
    assert!(refused.ends_with("was not granted ReadNode, which GetClientVersion needs"), "{refused}");
}

#[tokio::test]
async fn grants_come_from_the_operator_by_name_and_no_further_than_the_plugin_asks() {
    let test = host(|_| {});
    let path = other_build(test.folder.path(), BAD, "mine.so");
    let named = PluginPlan {
        capabilities: Some(vec![Capability::ReadNode, Capability::Sign]),
        ..PluginPlan::new("mine", &path)
    };

    let configured = test.modules.start(&[named]).unwrap().remove(0);
    assert_eq!(permissions_of(&configured), (Trust::Foreign, Isolation::Process, vec!["ReadNode"]));
    assert_eq!(call_method(&test.modules.router(), "bad_version", "[]").await.as_deref(), Ok("\"Tenon/test\""));

    let none = ModuleTerms { grant: Some(Vec::new()), is_vouched_for: false };
    let change = ModuleChange::Replace { path: None, settings: None, terms: none };
    test.modules.change("mine", change, true).await.unwrap();
    assert!(call_method(&test.modules.router(), "bad_version", "[]").await.is_err());
    test.modules.change("mine", ModuleChange::Unload, true).await.unwrap();

    let granted = ModuleTerms { grant: Some(vec![Capability::ReadNode]), is_vouched_for: false };
    test.modules.change("again", load(&path, granted), true).await.unwrap();
    assert_eq!(
        permissions_of(&test.modules.info("again").unwrap()),
        (Trust::Foreign, Isolation::Process, vec!["ReadNode"])
    );
    assert_eq!(call_method(&test.modules.router(), "bad_version", "[]").await.as_deref(), Ok("\"Tenon/test\""));
}

#[tokio::test]
async fn a_library_that_is_loaded_over_its_settings_keeps_their_grants_isolation_and_bounds() {
    let test = host(|_| {});
    let configured = PluginPlan {
        is_enabled: false,
        capabilities: Some(vec![Capability::ReadNode]),
        isolation: Some(Isolation::Process),
        settings: "{\"a\":1}".to_owned(),
        limits: PluginLimits { memory: Some(64 << 20), calls: Some(3), ..PluginLimits::default() },
        ..PluginPlan::new("mine", rust_plugin(BAD))
    };
    test.modules.start(&[configured]).unwrap();
    test.modules.change("mine", ModuleChange::Unload, true).await.unwrap();
    let other = other_build(test.folder.path(), BAD, "fixed.so");

    test.modules.change("mine", load(&other, ModuleTerms::NONE), true).await.unwrap();

    let info = test.modules.info("mine").unwrap();
    assert_eq!(plugin_of(&info).path, other.display().to_string());
    assert_eq!(permissions_of(&info), (Trust::Foreign, Isolation::Process, vec!["ReadNode"]));
    assert_eq!((plugin_of(&info).limits.memory, plugin_of(&info).limits.calls), (Some(64 << 20), Some(3)));
}

#[tokio::test]
async fn a_path_that_the_settings_do_not_name_must_be_in_a_plugin_folder_even_under_a_configured_name() {
    let test = host(|_| {});
    let outside = tempfile::tempdir().unwrap();
    let library = other_build(outside.path(), BAD, "mine.so");
    test.modules.start(&[PluginPlan { is_enabled: false, ..PluginPlan::new("mine", rust_plugin(BAD)) }]).unwrap();
    test.modules.change("mine", ModuleChange::Unload, true).await.unwrap();

    let refused = test.modules.change("mine", load(&library, ModuleTerms::NONE), true).await.unwrap_err().to_string();

    assert!(refused.contains("but libraries are loaded only from"), "{refused}");
}

#[tokio::test]
async fn an_unknown_build_never_takes_the_place_of_a_built_in_plugin_unless_the_operator_vouches_for_it() {
    let test = host(|_| {});
    test.modules.start(&[PluginPlan::new("net", rust_plugin(NET))]).unwrap();
    let other = other_build(test.folder.path(), NET, "fixed.so");
    let before = test.modules.info("net").unwrap();

    let refused = test.modules.change("net", replace(&other, false), true).await.unwrap_err().to_string();
    let after = test.modules.info("net").unwrap();
    assert!(refused.starts_with(&format!("module net: {}: this build (SHA-256 {})", other.display(), hash(&other))));
    assert!(refused.contains("vouch for it with --trust or plugins.trusted"), "{refused}");
    assert_eq!(
        (&library_of(&after).content_hash, after.state),
        (&library_of(&before).content_hash, ModuleState::Enabled)
    );

    test.modules.change("net", replace(&other, true), true).await.unwrap();
    let vouched = test.modules.info("net").unwrap();
    assert_eq!(
        permissions_of(&vouched),
        (Trust::Vouched, Isolation::InProcess, plugin_of(&before).granted.iter().map(|one| one.name()).collect())
    );
    // The operator vouched for that build, not for the next one.
    let third = other_build(test.folder.path(), NET, "third.so");
    assert!(test.modules.change("net", replace(&third, false), true).await.is_err());
    test.modules.change("net", replace(&rust_plugin(NET), false), true).await.unwrap();
    assert_eq!(library_of(&test.modules.info("net").unwrap()).trust, Trust::BuiltIn);
}

#[tokio::test]
async fn a_built_in_name_is_not_given_to_an_unknown_build_at_the_start_either() {
    let test = host(|_| {});
    let other = other_build(test.folder.path(), BAD, "libtenon_plugin_net.so");

    let info = test.modules.start(&[PluginPlan::new("net", &other)]).unwrap().remove(0);

    assert_eq!(info.state, ModuleState::Failed);
    let reason = info.reason.unwrap();
    assert!(reason.contains("neither built in nor vouched for"), "{reason}");
    // Once the settings vouch for it, it is enabled like any other.
    test.modules.vouch_for(VouchedBuilds::from_hashes([hash(&other).as_str()]).unwrap());
    test.modules.change("net", ModuleChange::Enable, true).await.unwrap();
    assert_eq!(
        permissions_of(&test.modules.info("net").unwrap()),
        (Trust::Vouched, Isolation::InProcess, vec!["ReadNode"])
    );
}

#[tokio::test]
async fn run_time_grants_and_trust_survive_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let path = other_build(folder.path(), BAD, "mine.so");
    let own = other_build(folder.path(), "tenon-example-hello", "hello.so");
    let start = || {
        let test = host(|options| {
            options.choices_file = Some(folder.path().join("modules.json"));
            options.folders.push(PluginFolder::new(folder.path()));
        });
        test.modules.start(&[]).unwrap();
        test
    };
    let first = start();
    let granted = ModuleTerms { grant: Some(vec![Capability::ReadNode]), is_vouched_for: false };
    first.modules.change("mine", load(&path, granted), true).await.unwrap();
    let vouched = ModuleTerms { grant: None, is_vouched_for: true };
    first.modules.change("hello", load(&own, vouched), true).await.unwrap();
    first.modules.shutdown(Duration::from_secs(1)).await;

    let second = start();

    assert_eq!(
        permissions_of(&second.modules.info("mine").unwrap()),
        (Trust::Foreign, Isolation::Process, vec!["ReadNode"])
    );
    assert_eq!(permissions_of(&second.modules.info("hello").unwrap()), (Trust::Vouched, Isolation::InProcess, vec![]));
    second.modules.shutdown(Duration::from_secs(1)).await;
    // The path of the vouched build now holds another build.
    fs::OpenOptions::new().append(true).open(&own).unwrap().write_all(b"x").unwrap();
    assert_eq!(permissions_of(&start().modules.info("hello").unwrap()), (Trust::Foreign, Isolation::Process, vec![]));
}

#[tokio::test]
async fn a_foreign_plugin_never_runs_in_the_node_unless_the_operator_vouches_for_the_build() {
    let test = host(|_| {});
    let path = other_build(test.folder.path(), BAD, "mine.so");
    let told = PluginPlan { isolation: Some(Isolation::InProcess), ..PluginPlan::new("mine", &path) };

    let refused = test.modules.start(&[told]).unwrap().remove(0);

    assert_eq!(refused.state, ModuleState::Failed);
    let reason = refused.reason.unwrap();
    assert!(reason.contains(&format!("this build (SHA-256 {}) is neither built in nor vouched for", hash(&path))));
    assert!(reason.contains("vouch for it with --trust or plugins.trusted, or leave isolation out"), "{reason}");
    test.modules.vouch_for(VouchedBuilds::from_hashes([hash(&path).as_str()]).unwrap());
    test.modules.change("mine", ModuleChange::Enable, true).await.unwrap();
    assert_eq!(
        permissions_of(&test.modules.info("mine").unwrap()),
        (Trust::Vouched, Isolation::InProcess, vec!["ReadNode"])
    );
}

/// A host whose plugin processes run as on a kernel that lacks a feature.
fn host_without(what: &str) -> TestModules {
    host(|options| {
        let program = env!("CARGO_BIN_EXE_tenon-plugin-child");
        options.processes = Some(IsolationOptions::of_program(program, [what]));
    })
}

#[tokio::test]
async fn a_foreign_plugin_does_not_start_without_its_sandbox_unless_the_operator_insists() {
    for (what, words) in [
        ("without-landlock", "its access to files is not restricted: this kernel has no Landlock (Linux 5.13"),
        ("without-seccomp", "its system calls are not restricted: seccomp: "),
    ] {
        let test = host_without(what);
        let path = other_build(test.folder.path(), BAD, "mine.so");
        let plan = PluginPlan::new("mine", &path);

        let refused = test.modules.start(std::slice::from_ref(&plan)).unwrap().remove(0);
        let reason = refused.reason.unwrap_or_default();
        assert!(reason.contains("a foreign plugin does not start without its sandbox: "), "{what}: {reason}");
        assert!(reason.contains(words) && reason.contains("list its module under plugins.unsandboxed"), "{reason}");

        let insisting = PluginPlan { may_run_unsandboxed: true, ..plan };
        let info = host_without(what).modules.start(&[insisting]).unwrap().remove(0);
        assert_eq!((info.state, library_of(&info).trust), (ModuleState::Enabled, Trust::Foreign));
        assert!(
            plugin_of(&info).warnings.iter().any(|warning| warning.contains(words)),
            "{what}: {:?}",
            plugin_of(&info).warnings
        );
    }
}

#[tokio::test]
async fn a_built_in_plugin_in_a_process_starts_without_the_sandbox_with_a_warning() {
    let test = host_without("without-landlock");
    let plan = PluginPlan { isolation: Some(Isolation::Process), ..PluginPlan::new("net", rust_plugin(NET)) };

    let info = test.modules.start(&[plan]).unwrap().remove(0);

    assert_eq!((info.state, library_of(&info).isolation), (ModuleState::Enabled, Isolation::Process));
    assert!(plugin_of(&info).warnings[0].contains("this kernel has no Landlock"), "{:?}", plugin_of(&info).warnings);
}

#[tokio::test]
async fn without_processes_a_foreign_plugin_is_refused_and_not_run_in_the_node() {
    let test = host(|options| {
        options.processes = None;
        options.folders.push(PluginFolder::new(libraries()));
    });
    let path = other_build(test.folder.path(), BAD, "mine.so");

    let info = test.modules.start(&[PluginPlan::new("mine", path)]).unwrap().remove(0);

    assert_eq!(info.state, ModuleState::Failed);
}

#[tokio::test]
async fn a_foreign_build_never_gets_a_namespace_of_a_built_in_plugin() {
    // Under a name that sorts before `net`.
    let test = host(|_| {});
    let foreign = other_build(test.folder.path(), NET, "aaa.so");
    let terms = |is_vouched_for| ModuleTerms { grant: None, is_vouched_for };

    let refused = test.modules.change("aaa", load(&foreign, terms(false)), true).await.unwrap_err().to_string();
    assert!(refused.contains("namespace net belongs to a built-in plugin"), "{refused}");

    test.modules.change("aaa", load(&foreign, terms(true)), true).await.unwrap();
    assert_eq!(permissions_of(&test.modules.info("aaa").unwrap()).0, Trust::Vouched);
}

#[tokio::test]
async fn a_reserved_namespace_stays_closed_to_foreign_builds_in_every_order_and_state() {
    let alias = |name: &str| NamespaceAlias { name: name.to_owned(), namespace: "x".to_owned(), is_served: false };
    let net = PluginPlan::new("net", rust_plugin(NET));
    let disabled = PluginPlan { is_enabled: false, ..net.clone() };
    let gone = PluginPlan::new("net", "/nowhere/libtenon_plugin_net.so");
    // The options of the host, and the plugins that start together with two foreign builds, whose names sort before and
    // after `net`.
    let cases: [(&str, ChangeOptions, Vec<PluginPlan>); 6] = [
        ("enabled", Box::new(|_| {}), vec![net]),
        ("disabled", Box::new(|_| {}), vec![disabled]),
        ("failed", Box::new(|_| {}), vec![gone]),
        ("alone", Box::new(|_| {}), vec![]),
        (
            "without a list",
            Box::new(|options| (not_listed(options), options.reserved = vec!["NET".to_owned()]).1),
            vec![],
        ),
        ("an alias", Box::new(move |options| (not_listed(options), options.aliases = vec![alias("Net")]).1), vec![]),
    ];
    for (case, change, beside) in cases {
        let test = host(change);
        let first = PluginPlan::new("aaa", other_build(test.folder.path(), NET, "aaa.so"));
        let last = PluginPlan::new("zzz", other_build(test.folder.path(), NET, "zzz.so"));

        let modules = test.modules.start(&[vec![first], beside, vec![last]].concat()).unwrap();

        for info in modules.iter().filter(|info| info.name != "net") {
            assert_eq!(info.state, ModuleState::Failed, "{case}");
            let reason = info.reason.as_deref().unwrap_or_default();
            assert!(reason.contains("namespace net belongs to a built-in plugin"), "{case}: {reason}");
        }
        let serves = modules.iter().any(|info| info.state == ModuleState::Enabled);
        assert_eq!(serves, case == "enabled");
    }
}

#[tokio::test]
async fn plugins_that_are_slow_to_start_hold_up_neither_each_other_nor_the_node() {
    let slow = |test: &TestModules, name: &str, millis: u32| PluginPlan {
        settings: format!("{{\"linger\":{millis}}}"),
        ..PluginPlan::new(name, other_build(test.folder.path(), BAD, &format!("{name}.so")))
    };
    let test = host(|options| options.start_time = Duration::from_secs(3));
    // All have the same namespace, so each starts only after the previous one has failed.
    let plans = ["a", "b", "c"].map(|name| slow(&test, name, 60_000));
    let plans = [&plans[..], &[PluginPlan::new("net", rust_plugin(NET))]].concat();

    let begun = Instant::now();
    let modules = test.modules.start(&plans).unwrap();

    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let reasons: Vec<_> = modules.iter().map(|info| info.reason.clone().unwrap_or_default()).collect();
    assert!(reasons[0].contains("its process was not ready within"), "{reasons:?}");
    assert!(reasons[1].contains("module b: not started, because the plugins used all of 3s to start"), "{reasons:?}");
    assert_eq!(modules[3].state, ModuleState::Enabled);
    // This limit covers only the node's start: later each plugin has its own.
    let plan = slow(&test, "d", 10);
    test.modules.change("d", load(&plan.path, ModuleTerms::NONE), true).await.unwrap();
}
