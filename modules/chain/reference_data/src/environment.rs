//! The file system that the database crate uses: an overlay on the folder. Files of the folder are only read, and
//! everything that the crate writes stays in memory.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read, Write};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rusty_leveldb::env::{Env, FileLock, Logger, RandomAccess};
use rusty_leveldb::{Status, StatusCode};

use crate::error::ReferenceDataError;
use crate::log;

/// Maximum total size of everything that the crate writes, in bytes. The crate compacts at most once, when it opens the
/// database: up to a few tables of the size of the reference's write buffer.
const MAX_WRITTEN: usize = 2 << 30;

/// The file with the name of the current manifest, and its maximum length in bytes.
const CURRENT: &str = "CURRENT";
const MAX_CURRENT: u64 = 4096;

/// Length of a table's footer: two handles, padding, and the magic number.
const FOOTER: usize = 48;
/// Last bytes of a table.
const MAGIC: [u8; 8] = [0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb];
/// Bytes after a table's block: compression, checksum.
const TRAILER: usize = 5;

type CrateResult<T> = rusty_leveldb::Result<T>;
type Content = Arc<Mutex<Vec<u8>>>;

/// State of the overlay.
#[derive(Default)]
struct Shared {
    /// Files that the crate has written; `None` for a file that it has removed.
    written: BTreeMap<OsString, Option<Content>>,
    /// Total size of these files in bytes.
    bytes: usize,
    /// The first problem found in a file of the folder, until [`Environment::check`] returns it.
    damage: Option<ReferenceDataError>,
}

/// The overlay. Clones share their state.
#[derive(Clone)]
pub(crate) struct Environment {
    folder: PathBuf,
    shared: Arc<Mutex<Shared>>,
}

