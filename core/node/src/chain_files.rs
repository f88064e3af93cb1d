//! Files of blocks, written atomically. Requests may name files only inside the folders that the settings allow.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
use tempfile::NamedTempFile;
use tenon_api::messages::{ExportChain, ImportChain, ReadRequestFile};
use tenon_api::{BlockNumber, BusError, ChainReader, RequestError, shown_name};
use tenon_bus::{Bus, CallContext, RegisterError, WorkPool};
use tenon_config::Settings;
use tenon_execution::ChainHandle;

use crate::exit::Stop;
use crate::own_paths::OwnPaths;

/// Canonical blocks to write.
pub(crate) struct Blocks<'a> {
    /// The chain that contains them.
    pub(crate) chain: &'a dyn ChainReader,
    /// The first one.
    pub(crate) first: u64,
    /// The last one.
    pub(crate) last: u64,
    /// Called before each block.
    pub(crate) is_interrupted: &'a dyn Fn() -> bool,
}

impl Blocks<'_> {
    /// Writes a regular file atomically, compressed if its name ends in `.gz`. An existing file is replaced only if
    /// `replaces` is set.
    ///
    /// # Errors
    /// [`Stop::Interrupted`], or [`Stop::Failure`] naming the file; an existing file is unchanged then, and no new one
    /// exists.
    pub(crate) fn write_file(&self, path: &Path, replaces: bool) -> Result<(), Stop> {
        let named = |error: io::Error| Stop::failure(format!("{}: {error}", path.display()));
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = NamedTempFile::new_in(folder).map_err(named)?;
        self.write_to(path, file.reopen().map_err(named)?).map_err(|stop| match stop {
            Stop::Interrupted(reason) => Stop::Interrupted(format!("{reason}; no file was written")),
            other => other,
        })?;
        file.as_file().sync_all().map_err(named)?;
        let persisted = if replaces { file.persist(path) } else { file.persist_noclobber(path) };
        persisted.map_err(|error| named(error.error))?;
        Ok(())
    }

    /// Writes to an open file, compressed if its name ends in `.gz`.
    ///
    /// # Errors
    /// As [`Blocks::write_file`].
    pub(crate) fn write_to(&self, path: &Path, file: File) -> Result<(), Stop> {
        let named = |error: io::Error| Stop::failure(format!("{}: {error}", path.display()));
        if is_compressed(path) {
            let encoder = self.write(path, GzEncoder::new(BufWriter::new(file), Compression::default()))?;
            encoder.finish().and_then(|mut rest| rest.flush()).map_err(named)
        } else {
            self.write(path, BufWriter::new(file))?.flush().map_err(named)
        }
    }

    /// Writes the blocks in order. `path` names the output in errors.
    ///
    /// # Errors
    /// As [`Blocks::write_file`].
    pub(crate) fn write<W: Write>(&self, path: &Path, mut output: W) -> Result<W, Stop> {
        let named = |error: io::Error| Stop::failure(format!("{}: {error}", path.display()));
        for number in self.first..=self.last {
            if (self.is_interrupted)() {
                return Err(Stop::Interrupted(format!("interrupted at block {number}")));
            }
            let number = BlockNumber(number);
            let missing = || Stop::failure(format!("block {number} is missing; run `tenon db verify`"));
            let hash = self.chain.canonical_hash(number)?.ok_or_else(missing)?;
            let block = self.chain.block(hash)?.ok_or_else(missing)?;
            output.write_all(&tenon_chain::encode_block(&block.block)).map_err(named)?;
        }
        output.flush().map_err(named)?;
        Ok(output)
    }
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

/// Maximum length of a path in a request, bytes: that of the system.
const MAX_PATH: usize = 4096;

/// Maximum length of a profile's name, bytes.
const MAX_NAME: usize = 128;

/// Maximum number of files in the folder when a profile adds one.
const MAX_FILES: usize = 256;

