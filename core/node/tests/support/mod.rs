//! Runs the real program in tests.

#![allow(dead_code, reason = "every test file uses a part of it")]

use std::future::Future;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::Value;
use tenon_ipc_client::jsonrpsee::core::client::{ClientT as _, Error as CallError, Subscription};
use tenon_ipc_client::jsonrpsee::core::params::ArrayParams;
use tenon_ipc_client::{Client, Error};
use tokio::runtime::{Builder, Runtime};

/// Head of the recorded chain of the public RPC suite.
pub(crate) const HEAD_HASH: &str = "0xd226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7";
/// Its height.
pub(crate) const HEAD_NUMBER: u64 = 54;

/// The program, without the environment's settings.
pub(crate) fn tenon() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenon"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TENON_")) {
        command.env_remove(name);
    }
    command
}

/// Runs the program until it ends.
pub(crate) fn run(arguments: &[&str]) -> Output {
    tenon().args(arguments).output().unwrap()
}

/// Makes a pipe.
pub(crate) fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Runs the program, which must end within a minute: otherwise it is killed, and the test fails.
pub(crate) fn run_in_time(arguments: &[&str]) -> Output {
    let mut child = tenon().args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{arguments:?} did not end in a minute");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

/// Standard output of a run that must succeed.
pub(crate) fn run_well(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Runs `tenon module` against the node of this data folder.
pub(crate) fn module(folder: &str, arguments: &[&str]) -> Output {
    let mut all = vec!["module"];
    all.extend(arguments);
    all.extend(["--datadir", folder]);
    run(&all)
}

/// Standard output of a `tenon module` that must succeed.
pub(crate) fn module_well(folder: &str, arguments: &[&str]) -> String {
    let output = module(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Polls until a value is found. Fails the test after a timeout instead of hanging.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}: did not come in two minutes");
        std::thread::yield_now();
    }
}

/// Standard error of a command that must be refused with this exit code.
pub(crate) fn refused(code: i32, arguments: &[&str]) -> String {
    let output = run(arguments);
    let said = text(&output.stderr).trim().to_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    said
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The recorded chain's bytes, decompressed.
pub(crate) fn recorded_chain() -> Vec<u8> {
    tenon_test_data::unpacked("execution-apis/chain.rlp.gz")
}

/// The plugins that the tests of this crate use. Other built-in plugins are next to the program if they were built.
pub(crate) const PLUGINS: [&str; 5] = ["eth", "net", "web3", "rpc", "admin"];

/// Builds the plugins, unless they are there already, and returns a folder with only these. It is in cargo's folder for
/// test files, so that every run uses the same one: a temporary folder would not be removed at the end of a process.
pub(crate) fn plugin_folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let built = build(&PLUGINS.map(|name| format!("tenon-plugin-{name}")));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("node-plugins");
        std::fs::create_dir_all(&folder).unwrap();
        for name in PLUGINS {
            let library = format!("libtenon_plugin_{name}.so");
            put(&built.join(&library), &folder.join(&library));
        }
        folder
    })
}

/// Builds packages, and returns the folder of their libraries, which is the program's. With `TENON_WORKSPACE_BUILT` they
/// are there already: cargo would choose other features for these packages alone, and compile their dependencies again.
pub(crate) fn build(packages: &[String]) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_tenon")).parent().unwrap().to_owned();
    if std::env::var_os("TENON_WORKSPACE_BUILT").is_some() {
        return built;
    }
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.arg("build").arg("--target-dir").arg(built.parent().unwrap());
    if built.ends_with("release") {
        command.arg("--release");
    }
    for package in packages {
        command.arg("-p").arg(package);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{packages:?} do not build: {}", text(&output.stderr));
    list_built_in_plugins(&built);
    built
}

/// Lists the plugins next to the program as its own, as the build of a release does.
fn list_built_in_plugins(built: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/list-plugins.sh");
    let output = Command::new(script).arg(built).output().unwrap();
    assert!(output.status.success(), "plugins are not listed: {}", text(&output.stderr));
}

