//! A backup: a folder that can be handed to another machine. `db/` is the database, `genesis.json` the genesis file, and
//! `backup.json`, which is written last, says what there must be: every file with its length and SHA-256, the head, the rules.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tempfile::NamedTempFile;
use tenon_api::{B256, ChainReader as _};
use tenon_storage::{Store, StoreOptions};

use crate::bounded_file;
use crate::data_folder::DataFolder;
use crate::exit::Stop;
use crate::version::client_version;

/// The form of backups that this release writes.
const FORM: u32 = 1;
/// The file that says what a backup holds.
const MANIFEST: &str = "backup.json";
/// The genesis file of a backup.
const GENESIS: &str = "genesis.json";
/// The folder of the database's files.
const DATABASE: &str = "db";
/// The engine's lock, which is of no content.
const LOCK: &str = "LOCK";
/// Memory with which a copy is looked at, bytes.
const CACHE: usize = 64 << 20;

/// What a backup holds.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Manifest {
    /// The form of the backup.
    backup: u32,
    /// The program that made it.
    program: String,
    pub(crate) chain_id: u64,
    genesis_hash: B256,
    /// The format of the database.
    database_format: u32,
    pub(crate) head: Head,
    /// The oldest block whose state can be read.
    oldest_state: u64,
    /// The rules under which the chain was made.
    rules: serde_json::Value,
    files: Vec<FileRecord>,
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
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileRecord {
    /// Below the backup's folder.
    path: String,
    bytes: u64,
    sha256: B256,
}

impl Manifest {
    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Reads the list of a backup.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] when there is none that this release can read.
    pub(crate) fn read(folder: &Path) -> Result<Self, Stop> {
        let path = folder.join(MANIFEST);
        let refused = |reason: &dyn std::fmt::Display| {
            Stop::DataFolder(format!("{}: {reason}; this is no whole backup, make another one", path.display()))
        };
        let text = bounded_file::manifest(&path).map_err(|error| refused(&error))?;
        let form: Form = serde_json::from_slice(&text).map_err(|error| refused(&error))?;
        let known = tenon_storage::FORMAT;
        if form.backup > FORM || form.database_format > known {
            return Err(Stop::DataFolder(format!(
                "{}: the backup has form {} and database format {}, this release knows forms up to {FORM} and formats up to \
                 {known}; use a newer release",
                path.display(),
                form.backup,
                form.database_format
            )));
        }
        let manifest: Self = serde_json::from_slice(&text).map_err(|error| refused(&error))?;
        match manifest.files.iter().find(|file| !is_place(&file.path)) {
            Some(file) => Err(refused(&format!("`{}` is no file of a backup", file.path))),
            None => Ok(manifest),
        }
    }

    /// Fails unless a database stands where this says.
    fn compare(&self, store: &Store) -> Result<(), Stop> {
        let found = head_of(store);
        if found == self.head && store.chain() == Some((self.chain_id, self.genesis_hash)) {
            return Ok(());
        }
        Err(Stop::failure(format!(
            "the database of the backup stands at block {} ({}), its list says block {} ({})",
            found.number, found.hash, self.head.number, self.head.hash
        )))
    }
}

/// The part of a list that says whether the rest can be read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Form {
    backup: u32,
    database_format: u32,
}

