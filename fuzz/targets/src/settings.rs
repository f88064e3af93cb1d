//! Settings: files, variables, flags.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{Seek as _, Write as _};
use std::sync::LazyLock;

use tempfile::NamedTempFile;
use tenon_config::{Layers, Resolved, SettingInfo, Value, all_settings, resolve};

/// A memory file system, if the system has one. ext4 writes a file that was truncated and rewritten to disk as soon as
/// it is closed: on a busy disk that took 34 ms per input, compared with less than 1 ms for everything else.
const MEMORY_FOLDER: &str = "/dev/shm";

static ROWS: LazyLock<Vec<SettingInfo>> = LazyLock::new(all_settings);

thread_local! {
    /// The settings file, rewritten for each input.
    static FILE: RefCell<Option<NamedTempFile>> = const { RefCell::new(None) };
}

/// Lines of `TENON_…=value` after a first byte `=`; otherwise a settings file.
pub(crate) fn layers(input: &[u8]) {
    let resolved = match input.split_first() {
        Some((b'=', lines)) => {
            let text = String::from_utf8_lossy(lines);
            let pairs = text.lines().filter_map(|line| line.split_once('='));
            resolve(base().environment(pairs.map(|(name, value)| (OsString::from(name), OsString::from(value)))))
        }
        _ => from_file(input),
    };
    match resolved {
        Ok(resolved) => check_round_trip(&resolved),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn base() -> Layers {
    Layers::new("run").temporary_data_folder()
}

fn from_file(input: &[u8]) -> Result<Resolved, tenon_config::SettingsError> {
    FILE.with_borrow_mut(|file| {
        let made = || NamedTempFile::new_in(MEMORY_FOLDER).or_else(|_| NamedTempFile::new()).expect("a temporary file");
        let file = file.get_or_insert_with(made);
        file.as_file_mut().set_len(0).expect("emptied");
        file.as_file_mut().rewind().expect("rewound");
        file.write_all(input).expect("written");
        file.flush().expect("flushed");
        resolve(base().file(Some(file.path().to_owned())))
    })
}

/// Chosen values written to a file parse to the same values.
fn check_round_trip(resolved: &Resolved) {
    let mut file = String::new();
    let mut chosen = Vec::new();
    for row in ROWS.iter().filter(|row| resolved.is_chosen(row.key)) {
        let Some(value) = resolved.settings.show(row.key) else { continue };
        if value != Value::Absent {
            file.push_str(&format!("{} = {value}\n", row.key));
            chosen.push((row.key, value));
        }
    }
    if chosen.is_empty() {
        return;
    }
    let again = from_file(file.as_bytes()).unwrap_or_else(|error| panic!("{error} in\n{file}"));
    for (key, value) in chosen {
        assert_eq!(again.settings.show(key), Some(value), "{key}");
    }
}
