//! Combines the layers of settings.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::{Origin, SettingsError};
use crate::file::{FileContent, read_file};
use crate::misfit::misfit;
use crate::settings::{Settings, all_settings};
use crate::suggestion::nearest;
use crate::value::Value;

/// Name of the settings file in the data folder.
const FILE_NAME: &str = "tenon.toml";

/// The layers, before they are combined.
#[derive(Debug)]
pub struct Layers {
    command: &'static str,
    command_defaults: Vec<(&'static str, Value)>,
    environment: BTreeMap<String, String>,
    flags: Vec<(&'static str, String, String)>,
    file: Option<PathBuf>,
    has_temporary_folder: bool,
}

impl Layers {
    /// Defaults only, for the command of this name.
    pub fn new(command: &'static str) -> Self {
        Self {
            command,
            command_defaults: Vec::new(),
            environment: BTreeMap::new(),
            flags: Vec::new(),
            file: None,
            has_temporary_folder: false,
        }
    }

    /// Uses a new temporary data folder unless one is chosen; it is not searched for a settings file.
    #[must_use]
    pub fn temporary_data_folder(mut self) -> Self {
        self.has_temporary_folder = true;
        self
    }

    /// Adds default values of this command.
    #[must_use]
    pub fn command_defaults(mut self, values: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        self.command_defaults.extend(values);
        self
    }

    /// Adds variables; those that do not start with `TENON_` are ignored.
    #[must_use]
    pub fn environment(mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let texts = variables
            .into_iter()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        self.environment.extend(texts.filter(|(name, _)| name.starts_with("TENON_")));
        self
    }

    /// Adds flags: key, flag as typed, value ([`crate::given_flags`]).
    #[must_use]
    pub fn flags(mut self, flags: impl IntoIterator<Item = (&'static str, String, String)>) -> Self {
        self.flags.extend(flags);
        self
    }

    /// Names the settings file (`--config`).
    #[must_use]
    pub fn file(mut self, path: Option<PathBuf>) -> Self {
        self.file = path.or(self.file);
        self
    }
}

/// The combined settings, and the source of each.
#[derive(Debug)]
pub struct Resolved {
    /// The settings.
    pub settings: Settings,
    /// The settings file that was read.
    pub file: Option<PathBuf>,
    /// Warnings for the operator that do not prevent the start.
    pub warnings: Vec<String>,
    origins: BTreeMap<&'static str, Origin>,
}

impl Resolved {
    /// Source of the value of this key.
    pub fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }

    /// Returns whether the value was chosen in a file, a variable or a flag.
    pub fn is_chosen(&self, key: &str) -> bool {
        !matches!(self.origin(key), Origin::Default | Origin::Command(_))
    }

    /// Sets a setting to the value of another, and records the other's source.
    ///
    /// # Errors
    /// [`SettingsError::BadValue`] if the value is invalid for the setting.
    pub fn follow(&mut self, key: &'static str, other: &str) -> Result<(), SettingsError> {
        let value = self.settings.show(other).unwrap_or(Value::Absent);
        let origin = self.origin(other).clone();
        self.put(key, &value, origin)
    }

    fn put(&mut self, key: &'static str, value: &Value, origin: Origin) -> Result<(), SettingsError> {
        if let Some(Err(problem)) = self.settings.put(key, value) {
            return Err(SettingsError::BadValue { origin, key: key.to_owned(), problem });
        }
        self.origins.insert(key, origin);
        Ok(())
    }
}

/// Combines the layers, later ones winning: defaults, the command's defaults, the settings file, the environment,
/// flags.
///
/// # Errors
/// [`SettingsError`] naming the source and the key of the first invalid value.
pub fn resolve(layers: Layers) -> Result<Resolved, SettingsError> {
    let mut resolved =
        Resolved { settings: Settings::default(), file: None, warnings: Vec::new(), origins: BTreeMap::new() };
    for (key, value) in &layers.command_defaults {
        resolved.put(key, value, Origin::Command(layers.command))?;
    }
    let (variables, config_variable) = read_environment(&layers.environment, &mut resolved.warnings);
    // The data folder must be known to find its settings file.
    put_all(&mut resolved, &variables, &layers.flags, |key| key == "datadir")?;
    let has_own_folder = !layers.has_temporary_folder || resolved.is_chosen("datadir");
    read_settings_file(&mut resolved, layers.file.or(config_variable), has_own_folder)?;
    put_all(&mut resolved, &variables, &layers.flags, |_| true)?;
    check_together(&resolved)?;
    Ok(resolved)
}

/// Checks settings that depend on each other.
///
/// # Errors
/// [`SettingsError::BadValue`] naming the first that contradicts others.
fn check_together(resolved: &Resolved) -> Result<(), SettingsError> {
    let Some((key, problem)) = misfit(&resolved.settings) else { return Ok(()) };
    Err(SettingsError::BadValue { origin: resolved.origin(key).clone(), key: key.to_owned(), problem })
}

fn put_all(
    resolved: &mut Resolved,
    variables: &[(&'static str, String, String)],
    flags: &[(&'static str, String, String)],
    wanted: impl Fn(&str) -> bool,
) -> Result<(), SettingsError> {
    for (key, name, text) in variables.iter().filter(|(key, ..)| wanted(key)) {
        resolved.put(key, &Value::Untyped(text.clone()), Origin::Environment(name.clone()))?;
    }
    for (key, flag, text) in flags.iter().filter(|(key, ..)| wanted(key)) {
        resolved.put(key, &Value::Untyped(text.clone()), Origin::Flag(flag.clone()))?;
    }
    Ok(())
}

/// The settings in the environment (key, variable, text), and the settings file named there.
fn read_environment(
    environment: &BTreeMap<String, String>,
    warnings: &mut Vec<String>,
) -> (Vec<(&'static str, String, String)>, Option<PathBuf>) {
    let known: BTreeMap<String, &'static str> = all_settings().iter().map(|row| (row.environment(), row.key)).collect();
    let mut variables = Vec::new();
    let mut file = None;
    for (name, text) in environment {
        if name == "TENON_CONFIG" {
            file = Some(PathBuf::from(text));
        } else if let Some(key) = known.get(name) {
            variables.push((*key, name.clone(), text.clone()));
        } else if let Some(near) = nearest(name, known.keys().map(String::as_str)) {
            // Not an error: tests and tools around the node also use the prefix.
            warnings.push(format!("environment variable {name} names no setting; did you mean {near}?"));
        }
    }
    (variables, file)
}

fn read_settings_file(
    resolved: &mut Resolved,
    named: Option<PathBuf>,
    has_own_folder: bool,
) -> Result<(), SettingsError> {
    let own = resolved.settings.node.datadir.join(FILE_NAME);
    let is_own = named.is_none();
    let path = match named {
        Some(path) => path,
        None if has_own_folder && own.is_file() => own,
        None => return Ok(()),
    };
    let content = read_file(&path)?;
    if is_own {
        refuse_data_folder(&content, &path)?;
    }
    for (key, value, origin) in content.values {
        resolved.put(key, &value, origin)?;
    }
    resolved.settings.plugin_entries.extend(content.plugins);
    resolved.file = Some(path);
    Ok(())
}

/// A file found through the data folder cannot set another data folder.
fn refuse_data_folder(content: &FileContent, path: &Path) -> Result<(), SettingsError> {
    match content.values.iter().find(|(key, ..)| *key == "datadir") {
        None => Ok(()),
        Some((key, _, origin)) => Err(SettingsError::BadValue {
            origin: origin.clone(),
            key: (*key).to_owned(),
            problem: format!(
                "{} was found in the data folder, so it can't choose one; use --datadir, or name the file with --config",
                path.display()
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{ByteSize, PluginLimits};

    fn folder_with(text: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE_NAME), text).unwrap();
        folder
    }

    fn layers_in(folder: &tempfile::TempDir) -> Layers {
        Layers::new("run").flags([("datadir", "--datadir".to_owned(), folder.path().display().to_string())])
    }

    #[test]
    fn later_layers_win_and_every_value_has_its_source() {
        let folder = folder_with("[http]\nport = 1001\nvhosts = [\"a\"]\n\n[ws]\nport = 1002\n");

        let resolved = resolve(
            layers_in(&folder)
                .command_defaults([("http.port", Value::Integer(1000)), ("dev.accounts", Value::Integer(3))])
                .environment([("TENON_HTTP_PORT".into(), "1003".into()), ("TENON_WS_PORT".into(), "1004".into())])
                .flags([("ws.port", "--ws.port".to_owned(), "1005".to_owned())]),
        )
        .unwrap();

        assert_eq!((resolved.settings.http.port, resolved.settings.ws.port), (1003, 1005));
        assert_eq!(resolved.settings.dev.accounts, 3);
        let file = folder.path().join(FILE_NAME);
        for (key, origin) in [
            ("http.port", "environment TENON_HTTP_PORT".to_owned()),
            ("ws.port", "flag --ws.port".to_owned()),
            ("http.vhosts", format!("{}:3", file.display())),
            ("dev.accounts", "default of `run`".to_owned()),
            ("http.addr", "default".to_owned()),
        ] {
            assert_eq!(resolved.origin(key).to_string(), origin, "{key}");
        }
    }

    #[test]
    fn names_the_line_and_the_fix_for_every_mistake_in_a_file() {
        for (text, wanted) in [
            ("\n[http]\nprot = 1\n", ":3: unknown key `http.prot`; did you mean `http.port`?"),
            ("[htpp]\nport = 1\n", ":1: unknown key `htpp`; did you mean `http`?"),
            (
                "gcmode = \"archive\"\n",
                ":1: unknown key `gcmode`; `gcmode` is the flag; in a file it is `database.mode`",
            ),
            ("[zzzzzzzzzzzz]\n", ":1: unknown key `zzzzzzzzzzzz`; docs/settings.md lists all keys"),
            ("[http]\nport = 99999\n", ":2: `http.port`: expected a whole number from 0 to 65535, found 99999"),
            (
                "[http]\nport = \"8545\"\n",
                ":2: `http.port`: expected a whole number from 0 to 65535, found \"8545\"; write it without quotes",
            ),
            (
                "[database]\nmode = \"light\"\n",
                ":2: `database.mode`: expected one of `archive`, `pruned`, found \"light\"",
            ),
            (
                "[plugins.eth]\nenable = true\n",
                ":2: unknown key `plugins.eth.enable`; a plugin has `path`, `enabled`, `required`, `isolation`, `capabilities` and tables `limits` and `settings`",
            ),
            ("[http\nport = 1\n", ":1:6: not valid TOML: "),
        ] {
            let folder = folder_with(text);
            let error = resolve(layers_in(&folder)).unwrap_err().to_string();
            let expected = format!("{}{wanted}", folder.path().join(FILE_NAME).display());
            assert!(error.starts_with(&expected), "{error}\ninstead of\n{expected}");
        }
    }

    #[test]
    fn lets_one_setting_follow_another() {
        let mut resolved =
            resolve(Layers::new("dev").flags([("http.port", "--port".to_owned(), "7".to_owned())])).unwrap();

        resolved.follow("ws.port", "http.port").unwrap();

        assert_eq!(resolved.settings.ws.port, 7);
        assert_eq!(resolved.origin("ws.port").to_string(), "flag --port");
    }

    #[test]
    fn names_the_variable_or_the_flag_of_a_bad_value() {
        let variable = resolve(Layers::new("run").environment([("TENON_HTTP_PORT".into(), "x".into())])).unwrap_err();
        let flag = resolve(Layers::new("run").flags([("ipc.disabled", "--ipcdisable".to_owned(), "maybe".to_owned())]));

        assert_eq!(
            variable.to_string(),
            "environment TENON_HTTP_PORT: `http.port`: expected a whole number from 0 to 65535, found `x`"
        );
        assert_eq!(
            flag.unwrap_err().to_string(),
            "flag --ipcdisable: `ipc.disabled`: expected true or false, found `maybe`"
        );
    }

    #[test]
    fn warns_of_a_variable_that_nearly_names_a_setting() {
        let resolved = resolve(Layers::new("run").environment([
            ("TENON_HTTP_PROT".into(), "1".into()),
            ("TENON_SOMETHING_OF_THE_TESTS".into(), "1".into()),
        ]))
        .unwrap();

        assert_eq!(
            resolved.warnings,
            ["environment variable TENON_HTTP_PROT names no setting; did you mean TENON_HTTP_PORT?"]
        );
    }

    #[test]
    fn reads_a_files_plugin_entries() {
        let folder = folder_with(
            "[plugins]\ndir = \"/opt/plugins\"\n[plugins.debug]\nenabled = false\n\
             [plugins.mine]\npath = \"/opt/mine.so\"\n[plugins.mine.settings]\ndepth = 3\nnames = [\"a\"]\n\
             [plugins.eth]\nrequired = true\nisolation = \"process\"\ncapabilities = [\"ReadChain\"]\n\
             [plugins.eth.limits]\nmemory = \"64MiB\"\ncall-time = \"2s\"\ncalls = 8\nstorage = \"2GiB\"\nstorage-records = 7\n",
        );

        let settings = resolve(layers_in(&folder)).unwrap().settings;

        assert_eq!(settings.plugins.dir, Some("/opt/plugins".into()));
        assert!(!settings.plugin_entries["debug"].is_enabled);
        assert!(settings.plugin_entries["eth"].is_required);
        assert_eq!(settings.plugin_entries["eth"].isolation.as_deref(), Some("process"));
        assert_eq!(settings.plugin_entries["eth"].capabilities, Some(vec!["ReadChain".to_owned()]));
        let limits = PluginLimits {
            memory: Some(ByteSize::mebibytes(64)),
            call_time: Some(Duration::from_secs(2)),
            calls: Some(8),
            storage: Some(ByteSize::mebibytes(2048)),
            storage_records: Some(7),
            ..PluginLimits::default()
        };
        assert_eq!(settings.plugin_entries["eth"].limits, limits);
        assert_eq!(settings.plugin_entries["mine"].path, Some("/opt/mine.so".into()));
        assert_eq!(settings.plugin_entries["mine"].settings_json, "{\"depth\":3,\"names\":[\"a\"]}");
    }

    #[test]
    fn plugin_entries_round_trip() {
        let folder = folder_with(
            "[plugins.mine]\npath = \"/opt/mine.so\"\nenabled = false\nrequired = true\nisolation = \"process\"\n\
             capabilities = [\"ReadChain\", \"Storage\"]\n\
             [plugins.mine.limits]\nmemory = \"64MiB\"\ncall-time = \"1500ms\"\ncalls = 8\nrestarts = 1\nlog-lines = 2\n\
             storage = 5\nstorage-records = 7\n\
             [plugins.mine.settings]\ndepth = -3\nshare = 0.5\n\"two words\" = { \"\" = [true, \"\\u007f\\\"\"] }\n\
             [plugins.plain]\n",
        );
        let entries = resolve(layers_in(&folder)).unwrap().settings.plugin_entries;
        let mut shown = String::new();
        for (name, entry) in &entries {
            shown += &format!("[plugins.{name}]\n");
            shown.extend(entry.show().into_iter().map(|(key, value)| format!("{key} = {value}\n")));
        }

        let again = resolve(layers_in(&folder_with(&shown))).unwrap().settings.plugin_entries;

        assert_eq!(entries, again, "{shown}");
        assert!(shown.ends_with("[plugins.plain]\nenabled = true\n"), "{shown}");
    }

    #[test]
    fn looks_for_no_settings_in_a_temporary_data_folder() {
        let folder = folder_with("[http]\nport = 1\n");
        let default = Value::Text(folder.path().display().to_string());

        let temporary = Layers::new("dev").command_defaults([("datadir", default)]).temporary_data_folder();
        let chosen = layers_in(&folder).temporary_data_folder();

        assert_eq!(resolve(temporary).unwrap().settings.http.port, 8545);
        assert_eq!(resolve(chosen).unwrap().settings.http.port, 1);
    }

    #[test]
    fn refuses_a_data_folder_setting_in_the_data_folders_own_file() {
        let folder = folder_with("datadir = \"/elsewhere\"\n");
        let error = resolve(layers_in(&folder)).unwrap_err().to_string();
        assert!(error.contains("can't choose one; use --datadir"), "{error}");

        let named = resolve(Layers::new("run").file(Some(folder.path().join(FILE_NAME)))).unwrap();
        assert_eq!(named.settings.node.datadir, PathBuf::from("/elsewhere"));
    }
}
