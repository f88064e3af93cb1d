//! A backup: a folder that can be copied to another machine. `db/` is the database, `genesis.json` the genesis file,
//! and `backup.json`, which is written last, lists the content: every file with its length and SHA-256, the head, the
//! rules.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, DirEntry, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;
use tenon_api::{B256, ChainReader as _};
use tenon_chain::Genesis;
use tenon_storage::{Store, StoreOptions};

use crate::bounded_file;
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::restoring::Restoration;
use crate::rules_in_force;
use crate::version::client_version;

/// The format version of backups that this release writes.
const FORM: u32 = 1;
/// The file that lists a backup's content.
pub(crate) const MANIFEST: &str = "backup.json";
/// The genesis file of a backup.
pub(crate) const GENESIS: &str = "genesis.json";
/// The folder of the database's files.
pub(crate) const DATABASE: &str = "db";
/// The engine's lock file, which has no content.
const LOCK: &str = "LOCK";
/// Cache size for reading a copy, in bytes.
pub(crate) const CACHE: usize = 64 << 20;

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

    /// The list of a database without its files. Opening it checks that it is a database, yields its head, and records
    /// its list of tables; the files to list are those in the folder after that.
    ///
    /// # Errors
    /// [`Stop`] if it is not a database, or has no chain.
    pub(crate) fn of(database: &Path) -> Result<Self, Stop> {
        let store = Store::open(database, StoreOptions::with_cache(CACHE))?;
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
    /// [`Stop::DataFolder`] if there is none that this release can read.
    pub(crate) fn read(folder: &Path) -> Result<Self, Stop> {
        let path = folder.join(MANIFEST);
        let text = bounded_file::manifest(&path).map_err(|error| not_whole(&path, &error))?;
        Self::parse(&path, &text)
    }

    /// Reads the text of a list that is, or was, at a path.
    ///
    /// # Errors
    /// As [`Manifest::read`].
    pub(crate) fn parse(path: &Path, text: &[u8]) -> Result<Self, Stop> {
        let refused = |reason: &dyn std::fmt::Display| not_whole(path, reason);
        let form: Form = serde_json::from_slice(text).map_err(|error| refused(&error))?;
        let known = tenon_storage::FORMAT;
        if form.backup > FORM || form.database_format > known {
            return Err(Stop::DataFolder(format!(
                "{}: the backup has layout version {} and database format {}; this release supports layouts up to \
                 {FORM} and formats up to {known}; use a newer release",
                path.display(),
                form.backup,
                form.database_format
            )));
        }
        let manifest: Self = serde_json::from_slice(text).map_err(|error| refused(&error))?;
        if let Some(file) = manifest.files.iter().find(|file| !is_place(&file.path)) {
            return Err(refused(&format!("`{}` is not a valid file name in a backup", file.path)));
        }
        let mut listed = BTreeSet::new();
        match manifest.files.iter().find(|file| !listed.insert(file.path.as_str())) {
            Some(file) => Err(refused(&format!("`{}` is listed twice", file.path))),
            None => Ok(manifest),
        }
    }

    /// Reads the genesis file of a backup, and checks that it gives the listed chain.
    ///
    /// # Errors
    /// [`Stop::Failure`] if it was changed, is not a genesis file, or gives another chain.
    pub(crate) fn genesis(&self, folder: &Path) -> Result<(Vec<u8>, Genesis), Stop> {
        let path = folder.join(GENESIS);
        let text = bounded_file::genesis_of_backup(&path).map_err(failed(&path))?;
        self.checked_genesis(folder, text)
    }

    /// As [`Manifest::genesis`], for a text that was already read.
    ///
    /// # Errors
    /// As [`Manifest::genesis`].
    pub(crate) fn checked_genesis(&self, folder: &Path, text: Vec<u8>) -> Result<(Vec<u8>, Genesis), Stop> {
        let found = (text.len() as u64, B256::from_slice(&Sha256::digest(&text)));
        let listed = self.files.iter().find(|file| file.path == GENESIS).map(|file| (file.bytes, file.sha256));
        if listed != Some(found) {
            return Err(damaged(folder, GENESIS, "differs from its entry in the list"));
        }
        let genesis = Genesis::from_json(&text).map_err(|error| {
            damaged(
                folder,
                GENESIS,
                &format!(
                    "is not a genesis file \
                ({error})"
                ),
            )
        })?;
        let hash = genesis
            .commit()
            .map_err(|error| damaged(folder, GENESIS, &format!("is not a genesis file ({error})")))?
            .block
            .hash();
        let chain = genesis.spec.chain_id;
        if (chain, hash) == (self.chain_id, self.genesis_hash) {
            return Ok((text, genesis));
        }
        let (listed_chain, listed_hash) = (self.chain_id, self.genesis_hash);
        Err(damaged(
            folder,
            GENESIS,
            &format!(
                "is for chain {chain} with genesis {hash}, but {MANIFEST} lists chain {listed_chain} with genesis \
                 {listed_hash}"
            ),
        ))
    }

    /// Fails unless the database is in the state listed here.
    pub(crate) fn compare(&self, store: &Store) -> Result<(), Stop> {
        let found = head_of(store);
        let rules = store.rules()?.map(|rules| serde_json::from_slice(&rules)).transpose().map_err(Stop::failure)?;
        let rules: serde_json::Value = rules.unwrap_or_default();
        if found == self.head && store.chain() == Some((self.chain_id, self.genesis_hash)) {
            if rules == self.rules {
                return Ok(());
            }
            return Err(Stop::failure(
                "the database of the backup was made with other chain rules than its list says; use another backup",
            ));
        }
        Err(Stop::failure(format!(
            "the head of the database in the backup is block {} ({}), but its list says block {} ({})",
            found.number, found.hash, self.head.number, self.head.hash
        )))
    }
}

