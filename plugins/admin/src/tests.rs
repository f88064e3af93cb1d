//! Tests of the namespace `admin`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::{Arc, Mutex};

use tenon_sdk::testing::FakeHost;

use super::*;

fn info(name: &str) -> ModuleInfo {
    let library = LibraryDetails {
        namespace: name.to_owned(),
        version: "1.0".to_owned(),
        plugin: format!("tenon-plugin-{name}"),
        content_hash: "ab".to_owned(),
        isolation: Isolation::InProcess,
        trust: Trust::BuiltIn,
        wanted: vec![Capability::ReadChain],
        ..LibraryDetails::default()
    };
    let plugin = PluginDetails {
        path: format!("/plugins/{name}.so"),
        library: Some(library),
        granted: vec![Capability::ReadChain],
        ..PluginDetails::default()
    };
    ModuleInfo { details: ModuleDetails::Plugin(plugin), ..actor(name, None) }
}

fn actor(name: &str, fixed: Option<&str>) -> ModuleInfo {
    ModuleInfo {
        name: name.to_owned(),
        state: ModuleState::Enabled,
        reason: None,
        needs: Vec::new(),
        needed_by: Vec::new(),
        faults: ModuleFaults::default(),
        until: None,
        details: ModuleDetails::Actor(ActorDetails {
            summary: "keeps blocks".to_owned(),
            fixed: fixed.map(str::to_owned),
            health: Some(ActorHealth::Running),
            mailbox: Some(MailboxUse { waiting: 2, capacity: 1024 }),
            address: Some("http://127.0.0.1:8545".to_owned()),
            connections: Some(3),
        }),
    }
}

