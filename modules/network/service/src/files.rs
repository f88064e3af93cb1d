//! The folder of the network: the node key, the nodes that answered, and the bans. A file that cannot be read is
//! ignored with a warning; only the key is required.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use tenon_network_discovery::{KnownNode, MAX_NODE_FILE_BYTES, read_nodes, write_nodes};
use tenon_network_peers::StoredBan;

use crate::ban_file::{MAX_BAN_FILE_BYTES, read_bans, write_bans};

/// The folder.
#[derive(Clone, Debug)]
pub(crate) struct NetworkFolder(PathBuf);

impl NetworkFolder {
    /// Opens a folder; creates it, readable by its owner only, if it is missing.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    /// The node key, unless the settings name another file.
    pub(crate) fn node_key(&self) -> PathBuf {
        self.0.join("nodekey")
    }

    pub(crate) fn nodes(&self, unix_now: u64) -> Vec<KnownNode> {
        read(&self.0.join("nodes"), MAX_NODE_FILE_BYTES).map(|text| read_nodes(&text, unix_now)).unwrap_or_default()
    }

    pub(crate) fn save_nodes(&self, nodes: &[KnownNode]) {
        write(&self.0.join("nodes"), &write_nodes(nodes));
    }

    pub(crate) fn bans(&self, unix_now: u64) -> Vec<StoredBan> {
        read(&self.0.join("bans"), MAX_BAN_FILE_BYTES).map(|text| read_bans(&text, unix_now)).unwrap_or_default()
    }

    pub(crate) fn save_bans(&self, bans: &[StoredBan]) {
        write(&self.0.join("bans"), &write_bans(bans));
    }
}

fn read(path: &Path, max: usize) -> Option<String> {
    // Checked before it is opened, because opening a pipe waits for a writer.
    let is_regular = fs::metadata(path).map(|about| about.is_file());
    let opened = is_regular.and_then(|is_regular| match is_regular {
        true => File::open(path),
        false => Err(io::Error::other("not a regular file")),
    });
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "network file cannot be read; it is ignored");
            return None;
        }
    };
    let mut text = String::new();
    match file.take(max as u64).read_to_string(&mut text) {
        Ok(_) => Some(text),
        Err(error) => {
            tracing::warn!(file = %path.display(), %error, "network file cannot be read; it is ignored");
            None
        }
    }
}

/// Replaces a file atomically: a reader sees the old or the new content.
fn write(path: &Path, text: &str) {
    let next = path.with_extension("new");
    let replace = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&next, path)
    };
    if let Err(error) = replace() {
        tracing::warn!(file = %path.display(), %error, "network file cannot be written");
    }
}

#[cfg(test)]
mod tests {
    use tenon_network_identity::NodeId;

    use super::*;

    #[test]
    fn bans_are_stored_and_an_unreadable_file_counts_as_empty() {
        let root = tempfile::tempdir().unwrap();
        let folder = NetworkFolder::open(root.path().join("network")).unwrap();
        assert_eq!(folder.bans(1000), []);
        let ban = StoredBan { node: Some(NodeId([7; 64])), address: None, until: 2000, length: 600 };
        folder.save_bans(&[ban]);
        assert_eq!(NetworkFolder::open(root.path().join("network")).unwrap().bans(1000), [ban]);
        fs::write(root.path().join("network/bans"), [0xff]).unwrap();
        assert_eq!(folder.bans(1000), []);
        assert_eq!(folder.nodes(1000), []);
    }
}