/// Why a request cannot use a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestFileError {
    /// The file is in none of the folders for requests. The text does not reveal what exists elsewhere.
    #[error(
        "{name}: requests can use files in these folders only: {} (setting rpc.files); put the file there",
        comma_separated(folders)
    )]
    OutsideFolders {
        /// The beginning of the name in the request.
        name: String,
        /// The folders for requests.
        folders: Vec<PathBuf>,
    },
    /// Only the node may use the path.
    #[error("{name}: {reason}")]
    BelongsToNode {
        /// The beginning of the name in the request.
        name: String,
        /// See [`OwnPaths::refusal`].
        reason: String,
    },
    /// The path belongs to something other than a file.
    #[error("{}: not a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// A file or folder cannot be created, listed or opened.
    #[error("{}: {error}", path.display())]
    Io {
        /// The path of the file or folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A profile cannot have this name.
    #[error(
        "{name}: profiles are written into the first folder of the setting rpc.files: give a name of at most \
         {MAX_NAME} bytes without a folder"
    )]
    ProfileName {
        /// At most the first [`MAX_NAME`] characters of the name.
        name: String,
    },
    /// A profile cannot be added to the folder.
    #[error("{}: has {MAX_FILES} files already: remove some", path.display())]
    FolderFull {
        /// The folder.
        path: PathBuf,
    },
    /// The file could be opened but not read. Clients receive [`RequestError::UnreadableFile`], whose text plugins write.
    #[error("{}: cannot be read: {error}", path.display())]
    Unread {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system or of the decompression.
        error: io::Error,
    },
    /// The content of the file is longer than the request allows.
    #[error("{}: longer than {max} bytes", path.display())]
    TooLong {
        /// The path of the file.
        path: PathBuf,
        /// The allowed length, in bytes.
        max: u64,
    },
    /// The caller left, or its deadline passed, before the file was read.
    #[error("request timed out")]
    CallerGone,
}

fn comma_separated(folders: &[PathBuf]) -> String {
    let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
    folders.join(", ")
}

impl From<RequestFileError> for BusError {
    fn from(error: RequestFileError) -> Self {
        match error {
            RequestFileError::CallerGone => Self::TimedOut,
            RequestFileError::FolderFull { .. } | RequestFileError::TooLong { .. } => Self::limit_reached(error),
            RequestFileError::Unread { path, error } => {
                RequestError::UnreadableFile { path, reason: error.to_string() }.into()
            }
            error => Self::failed(error),
        }
    }
}

/// Folders in which requests may name files.
#[derive(Clone, Debug)]
pub(crate) struct RequestFolders {
    /// The folders; the first is for bare names.
    folders: Vec<PathBuf>,
    /// The node's own paths in them.
    own: OwnPaths,
}

impl RequestFolders {
    /// The folders in the settings.
    pub(crate) fn of(settings: &Settings) -> Self {
        let folders = settings.rpc.files.iter().map(|folder| settings.in_data_folder(Path::new(folder))).collect();
        Self { folders, own: OwnPaths::of(settings) }
    }

    /// The real path of a file named in a request, which need not exist. A name without a folder is in the first
    /// folder.
    ///
    /// # Errors
    /// If it is elsewhere, after resolving links and dots, or belongs to the node.
    fn place(&self, name: &str) -> Result<PathBuf, RequestFileError> {
        let refusal = || RequestFileError::OutsideFolders { name: shown_name(name), folders: self.folders.clone() };
        if name.len() > MAX_PATH {
            return Err(refusal());
        }
        let first = self.folders.first().ok_or_else(refusal)?;
        let asked = first.join(name);
        let (parent, file) = asked.parent().zip(asked.file_name()).ok_or_else(refusal)?;
        let parent = parent.canonicalize().map_err(|_| refusal())?;
        let place = parent.join(file);
        // A link in an allowed folder may lead out of it.
        let real = if place.is_symlink() { place.canonicalize().map_err(|_| refusal())? } else { place };
        let is_inside = |folder: PathBuf| real.starts_with(&folder) && real != folder;
        let is_ours = |folder: &PathBuf| folder.canonicalize().is_ok_and(is_inside);
        if !self.folders.iter().any(is_ours) {
            return Err(refusal());
        }
        match self.own.refusal(&real) {
            None => Ok(real),
            Some(reason) => Err(RequestFileError::BelongsToNode { name: shown_name(name), reason }),
        }
    }

