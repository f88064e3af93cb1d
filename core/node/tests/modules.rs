//! Loads, replaces and unloads modules in a running node, over every interface.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use alloy_primitives::{Address, U256};
use alloy_rpc_types_eth::TransactionRequest;
use serde_json::{Value, json};
use support::{
    PLUGINS, RunningNode, module, module_well, plugin_folder, run, run_well, send_signal, tenon, text, until,
};
use tenon_api::messages::{ModuleOperation, ModuleState};
use tenon_ipc_client::{AdminClient as _, AdminSubscriptions as _, EthClient as _, EthSubscriptions as _};

/// A data folder for a node, and its path for the command line.
fn data_folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().to_str().unwrap().to_owned();
    (folder, name)
}

fn states(folder: &str) -> Vec<String> {
    let list: Vec<Value> = serde_json::from_str(&module_well(folder, &["list", "--json"])).unwrap();
    // Built-in plugins that these tests don't use may be next to the program.
    let is_used = |info: &&Value| info["kind"] == "plugin" && PLUGINS.contains(&info["name"].as_str().unwrap());
    let plugins = list.iter().filter(is_used);
    plugins.map(|info| format!("{} {}", info["name"].as_str().unwrap(), info["state"].as_str().unwrap())).collect()
}

/// Repeats a request on one connection until told to stop. Returns the number of results, and the messages of errors.
fn ask_on(
    is_over: &Arc<AtomicBool>,
    mut ask: impl FnMut() -> Result<Value, String> + Send + 'static,
) -> JoinHandle<(usize, Vec<String>)> {
    let is_over = Arc::clone(is_over);
    std::thread::spawn(move || {
        let (mut results, mut errors) = (0, Vec::new());
        while !is_over.load(Ordering::Relaxed) {
            match ask() {
                Ok(Value::Null) => errors.push("no answer".to_owned()),
                Ok(_) => results += 1,
                Err(message) => errors.push(message),
            }
        }
        (results, errors)
    })
}

fn over_socket(node: &RunningNode, method: &'static str) -> impl FnMut() -> Result<Value, String> + Send + 'static {
    let client = node.client();
    move || client.call_method(method, &json!([])).map_err(|error| error.to_string())
}

fn over_http(node: &RunningNode, method: &'static str) -> impl FnMut() -> Result<Value, String> + Send + 'static {
    let mut stream = TcpStream::connect(&node.http).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    move || {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method}).to_string();
        let head = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ";
        stream.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(number) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = number.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        answer["error"]["message"]
            .as_str()
            .map_or_else(|| Ok(answer["result"].clone()), |message| Err(message.to_owned()))
    }
}

