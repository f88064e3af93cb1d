//! The list of keys in a folder: files are read when they are new or have changed, and listing reads a snapshot.

use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use alloy_primitives::Address;
use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::{
    folder::read_bounded,
    key_file::{parse_object, stated_address},
};

/// Maximum number of files that are read in a folder.
pub const MAX_KEY_FILES: usize = 65_536;

/// A key file, by its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    /// The key's address.
    pub address: Address,
    /// Its path.
    pub path: PathBuf,
}

/// Changes between two scans of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyChanges {
    /// New files, or files with another address than before.
    pub arrived: Vec<ListedKey>,
    /// Removed files, or the previous addresses of changed files.
    pub dropped: Vec<ListedKey>,
    /// Files that were written again with the same address.
    pub rewritten: Vec<ListedKey>,
}

impl KeyChanges {
    /// Returns whether nothing changed.
    pub const fn is_empty(&self) -> bool {
        self.arrived.is_empty() && self.dropped.is_empty() && self.rewritten.is_empty()
    }
}

/// The keys of a folder at one instant.
#[derive(Debug, Default)]
pub struct KeySnapshot {
    keys: Vec<ListedKey>,
    addresses: HashSet<Address>,
}

impl KeySnapshot {
    fn of(known: &BTreeMap<PathBuf, KnownFile>) -> Self {
        let keys: Vec<_> = known.iter().filter_map(|(path, file)| listed(path, file)).collect();
        Self { addresses: keys.iter().map(|key| key.address).collect(), keys }
    }

    /// The keys in the order of their paths. Several files may have the same address.
    pub fn keys(&self) -> &[ListedKey] {
        &self.keys
    }

    /// Returns whether a file has this address.
    pub fn has(&self, address: Address) -> bool {
        self.addresses.contains(&address)
    }
}

/// The keys of a folder as of the last scan. Listing takes no lock.
#[derive(Debug)]
pub struct KeyList {
    folder: PathBuf,
    listed: ArcSwap<KeySnapshot>,
    /// The files read so far. Locked during a scan; nothing awaits under it.
    known: Mutex<BTreeMap<PathBuf, KnownFile>>,
}

/// A file's time and size when it was read, and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KnownFile {
    stamp: Stamp,
    address: Option<Address>,
}

/// A file with an unchanged stamp was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl KeyList {
    /// An empty list of a folder, which need not exist.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, listed: ArcSwap::default(), known: Mutex::default() }
    }

    /// The keys as of the last scan.
    pub fn listed(&self) -> Arc<KeySnapshot> {
        self.listed.load_full()
    }

    /// Scans the folder. A missing folder has no keys; if the folder is unreadable, the previous list is kept.
    ///
    /// # Errors
    /// The operating system's error for the folder. A single unreadable file is skipped.
    pub fn scan(&self) -> io::Result<KeyChanges> {
        let mut known = self.known.lock();
        let found = found_files(&self.folder, &known)?;
        let changes = changes(&known, &found);
        *known = found;
        if !changes.is_empty() {
            self.listed.store(Arc::new(KeySnapshot::of(&known)));
        }
        Ok(changes)
    }
}

fn listed(path: &Path, file: &KnownFile) -> Option<ListedKey> {
    file.address.map(|address| ListedKey { address, path: path.to_owned() })
}

fn found_files(folder: &Path, known: &BTreeMap<PathBuf, KnownFile>) -> io::Result<BTreeMap<PathBuf, KnownFile>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries?,
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.as_encoded_bytes();
        // A link is not a regular file here: its target is not read.
        let Some(metadata) = entry.metadata().ok().filter(fs::Metadata::is_file) else { continue };
        if name.starts_with(b".") || name.ends_with(b"~") {
            continue;
        }
        if found.len() == MAX_KEY_FILES {
            break;
        }
        let (path, stamp) = (entry.path(), Stamp::of(&metadata));
        let unchanged = known.get(&path).filter(|file| file.stamp == stamp).copied();
        let file = unchanged.unwrap_or_else(|| KnownFile { stamp, address: address_in(&path) });
        found.insert(path, file);
    }
    Ok(found)
}

/// The address in a file; `None` if it is not a key file.
fn address_in(path: &Path) -> Option<Address> {
    let members = parse_object(&read_bounded(path).ok()?).ok()?;
    stated_address(&members).ok().flatten().filter(|address| !address.is_zero())
}

fn changes(before: &BTreeMap<PathBuf, KnownFile>, after: &BTreeMap<PathBuf, KnownFile>) -> KeyChanges {
    let mut changes = KeyChanges::default();
    for (path, old) in before {
        if after.get(path).is_none_or(|new| new.address != old.address) {
            changes.dropped.extend(listed(path, old));
        }
    }
    for (path, new) in after {
        match before.get(path) {
            Some(old) if old == new => {}
            Some(old) if old.address == new.address => changes.rewritten.extend(listed(path, new)),
            _ => changes.arrived.extend(listed(path, new)),
        }
    }
    changes
}
