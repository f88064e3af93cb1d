//! The command line's client of a running node's Unix socket.

use std::future::Future;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tenon_config::Resolved;
use tenon_ipc_client::jsonrpsee::core::client::{Error as CallError, Subscription};
use tenon_ipc_client::{Client, ClientSettings, Error, SecretParams, SocketError};
use tokio::runtime::{Builder, Runtime};

use crate::exit::Stop;
use crate::running_nodes::{self, RunningNode};

/// Time limit for an answer, in effect none: operators wait for slow operations, and interrupt those that they give up.
const NO_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum length of an answer, bytes. A node with 100,000 accounts answers their list with some 5 MB.
const MAX_ANSWER: usize = 16 << 20;

/// A connection to a running node, or to a signing service. Dereferences to [`Client`] for its calls.
#[derive(derive_more::Deref)]
pub(crate) struct NodeClient {
    #[deref]
    client: Client,
    /// Runs the connection, only while a call is awaited.
    runtime: Runtime,
}

impl NodeClient {
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

    /// Connects to a node.
    ///
    /// # Errors
    /// [`Stop::Failure`] if no node listens on the socket.
    pub(crate) fn connect(path: &Path) -> Result<Self, Stop> {
        let advice = "give the data folder of the node with --datadir, or its socket with --ipcpath";
        Self::open(path, None, |kind| match kind {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => Some("no node listens on it"),
            _ => None,
        })
        .map_err(|problem| Stop::Failure(format!("{problem}; {advice}")))
    }

    /// Connects to a socket.
    ///
    /// # Errors
    /// The path, and why it can't be opened: the text that `reason` returns for this kind of error, or else the
    /// system's.
    pub(crate) fn open(
        path: &Path,
        request_timeout: Option<Duration>,
        reason: impl Fn(ErrorKind) -> Option<&'static str>,
    ) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| failed(&error))?;
        let request_timeout = request_timeout.unwrap_or(NO_TIMEOUT);
        let settings = ClientSettings { request_timeout, max_message_bytes: MAX_ANSWER, ..ClientSettings::default() };
        let connected = runtime.block_on(Client::connect_with(path, settings));
        let client = connected.map_err(|error| match &error {
            SocketError::Connect { source, .. } => match reason(source.kind()) {
                Some(reason) => failed(&reason),
                None => failed(source),
            },
            error => error.to_string(),
        })?;
        Ok(Self { client, runtime })
    }

    /// Waits for the answer to a call.
    ///
    /// # Errors
    /// [`Stop::Failure`] with the node's error, or if the connection ends.
    pub(crate) fn answer<T>(&self, call: impl Future<Output = Result<T, CallError>>) -> Result<T, Stop> {
        self.wait_for(self.client.answer(call))
    }

    /// Calls a method whose parameters contain a secret, and wipes them.
    ///
    /// # Errors
    /// As for [`NodeClient::answer`].
    pub(crate) fn call_with_secret<T: DeserializeOwned>(&self, method: &str, params: SecretParams) -> Result<T, Stop> {
        self.wait_for(self.client.call_with_secret(method, params))
    }

    /// Waits for the next item of a subscription.
    ///
    /// # Errors
    /// [`Stop::Failure`] when the connection or the subscription ends.
    pub(crate) fn next_item<T: DeserializeOwned>(&self, subscription: &mut Subscription<T>) -> Result<T, Stop> {
        self.wait_for(self.client.next_item(subscription))
    }

    fn wait_for<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Stop> {
        self.runtime.block_on(answer).map_err(Stop::failure)
    }
}

fn which_node(nodes: &[RunningNode]) -> String {
    let lines = nodes
        .iter()
        .map(|node| format!("\n  --datadir {}  ({}, process {})", node.datadir.display(), node.chain, node.pid));
    format!("{} nodes run here; choose one:{}", nodes.len(), lines.collect::<String>())
}
