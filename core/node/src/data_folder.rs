//! The data folder: its layout, and how its files are written.
//!
//! `db/` is the database, `checkpoint/` a copy of it while a backup is made, `genesis.json` a copy of its first
//! genesis, `endpoints.json` the addresses of a running node, `tenon.ipc` its socket, `tenon.toml` the operator's
//! settings.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode, accessat};
use tempfile::{NamedTempFile, TempDir};

use crate::bounded_file;
use crate::exit::Stop;

/// A data folder; an ephemeral one is removed on drop.
#[derive(Debug)]
pub(crate) struct DataFolder {
    path: PathBuf,
    ephemeral: Option<Ephemeral>,
}

/// Removal of an ephemeral folder; fields drop in this order.
#[derive(Debug)]
struct Ephemeral {
    _folder: TempDir,
    /// Locked, so that other processes see that the owner is alive.
    _owner: File,
}

impl DataFolder {
    /// Uses a folder, and creates it, for its owner only, if it is missing.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] if it can't be created, or not be written.
    pub(crate) fn create(path: &Path) -> Result<Self, Stop> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| refusal(path, &error))?;
        // Here, because a later error would name only the first file that the node happens to write.
        accessat(CWD, path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(|error| refusal(path, &error.into()))?;
        let folder = Self { path: path.to_owned(), ephemeral: None };
        folder.close_to_others()?;
        Ok(folder)
    }

    /// Makes the database, even in a folder that others created, and all files that this process creates from now on
    /// readable only by their owner. RocksDB creates its files with the process's umask.
    fn close_to_others(&self) -> Result<(), Stop> {
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
        let database = self.database();
        let close = || -> io::Result<()> {
            fs::set_permissions(&database, Permissions::from_mode(0o700))?;
            for file in fs::read_dir(&database)? {
                let file = file?;
                // If another process has it open, the engine may remove the file in the meantime.
                let is_open_to_others = file.metadata().is_ok_and(|found| found.is_file() && found.mode() & 0o077 != 0);
                if is_open_to_others {
                    fs::set_permissions(file.path(), Permissions::from_mode(0o600)).or_else(unless_gone)?;
                }
            }
            Ok(())
        };
        if !database.is_dir() {
            return Ok(());
        }
        close().map_err(|error| refusal(&database, &error))
    }

    /// Uses a folder that contains a chain.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] when there is none, or if this user has no access to it.
    pub(crate) fn existing(path: &Path) -> Result<Self, Stop> {
        let folder = Self { path: path.to_owned(), ephemeral: None };
        match fs::metadata(folder.database()) {
            Ok(found) if found.is_dir() => {
                folder.close_to_others()?;
                return Ok(folder);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(refusal(path, &error)),
            Ok(_) | Err(_) => {}
        }
        Err(dangling_link(path).unwrap_or_else(|| {
            Stop::DataFolder(format!(
                "{} has no chain; give the folder with --datadir, or import a chain with `tenon import`",
                path.display()
            ))
        }))
    }

    /// Creates a folder under the system's temporary folder, removed with its content on drop. Also removes those of
    /// killed nodes.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] if it can't be created.
    pub(crate) fn ephemeral() -> Result<Self, Stop> {
        let parent = std::env::temp_dir();
        let make = || -> io::Result<(TempDir, File)> {
            let folder = tempfile::Builder::new().prefix(EPHEMERAL_PREFIX).tempdir_in(&parent)?;
            let owner = lock_owner_file(folder.path())?;
            Ok((folder, owner))
        };
        let (folder, owner) = make().map_err(|error| refusal(&parent, &error))?;
        remove_orphans(&parent, folder.path());
        let path = folder.path().to_owned();
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
        Ok(Self { path, ephemeral: Some(Ephemeral { _folder: folder, _owner: owner }) })
    }

    /// Another handle of the same folder, which removes nothing on drop.
    pub(crate) fn handle(&self) -> Self {
        Self { path: self.path.clone(), ephemeral: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is removed at the end.
    pub(crate) const fn is_ephemeral(&self) -> bool {
        self.ephemeral.is_some()
    }

    /// Whether there is a database in a folder.
    pub(crate) fn has_database(path: &Path) -> bool {
        path.join(DATABASE).is_dir()
    }

    /// The database's folder.
    pub(crate) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Folder for copies of the database (`tenon db backup`). Its content is removed with the node that made it.
    pub(crate) fn checkpoint(&self) -> PathBuf {
        self.path.join("checkpoint")
    }

    /// Path of the copy of the genesis file.
    pub(crate) fn genesis_path(&self) -> PathBuf {
        self.path.join(GENESIS)
    }

    /// The copy of the genesis file; `None` before the first start.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] if it exists and can't be read.
    pub(crate) fn genesis(&self) -> Result<Option<Vec<u8>>, Stop> {
        let path = self.genesis_path();
        match bounded_file::kept_genesis(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refusal(&path, &error)),
        }
    }

    /// Keeps the genesis for the next start.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] when it can't be written.
    pub(crate) fn keep_genesis(&self, text: &[u8]) -> Result<(), Stop> {
        self.write(GENESIS, text)
    }

    /// Undoes [`DataFolder::keep_genesis`].
    pub(crate) fn forget_genesis(&self) {
        self.remove(GENESIS);
    }

    /// Writes a file atomically: readers see either the old or the new content.
    ///
    /// # Errors
    /// [`Stop::DataFolder`] if it can't be written.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Stop> {
        let path = self.path.join(name);
        let write = || -> io::Result<()> {
            let mut file = NamedTempFile::new_in(&self.path)?;
            file.write_all(bytes)?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|error| refusal(&path, &error))
    }

    /// Removes a file if it exists.
    pub(crate) fn remove(&self, name: &str) {
        let path = self.path.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "file not removed");
            }
            _ => {}
        }
    }
}