impl Environment {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), shared: Arc::default() }
    }

    /// Returns the first problem found in the folder's files since the last call.
    ///
    /// # Errors
    /// That problem.
    pub(crate) fn check(&self) -> Result<(), ReferenceDataError> {
        self.shared.lock().damage.take().map_or(Ok(()), Err)
    }

    /// Checks the logs of the folder.
    ///
    /// # Errors
    /// The first damaged record, or an unreadable log.
    pub(crate) fn check_logs(&self) -> Result<(), ReferenceDataError> {
        for name in self.children(&self.folder).unwrap_or_default() {
            if name.extension().is_none_or(|extension| extension != "log") {
                continue;
            }
            let place = self.folder.join(&name);
            let Ok(file) = self.open(&place) else { break };
            match log::first_damage(BufReader::with_capacity(1 << 20, file)) {
                Ok(None) => {}
                Ok(Some(at)) => drop(self.damaged(&place, format!("the record at byte {at} is damaged"))),
                Err(source) => drop(self.unreadable(&place, source)),
            }
        }
        self.check()
    }

    /// Checks that the log that the manifest requires exists. Without it, the crate would open the database at an older
    /// head.
    ///
    /// # Errors
    /// The missing log, or an unreadable file.
    pub(crate) fn check_needed_log(&self) -> Result<(), ReferenceDataError> {
        let read = || -> CrateResult<Option<u64>> {
            let (mut current, mut number) = (String::new(), None);
            let names = self.folder.join(CURRENT);
            self.open(&names)?.read_to_string(&mut current).map_err(|source| self.unreadable(&names, source))?;
            let manifest = self.place(Path::new(current.trim_end()));
            let file = BufReader::with_capacity(1 << 20, self.open(&manifest)?);
            log::starts_of_entries(file, |entry| number = manifest_log(entry).or(number))
                .map_err(|source| self.unreadable(&manifest, source))?;
            Ok(number)
        };
        // If reading fails, the problem is already recorded, and `check` returns it.
        if let Ok(Some(number)) = read() {
            let place = self.folder.join(format!("{number:06}.log"));
            let _ = self.length_of(&place);
        }
        self.check()
    }

    fn note(&self, error: ReferenceDataError) -> Status {
        let text = error.to_string();
        self.shared.lock().damage.get_or_insert(error);
        Status::new(StatusCode::Corruption, &text)
    }

    fn damaged(&self, path: &Path, what: String) -> Status {
        self.note(ReferenceDataError::Damaged { path: path.to_owned(), what })
    }

    fn unreadable(&self, path: &Path, source: io::Error) -> Status {
        if source.kind() == io::ErrorKind::NotFound {
            return self.damaged(path, "the file is missing".to_owned());
        }
        self.note(ReferenceDataError::Io { path: path.to_owned(), source })
    }

    /// Opens a file of the folder. Pipes and devices, which could block or have no end, are refused without being opened.
    fn open(&self, place: &Path) -> CrateResult<File> {
        self.length_of(place)?;
        File::open(place).map_err(|source| self.unreadable(place, source))
    }

    /// The length of a regular file.
    fn length_of(&self, place: &Path) -> CrateResult<u64> {
        let found = fs::metadata(place).map_err(|source| self.unreadable(place, source))?;
        if !found.is_file() {
            return Err(self.damaged(place, "it is not a regular file".to_owned()));
        }
        if place.file_name().is_some_and(|name| name == CURRENT) && found.len() > MAX_CURRENT {
            let what = format!("it has {} bytes, more than the {MAX_CURRENT} that a file name can need", found.len());
            return Err(self.damaged(place, what));
        }
        Ok(found.len())
    }

    /// The path in the folder of a file that the crate names. Only the last component of `path` is used, because the
    /// crate uses a single folder.
    fn place(&self, path: &Path) -> PathBuf {
        path.file_name().map_or_else(|| self.folder.clone(), |name| self.folder.join(name))
    }

    /// The content that the crate has written under this name; the inner `None` if it has removed the file.
    fn written(&self, path: &Path) -> Option<Option<Content>> {
        self.shared.lock().written.get(path.file_name()?).cloned()
    }

    fn put(&self, path: &Path, content: Option<Content>) -> CrateResult<()> {
        let name = path.file_name().ok_or_else(|| {
            Status::new(
                StatusCode::InvalidArgument,
                "a path without a file \
            name",
            )
        })?;
        self.shared.lock().written.insert(name.to_owned(), content);
        Ok(())
    }

    fn writer(&self, path: &Path, content: Content) -> CrateResult<Box<dyn Write>> {
        self.put(path, Some(Arc::clone(&content)))?;
        Ok(Box::new(Writer { content, shared: Arc::clone(&self.shared), folder: self.folder.clone() }))
    }
}

