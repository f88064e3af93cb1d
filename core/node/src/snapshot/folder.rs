//! Snapshots in a folder.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tenon_api::B256;

use super::new_file::{NEW, with_end, write_named};
use super::parts::{ListedParts, SnapshotRequirements, interrupted};
use crate::backup::{self, DATABASE, FileRecord, GENESIS, Manifest};
use crate::backup_source::{MANIFEST, Source, SourceError};
use crate::bounded_file;
use crate::exit::Stop;
use crate::restoring::make_private;
use crate::synced_files::{self, failed};

/// Marks a snapshot as unfinished.
const UNFINISHED: &str = "snapshot.unfinished";

/// Content of [`UNFINISHED`]: the chain whose parts are in the folder.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Unfinished {
    chain_id: u64,
    genesis_hash: B256,
}

/// Makes a snapshot. Parts of an earlier attempt that are still equal to the database's are kept.
///
/// # Errors
/// As [`super::create`].
pub(super) fn create(database: &Path, genesis: &[u8], target: &Path, mut manifest: Manifest) -> Result<Manifest, Stop> {
    let ours = Unfinished { chain_id: manifest.chain_id, genesis_hash: manifest.genesis_hash };
    claim(target, &ours)?;
    let folder = target.join(DATABASE);
    make_private(&folder)?;
    let names = backup::names(database)?;
    remove_others(&folder, &names)?;
    for name in names {
        let path = format!("{DATABASE}/{name}");
        let (bytes, sha256) = copy_part(&database.join(&name), &target.join(&path))?;
        manifest.files.push(FileRecord { path, bytes, sha256 });
    }
    let copy_of_genesis = target.join(GENESIS);
    write_named(&copy_of_genesis, genesis)?;
    let (bytes, sha256) = synced_files::copy(&copy_of_genesis, None, u64::MAX)?;
    manifest.files.push(FileRecord { path: GENESIS.to_owned(), bytes, sha256 });
    synced_files::sync(&folder)?;
    let list = serde_json::to_vec_pretty(&manifest).map_err(Stop::failure)?;
    write_named(&target.join(MANIFEST), &list)?;
    synced_files::sync(target)?;
    let marker = target.join(UNFINISHED);
    fs::remove_file(&marker).map_err(failed(&marker))?;
    synced_files::sync(target)?;
    Ok(manifest)
}

/// Refuses a folder that is neither empty nor missing nor an unfinished snapshot.
///
/// # Errors
/// As [`super::check_target`].
pub(super) fn check_target(target: &Path) -> Result<(), Stop> {
    if target.join(UNFINISHED).exists() {
        return Ok(());
    }
    if target.join(MANIFEST).exists() {
        return Err(refused(target, "has a complete snapshot"));
    }
    let mut entries = match fs::read_dir(target) {
        Ok(entries) => entries.filter_map(Result::ok),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Err(refused(target, "is a file")),
        Err(error) => return Err(failed(target)(error)),
    };
    // A marker that was being written when the command was killed; nothing else exists then.
    let begun = with_end(Path::new(UNFINISHED), NEW);
    match entries.any(|entry| entry.file_name() != begun.as_os_str()) {
        true => Err(refused(target, "is not empty")),
        false => Ok(()),
    }
}

fn refused(target: &Path, what: &str) -> Stop {
    Stop::Usage(format!("{} {what}; give an empty or new folder", target.display()))
}

/// Claims a folder that is empty, missing, or an unfinished snapshot of the same chain.
fn claim(target: &Path, ours: &Unfinished) -> Result<(), Stop> {
    let marker = target.join(UNFINISHED);
    if marker.exists() {
        let text = bounded_file::manifest(&marker).map_err(failed(&marker))?;
        return match serde_json::from_slice::<Unfinished>(&text) {
            Ok(theirs) if theirs == *ours => {
                // Killed after the list was written: the list is written again.
                let list = target.join(MANIFEST);
                if list.exists() { fs::remove_file(&list).map_err(failed(&list)) } else { Ok(()) }
            }
            _ => Err(refused(target, "has an unfinished snapshot of another chain")),
        };
    }
    check_target(target)?;
    fs::create_dir_all(target).map_err(failed(target))?;
    fs::set_permissions(target, std::os::unix::fs::PermissionsExt::from_mode(0o700)).map_err(failed(target))?;
    write_named(&marker, &serde_json::to_vec(ours).map_err(Stop::failure)?)
}