/// Both kinds have the same members, because clients read them without checking the kind.
#[test]
fn an_actor_is_shown_with_the_members_of_a_plugin() {
    let host = FakeHost::new().answer(|_: ListModules| Ok(vec![info("eth"), actor("storage", Some("it is needed"))]));

    let text = host.call_method(&table(), &Arc::new(Admin), "admin_listModules", "[]").unwrap();

    let shown: Vec<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(&text).unwrap();
    assert_eq!(shown[0].keys().collect::<Vec<_>>(), shown[1].keys().collect::<Vec<_>>());
    let members = |names: [&str; 4], of: usize| names.map(|name| shown[of][name].to_string());
    assert_eq!(
        members(["namespace", "kind", "trust", "isRequired"], 0),
        ["\"eth\"", "\"plugin\"", "\"built-in\"", "false"]
    );
    assert_eq!(
        members(["namespace", "kind", "fixed", "isRequired"], 1),
        ["\"\"", "\"actor\"", "\"it is needed\"", "true"]
    );
    assert_eq!(shown[1]["isolation"], "in-process");
    assert_eq!(members(["health", "mailbox", "address", "connections"], 0), ["null"; 4]);
    assert_eq!(
        members(["health", "mailbox", "address", "connections"], 1),
        ["\"running\"", r#"{"capacity":1024,"waiting":2}"#, "\"http://127.0.0.1:8545\"", "3"]
    );
}

fn report(module: &str) -> ModuleReport {
    ModuleReport::new(module, ModuleOperation::Load, ModuleState::Enabled)
}

/// The requests that a call sends to the host.
fn asked(method: &str, params: &str) -> (Result<String, Failure>, Vec<ChangeModule>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let host =
        FakeHost::new().answer(|request: GetModule| Ok(info(&request.name))).answer(move |request: ChangeModule| {
            let name = request.name.clone();
            log.lock().unwrap().push(request);
            Ok(report(&name))
        });
    let answer = host.call_method(&table(), &Arc::new(Admin), method, params);
    let asked = asked.lock().unwrap().clone();
    (answer, asked)
}

#[test]
fn loads_by_name_or_by_path_with_options() {
    let load = |name: &str, path: Option<&str>, settings: Option<&str>, is_enabled, terms| {
        let (path, settings) = (path.map(Into::into), settings.map(Into::into));
        let change = ModuleChange::Load { path, settings, is_enabled, terms };
        ChangeModule { name: name.to_owned(), change, waits_for_drain: true }
    };
    let none = ModuleTerms::default;
    let granted = ModuleTerms { grant: Some(vec![Capability::ReadChain, Capability::Sign]), is_vouched_for: true };
    let cases = [
        (r#"["eth"]"#, load("eth", None, None, true, none())),
        (r#"["/x/eth.so"]"#, load("", Some("/x/eth.so"), None, true, none())),
        (
            r#"["/x/eth.so",{"grant":["Sign","ReadChain"],"trust":true}]"#,
            load("", Some("/x/eth.so"), None, true, granted),
        ),
        (
            r#"["/x/eth.so",{"name":"mine","enabled":false,"settings":{"depth":3}}]"#,
            load("mine", Some("/x/eth.so"), Some(r#"{"depth":3}"#), false, none()),
        ),
    ];
    for (params, wanted) in cases {
        let (answer, asked) = asked("admin_loadModule", params);

        assert!(answer.unwrap().starts_with(r#"{"module":""#), "{params}");
        assert_eq!(asked, [wanted], "{params}");
    }
}

#[test]
fn never_removes_itself_and_does_not_wait_for_its_own_end() {
    for method in ["admin_disableModule", "admin_unloadModule"] {
        let (answer, asked) = asked(method, r#"["admin"]"#);

        assert!(answer.unwrap_err().message.starts_with("module admin serves this request"), "{method}");
        assert!(asked.is_empty());
    }
    let waits = |name: &str| asked("admin_replaceModule", &format!("[\"{name}\"]")).1[0].waits_for_drain;
    assert!(!waits("admin") && waits("eth"));
}

#[test]
fn enables_for_a_limited_time_only_if_it_is_given() {
    let change = |params: &str| asked("admin_enableModule", params).1[0].change.clone();

    assert_eq!(change(r#"["debug"]"#), ModuleChange::Enable);
    assert_eq!(change(r#"["debug",{}]"#), ModuleChange::Enable);
    assert_eq!(change(r#"["debug",{"seconds":600}]"#), ModuleChange::EnableFor { seconds: 600 });
}

#[test]
fn sets_the_exposure_of_a_front_end_and_resets_it() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let host = FakeHost::new().answer(move |request: SetExposure| {
        log.lock().unwrap().push(request);
        let (open, with_token) = (vec!["eth".to_owned()], vec!["eth".to_owned()]);
        Ok(ExposureReport { is_open: true, open, with_token, denied_methods: Vec::new(), until: Some(9) })
    });
    let call = |params: &str| host.call_method(&table(), &Arc::new(Admin), "admin_setExposure", params);

    let answer = call(r#"["http",{"deniedMethods":["eth_sign*"],"seconds":60}]"#).unwrap();
    call(r#"["websocket"]"#).unwrap();
    let wrong = [call(r#"["ipc"]"#), call(r#"["http",{"denied":[]}]"#)];

    let expected = r#"{"isOpen":true,"open":["eth"],"withToken":["eth"],"deniedMethods":[],"until":9}"#;
    assert_eq!(answer, expected);
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 2);
    assert_eq!((asked[0].front_end, asked[0].seconds, asked[0].is_reset), (FrontEnd::Http, Some(60), false));
    assert_eq!(asked[0].denied_methods.as_deref(), Some(&["eth_sign*".to_owned()][..]));
    assert_eq!((asked[1].front_end, asked[1].is_reset), (FrontEnd::WebSocket, true));
    assert!(wrong.iter().all(Result::is_err), "{wrong:?}");
}

#[test]
fn names_the_wrong_member_of_the_options() {
    let (answer, asked) = asked("admin_replaceModule", r#"["eth",{"pfad":"/x"}]"#);

    assert!(answer.unwrap_err().message.contains("unknown field `pfad`"));
    assert!(asked.is_empty());

    let (answer, asked) = self::asked("admin_loadModule", r#"["/x/eth.so",{"grant":["Fly"]}]"#);

    assert!(answer.unwrap_err().message.starts_with("options.grant: there is no capability `Fly`; there are: "));
    assert!(asked.is_empty());
}

#[test]
fn reloads_the_settings_without_waiting_for_itself_and_reports_in_json() {
    let host = FakeHost::new().answer(|request: ReloadSettings| {
        let failures = vec![ModuleFailure { module: request.asked_by.unwrap_or_default(), reason: "no".to_owned() }];
        let change = ChangedSetting { key: "http.port".to_owned(), running: None, wanted: Some("1".to_owned()) };
        Ok(SettingsReport {
            modules: vec![report("eth")],
            failures,
            needs_restart: vec![change.clone()],
            changed: vec![change],
        })
    });

    let answer = host.call_method(&table(), &Arc::new(Admin), "admin_reloadSettings", "[]").unwrap();

    let json: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((&json["modules"][0]["module"], &json["failures"][0]["module"]), (&"eth".into(), &"admin".into()));
    assert_eq!(json["needsRestart"][0]["key"], "http.port");
    assert_eq!(json["changed"][0]["key"], "http.port");
}

#[test]
fn shows_a_module_in_json() {
    let host = FakeHost::new().answer(|_: ListModules| Ok(vec![info("eth")]));

    let answer = host.call_method(&table(), &Arc::new(Admin), "admin_listModules", "[]").unwrap();

    let json: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(json[0]["state"], "enabled");
    assert_eq!(json[0]["contentHash"], "ab");
    assert_eq!(json[0]["granted"][0], "ReadChain");
}

/// The start requests that a call sends to the node.
fn asked_to_start(method: &str, params: &str) -> (Result<String, Failure>, Vec<StartFrontEnd>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let host = FakeHost::new().answer(move |request: StartFrontEnd| {
        log.lock().unwrap().push(request);
        Ok(())
    });
    let answer = host.call_method(&table(), &Arc::new(Admin), method, params);
    let asked = asked.lock().unwrap().clone();
    (answer, asked)
}

#[test]
fn opens_front_ends_with_the_given_values_and_the_settings_for_the_rest() {
    let names = |text: &str| Some(text.split(',').map(str::to_owned).collect::<Vec<_>>());
    let bare = |front_end| StartFrontEnd {
        front_end,
        host: None,
        port: None,
        origins: None,
        namespaces: None,
        virtual_hosts: None,
    };
    let full = StartFrontEnd {
        host: Some("127.0.0.1".to_owned()),
        port: Some(8547),
        origins: names("https://a.example,https://b.example"),
        namespaces: names("eth,debug"),
        virtual_hosts: Some(Vec::new()),
        ..bare(FrontEnd::Http)
    };
    let cases = [
        ("admin_startRPC", "[]", bare(FrontEnd::Http)),
        ("admin_startRPC", "[null,null,null]", bare(FrontEnd::Http)),
        ("admin_startRPC", r#"["127.0.0.1",8547,"https://a.example, https://b.example","eth, debug",""]"#, full),
        (
            "admin_startWS",
            r#"["::1",0]"#,
            StartFrontEnd { host: Some("::1".to_owned()), port: Some(0), ..bare(FrontEnd::WebSocket) },
        ),
    ];
    for (method, params, wanted) in cases {
        let (answer, asked) = asked_to_start(method, params);

        assert_eq!((answer, asked), (Ok("true".to_owned()), vec![wanted]), "{method} {params}");
    }
    for (method, params) in [("admin_startWS", r#"["::1",70000]"#), ("admin_startWS", r#"["::1",1,"","","x"]"#)] {
        let (answer, asked) = asked_to_start(method, params);

        assert!(answer.is_err() && asked.is_empty(), "{method} {params}: {answer:?}");
    }
}

#[test]
fn closing_is_true_if_something_was_open_and_never_waits_for_itself() {
    for (method, module) in [("admin_stopRPC", "http"), ("admin_stopWS", "websocket")] {
        let (answer, asked) = asked(method, "[]");

        let stop = ChangeModule { name: module.to_owned(), change: ModuleChange::Disable, waits_for_drain: false };
        assert_eq!((answer, asked), (Ok("true".to_owned()), vec![stop]), "{method}");
    }
    let disabled = |request: GetModule| Ok(ModuleInfo { state: ModuleState::Disabled, ..info(&request.name) });
    let host = FakeHost::new().answer(disabled);
    assert_eq!(host.call_method(&table(), &Arc::new(Admin), "admin_stopWS", "[]"), Ok("false".to_owned()));
}

#[test]
fn exports_the_given_blocks() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let host = FakeHost::new().answer(move |request: ExportChain| {
        log.lock().unwrap().push((request.path, request.first, request.last));
        Ok(())
    });

    for params in [r#"["chain.rlp.gz"]"#, r#"["part.rlp",3,9]"#] {
        assert_eq!(host.call_method(&table(), &Arc::new(Admin), "admin_exportChain", params), Ok("true".to_owned()));
    }

    let whole = ("chain.rlp.gz".to_owned(), None, None);
    let part = ("part.rlp".to_owned(), Some(BlockNumber(3)), Some(BlockNumber(9)));
    assert_eq!(*asked.lock().unwrap(), [whole, part]);
}

#[test]
fn returns_the_folder_of_a_checkpoint() {
    let host = FakeHost::new().answer(|_: MakeCheckpoint| Ok("/data/checkpoint".to_owned()));

    let answer = host.call_method(&table(), &Arc::new(Admin), "admin_makeCheckpoint", "[]");

    assert_eq!(answer, Ok(r#""/data/checkpoint""#.to_owned()));
}

#[test]
fn peers_are_shown_as_the_reference_shows_them() {
    let host = FakeHost::new().answer(|_: ListPeers| {
        let chain = PeerChain {
            version: 100,
            total_difficulty: U256::MAX,
            head: B256::repeat_byte(7),
            number: Some(BlockNumber(6)),
        };
        let met = PeerInfo {
            id: "ab".repeat(64),
            name: "XDC/v2.7.0".to_owned(),
            capabilities: vec!["eth/63".to_owned(), "eth/100".to_owned()],
            local_address: "10.0.0.1:30303".to_owned(),
            remote_address: "10.0.0.2:50001".to_owned(),
            is_inbound: true,
            is_trusted: false,
            is_static: true,
            connections: 2,
            chain: Some(chain),
        };
        Ok(vec![met.clone(), PeerInfo { chain: None, ..met }])
    });

    let answer = host.call_method(&table(), &Arc::new(Admin), "admin_peers", "[]").unwrap();

    let network = r#""network":{"localAddress":"10.0.0.1:30303","remoteAddress":"10.0.0.2:50001","inbound":true,"trusted":false,"static":true}"#;
    let (id, head) = ("ab".repeat(64), "07".repeat(32));
    let peer = format!(r#"{{"id":"{id}","name":"XDC/v2.7.0","caps":["eth/63","eth/100"],{network},"protocols""#);
    let eth = format!(r#"{{"version":100,"difficulty":{},"head":"0x{head}"}}"#, U256::MAX);
    assert_eq!(answer, format!(r#"[{peer}:{{"eth":{eth}}}}},{peer}:{{"eth":"handshake"}}}}]"#));
}

#[test]
fn peers_are_changed_by_the_network_and_its_answer_is_returned() {
    let host = FakeHost::new().answer(|request: ChangePeer| match request.change {
        PeerChange::Add | PeerChange::Trust => Ok(request.url == "enode://7"),
        PeerChange::Remove | PeerChange::Distrust => Err(Failure::server("invalid enode: incomplete")),
    });
    let told = |method: &str, params: &str| host.call_method(&table(), &Arc::new(Admin), method, params);
    for method in ["admin_addPeer", "admin_addTrustedPeer"] {
        assert_eq!(told(method, r#"["enode://7"]"#), Ok("true".to_owned()));
    }
    for method in ["admin_removePeer", "admin_removeTrustedPeer"] {
        assert_eq!(told(method, r#"["enode://7"]"#).unwrap_err().message, "invalid enode: incomplete");
        assert_eq!(told(method, "[]").unwrap_err().message, "missing value for required argument 0");
    }
}