/// A file that the crate writes.
struct Writer {
    content: Content,
    shared: Arc<Mutex<Shared>>,
    folder: PathBuf,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut shared = self.shared.lock();
        shared.bytes = shared.bytes.saturating_add(bytes.len());
        if shared.bytes > MAX_WRITTEN {
            let reason = format!(
                "more than {} MB must be compacted first; start the reference node with it, let it run idle for a \
                 few minutes, and stop it",
                MAX_WRITTEN >> 20
            );
            shared.damage.get_or_insert(ReferenceDataError::Open { path: self.folder.clone(), reason: reason.clone() });
            return Err(io::Error::other(reason));
        }
        drop(shared);
        self.content.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads until the buffer is full or the source ends, because the crate treats a short read as the end of the file.
pub(crate) struct Whole<R>(pub(crate) R);

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.0.read(rest) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

/// A table written by the crate.
struct WrittenTable(Content);

impl RandomAccess for WrittenTable {
    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> CrateResult<usize> {
        let content = self.0.lock();
        let rest = content.get(offset..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        Ok(count)
    }
}

/// A table of the folder. Every read by the crate is either the footer or a block with its checksum. The checksum is
/// verified here, because the crate itself would silently skip a damaged block.
struct Table {
    environment: Environment,
    path: PathBuf,
    file: File,
    length: usize,
}

impl RandomAccess for Table {
    fn read_at(&self, offset: usize, buffer: &mut [u8]) -> CrateResult<usize> {
        if offset.checked_add(buffer.len()).is_none_or(|end| end > self.length) {
            let what = format!("it ends at byte {}, inside the block at byte {offset}", self.length);
            return Err(self.environment.damaged(&self.path, what));
        }
        let read = self.file.read_exact_at(buffer, offset as u64);
        read.map_err(|source| self.environment.unreadable(&self.path, source))?;
        let is_footer = offset + buffer.len() == self.length;
        if !is_footer && !is_intact(buffer) {
            let what = format!("the checksum of the block at byte {offset} is wrong");
            return Err(self.environment.damaged(&self.path, what));
        }
        Ok(buffer.len())
    }
}

/// Returns whether the checksum (masked CRC-32C) at the end of a block matches the block and its compression byte.
fn is_intact(block: &[u8]) -> bool {
    let Some((content, checksum)) = block.split_last_chunk::<4>() else { return false };
    is_checksum(u32::from_le_bytes(*checksum), crc32c::crc32c(content))
}

/// Returns whether the masked CRC-32C of these bytes is `masked`.
pub(crate) fn is_checksum(masked: u32, content: u32) -> bool {
    content.rotate_right(15).wrapping_add(0xa282_ead8) == masked
}

/// Returns whether these bytes are the footer of a table whose two handles are inside the file.
fn is_footer(footer: &[u8], length: usize) -> bool {
    let mut rest = footer;
    let mut handles = footer.ends_with(&MAGIC);
    for _ in 0..2 {
        let handle = varint(&mut rest).zip(varint(&mut rest));
        let end = handle.and_then(|(offset, size)| offset.checked_add(size)?.checked_add(TRAILER as u64));
        handles &= end.is_some_and(|end| end <= length as u64);
    }
    handles
}

/// The number of the oldest log that is still needed, if this entry of a manifest sets it. The fields before it are the
/// name of the comparator and other numbers.
fn manifest_log(entry: &[u8]) -> Option<u64> {
    const COMPARATOR: u64 = 1;
    const LOG: u64 = 2;
    const NUMBERS: [u64; 3] = [3, 4, 9];
    let mut rest = entry;
    loop {
        let tag = varint(&mut rest)?;
        let number = varint(&mut rest)?;
        match tag {
            LOG => return Some(number),
            COMPARATOR => rest = rest.get(usize::try_from(number).ok()?..)?,
            tag if NUMBERS.contains(&tag) => {}
            _ => return None,
        }
    }
}

fn varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = input.split_first()?;
        *input = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

impl Env for Environment {
    fn open_sequential_file(&self, path: &Path) -> CrateResult<Box<dyn Read>> {
        match self.written(path) {
            Some(Some(content)) => Ok(Box::new(Cursor::new(content.lock().clone()))),
            Some(None) => Err(not_there(path)),
            None => {
                let place = self.place(path);
                Ok(Box::new(Whole(BufReader::with_capacity(1 << 20, self.open(&place)?))))
            }
        }
    }

    fn open_random_access_file(&self, path: &Path) -> CrateResult<Box<dyn RandomAccess>> {
        match self.written(path) {
            Some(Some(content)) => return Ok(Box::new(WrittenTable(content))),
            Some(None) => return Err(not_there(path)),
            None => {}
        }
        let length = self.size_of(path)?;
        let place = self.place(path);
        let file = self.open(&place)?;
        let mut footer = [0; FOOTER];
        let read = file.read_exact_at(&mut footer, length.saturating_sub(FOOTER) as u64);
        read.map_err(|source| self.unreadable(&place, source))?;
        if !is_footer(&footer, length) {
            return Err(self.damaged(
                &place,
                format!(
                    "it is not a complete table: its {length} bytes do not end with \
                a footer"
                ),
            ));
        }
        Ok(Box::new(Table { environment: self.clone(), path: place, file, length }))
    }

    fn open_writable_file(&self, path: &Path) -> CrateResult<Box<dyn Write>> {
        self.writer(path, Content::default())
    }

    fn open_appendable_file(&self, path: &Path) -> CrateResult<Box<dyn Write>> {
        // The folder's own content is not needed here: logs are read before they are appended to.
        let before = self.written(path).flatten();
        self.writer(path, before.unwrap_or_default())
    }

    fn exists(&self, path: &Path) -> CrateResult<bool> {
        Ok(match self.written(path) {
            Some(content) => content.is_some(),
            None => self.place(path).exists(),
        })
    }

