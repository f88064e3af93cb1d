//! The plugins in the settings and in the plugin folders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tenon_api::{Capability, SpaceLimits};
use tenon_config::{PluginEntry, Settings};
use tenon_host::{BUILT_IN_LIST, BuiltIns, PluginFolder, VouchedBuilds, libraries_in};
use tenon_isolation::{Isolation, PluginLimits};
use tenon_modules::PluginPlan;

use crate::exit::Stop;

/// The plugins that come with this program, by name. Their namespaces have the same names, except for capitals.
pub(crate) const BUILT_IN_PLUGINS: &[&str] =
    &["admin", "consensus", "debug", "eth", "miner", "net", "personal", "rpc", "txpool", "web3"];

/// Folders from which libraries are loaded: the one in the settings, by default `plugins` next to the program. If that
/// does not exist, it is the program's own folder, where only libraries with the prefix of built-in plugins count.
pub(crate) fn folders(settings: &Settings, program_folder: &Path) -> Vec<PluginFolder> {
    vec![match &settings.plugins.dir {
        Some(folder) => PluginFolder::new(folder),
        None => folder_of_program(program_folder),
    }]
}

/// The folder of the plugins that come with this program.
fn folder_of_program(program_folder: &Path) -> PluginFolder {
    let beside = program_folder.join("plugins");
    if beside.is_dir() {
        PluginFolder::new(beside)
    } else {
        PluginFolder { path: program_folder.to_owned(), has_only_own_names: true }
    }
}

/// The plugins that were built with this program, from the list that the build writes next to it. A list in the folder
/// of the settings is ignored: libraries must not vouch for themselves.
///
/// # Errors
/// [`Stop::Usage`] if users other than root and the node's own could have written the list.
pub(crate) fn built_ins(program_folder: &Path) -> Result<BuiltIns, Stop> {
    let folder = folder_of_program(program_folder).path;
    let list = BuiltIns::read(&folder).map_err(|error| Stop::Usage(error.to_string()))?;
    Ok(list.unwrap_or_default())
}

/// Warns that there is no list of built-in plugins, and of the consequences.
pub(crate) fn warn_of_no_list(program_folder: &Path) {
    let list = folder_of_program(program_folder).path.join(BUILT_IN_LIST);
    tracing::warn!(list = %list.display(), "no list of built-in plugins: every plugin counts as foreign, may not \
        serve a built-in namespace, and has only the capabilities that the settings grant; scripts/list-plugins.sh \
        FOLDER writes the list of a build");
}

/// Builds that the settings vouch for.
///
/// # Errors
/// [`Stop::Usage`] for an invalid hash.
pub(crate) fn vouched(settings: &Settings) -> Result<VouchedBuilds, Stop> {
    let hashes = settings.plugins.trusted.iter().map(String::as_str);
    VouchedBuilds::from_hashes(hashes).map_err(|error| Stop::Usage(format!("plugins.trusted: {error}")))
}

/// The plan of every plugin: of those in the folder of the settings, and of built-in ones, which may also be in the
/// program's folder. The plan of a missing plugin has the expected path, so that its start fails visibly.
///
/// # Errors
/// [`Stop::Usage`] if a folder can't be read, a required plugin of the settings has no library, or a capability does
/// not exist.
pub(crate) fn plans(settings: &Settings, program_folder: &Path) -> Result<Vec<PluginPlan>, Stop> {
    let folders = folders(settings, program_folder);
    let mut libraries = BTreeMap::new();
    for folder in &folders {
        libraries.extend(libraries_of(folder)?);
    }
    let built_ins = built_ins(program_folder)?;
    let has_built_ins = built_ins.names().next().is_some();
    if settings.plugins.dir.is_some() && has_built_ins {
        let own = libraries_of(&folder_of_program(program_folder))?;
        for (name, path) in own.into_iter().filter(|(name, _)| built_ins.has_name(name)) {
            libraries.entry(name).or_insert(path);
        }
    }
    for name in built_ins.names() {
        let expected = folder_of_program(program_folder).path.join(format!("libtenon_plugin_{name}.so"));
        libraries.entry(name.to_owned()).or_insert(expected);
    }
    for (name, entry) in &settings.plugin_entries {
        if let Some(path) = &entry.path {
            libraries.insert(name.clone(), path.clone());
        } else if entry.is_enabled && !libraries.contains_key(name) {
            let library = format!("libtenon_plugin_{name}.so");
            if entry.is_required {
                return Err(Stop::Usage(format!(
                    "plugins.{name}: no library {library} in the plugin folder; give its path, or choose the folder with \
                     --plugins"
                )));
            }
            // Only this module fails, as if its library could not be opened.
            let folder = folders.first().map(|folder| folder.path.as_path()).unwrap_or(Path::new(""));
            libraries.insert(name.clone(), folder.join(library));
        }
    }
    let entry = |name: &str| settings.plugin_entries.get(name).cloned().unwrap_or_default();
    let is_unsandboxed = |name: &String| settings.plugins.unsandboxed.contains(name);
    let plans = libraries.into_iter().map(|(name, path)| {
        let may_run_unsandboxed = is_unsandboxed(&name);
        Ok(PluginPlan { may_run_unsandboxed, ..plan(entry(&name), name, path)? })
    });
    plans.collect()
}

