//! The addresses of a running node: printed, and written to `endpoints.json` in the data folder.

use std::path::PathBuf;

use parking_lot::Mutex;
use serde::Serialize;

use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::front_ends;
use crate::running_nodes::{Registration, RunningNode};

const FILE_NAME: &str = "endpoints.json";

/// The endpoints in use; closed ones are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Endpoints {
    /// The process that listens.
    pub(crate) pid: u32,
    /// `http://127.0.0.1:8545`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) http: Option<String>,
    /// `ws://127.0.0.1:8546`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ws: Option<String>,
    /// The Unix socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ipc: Option<PathBuf>,
    /// `http://127.0.0.1:6060/metrics`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) metrics: Option<String>,
}

impl Endpoints {
    /// Name and address of each, for display.
    pub(crate) fn list(&self) -> Vec<(&'static str, String)> {
        let ipc = self.ipc.as_ref().map(|path| path.display().to_string());
        let (http, ws, metrics) = (self.http.clone(), self.ws.clone(), self.metrics.clone());
        [("HTTP", http), ("WebSocket", ws), ("Unix socket", ipc), ("Metrics", metrics)]
            .into_iter()
            .filter_map(|(name, address)| Some((name, address?)))
            .collect()
    }
}

/// Keeps the file current as endpoints open and close.
#[derive(Debug)]
pub(crate) struct Announcer {
    folder: DataFolder,
    /// Shown in lists of running nodes.
    chain: String,
    /// Nothing awaits under the lock.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    endpoints: Endpoints,
    /// Whether the node's addresses are published.
    is_announced: bool,
    /// Lets commands without a data folder find the node.
    registration: Option<Registration>,
}

impl Announcer {
    /// The announcer of a node that does not listen yet.
    pub(crate) fn new(folder: &DataFolder, chain: String) -> Self {
        let endpoints = Endpoints { pid: std::process::id(), ..Endpoints::default() };
        let state = State { endpoints, is_announced: false, registration: None };
        Self { folder: folder.handle(), chain, state: Mutex::new(state) }
    }

    /// The endpoints in use.
    pub(crate) fn endpoints(&self) -> Endpoints {
        self.state.lock().endpoints.clone()
    }

    /// Records a change, and rewrites the file if it exists.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Endpoints)) {
        let mut state = self.state.lock();
        let before = state.endpoints.list();
        change(&mut state.endpoints);
        if !state.is_announced {
            return;
        }
        // The endpoints opened at the start are shown together.
        for (endpoint, address) in state.endpoints.list().iter().filter(|listed| !before.contains(listed)) {
            tracing::info!(endpoint, address, "front-end listens");
        }
        if let Err(error) = self.write(&state.endpoints) {
            tracing::warn!(%error, "can't update endpoints.json: the file is out of date");
        }
    }

    /// Writes the file atomically: the node now serves.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] if it can't be written.
    pub(crate) fn announce(&self) -> Result<(), Stop> {
        let mut state = self.state.lock();
        self.write(&state.endpoints)?;
        state.is_announced = true;
        if let Some(ipc) = state.endpoints.ipc.clone() {
            let datadir = front_ends::absolute(self.folder.path());
            let node = RunningNode { pid: state.endpoints.pid, chain: self.chain.clone(), datadir, ipc };
            match Registration::add(&node) {
                Ok(registration) => state.registration = Some(registration),
                Err(error) => tracing::debug!(%error, "commands without --datadir do not find this node"),
            }
        }
        Ok(())
    }

    /// Removes the file once the node has stopped listening.
    pub(crate) fn withdraw(&self) {
        let mut state = self.state.lock();
        state.is_announced = false;
        state.registration = None;
        self.folder.remove(FILE_NAME);
    }

    fn write(&self, endpoints: &Endpoints) -> Result<(), Stop> {
        let mut text = serde_json::to_vec_pretty(endpoints).map_err(Stop::failure)?;
        text.push(b'\n');
        self.folder.write(FILE_NAME, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_follows_the_endpoints_from_the_announcement_to_the_end() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join(FILE_NAME);
        let announcer = Announcer::new(&DataFolder::create(parent.path()).unwrap(), "chain 7".to_owned());
        let text = || std::fs::read_to_string(&file).ok();

        announcer.change(|endpoints| endpoints.http = Some("http://127.0.0.1:1".to_owned()));
        assert_eq!(text(), None, "no file before the announcement");
        announcer.announce().unwrap();
        assert!(text().unwrap().contains("\"http\": \"http://127.0.0.1:1\""));
        announcer.change(|endpoints| endpoints.http = None);
        assert!(!text().unwrap().contains("http"));
        announcer.withdraw();
        announcer.change(|endpoints| endpoints.http = Some("late".to_owned()));
        assert_eq!(text(), None);
    }
}
