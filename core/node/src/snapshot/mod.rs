//! A snapshot: a backup ([`crate::backup`]) from which other machines start. It is a folder or one compressed file, and
//! an interrupted attempt to make it can be resumed. It is trusted only after its state root was computed again, and
//! its head was compared with the operator's hash or the masternodes' certificate.

mod archive;
mod extraction;
mod folder;
mod gzip_members;
mod hashed;
mod names;
mod new_file;
mod parts;
pub(crate) mod trust;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tenon_api::{B256, ChainReader as _};
use tenon_chain::ChainSpec;
use tenon_storage::Store;

use crate::backup::{self, Manifest};
use crate::backup_source::{Source, SourceError};
use crate::checkpoints;
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::family::family_of;
use crate::restoring::{Restoration, make_empty};
use crate::synced_files::failed;

use self::names::Form;
use self::parts::{ListedParts, interrupted};
use self::trust::Trust;

pub(crate) use self::names::check_new;
pub(crate) use self::parts::SnapshotRequirements;

/// Makes a snapshot of a copy of the database to which nothing else writes. Resumes an attempt that was killed.
///
/// # Errors
/// [`Stop::Usage`] if something else exists there; [`Stop::Failure`] naming the file that cannot be read or written.
pub(crate) fn create(database: &Path, genesis: &[u8], target: &Path) -> Result<Manifest, Stop> {
    let manifest = Manifest::of(database)?;
    if names::is_archive(target) {
        return archive::create(database, genesis, target, manifest);
    }
    folder::create(database, genesis, target, manifest)
}

/// Checks that a snapshot can be written to a place, as far as that is known without the database.
///
/// # Errors
/// [`Stop::Usage`] if something else exists there, [`Stop::Failure`] if it can't be read.
pub(crate) fn check_target(target: &Path) -> Result<(), Stop> {
    if names::is_archive(target) { archive::check_target(target) } else { folder::check_target(target) }
}

/// Checks that there is a snapshot, without its parts.
///
/// # Errors
/// [`Stop::Usage`] if there is none, and those of [`Manifest::read`].
pub(crate) fn check_source(source: &Path) -> Result<(), Stop> {
    match Form::of(source)? {
        Form::File => Ok(()),
        Form::Folder => Manifest::read(Source::snapshot(source)).map(drop),
    }
}

/// A checked snapshot.
pub(crate) struct Checked {
    /// Its list.
    pub(crate) manifest: Manifest,
    /// Why its head is trusted.
    pub(crate) trust: Trust,
    /// Number of accounts and slots from which the state root was computed again; `None` if it was not.
    pub(crate) state: Option<(u64, u64)>,
}

/// Reads every part of a snapshot, computes its state root again from them, and checks its head. Needs a temporary
/// folder next to the snapshot, with links to its tables, or with its parts if it is one file.
///
/// # Errors
/// Those of [`check_source`]; [`Stop::Failure`] naming the problem and its place.
pub(crate) fn verify(source: &Path, requirements: &SnapshotRequirements<'_>) -> Result<Checked, Stop> {
    check_source(source)?;
    let form = Form::of(source)?;
    let opened_in = TemporaryFolder::beside(source)?;
    let source = Source::snapshot(source);
    let parts = match form {
        Form::File => extraction::take(source, &opened_in.path, requirements)?,
        Form::Folder => {
            let parts = folder::read(source)?;
            folder::transfer(source, &parts.manifest, &opened_in.path, folder::TransferMode::Link, requirements)?;
            parts
        }
    };
    let (trust, state) = check(source, &opened_in.path, &parts, requirements)?;
    Ok(Checked { manifest: parts.manifest, trust, state })
}

/// Starts a data folder from a snapshot. If killed at any instant, the folder contains either nothing or everything,
/// and the same command continues.
///
/// # Errors
/// As [`verify`], and those of [`Restoration::begin`].
pub(crate) fn restore(
    source: &Path,
    data: &DataFolder,
    requirements: &SnapshotRequirements<'_>,
) -> Result<Checked, Stop> {
    let form = Form::of(source)?;
    let restoration = Restoration::begin(data)?;
    let source = Source::snapshot(source);
    let (parts, trust, state) = match form {
        Form::File => restore_file(source, &restoration, requirements)?,
        Form::Folder => restore_folder(source, &restoration, requirements)?,
    };
    Ok(Checked { manifest: parts.manifest, trust, state })
}

/// The parts of a restored snapshot, and the results of [`check`].
type Restored = (ListedParts, Trust, Option<(u64, u64)>);