fn libraries_of(folder: &PluginFolder) -> Result<BTreeMap<String, PathBuf>, Stop> {
    let found = libraries_in(folder).map_err(|error| {
        Stop::Usage(format!("plugin folder {}: {error}; choose it with --plugins", folder.path.display()))
    })?;
    Ok(found.into_iter().collect())
}

fn plan(entry: PluginEntry, name: String, path: PathBuf) -> Result<PluginPlan, Stop> {
    let named = |names: &Vec<String>| Capability::from_names(names.iter().map(String::as_str));
    let capabilities = entry.capabilities.as_ref().map(named).transpose();
    let capabilities = capabilities.map_err(|error| Stop::Usage(format!("plugins.{name}.capabilities: {error}")))?;
    Ok(PluginPlan {
        is_enabled: entry.is_enabled,
        is_required: entry.is_required,
        isolation: entry.isolation.as_deref().and_then(Isolation::from_name),
        capabilities,
        limits: PluginLimits {
            memory: entry.limits.memory.map(|bytes| bytes.0),
            call_time: entry.limits.call_time,
            calls: entry.limits.calls,
            restarts: entry.limits.restarts,
            log_lines: entry.limits.log_lines,
        },
        storage: storage_limits(&entry),
        settings: entry.settings_json,
        ..PluginPlan::new(name, path)
    })
}

/// The storage limits of a plugin, if its settings have any.
fn storage_limits(entry: &PluginEntry) -> Option<SpaceLimits> {
    let (bytes, records) = (entry.limits.storage, entry.limits.storage_records);
    let default = SpaceLimits::default();
    (bytes.is_some() || records.is_some()).then(|| SpaceLimits {
        bytes: bytes.map_or(default.bytes, |bytes| bytes.0),
        records: records.unwrap_or(default.records),
    })
}

/// The folder of the running program.
///
/// # Errors
/// [`Stop::Failure`] if the operating system does not report it.
pub(crate) fn program_folder() -> Result<PathBuf, Stop> {
    let program = std::env::current_exe().map_err(Stop::failure)?;
    Ok(program.parent().map(Path::to_owned).unwrap_or_default())
}