    /// A file to write. Creates the first folder if it is missing.
    fn to_write(&self, name: &str) -> Result<PathBuf, RequestFileError> {
        if let Some(first) = self.folders.first() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(first);
            made.map_err(|error| RequestFileError::Io { path: first.clone(), error })?;
        }
        let path = self.place(name)?;
        match fs::metadata(&path) {
            Ok(found) if !found.is_file() => Err(RequestFileError::NotAFile { path }),
            _ => Ok(path),
        }
    }

    /// A file for a profile: a name without a folder, in the first folder, which is created if it is missing.
    ///
    /// # Errors
    /// If the name has any other form, if it belongs to something other than a file, or if the folder is full.
    pub(crate) fn for_profile(&self, name: &str) -> Result<PathBuf, RequestFileError> {
        let is_bare = Path::new(name).file_name().is_some_and(|file| file == name) && !name.starts_with(['~', '.']);
        let is_plain = name.len() <= MAX_NAME && !name.chars().any(char::is_control);
        if !is_bare || !is_plain {
            return Err(RequestFileError::ProfileName { name: name.chars().take(MAX_NAME).collect() });
        }
        let path = self.to_write(name)?;
        let first = self.folders.first().map(|folder| folder.join(name)).unwrap_or_default();
        match fs::symlink_metadata(&first) {
            Ok(found) if found.is_file() => return Ok(path),
            Ok(_) => return Err(RequestFileError::NotAFile { path: first }),
            Err(_) => {}
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        let entries = fs::read_dir(folder).map_err(|error| RequestFileError::Io { path: folder.to_owned(), error })?;
        if entries.take(MAX_FILES).count() == MAX_FILES {
            return Err(RequestFileError::FolderFull { path: folder.to_owned() });
        }
        Ok(path)
    }

    /// Opens a file to read. Pipes and devices, which could block a thread forever, are refused.
    fn to_read(&self, name: &str) -> Result<(PathBuf, Box<dyn Read>), RequestFileError> {
        let path = self.place(name)?;
        let named = |error| RequestFileError::Io { path: path.clone(), error };
        if !fs::metadata(&path).map_err(named)?.is_file() {
            return Err(RequestFileError::NotAFile { path });
        }
        let file = BufReader::new(File::open(&path).map_err(named)?);
        let source: Box<dyn Read> =
            if is_compressed(&path) { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) };
        Ok((path, source))
    }
}

/// Answers [`ExportChain`], [`ImportChain`] and [`ReadRequestFile`].
///
/// # Errors
/// [`RegisterError`] when another module answers one of them already.
pub(crate) fn register(
    bus: &Bus,
    work: &WorkPool,
    folders: RequestFolders,
    chain: Arc<dyn ChainReader>,
    importer: ChainHandle,
) -> Result<(), RegisterError> {
    let readable = folders.clone();
    bus.handle_work(work, move |request: ReadRequestFile, caller: &CallContext| {
        Ok(read_whole(&readable, &request, caller)?)
    })?;
    let readable = folders.clone();
    bus.handle_work(work, move |request: ImportChain, caller: &CallContext| {
        let (path, source) = readable.to_read(&request.path)?;
        Ok(importer.import_blocks(source, &path.display(), caller)?)
    })?;
    bus.handle_work(work, move |request: ExportChain, caller: &CallContext| export(&folders, &*chain, &request, caller))
}

/// Maximum length of a file that a request may read as a whole, in bytes.
const MAX_REQUEST_FILE: u64 = 64 << 20;

/// Bytes that are read between two checks whether the caller has left.
const READ_CHUNK_BYTES: u64 = 1 << 20;

fn read_whole(
    folders: &RequestFolders,
    request: &ReadRequestFile,
    caller: &CallContext,
) -> Result<tenon_api::Bytes, RequestFileError> {
    let (path, mut source) = folders.to_read(&request.name)?;
    let max = request.limit.min(MAX_REQUEST_FILE);
    let mut content = Vec::new();
    loop {
        if caller.should_stop() {
            return Err(RequestFileError::CallerGone);
        }
        let read = source.by_ref().take(READ_CHUNK_BYTES).read_to_end(&mut content);
        let read = read.map_err(|error| RequestFileError::Unread { path: path.clone(), error })?;
        if content.len() as u64 > max {
            return Err(RequestFileError::TooLong { path, max });
        }
        if read == 0 {
            return Ok(content.into());
        }
    }
}

