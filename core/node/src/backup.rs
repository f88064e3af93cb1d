//! A backup: a folder that can be copied to another machine. `db/` is the database, `genesis.json` the genesis file,
//! and `backup.json`, which is written last, lists the content: every file with its length and SHA-256, the head, the
//! rules.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, DirBuilder, DirEntry};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tenon_api::{B256, ChainReader as _, shown_json_problem};
use tenon_chain::{Genesis, GenesisError};
use tenon_config::DatabaseSettings;
use tenon_storage::{Store, StoreOptions};

use crate::backup_source::{MANIFEST, Source, SourceError};
use crate::bounded_file;
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::family::{family_of, read_genesis};
use crate::opened_chain::store_options;
use crate::restoring::Restoration;
use crate::rules_in_force;
use crate::synced_files::{copy, copy_unsynced, failed, sync, write_whole};
use crate::version::client_version;

/// The format version of backups that this release writes.
const FORM: u32 = 1;
/// The genesis file of a backup.
pub(crate) const GENESIS: &str = "genesis.json";
/// The folder of the database's files.
pub(crate) const DATABASE: &str = "db";
/// The engine's lock file, which has no content.
const LOCK: &str = "LOCK";
/// Cache size for reading a copy, in MiB.
const CACHE: u32 = 64;
/// Maximum number of listed files. Tables have 64 MiB, so that 12 TB fit.
pub(crate) const MAX_FILES: usize = 200_000;

/// The list of a backup's content.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Manifest {
    /// The format version of the backup.
    backup: u32,
    /// The program that made it.
    program: String,
    pub(crate) chain_id: u64,
    pub(crate) genesis_hash: B256,
    /// The format of the database.
    database_format: u32,
    pub(crate) head: Head,
    /// The oldest block whose state can be read.
    oldest_state: u64,
    /// The rules under which the chain was made.
    rules: serde_json::Value,
    pub(crate) files: Vec<FileRecord>,
}

/// The newest block.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Head {
    pub(crate) number: u64,
    pub(crate) hash: B256,
    pub(crate) state_root: B256,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    /// Relative to the backup's folder.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) sha256: B256,
}