#[cfg(test)]
mod tests {
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
        let plans = plans(settings, folder).unwrap();
        plans.into_iter().filter(|plan| plan.is_enabled).map(|plan| plan.name).collect()
    }

    #[test]
    fn prefers_the_folder_next_to_the_program_to_the_programs_own() {
        let both = folder_with(&["plugins/libtenon_plugin_eth.so", "plugins/mine.so", "libtenon_plugin_net.so"]);
        let own = folder_with(&["libtenon_plugin_net.so", "libother.so", "tenon"]);

        assert_eq!(names(&Settings::default(), both.path()), ["eth", "mine"]);
        assert_eq!(names(&Settings::default(), own.path()), ["net"]);
    }

    #[test]
    fn uses_the_folder_of_the_settings_and_omits_disabled_plugins() {
        let chosen = folder_with(&["eth.so", "debug.so"]);
        let mut settings = Settings::default();
        settings.plugins.dir = Some(chosen.path().to_owned());
        settings.plugin_entries.insert("debug".into(), PluginEntry { is_enabled: false, ..PluginEntry::default() });
        let mine = PluginEntry { path: Some("/opt/mine.so".into()), ..PluginEntry::default() };
        settings.plugin_entries.insert("mine".into(), mine);

        assert_eq!(names(&settings, Path::new("/nowhere")), ["eth", "mine"]);
    }

    #[test]
    fn a_missing_library_is_left_to_fail_unless_its_plugin_is_required() {
        let folder = folder_with(&["eth.so"]);
        let mut settings = Settings::default();
        settings.plugins.dir = Some(folder.path().to_owned());
        settings.plugin_entries.insert("trace".into(), PluginEntry::default());
        let plans_of = |settings: &Settings| plans(settings, Path::new("/nowhere"));

        let plans = plans_of(&settings).unwrap();
        let required = PluginEntry { is_required: true, ..PluginEntry::default() };
        settings.plugin_entries.insert("trace".into(), required);
        let error = plans_of(&settings).unwrap_err().to_string();

        assert_eq!(plans[1].path, folder.path().join("libtenon_plugin_trace.so"));
        assert!(error.contains("plugins.trace: no library libtenon_plugin_trace.so in the plugin folder"), "{error}");
    }

    #[test]
    fn the_list_of_built_in_plugins_is_the_one_next_to_the_program_and_not_in_a_chosen_folder() {
        let list = format!("{}  libtenon_plugin_eth.so\n", "ab".repeat(32));
        let program = folder_with(&["plugins/libtenon_plugin_eth.so"]);
        let chosen = folder_with(&["eth.so"]);
        std::fs::write(chosen.path().join(BUILT_IN_LIST), &list).unwrap();
        let mut settings = Settings::default();
        settings.plugins.dir = Some(chosen.path().to_owned());

        assert_eq!(built_ins(program.path()).unwrap(), BuiltIns::default());
        std::fs::write(program.path().join("plugins").join(BUILT_IN_LIST), &list).unwrap();

        assert_ne!(built_ins(program.path()).unwrap(), BuiltIns::default());
        assert_eq!(names(&settings, program.path()), ["eth"]);
    }

    #[test]
    fn built_in_plugins_are_found_next_to_the_program_whatever_folder_is_chosen() {
        let list =
            ["eth", "net", "web3"].map(|name| format!("{}  libtenon_plugin_{name}.so\n", name_hash(name))).concat();
        let program = folder_with(&["libtenon_plugin_eth.so", "libtenon_plugin_net.so", "libtenon_plugin_other.so"]);
        std::fs::write(program.path().join(BUILT_IN_LIST), list).unwrap();
        let chosen = folder_with(&["mine.so", "libtenon_plugin_eth.so"]);
        let mut settings = Settings::default();
        settings.plugins.dir = Some(chosen.path().to_owned());

        let plans = plans(&settings, program.path()).unwrap();

        let found: Vec<_> = plans.into_iter().map(|plan| (plan.name, plan.path)).collect();
        let expected = [
            ("eth", chosen.path().join("libtenon_plugin_eth.so")),
            ("mine", chosen.path().join("mine.so")),
            ("net", program.path().join("libtenon_plugin_net.so")),
            // It is missing, and fails when it is started.
            ("web3", program.path().join("libtenon_plugin_web3.so")),
        ];
        assert_eq!(found, expected.map(|(name, path)| (name.to_owned(), path)));
    }

    fn name_hash(name: &str) -> String {
        name.bytes().map(|byte| format!("{byte:02x}")).collect::<String>().repeat(64).chars().take(64).collect()
    }

    #[test]
    fn the_built_in_plugins_are_those_of_this_workspace() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins");
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut found: Vec<String> = entries.filter(|name| !matches!(name.as_str(), "sdk" | "examples")).collect();
        found.sort();

        assert_eq!(found, BUILT_IN_PLUGINS);
    }

    #[test]
    fn only_the_plugins_that_are_listed_may_start_without_a_sandbox() {
        let folder = folder_with(&["one.so", "two.so"]);
        let mut settings = Settings::default();
        settings.plugins.dir = Some(folder.path().to_owned());
        settings.plugins.unsandboxed = vec!["two".to_owned()];

        let plans = plans(&settings, Path::new("/nowhere")).unwrap();

        assert_eq!(plans.iter().map(|plan| plan.may_run_unsandboxed).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn names_a_trusted_build_that_is_not_given_by_its_hash() {
        let mut settings = Settings::default();
        settings.plugins.trusted = vec!["eth".to_owned()];

        let error = vouched(&settings).unwrap_err().to_string();

        assert_eq!(
            error,
            "plugins.trusted: `eth` is not a SHA-256 hash in hex; `sha256sum FILE` prints the hash of a library"
        );
    }

    #[test]
    fn names_a_capability_that_does_not_exist() {
        let folder = folder_with(&["eth.so"]);
        let mut settings = Settings::default();
        settings.plugins.dir = Some(folder.path().to_owned());
        let entry = PluginEntry { capabilities: Some(vec!["Fly".into()]), ..PluginEntry::default() };
        settings.plugin_entries.insert("eth".into(), entry);

        let error = plans(&settings, Path::new("/nowhere")).unwrap_err().to_string();

        assert!(
            error.starts_with("plugins.eth.capabilities: there is no capability `Fly`; there are: ReadChain"),
            "{error}"
        );
    }
}