/// Folders that only the node writes.
pub(crate) const KEPT_FOLDERS: &[&str] = &[DATABASE, "db.restoring", "checkpoint", "keystore", "plugins", "network"];
/// Files that the node itself writes, or reads before anything else.
pub(crate) const KEPT_FILES: &[&str] = &[GENESIS, "modules.json", "endpoints.json", "tenon.toml", "backup.lock", OWNER];
const GENESIS: &str = "genesis.json";
/// The database's folder.
const DATABASE: &str = "db";
/// Prefix of the names of ephemeral folders.
const EPHEMERAL_PREFIX: &str = "tenon-dev-";
/// The file of an ephemeral folder that its owner keeps locked.
const OWNER: &str = "owner.lock";
/// Maximum number of killed nodes' folders that a start removes, to keep starts short.
const MAX_ORPHANS: usize = 16;

/// Creates the file whose lock shows that a folder's owner is alive. It is locked before it gets its name, so no
/// process can find it unlocked and mistake the folder for an orphan.
fn lock_owner_file(folder: &Path) -> io::Result<File> {
    let file = NamedTempFile::new_in(folder)?;
    file.as_file().lock()?;
    file.persist(folder.join(OWNER)).map_err(|error| error.error)
}

/// Removes this user's ephemeral folders whose owners are dead. Folders without the owner's file, and any that this
/// program did not create, are not touched.
fn remove_orphans(parent: &Path, own: &Path) {
    let Ok(user) = fs::symlink_metadata(own).map(|metadata| metadata.uid()) else { return };
    let Ok(entries) = fs::read_dir(parent) else { return };
    let ephemeral = entries.filter_map(Result::ok).filter(|entry| {
        let is_named_so = entry.file_name().to_str().is_some_and(|name| name.starts_with(EPHEMERAL_PREFIX));
        is_named_so && entry.path() != own
    });
    let orphans = ephemeral.filter_map(|entry| orphan(&entry.path(), user).map(|lock| (entry.path(), lock)));
    for (path, lock) in orphans.take(MAX_ORPHANS) {
        // While holding its lock, so that no other start removes it too.
        match fs::remove_dir_all(&path) {
            Ok(()) => tracing::info!(path = %path.display(), "removed the leftovers of a killed node"),
            Err(error) => tracing::warn!(path = %path.display(), %error, "could not remove a leftover of a killed \
                node"),
        }
        drop(lock);
    }
}

/// The owner's lock of a folder, if it could be taken, which means that no process uses the folder.
fn orphan(folder: &Path, user: u32) -> Option<File> {
    let is_own = |path: &Path, is_kind: fn(&fs::FileType) -> bool| {
        fs::symlink_metadata(path).is_ok_and(|found| found.uid() == user && is_kind(&found.file_type()))
    };
    let owner = folder.join(OWNER);
    if !is_own(folder, fs::FileType::is_dir) || !is_own(&owner, fs::FileType::is_file) {
        return None;
    }
    let lock = File::open(owner).ok()?;
    lock.try_lock().is_ok().then_some(lock)
}

