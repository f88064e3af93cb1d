//! The most dangerous thing that the node does is loading code. Here a library's file is checked and copied.
//!
//! What must always hold: everything is checked on one open descriptor, and the bytes that were read through it are the
//! ones that are hashed, copied and loaded; so nothing that happens to the path meanwhile matters.

use std::{
    fs::{self, File, Metadata},
    io::{Read, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::OFlags,
    process::{getegid, geteuid},
};
use sha2::{Digest, Sha256};

use crate::{HostError, PluginFolder, elf};

/// The largest library. Ours have 5 MB, unstripped 60.
const MAX_BYTES: u64 = 1 << 30;
/// Write permission of the group, and of everybody.
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;
/// What the libraries of this workspace are called between prefix and name.
const OWN_PREFIX: &str = "tenon_plugin_";

/// A library whose bytes were checked, in a copy that nobody else writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckedLibrary {
    /// The file that was named.
    pub(crate) path: PathBuf,
    /// The copy to load. Its name carries the hash.
    pub(crate) copy: PathBuf,
    /// SHA-256 of the bytes, hex.
    pub(crate) hash: String,
}

impl CheckedLibrary {
    /// Checks a library and copies it into `cache_folder`. It must lie directly in one of `folders`, if there are any.
    ///
    /// # Errors
    /// [`HostError`] naming what is wrong with the file. Nothing has been loaded then.
    pub(crate) fn take(path: &Path, folders: Option<&[PluginFolder]>, cache_folder: &Path) -> Result<Self, HostError> {
        let bytes = read_checked(path, folders)?;
        elf::check(&bytes).map_err(|reason| HostError::NotALibrary { path: path.to_owned(), reason })?;
        let hash = hex::encode(Sha256::digest(&bytes));
        let copy = copy_by_content(path, &bytes, &hash, cache_folder)?;
        Ok(Self { path: path.to_owned(), copy, hash })
    }
}

fn failed(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> HostError {
    let path = path.to_owned();
    move |reason| HostError::File { path, action, reason }
}

fn read_checked(path: &Path, folders: Option<&[PluginFolder]>) -> Result<Vec<u8>, HostError> {
    let untrusted = |reason: String| HostError::Untrusted { path: path.to_owned(), reason };
    // Not blocking: opening a pipe would wait for its writer.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let opened = fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    let mut file = opened.map_err(failed(path, "cannot open the library"))?;
    let before = file.metadata().map_err(failed(path, "cannot look at the library"))?;
    if !before.is_file() {
        return Err(untrusted(if before.is_dir() { "it is a folder" } else { "it is no regular file" }.to_owned()));
    }
    if before.len() > MAX_BYTES {
        return Err(untrusted(format!("it has {} bytes, more than {MAX_BYTES}", before.len())));
    }
    check_owner(&before, "it").map_err(untrusted)?;
    // Where the open file really lies, whatever the path went through.
    let real = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .map_err(failed(path, "cannot find out where the library lies"))?;
    let folder = real.parent().unwrap_or(Path::new("/"));
    if let Some(folders) = folders {
        check_folder(&real, folder, folders).map_err(untrusted)?;
    }
    let folder_facts = fs::metadata(folder).map_err(failed(folder, "cannot look at the folder"))?;
    check_owner(&folder_facts, "its folder").map_err(untrusted)?;
    let mut bytes = Vec::with_capacity(usize::try_from(before.len()).unwrap_or_default());
    (&mut file).take(MAX_BYTES).read_to_end(&mut bytes).map_err(failed(path, "cannot read the library"))?;
    let after = file.metadata().map_err(failed(path, "cannot look at the library"))?;
    let moment = |facts: &Metadata| (facts.len(), facts.mtime(), facts.mtime_nsec());
    if moment(&before) != moment(&after) || bytes.len() as u64 != before.len() {
        return Err(untrusted("it is being written; try again".to_owned()));
    }
    Ok(bytes)
}

/// Only root, and who runs the node, may be able to write what becomes part of the node.
fn check_owner(facts: &Metadata, what: &str) -> Result<(), String> {
    let (mode, owner) = (facts.mode(), facts.uid());
    let (own_user, own_group) = (geteuid().as_raw(), getegid().as_raw());
    if owner != 0 && owner != own_user {
        return Err(format!(
            "{what} belongs to user {owner}, neither to root nor to the user of the node ({own_user})"
        ));
    }
    let is_sticky_folder = facts.is_dir() && mode & 0o1000 != 0;
    if mode & ALL_WRITE != 0 && !is_sticky_folder {
        return Err(format!("{what} can be written by everybody (mode {:o}); chmod o-w", mode & 0o7777));
    }
    if mode & GROUP_WRITES != 0 && facts.gid() != own_group && !is_sticky_folder {
        return Err(format!("{what} can be written by group {} (mode {:o}); chmod g-w", facts.gid(), mode & 0o7777));
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
        "it lies in {}, and libraries are loaded only from {}",
        folder.display(),
        if names.is_empty() { "the paths of the settings".to_owned() } else { names.join(", ") }
    ))
}

