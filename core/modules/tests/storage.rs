//! A plugin's own storage and background work: separate from those of other plugins, the same in both isolations, and
//! kept across a replacement and a restart.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure fails the test")]

mod support;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use alloy_primitives::Bytes;
use support::{TestModules, plugin_of, process_of, rust_plugin, text};
use tenon_api::{
    PluginSpaces, SpaceError, SpaceLimits,
    messages::{
        CommitOutcome, CommitRecords, ModuleChange, ModuleTerms, PurgeSpace, RecordChange, RecordPage, ScanRecords,
        SpaceUsage,
    },
};
use tenon_bus::CallContext;
use tenon_host::{Caller, Router};
use tenon_isolation::{Isolation, IsolationOptions};
use tenon_modules::{ModuleOptions, PluginPlan};

/// Spaces in memory, only as complete as these tests need: `modules/storage` has the rules and their tests.
#[derive(Debug, Default)]
struct MemorySpaces(Mutex<BTreeMap<(String, Bytes), Bytes>>);

impl PluginSpaces for MemorySpaces {
    fn get(&self, space: &str, keys: &[Bytes]) -> Result<Vec<Option<Bytes>>, SpaceError> {
        let records = self.0.lock().unwrap();
        Ok(keys.iter().map(|key| records.get(&(space.to_owned(), key.clone())).cloned()).collect())
    }

    fn scan(&self, space: &str, _: &ScanRecords) -> Result<RecordPage, SpaceError> {
        let records = self.0.lock().unwrap();
        let of_space = records.iter().filter(|((owner, _), _)| owner == space);
        let records = of_space.map(|((_, key), value)| (key.clone(), value.clone())).collect();
        Ok(RecordPage { records, has_more: false })
    }

    fn commit(&self, space: &str, commit: &CommitRecords, limits: SpaceLimits) -> Result<CommitOutcome, SpaceError> {
        let (records, bytes) = self.usage(space)?;
        if records >= limits.records {
            let usage = SpaceUsage::of(records + 1, bytes, limits);
            return Err(SpaceError::Full { space: space.to_owned(), usage });
        }
        for change in &commit.changes {
            let RecordChange::Put { key, value } = change else { continue };
            self.0.lock().unwrap().insert((space.to_owned(), key.clone()), value.clone());
        }
        let (records, bytes) = self.usage(space)?;
        Ok(CommitOutcome { is_applied: true, usage: SpaceUsage::of(records, bytes, limits) })
    }

    fn usage(&self, space: &str) -> Result<(u64, u64), SpaceError> {
        let page = self.scan(space, &ScanRecords { from: Bytes::new(), to: None, is_descending: false, limit: 0 })?;
        let bytes: usize = page.records.iter().map(|(key, value)| key.len() + value.len()).sum();
        Ok((page.records.len() as u64, bytes as u64))
    }

    fn purge(&self, space: &str) -> Result<(u64, u64), SpaceError> {
        let usage = self.usage(space)?;
        self.0.lock().unwrap().retain(|(owner, _), _| owner != space);
        Ok(usage)
    }
}

fn plan(name: &str, library: &Path, isolation: Isolation, settings: &str) -> PluginPlan {
    let settings = format!("{{\"please\":\"{settings}\"}}");
    PluginPlan { isolation: Some(isolation), settings, ..PluginPlan::new(name, library) }
}

fn host_over(spaces: &Arc<MemorySpaces>, change: impl FnOnce(&mut ModuleOptions)) -> TestModules {
    let test = TestModules::with_options(|options| {
        options.spaces = Some(Arc::clone(spaces) as Arc<dyn PluginSpaces>);
        options.processes =
            Some(IsolationOptions::of_program(env!("CARGO_BIN_EXE_tenon-plugin-child"), Vec::<String>::new()));
        change(options);
    });
    tenon_modules::register(&test.bus, &test.modules).unwrap();
    test
}

fn keeper() -> PathBuf {
    rust_plugin("tenon-test-keeper")
}

async fn ask(router: &Router, method: &str, params: &str) -> String {
    match router.call_method(method, Some(params), &Caller::local()).await {
        Ok(answer) => text(answer),
        Err(failure) => failure.message,
    }
}

/// How often the plugin's background work was started, and how often it has ticked.
async fn ticks(router: &Router) -> (u64, u64) {
    let text = ask(router, "keeper_ticks", "[]").await;
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"))
}

