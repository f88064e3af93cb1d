//! Checks a library's file. Loading code is the most dangerous thing that the node does.
//!
//! Invariant: everything is checked on one open descriptor, and the bytes read through it are hashed, copied and
//! loaded. If the path leads to another file meanwhile, that has no effect.

use std::{
    fs::{self, File, Metadata},
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::OFlags,
    process::{getegid, geteuid},
};
use sha2::{Digest, Sha256};

use crate::{HostError, elf};

/// Maximum size of a library. Ours have 5 MB, unstripped 60.
const MAX_BYTES: u64 = 1 << 30;
/// Size of a read: small enough not to displace the processor caches of other work. Hashing it takes a tenth of a
/// millisecond.
pub(crate) const PIECE: usize = 128 * 1024;
/// Write permission of the group, and of others.
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;
/// The infix of this workspace's libraries, after the `lib` prefix.
const OWN_PREFIX: &str = "tenon_plugin_";

/// A folder from which libraries may be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginFolder {
    /// The folder.
    pub path: PathBuf,
    /// Whether to consider only `libtenon_plugin_NAME.so` in it: the program's own folder has other libraries too.
    pub has_only_own_names: bool,
}

impl PluginFolder {
    /// A folder in which every library is considered.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), has_only_own_names: false }
    }
}

/// An opened library file, whose place and owner have been checked.
pub(crate) struct OpenedLibrary {
    path: PathBuf,
    file: File,
    metadata: Metadata,
}

/// Callbacks between the steps of a check. Tests change files and report other owners in them; background operations
/// yield to callers in them.
pub trait Steps {
    /// Owner and permissions of a file or folder.
    fn ownership(&self, metadata: &Metadata) -> Ownership {
        Ownership::of(metadata)
    }

    /// The file has been opened, and nothing has been checked.
    fn opened(&self) {}

    /// Everything has been checked, and nothing has been copied.
    fn checked(&self) {}

    /// A piece of a file has been read and hashed, and more may follow.
    fn piece(&self) {}
}

/// No callbacks: for use when no other work waits.
pub struct NoCallbacks;

impl Steps for NoCallbacks {}

fn failed(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> HostError {
    let path = path.to_owned();
    move |reason| HostError::File { path, action, reason }
}

/// Opens a file for reading. Opening a pipe would otherwise wait for its writer.
pub(crate) fn open_without_waiting(path: &Path) -> std::io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

impl OpenedLibrary {
    /// Opens a library and checks everything but its content on the open descriptor. It must lie directly in one of
    /// `folders`, if any are given.
    ///
    /// # Errors
    /// [`HostError`] naming the problem with the file.
    pub(crate) fn open(path: &Path, folders: Option<&[PluginFolder]>, steps: &impl Steps) -> Result<Self, HostError> {
        let untrusted = |reason: String| HostError::Untrusted { path: path.to_owned(), reason };
        let file = open_without_waiting(path).map_err(failed(path, "cannot open the library"))?;
        steps.opened();
        let metadata = file.metadata().map_err(failed(path, "cannot inspect the library"))?;
        if !metadata.is_file() {
            return Err(untrusted(
                if metadata.is_dir() { "it is a folder" } else { "it is not a regular file" }.to_owned(),
            ));
        }
        if metadata.len() > MAX_BYTES {
            return Err(untrusted(format!("it has {} bytes, more than {MAX_BYTES}", metadata.len())));
        }
        check_owner(steps.ownership(&metadata), "it").map_err(untrusted)?;
        // The real path of the open file.
        let real = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
            .map_err(failed(path, "cannot determine the path of the library"))?;
        let folder = real.parent().unwrap_or(Path::new("/"));
        if let Some(folders) = folders {
            check_folder(&real, folder, folders).map_err(untrusted)?;
        }
        let folder_metadata = fs::metadata(folder).map_err(failed(folder, "cannot inspect the folder"))?;
        check_owner(steps.ownership(&folder_metadata), "its folder").map_err(untrusted)?;
        elf::check(&file, metadata.len()).map_err(|reason| HostError::NotALibrary { path: path.to_owned(), reason })?;
        Ok(Self { path: path.to_owned(), file, metadata })
    }

    /// Its length when it was checked, in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.metadata.len()
    }

    /// Reads the whole file piece by piece, and returns the SHA-256 of the bytes.
    ///
    /// # Errors
    /// [`HostError::Untrusted`] if the file is being written; [`HostError::File`], also for errors of `take`.
    pub(crate) fn read(
        &self,
        steps: &impl Steps,
        mut take: impl FnMut(&[u8]) -> Result<(), HostError>,
    ) -> Result<String, HostError> {
        let mut digest = Sha256::new();
        let (mut piece, mut length) = (vec![0; PIECE], 0);
        loop {
            let count = self.file.read_at(&mut piece, length).map_err(failed(&self.path, "cannot read the library"))?;
            let read = piece.get(..count).unwrap_or_default();
            length += count as u64;
            if read.is_empty() || length > self.metadata.len() {
                break;
            }
            digest.update(read);
            take(read)?;
            steps.piece();
        }
        let after = self.file.metadata().map_err(failed(&self.path, "cannot inspect the library"))?;
        if FileStamp::of(&self.metadata) != FileStamp::of(&after) || length != self.metadata.len() {
            let reason = "it is being written; try again".to_owned();
            return Err(HostError::Untrusted { path: self.path.clone(), reason });
        }
        Ok(hex::encode(digest.finalize()))
    }
}

