//! Finding the plugins' libraries.

use std::collections::BTreeMap;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};

use tenon_config::Settings;

use crate::exit::Stop;

/// What the libraries of this workspace are called between prefix and name.
const CRATE_PREFIX: &str = "tenon_plugin_";

/// A plugin to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundPlugin {
    /// The name by which settings know it.
    pub(crate) name: String,
    /// Its library.
    pub(crate) path: PathBuf,
    /// What it is handed, JSON text.
    pub(crate) settings_json: String,
}

/// The enabled plugins, by name. The folder is the one of the settings; without one `plugins` beside the program, and
/// where that does not exist the program's own folder, in which only names of this workspace count.
///
/// # Errors
/// [`Stop::Usage`] when the folder can't be read or a plugin of the settings has no library.
pub(crate) fn find(settings: &Settings, program_folder: &Path) -> Result<Vec<FoundPlugin>, Stop> {
    let mut libraries = match &settings.plugins.dir {
        Some(folder) => libraries_in(folder, false)?,
        None if program_folder.join("plugins").is_dir() => libraries_in(&program_folder.join("plugins"), false)?,
        None => libraries_in(program_folder, true)?,
    };
    for (name, entry) in &settings.plugin_entries {
        if let Some(path) = &entry.path {
            libraries.insert(name.clone(), path.clone());
        } else if entry.is_enabled && !libraries.contains_key(name) {
            return Err(Stop::Usage(format!(
                "plugins.{name}: no library {DLL_PREFIX}{CRATE_PREFIX}{name}{DLL_SUFFIX} in the plugin folder; give its \
                 path, or choose the folder with --plugins"
            )));
        }
    }
    let entry = |name: &str| settings.plugin_entries.get(name).cloned().unwrap_or_default();
    Ok(libraries
        .into_iter()
        .map(|(name, path)| (entry(&name), name, path))
        .filter(|(entry, ..)| entry.is_enabled)
        .map(|(entry, name, path)| FoundPlugin { name, path, settings_json: entry.settings_json })
        .collect())
}

/// The folder of the running program.
///
/// # Errors
/// [`Stop::Failure`] when the operating system does not tell.
pub(crate) fn program_folder() -> Result<PathBuf, Stop> {
    let program = std::env::current_exe().map_err(Stop::failure)?;
    Ok(program.parent().map(Path::to_owned).unwrap_or_default())
}

fn libraries_in(folder: &Path, only_own_names: bool) -> Result<BTreeMap<String, PathBuf>, Stop> {
    let unreadable =
        |error| Stop::Usage(format!("plugin folder {}: {error}; choose it with --plugins", folder.display()));
    let mut libraries = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if let Some(name) = plugin_name(&path, only_own_names) {
            libraries.insert(name, path);
        }
    }
    Ok(libraries)
}

/// `eth` for `libtenon_plugin_eth.so` and, unless only own names count, for `eth.so` too.
fn plugin_name(path: &Path, only_own_names: bool) -> Option<String> {
    let stem = path.file_name()?.to_str()?.strip_suffix(DLL_SUFFIX)?;
    let stem = stem.strip_prefix(DLL_PREFIX).unwrap_or(stem);
    match stem.strip_prefix(CRATE_PREFIX) {
        Some(name) => Some(name.to_owned()),
        None if only_own_names => None,
        None => Some(stem.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use tenon_config::PluginEntry;

    use super::*;

    fn folder_with(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        folder
    }

    fn names(settings: &Settings, folder: &Path) -> Vec<String> {
        find(settings, folder).unwrap().into_iter().map(|plugin| plugin.name).collect()
    }

    #[test]
    fn takes_the_folder_beside_the_program_before_the_programs_own() {
        let both = folder_with(&["plugins/libtenon_plugin_eth.so", "plugins/mine.so", "libtenon_plugin_net.so"]);
        let own = folder_with(&["libtenon_plugin_net.so", "libother.so", "tenon"]);

        assert_eq!(names(&Settings::default(), both.path()), ["eth", "mine"]);
        assert_eq!(names(&Settings::default(), own.path()), ["net"]);
    }

    #[test]
    fn takes_the_folder_of_the_settings_and_leaves_disabled_plugins_out() {
        let chosen = folder_with(&["eth.so", "debug.so"]);
        let mut settings = Settings::default();
        settings.plugins.dir = Some(chosen.path().to_owned());
        settings.plugin_entries.insert("debug".into(), PluginEntry { is_enabled: false, ..PluginEntry::default() });
        let mine = PluginEntry { path: Some("/opt/mine.so".into()), ..PluginEntry::default() };
        settings.plugin_entries.insert("mine".into(), mine);

        assert_eq!(names(&settings, Path::new("/nowhere")), ["eth", "mine"]);
    }

    #[test]
    fn names_a_plugin_whose_library_is_missing() {
        let folder = folder_with(&["eth.so"]);
        let mut settings = Settings::default();
        settings.plugins.dir = Some(folder.path().to_owned());
        settings.plugin_entries.insert("trace".into(), PluginEntry::default());

        let error = find(&settings, Path::new("/nowhere")).unwrap_err().to_string();

        assert!(error.contains("plugins.trace: no library libtenon_plugin_trace.so in the plugin folder"), "{error}");
    }
}
