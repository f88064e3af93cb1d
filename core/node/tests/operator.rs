//! Texts for operators: refusals, hints, the first lines of a start, `GET /health`.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use support::{RunningNode, module_well, plugin_folder, refused, run, send_signal, tenon, text, until};

/// A `tenon run` on free ports that has logged that it serves, and the lines of its log up to that one.
struct Served {
    child: Child,
    lines: Vec<String>,
    /// The rest of the log is read so that the node never blocks on it.
    rest: BufReader<std::process::ChildStderr>,
}

impl Served {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::start_with(tenon(), folder, arguments)
    }

    fn start_with(mut command: Command, folder: &Path, arguments: &[&str]) -> Self {
        command.args(["run", "--http.port", "0", "--ws.port", "0", "--plugins"]).arg(plugin_folder());
        command.arg("--datadir").arg(folder).args(arguments);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut rest = BufReader::new(child.stderr.take().unwrap());
        let mut lines = Vec::new();
        while !lines.last().is_some_and(|line: &String| line.contains(" serving ")) {
            let mut line = String::new();
            assert!(rest.read_line(&mut line).unwrap() > 0, "the node did not start: {lines:?}");
            lines.push(line);
        }
        Self { child, lines, rest }
    }

    fn health(&self, folder: &Path) -> (u16, Value) {
        let endpoints: Value = serde_json::from_slice(&std::fs::read(folder.join("endpoints.json")).unwrap()).unwrap();
        health(endpoints["http"].as_str().unwrap().trim_start_matches("http://"))
    }

    fn stop(mut self) -> String {
        send_signal(&self.child, "TERM");
        let mut rest = String::new();
        self.rest.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

/// Status and body of `GET /health`.
fn health(address: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

#[test]
fn a_public_network_without_peers_is_unhealthy_and_the_first_lines_describe_the_node() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");

    let node = Served::start(&folder, &["--network", "mainnet"]);
    let (status, health) = node.health(&folder);
    let syncing = RunningNode::ask(&folder.join("tenon.ipc"), r#"{"jsonrpc":"2.0","id":1,"method":"eth_syncing"}"#);
    let lines = node.lines.clone();
    node.stop();

    let first = &lines[0];
    assert!(first.contains("INFO Tenon starts version=\"0.1.0 ("), "{first}");
    let rest = format!("mode=\"archive\" datadir={}", folder.display());
    assert!(first.contains("chain=\"mainnet (50)\" head=0 head_age=\"") && first.contains(&rest), "{first}");
    let want = lines.iter().find(|line| line.contains("does not follow the network")).unwrap();
    assert!(want.contains("WARN") && want.contains("it is off (--p2p turns it on), and the head is old"), "{want}");
    let serving = lines.last().unwrap();
    assert!(serving.contains("http=http://127.0.0.1:") && serving.contains("metrics=off"), "{serving}");
    let named = lines.iter().filter(|line| line.contains("http://127.0.0.1:")).count();
    assert_eq!(named, 1, "endpoints are said once: {lines:?}");
    assert_eq!((status, &health["healthy"]), (503, &json!(false)));
    assert_eq!((&health["head"]["state"], &health["head"]["number"]), (&json!("old"), &json!(0)));
    assert_eq!(health["head"]["maxAge"], 60);
    assert_eq!(health["peers"], json!({ "state": "ok", "count": 0, "least": 0 }));
    assert_eq!((&health["database"]["state"], &health["actors"]["state"]), (&json!("ok"), &json!("ok")));
    assert!(syncing.contains(r#""currentBlock":"0x0","highestBlock":"0x0""#), "{syncing}");
}

#[test]
fn thresholds_of_health_are_settings() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");

    let lenient =
        Served::start(&folder, &["--network", "mainnet", "--health.head-age", "0s", "--health.disk-free", "0"]);
    assert_eq!(lenient.health(&folder).0, 200);
    lenient.stop();
    let strict = Served::start(
        &folder,
        &["--health.head-age", "0s", "--health.peers", "1", "--health.disk-free", "999999999GiB"],
    );
    let (status, health) = strict.health(&folder);
    strict.stop();

    assert_eq!(status, 503);
    assert_eq!((&health["peers"]["state"], &health["disk"]["state"]), (&json!("few"), &json!("low")));
}

#[test]
fn a_development_network_is_healthy_and_its_log_describes_transactions() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    let mut node = RunningNode::start_dev(&["--datadir", folder.to_str().unwrap(), "--health.disk-free", "0"]);
    let mut log = BufReader::new(node.child.stderr.take().unwrap());
    let mut first = String::new();
    log.read_line(&mut first).unwrap();
    assert!(first.contains("Tenon starts") && first.contains("chain=\"chain 31337\" head=0"), "{first}");
    let (status, health) = health(&node.http);
    assert_eq!((status, &health["healthy"], &health["head"]["maxAge"]), (200, &json!(true), &json!(null)));

    let account = r#""from":"0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266""#;
    let send = |fields: &str| {
        let request =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"eth_sendTransaction","params":[{{{account},{fields}}}]}}"#);
        let answer = node.ask_socket(&request);
        assert!(answer.contains("result"), "{answer}");
    };
    send(r#""to":"0x70997970c51812dc3a010c7d01b50e0d17dc79c8","value":"0x1""#);
    send(&format!(r#""gas":"0x100000","data":"{}""#, console_then_revert()));
    let mut lines = Vec::new();
    until("the line of the second transaction", || {
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        lines.push(line.clone());
        line.contains("status=\"failed\"").then_some(())
    });

    let plain = lines.iter().find(|line| line.contains("status=\"ok\"")).unwrap();
    assert!(plain.contains("transaction method=transfer from=0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"), "{plain}");
    assert!(plain.contains("to=0x70997970C51812dc3A010C7d01b50e0d17dc79C8") && plain.contains("gas=21000"), "{plain}");
    let failed = lines.last().unwrap();
    assert!(failed.contains("WARN transaction method=create") && failed.contains("reason=\"no\""), "{failed}");
    assert!(lines.iter().any(|line| line.contains("console.log: hi tx=0x")), "{lines:?}");
}

/// Code of a creation that calls `console.log("hi")` and then reverts with `Error("no")`.
fn console_then_revert() -> String {
    let message = |selector: &str, word: &str| format!("{selector}{:064x}{:064x}{word:0<64}", 32, 2);
    let (said, why) = (message("41304fac", "6869"), message("08c379a0", "6e6f"));
    // CODECOPY the first message to memory 0, STATICCALL the console with it, CODECOPY the second, REVERT with it.
    let length = 0x64;
    let code = |first: usize, second: usize| {
        let copy = |from: usize| format!("60{length:02x}61{from:04x}600039");
        let console = "73000000000000000000636f6e736f6c652e6c6f67";
        let call = format!("6000600060{length:02x}6000{console}5afa50");
        format!("{}{call}{}60{length:02x}6000fd", copy(first), copy(second))
    };
    let own = code(0, 0).len() / 2;
    format!("0x{}{said}{why}", code(own, own + length))
}

#[test]
fn names_the_replacements_of_other_clients_words_in_one_style() {
    for (arguments, wanted) in [
        (
            &["init", "genesis.json"][..],
            "tenon: there is no command `init`: the first start takes the genesis: tenon run --genesis FILE",
        ),
        (&["wallet"], "tenon: there is no command `wallet`: tenon account import FILE"),
        (
            &["attach"],
            "tenon: there is no command `attach`: there is no JavaScript console: `tenon module` administers",
        ),
        (&["console"], "tenon: there is no command `console`: there is no JavaScript console"),
        (&["version"], "tenon: there is no command `version`: tenon --version prints it"),
        (
            &["run", "--syncmode", "full"],
            "tenon: there is no flag `--syncmode`: every block is executed; --gcmode chooses",
        ),
        (&["run", "--v5disc"], "tenon: there is no flag `--v5disc`: --p2p turns the network on"),
        (&["run", "--ethstats=a:b@c"], "tenon: there is no flag `--ethstats`: --metrics serves figures for Prometheus"),
        (
            &["run", "--store-reward"],
            "tenon: there is no flag `--store-reward`: eth_getRewardByHash returns the rewards",
        ),
        (
            &["run", "--XDCx.datadir", "x"],
            "tenon: there is no flag `--XDCx.datadir`: the exchange has no database of its own",
        ),
        (&["--datadir", "x"], "tenon: `--datadir` needs a command before it: write `tenon run --datadir …`"),
        (&["run", "--http.prot", "1"], "tenon: unexpected argument '--http.prot' found"),
        (&["frobnicate"], "tenon: unrecognized subcommand 'frobnicate'"),
    ] {
        let said = refused(2, arguments);
        assert!(said.starts_with(wanted), "{said}");
    }
}

#[test]
fn a_wrong_genesis_names_its_file_and_a_refused_start_leaves_no_folder() {
    let parent = tempfile::tempdir().unwrap();
    let genesis = parent.path().join("genesis.json");
    std::fs::write(&genesis, "{\"config\": 7}").unwrap();
    let (genesis, folder) = (genesis.to_str().unwrap(), parent.path().join("a/b"));
    let datadir = folder.to_str().unwrap();

    let wrong = refused(2, &["run", "--genesis", genesis, "--datadir", datadir]);
    let which = refused(2, &["run", "--datadir", datadir]);
    let import = refused(2, &["import", "--genesis", genesis, "--datadir", datadir, "/dev/null"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let plugins = plugin_folder().to_str().unwrap();
    let busy = refused(1, &["dev", "--port", &port, "--plugins", plugins, "--datadir", datadir]);

    for said in [wrong, import] {
        assert!(said.starts_with(&format!("tenon: genesis file {genesis}: ")), "{said}");
        assert!(said.ends_with(&format!("; `tenon genesis verify {genesis}` checks all of it")), "{said}");
    }
    assert!(which.contains("no chain is chosen"), "{which}");
    assert!(busy.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{busy}");
    assert!(!parent.path().join("a").exists());
}

#[test]
fn absurd_settings_are_refused_with_their_keys_and_the_allowed_values() {
    let long = format!("/tmp/{}.ipc", "x".repeat(120));
    for (arguments, wanted) in [
        (
            &["--http.port", "99999999"][..],
            "tenon: flag --http.port: `http.port`: expected a whole number from 0 to 65535",
        ),
        (&["--cache", "0"], "tenon: flag --cache: `database.cache`: expected 16 to 16777216, found 0"),
        (
            &["--cache", "16000000"],
            "tenon: flag --cache: `database.cache`: expected at most the memory of this machine, ",
        ),
        (&["--rpc.evmtimeout=-1s"], "tenon: flag --rpc.evmtimeout: `rpc.evmtimeout`: expected a duration such as "),
        (
            &["--http.requesttimeout", "18446744073709551615ms"],
            "tenon: flag --http.requesttimeout: `http.requesttimeout`: expected a duration of at most ",
        ),
        (
            &["--rpc.memory", "20MiB"],
            "tenon: flag --rpc.memory: `rpc.memory`: expected at least `ipc.messagelimit` (64MiB)",
        ),
        (&["--ipcpath", &long], &format!("tenon: `ipc.path`: {long} has 129 bytes, but the system allows at most 107")),
        (&["--txpool.journal", "genesis.json"], "tenon: `txpool.journal`: "),
    ] {
        let said = refused(2, &[&["config", "--dev"][..], arguments].concat());
        assert!(said.starts_with(wanted), "{said}");
    }
    let said = refused(2, &["dev", "--port", "0", "--ipcpath", &long]);
    assert!(said.contains("give a shorter path with --ipcpath"), "{said}");
}

/// Polls `/health` until it is as wanted, and returns it.
fn until_health(node: &Served, folder: &Path, what: &str, is_as_wanted: impl Fn(&Value) -> bool) -> Value {
    until(what, || Some(node.health(folder).1).filter(|health| is_as_wanted(health)))
}

#[test]
fn a_built_in_plugin_that_did_not_start_makes_the_node_unhealthy_until_it_is_reloaded() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    std::fs::create_dir(&folder).unwrap();
    let (library, foreign) = (parent.path().join("libtenon_plugin_eth.so"), parent.path().join("aaa.so"));
    let own = plugin_folder().join("libtenon_plugin_net.so");
    std::fs::write(&foreign, [std::fs::read(own).unwrap(), b"another build".to_vec()].concat()).unwrap();
    let text_of = |name: &str, path: &Path| format!("[plugins.{name}]\npath = {:?}\n", path.to_str().unwrap());
    std::fs::write(folder.join("tenon.toml"), text_of("eth", &library) + &text_of("aaa", &foreign)).unwrap();
    let genesis = tenon_test_data::path("execution-apis/genesis.json");

    let node = Served::start(&folder, &["--genesis", genesis.to_str().unwrap()]);
    let (status, health) = node.health(&folder);

    assert_eq!((status, &health["healthy"]), (503, &json!(false)), "{health}");
    assert_eq!(health["plugins"], json!({ "state": "failed", "failed": ["eth"], "othersFailed": ["aaa"] }));
    let log = node.lines.concat();
    assert!(log.contains("module not started module=\"eth\""), "{log}");
    assert!(log.contains("namespace net belongs to a built-in plugin"), "{log}");

    let datadir = folder.to_str().unwrap();
    let again = support::module(datadir, &["reload", "eth"]);
    assert!(
        !again.status.success() && text(&again.stderr).contains("libtenon_plugin_eth.so"),
        "{}",
        text(&again.stderr)
    );
    std::fs::copy(plugin_folder().join("libtenon_plugin_eth.so"), &library).unwrap();
    let done = module_well(datadir, &["reload", "eth"]);
    assert!(done.contains("enabled"), "{done}");
    // A running plugin is replaced by its library, read again.
    module_well(datadir, &["reload", "eth"]);

    let health = until_health(&node, &folder, "health", |health| health["plugins"]["state"] == "ok");
    assert_eq!(health["plugins"]["othersFailed"], json!(["aaa"]));
    node.stop();
}

#[test]
fn a_choice_that_cannot_be_stored_is_reported_and_damaged_choices_prevent_the_start() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    let (datadir, choices) = (folder.to_str().unwrap(), folder.join("modules.json"));
    let genesis = tenon_test_data::path("execution-apis/genesis.json");
    let node = Served::start(&folder, &["--genesis", genesis.to_str().unwrap()]);
    // The next file cannot be written under its name, as on a full disk.
    std::fs::create_dir(folder.join("modules.new")).unwrap();

    for _ in 0..2 {
        let told = support::module(datadir, &["disable", "net"]);
        assert_eq!(told.status.code(), Some(1));
        let said = text(&told.stderr);
        assert!(said.contains("module net: the change is in effect but could not be saved in "), "{said}");
    }
    assert!(module_well(datadir, &["list"]).contains("disabled"));
    std::fs::remove_dir(folder.join("modules.new")).unwrap();
    assert!(module_well(datadir, &["disable", "net"]).contains("net is disabled already"));
    assert!(std::fs::read_to_string(&choices).unwrap().contains("\"net\""));
    node.stop();

    let whole = std::fs::read(&choices).unwrap();
    std::fs::write(&choices, &whole[..whole.len() / 2]).unwrap();
    let plugins = plugin_folder().to_str().unwrap();
    let said = refused(3, &["run", "--http.port", "0", "--ws.port", "0", "--plugins", plugins, "--datadir", datadir]);
    assert!(said.contains(&format!("stored choices about modules, {}: ", choices.display())), "{said}");
    assert!(said.contains("correct the file, or remove it"), "{said}");
    assert_eq!(std::fs::read(&choices).unwrap(), whole[..whole.len() / 2]);
    std::fs::write(&choices, &whole).unwrap();
    let node = Served::start(&folder, &[]);
    assert!(module_well(datadir, &["info", "net"]).contains("disabled"));
    node.stop();
}

#[test]
fn config_fails_where_a_start_would() {
    let parent = tempfile::tempdir().unwrap();
    let genesis = parent.path().join("genesis.json");
    std::fs::write(&genesis, "{}").unwrap();
    let genesis = genesis.to_str().unwrap();
    let empty = parent.path().join("none");
    let empty = empty.to_str().unwrap();
    for (arguments, wanted) in [
        (&["--genesis", genesis][..], "tenon: genesis file "),
        (&["--genesis", "/nowhere.json"], "tenon: flag --genesis: genesis file /nowhere.json: "),
        (&["--genesis", genesis, "--network", "mainnet"], "tenon: `genesis` (flag --genesis) and `network` (mainnet"),
        (&["--network", "mainet"], "tenon: flag --network: unknown network `mainet`; did you mean `mainnet`?"),
        (&["--plugins", "/nowhere"], "tenon: plugin folder /nowhere: "),
        (&["--log.filter", "a=b=c"], "tenon: log.filter: "),
        (&["--network", "mainnet", "--http.proxies", "10.0.0.0/99"], "tenon: http.proxies: "),
        (&["--datadir", empty], "tenon: no chain is chosen, "),
        (&["--dev", "--mnemonic", "no words"], "tenon: dev.mnemonic, dev.mnemonic-file, dev.accounts: "),
        (&["--dev", "--profile", "native", "--chain-id", "7"], "tenon: dev.chain-id (flag --chain-id): "),
    ] {
        let output = run(&[&["config"][..], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stdout).contains("[http]"), "the settings are shown nevertheless");
        let said = text(&output.stderr);
        assert!(said.starts_with(wanted), "{said}");
    }
}

#[test]
fn without_accounts_there_are_no_headings() {
    let node = RunningNode::start_dev(&["--accounts", "0"]);

    let banner = node.banner.join("\n");
    assert!(
        !banner.contains("Accounts") && !banner.contains("Private keys") && banner.contains("Chain id"),
        "{banner}"
    );
}

#[test]
fn commands_without_a_folder_find_the_only_running_node_or_list_all() {
    let session = tempfile::tempdir().unwrap();
    let module = |arguments: &[&str]| {
        let output = tenon()
            .env("XDG_RUNTIME_DIR", session.path())
            .env("TMPDIR", session.path())
            .arg("module")
            .args(arguments)
            .output();
        output.unwrap()
    };
    let start = |name: &str| {
        let folder = session.path().join(name);
        let mut command = tenon();
        command.env("XDG_RUNTIME_DIR", session.path()).env("TMPDIR", session.path());
        let node = Served::start_with(command, &folder, &["--network", "devnet"]);
        (node, folder)
    };

    let (first, folder) = start("first");
    let found = module(&["list"]);
    assert!(found.status.success() && text(&found.stdout).contains("eth "), "{}", text(&found.stderr));
    let (second, other) = start("second");
    let several = module(&["list"]);
    assert_eq!(several.status.code(), Some(2));
    let expected = format!(
        "tenon: 2 nodes run here; choose one:\n  --datadir {}  (devnet (551), process {})\n  --datadir {}  (devnet (551), process {})",
        folder.display(),
        first.child.id(),
        other.display(),
        second.child.id()
    );
    assert_eq!(text(&several.stderr).trim(), expected);
    first.stop();
    assert!(module(&["list"]).status.success(), "one node is still running");
    second.stop();
    assert_eq!(std::fs::read_dir(session.path().join("tenon")).unwrap().count(), 0);
}

#[test]
fn disabling_twice_is_not_an_error_and_refused_loads_name_the_remedy() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    let datadir = folder.to_str().unwrap();
    let _node = RunningNode::start_dev(&["--datadir", datadir]);
    let stray = parent.path().join("libstray.so");
    std::fs::copy(plugin_folder().join("libtenon_plugin_net.so"), &stray).unwrap();

    module_well(datadir, &["disable", "web3"]);
    assert_eq!(module_well(datadir, &["disable", "web3"]), "web3 is disabled already\n");
    let outside = refused(1, &["module", "load", stray.to_str().unwrap(), "--datadir", datadir]);
    let absent = refused(1, &["module", "load", "absent", "--datadir", datadir]);

    let remedy = "copy it there, or give its path in the settings ([plugins.NAME] path)";
    assert!(outside.contains("libraries are loaded only from") && outside.ends_with(remedy), "{outside}");
    assert!(absent.contains("copy it there as libtenon_plugin_absent.so"), "{absent}");
}

#[test]
fn writes_a_log_file_in_addition_to_standard_error() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");

    let node = Served::start(&folder, &["--network", "devnet", "--log.file", "node.log", "--log.rotation", "never"]);
    let lines = node.lines.clone();
    let rest = node.stop();

    let file = std::fs::read_to_string(folder.join("node.log")).unwrap();
    assert!((lines.concat() + &rest).ends_with(&file), "{file}");
    assert!(file.contains(" Tenon starts ") && file.contains(" serving ") && file.contains(" stopped "), "{file}");
    let nowhere = refused(2, &["run", "--datadir", folder.to_str().unwrap(), "--log.file", "/nowhere/node.log"]);
    assert!(
        nowhere.ends_with("log.file /nowhere/node.log: its folder does not exist; make it, or choose another"),
        "{nowhere}"
    );
}

#[test]
fn notifies_a_service_manager_when_it_serves_and_when_it_stops() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let next = |wanted: &str| {
        until(wanted, || {
            let mut message = [0; 1024];
            let length = manager.recv(&mut message).unwrap();
            let message = text(&message[..length]);
            message.contains(wanted).then_some(message)
        })
    };

    let mut command = tenon();
    command.env("NOTIFY_SOCKET", &path);
    let node = Served::start_with(command, &parent.path().join("data"), &["--network", "devnet"]);
    let ready = next("READY=1");
    send_signal(&node.child, "HUP");
    next("RELOADING=1");
    next("READY=1");
    node.stop();

    assert!(ready.contains("STATUS=head 0; not healthy: head old"), "{ready}");
    next("STOPPING=1");
}
