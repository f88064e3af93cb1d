//! This user's nodes that run on this machine, so that `tenon module …` finds one without its data folder.
//!
//! A node that serves a Unix socket writes a file `PID.json` to a folder of this user. The folder is `tenon` in the
//! session's folder ($XDG_RUNTIME_DIR), or else `tenon-UID` in the system's temporary folder. The file of a killed node
//! is removed when nodes are next listed.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

/// Maximum size of a file, in bytes: two paths.
const MAX_FILE: u64 = 16 << 10;
/// Maximum number of files to read.
const MAX_NODES: usize = 256;

/// A running node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningNode {
    /// Its process.
    pub(crate) pid: u32,
    /// Its chain, for display.
    pub(crate) chain: String,
    /// Its data folder, absolute.
    pub(crate) datadir: PathBuf,
    /// Its socket, absolute.
    pub(crate) ipc: PathBuf,
}

/// The file of this process's node, removed on drop.
#[derive(Debug)]
pub(crate) struct Registration(PathBuf);

impl Registration {
    /// Registers the node.
    ///
    /// # Errors
    /// If the folder belongs to another user, or can't be written.
    pub(crate) fn add(node: &RunningNode) -> io::Result<Self> {
        let Some(folder) = folders().into_iter().next() else { return Err(io::ErrorKind::NotFound.into()) };
        Self::add_to(&folder, node)
    }

    fn add_to(folder: &Path, node: &RunningNode) -> io::Result<Self> {
        match fs::DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ if !is_own(folder) => return Err(io::Error::other("the folder is not private to this user")),
            _ => {}
        }
        let path = folder.join(format!("{}.json", node.pid));
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(&serde_json::to_vec(node)?)?;
        Ok(Self(path))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // A file that is left is removed when nodes are next listed.
        let _ = fs::remove_file(&self.0);
    }
}

/// The running nodes, by data folder.
pub(crate) fn list() -> Vec<RunningNode> {
    let mut nodes: Vec<RunningNode> = folders().iter().flat_map(|folder| list_in(folder)).collect();
    nodes.sort_by(|left, right| left.datadir.cmp(&right.datadir));
    nodes
}

/// Folders for the files of running nodes, the preferred one first.
fn folders() -> Vec<PathBuf> {
    let session = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
    let shared = std::env::temp_dir().join(format!("tenon-{}", geteuid().as_raw()));
    session.map(|path| path.join("tenon")).into_iter().chain([shared]).collect()
}

/// Returns whether a folder belongs to this user and only this user can write in it: in a shared temporary folder every
/// user can create one.
fn is_own(folder: &Path) -> bool {
    fs::symlink_metadata(folder)
        .is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0)
}

fn list_in(folder: &Path) -> Vec<RunningNode> {
    if !is_own(folder) {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.take(MAX_NODES).filter_map(|entry| node_if_listening(&entry.ok()?.path())).collect()
}

/// The node of a file, if it accepts connections; removes the file otherwise.
fn node_if_listening(path: &Path) -> Option<RunningNode> {
    let mut text = Vec::new();
    fs::File::open(path).ok()?.take(MAX_FILE).read_to_end(&mut text).ok()?;
    let node: RunningNode = serde_json::from_slice(&text).ok()?;
    match UnixStream::connect(&node.ipc) {
        Ok(_) => Some(node),
        Err(error) => {
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
                let _ = fs::remove_file(path);
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn node(pid: u32, folder: &Path) -> RunningNode {
        RunningNode { pid, chain: "chain 7".to_owned(), datadir: folder.to_owned(), ipc: folder.join("tenon.ipc") }
    }

    #[test]
    fn lists_nodes_that_accept_connections_and_removes_the_others() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, data) = (parent.path().join("tenon-1"), tempfile::tempdir().unwrap());
        let listening = node(1, data.path());
        let _listener = UnixListener::bind(&listening.ipc).unwrap();
        let registration = Registration::add_to(&folder, &listening).unwrap();
        let dead = Registration::add_to(&folder, &node(2, Path::new("/nowhere"))).unwrap();
        fs::write(folder.join("3.json"), "no JSON").unwrap();

        assert_eq!(list_in(&folder), [listening]);
        assert!(!dead.0.exists());
        drop(registration);
        assert_eq!(list_in(&folder), []);
    }

    #[test]
    fn trusts_no_folder_that_other_users_can_write() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("shared");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();

        assert!(Registration::add_to(&folder, &node(1, parent.path())).is_err());
        assert_eq!(list_in(&folder), []);
    }
}
