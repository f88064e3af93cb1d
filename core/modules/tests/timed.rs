//! Plugins that are enabled for a limited time.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::{fs, path::Path, sync::Arc, time::Duration};

use support::{TestModules, rust_plugin};
use tenon_api::messages::{ModuleChange, ModuleState};
use tenon_modules::PluginPlan;

/// A host that keeps its choices in a folder, with one plugin.
fn start(folder: &Path, is_enabled: bool) -> TestModules {
    let test = TestModules::with_options(|options| options.choices_file = Some(folder.join("modules.json")));
    let plan = PluginPlan { is_enabled, ..PluginPlan::new("hello", rust_plugin("tenon-example-hello")) };
    test.modules.start(&[plan]).unwrap();
    test
}

/// The plugin's state, and when it will be disabled.
fn hello(test: &TestModules) -> (ModuleState, Option<u64>) {
    let info = test.modules.info("hello").unwrap();
    (info.state, info.until)
}

async fn change(test: &TestModules, change: ModuleChange) -> Result<(), String> {
    test.modules.change("hello", change, true).await.map(drop).map_err(|error| error.to_string())
}

async fn until_disabled(test: &TestModules) {
    while hello(test).0 != ModuleState::Disabled {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_plugin_is_disabled_when_its_time_is_over_and_stays_disabled() {
    let folder = tempfile::tempdir().unwrap();
    let test = start(folder.path(), false);
    let ending = tokio::spawn(Arc::clone(&test.modules).end_on_time());
    change(&test, ModuleChange::EnableFor { seconds: 1 }).await.unwrap();
    assert!(hello(&test).1.is_some());

    // The plugin is disabled shortly before its end time is cleared.
    until_disabled(&test).await;
    while hello(&test).1.is_some() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    ending.abort();
    test.modules.shutdown(Duration::from_secs(1)).await;
    assert_eq!(hello(&start(folder.path(), false)), (ModuleState::Disabled, None));
}

#[tokio::test]
async fn an_operation_interrupted_by_shutdown_stores_no_choice_for_other_modules() {
    let folder = tempfile::tempdir().unwrap();
    let test = start(folder.path(), true);
    change(&test, ModuleChange::Disable).await.unwrap();
    change(&test, ModuleChange::EnableFor { seconds: 1 }).await.unwrap();
    let ending = tokio::spawn(Arc::clone(&test.modules).end_on_time());

    // The plugin is disabled before the operation has finished.
    until_disabled(&test).await;
    test.modules.shutdown(Duration::from_secs(1)).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    ending.abort();

    let file = fs::read_to_string(folder.path().join("modules.json")).unwrap();
    assert!(!file.contains("unloaded"), "{file}");
    assert_eq!(hello(&start(folder.path(), true)).0, ModuleState::Disabled);
}

#[tokio::test]
async fn the_end_time_survives_a_restart_whether_the_settings_enable_the_plugin_or_not() {
    for is_wanted in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let first = start(folder.path(), is_wanted);
        if is_wanted {
            change(&first, ModuleChange::Disable).await.unwrap();
        }
        change(&first, ModuleChange::EnableFor { seconds: 1000 }).await.unwrap();
        let end = hello(&first).1;
        first.modules.shutdown(Duration::from_secs(1)).await;

        let second = start(folder.path(), is_wanted);
        assert_eq!(hello(&second), (ModuleState::Enabled, end));
        second.modules.shutdown(Duration::from_secs(1)).await;

        // The time ended while the node was off.
        let file = folder.path().join("modules.json");
        let text = fs::read_to_string(&file).unwrap().replace(&end.unwrap().to_string(), "1");
        fs::write(&file, text).unwrap();
        let third = start(folder.path(), is_wanted);
        assert_eq!(hello(&third), (ModuleState::Disabled, None));
        assert_eq!(hello(&start(folder.path(), is_wanted)).0, ModuleState::Disabled);
        // A later change of the settings takes precedence over the stored choice.
        assert_eq!(hello(&start(folder.path(), !is_wanted)).1, None);
    }
}

#[tokio::test]
async fn a_time_limit_can_be_moved_and_removed_but_not_added_to_an_unlimited_module() {
    let folder = tempfile::tempdir().unwrap();
    let test = start(folder.path(), true);

    let refused = change(&test, ModuleChange::EnableFor { seconds: 10 }).await.unwrap_err();
    assert!(refused.contains("is enabled without a time limit; disable it before"), "{refused}");
    change(&test, ModuleChange::Disable).await.unwrap();
    change(&test, ModuleChange::EnableFor { seconds: 10 }).await.unwrap();
    let (_, first) = hello(&test);
    change(&test, ModuleChange::EnableFor { seconds: 5000 }).await.unwrap();
    let (_, second) = hello(&test);
    assert!(second > first);
    change(&test, ModuleChange::Enable).await.unwrap();
    assert_eq!(hello(&test), (ModuleState::Enabled, None));
    for seconds in [0, u64::MAX] {
        assert!(change(&test, ModuleChange::EnableFor { seconds }).await.is_err());
    }
}
