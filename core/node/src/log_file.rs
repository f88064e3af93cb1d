//! Writes the log to files, in addition to standard error.
//!
//! A separate thread writes them, so that a slow or full disk costs only lines of the file. Lines that do not fit into
//! its queue are counted and reported at the end.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::sync::OnceLock;

use parking_lot::Mutex;
use tenon_config::{LogRotation, Settings};
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_appender::rolling::{RollingFileAppender, Rotation};

use crate::exit::Stop;
use crate::own_paths;

/// Maximum number of lines that wait for the disk; a line is some hundred bytes.
const MAX_WAITING: usize = 8_192;

static WRITER: OnceLock<NonBlocking> = OnceLock::new();
/// Waits for the last lines on drop. Locked at the start and at the end.
static GUARD: Mutex<Option<(WorkerGuard, ErrorCounter)>> = Mutex::new(None);

/// Starts to write the file named in the settings, if there is one. The data folder must exist.
///
/// # Errors
/// [`Stop::Usage`] if it can't be opened.
pub(crate) fn start(settings: &Settings) -> Result<(), Stop> {
    let Some(file) = &settings.log.file else { return Ok(()) };
    own_paths::check(settings, "log.file", file)?;
    let path = settings.in_data_folder(file);
    let appender = appender(&path, settings.log.rotation, settings.log.keep)?;
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(MAX_WAITING);
    let (writer, guard) = builder.thread_name("log file").finish(appender);
    let lost = writer.error_counter();
    if WRITER.set(writer).is_ok() {
        *GUARD.lock() = Some((guard, lost));
    }
    Ok(())
}

fn appender(path: &Path, rotation: LogRotation, keep: u32) -> Result<RollingFileAppender, Stop> {
    let refused = |reason: &dyn std::fmt::Display| Stop::Usage(format!("log.file {}: {reason}", path.display()));
    let name = path.file_name().and_then(OsStr::to_str).ok_or_else(|| refused(&"the path has no file name"))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(refused(&"its folder does not exist; make it, or choose another"));
    }
    let rotation = match rotation {
        LogRotation::Daily => Rotation::DAILY,
        LogRotation::Hourly => Rotation::HOURLY,
        LogRotation::Never => Rotation::NEVER,
    };
    let mut builder = RollingFileAppender::builder().rotation(rotation).filename_prefix(name);
    if keep > 0 {
        if let Some(other) = foreign_file(folder, name).map_err(|error| refused(&error))? {
            return Err(refused(&format_args!(
                "log.keep would delete {other}, because its name starts like that of the log file; choose another \
                 name or folder, or set log.keep to 0"
            )));
        }
        builder = builder.max_log_files(keep as usize);
    }
    builder.build(folder).map_err(|error| refused(&error))
}

/// Finds a file that is not an older part of the log (`NAME.DATE`) but whose name begins with the log's name. The
/// appender would count it as an older part, and could delete it.
fn foreign_file(folder: &Path, name: &str) -> std::io::Result<Option<String>> {
    for entry in std::fs::read_dir(folder)? {
        let found = entry?.file_name();
        let found = found.to_string_lossy();
        let Some(rest) = found.strip_prefix(name) else { continue };
        let date = rest.strip_prefix('.').unwrap_or_default();
        let is_date = !date.is_empty() && date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        if !rest.is_empty() && !is_date {
            return Ok(Some(found.into_owned()));
        }
    }
    Ok(None)
}

/// Writes a line to the file, if there is one. Never waits.
pub(crate) fn write(line: &[u8]) {
    if let Some(writer) = WRITER.get() {
        // The writer counts lines that do not fit.
        let _ = writer.clone().write_all(line);
    }
}

/// Waits, for a second at most, until the last lines are written.
pub(crate) fn finish() {
    let kept = GUARD.lock().take();
    if let Some((guard, lost)) = kept {
        let lost = lost.dropped_lines();
        if lost > 0 {
            tracing::warn!(lost, "lines of the log file were lost: the disk was too slow");
        }
        drop(guard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn names_files_by_their_start_date_and_keeps_the_last_ones() {
        let folder = tempfile::tempdir().unwrap();
        for old in ["2020-01-01", "2020-01-02", "2020-01-03"] {
            std::fs::write(folder.path().join(format!("node.log.{old}")), "old").unwrap();
        }

        let mut appender = appender(&folder.path().join("node.log"), LogRotation::Daily, 2).unwrap();
        appender.write_all(b"a line\n").unwrap();

        let names = names(folder.path());
        assert_eq!(names.len(), 2, "{names:?}");
        let today = names.iter().find(|name| !name.starts_with("node.log.2020")).unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join(today)).unwrap(), "a line\n");
    }

    #[test]
    fn a_file_without_rotation_has_the_chosen_name() {
        let folder = tempfile::tempdir().unwrap();

        drop(appender(&folder.path().join("node.log"), LogRotation::Never, 0).unwrap());

        assert_eq!(names(folder.path()), ["node.log"]);
    }

    #[test]
    fn refuses_a_name_whose_rotation_would_delete_other_files() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("node.toml"), "settings").unwrap();

        let error = appender(&folder.path().join("node"), LogRotation::Daily, 2).unwrap_err().to_string();
        appender(&folder.path().join("node"), LogRotation::Daily, 0).unwrap();

        assert!(error.contains("log.keep would delete node.toml, because"), "{error}");
    }

    #[test]
    fn names_and_refuses_a_missing_folder() {
        let error = appender(Path::new("/nowhere/node.log"), LogRotation::Daily, 7).unwrap_err().to_string();

        assert_eq!(error, "log.file /nowhere/node.log: its folder does not exist; make it, or choose another");
    }
}
