//! The folder of key files: `docs/spec/rpc-node.md` 6.4.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use alloy_primitives::{Address, hex};
use tenon_api::KeyFileProblem;
use tenon_file_access::{FileExposure, check_secret, check_unchangeable};
use zeroize::Zeroizing;

use super::{
    CostLimits, FileNames, KeyDerivation, KeyFile, KeyFolderError, ListedKey, MAX_KEY_FILE_BYTES,
    sealed_text::{fill_random, seal},
};
use crate::key::Key;

/// Prefix of files that are being written. The dot hides them from clients that list keys.
const TEMPORARY_PREFIX: &str = ".tenon-key-";
/// Age after which a temporary file must belong to a process that was killed.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// A folder of key files, with the parameters for new ones.
#[derive(Clone, Debug)]
pub struct KeyFolder {
    path: PathBuf,
    names: FileNames,
    derivation: KeyDerivation,
    limits: CostLimits,
}

/// A key file that has been written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredKey {
    /// The key's address.
    pub address: Address,
    /// Its path.
    pub path: PathBuf,
}

impl KeyFolder {
    /// A folder, which need not exist yet, with the naming and encryption of new files. No file may cost more than
    /// `limits`.
    pub const fn new(path: PathBuf, names: FileNames, derivation: KeyDerivation, limits: CostLimits) -> Self {
        Self { path, names, derivation, limits }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Limits on the cost of opening a file.
    pub const fn limits(&self) -> &CostLimits {
        &self.limits
    }

    /// Memory needed to write a file, for the budget.
    pub const fn memory_of_new_file(&self) -> u64 {
        self.derivation.memory()
    }

    /// Reads and checks a key file, without decrypting it. A symbolic link, a folder or a pipe is refused.
    ///
    /// # Errors
    /// [`KeyFolderError::System`], [`KeyFolderError::File`].
    pub fn read(&self, path: &Path) -> Result<KeyFile, KeyFolderError> {
        let text = read_bounded(path).map_err(KeyFolderError::system(path))?;
        KeyFile::parse(&text, &self.limits).map_err(|source| KeyFolderError::File { path: path.to_owned(), source })
    }

    /// Creates a key and encrypts it into a new file. Blocks the thread for twice the time of the derivation.
    ///
    /// # Errors
    /// [`KeyFolderError`]; the folder is unchanged then.
    pub fn create(&self, password: &[u8]) -> Result<StoredKey, KeyFolderError> {
        let mut secret = Zeroizing::new([0; 32]);
        loop {
            fill_random(secret.as_mut_slice())?;
            // Fails for one number in 2^128.
            if let Some(key) = Key::from_secret(secret.clone()) {
                return self.store(&key, password);
            }
        }
    }

    /// Encrypts a given key into a new file. Blocks the thread for twice the time of the derivation.
    ///
    /// # Errors
    /// [`KeyFolderError`]; [`KeyFileProblem::InvalidKey`] if the number is not a valid key. The folder is unchanged then.
    pub fn import(&self, secret: Zeroizing<[u8; 32]>, password: &[u8]) -> Result<StoredKey, KeyFolderError> {
        self.store(&Key::from_secret(secret).ok_or(KeyFileProblem::InvalidKey)?, password)
    }

    /// Re-encrypts the key of another client's file into a new file of this folder, with a new password.
    ///
    /// # Errors
    /// [`KeyFolderError`], including a wrong password.
    pub fn adopt(&self, file: &KeyFile, password: &[u8], new_password: &[u8]) -> Result<StoredKey, KeyFolderError> {
        self.store(&file.open(password)?, new_password)
    }

    /// Changes the password of a file, and its cost to that of new files.
    ///
    /// # Errors
    /// [`KeyFolderError`]; the old file is unchanged then.
    pub fn change_password(&self, path: &Path, password: &[u8], new_password: &[u8]) -> Result<(), KeyFolderError> {
        let key = self.read(path)?.open(password)?;
        self.write(&key, new_password, path)
    }

    /// Encrypts a key into a new file. Blocks the thread for twice the time of the derivation: the file is opened again
    /// before it is renamed.
    ///
    /// # Errors
    /// [`KeyFolderError`]; the folder is unchanged then.
    pub(crate) fn store(&self, key: &Key, password: &[u8]) -> Result<StoredKey, KeyFolderError> {
        create_private_folder(&self.path).map_err(KeyFolderError::system(&self.path))?;
        let path = self.path.join(self.names.name(key.address(), SystemTime::now()));
        if fs::symlink_metadata(&path).is_ok() {
            return Err(KeyFolderError::Exists(path));
        }
        self.write(key, password, &path)?;
        Ok(StoredKey { address: key.address(), path })
    }

    fn write(&self, key: &Key, password: &[u8], path: &Path) -> Result<(), KeyFolderError> {
        let text = seal(key, password, self.derivation)?;
        let temporary = Temporary::write(&self.path, text.as_bytes())?;
        self.verify(&temporary.path, key.address(), password)
            .map_err(|source| KeyFolderError::NotVerified { path: temporary.path.clone(), source })?;
        temporary.rename(path)
    }

    /// Opens the written file again, from disk.
    fn verify(&self, path: &Path, address: Address, password: &[u8]) -> Result<(), KeyFileProblem> {
        let unreadable = |_| KeyFileProblem::NotJson { line: 0, column: 0 };
        let file = KeyFile::parse(&read_bounded(path).map_err(unreadable)?, &self.limits)?;
        let have = file.open(password)?.address();
        if have == address { Ok(()) } else { Err(KeyFileProblem::OtherAccount { have, want: address }) }
    }

    /// The folder and the files of `keys` that other users could replace or read.
    pub(crate) fn exposed(&self, keys: &[ListedKey]) -> Vec<(PathBuf, FileExposure)> {
        let problem = |path: &Path, check: fn(&fs::Metadata) -> Result<(), FileExposure>| {
            let exposed = check(&fs::metadata(path).ok()?).err()?;
            Some((path.to_owned(), exposed))
        };
        let files = keys.iter().filter_map(|key| problem(&key.path, check_secret));
        problem(&self.path, check_unchangeable).into_iter().chain(files).collect()
    }

    /// Removes temporary files left by killed processes, an hour after they were written.
    pub fn remove_abandoned(&self) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        let now = SystemTime::now();
        for entry in entries.flatten() {
            let is_temporary = entry.file_name().as_encoded_bytes().starts_with(TEMPORARY_PREFIX.as_bytes());
            let written = entry.metadata().and_then(|metadata| metadata.modified());
            let age = written.ok().and_then(|written| now.duration_since(written).ok());
            if is_temporary && age.is_some_and(|age| age > ABANDONED_AFTER) {
                // A failure is retried at the next start.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// A file that is being written. Removed on drop unless it was renamed.
struct Temporary {
    path: PathBuf,
    is_kept: bool,
}

impl Temporary {
    fn write(folder: &Path, text: &[u8]) -> Result<Self, KeyFolderError> {
        let mut random = [0; 8];
        fill_random(&mut random)?;
        let path = folder.join(format!("{TEMPORARY_PREFIX}{}.tmp", hex::encode(random)));
        let failed = KeyFolderError::system(&path);
        let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => file,
            Err(error) => return Err(failed(error)),
        };
        let temporary = Self { path: path.clone(), is_kept: false };
        file.write_all(text).and_then(|()| file.sync_all()).map_err(failed)?;
        Ok(temporary)
    }

    fn rename(mut self, to: &Path) -> Result<(), KeyFolderError> {
        fs::rename(&self.path, to).map_err(KeyFolderError::system(to))?;
        self.is_kept = true;
        // The new name is durable once the folder is synced.
        let folder = to.parent().unwrap_or(to);
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(KeyFolderError::system(folder))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_kept {
            // A file that cannot be removed now is removed by `remove_abandoned`.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn create_private_folder(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).recursive(true).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// The content of a regular file, up to one byte more than the maximum of a key file.
pub(super) fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    // Opening a pipe would block the thread, and a link could point elsewhere.
    let flags = rustix::fs::OFlags::NOFOLLOW.union(rustix::fs::OFlags::NONBLOCK);
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut text = Vec::new();
    file.take(MAX_KEY_FILE_BYTES as u64 + 1).read_to_end(&mut text)?;
    Ok(text)
}