fn not_whole(path: &Path, reason: &dyn std::fmt::Display) -> Stop {
    Stop::DataFolder(format!("{}: {reason}; the backup is incomplete, make another one", path.display()))
}

/// The part of a list that decides whether the rest can be read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Form {
    backup: u32,
    database_format: u32,
}

/// Whether a listed path is inside a backup's folders: nothing outside is ever read or written.
pub(crate) fn is_place(path: &str) -> bool {
    let parts: Vec<_> = Path::new(path).components().collect();
    match parts[..] {
        [Component::Normal(name)] => name == GENESIS,
        [Component::Normal(folder), Component::Normal(_)] => folder == DATABASE,
        _ => false,
    }
}

fn head_of(store: &Store) -> Head {
    let head = store.head();
    Head { number: head.header.number, hash: head.header.hash(), state_root: head.header.state_root }
}

pub(crate) fn failed(path: &Path) -> impl Fn(io::Error) -> Stop {
    let path = path.to_owned();
    move |error| Stop::Failure(format!("{}: {error}", path.display()))
}

/// Makes a backup of a copy of the database to which nothing else writes.
///
/// # Errors
/// [`Stop::Usage`] if the folder is not empty, [`Stop::Failure`] if a file can't be read or written. Files written
/// until then have no list, and are not a backup.
pub(crate) fn write(database: &Path, genesis: &[u8], target: &Path) -> Result<Manifest, Stop> {
    let folder = target.join(DATABASE);
    DirBuilder::new().recursive(true).mode(0o700).create(target).map_err(failed(target))?;
    if fs::read_dir(target).map_err(failed(target))?.next().is_some() {
        return Err(Stop::Usage(format!("{} is not empty; give an empty or new folder", target.display())));
    }
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
    sync_folder(&folder)?;
    let list = serde_json::to_vec_pretty(&manifest).map_err(Stop::failure)?;
    write_whole(&target.join(MANIFEST), &list)?;
    sync_folder(target)?;
    Ok(manifest)
}

/// Reads every file of a backup and compares it with the list.
///
/// # Errors
/// [`Stop::DataFolder`] if there is no list, [`Stop::Failure`] naming the first file that was changed, and files that
/// are not listed.
pub(crate) fn verify(folder: &Path) -> Result<Manifest, Stop> {
    let manifest = Manifest::read(folder)?;
    check_names(folder, &manifest)?;
    manifest.genesis(folder)?;
    for file in &manifest.files {
        compare_file(folder, file, None)?;
    }
    Ok(manifest)
}

/// Restores the chain of a backup into a data folder without one. If killed at any instant, the folder holds either
/// nothing or everything. `network_id` is the setting, which selects the rules of native chains with their genesis.
///
/// # Errors
/// As [`verify`], and those of [`Restoration::begin`].
pub(crate) fn restore(folder: &Path, data: &DataFolder, network_id: Option<u64>) -> Result<Manifest, Stop> {
    let manifest = Manifest::read(folder)?;
    check_names(folder, &manifest)?;
    let (text, genesis) = manifest.genesis(folder)?;
    let restoration = Restoration::begin(data)?;
    restoration.start_over()?;
    let unfinished = restoration.database();
    for file in &manifest.files {
        let target = Path::new(&file.path).strip_prefix(DATABASE).ok().map(|name| unfinished.join(name));
        compare_file(folder, file, target.as_deref())?;
    }
    {
        let store = Store::open(unfinished, StoreOptions::with_cache(CACHE))?;
        manifest.compare(&store)?;
        compare_rules(folder, genesis, network_id, &store)?;
    }
    restoration.finish(&text)?;
    Ok(manifest)
}

