//! Plugins that are loaded, removed and replaced while they are used.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use support::{TestModules, c_library, library_of, processes, rust_plugin, text};
use tenon_api::{
    BlockNumber,
    messages::{
        ChangeModule, GetModule, ListModules, ModuleChange, ModuleChanged, ModuleOperation, ModuleState, ModuleTerms,
    },
    messages::{SyncChanged, SyncStatus},
};
use tenon_bus::{CallContext, Delivery};
use tenon_host::{Caller, HostError, PluginStream};
use tenon_isolation::Isolation;
use tenon_modules::{ModuleError, PluginPlan};
use tenon_sdk::FailureCode;

const REPLACE: ModuleChange = ModuleChange::Replace { path: None, settings: None, terms: ModuleTerms::NONE };

/// Events that may be published and not received. Fewer than the bus keeps for a slow subscriber.
const MAX_UNREAD: u64 = 100;

fn load(path: &Path) -> ModuleChange {
    ModuleChange::Load {
        path: Some(path.display().to_string()),
        settings: None,
        is_enabled: true,
        terms: ModuleTerms::NONE,
    }
}

fn replace_by(path: &Path) -> ModuleChange {
    ModuleChange::Replace { path: Some(path.display().to_string()), settings: None, terms: ModuleTerms::NONE }
}

/// Another build of a plugin: the same code in a file with another content, and so another mapping.
fn build(folder: &Path, crate_name: &str, number: usize) -> PathBuf {
    let path = folder.join(format!("{crate_name}-{number}.so"));
    fs::copy(rust_plugin(crate_name), &path).unwrap();
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(&number.to_le_bytes()).unwrap();
    path
}

async fn call_method(test: &TestModules, method: &str, params: Option<&str>) -> Result<String, tenon_sdk::Failure> {
    test.modules.router().call_method(method, params, &Caller::local()).await.map(text)
}

async fn item(stream: &mut PluginStream) -> Option<Result<String, tenon_sdk::Failure>> {
    stream.next().await.map(|item| item.map(text))
}

fn progress(current: u64) -> SyncChanged {
    let number = BlockNumber;
    SyncChanged { status: Some(SyncStatus { starting: number(0), current: number(current), highest: number(9) }) }
}