impl Manifest {
    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes))
    }

    /// The list of a database, still without its files. Opens the database, which changes files in its folder: the
    /// caller must list the files after this call.
    ///
    /// # Errors
    /// [`Stop`] if it is not a database, or has no chain.
    pub(crate) fn of(database: &Path) -> Result<Self, Stop> {
        let store = Store::open(database, store_options_of_copy())?;
        let (chain_id, genesis_hash) =
            store.chain().ok_or_else(|| Stop::failure("the copy of the database has no chain"))?;
        let rules = store.rules()?.map(|rules| serde_json::from_slice(&rules)).transpose().map_err(Stop::failure)?;
        Ok(Self {
            backup: FORM,
            program: client_version(""),
            chain_id,
            genesis_hash,
            database_format: tenon_storage::FORMAT,
            head: head_of(&store),
            oldest_state: store.oldest_state(),
            rules: rules.unwrap_or_default(),
            files: Vec::new(),
        })
    }

    /// Reads the list of a backup.
    ///
    /// # Errors
    /// [`Stop::Usage`] if there is none, [`Stop::DataFolder`] if a newer release wrote it, [`Stop::Failure`] if it is
    /// damaged or can't be read.
    pub(crate) fn read(source: Source<'_>) -> Result<Self, Stop> {
        let list = source.path.join(MANIFEST);
        let text = bounded_file::manifest(&list).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => source.not_one(),
            _ => failed(&list)(error),
        })?;
        Self::parse(source, &text)
    }

    /// Reads the text of a list.
    ///
    /// # Errors
    /// As [`Manifest::read`].
    pub(crate) fn parse(source: Source<'_>, text: &[u8]) -> Result<Self, Stop> {
        let (kind, refused) = (source.kind, |problem: &dyn fmt::Display| source.not_whole(problem));
        let form: Form = serde_json::from_slice(text).map_err(|error| refused(&shown_json_problem(&error)))?;
        let known = tenon_storage::FORMAT;
        if form.backup > FORM || form.database_format > known {
            return Err(Stop::DataFolder(format!(
                "{}: the {kind} has layout version {} and database format {}; this release supports layouts up to \
                 {FORM} and formats up to {known}; use a newer release",
                source.path.join(MANIFEST).display(),
                form.backup,
                form.database_format
            )));
        }
        let manifest: Self = serde_json::from_slice(text).map_err(|error| refused(&shown_json_problem(&error)))?;
        if manifest.files.len() > MAX_FILES {
            return Err(refused(&format_args!("it lists more than {MAX_FILES} files")));
        }
        if let Some(file) = manifest.files.iter().find(|file| !is_place(&file.path)) {
            return Err(refused(&format_args!("`{}` is not a valid file name in a {kind}", file.path)));
        }
        let mut listed = BTreeSet::new();
        match manifest.files.iter().find(|file| !listed.insert(file.path.as_str())) {
            Some(file) => Err(refused(&format_args!("`{}` is listed twice", file.path))),
            None => Ok(manifest),
        }
    }

    /// Reads the genesis file of a backup, and checks that it gives the listed chain.
    ///
    /// # Errors
    /// [`Stop::Failure`] if it was changed, is not a genesis file, or gives another chain.
    pub(crate) fn genesis(&self, source: Source<'_>) -> Result<(Vec<u8>, Genesis), Stop> {
        let path = source.path.join(GENESIS);
        let text = bounded_file::genesis_of_backup(&path).map_err(failed(&path))?;
        self.checked_genesis(source, text)
    }

    /// As [`Manifest::genesis`], for a text that was already read.
    ///
    /// # Errors
    /// As [`Manifest::genesis`].
    pub(crate) fn checked_genesis(&self, source: Source<'_>, text: Vec<u8>) -> Result<(Vec<u8>, Genesis), Stop> {
        let refused = |problem: &str| source.damaged(GENESIS, problem);
        let found = (text.len() as u64, B256::from_slice(&Sha256::digest(&text)));
        let listed = self.files.iter().find(|file| file.path == GENESIS).map(|file| (file.bytes, file.sha256));
        if listed != Some(found) {
            return Err(refused("differs from its entry in the list"));
        }
        let invalid = |error: GenesisError| refused(&format!("is not a genesis file ({error})"));
        let genesis = read_genesis(&text).map_err(invalid)?;
        let hash = genesis.commit().map_err(invalid)?.block.hash();
        let chain = genesis.spec.chain_id;
        if (chain, hash) == (self.chain_id, self.genesis_hash) {
            return Ok((text, genesis));
        }
        let (listed_chain, listed_hash) = (self.chain_id, self.genesis_hash);
        Err(refused(&format!(
            "is for chain {chain} with genesis {hash}, but {MANIFEST} lists chain {listed_chain} with genesis \
             {listed_hash}"
        )))
    }

    /// Fails unless the database is in the state listed here.
    pub(crate) fn compare(&self, source: Source<'_>, store: &Store) -> Result<(), SourceError> {
        let found = head_of(store);
        let rules = store.rules().map_err(Stop::from)?;
        let rules = rules.map(|rules| serde_json::from_slice(&rules)).transpose().map_err(Stop::failure)?;
        let rules: serde_json::Value = rules.unwrap_or_default();
        let problem = if found != self.head || store.chain() != Some((self.chain_id, self.genesis_hash)) {
            format!(
                "the head of its database is block {} ({}), but its list says block {} ({})",
                found.number, found.hash, self.head.number, self.head.hash
            )
        } else if rules != self.rules {
            "its database was made with other chain rules than its list says".to_owned()
        } else {
            return Ok(());
        };
        Err(SourceError::Wrong(source.refused(problem)))
    }
}

/// The part of a list that decides whether the rest can be read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Form {
    backup: u32,
    database_format: u32,
}

/// Whether a listed path is that of a file of a backup: no other file is ever read or written. Compares the text, not a
/// parsed path: `db//x` without `db/` would be the absolute path `/x`.
pub(crate) fn is_place(path: &str) -> bool {
    path == GENESIS || database_file(path).is_some_and(|name| !["", ".", ".."].contains(&name) && !name.contains('/'))
}

/// The name of a listed file of the database; `None` for other files.
pub(crate) fn database_file(path: &str) -> Option<&str> {
    path.strip_prefix(DATABASE)?.strip_prefix('/')
}