fn export(
    folders: &RequestFolders,
    chain: &dyn ChainReader,
    request: &ExportChain,
    caller: &CallContext,
) -> Result<(), BusError> {
    let head = chain.head().header.number;
    let first = request.first.map_or(0, |first| first.0);
    let last = request.last.map_or(head, |last| last.0);
    if first > last || last > head {
        return Err(BusError::invalid_argument(format!(
            "there are no blocks {first} to {last}; the chain has 0 to {head}"
        )));
    }
    let path = folders.to_write(&request.path)?;
    let blocks = Blocks { chain, first, last, is_interrupted: &|| caller.is_cancelled() };
    match blocks.write_file(&path, true) {
        Ok(()) => {
            tracing::info!(path = %path.display(), first, last, "blocks exported by request");
            Ok(())
        }
        Err(Stop::Interrupted(_)) => Err(BusError::TimedOut),
        Err(error) => Err(BusError::failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn of_folders(parent: &Path, folders: Vec<PathBuf>) -> RequestFolders {
        let mut settings = Settings::default();
        settings.node.datadir = parent.join("data");
        settings.rpc.files = folders.iter().map(|folder| folder.display().to_string()).collect();
        RequestFolders::of(&settings)
    }

    fn folders(parent: &Path) -> RequestFolders {
        let (first, second) = (parent.join("first"), parent.join("second"));
        fs::create_dir_all(first.join("deeper")).unwrap();
        fs::create_dir_all(&second).unwrap();
        of_folders(parent, vec![first, second])
    }

    #[test]
    fn accepts_names_inside_the_folders_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path().canonicalize().unwrap();
        let folders = folders(&parent);
        fs::write(parent.join("secret"), b"x").unwrap();
        symlink(parent.join("secret"), parent.join("first/link")).unwrap();
        symlink(&parent, parent.join("first/up")).unwrap();
        symlink(parent.join("second/kept"), parent.join("first/sideways")).unwrap();
        fs::write(parent.join("second/kept"), b"x").unwrap();
        let inside = |name: &str| parent.join(name).display().to_string();
        let cases = [
            ("chain.rlp".to_owned(), Some("first/chain.rlp")),
            ("deeper/chain.rlp".to_owned(), Some("first/deeper/chain.rlp")),
            ("deeper/../chain.rlp".to_owned(), Some("first/chain.rlp")),
            (inside("second/chain.rlp"), Some("second/chain.rlp")),
            ("sideways".to_owned(), Some("second/kept")),
            ("../secret".to_owned(), None),
            (inside("secret"), None),
            ("link".to_owned(), None),
            ("up/secret".to_owned(), None),
            ("/etc/passwd".to_owned(), None),
            ("..".to_owned(), None),
            (String::new(), None),
            ("missing/chain.rlp".to_owned(), None),
        ];
        for (name, wanted) in cases {
            let place = folders.place(&name);
            assert_eq!(place.as_ref().ok(), wanted.map(|wanted| parent.join(wanted)).as_ref(), "{name:?}: {place:?}");
        }
    }

    #[test]
    fn refusals_name_the_folders_and_do_not_reveal_other_files() {
        let parent = tempfile::tempdir().unwrap();
        let folders = folders(parent.path());

        let there = folders.place("/etc/passwd").unwrap_err().to_string();
        let missing = folders.place("/etc/no-such-folder/x").unwrap_err().to_string();

        assert!(there.contains("requests can use files in these folders only") && there.contains("first"), "{there}");
        assert_eq!(there.replace("/etc/passwd", ""), missing.replace("/etc/no-such-folder/x", ""));
    }

    #[test]
    fn without_folders_no_file_can_be_named() {
        let none = of_folders(Path::new("/nowhere"), Vec::new());
        assert!(none.place("chain.rlp").is_err());
        assert!(none.to_write("chain.rlp").is_err());
    }

    #[test]
    fn the_nodes_own_files_are_refused_even_in_an_allowed_folder() {
        let parent = tempfile::tempdir().unwrap();
        let data = parent.path().join("data");
        fs::create_dir_all(data.join("db")).unwrap();
        let folders = of_folders(parent.path(), vec![data.join("db"), data, parent.path().to_owned()]);

        for name in ["CURRENT", "../modules.json", "../keystore/key"] {
            let refused = folders.place(name).unwrap_err().to_string();
            assert!(refused.contains("to the node") || refused.contains("these folders only"), "{name}: {refused}");
        }
        assert!(folders.place(&parent.path().join("chain.rlp").display().to_string()).is_ok());
    }

    #[test]
    fn profiles_have_bare_names_and_replace_only_files() {
        let parent = tempfile::tempdir().unwrap();
        let folders = folders(parent.path());
        let first = parent.path().canonicalize().unwrap().join("first");
        fs::write(first.join("old"), "x").unwrap();
        symlink(first.join("old"), first.join("link")).unwrap();

        for name in ["new", "old", "cpu.pprof"] {
            assert_eq!(folders.for_profile(name).unwrap(), first.join(name));
        }
        let long = "x".repeat(MAX_NAME + 1);
        let absolute = first.join("new").display().to_string();
        let names =
            ["", ".", "..", ".hidden", "~", "~/x", "../x", "deeper/x", "x/", "/etc/x", "link", "deeper", "a\nb"];
        for name in names.into_iter().chain([long.as_str(), absolute.as_str()]) {
            assert!(folders.for_profile(name).is_err(), "{name:?}");
        }

        for number in 0..MAX_FILES {
            fs::write(first.join(format!("file-{number}")), "").unwrap();
        }
        let full = folders.for_profile("new").unwrap_err();
        assert!(full.to_string().contains("files already"), "{full}");
        assert!(matches!(BusError::from(full), BusError::Module(RequestError::LimitReached(_))));
        assert!(folders.for_profile("old").is_ok(), "nothing is added");
    }

    #[test]
    fn a_file_is_decompressed_and_never_read_beyond_its_limit() {
        let parent = tempfile::tempdir().unwrap();
        let folders = folders(parent.path());
        let content = vec![7_u8; 3 << 20];
        fs::write(parent.path().join("first/plain"), &content).unwrap();
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(&content).unwrap();
        fs::write(parent.path().join("first/packed.gz"), packed.finish().unwrap()).unwrap();
        let read = |name: &str, limit: usize| {
            let request = ReadRequestFile { name: name.to_owned(), limit: limit as u64 };
            read_whole(&folders, &request, &CallContext::new())
        };

        for name in ["plain", "packed.gz"] {
            assert_eq!(read(name, content.len()).unwrap(), content, "{name}");
            let refused = BusError::from(read(name, content.len() - 1).unwrap_err());
            let is_limit = matches!(&refused, BusError::Module(RequestError::LimitReached(_)));
            assert!(is_limit, "{name}: {refused:?}");
        }
        let missing = BusError::from(read("missing", 1).unwrap_err());
        assert!(matches!(&missing, BusError::Module(RequestError::Failed(_))), "{missing:?}");
        fs::write(parent.path().join("first/cut.gz"), [0x1f, 0x8b]).unwrap();
        let cut = BusError::from(read("cut.gz", 1).unwrap_err());
        assert!(matches!(&cut, BusError::Module(RequestError::UnreadableFile { .. })), "{cut:?}");
        assert!(read("../first/plain", 1 << 30).is_ok(), "a path that stays inside");
        assert!(read("/etc/passwd", 1 << 30).unwrap_err().to_string().contains("these folders only"));
        for long in ["x".repeat(1 << 20), format!("/etc/{}/x", "x".repeat(1000))] {
            let refused = read(&long, 1 << 30).unwrap_err().to_string();
            assert!(refused.len() < 600 && refused.contains("these folders only"), "{refused}");
        }
    }

    #[test]
    fn a_read_whose_caller_has_left_times_out() {
        let parent = tempfile::tempdir().unwrap();
        let folders = folders(parent.path());
        fs::write(parent.path().join("first/plain"), b"x").unwrap();
        let caller = CallContext::new();
        caller.cancel();

        let request = ReadRequestFile { name: "plain".to_owned(), limit: 1 };
        let refused = read_whole(&folders, &request, &caller).unwrap_err();

        assert_eq!(BusError::from(refused), BusError::TimedOut);
    }

    #[test]
    fn reads_and_writes_only_files() {
        let parent = tempfile::tempdir().unwrap();
        let folders = folders(parent.path());

        assert!(folders.to_write("deeper").is_err(), "a folder");
        assert!(folders.to_read("deeper").is_err());
        assert!(folders.to_read("missing").is_err());
        assert!(folders.to_write("new.rlp").is_ok());
    }
}