#[test]
fn replaces_disables_and_unloads_under_load_without_a_lost_answer_elsewhere() {
    let (_folder, folder) = data_folder();
    let node = RunningNode::start_dev(&["--datadir", &folder]);
    let mut watch = tenon();
    watch.args(["module", "watch", "--json", "--datadir", &folder]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut changes = BufReader::new(watch.stdout.take().unwrap()).lines();
    let is_over = Arc::new(AtomicBool::new(false));
    let replaced = [
        ask_on(&is_over, over_http(&node, "eth_blockNumber")),
        ask_on(&is_over, over_socket(&node, "eth_gasPrice")),
        ask_on(&is_over, over_socket(&node, "eth_chainId")),
    ];
    let untouched =
        [ask_on(&is_over, over_http(&node, "web3_clientVersion")), ask_on(&is_over, over_socket(&node, "rpc_modules"))];
    let switched =
        [ask_on(&is_over, over_http(&node, "net_version")), ask_on(&is_over, over_socket(&node, "net_version"))];

    for _ in 0..5 {
        module_well(&folder, &["replace", "eth"]);
        module_well(&folder, &["disable", "net"]);
        module_well(&folder, &["enable", "net"]);
        module_well(&folder, &["unload", "net"]);
        module_well(&folder, &["load", "net"]);
        module_well(&folder, &["replace", "admin"]);
    }
    is_over.store(true, Ordering::Relaxed);

    for worker in replaced.into_iter().chain(untouched) {
        let (results, errors) = worker.join().unwrap();
        assert!(results > 100 && errors.is_empty(), "{results} results, {errors:?}");
    }
    for worker in switched {
        let (results, errors) = worker.join().unwrap();
        let expected = "the method net_version does not exist/is not available";
        assert!(results > 100 && !errors.is_empty() && errors.iter().all(|error| error == expected), "{errors:?}");
    }
    assert_eq!(states(&folder), ["admin enabled", "eth enabled", "net enabled", "rpc enabled", "web3 enabled"]);
    // The subscription may have started after the first changes.
    let is_told = |line: String| {
        let change: Value = serde_json::from_str(&line).unwrap();
        (change["module"].as_str(), change["operation"].as_str()) == (Some("net"), Some("load"))
    };
    assert!(changes.any(|line| is_told(line.unwrap())));
    send_signal(&watch, "TERM");
    watch.wait().unwrap();
}

#[test]
fn subscribers_notice_no_replacement_and_are_notified_when_their_namespace_is_removed() {
    let (_path, folder) = data_folder();
    let node = RunningNode::start_dev(&["--datadir", &folder]);
    let client = node.client();
    let mut heads = client.answer(client.new_heads()).unwrap();
    let mut changes = client.answer(client.module_changes()).unwrap();

    for name in ["eth", "admin"] {
        module_well(&folder, &["replace", name]);
    }
    let from = client.answer(client.accounts()).unwrap()[0];
    let transfer = TransactionRequest::default().from(from).to(Address::repeat_byte(0x11)).value(U256::ONE);
    client.answer(client.send_transaction(transfer)).unwrap();
    assert_eq!(client.next_item(&mut heads).unwrap().number, 1);
    module_well(&folder, &["disable", "eth"]);

    let told = client.next_item(&mut heads).unwrap_err();
    assert_eq!(told.to_string(), "subscription closed: namespace eth is not available any more");
    let steps = [(); 3].map(|()| client.next_item(&mut changes).unwrap());
    let steps = steps.each_ref().map(|step| (step.module.as_str(), step.operation, step.state));
    let expected = [
        ("eth", ModuleOperation::Replace, ModuleState::Enabled),
        ("admin", ModuleOperation::Replace, ModuleState::Enabled),
        ("eth", ModuleOperation::Disable, ModuleState::Disabled),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn choices_survive_a_restart_and_sighup_applies_changes_of_the_file() {
    let (path, folder) = data_folder();
    let node = RunningNode::start_dev(&["--datadir", &folder]);
    module_well(&folder, &["disable", "net"]);
    assert_eq!(node.signal("TERM"), Some(0));

    let node = RunningNode::start_dev(&["--datadir", &folder]);
    assert_eq!(states(&folder), ["admin enabled", "eth enabled", "net disabled", "rpc enabled", "web3 enabled"]);
    std::fs::write(path.path().join("tenon.toml"), "[plugins.web3]\nenabled = false\n").unwrap();
    send_signal(&node.child, "HUP");
    until("the change", || states(&folder).contains(&"web3 disabled".to_owned()).then_some(()));

    let refused = node.ask_http(r#"{"jsonrpc":"2.0","id":1,"method":"web3_clientVersion"}"#);
    assert!(refused.contains("the method web3_clientVersion does not exist/is not available"), "{refused}");
    assert_eq!(states(&folder), ["admin enabled", "eth enabled", "net disabled", "rpc enabled", "web3 disabled"]);
}

#[test]
fn settings_are_reloaded_by_command_and_by_request_with_a_report_of_changes_failures_and_pending_settings() {
    let (path, folder) = data_folder();
    let node = RunningNode::start_dev(&["--datadir", &folder]);
    let write = |text: &str| std::fs::write(path.path().join("tenon.toml"), text).unwrap();
    let json = || -> Value { serde_json::from_str(&module_well(&folder, &["reload", "--json"])).unwrap() };
    let none = json!({ "modules": [], "failures": [], "changed": [], "needsRestart": [] });
    let over_tcp = node.ask_http(r#"{"jsonrpc":"2.0","id":1,"method":"admin_reloadSettings"}"#);
    assert!(over_tcp.contains("the method admin_reloadSettings does not exist/is not available"), "{over_tcp}");
    assert_eq!(json(), none);

    // The module that serves the request is itself replaced, and still answers.
    write("[plugins.web3]\nenabled = false\n[plugins.admin.settings]\na = 1\n[rpc]\ngascap = 7\n");
    let report = json();
    let changed = |report: &Value| -> Vec<Value> {
        let reports = report["modules"].as_array().unwrap().iter();
        reports.map(|report| json!([report["module"], report["operation"], report["state"]])).collect()
    };
    let expected = [json!(["admin", "replace", "enabled"]), json!(["web3", "disable", "disabled"])];
    assert_eq!(changed(&report), expected, "{report}");
    assert_eq!(report["failures"], json!([]));
    let gas_cap = json!([{ "key": "rpc.gascap", "running": "50000000", "wanted": "7" }]);
    assert_eq!(report["needsRestart"], gas_cap, "{report}");
    // Applied changes are not applied again; settings that need a restart stay pending.
    let again = json();
    assert_eq!((&again["modules"], &again["needsRestart"]), (&json!([]), &gas_cap));

    let broken = path.path().join("broken.so");
    std::fs::write(&broken, "no library").unwrap();
    write(&format!("[plugins.web3]\nenabled = true\n[plugins.broken]\npath = {broken:?}\n"));
    let partly = module(&folder, &["reload"]);
    let (table, errors) = (text(&partly.stdout), text(&partly.stderr));
    assert_eq!(partly.status.code(), Some(1));
    assert!(
        table.contains("web3         enable   enabled") && table.contains("admin        replace  enabled"),
        "{table}"
    );
    assert!(table.contains("broken       not changed") && table.contains("it is a text file"), "{table}");
    assert!(errors.contains("1 of the changes could not be applied"), "{errors}");
    let again = text(&module(&folder, &["reload"]).stdout);
    assert!(again.starts_with("broken       not changed"), "a failed change is retried: {again}");

    write("[plugins.web3]\nenabled = \"perhaps\"\n");
    // The command line reads the same file, so it would fail before sending the request.
    let client = node.client();
    let refused = client.answer(client.reload_settings()).unwrap_err().to_string();
    assert!(refused.contains("no change was applied: ") && refused.contains("tenon.toml"), "{refused}");
    write("");
    assert!(states(&folder).contains(&"web3 enabled".to_owned()));
    assert_eq!(module_well(&folder, &["reload"]), "nothing changed\n");
}

#[test]
fn a_plugin_that_cannot_be_loaded_does_not_prevent_the_others_unless_it_is_required() {
    let (path, folder) = data_folder();
    let broken = path.path().join("broken.so");
    std::fs::write(&broken, "no library").unwrap();
    let file = path.path().join("node.toml");
    let settings = format!("[plugins.absent]\n[plugins.broken]\npath = {broken:?}\n");
    std::fs::write(&file, &settings).unwrap();
    let file = file.to_str().unwrap();

    let node = RunningNode::start_dev(&["--datadir", &folder, "--config", file]);
    let table = module_well(&folder, &["list"]);
    let answer = node.ask_http(r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber"}"#);
    drop(node);
    std::fs::write(file, settings + "required = true\n").unwrap();
    let plugins = plugin_folder().to_str().unwrap();
    let refused = run(&["dev", "--port", "0", "--plugins", plugins, "--datadir", &folder, "--config", file]);

    let row = table.lines().find(|line| line.starts_with("broken ")).unwrap();
    assert_eq!(row.split_whitespace().nth(2), Some("failed"), "{table}");
    assert!(table.contains("not a loadable library: it is a text file"), "{table}");
    let reason = table.lines().find(|line| line.starts_with("absent: ")).unwrap();
    assert!(reason.contains("libtenon_plugin_absent.so: cannot open the library"), "{table}");
    assert!(answer.contains("\"result\":\"0x0\""), "{answer}");
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("broken.so: not a loadable library: it is a text file"));
}

#[test]
fn names_the_problem_and_fails_with_an_exit_code() {
    let (_path, folder) = data_folder();
    let silent = module(&folder, &["list"]);
    assert_eq!(silent.status.code(), Some(1));
    assert!(text(&silent.stderr).contains("no node listens on it; give the data folder of the node with --datadir"));

    let node = RunningNode::start_dev(&["--datadir", &folder]);
    let unknown = module(&folder, &["disable", "nothing"]);
    let own = module(&folder, &["unload", "admin"]);
    let outside = module(&folder, &["load", "/etc/hostname.so"]);
    let usage = module(&folder, &["load", "eth", "--settings", "[1]"]);
    let info = module_well(&folder, &["info", "eth"]);
    let over_tcp = node.ask_http(r#"{"jsonrpc":"2.0","id":1,"method":"admin_listModules"}"#);
    let client = node.client();
    let datadir = client.answer(client.data_folder()).unwrap();

    assert_eq!([&unknown, &own, &outside, &usage].map(|output| output.status.code()), [1, 1, 1, 2].map(Some));
    assert!(text(&unknown.stderr).contains("there is no module \"nothing\"; there are: admin, "));
    assert!(text(&own.stderr).contains("module admin serves this request, and could not be started again"));
    assert!(text(&outside.stderr).contains("/etc/hostname.so: cannot open the library"), "{}", text(&outside.stderr));
    assert!(info.contains("granted     ReadChain, CallEvm") && info.contains("eth_getBalance"), "{info}");
    assert!(over_tcp.contains("the method admin_listModules does not exist/is not available"), "{over_tcp}");
    assert!(datadir.contains(&folder), "{datadir}");
    assert!(run_well(&["module", "--help"]).contains("tenon module replace eth"));
}