fn head_of(store: &Store) -> Head {
    let head = store.head();
    Head { number: head.header.number, hash: head.header.hash(), state_root: head.header.state_root }
}

/// Checks that a backup can be written to a folder, without changing anything.
///
/// # Errors
/// [`Stop::Usage`] if there is something in it, [`Stop::Failure`] if it can't be read.
pub(crate) fn check_target(target: &Path) -> Result<(), Stop> {
    let refused = |what: &str| Stop::Usage(format!("{} is {what}; give an empty or new folder", target.display()));
    let mut entries = match fs::read_dir(target) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Err(refused("a file")),
        Err(error) => return Err(failed(target)(error)),
    };
    match entries.next() {
        Some(_) => Err(refused("not empty")),
        None => Ok(()),
    }
}

/// Makes a backup of a copy of the database to which nothing else writes.
///
/// # Errors
/// [`Stop::Usage`] if the folder is not empty, [`Stop::Failure`] if a file can't be read or written. Files written
/// until then have no list, and are not a backup.
pub(crate) fn write(database: &Path, genesis: &[u8], target: &Path) -> Result<Manifest, Stop> {
    let folder = target.join(DATABASE);
    DirBuilder::new().recursive(true).mode(0o700).create(target).map_err(failed(target))?;
    check_target(target)?;
    DirBuilder::new().mode(0o700).create(&folder).map_err(failed(&folder))?;
    let mut manifest = Manifest::of(database)?;
    for name in names(database)? {
        let path = format!("{DATABASE}/{name}");
        let (bytes, sha256) = copy(&database.join(&name), Some(&target.join(&path)), u64::MAX)?;
        manifest.files.push(FileRecord { path, bytes, sha256 });
    }
    let copy_of_genesis = target.join(GENESIS);
    write_whole(&copy_of_genesis, genesis)?;
    let (bytes, sha256) = copy(&copy_of_genesis, None, u64::MAX)?;
    manifest.files.push(FileRecord { path: GENESIS.to_owned(), bytes, sha256 });
    sync(&folder)?;
    let list = serde_json::to_vec_pretty(&manifest).map_err(Stop::failure)?;
    write_whole(&target.join(MANIFEST), &list)?;
    sync(target)?;
    Ok(manifest)
}

/// Reads every file of a backup and compares it with the list.
///
/// # Errors
/// Those of [`Manifest::read`]; [`Stop::Failure`] naming the first file that was changed, and files that are not
/// listed.
pub(crate) fn verify(folder: &Path) -> Result<Manifest, Stop> {
    let source = Source::backup(folder);
    let manifest = Manifest::read(source)?;
    check_names(source, &manifest)?;
    manifest.genesis(source)?;
    for file in &manifest.files {
        compare_file(source, file, None)?;
    }
    Ok(manifest)
}

/// Restores the chain of a backup into a data folder without one. If killed at any instant, the folder holds either
/// nothing or everything. `network_id` is the setting, which selects the rules of native chains with their genesis.
///
/// # Errors
/// As [`verify`], and those of [`Restoration::begin`].
pub(crate) fn restore(folder: &Path, data: &DataFolder, network_id: Option<u64>) -> Result<Manifest, Stop> {
    let source = Source::backup(folder);
    let manifest = Manifest::read(source)?;
    check_names(source, &manifest)?;
    let (text, genesis) = manifest.genesis(source)?;
    let restoration = Restoration::begin(data)?;
    restoration.start_over()?;
    let restored = fill(source, &manifest, restoration.database(), genesis, network_id).map(|()| text);
    restoration.finish_or_discard(restored, Vec::as_slice)?;
    Ok(manifest)
}

/// Copies the database of a backup, and checks it.
fn fill(
    source: Source<'_>,
    manifest: &Manifest,
    database: &Path,
    genesis: Genesis,
    network_id: Option<u64>,
) -> Result<(), Stop> {
    for file in &manifest.files {
        let target = database_file(&file.path).map(|name| database.join(name));
        compare_file(source, file, target.as_deref())?;
    }
    let store = Store::open(database, store_options_of_copy())?;
    manifest.compare(source, &store)?;
    compare_rules(source, genesis, network_id, &store)
}

