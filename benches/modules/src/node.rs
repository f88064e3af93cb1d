//! The node of the run.

use std::{fs, net::SocketAddr, path::PathBuf, process::Stdio, time::Duration};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{Arguments, Error, modules::SUBJECTS};

/// Namespaces for HTTP and WebSocket.
const SERVED: &str = "eth,net,web3,txpool,debug,counter,hello,bad";

/// Time limit for the node's start and stop.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The node's resources at an instant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    pub(crate) replacements: u32,
    /// Private resident memory, KiB.
    pub(crate) memory: u64,
    pub(crate) open_files: usize,
    pub(crate) threads: usize,
}

/// A running node with its folder.
pub(crate) struct Node {
    child: Child,
    folder: TempDir,
    pub(crate) http: SocketAddr,
    pub(crate) websocket: SocketAddr,
    pub(crate) socket: PathBuf,
}

impl Node {
    /// Fills a plugin folder and starts a development network with it.
    pub(crate) async fn start(arguments: &Arguments) -> Result<Self, Error> {
        let folder = tempfile::Builder::new().prefix("tenon-modules-").tempdir()?;
        let plugins = folder.path().join("plugins");
        fs::create_dir(&plugins)?;
        for subject in SUBJECTS {
            let library = arguments.libraries.join(subject.library);
            fs::copy(&library, plugins.join(subject.file))
                .map_err(|error| format!("{}: {error}", library.display()))?;
        }
        let settings = folder.path().join("settings.toml");
        // Foreign plugins run in processes of their own and are granted nothing by default. The build of the counter is
        // vouched for, so it runs in the node's process and hands over its state at full speed.
        let granted = "capabilities = [\"ReadNode\"]\n";
        let counter = Sha256::digest(fs::read(plugins.join("counter.so"))?);
        let trusted: String = counter.iter().map(|byte| format!("{byte:02x}")).collect();
        let content = format!(
            "[plugins]\ntrusted = [\"{trusted}\"]\n[plugins.counter]\nisolation = \"in-process\"\n{granted}[plugins.bad]\n{granted}"
        );
        fs::write(&settings, content)?;
        let data = folder.path().join("data");
        let mut command = Command::new(&arguments.tenon);
        command.args(["dev", "--port", "0", "--verbosity", "1", "--http.api", SERVED, "--ws.api", SERVED]);
        command.arg("--block-time").arg(format!("{}ms", arguments.block_time));
        command.arg("--datadir").arg(&data).arg("--plugins").arg(&plugins).arg("--config").arg(&settings);
        let log = fs::File::create(folder.path().join("log"))?;
        let child = command.stdout(Stdio::null()).stderr(log).kill_on_drop(true).spawn()?;
        let mut node = Self {
            child,
            folder,
            http: ([127, 0, 0, 1], 0).into(),
            websocket: ([127, 0, 0, 1], 0).into(),
            socket: PathBuf::new(),
        };
        let endpoints = node.endpoints(&data.join("endpoints.json")).await?;
        let address = |key: &str| -> Result<SocketAddr, Error> {
            let text = endpoints[key].as_str().unwrap_or_default();
            Ok(text.rsplit('/').next().unwrap_or_default().parse().map_err(|error| format!("{key} {text}: {error}"))?)
        };
        (node.http, node.websocket) = (address("http")?, address("ws")?);
        node.socket = endpoints["ipc"].as_str().unwrap_or_default().into();
        Ok(node)
    }

    async fn endpoints(&mut self, path: &std::path::Path) -> Result<Value, Error> {
        let begun = std::time::Instant::now();
        loop {
            if let Some(endpoints) = fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()) {
                return Ok(endpoints);
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the node ended ({status}):\n{}", self.log()).into());
            }
            if begun.elapsed() > TIMEOUT {
                return Err(format!("the node does not listen:\n{}", self.log()).into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The node's error log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The file of a module's library in the plugin folder.
    pub(crate) fn library(&self, file: &str) -> PathBuf {
        self.folder.path().join("plugins").join(file)
    }

    /// A path for a library outside the plugin folder.
    pub(crate) fn build(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Samples the node's resources.
    pub(crate) fn sample(&self) -> Result<Sample, Error> {
        let process = self.child.id().ok_or("the node has ended")?;
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default()
        };
        Ok(Sample {
            replacements: 0,
            memory: field("RssAnon:"),
            open_files: fs::read_dir(format!("/proc/{process}/fd"))?.count(),
            threads: usize::try_from(field("Threads:"))?,
        })
    }

    /// Stops the node orderly.
    pub(crate) async fn stop(mut self) -> Result<(), Error> {
        let process = self.child.id().and_then(|id| rustix::process::Pid::from_raw(id.try_into().ok()?));
        let process = process.ok_or_else(|| format!("the node has ended:\n{}", self.log()))?;
        rustix::process::kill_process(process, rustix::process::Signal::TERM)?;
        let status = tokio::time::timeout(TIMEOUT, self.child.wait()).await??;
        if status.success() { Ok(()) } else { Err(format!("the node ended with {status}:\n{}", self.log()).into()) }
    }
}