/// Removes the parts of an earlier attempt that the database no longer has.
fn remove_others(folder: &Path, names: &BTreeSet<String>) -> Result<(), Stop> {
    for entry in fs::read_dir(folder).map_err(failed(folder))? {
        let entry = entry.map_err(failed(folder))?;
        if entry.file_name().to_str().is_none_or(|name| !names.contains(name)) {
            fs::remove_file(entry.path()).map_err(failed(&entry.path()))?;
        }
    }
    Ok(())
}

/// Copies a part, unless an equal one exists.
fn copy_part(from: &Path, to: &Path) -> Result<(u64, B256), Stop> {
    let (length, there) = (fs::metadata(from).map_err(failed(from))?.len(), fs::symlink_metadata(to));
    if let Ok(there) = there {
        if there.is_file() && there.len() == length {
            let (wanted, found) = (synced_files::copy(from, None, u64::MAX)?, synced_files::copy(to, None, length)?);
            if wanted == found {
                return Ok(found);
            }
        }
        fs::remove_file(to).map_err(failed(to))?;
    }
    synced_files::copy(from, Some(to), u64::MAX)
}

/// How to transfer the parts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TransferMode {
    /// Links tables, which are never written again, if possible.
    Link,
    /// Copies. Existing equal files are kept.
    Copy,
}

/// Reads the list and the genesis file, and compares the names of the parts with the list. Writes nothing.
///
/// # Errors
/// As [`super::verify`].
pub(super) fn read(source: Source<'_>) -> Result<ListedParts, Stop> {
    let manifest = Manifest::read(source)?;
    for entry in fs::read_dir(source.path).map_err(failed(source.path))? {
        let name = entry.map_err(failed(source.path))?.file_name();
        if ![DATABASE, GENESIS, MANIFEST].iter().any(|known| name == **known) {
            return Err(source.damaged(&name.to_string_lossy(), "is not in its list"));
        }
    }
    backup::check_names(source, &manifest)?;
    let (genesis_text, genesis) = manifest.genesis(source)?;
    Ok(ListedParts { manifest, genesis_text, genesis })
}

/// Compares every part of the database with the list, and puts it into another folder.
///
/// # Errors
/// As [`super::verify`].
pub(super) fn transfer(
    source: Source<'_>,
    manifest: &Manifest,
    place: &Path,
    mode: TransferMode,
    requirements: &SnapshotRequirements<'_>,
) -> Result<(), SourceError> {
    let names = manifest.files.iter().filter_map(|file| backup::database_file(&file.path)).map(str::to_owned).collect();
    remove_others(place, &names)?;
    for file in &manifest.files {
        if (requirements.is_interrupted)() {
            return Err(interrupted().into());
        }
        let Some(name) = backup::database_file(&file.path) else { continue };
        let (from, to) = (source.path.join(&file.path), place.join(name));
        let is_there = fs::symlink_metadata(&to).is_ok_and(|there| there.is_file() && there.len() == file.bytes);
        if mode == TransferMode::Copy
            && is_there
            && synced_files::copy(&to, None, file.bytes)? == (file.bytes, file.sha256)
        {
            // The source is compared too: a modified snapshot is refused even if a correct part was copied before.
            backup::compare_file(source, file, None)?;
            continue;
        }
        if to.exists() {
            fs::remove_file(&to).map_err(failed(&to))?;
        }
        let is_linked = mode == TransferMode::Link && name.ends_with(".sst") && fs::hard_link(&from, &to).is_ok();
        backup::compare_file(source, file, (!is_linked).then_some(to.as_path()))?;
    }
    Ok(())
}