/// Metadata that changes if a file is replaced or written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp([i64; 4], [u64; 3]);

impl FileStamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        // The time of the last change (ctime) cannot be set.
        Self(
            [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()],
            [metadata.dev(), metadata.ino(), metadata.len()],
        )
    }

    /// Bytes.
    pub(crate) const fn length(&self) -> u64 {
        self.1[2]
    }
}

/// Who owns a file or folder, and who may write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// Permissions.
    pub mode: u32,
    /// Number of the user.
    pub user: u32,
    /// Number of the group.
    pub group: u32,
    /// Whether it is a folder.
    pub is_folder: bool,
}

impl Ownership {
    /// As the system reports them.
    pub fn of(metadata: &Metadata) -> Self {
        Self { mode: metadata.mode(), user: metadata.uid(), group: metadata.gid(), is_folder: metadata.is_dir() }
    }
}

/// Checks that only root and the node's user can write a file or folder.
pub fn check_owner(ownership: Ownership, what: &str) -> Result<(), String> {
    let Ownership { mode, user, group, is_folder } = ownership;
    let (own_user, own_group) = (geteuid().as_raw(), getegid().as_raw());
    if user != 0 && user != own_user {
        return Err(format!(
            "{what} belongs to user {user}, neither to root nor to the user of the node ({own_user}); chown it"
        ));
    }
    let is_sticky_folder = is_folder && mode & 0o1000 != 0;
    if mode & ALL_WRITE != 0 && !is_sticky_folder {
        return Err(format!("{what} is writable by everyone (mode {:o}); chmod o-w", mode & 0o7777));
    }
    if mode & GROUP_WRITES != 0 && group != own_group && !is_sticky_folder {
        return Err(format!("{what} is writable by group {group} (mode {:o}); chmod g-w", mode & 0o7777));
    }
    Ok(())
}

fn check_folder(real: &Path, folder: &Path, folders: &[PluginFolder]) -> Result<(), String> {
    let is_own_name = own_name(real).is_some();
    let is_allowed = |allowed: &PluginFolder| {
        (is_own_name || !allowed.has_only_own_names) && allowed.path.canonicalize().is_ok_and(|path| path == folder)
    };
    if folders.iter().any(is_allowed) {
        return Ok(());
    }
    let names: Vec<_> = folders.iter().map(|folder| folder.path.display().to_string()).collect();
    Err(format!(
        "it is in {}, but libraries are loaded only from {}; copy it there, or give its path in the settings \
         ([plugins.NAME] path)",
        folder.display(),
        if names.is_empty() { "the paths of the settings".to_owned() } else { names.join(", ") }
    ))
}

/// `eth` for `libtenon_plugin_eth.so`.
pub(crate) fn own_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_suffix(".so")?.strip_prefix("lib")?.strip_prefix(OWN_PREFIX)
}

/// The module name of a library: `eth` for `libtenon_plugin_eth.so`, `libeth.so` and `eth.so`.
pub fn library_name(path: &Path) -> Option<&str> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".so")?;
    let stem = stem.strip_prefix("lib").unwrap_or(stem);
    Some(stem.strip_prefix(OWN_PREFIX).unwrap_or(stem))
}

/// Finds a library by name: the first match in the folders.
pub fn find_library(name: &str, folders: &[PluginFolder]) -> Option<PathBuf> {
    folders.iter().find_map(|folder| {
        let own = format!("lib{OWN_PREFIX}{name}.so");
        let others = [format!("lib{name}.so"), format!("{name}.so")];
        let names = std::iter::once(own).chain(others.into_iter().filter(|_| !folder.has_only_own_names));
        names.map(|name| folder.path.join(name)).find(|path| path.exists())
    })
}

/// Libraries in a folder, by name.
///
/// # Errors
/// [`HostError::File`] when the folder cannot be read.
pub fn libraries_in(folder: &PluginFolder) -> Result<Vec<(String, PathBuf)>, HostError> {
    let entries = fs::read_dir(&folder.path).map_err(failed(&folder.path, "cannot read the plugin folder"))?;
    let mut libraries: Vec<_> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| !folder.has_only_own_names || own_name(path).is_some())
        .filter_map(|path| Some((library_name(&path)?.to_owned(), path)))
        .collect();
    libraries.sort();
    Ok(libraries)
}