/// Waits until the plugin's background work has ticked more than `count` times.
async fn ticks_beyond(router: &Router, count: u64) -> (u64, u64) {
    loop {
        let now = ticks(router).await;
        if now.1 > count {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_records_survive_a_replacement_and_a_change_of_isolation() {
    let spaces = Arc::new(MemorySpaces::default());
    for (isolation, expected) in [(Isolation::InProcess, "null"), (Isolation::Process, "\"v\"")] {
        let test = host_over(&spaces, |_| {});
        test.modules.start(&[plan("mine", &keeper(), isolation, "work")]).unwrap();
        let router = test.modules.router();
        assert_eq!(ask(&router, "keeper_get", "[\"k\"]").await, expected, "{isolation:?}");

        assert_eq!(ask(&router, "keeper_put", "[\"k\",\"v\"]").await, "null");
        test.modules
            .change("mine", ModuleChange::Replace { path: None, settings: None, terms: ModuleTerms::NONE }, true)
            .await
            .unwrap();

        assert_eq!(ask(&router, "keeper_get", "[\"k\"]").await, "\"v\"", "{isolation:?}");
        test.modules.shutdown(Duration::from_secs(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_space_belongs_to_the_name_that_the_operator_gave() {
    let spaces = Arc::new(MemorySpaces::default());
    let foreign = RecordChange::Put { key: Bytes::from_static(b"secret"), value: Bytes::new() };
    let commit = CommitRecords { expects: Vec::new(), changes: vec![foreign] };
    spaces.commit("tenon-test-keeper", &commit, SpaceLimits::default()).unwrap();
    spaces.commit("keeper", &commit, SpaceLimits::default()).unwrap();
    let test = host_over(&spaces, |_| {});
    test.modules.start(&[plan("mine", &keeper(), Isolation::Process, "")]).unwrap();
    let router = test.modules.router();
    ticks_beyond(&router, 0).await;

    let keys = ask(&router, "keeper_keys", "[]").await;

    assert_eq!(keys, "[\"begun\",\"ticks\"]", "neither by the plugin's name nor by its namespace");
}

#[tokio::test]
async fn storage_needs_to_be_granted_and_there_at_all() {
    let spaces = Arc::new(MemorySpaces::default());
    let test = host_over(&spaces, |options| options.granted.clear());
    test.modules.start(&[plan("mine", &keeper(), Isolation::InProcess, "")]).unwrap();
    let without = TestModules::new();
    without.modules.start(&[plan("mine", &keeper(), Isolation::InProcess, "")]).unwrap();

    let not_granted = ask(&test.modules.router(), "keeper_usage", "[]").await;
    let not_there = ask(&without.modules.router(), "keeper_usage", "[]").await;

    assert_eq!(not_granted, "plugin mine was not granted Storage, which GetSpaceUsage needs");
    assert_eq!(not_there, "this node has no storage for plugins");
}

#[tokio::test]
async fn each_plugin_has_its_own_bounds() {
    let spaces = Arc::new(MemorySpaces::default());
    let test = host_over(&spaces, |options| options.space_limits = SpaceLimits { records: 100, bytes: 1_000 });
    let storage = Some(SpaceLimits { records: 1, bytes: 7 });
    let narrow = PluginPlan { storage, ..plan("mine", &keeper(), Isolation::InProcess, "") };
    test.modules.start(&[narrow]).unwrap();
    let router = test.modules.router();
    while !ask(&router, "keeper_keys", "[]").await.contains("begun") {
        tokio::task::yield_now().await;
    }

    let full = ask(&router, "keeper_put", "[\"k\",\"v\"]").await;
    let usage = ask(&router, "keeper_usage", "[]").await;

    assert!(full.starts_with("storage of module mine is full: it would have 2 records"), "{full}");
    assert!(usage.contains("\"maxRecords\":1") && usage.contains("\"maxBytes\":7"), "{usage}");
}

#[tokio::test]
async fn operators_see_what_a_module_stores_and_what_it_may_store() {
    let spaces = Arc::new(MemorySpaces::default());
    let test = host_over(&spaces, |_| {});
    let storage = Some(SpaceLimits { records: 100, bytes: 1_000 });
    let hello = plan("hello", &rust_plugin("tenon-example-hello"), Isolation::InProcess, "");
    test.modules.start(&[PluginPlan { storage, ..plan("mine", &keeper(), Isolation::InProcess, "") }, hello]).unwrap();
    ask(&test.modules.router(), "keeper_put", "[\"k\",\"value\"]").await;
    test.modules.change("mine", ModuleChange::Disable, true).await.unwrap();
    let (records, bytes) = spaces.usage("mine").unwrap();

    let info = test.modules.info("mine").unwrap();

    assert!(records >= 1 && bytes >= 6, "{records} records, {bytes} bytes");
    assert_eq!(plugin_of(&info).storage, Some(SpaceUsage { records, bytes, max_records: 100, max_bytes: 1_000 }));
    let list = test.modules.list();
    assert_eq!(
        list.iter().map(|info| plugin_of(info).storage.is_some()).collect::<Vec<_>>(),
        [false, true],
        "{list:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn storage_is_removed_on_request_only_and_not_under_an_enabled_plugin() {
    let spaces = Arc::new(MemorySpaces::default());
    let test = host_over(&spaces, |_| {});
    test.modules.start(&[plan("mine", &keeper(), Isolation::InProcess, "")]).unwrap();
    ask(&test.modules.router(), "keeper_put", "[\"k\",\"v\"]").await;
    let context = CallContext::new();
    let purge = || test.bus.call(PurgeSpace { module: "mine".to_owned() }, &context);

    let refused = purge().await.unwrap_err().to_string();
    test.modules.change("mine", ModuleChange::Unload, true).await.unwrap();
    let kept = spaces.usage("mine").unwrap();
    let purged = purge().await.unwrap();

    assert_eq!(refused, "module mine is enabled; disable or unload it before its storage is removed");
    assert!(kept.0 >= 1, "unloading keeps it");
    assert_eq!((purged.records, purged.bytes), kept);
    assert_eq!(spaces.usage("mine").unwrap(), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn own_work_runs_from_enable_to_disable_and_moves_over_in_a_replacement() {
    for isolation in [Isolation::InProcess, Isolation::Process] {
        let spaces = Arc::new(MemorySpaces::default());
        let test = host_over(&spaces, |_| {});
        test.modules.start(&[plan("mine", &keeper(), isolation, "")]).unwrap();
        let router = test.modules.router();
        assert_eq!(ticks_beyond(&router, 2).await.0, 1, "begun once");

        test.modules
            .change("mine", ModuleChange::Replace { path: None, settings: None, terms: ModuleTerms::NONE }, true)
            .await
            .unwrap();
        let (begun, count) = ticks(&router).await;
        assert_eq!(ticks_beyond(&router, count + 2).await.0.max(begun), 2, "the new build goes on: {isolation:?}");

        let report = test.modules.change("mine", ModuleChange::Disable, true).await.unwrap();
        assert_eq!((report.abandoned_calls, report.cancelled_calls), (0, 0), "{isolation:?}");
        let stopped_at = spaces.get("mine", &[Bytes::from_static(b"ticks")]).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(spaces.get("mine", &[Bytes::from_static(b"ticks")]).unwrap(), stopped_at, "{isolation:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn own_work_that_panics_is_counted_and_starts_again() {
    for isolation in [Isolation::InProcess, Isolation::Process] {
        let spaces = Arc::new(MemorySpaces::default());
        let test = host_over(&spaces, |_| {});
        test.modules.start(&[plan("mine", &keeper(), isolation, "panics")]).unwrap();

        let (begun, _) = ticks_beyond(&test.modules.router(), 0).await;

        let faults = test.modules.info("mine").unwrap().faults;
        assert_eq!((begun, faults.panics, faults.restarts), (2, 1, 0), "{isolation:?}: {faults:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn own_work_that_fails_starts_again_and_so_does_that_of_a_killed_process() {
    let spaces = Arc::new(MemorySpaces::default());
    let test = host_over(&spaces, |_| {});
    test.modules.start(&[plan("mine", &keeper(), Isolation::Process, "fails")]).unwrap();
    let router = test.modules.router();
    assert_eq!(ticks_beyond(&router, 1).await.0, 3, "twice it failed");

    let before = process_of(&test, "mine").unwrap();
    let killed = std::process::Command::new("kill").args(["-9", &before.to_string()]).status().unwrap();
    assert!(killed.success());
    while process_of(&test, "mine").is_none_or(|now| now == before) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    // Read again, because the killed process may have ticked after the last read.
    let (_, count) = ticks(&router).await;
    assert_eq!(ticks_beyond(&router, count).await.0, 4, "begun again in the new process");
}
