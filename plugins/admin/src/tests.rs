#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::{Arc, Mutex};

use tenon_sdk::testing::FakeHost;

use super::*;

fn info(name: &str) -> ModuleInfo {
    ModuleInfo {
        name: name.to_owned(),
        state: ModuleState::Enabled,
        reason: None,
        namespace: name.to_owned(),
        version: "1.0".to_owned(),
        plugin: format!("tenon-plugin-{name}"),
        built_with: String::new(),
        path: format!("/plugins/{name}.so"),
        content_hash: "ab".to_owned(),
        isolation: "in-process".to_owned(),
        process: None,
        is_required: false,
        wanted: vec![Capability::ReadChain],
        granted: vec![Capability::ReadChain],
        needs: Vec::new(),
        needed_by: Vec::new(),
        methods: Vec::new(),
        subscriptions: Vec::new(),
        running_calls: 0,
        open_subscriptions: 0,
        kind: ModuleKind::Plugin,
        summary: String::new(),
        fixed: None,
        limits: ModuleLimits::default(),
        faults: ModuleFaults::default(),
        warnings: Vec::new(),
        storage: None,
    }
}

fn report(module: &str) -> ModuleReport {
    ModuleReport {
        module: module.to_owned(),
        operation: ModuleOperation::Load,
        state: ModuleState::Enabled,
        reason: None,
        old: None,
        new: None,
        running_calls: 0,
        cancelled_calls: 0,
        abandoned_calls: 0,
        kept_subscriptions: 0,
        closed_subscriptions: 0,
        drain_micros: 0,
        total_micros: 0,
        is_draining: false,
        dependants: Vec::new(),
    }
}

/// What the host is asked for by a call.
fn asked(method: &str, params: &str) -> (Result<String, Failure>, Vec<ChangeModule>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let host =
        FakeHost::new().answer(|request: GetModule| Ok(info(&request.name))).answer(move |request: ChangeModule| {
            let name = request.name.clone();
            log.lock().unwrap().push(request);
            Ok(report(&name))
        });
    let answer = host.call(&table(), &Arc::new(Admin), method, params);
    let asked = asked.lock().unwrap().clone();
    (answer, asked)
}

#[test]
fn loads_by_name_or_by_path_with_options() {
    let load = |name: &str, path: Option<&str>, settings: Option<&str>, is_enabled| ChangeModule {
        name: name.to_owned(),
        change: ModuleChange::Load { path: path.map(Into::into), settings: settings.map(Into::into), is_enabled },
        waits_for_drain: true,
    };
    let cases = [
        (r#"["eth"]"#, load("eth", None, None, true)),
        (r#"["/x/eth.so"]"#, load("", Some("/x/eth.so"), None, true)),
        (
            r#"["/x/eth.so",{"name":"mine","enabled":false,"settings":{"depth":3}}]"#,
            load("mine", Some("/x/eth.so"), Some(r#"{"depth":3}"#), false),
        ),
    ];
    for (params, wanted) in cases {
        let (answer, asked) = asked("admin_loadModule", params);

        assert!(answer.unwrap().starts_with(r#"{"module":""#), "{params}");
        assert_eq!(asked, [wanted], "{params}");
    }
}

#[test]
fn never_takes_itself_away_and_does_not_wait_for_its_own_end() {
    for method in ["admin_disableModule", "admin_unloadModule"] {
        let (answer, asked) = asked(method, r#"["admin"]"#);

        assert!(answer.unwrap_err().message.starts_with("module admin serves this request"), "{method}");
        assert!(asked.is_empty());
    }
    let waits = |name: &str| asked("admin_replaceModule", &format!("[\"{name}\"]")).1[0].waits_for_drain;
    assert!(!waits("admin") && waits("eth"));
}

#[test]
fn names_what_is_wrong_with_options() {
    let (answer, asked) = asked("admin_replaceModule", r#"["eth",{"pfad":"/x"}]"#);

    assert!(answer.unwrap_err().message.contains("unknown field `pfad`"));
    assert!(asked.is_empty());
}

#[test]
fn shows_a_module_in_the_words_of_json() {
    let host = FakeHost::new().answer(|_: ListModules| Ok(vec![info("eth")]));

    let answer = host.call(&table(), &Arc::new(Admin), "admin_listModules", "[]").unwrap();

    let json: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(json[0]["state"], "enabled");
    assert_eq!(json[0]["contentHash"], "ab");
    assert_eq!(json[0]["granted"][0], "ReadChain");
}