    fn children(&self, _: &Path) -> CrateResult<Vec<PathBuf>> {
        let entries = fs::read_dir(&self.folder).map_err(|source| self.unreadable(&self.folder, source))?;
        let names: io::Result<Vec<OsString>> = entries.map(|entry| entry.map(|entry| entry.file_name())).collect();
        let mut names = names.map_err(|source| self.unreadable(&self.folder, source))?;
        let shared = self.shared.lock();
        names.retain(|name| !shared.written.contains_key(name));
        names.extend(shared.written.iter().filter(|(_, content)| content.is_some()).map(|(name, _)| name.clone()));
        // The crate panics on names that are not UTF-8. None of its own files has such a name.
        Ok(names.into_iter().filter(|name| name.to_str().is_some()).map(PathBuf::from).collect())
    }

    fn size_of(&self, path: &Path) -> CrateResult<usize> {
        match self.written(path) {
            Some(Some(content)) => return Ok(content.lock().len()),
            Some(None) => return Err(not_there(path)),
            None => {}
        }
        let place = self.place(path);
        let length = self.length_of(&place)?;
        let is_table = place.extension().is_some_and(|extension| extension == "ldb");
        if is_table && length < FOOTER as u64 {
            return Err(self.damaged(&place, format!("it has {length} bytes, which is too short for a table")));
        }
        Ok(usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn delete(&self, path: &Path) -> CrateResult<()> {
        self.put(path, None)
    }

    fn mkdir(&self, _: &Path) -> CrateResult<()> {
        Ok(())
    }

    fn rmdir(&self, _: &Path) -> CrateResult<()> {
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> CrateResult<()> {
        // The crate renames only files that it has written.
        let content = self.written(from).flatten().ok_or_else(|| not_there(from))?;
        self.put(from, None)?;
        self.put(to, Some(content))
    }

    fn lock(&self, path: &Path) -> CrateResult<FileLock> {
        // `folder::lock` holds the folder's real lock.
        Ok(FileLock { id: path.display().to_string() })
    }

    fn unlock(&self, _: FileLock) -> CrateResult<()> {
        Ok(())
    }

    fn new_logger(&self, _: &Path) -> CrateResult<Logger> {
        Ok(Logger::new(Box::new(io::sink())))
    }

    fn micros(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
    }

    fn sleep_for(&self, micros: u32) {
        std::thread::sleep(std::time::Duration::from_micros(micros.into()));
    }
}

fn not_there(path: &Path) -> Status {
    Status::new(StatusCode::NotFound, &path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_files_are_read_from_memory_and_never_reach_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("CURRENT"), b"MANIFEST-000001\n").unwrap();
        let environment = Environment::new(folder.path());
        let read = |name: &str| {
            let mut text = String::new();
            environment.open_sequential_file(&folder.path().join(name)).unwrap().read_to_string(&mut text).unwrap();
            text
        };

        environment.open_writable_file(&folder.path().join("new")).unwrap().write_all(b"content").unwrap();
        environment.rename(&folder.path().join("new"), &folder.path().join("CURRENT")).unwrap();

        assert_eq!(read("CURRENT"), "content");
        assert!(!environment.exists(&folder.path().join("new")).unwrap());
        assert_eq!(environment.children(folder.path()).unwrap(), [PathBuf::from("CURRENT")]);
        assert_eq!(fs::read(folder.path().join("CURRENT")).unwrap(), b"MANIFEST-000001\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_footer_with_handles_outside_the_file_is_refused() {
        let footer = |first: u8, second: u8| {
            let mut footer = [0; FOOTER];
            footer[..4].copy_from_slice(&[0, first, first, second]);
            footer[40..].copy_from_slice(&MAGIC);
            footer
        };
        assert!(is_footer(&footer(10, 20), 100));
        assert!(!is_footer(&footer(10, 90), 100) && !is_footer(&footer(127, 1), 100));
        assert!(!is_footer(&[0; FOOTER], 100) && !is_footer(&[0xff; FOOTER], 100));
    }
}