/// Restores a snapshot in one file. A failed attempt leaves nothing: the next one cannot use it.
fn restore_file(
    source: Source<'_>,
    restoration: &Restoration<'_>,
    requirements: &SnapshotRequirements<'_>,
) -> Result<Restored, Stop> {
    restoration.start_over()?;
    let database = restoration.database();
    let restored = extraction::take(source, database, requirements).and_then(|parts| {
        let (trust, state) = check(source, database, &parts, requirements)?;
        Ok((parts, trust, state))
    });
    restoration.finish_or_discard(restored, |(parts, ..)| &parts.genesis_text)
}

/// Restores a snapshot in a folder. A failed attempt leaves what it copied to the next one, unless the snapshot is
/// wrong.
fn restore_folder(
    source: Source<'_>,
    restoration: &Restoration<'_>,
    requirements: &SnapshotRequirements<'_>,
) -> Result<Restored, Stop> {
    // First, so that a place without a snapshot does not affect what an earlier attempt has copied.
    let parts = folder::read(source)?;
    restoration.resume()?;
    let database = restoration.database();
    let restored = folder::transfer(source, &parts.manifest, database, folder::TransferMode::Copy, requirements)
        .and_then(|()| check(source, database, &parts, requirements))
        .map(|(trust, state)| (parts, trust, state));
    restoration.finish_or_keep(restored, |(parts, ..)| &parts.genesis_text)
}

/// Checks a snapshot whose parts are those of its list.
fn check(
    source: Source<'_>,
    database: &Path,
    parts: &ListedParts,
    requirements: &SnapshotRequirements<'_>,
) -> Result<(Trust, Option<(u64, u64)>), SourceError> {
    let store = Store::open(database, backup::store_options_of_copy()).map_err(Stop::from)?;
    let store = Arc::new(store);
    parts.manifest.compare(source, &store)?;
    let genesis = match requirements.network_id {
        Some(network_id) => parts.genesis.clone().with_network_id(network_id).map_err(Stop::failure)?,
        None => parts.genesis.clone(),
    };
    let path = source.path;
    let family = family_of(&genesis.spec);
    crate::rules_in_force::compare(&genesis.spec, &*family, &store).map_err(|difference| {
        Stop::Failure(format!("snapshot {} was made with other chain rules: {difference}", path.display()))
    })?;
    let trust = trust_in_head(path, &genesis.spec, &store, requirements.trust_hash)?;
    if !requirements.checks_state {
        return Ok((trust, None));
    }
    let report = store.verify(&mut |_| {}, requirements.is_interrupted).map_err(Stop::from)?;
    if let Some(damage) = report.damage {
        return Err(SourceError::Wrong(source.refused(damage)));
    }
    if report.was_cancelled {
        return Err(interrupted().into());
    }
    Ok((trust, Some((report.accounts, report.slots))))
}

/// Checks the head of a snapshot: against the given hash, or by what its own chain proves (`docs/spec/consensus.md` 5.6, 6).
///
/// # Errors
/// [`Stop::Failure`] if it fails.
fn trust_in_head(source: &Path, spec: &Arc<ChainSpec>, store: &Arc<Store>, hash: Option<B256>) -> Result<Trust, Stop> {
    let Some(wanted) = hash else { return family_of(spec).trust_in_head(source, store) };
    let head = store.head();
    let found = head.header.hash();
    if wanted == found {
        return Ok(Trust::Hash(wanted));
    }
    Err(Stop::Failure(format!(
        "snapshot {}: its head is block {} {found}, not the trusted {wanted}; use another snapshot",
        source.display(),
        head.header.number
    )))
}

/// A folder in which a snapshot is opened, removed on drop. Opening a database writes to its folder, and the snapshot's
/// own must not change.
struct TemporaryFolder {
    path: PathBuf,
}

impl TemporaryFolder {
    /// A folder next to a snapshot, or in the system's temporary folder if that is not writable. Reuses one left by a
    /// killed command.
    fn beside(source: &Path) -> Result<Self, Stop> {
        let real = fs::canonicalize(source).map_err(failed(source))?;
        let name = real.file_name().and_then(|name| name.to_str()).unwrap_or("snapshot");
        let name = format!(".{name}.verifying");
        let beside = real.with_file_name(&name);
        let path = if make_empty(&beside).is_ok() { beside } else { std::env::temp_dir().join(name) };
        make_empty(&path)?;
        Ok(Self { path })
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Err(error) = checkpoints::remove(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "could not remove the folder of a verification");
        }
    }
}
