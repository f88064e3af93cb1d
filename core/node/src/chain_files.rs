//! Files of blocks, written atomically. Requests may name files only inside the folders that the settings allow
//! (`design.md` 8).

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::{Compression, read::MultiGzDecoder, write::GzEncoder};
use tempfile::NamedTempFile;
use tenon_api::messages::{ExportChain, ImportChain};
use tenon_api::{BlockNumber, ChainReader, Failure};
use tenon_bus::{Bus, CallContext, RegisterError, WorkPool};
use tenon_config::Settings;
use tenon_execution::ChainHandle;

use crate::exit::Stop;
use crate::own_paths::OwnPaths;

/// Canonical blocks that are to be written.
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
    /// [`Stop::Interrupted`], or [`Stop::Failure`] naming the file; there is none then, or the one before.
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

    /// Writes to a file that is open, compressed when its name ends in `.gz`.
    ///
    /// # Errors
    /// As [`Blocks::write_file`].
    pub(crate) fn write_to(&self, path: &Path, file: File) -> Result<(), Stop> {
        let named = |error: io::Error| Stop::failure(format!("{}: {error}", path.display()));
        if is_compressed(path) {
            let encoder = self.write(GzEncoder::new(BufWriter::new(file), Compression::default()))?;
            encoder.finish().and_then(|mut rest| rest.flush()).map_err(named)
        } else {
            self.write(BufWriter::new(file))?.flush().map_err(named)
        }
    }

    /// Writes them one after another.
    ///
    /// # Errors
    /// As [`Blocks::write_file`].
    pub(crate) fn write<W: Write>(&self, mut output: W) -> Result<W, Stop> {
        for number in self.first..=self.last {
            if (self.is_interrupted)() {
                return Err(Stop::Interrupted(format!("interrupted at block {number}")));
            }
            let number = BlockNumber(number);
            let missing = || Stop::failure(format!("block {number} is missing; run `tenon db verify`"));
            let hash = self.chain.canonical_hash(number)?.ok_or_else(missing)?;
            let block = self.chain.block(hash)?.ok_or_else(missing)?;
            output.write_all(&tenon_chain::encode_block(&block.block)).map_err(Stop::failure)?;
        }
        output.flush().map_err(Stop::failure)?;
        Ok(output)
    }
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
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
    /// Those of the settings.
    pub(crate) fn of(settings: &Settings) -> Self {
        let folders = settings.rpc.files.iter().map(|folder| settings.in_data_folder(Path::new(folder))).collect();
        Self { folders, own: OwnPaths::of(settings) }
    }

    /// The real path of a file that a request names, which need not exist. A name without a folder is in the first
    /// folder.
    ///
    /// # Errors
    /// If it lies elsewhere, after resolving links and dots. The text does not reveal what exists elsewhere.
    fn place(&self, name: &str) -> Result<PathBuf, Failure> {
        let refusal = || {
            let folders: Vec<_> = self.folders.iter().map(|folder| folder.display().to_string()).collect();
            let folders = folders.join(", ");
            Failure::server(format!(
                "{name}: requests may name files in these folders only: {folders} (setting rpc.files); put it there"
            ))
        };
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
            Some(reason) => Err(Failure::server(format!("{name}: {reason}"))),
        }
    }

    /// A file to write. Creates the first folder if it is missing.
    fn to_write(&self, name: &str) -> Result<PathBuf, Failure> {
        if let Some(first) = self.folders.first() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(first);
            made.map_err(|error| Failure::server(format!("{}: {error}", first.display())))?;
        }
        let path = self.place(name)?;
        match fs::metadata(&path) {
            Ok(found) if !found.is_file() => Err(not_a_file(&path)),
            _ => Ok(path),
        }
    }

    /// Opens a file to read. Pipes and devices, which could block a thread for ever, are refused.
    fn to_read(&self, name: &str) -> Result<(PathBuf, Box<dyn Read>), Failure> {
        let path = self.place(name)?;
        let named = |error: io::Error| Failure::server(format!("{}: {error}", path.display()));
        if !fs::metadata(&path).map_err(named)?.is_file() {
            return Err(not_a_file(&path));
        }
        let file = BufReader::new(File::open(&path).map_err(named)?);
        let source: Box<dyn Read> =
            if is_compressed(&path) { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) };
        Ok((path, source))
    }
}

fn not_a_file(path: &Path) -> Failure {
    Failure::server(format!("{}: not a file", path.display()))
}

/// Answers [`ExportChain`] and [`ImportChain`].
///
/// # Errors
/// [`RegisterError`] when another module answers one of them already.
pub(crate) fn register(
    bus: &Bus,
    work: &WorkPool,
    folders: RequestFolders,
    chain: Arc<dyn ChainReader>,
    writer: ChainHandle,
) -> Result<(), RegisterError> {
    let readable = folders.clone();
    bus.handle_work(work, move |request: ImportChain, caller: &CallContext| {
        let (path, source) = readable.to_read(&request.path)?;
        writer.import_blocks(source, &path.display(), caller)
    })?;
    bus.handle_work(work, move |request: ExportChain, caller: &CallContext| export(&folders, &*chain, &request, caller))
}

fn export(
    folders: &RequestFolders,
    chain: &dyn ChainReader,
    request: &ExportChain,
    caller: &CallContext,
) -> Result<(), Failure> {
    let head = chain.head().header.number;
    let first = request.first.map_or(0, |first| first.0);
    let last = request.last.map_or(head, |last| last.0);
    if first > last || last > head {
        return Err(Failure::invalid_params(format!(
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
        Err(Stop::Interrupted(_)) => Err(Failure::limit("request timed out")),
        Err(error) => Err(Failure::server(error.to_string())),
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
    fn takes_names_inside_the_folders_and_no_others() {
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
    fn refusals_tell_the_folders_and_not_what_is_elsewhere() {
        let parent = tempfile::tempdir().unwrap();
        let folders = folders(parent.path());

        let there = folders.place("/etc/passwd").unwrap_err().message;
        let missing = folders.place("/etc/no-such-folder/x").unwrap_err().message;

        assert!(there.contains("requests may name files in these folders only") && there.contains("first"), "{there}");
        assert_eq!(there.replace("/etc/passwd", ""), missing.replace("/etc/no-such-folder/x", ""));
    }

    #[test]
    fn without_folders_no_file_can_be_named() {
        let none = of_folders(Path::new("/nowhere"), Vec::new());
        assert!(none.place("chain.rlp").is_err());
        assert!(none.to_write("chain.rlp").is_err());
    }

    #[test]
    fn what_belongs_to_the_node_is_no_file_of_a_request_though_its_folder_is_named() {
        let parent = tempfile::tempdir().unwrap();
        let data = parent.path().join("data");
        fs::create_dir_all(data.join("db")).unwrap();
        let folders = of_folders(parent.path(), vec![data.join("db"), data, parent.path().to_owned()]);

        for name in ["CURRENT", "../modules.json", "../keystore/key"] {
            let refused = folders.place(name).unwrap_err().message;
            assert!(refused.contains("to the node") || refused.contains("these folders only"), "{name}: {refused}");
        }
        assert!(folders.place(&parent.path().join("chain.rlp").display().to_string()).is_ok());
    }

    #[test]
    fn reads_and_writes_files_only() {
        let parent = tempfile::tempdir().unwrap();
        let folders = folders(parent.path());

        assert!(folders.to_write("deeper").is_err(), "a folder");
        assert!(folders.to_read("deeper").is_err());
        assert!(folders.to_read("missing").is_err());
        assert!(folders.to_write("new.rlp").is_ok());
    }
}