fn unless_gone(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// The refusal of a data folder or of one of its files: what is wrong, and what to do.
pub(crate) fn refusal(path: &Path, error: &io::Error) -> Stop {
    if let Some(refusal) = dangling_link(path) {
        return refusal;
    }
    let reason = match error.kind() {
        io::ErrorKind::AlreadyExists => "is a file, not a folder;".to_owned(),
        io::ErrorKind::PermissionDenied => format!("{}, or", no_permission()),
        io::ErrorKind::ReadOnlyFilesystem => "its file system is read-only; mount it for writing, or".to_owned(),
        _ => format!("{error};"),
    };
    Stop::DataFolder(format!("{}: {reason} choose another folder with --datadir", path.display()))
}

/// What is wrong with a file or folder that this user may not use, and what to do.
pub(crate) fn no_permission() -> String {
    let user = rustix::process::geteuid().as_raw();
    format!("the user of this process (id {user}) has no permission; run as its owner, give this user access")
}

/// The refusal of a folder that is, or is in, a symbolic link to nothing, such as a disk that is not mounted.
fn dangling_link(path: &Path) -> Option<Stop> {
    let link = path.ancestors().find(|part| part.is_symlink() && !part.exists())?;
    let target = fs::read_link(link).ok()?;
    Some(Stop::DataFolder(format!(
        "{} is a symbolic link to {}, which does not exist; mount or create it, or choose another folder with --datadir",
        link.display(),
        target.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_and_returns_a_genesis() {
        let parent = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(&parent.path().join("a/b")).unwrap();
        assert_eq!(folder.genesis().unwrap(), None);

        folder.keep_genesis(b"{}").unwrap();

        assert_eq!(folder.genesis().unwrap().as_deref(), Some(&b"{}"[..]));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn closes_the_files_of_a_folder_that_others_could_read() {
        let parent = tempfile::tempdir().unwrap();
        let database = parent.path().join("db");
        fs::create_dir(&database).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let file = database.join("000001.sst");
        fs::write(&file, b"x").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(&database, Permissions::from_mode(0o755)).unwrap();

        DataFolder::create(parent.path()).unwrap();
        let later = database.join("000002.sst");
        File::create(&later).unwrap();

        assert_eq!([mode(&database), mode(&file), mode(&later)], [0o700, 0o600, 0o600]);
    }

    #[test]
    fn refuses_a_folder_without_a_chain_when_one_is_needed() {
        let parent = tempfile::tempdir().unwrap();
        let error = DataFolder::existing(parent.path()).unwrap_err().to_string();
        assert!(error.contains("has no chain; give the folder with --datadir"), "{error}");
    }

    #[test]
    fn names_a_link_to_nothing_and_its_target() {
        let parent = tempfile::tempdir().unwrap();
        let link = parent.path().join("link");
        std::os::unix::fs::symlink("/nowhere/disk", &link).unwrap();

        for path in [link.clone(), link.join("data")] {
            for refused in [DataFolder::create(&path), DataFolder::existing(&path)] {
                let error = refused.unwrap_err().to_string();
                let start = format!("{} is a symbolic link to /nowhere/disk, which does not exist", link.display());
                assert!(error.starts_with(&start), "{error}");
            }
        }
    }

    #[test]
    fn removes_the_folders_of_dead_owners_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("data"), b"x").unwrap();
            path
        };
        let (mine, living, dead) = (folder("tenon-dev-mine"), folder("tenon-dev-live"), folder("tenon-dev-dead"));
        let (unowned, other) = (folder("tenon-dev-none"), folder("another"));
        fs::write(elsewhere.path().join(OWNER), b"").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), parent.path().join("tenon-dev-link")).unwrap();
        let _mine = lock_owner_file(&mine).unwrap();
        let _living = lock_owner_file(&living).unwrap();
        drop(lock_owner_file(&dead).unwrap());
        drop(lock_owner_file(&other).unwrap());

        remove_orphans(parent.path(), &mine);

        assert!(!dead.exists());
        for path in [&mine, &living, &unowned, &other] {
            assert!(path.join("data").exists(), "{}", path.display());
        }
        assert!(elsewhere.path().join(OWNER).exists() && parent.path().join("tenon-dev-link").is_symlink());
    }

    #[test]
    fn removes_an_ephemeral_folder_on_drop() {
        let folder = DataFolder::ephemeral().unwrap();
        let path = folder.path().to_owned();
        folder.write("x", b"y").unwrap();

        drop(folder);

        assert!(!path.exists());
    }
}