/// Options for the database of a copy, which is only read.
pub(crate) fn store_options_of_copy() -> StoreOptions {
    store_options(&DatabaseSettings { cache: CACHE, ..DatabaseSettings::default() })
}

/// Compares the rules of the genesis file with those of the chain. A family whose rules depend on the network id gets
/// only a warning: a backup does not contain that id, so the difference may come from another id. The first start
/// compares the rules again.
///
/// # Errors
/// [`Stop::Failure`] naming the rules.
fn compare_rules(source: Source<'_>, genesis: Genesis, network_id: Option<u64>, store: &Store) -> Result<(), Stop> {
    let genesis = match network_id {
        Some(network_id) => genesis.with_network_id(network_id).map_err(Stop::failure)?,
        None => genesis,
    };
    let family = family_of(&genesis.spec);
    match rules_in_force::compare(&genesis.spec, &*family, store) {
        Err(difference) if family.has_rules_by_network_id() => {
            tracing::warn!(%difference, "the rules of the chain do not follow from the genesis file of the backup");
            Ok(())
        }
        Err(difference) => Err(source.damaged(GENESIS, &format!("contradicts the chain: {difference}"))),
        Ok(_) => Ok(()),
    }
}

/// The files of a database's folder in the order of their names, without the lock and the engine's own log.
pub(crate) fn names(folder: &Path) -> Result<BTreeSet<String>, Stop> {
    let mut names = BTreeSet::new();
    for file in fs::read_dir(folder).map_err(failed(folder))? {
        names.extend(file_name(file.map_err(failed(folder))?)?);
    }
    if names.len() > MAX_FILES {
        return Err(Stop::Failure(format!(
            "the database has {} files, more than the {MAX_FILES} that a list may have",
            names.len()
        )));
    }
    Ok(names)
}

/// The name of a file of a database's folder, if it is part of the content.
fn file_name(file: DirEntry) -> Result<Option<String>, Stop> {
    let name = file.file_name().into_string().map_err(|name| Stop::failure(format!("unexpected file {name:?}")))?;
    let is_content = name != LOCK && !name.starts_with("LOG");
    Ok(is_content.then_some(name))
}

/// Refuses a backup that lacks a listed file, or has one that is not listed. Reads at most one file name more than
/// listed.
pub(crate) fn check_names(source: Source<'_>, manifest: &Manifest) -> Result<(), Stop> {
    let mut missing: BTreeSet<&str> = manifest.files.iter().map(|file| file.path.as_str()).collect();
    let database = source.path.join(DATABASE);
    for file in fs::read_dir(&database).map_err(failed(&database))? {
        let Some(name) = file_name(file.map_err(failed(&database))?)? else { continue };
        let path = format!("{DATABASE}/{name}");
        if !missing.remove(path.as_str()) {
            return Err(source.damaged(&path, "is not in its list"));
        }
    }
    // Its presence is checked when it is read.
    if !missing.remove(GENESIS) {
        return Err(source.damaged(GENESIS, "is missing"));
    }
    match missing.first() {
        Some(path) => Err(source.damaged(path, "is missing")),
        None => Ok(()),
    }
}

/// Compares a file with the list, and copies it if a target is given. The copy is not synced to disk.
pub(crate) fn compare_file(source: Source<'_>, file: &FileRecord, target: Option<&Path>) -> Result<(), SourceError> {
    let (bytes, sha256) = copy_unsynced(&source.path.join(&file.path), target, file.bytes)?;
    if (bytes, sha256) == (file.bytes, file.sha256) {
        return Ok(());
    }
    Err(SourceError::Wrong(source.damaged(&file.path, "differs from its entry in the list")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_contains_only_files_of_a_backup() {
        for path in ["db/000012.sst", "db/CURRENT", "genesis.json"] {
            assert!(is_place(path), "{path}");
        }
        for path in ["", "/etc/passwd", "db", "db/../x", "../db/x", "db/x/y", "tenon.toml", "./genesis.json/x"] {
            assert!(!is_place(path), "{path}");
        }
        for path in ["db//x", "db/", "db/.", "db/..", "db/./x", "db/x/", "./db/x", "dbx", "./genesis.json"] {
            assert!(!is_place(path), "{path}");
        }
    }
}