/// Compares the rules of the genesis file with those of the chain. On native chains the difference may come from a
/// network id, which is not in the backup: the first start reports it again.
///
/// # Errors
/// [`Stop::Failure`] naming the rules.
fn compare_rules(folder: &Path, genesis: Genesis, network_id: Option<u64>, store: &Store) -> Result<(), Stop> {
    let genesis = match network_id {
        Some(network_id) => genesis.with_network_id(network_id).map_err(Stop::failure)?,
        None => genesis,
    };
    match rules_in_force::compare(&genesis.spec, store) {
        Err(difference) if genesis.spec.native.is_some() => {
            tracing::warn!(%difference, "the rules of the chain do not follow from the genesis file of the backup");
            Ok(())
        }
        Err(difference) => Err(damaged(folder, GENESIS, &format!("contradicts the chain: {difference}"))),
        Ok(_) => Ok(()),
    }
}

/// The files of a database's folder in the order of their names, without the lock and the engine's own log.
pub(crate) fn names(folder: &Path) -> Result<BTreeSet<String>, Stop> {
    let mut names = BTreeSet::new();
    for file in fs::read_dir(folder).map_err(failed(folder))? {
        names.extend(file_name(file.map_err(failed(folder))?)?);
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
pub(crate) fn check_names(folder: &Path, manifest: &Manifest) -> Result<(), Stop> {
    let mut missing: BTreeSet<&str> = manifest.files.iter().map(|file| file.path.as_str()).collect();
    let database = folder.join(DATABASE);
    for file in fs::read_dir(&database).map_err(failed(&database))? {
        let Some(name) = file_name(file.map_err(failed(&database))?)? else { continue };
        let path = format!("{DATABASE}/{name}");
        if !missing.remove(path.as_str()) {
            return Err(damaged(folder, &path, "is not in its list"));
        }
    }
    // Its presence is checked when it is read.
    if !missing.remove(GENESIS) {
        return Err(damaged(folder, GENESIS, "is missing"));
    }
    match missing.first() {
        Some(path) => Err(damaged(folder, path, "is missing")),
        None => Ok(()),
    }
}

pub(crate) fn compare_file(folder: &Path, file: &FileRecord, target: Option<&Path>) -> Result<(), Stop> {
    let (bytes, sha256) = copy(&folder.join(&file.path), target, file.bytes)?;
    if (bytes, sha256) == (file.bytes, file.sha256) {
        return Ok(());
    }
    Err(damaged(folder, &file.path, "differs from its entry in the list"))
}

pub(crate) fn damaged(folder: &Path, path: &str, what: &str) -> Stop {
    Stop::failure(format!("backup {}: {path} {what}; use another backup", folder.display()))
}

/// Reads a regular file, and copies it to another if one is given; returns its length and hash. The copy is synced to
/// disk. Stops reading once the file is longer than `most`.
pub(crate) fn copy(from: &Path, to: Option<&Path>, most: u64) -> Result<(u64, B256), Stop> {
    let mut source = bounded_file::regular(from).map_err(failed(from))?.take(most.saturating_add(1));
    let mut target = match to {
        None => None,
        Some(path) => {
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            Some((made.map_err(failed(path))?, path))
        }
    };
    let (mut hasher, mut bytes) = (Sha256::new(), 0);
    let mut piece = vec![0; 1 << 20];
    loop {
        let count = source.read(&mut piece).map_err(failed(from))?;
        let read = piece.get(..count).unwrap_or_default();
        if read.is_empty() {
            break;
        }
        hasher.update(read);
        bytes += count as u64;
        if let Some((file, path)) = &mut target {
            file.write_all(read).map_err(failed(path))?;
        }
    }
    if let Some((file, path)) = target {
        file.sync_all().map_err(failed(path))?;
    }
    Ok((bytes, B256::from_slice(&hasher.finalize())))
}

/// Writes a file atomically.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Stop> {
    let folder: PathBuf = path.parent().map(Path::to_owned).unwrap_or_default();
    let write = || -> io::Result<()> {
        let mut file = NamedTempFile::new_in(&folder)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(failed(path))
}

pub(crate) fn sync_folder(folder: &Path) -> Result<(), Stop> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed(folder))
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
    }
}
