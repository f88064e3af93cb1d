//! Client of a running node's Unix socket.

use std::io::{ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::de::IoRead;
use serde_json::{Deserializer, StreamDeserializer, Value, json};
use tenon_api::SecretText;
use tenon_config::Resolved;
use zeroize::Zeroizing;

use crate::exit::Stop;
use crate::running_nodes::{self, RunningNode};

/// A connection to a running node.
pub(crate) struct SocketClient {
    stream: UnixStream,
    answers: StreamDeserializer<'static, IoRead<UnixStream>, Value>,
    last_id: u64,
}

impl SocketClient {
    /// Connects to the chosen data folder or socket, or else to the running node.
    ///
    /// # Errors
    /// [`Stop::Usage`] naming the nodes if several run; [`Stop::Failure`] if none does.
    pub(crate) fn find(resolved: &Resolved) -> Result<Self, Stop> {
        let settings = &resolved.settings;
        let own = settings.in_data_folder(&settings.ipc.path);
        if resolved.is_chosen("datadir") || resolved.is_chosen("ipc.path") {
            return Self::connect(&own);
        }
        match running_nodes::list().as_slice() {
            [] => Self::connect(&own),
            [node] => Self::connect(&node.ipc),
            nodes => Err(Stop::Usage(which_node(nodes))),
        }
    }

    /// Connects.
    ///
    /// # Errors
    /// [`Stop::Failure`] if no node listens on it.
    pub(crate) fn connect(path: &Path) -> Result<Self, Stop> {
        Self::open(path).map_err(|error| {
            let reason = match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => "no node listens on it".to_owned(),
                _ => error.to_string(),
            };
            Stop::Failure(format!(
                "{}: {reason}; give the data folder of the node with --datadir, or its socket with --ipcpath",
                path.display()
            ))
        })
    }

    /// Connects to a socket.
    ///
    /// # Errors
    /// If nothing listens there.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        let reading = stream.try_clone()?;
        Ok(Self { stream, answers: Deserializer::from_reader(reading).into_iter(), last_id: 0 })
    }

    /// Sets the time limit for an answer.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub(crate) fn limit(&self, timeout: std::time::Duration) -> std::io::Result<()> {
        self.stream.set_read_timeout(Some(timeout))
    }

    /// Calls a method.
    ///
    /// # Errors
    /// [`Stop::Failure`] with the node's error, or if the connection ends.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Result<Value, Stop> {
        self.last_id += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        self.stream.write_all(format!("{request}\n").as_bytes()).map_err(gone)?;
        self.answer()
    }

    /// Waits for the answer to the last request.
    fn answer(&mut self) -> Result<Value, Stop> {
        loop {
            let mut answer = self.next()?;
            if answer["id"] != self.last_id {
                continue;
            }
            if let Some(message) = answer["error"]["message"].as_str() {
                return Err(Stop::Failure(message.to_owned()));
            }
            return Ok(answer["result"].take());
        }
    }

    /// Calls a method whose second parameter is a secret. The text of the request is wiped.
    ///
    /// # Errors
    /// As for [`SocketClient::call`].
    pub(crate) fn call_with_secret(&mut self, method: &str, first: &str, secret: &SecretText) -> Result<(), Stop> {
        self.last_id += 1;
        let quoted = |text: &str| serde_json::to_string(text).map(Zeroizing::new).map_err(Stop::failure);
        let (first, secret) = (quoted(first)?, quoted(secret.expose())?);
        let mut request = Zeroizing::new(String::with_capacity(128 + first.len() + secret.len()));
        let parts =
            [r#"{"jsonrpc":"2.0","id":"#, &self.last_id.to_string(), r#","method":""#, method, r#"","params":["#];
        parts.iter().for_each(|part| request.push_str(part));
        [first.as_str(), ",", &secret, "]}\n"].iter().for_each(|part| request.push_str(part));
        self.stream.write_all(request.as_bytes()).map_err(gone)?;
        self.answer().map(drop)
    }

    /// Waits for the next notification of a subscription.
    ///
    /// # Errors
    /// [`Stop::Failure`] when the connection or the subscription ends.
    pub(crate) fn notification(&mut self) -> Result<Value, Stop> {
        loop {
            let mut message = self.next()?;
            if let Some(reason) = message["params"]["error"]["message"].as_str() {
                return Err(Stop::Failure(reason.to_owned()));
            }
            if message["params"]["subscription"].is_string() {
                return Ok(message["params"]["result"].take());
            }
        }
    }

    fn next(&mut self) -> Result<Value, Stop> {
        match self.answers.next() {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => Err(gone(error)),
            None => Err(Stop::Failure("the node closed the connection".to_owned())),
        }
    }
}

fn which_node(nodes: &[RunningNode]) -> String {
    let lines = nodes
        .iter()
        .map(|node| format!("\n  --datadir {}  ({}, process {})", node.datadir.display(), node.chain, node.pid));
    format!("{} nodes run here; choose one:{}", nodes.len(), lines.collect::<String>())
}

fn gone(error: impl std::fmt::Display) -> Stop {
    Stop::Failure(format!("the connection to the node broke: {error}"))
}