/// Whether a path of a list lies where a backup's files do: nothing outside is ever read or written.
fn is_place(path: &str) -> bool {
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

fn failed(path: &Path) -> impl Fn(io::Error) -> Stop {
    let path = path.to_owned();
    move |error| Stop::Failure(format!("{}: {error}", path.display()))
}

/// Makes a backup of a copy of the database, which nothing else writes to.
///
/// # Errors
/// [`Stop::Usage`] when the folder holds something, [`Stop::Failure`] when a file can't be read or written. What was written
/// until then has no list, and is no backup.
pub(crate) fn write(database: &Path, genesis: &[u8], target: &Path) -> Result<Manifest, Stop> {
    let folder = target.join(DATABASE);
    DirBuilder::new().recursive(true).mode(0o700).create(target).map_err(failed(target))?;
    if fs::read_dir(target).map_err(failed(target))?.next().is_some() {
        return Err(Stop::Usage(format!(
            "{} holds something; name a folder that is empty or not there",
            target.display()
        )));
    }
    DirBuilder::new().mode(0o700).create(&folder).map_err(failed(&folder))?;
    // Opening it shows that it is one, says where it stands, and records its list of tables.
    let mut manifest = {
        let store = Store::open(database, StoreOptions::with_cache(CACHE))?;
        let (chain_id, genesis_hash) =
            store.chain().ok_or_else(|| Stop::failure("the copy of the database holds no chain"))?;
        let rules = store.rules()?.map(|rules| serde_json::from_slice(&rules)).transpose().map_err(Stop::failure)?;
        Manifest {
            backup: FORM,
            program: client_version(""),
            chain_id,
            genesis_hash,
            database_format: tenon_storage::FORMAT,
            head: head_of(&store),
            oldest_state: store.oldest_state(),
            rules: rules.unwrap_or_default(),
            files: Vec::new(),
        }
    };
    for name in names(database)? {
        let path = format!("{DATABASE}/{name}");
        let (bytes, sha256) = copy(&database.join(&name), Some(&target.join(&path)))?;
        manifest.files.push(FileRecord { path, bytes, sha256 });
    }
    let copy_of_genesis = target.join(GENESIS);
    write_whole(&copy_of_genesis, genesis)?;
    let (bytes, sha256) = copy(&copy_of_genesis, None)?;
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
/// [`Stop::DataFolder`] when there is no list, [`Stop::Failure`] naming the first file that is not as it was written, and
/// files that are there and not listed.
pub(crate) fn verify(folder: &Path) -> Result<Manifest, Stop> {
    let manifest = Manifest::read(folder)?;
    check_names(folder, &manifest)?;
    for file in &manifest.files {
        compare_file(folder, file, None)?;
    }
    Ok(manifest)
}

/// Puts the chain of a backup into a data folder that holds none. Killed at any instant, the folder holds none still, or all.
///
/// # Errors
/// As [`verify`]; [`Stop::DataFolder`] when the folder holds a chain.
pub(crate) fn restore(folder: &Path, data: &DataFolder) -> Result<Manifest, Stop> {
    let manifest = Manifest::read(folder)?;
    check_names(folder, &manifest)?;
    let database = data.database();
    if database.exists() {
        return Err(Stop::DataFolder(format!(
            "{} holds a chain already; choose another folder with --datadir",
            data.path().display()
        )));
    }
    let unfinished = data.path().join("db.restoring");
    crate::checkpoints::remove(&unfinished).map_err(failed(&unfinished))?;
    DirBuilder::new().mode(0o700).create(&unfinished).map_err(failed(&unfinished))?;
    for file in &manifest.files {
        let target = Path::new(&file.path).strip_prefix(DATABASE).ok().map(|name| unfinished.join(name));
        compare_file(folder, file, target.as_deref())?;
    }
    {
        let store = Store::open(&unfinished, StoreOptions::with_cache(CACHE))?;
        manifest.compare(&store)?;
    }
    let genesis = folder.join(GENESIS);
    data.keep_genesis(&bounded_file::genesis(&genesis).map_err(failed(&genesis))?)?;
    sync_folder(&unfinished)?;
    // The last step: a folder with a database is a whole one.
    fs::rename(&unfinished, &database).map_err(failed(&database))?;
    sync_folder(data.path())?;
    Ok(manifest)
}

/// The files of a database's folder in the order of their names, without the lock and the engine's own log.
fn names(folder: &Path) -> Result<BTreeSet<String>, Stop> {
    let mut names = BTreeSet::new();
    for file in fs::read_dir(folder).map_err(failed(folder))? {
        let file = file.map_err(failed(folder))?;
        let name = file.file_name().into_string().map_err(|name| Stop::failure(format!("strange file {name:?}")))?;
        if name != LOCK && !name.starts_with("LOG") {
            names.insert(name);
        }
    }
    Ok(names)
}

/// Refuses a backup that lacks a listed file, or has one that is not listed.
fn check_names(folder: &Path, manifest: &Manifest) -> Result<(), Stop> {
    let listed: BTreeSet<&str> = manifest.files.iter().map(|file| file.path.as_str()).collect();
    let found = names(&folder.join(DATABASE))?;
    let found: BTreeSet<String> = found.into_iter().map(|name| format!("{DATABASE}/{name}")).collect();
    let stray = found.iter().find(|path| !listed.contains(path.as_str()));
    let missing = listed.iter().find(|path| **path != GENESIS && !found.contains(**path));
    match (stray, missing, listed.contains(GENESIS)) {
        (Some(path), ..) => Err(damaged(folder, path, "is not in its list")),
        (_, Some(path), _) => Err(damaged(folder, path, "is missing")),
        (.., false) => Err(damaged(folder, GENESIS, "is missing")),
        _ => Ok(()),
    }
}

fn compare_file(folder: &Path, file: &FileRecord, target: Option<&Path>) -> Result<(), Stop> {
    let (bytes, sha256) = copy(&folder.join(&file.path), target)?;
    if (bytes, sha256) == (file.bytes, file.sha256) {
        return Ok(());
    }
    Err(damaged(folder, &file.path, "is not as it was written"))
}

fn damaged(folder: &Path, path: &str, what: &str) -> Stop {
    Stop::failure(format!("backup {}: {path} {what}; use another backup", folder.display()))
}

/// Reads a file, and writes it to another where one is named; answers its length and hash. What was written is on the disk.
fn copy(from: &Path, to: Option<&Path>) -> Result<(u64, B256), Stop> {
    let mut source = File::open(from).map_err(failed(from))?;
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

/// Writes a file whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Stop> {
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

fn sync_folder(folder: &Path) -> Result<(), Stop> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_files_of_a_backup_only() {
        for path in ["db/000012.sst", "db/CURRENT", "genesis.json"] {
            assert!(is_place(path), "{path}");
        }
        for path in ["", "/etc/passwd", "db", "db/../x", "../db/x", "db/x/y", "tenon.toml", "./genesis.json/x"] {
            assert!(!is_place(path), "{path}");
        }
    }
}
