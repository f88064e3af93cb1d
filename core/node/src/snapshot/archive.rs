//! Writes snapshots in one file: a tar archive in which each part is a gzip member of its own, with the list at the
//! end. So an unfinished file can be truncated after any part and continued. Other tools see an ordinary `.tar.gz`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use super::hashed::Hashed;
use super::new_file::{with_end, write_named};
use crate::backup::{self, DATABASE, FileRecord, GENESIS, Manifest};
use crate::backup_source::MANIFEST;
use crate::bounded_file;
use crate::exit::Stop;
use crate::synced_files::{self, failed};

/// Suffix of the list of an unfinished file's complete parts.
const INDEX: &str = ".unfinished.json";
/// Block size of tar archives, in bytes.
const BLOCK: u64 = 512;

/// The complete parts of an unfinished file.
#[derive(Default, Serialize, Deserialize)]
struct Written {
    parts: Vec<(FileRecord, u64)>,
}

/// The file during writing, and the list of its complete parts next to it.
struct Unfinished {
    path: PathBuf,
    index: PathBuf,
    file: File,
    written: Written,
}

impl Unfinished {
    fn open(target: &Path) -> Result<Self, Stop> {
        let (path, index) = names(target);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(failed(&path))?;
        let written = match bounded_file::manifest(&index) {
            // Written atomically, so one that cannot be read is useless.
            Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Written::default(),
            Err(error) => return Err(failed(&index)(error)),
        };
        let unfinished = Self { path, index, file, written };
        unfinished.keep_index()?;
        Ok(unfinished)
    }

    fn keep_index(&self) -> Result<(), Stop> {
        write_named(&self.index, &serde_json::to_vec(&self.written).map_err(Stop::failure)?)
    }

    /// Keeps the leading parts that are still equal to the database's, and truncates the file after them. Returns their
    /// number.
    fn keep_equal(&mut self, parts: &[(String, PathBuf)]) -> Result<usize, Stop> {
        let length = fs::metadata(&self.path).map_err(failed(&self.path))?.len();
        let mut kept = 0;
        for ((record, end), (path, from)) in self.written.parts.iter().zip(parts) {
            if record.path != *path
                || *end > length
                || synced_files::copy(from, None, u64::MAX)? != (record.bytes, record.sha256)
            {
                break;
            }
            kept += 1;
        }
        self.written.parts.truncate(kept);
        let end = self.written.parts.last().map_or(0, |(_, end)| *end);
        self.file.set_len(end).map_err(failed(&self.path))?;
        self.file.seek(SeekFrom::Start(end)).map_err(failed(&self.path))?;
        Ok(kept)
    }

    /// Adds a part, and records it once it is on the disk.
    fn add(&mut self, path: &str, mut source: impl Read, length: u64) -> Result<FileRecord, Stop> {
        let mut encoder = GzEncoder::new(BufWriter::with_capacity(1 << 20, &self.file), Compression::fast());
        let mut header = tar::Header::new_gnu();
        header.set_path(path).map_err(failed(&self.path))?;
        header.set_size(length);
        header.set_mode(0o600);
        header.set_cksum();
        let mut hashed = Hashed::new((&mut source).take(length));
        encoder.write_all(header.as_bytes()).map_err(failed(&self.path))?;
        // An error of the source appears as one of the file, so both are named.
        io::copy(&mut hashed, &mut encoder).map_err(|error| {
            Stop::Failure(format!("{}: writing {path}: {error}; run the same command to continue", self.path.display()))
        })?;
        let padding = usize::try_from(length.next_multiple_of(BLOCK) - length).unwrap_or_default();
        encoder.write_all(&vec![0; padding]).map_err(failed(&self.path))?;
        encoder.finish().and_then(|mut output| output.flush()).map_err(failed(&self.path))?;
        self.file.sync_data().map_err(failed(&self.path))?;
        let end = self.file.stream_position().map_err(failed(&self.path))?;
        let (bytes, sha256) = hashed.end();
        if bytes != length {
            return Err(Stop::Failure(format!("{path}: it was truncated while it was read")));
        }
        let record = FileRecord { path: path.to_owned(), bytes, sha256 };
        self.written.parts.push((record.clone(), end));
        self.keep_index()?;
        Ok(record)
    }

    /// Ends the archive, and renames it.
    fn finish(self, target: &Path) -> Result<(), Stop> {
        let mut encoder = GzEncoder::new(&self.file, Compression::fast());
        encoder.write_all(&[0; 1024]).and_then(|()| encoder.finish().map(drop)).map_err(failed(&self.path))?;
        self.file.sync_all().map_err(failed(&self.path))?;
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::rename(&self.path, target).map_err(failed(target))?;
        synced_files::sync(folder)?;
        fs::remove_file(&self.index).map_err(failed(&self.index))
    }
}

/// The names of an unfinished file and of the list of its parts.
fn names(target: &Path) -> (PathBuf, PathBuf) {
    (with_end(target, ".unfinished"), with_end(target, INDEX))
}

/// Refuses a place at which something else than an unfinished snapshot exists. Removes the list of parts of a file that
/// is complete: it is left if the command was killed after its last step.
///
/// # Errors
/// As [`super::check_target`].
pub(super) fn check_target(target: &Path) -> Result<(), Stop> {
    let (path, index) = names(target);
    if target.exists() {
        if index.exists() {
            fs::remove_file(&index).map_err(failed(&index))?;
        }
        return Err(Stop::Usage(format!("{} already exists; give another file", target.display())));
    }
    let is_strange = path.exists() && !index.exists();
    if is_strange && fs::metadata(&path).map_err(failed(&path))?.len() > 0 {
        return Err(Stop::Usage(format!(
            "{} is not an unfinished snapshot; remove it, or give another file",
            path.display()
        )));
    }
    Ok(())
}

/// Makes a snapshot in one file. Parts of an earlier attempt that are still equal to the database's are not written
/// again.
///
/// # Errors
/// As [`super::create`].
pub(super) fn create(database: &Path, genesis: &[u8], target: &Path, mut manifest: Manifest) -> Result<Manifest, Stop> {
    check_target(target)?;
    let mut unfinished = Unfinished::open(target)?;
    let parts: Vec<_> =
        backup::names(database)?.into_iter().map(|name| (format!("{DATABASE}/{name}"), database.join(name))).collect();
    let kept = unfinished.keep_equal(&parts)?;
    manifest.files.extend(unfinished.written.parts.iter().map(|(record, _)| record.clone()));
    for (path, from) in parts.iter().skip(kept) {
        let source = bounded_file::regular(from).map_err(failed(from))?;
        let length = source.metadata().map_err(failed(from))?.len();
        manifest.files.push(unfinished.add(path, BufReader::with_capacity(1 << 20, source), length)?);
    }
    manifest.files.push(unfinished.add(GENESIS, genesis, genesis.len() as u64)?);
    let list = serde_json::to_vec_pretty(&manifest).map_err(Stop::failure)?;
    unfinished.add(MANIFEST, list.as_slice(), list.len() as u64)?;
    unfinished.finish(target)?;
    Ok(manifest)
}