/// `eth` for `libtenon_plugin_eth.so`.
pub(crate) fn own_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_suffix(".so")?.strip_prefix("lib")?.strip_prefix(OWN_PREFIX)
}

/// The name by which a library is known: `eth` for `libtenon_plugin_eth.so`, `libeth.so` and `eth.so`.
pub(crate) fn library_name(path: &Path) -> Option<&str> {
    let stem = path.file_name()?.to_str()?.strip_suffix(".so")?;
    let stem = stem.strip_prefix("lib").unwrap_or(stem);
    Some(stem.strip_prefix(OWN_PREFIX).unwrap_or(stem))
}

/// The library of a name in the folders, the first that is there.
pub(crate) fn find(name: &str, folders: &[PluginFolder]) -> Option<PathBuf> {
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

/// Copies bytes to a path that carries their hash. A path that exists with that content is used as it is: the file of a
/// loaded library must never be written (`spec/dependencies.md` 4.3).
fn copy_by_content(path: &Path, bytes: &[u8], hash: &str, cache_folder: &Path) -> Result<PathBuf, HostError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(cache_folder)
        .map_err(failed(cache_folder, "cannot create the folder for loaded libraries"))?;
    let folder = cache_folder.canonicalize().map_err(failed(cache_folder, "cannot find the folder"))?;
    let facts = fs::metadata(&folder).map_err(failed(&folder, "cannot look at the folder"))?;
    check_owner(&facts, "the folder for loaded libraries")
        .map_err(|reason| HostError::Untrusted { path: folder.clone(), reason })?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let target = folder.join(format!("{stem}-{hash}.so"));
    if fs::read(&target).is_ok_and(|present| present == bytes) {
        return Ok(target);
    }
    // Written beside and renamed, so that no other process ever sees half a file under the final name.
    let unfinished = folder.join(format!(".{stem}-{hash}.{}", std::process::id()));
    let write = || {
        let _ = fs::remove_file(&unfinished);
        let mut file: File = fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(&unfinished)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&unfinished, &target)
    };
    write().map_err(failed(&target, "cannot copy the library"))?;
    Ok(target)
}

/// Removes copies that nothing uses any more, or the folder would grow with every build. One of them may still be
/// mapped: its mapping outlives its name.
pub(crate) fn remove_unused(cache_folder: &Path, used: &[PathBuf]) {
    // What cannot be removed does no harm.
    let Ok(folder) = cache_folder.canonicalize() else { return };
    let Ok(entries) = fs::read_dir(&folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| !used.contains(path)) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let hash = name.strip_suffix(".so").and_then(|stem| stem.rsplit_once('-')).map(|(_, hash)| hash);
        if hash.is_some_and(|hash| hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit())) {
            let _ = fs::remove_file(path);
        }
    }
}