#[tokio::test(start_paused = true)]
async fn disabling_refuses_new_calls_lets_running_ones_finish_and_closes_subscriptions_with_a_notice() {
    let test = TestModules::with_misbehaving();
    let (host, router) = (Arc::clone(&test.modules), test.modules.router());
    let name = "tenon_test_misbehaving";
    let mut stream = router.subscribe("bad", "silent", None, &Caller::local()).await.unwrap();
    let start = |method: &'static str, params: &'static str| {
        let router = router.clone();
        tokio::spawn(async move { router.call_method(method, Some(params), &Caller::local()).await.map(text) })
    };
    let (finishing, endless) = (start("bad_sleep", "[500]"), start("bad_never", "[]"));
    tokio::task::yield_now().await;

    let operation = tokio::spawn(async move { host.change(name, ModuleChange::Disable, true).await });
    while test.modules.info(name).unwrap().state == ModuleState::Enabled {
        tokio::task::yield_now().await;
    }
    let refused = call_method(&test, "bad_dropped", None).await.unwrap_err();
    let report = operation.await.unwrap().unwrap();

    assert_eq!(refused.code, FailureCode::METHOD_NOT_FOUND);
    assert_eq!(refused.message, "the method bad_dropped does not exist/is not available");
    assert!(router.namespaces().is_empty());
    assert_eq!(finishing.await.unwrap().as_deref(), Ok("500"));
    assert_eq!(endless.await.unwrap().unwrap_err().message, "call cancelled: namespace bad was disabled");
    let notice = item(&mut stream).await.unwrap().unwrap_err().message;
    assert_eq!(notice, "subscription closed: namespace bad is not available any more");
    assert_eq!(item(&mut stream).await, None);
    assert_eq!((report.operation, report.state), (ModuleOperation::Disable, ModuleState::Disabled));
    assert_eq!((report.running_calls, report.cancelled_calls, report.abandoned_calls), (2, 1, 0));
    assert_eq!((report.closed_subscriptions, report.kept_subscriptions), (1, 0));
    assert!(report.drain_micros >= 500_000 && report.old.is_some() && report.new.is_none(), "{report:?}");

    test.modules.change(name, ModuleChange::Enable, true).await.unwrap();
    assert_eq!(call_method(&test, "bad_echo", Some("[\"again\"]")).await.as_deref(), Ok("\"again\""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replacing_under_load_loses_no_call_and_no_state_and_disturbs_no_caller() {
    let test = Arc::new(TestModules::new());
    let folder = test.folder.path().to_owned();
    let builds: Vec<_> = (0..3).map(|number| build(&folder, "tenon-test-counter", number)).collect();
    test.modules.change("counter", load(&builds[0]), true).await.unwrap();
    test.modules.load(&rust_plugin("tenon-example-hello"), "").unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let worker = |method: &'static str| {
        let (router, is_over) = (test.modules.router(), Arc::clone(&is_over));
        tokio::spawn(async move {
            let mut answers = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                answers.push(router.call_method(method, None, &Caller::local()).await.map(text).unwrap());
                tokio::task::yield_now().await;
            }
            answers
        })
    };
    let counting: Vec<_> = (0..8).map(|_| worker("counter_next")).collect();
    let greeting: Vec<_> = (0..4).map(|_| worker("hello_greet")).collect();

    for round in 1..=60 {
        let report = test.modules.change("counter", replace_by(&builds[round % 3]), true).await.unwrap();
        assert_eq!((report.cancelled_calls, report.abandoned_calls), (0, 0), "{report:?}");
        assert_ne!(report.old, report.new);
    }
    is_over.store(true, Ordering::Relaxed);

    let mut numbers = BTreeSet::new();
    let mut answered = 0;
    for worker in counting {
        for answer in worker.await.unwrap() {
            answered += 1;
            numbers.insert(answer.parse::<u64>().unwrap());
        }
    }
    assert!(answered > 1000, "{answered} calls were made");
    assert_eq!(numbers.len(), answered, "no number was given twice");
    assert_eq!(numbers.last().copied(), Some(answered as u64), "and none was lost");
    for worker in greeting {
        assert!(worker.await.unwrap().iter().all(|answer| answer == "\"hello world\""));
    }
}

/// Replaces the counter while events reach its subscribers. Returns the received items, and how many were published.
/// Event `number` has the content `content(number)`.
async fn follow_over_replacements(
    test: TestModules,
    isolation: Option<Isolation>,
    content: impl Fn(u64) -> u64 + Send + 'static,
) -> (Vec<u64>, u64) {
    let builds: Vec<_> = (0..2).map(|number| build(test.folder.path(), "tenon-test-counter", number)).collect();
    let mut plan = PluginPlan::new("counter", &builds[0]);
    (plan.isolation, plan.is_required) = (isolation, true);
    test.modules.start(&[plan]).unwrap();
    let mut stream = test.modules.router().subscribe("counter", "progress", None, &Caller::local()).await.unwrap();
    let idle = test.modules.router().subscribe("counter", "progress", None, &Caller::local()).await.unwrap();
    let received = Arc::new(AtomicU64::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let reader = {
        let received = Arc::clone(&received);
        tokio::spawn(async move {
            let mut items = Vec::new();
            loop {
                let text = item(&mut stream).await.unwrap().unwrap();
                let number = text.parse::<u64>().unwrap_or_else(|_| panic!("{text} after {:?}", items.last()));
                if number == u64::MAX {
                    return items;
                }
                items.push(number);
                received.fetch_add(1, Ordering::Release);
            }
        })
    };
    let publisher = {
        let (bus, is_over) = (test.bus.clone(), Arc::clone(&is_over));
        tokio::spawn(async move {
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                // Never so fast that the bus drops events.
                while number > received.load(Ordering::Acquire) + MAX_UNREAD {
                    tokio::task::yield_now().await;
                }
                tokio::time::sleep(Duration::from_micros(100)).await;
                bus.publish(progress(content(number)));
                number += 1;
            }
            bus.publish(progress(u64::MAX));
            number
        })
    };

    for round in 1..=20 {
        let report = test.modules.change("counter", replace_by(&builds[round % 2]), true).await.unwrap();
        assert_eq!((report.kept_subscriptions, report.closed_subscriptions), (2, 0), "{report:?}");
    }
    is_over.store(true, Ordering::Relaxed);

    let published = publisher.await.unwrap();
    assert!(published > 20, "{published} events");
    drop(idle);
    (reader.await.unwrap(), published)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn subscriptions_neither_lose_nor_repeat_items_over_replacements() {
    let (items, published) = follow_over_replacements(TestModules::new(), None, |number| number).await;

    assert_eq!(items, (0..published).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_of_several_equal_events_is_delivered_once_over_replacements() {
    let (items, published) = follow_over_replacements(TestModules::new(), None, |number| number / 5 % 2).await;

    assert_eq!(items, (0..published).map(|number| number / 5 % 2).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn subscriptions_of_processes_go_on_over_replacements_with_equal_events() {
    let isolated = Some(Isolation::Process);
    let (items, published) = follow_over_replacements(processes::host(), isolated, |number| number / 5 % 2).await;

    assert_eq!(items, (0..published).map(|number| number / 5 % 2).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_build_takes_subscriptions_over_only_if_it_marks_its_items() {
    let test = TestModules::new();
    let lasting = |minor: &str| {
        let library = test.folder.path().join(format!("lasting-{minor}.so"));
        c_library(&library, "tests/plugins/lasting.c", &[&format!("-DMINOR={minor}")])
    };
    let (older, current) = (lasting("4"), lasting("5"));
    test.modules.start(&[PluginPlan::new("chello", &older)]).unwrap();
    let mut stream = test.modules.router().subscribe("chello", "count", None, &Caller::local()).await.unwrap();

    let newer = test.modules.change("chello", replace_by(&current), true).await.unwrap();
    let back = test.modules.change("chello", replace_by(&older), true).await.unwrap();

    assert_eq!((newer.kept_subscriptions, newer.closed_subscriptions), (1, 0));
    assert_eq!((back.kept_subscriptions, back.closed_subscriptions), (0, 1));
    let notice = item(&mut stream).await.unwrap().unwrap_err().message;
    assert_eq!(notice, "subscription closed: namespace chello was replaced; subscribe again");
}

#[tokio::test]
async fn a_plugin_whose_subscriptions_do_not_last_closes_them_when_it_is_replaced() {
    let test = TestModules::with_misbehaving();
    let mut stream = test.modules.router().subscribe("bad", "silent", None, &Caller::local()).await.unwrap();

    let report = test.modules.change("tenon_test_misbehaving", REPLACE, true).await.unwrap();

    let notice = item(&mut stream).await.unwrap().unwrap_err().message;
    assert_eq!(notice, "subscription closed: namespace bad was replaced; subscribe again");
    assert_eq!((report.closed_subscriptions, report.kept_subscriptions), (1, 0));
}

#[tokio::test]
async fn a_replacement_that_fails_changes_nothing() {
    let test = TestModules::new();
    let counter = build(test.folder.path(), "tenon-test-counter", 0);
    test.modules.change("counter", load(&counter), true).await.unwrap();
    call_method(&test, "counter_next", None).await.unwrap();
    let before = test.modules.info("counter").unwrap();
    let settings = Some("{\"please\":\"refuse\"}".to_owned());

    let refused = test
        .modules
        .change("counter", ModuleChange::Replace { path: None, settings, terms: ModuleTerms::NONE }, true)
        .await;
    let other = test.modules.change("counter", replace_by(&rust_plugin("tenon-example-hello")), true).await;
    let missing = test.modules.change("counter", replace_by(Path::new("/nowhere/counter.so")), true).await;

    assert!(refused.unwrap_err().to_string().ends_with("did not start: told to refuse"));
    let other = other.unwrap_err().to_string();
    assert!(other.contains("serves counter, but the new library serves hello"), "{other}");
    assert!(matches!(missing, Err(ModuleError::Host(HostError::File { .. }))));
    assert_eq!(test.modules.info("counter").unwrap(), before);
    assert_eq!(call_method(&test, "counter_next", None).await.as_deref(), Ok("2"), "calls are not held for ever");
}

#[tokio::test]
async fn needs_are_checked_at_every_step() {
    let test = TestModules::new();
    let module = |namespace: &str, version: &str, needs: &str| {
        let path = test.folder.path().join(format!("{namespace}-{version}.so"));
        let define = |name: &str, value: &str| format!("-D{name}=\"{value}\"");
        let flags = [define("NAMESPACE", namespace), define("VERSION", version), define("NEEDS", needs)];
        c_library(&path, "tests/plugins/broken.c", &flags.each_ref().map(String::as_str))
    };
    let change = |name: &'static str, change| test.modules.change(name, change, true);
    let (base, newer, older) = (module("base", "1.5", ""), module("base", "2.0", ""), module("base", "1.0", ""));
    let user = module("user", "1.0", "base >= 1.2");
    let (left, right) = (module("left", "1.0", "right"), module("right", "1.0", "left"));

    let missing = change("user", load(&user)).await.unwrap_err().to_string();
    change("base", load(&base)).await.unwrap();
    change("user", load(&user)).await.unwrap();
    let needed = change("base", ModuleChange::Disable).await.unwrap_err().to_string();
    let too_old = change("base", replace_by(&older)).await.unwrap_err().to_string();
    change("base", replace_by(&newer)).await.unwrap();
    let info = test.modules.info("base").unwrap();
    change("user", ModuleChange::Unload).await.unwrap();
    change("base", ModuleChange::Disable).await.unwrap();
    let disabled = change("user", load(&user)).await.unwrap_err().to_string();
    let started = test.modules.start(&[PluginPlan::new("left", left), PluginPlan::new("right", right)]).unwrap();

    assert_eq!(missing, "module user needs base >= 1.2: no module serves that namespace");
    assert_eq!(needed, "module base is needed by user; disable that first");
    assert_eq!(too_old, needed);
    assert_eq!((library_of(&info).version.clone(), info.needed_by), ("2.0".to_owned(), vec!["user".to_owned()]));
    assert_eq!(disabled, "module user needs base >= 1.2: module base is disabled");
    let reason = |name: &str| started.iter().find(|info| info.name == name).unwrap().reason.clone().unwrap();
    assert!(reason("left").ends_with("they need each other, a cycle: left → right → left"), "{}", reason("left"));
    assert!(reason("right").ends_with("a cycle: right → left → right"), "{}", reason("right"));
}

#[tokio::test]
async fn a_cycle_of_needs_is_shown_as_a_whole_however_long_it_is() {
    let test = TestModules::new();
    let module = |namespace: &str, needs: &str| {
        let path = test.folder.path().join(format!("{namespace}.so"));
        let define = |name: &str, value: &str| format!("-D{name}=\"{value}\"");
        let flags = [define("NAMESPACE", namespace), define("NEEDS", needs)];
        PluginPlan::new(namespace, c_library(&path, "tests/plugins/broken.c", &flags.each_ref().map(String::as_str)))
    };
    let plans = [
        module("one", "two"),
        module("two", "three"),
        module("three", "one"),
        module("own", "own"),
        module("after", "one"),
    ];

    let started = test.modules.start(&plans).unwrap();

    let reason = |name: &str| started.iter().find(|info| info.name == name).unwrap().reason.clone().unwrap();
    assert_eq!(reason("one"), "module one needs two: they need each other, a cycle: one → two → three → one");
    assert_eq!(reason("three"), "module three needs one: they need each other, a cycle: three → one → two → three");
    assert_eq!(reason("own"), "module own needs own: they need each other, a cycle: own → own");
    assert_eq!(reason("after"), "module after needs one: module one is failed", "it is in no cycle itself");
    assert!(test.modules.router().namespaces().is_empty());
}

#[tokio::test]
async fn every_way_into_a_wrong_state_is_refused_by_name() {
    let test = TestModules::new();
    fs::copy(rust_plugin("tenon-example-hello"), test.folder.path().join("hello.so")).unwrap();
    let by_name = |is_enabled| ModuleChange::Load { path: None, settings: None, is_enabled, terms: ModuleTerms::NONE };
    let change = |name: &'static str, change| test.modules.change(name, change, true);
    let refusal = |outcome: Result<_, ModuleError>| outcome.unwrap_err().to_string();

    let loaded = change("hello", by_name(false)).await.unwrap();
    assert_eq!((loaded.state, test.modules.router().namespaces().len()), (ModuleState::Loaded, 0));
    assert!(
        refusal(change("hello", by_name(true)).await).ends_with("is loaded already; replace it, or unload it first")
    );
    let twice = refusal(change("again", load(&rust_plugin("tenon-example-hello"))).await);
    assert!(twice.contains("namespace hello is served by hello already; disable that module first"), "{twice}");
    assert!(refusal(change("hello", ModuleChange::Disable).await).ends_with("module hello is loaded and not enabled"));
    change("hello", ModuleChange::Enable).await.unwrap();
    assert!(refusal(change("hello", ModuleChange::Enable).await).ends_with("module hello is enabled already"));
    assert_eq!(refusal(change("bye", ModuleChange::Disable).await), "there is no module \"bye\"; there are: hello");
    assert!(refusal(change("absent", by_name(true)).await).starts_with("no plugin folder has a library for absent"));
    let nameless = refusal(change("", load(Path::new("/etc/hostname"))).await);
    assert!(nameless.contains("/etc/hostname: the library is not named NAME.so or libNAME.so"), "{nameless}");
    for name in ["", "../hello", "a/b", ".", "a b", "hello\0"] {
        assert!(refusal(change(name, by_name(true)).await).contains("is not a valid module name"), "{name:?}");
    }
    change("hello", ModuleChange::Unload).await.unwrap();
    assert!(test.modules.list().is_empty() && test.modules.router().namespaces().is_empty());
}

#[tokio::test]
async fn libraries_that_may_not_become_part_of_the_node_are_refused_and_nothing_changes() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let test = TestModules::new();
    let outside = tempfile::tempdir().unwrap();
    let good = rust_plugin("tenon-example-hello");
    let bytes = fs::read(&good).unwrap();
    let path = |name: &str| test.folder.path().join(name);
    let write = |name: &str, bytes: &[u8]| {
        fs::write(path(name), bytes).unwrap();
        path(name)
    };
    let mut foreign = bytes.clone();
    foreign[18] = 40;
    let writable = write("writable.so", &bytes);
    fs::set_permissions(&writable, fs::Permissions::from_mode(0o666)).unwrap();
    fs::copy(&good, outside.path().join("hello.so")).unwrap();
    symlink(outside.path().join("hello.so"), path("link.so")).unwrap();
    fs::create_dir(path("folder.so")).unwrap();
    let open_folder = path("open");
    fs::create_dir(&open_folder).unwrap();
    fs::copy(&good, open_folder.join("hello.so")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(path("pipe.so")).status().unwrap();
    assert!(made.success());
    let cases = [
        (path("missing.so"), "cannot open the library: No such file"),
        (path("folder.so"), "refused: it is a folder"),
        (path("pipe.so"), "refused: it is not a regular file"),
        (write("text.so", b"hello\n"), "not a loadable library: it is a text file"),
        (write("empty.so", b""), "not a loadable library: it is empty"),
        (write("truncated.so", &bytes[..bytes.len() / 2]), "not a loadable library: it is truncated"),
        (write("foreign.so", &foreign), "not a loadable library: it is built for another architecture"),
        (writable, "refused: it is writable by everyone (mode 666); chmod o-w"),
        (path("link.so"), "but libraries are loaded only from"),
        (open_folder.join("../open/hello.so"), "but libraries are loaded only from"),
        (outside.path().join("hello.so"), "but libraries are loaded only from"),
        (path("nul\0.so"), "cannot open the library: "),
    ];
    for (path, words) in cases {
        let error = test.modules.change("hello", load(&path), true).await.unwrap_err().to_string();

        assert!(error.contains(words), "{}: {error}", path.display());
        assert!(test.modules.list().is_empty());
    }

    fs::set_permissions(test.folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let copy = write("fine.so", &bytes);
    let error = test.modules.change("hello", load(&copy), true).await.unwrap_err().to_string();
    assert!(error.contains("refused: its folder is writable by everyone"), "{error}");
}

#[tokio::test]
async fn libraries_of_other_users_are_refused_and_nothing_changes() {
    use std::os::unix::fs::chown;
    let test = TestModules::new();
    let (inner, stranger) = (test.folder.path().join("hello.so"), Some(4711));
    fs::copy(rust_plugin("tenon-example-hello"), &inner).unwrap();
    if !rustix::process::geteuid().is_root() {
        // Only root can change the owner of a file; `library_cache` tests the same with invented owners.
        assert!(chown(&inner, stranger, None).is_err());
        return;
    }
    chown(&inner, stranger, None).unwrap();
    let of_file = test.modules.change("hello", load(&inner), true).await.unwrap_err().to_string();
    chown(&inner, Some(0), None).unwrap();
    chown(test.folder.path(), stranger, None).unwrap();
    let of_folder = test.modules.change("hello", load(&inner), true).await.unwrap_err().to_string();

    let words = "belongs to user 4711, neither to root nor to the user of the node (0); chown it";
    assert!(of_file.ends_with(&format!("refused: it {words}")), "{of_file}");
    assert!(of_folder.ends_with(&format!("refused: its folder {words}")), "{of_folder}");
    assert!(test.modules.list().is_empty() && !test.folder.path().join("cache").exists());
}

#[tokio::test]
async fn copies_and_links_of_a_loaded_library_are_refused() {
    let test = TestModules::new();
    let path = |name: &str| test.folder.path().join(name);
    fs::copy(rust_plugin("tenon-example-hello"), path("hello.so")).unwrap();
    fs::copy(path("hello.so"), path("copy.so")).unwrap();
    fs::hard_link(path("hello.so"), path("hard.so")).unwrap();
    std::os::unix::fs::symlink(path("hello.so"), path("soft.so")).unwrap();
    test.modules.change("hello", load(&path("hello.so")), true).await.unwrap();
    let before = test.modules.list();

    for name in ["hello", "copy", "hard", "soft"] {
        let refused = test.modules.change("again", load(&path(&format!("{name}.so"))), true).await;

        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("namespace hello is served by hello already; disable that module first"),
            "{name}: {refused}"
        );
        assert_eq!(test.modules.list(), before);
    }
    assert_eq!(call_method(&test, "hello_greet", None).await.as_deref(), Ok("\"hello world\""));
}

#[tokio::test]
async fn the_loaded_library_is_the_checked_one_even_if_its_path_changes() {
    let test = TestModules::new();
    let path = build(test.folder.path(), "tenon-test-counter", 0);
    test.modules.change("counter", load(&path), true).await.unwrap();
    let hash = library_of(&test.modules.info("counter").unwrap()).content_hash.clone();

    fs::remove_file(&path).unwrap();
    fs::write(&path, "something else by now").unwrap();
    test.modules.change("counter", ModuleChange::Disable, true).await.unwrap();
    test.modules.change("counter", ModuleChange::Enable, true).await.unwrap();

    assert_eq!(library_of(&test.modules.info("counter").unwrap()).content_hash.clone(), hash);
    assert_eq!(call_method(&test, "counter_next", None).await.as_deref(), Ok("1"));
    let error = test.modules.change("counter", REPLACE, true).await.unwrap_err().to_string();
    assert!(error.contains("it is a text file"), "{error}");
}

#[tokio::test]
async fn copies_that_are_mapped_stay_until_the_next_start_removes_them() {
    let test = TestModules::new();
    let builds: Vec<_> = (0..4).map(|number| build(test.folder.path(), "tenon-test-counter", number)).collect();
    test.modules.change("counter", load(&builds[0]), true).await.unwrap();

    for path in &builds[1..] {
        test.modules.change("counter", replace_by(path), true).await.unwrap();
    }

    let cache = test.folder.path().join("cache");
    let copies = || fs::read_dir(&cache).unwrap().count();
    assert_eq!(copies(), 4);
    assert_eq!(call_method(&test, "counter_next", None).await.as_deref(), Ok("1"));
    // This process has not mapped anything of the previous one.
    let plan = PluginPlan::new("counter", &builds[0]);
    let next = TestModules::over(test.folder);
    next.modules.start(&[plan]).unwrap();
    assert_eq!(copies(), 1);
    assert_eq!(call_method(&next, "counter_next", None).await.as_deref(), Ok("1"));
}

#[tokio::test]
async fn choices_outlast_the_host_until_the_settings_change() {
    let test = TestModules::new();
    let folder = test.folder.path().to_owned();
    let counter = build(&folder, "tenon-test-counter", 0);
    let hello = rust_plugin("tenon-example-hello");
    let start = |plans: &[PluginPlan]| {
        let test = TestModules::with_options(|options| {
            options.choices_file = Some(folder.join("modules.json"));
            options.folders.push(tenon_host::PluginFolder::new(&folder));
        });
        test.modules.start(plans).unwrap();
        test
    };
    let states = |test: &TestModules| -> Vec<_> {
        test.modules.list().into_iter().map(|info| format!("{} {}", info.name, info.state.name())).collect()
    };
    let plans = [PluginPlan::new("hello", &hello)];

    let first = start(&plans);
    first.modules.change("counter", load(&counter), true).await.unwrap();
    first.modules.change("hello", ModuleChange::Disable, true).await.unwrap();
    first.modules.shutdown(Duration::from_secs(1)).await;
    let second = start(&plans);
    assert_eq!(states(&second), ["counter enabled", "hello disabled"]);
    second.modules.change("hello", ModuleChange::Unload, true).await.unwrap();
    second.modules.change("counter", ModuleChange::Unload, true).await.unwrap();
    let third = start(&plans);
    assert_eq!(states(&third), [""; 0]);
    let changed = [PluginPlan { settings: "{\"new\":1}".to_owned(), ..plans[0].clone() }];
    assert_eq!(states(&start(&changed)), ["hello enabled"]);
}

#[tokio::test]
async fn choices_that_cannot_be_read_stop_the_start_and_nothing_disabled_opens_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("modules.json");
    std::fs::write(&file, "{\"modules\":").unwrap();
    let test = TestModules::with_options(|options| options.choices_file = Some(file.clone()));

    let refused = test.modules.start(&[PluginPlan::new("hello", rust_plugin("tenon-example-hello"))]).unwrap_err();

    assert!(matches!(refused, ModuleError::Choices { ref path, .. } if *path == file), "{refused}");
    assert!(test.modules.list().is_empty());
    assert_eq!(std::fs::read(&file).unwrap(), b"{\"modules\":", "it is left to the operator");
    let refused = test.modules.start_actors(tenon_modules::ActorStage::BeforePlugins).await.unwrap_err();
    assert!(matches!(refused, ModuleError::Choices { .. }), "{refused}");
}

#[tokio::test]
async fn a_choice_that_cannot_be_kept_is_an_error_until_it_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("later");
    let file = place.join("modules.json");
    let test = TestModules::with_options(|options| options.choices_file = Some(file.clone()));
    test.modules.start(&[PluginPlan::new("hello", rust_plugin("tenon-example-hello"))]).unwrap();
    let disable = async || test.modules.change("hello", ModuleChange::Disable, true).await.unwrap_err();

    // The folder of the file does not exist.
    for _ in 0..2 {
        let error = disable().await;
        assert!(matches!(error, ModuleError::ChoicesNotStored { .. }), "{error}");
        assert!(
            error.to_string().starts_with("module hello: the change is in effect but could not be saved in "),
            "{error}"
        );
        assert_eq!(test.modules.info("hello").unwrap().state, ModuleState::Disabled);
    }
    std::fs::create_dir(&place).unwrap();

    let error = disable().await;

    assert!(error.to_string().ends_with("is disabled already"), "{error}");
    assert!(std::fs::read_to_string(&file).unwrap().contains("disabled"));
}

#[tokio::test]
async fn one_that_fails_at_start_is_noted_and_only_a_required_one_stops_the_start() {
    let test = TestModules::new();
    let refusing = PluginPlan {
        settings: "{\"please\":\"refuse\"}".to_owned(),
        ..PluginPlan::new("counter", rust_plugin("tenon-test-counter"))
    };
    let plans = [refusing.clone(), PluginPlan::new("hello", rust_plugin("tenon-example-hello"))];

    let modules = test.modules.start(&plans).unwrap();
    let required = TestModules::new().modules.start(&[PluginPlan { is_required: true, ..refusing }]);

    assert_eq!((modules[0].state, modules[1].state), (ModuleState::Failed, ModuleState::Enabled));
    assert!(modules[0].reason.as_ref().unwrap().ends_with("did not start: told to refuse"));
    assert!(required.unwrap_err().to_string().ends_with("did not start: told to refuse"));
    // A repaired plugin is enabled like any other.
    let settings = Some("{}".to_owned());
    test.modules
        .change("counter", ModuleChange::Replace { path: None, settings, terms: ModuleTerms::NONE }, true)
        .await
        .unwrap();
    test.modules.change("counter", ModuleChange::Enable, true).await.unwrap();
    assert_eq!(call_method(&test, "counter_next", None).await.as_deref(), Ok("1"));
}

#[tokio::test]
async fn settings_that_changed_are_applied_and_others_left_alone() {
    let test = TestModules::new();
    let plan = |name: &str, crate_name: &str| PluginPlan::new(name, rust_plugin(crate_name));
    let (counter, hello) = (plan("counter", "tenon-test-counter"), plan("hello", "tenon-example-hello"));
    let bad = plan("bad", "tenon-test-misbehaving");
    test.modules.start(&[counter.clone(), hello.clone()]).unwrap();
    test.modules.change("hello", ModuleChange::Disable, true).await.unwrap();
    call_method(&test, "counter_next", None).await.unwrap();

    let nothing = test.modules.apply(vec![counter.clone(), hello.clone()], None).await;
    let changed = PluginPlan { settings: "{\"new\":1}".to_owned(), ..counter };
    let outcomes = test.modules.apply(vec![changed, hello.clone(), bad.clone()], None).await;
    assert_eq!((nothing.len(), outcomes.len()), (0, 2));
    assert_eq!(call_method(&test, "counter_settings", None).await.as_deref(), Ok("\"{\\\"new\\\":1}\""));
    assert_eq!(call_method(&test, "counter_next", None).await.as_deref(), Ok("2"), "the state went along");
    assert_eq!(test.modules.info("hello").unwrap().state, ModuleState::Disabled, "the choice stays");
    assert_eq!(test.modules.info("bad").unwrap().state, ModuleState::Enabled);

    let outcomes = test.modules.apply(vec![hello, PluginPlan { is_enabled: false, ..bad }], None).await;
    assert!(outcomes.iter().all(|applied| applied.outcome.is_ok()), "{outcomes:?}");
    let states: Vec<_> = test.modules.list().into_iter().map(|info| (info.name, info.state)).collect();
    assert_eq!(states, [("bad".to_owned(), ModuleState::Disabled), ("hello".to_owned(), ModuleState::Disabled)]);
}

#[tokio::test]
async fn operations_work_over_the_bus_and_grants_are_per_plugin() {
    let test = TestModules::new();
    tenon_modules::register(&test.bus, &test.modules).unwrap();
    test.answer_version();
    let mut changes = test.bus.subscribe::<ModuleChanged>();
    let context = CallContext::new();
    let plan =
        PluginPlan { capabilities: Some(Vec::new()), ..PluginPlan::new("bad", rust_plugin("tenon-test-misbehaving")) };
    test.modules.start(std::slice::from_ref(&plan)).unwrap();
    let denied = call_method(&test, "bad_version", None).await.unwrap_err().message;
    test.modules.apply(vec![PluginPlan { capabilities: None, ..plan }], None).await;

    let list = test.bus.call(ListModules, &context).await.unwrap();
    let info = test.bus.call(GetModule { name: "bad".to_owned() }, &context).await.unwrap();
    let request = ChangeModule { name: "bad".to_owned(), change: ModuleChange::Unload, waits_for_drain: true };
    // A caller that leaves immediately does not interrupt the operation halfway.
    let leaving = test.bus.clone();
    drop(tokio::spawn(async move { leaving.call(request, &CallContext::new()).await }));

    assert!(denied.contains("was not granted ReadNode, which GetClientVersion needs"), "{denied}");
    assert_eq!(call_method(&test, "bad_version", None).await.as_deref(), Ok("\"Tenon/test\""));
    assert_eq!(list, [info]);
    let operations = [ModuleOperation::Replace, ModuleOperation::Unload];
    for operation in operations {
        let Some(Delivery::Event(ModuleChanged { report })) = changes.next().await else { panic!("an event") };
        assert_eq!((report.module.as_str(), report.operation), ("bad", operation));
    }
    let unknown = test.bus.call(GetModule { name: "bad".to_owned() }, &context).await.unwrap_err().to_string();
    assert!(unknown.starts_with("there is no module \"bad\""), "{unknown}");
}
