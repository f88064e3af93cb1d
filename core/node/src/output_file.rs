//! An output file named by an operator. An existing file is replaced only on request; anything other than a regular
//! file is written to, or refused, but never replaced.

use std::fs::{self, File, FileType, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::exit::Stop;
use crate::own_paths::{self, OwnPaths};

/// Names of the program's own standard output.
const STANDARD_OUTPUT: &[&str] = &["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
/// Interval of the checks whether a pipe has a reader.
const CHECK_PERIOD: Duration = Duration::from_millis(50);

/// Destination of output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OutputFile {
    /// Standard output.
    Standard,
    /// A pipe, a terminal or another device, which is opened and written to.
    Stream(PathBuf),
    /// A regular file, which appears only when complete.
    Regular {
        /// Its real path.
        path: PathBuf,
        /// Whether an existing file is replaced.
        replaces: bool,
    },
}

impl OutputFile {
    /// The destination of a name.
    ///
    /// # Errors
    /// [`Stop::Usage`] if something exists there that must not be replaced, or the path belongs to the node.
    pub(crate) fn named(name: &Path, may_replace: bool, own: &OwnPaths) -> Result<Self, Stop> {
        if STANDARD_OUTPUT.iter().any(|standard| name == Path::new(standard)) {
            return Ok(Self::Standard);
        }
        let refused = |reason: &dyn std::fmt::Display| Stop::Usage(format!("{}: {reason}", name.display()));
        let found = match fs::metadata(name) {
            Ok(found) => Some(found.file_type()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(refused(&error)),
            Err(_) if name.is_symlink() => {
                return Err(refused(&"it is a link to a file that does not exist; give that file"));
            }
            Err(_) => None,
        };
        if let Some(kind) = found.filter(|kind| !kind.is_file()) {
            return match refusal_of_kind(kind) {
                None => Ok(Self::Stream(name.to_owned())),
                Some(reason) => Err(refused(&reason)),
            };
        }
        // A link is followed and kept; the checks apply to its target.
        let path = own_paths::real(name);
        if let Some(reason) = own.refusal(&path) {
            return Err(refused(&format!("{reason}; give a file elsewhere")));
        }
        if found.is_some() && !may_replace {
            return Err(refused(&"the file exists; replace it with --overwrite, or give another one"));
        }
        Ok(Self::Regular { path, replaces: found.is_some() })
    }

    /// Checks that the folder of a regular file exists.
    ///
    /// # Errors
    /// [`Stop::Usage`] naming the file.
    pub(crate) fn require_folder(&self) -> Result<(), Stop> {
        match self {
            Self::Regular { path, .. } if path.parent().is_some_and(|folder| !folder.is_dir()) => {
                let path = path.display();
                Err(Stop::Usage(format!("{path}: its folder does not exist; create it, or give another file")))
            }
            _ => Ok(()),
        }
    }
}

/// Why a file that is not regular can't be written to, if so.
fn refusal_of_kind(kind: FileType) -> Option<&'static str> {
    if kind.is_dir() {
        Some("it is a folder; give a file in it")
    } else if kind.is_block_device() {
        Some("it is a block device; give a file, a pipe or a terminal")
    } else if kind.is_socket() {
        Some("it is a socket; give a file, a pipe or a terminal")
    } else {
        None
    }
}

/// Opens a pipe or a device for writing. Waits for the reader of a pipe, as a shell does, until it is interrupted.
///
/// # Errors
/// [`Stop::Interrupted`]; [`Stop::Failure`] naming the file.
pub(crate) fn open_stream(path: &Path, is_interrupted: &dyn Fn() -> bool) -> Result<File, Stop> {
    let named = |error: io::Error| Stop::failure(format!("{}: {error}", path.display()));
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = loop {
        match OpenOptions::new().write(true).custom_flags(flags).open(path) {
            Ok(file) => break file,
            Err(error) if error.raw_os_error() != Some(Errno::NXIO.raw_os_error()) => return Err(named(error)),
            Err(_) if is_interrupted() => {
                return Err(Stop::Interrupted(format!("{}: interrupted while waiting for a reader", path.display())));
            }
            Err(_) => std::thread::sleep(CHECK_PERIOD),
        }
    };
    // A regular file may have taken the path in the meantime: it must not be overwritten.
    if file.metadata().map_err(named)?.is_file() {
        return Err(Stop::Usage(format!("{}: it was replaced by a regular file meanwhile; try again", path.display())));
    }
    let flags = fcntl_getfl(&file).map_err(|error| named(error.into()))?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK).map_err(|error| named(error.into()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use tenon_config::Settings;

    use super::*;

    struct Fixture {
        parent: tempfile::TempDir,
        own: OwnPaths,
    }

    fn fixture() -> Fixture {
        let parent = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.node.datadir = parent.path().join("data");
        fs::create_dir_all(settings.node.datadir.join("db")).unwrap();
        Fixture { own: OwnPaths::of(&settings), parent }
    }

    impl Fixture {
        fn path(&self, name: &str) -> PathBuf {
            self.parent.path().canonicalize().unwrap().join(name)
        }

        fn named(&self, name: &str, may_replace: bool) -> Result<OutputFile, String> {
            OutputFile::named(&self.path(name), may_replace, &self.own).map_err(|stop| stop.to_string())
        }
    }

    fn make_pipe(path: &Path) {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn an_existing_file_is_replaced_only_on_request() {
        let test = fixture();
        fs::write(test.path("there"), "x").unwrap();

        assert_eq!(test.named("new", false), Ok(OutputFile::Regular { path: test.path("new"), replaces: false }));
        assert!(
            test.named("there", false)
                .unwrap_err()
                .ends_with("the file exists; replace it with --overwrite, or give another one")
        );
        assert_eq!(test.named("there", true), Ok(OutputFile::Regular { path: test.path("there"), replaces: true }));
    }

    #[test]
    fn the_nodes_own_files_are_refused_even_through_a_link() {
        let test = fixture();
        fs::write(test.path("data/modules.json"), "{}").unwrap();
        std::os::unix::fs::symlink(test.path("data"), test.path("link")).unwrap();
        std::os::unix::fs::symlink(test.path("data/modules.json"), test.path("file")).unwrap();

        for name in ["data/modules.json", "data/db/CURRENT", "data/keystore/key", "data/tenon.ipc", "link/new", "file"]
        {
            let refused = test.named(name, true).unwrap_err();
            assert!(
                refused.contains("belongs to the node") && refused.ends_with("; give a file elsewhere"),
                "{refused}"
            );
        }
        assert!(test.named("data/files/chain.rlp", false).is_ok());
    }

    #[test]
    fn links_lead_to_their_file_and_pipes_and_devices_are_written_to() {
        let test = fixture();
        fs::write(test.path("target"), "x").unwrap();
        for (link, to) in [("link", "target"), ("dangling", "nowhere")] {
            std::os::unix::fs::symlink(test.path(to), test.path(link)).unwrap();
        }
        make_pipe(&test.path("pipe"));

        assert_eq!(test.named("link", true), Ok(OutputFile::Regular { path: test.path("target"), replaces: true }));
        assert!(
            test.named("dangling", true)
                .unwrap_err()
                .ends_with("it is a link to a file that does not exist; give that file")
        );
        assert_eq!(test.named("pipe", false), Ok(OutputFile::Stream(test.path("pipe"))));
        assert!(test.named("data", true).unwrap_err().ends_with("it is a folder; give a file in it"));
        let standard = OutputFile::named(Path::new("/dev/stdout"), false, &test.own).unwrap();
        assert_eq!(standard, OutputFile::Standard);
    }

    #[test]
    fn a_pipe_is_waited_for_and_stays_a_pipe() {
        let test = fixture();
        let pipe = test.path("pipe");
        make_pipe(&pipe);
        assert!(matches!(open_stream(&pipe, &|| true), Err(Stop::Interrupted(_))));

        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || {
                let mut text = String::new();
                File::open(pipe).unwrap().read_to_string(&mut text).unwrap();
                text
            }
        });
        let mut file = open_stream(&pipe, &|| false).unwrap();
        file.write_all(b"blocks").unwrap();
        drop(file);

        assert_eq!(reader.join().unwrap(), "blocks");
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    }
}