/// Copies a file atomically, unless it already exists: tests of another process may be using the folder.
fn put(from: &Path, to: &Path) {
    let content = std::fs::read(from).unwrap();
    if std::fs::read(to).is_ok_and(|there| there == content) {
        return;
    }
    let unfinished = to.with_extension(std::process::id().to_string());
    std::fs::write(&unfinished, content).unwrap();
    std::fs::rename(&unfinished, to).unwrap();
}

/// A running node, stopped on drop.
pub(crate) struct RunningNode {
    pub(crate) child: Child,
    pub(crate) banner: Vec<String>,
    pub(crate) http: String,
    pub(crate) socket: PathBuf,
}

impl RunningNode {
    /// Starts `tenon dev` on a free port and waits until it listens.
    pub(crate) fn start_dev(arguments: &[&str]) -> Self {
        let mut command = tenon();
        command.args(["dev", "--port", "0", "--plugins"]).arg(plugin_folder()).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut banner = Vec::new();
        let mut endpoints = (None, None);
        while endpoints.0.is_none() || endpoints.1.is_none() {
            let Some(line) = lines.next() else {
                let mut errors = String::new();
                child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
                panic!("the node did not start: {errors}");
            };
            let line = line.unwrap();
            if let Some(address) = line.strip_prefix("HTTP ") {
                endpoints.0 = Some(address.trim().trim_start_matches("http://").to_owned());
            }
            if let Some(path) = line.strip_prefix("Unix socket ") {
                endpoints.1 = Some(PathBuf::from(path.trim()));
            }
            banner.push(line);
        }
        Self { child, banner, http: endpoints.0.unwrap(), socket: endpoints.1.unwrap() }
    }

    /// Sends a request over the Unix socket.
    pub(crate) fn ask_socket(&self, request: &str) -> String {
        Self::ask(&self.socket, request)
    }

    /// Sends a request over the Unix socket of any node.
    pub(crate) fn ask(socket: &Path, request: &str) -> String {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer
    }

    /// Connects to the Unix socket.
    pub(crate) fn client(&self) -> BlockingClient {
        BlockingClient::connect(&self.socket)
    }

    /// Calls any method over the Unix socket, which must succeed.
    pub(crate) fn call_method(&self, method: &str, params: Value) -> Value {
        self.client().call_method(method, &params).unwrap_or_else(|error| panic!("{method} {params}: {error}"))
    }

    /// Sends a request over HTTP and returns the body.
    pub(crate) fn ask_http(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        let head = format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            request.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
    }

    /// Sends a signal and returns the exit code.
    pub(crate) fn signal(mut self, name: &str) -> Option<i32> {
        send_signal(&self.child, name);
        self.child.wait().unwrap().code()
    }
}

/// A client of the Unix socket that waits for its answers.
#[derive(derive_more::Deref)]
pub(crate) struct BlockingClient {
    #[deref]
    client: Client,
    /// Runs the connection, only while an answer is awaited.
    runtime: Runtime,
}

impl BlockingClient {
    pub(crate) fn connect(socket: &Path) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(Client::connect(socket)).unwrap();
        Self { client, runtime }
    }

    /// Waits for the answer to a typed call.
    pub(crate) fn answer<T>(&self, call: impl Future<Output = Result<T, CallError>>) -> Result<T, Error> {
        self.runtime.block_on(self.client.answer(call))
    }

    /// Calls any method with a list of parameters.
    pub(crate) fn call_method(&self, method: &str, params: &Value) -> Result<Value, Error> {
        let mut list = ArrayParams::new();
        params.as_array().unwrap().iter().for_each(|param| list.insert(param).unwrap());
        self.answer(self.client.request(method, list))
    }

    /// Waits for the next item of a subscription.
    pub(crate) fn next_item<T: DeserializeOwned>(&self, subscription: &mut Subscription<T>) -> Result<T, Error> {
        self.runtime.block_on(self.client.next_item(subscription))
    }
}

impl Drop for RunningNode {
    fn drop(&mut self) {
        // Stopped in order, so that an ephemeral folder is removed too; the node itself limits the time of its stop.
        if let Ok(None) = self.child.try_wait() {
            send_signal(&self.child, "TERM");
        }
        let _ = self.child.wait();
    }
}

/// Sends a signal by its name, such as `TERM`.
pub(crate) fn send_signal(child: &Child, name: &str) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status().unwrap();
    assert!(status.success());
}
