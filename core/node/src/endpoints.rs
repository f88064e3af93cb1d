//! Where a running node listens: printed, and written to `endpoints.json` in the data folder.

use std::path::PathBuf;

use serde::Serialize;

use crate::data_folder::DataFolder;
use crate::exit::Stop;

const FILE_NAME: &str = "endpoints.json";

/// The endpoints in use; those that are off are left out.
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
}

impl Endpoints {
    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] when it can't be written.
    pub(crate) fn announce(&self, folder: &DataFolder) -> Result<(), Stop> {
        let mut text = serde_json::to_vec_pretty(self).map_err(Stop::failure)?;
        text.push(b'\n');
        folder.write(FILE_NAME, &text)
    }

    /// Removes the file: nobody listens any more.
    pub(crate) fn withdraw(folder: &DataFolder) {
        folder.remove(FILE_NAME);
    }

    /// Name and address of each, for people.
    pub(crate) fn list(&self) -> Vec<(&'static str, String)> {
        let ipc = self.ipc.as_ref().map(|path| path.display().to_string());
        [("HTTP", self.http.clone()), ("WebSocket", self.ws.clone()), ("Unix socket", ipc)]
            .into_iter()
            .filter_map(|(name, address)| Some((name, address?)))
            .collect()
    }
}
