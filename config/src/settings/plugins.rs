//! Plugins: the section, and the table of each plugin.

use std::path::PathBuf;
use std::time::Duration;

use crate::table::section;
use crate::value::{ByteSize, SettingValue, Value};

section! {
    "Plugins";
    /// Shared libraries that serve the namespaces. A table `[plugins.NAME]` in a settings file configures one of them.
    /// `path`: its library. `enabled`: whether it is started. `required`: whether the node refuses to start without it.
    /// `isolation`: `in-process`, or `process` for a process of its own, the default for foreign builds. `capabilities`:
    /// which of the capabilities that it requests are granted, by name; `all` means all except `Sign` and `Administer`.
    /// Without `capabilities`, a foreign build is granted none, and a built-in or trusted build all. `settings`: a table
    /// that is passed to the plugin. `limits`: a table. Its entries `memory` (default 512 MiB), `call-time` (processor time
    /// of one call, default 5 s) and `restarts` (of its process, per minute, default 5) apply to a plugin in a process of
    /// its own. `calls` (at the same time, no default), `log-lines` (per second, default 50 in a process of its own),
    /// `storage` (bytes in the database of the node, default 1 GiB) and `storage-records` (default 4 million) apply to
    /// every plugin. `tenon module reload` and SIGHUP apply changes.
    PluginSettings {
        /// Folder of the plugins. Default: `plugins` in the program's folder, then the program's folder itself. Built-in
        /// plugins that are missing from the given folder are taken from there; `[plugins.NAME] enabled = false` disables
        /// one.
        dir: Option<PathBuf> = None, "plugins.dir", "plugins";
        /// How long a plugin may take to finish its calls when it is stopped.
        grace: Duration = Duration::from_secs(2), "plugins.grace", "plugins.grace";
        /// SHA-256 hashes (hex) of further builds that are trusted like the built-in ones: they run in the process of the
        /// node and get the capabilities that they request, unless their own table says otherwise.
        trusted: Vec<String> = Vec::new(), "plugins.trusted", "plugins.trusted";
        /// Names of plugins whose foreign build is started even if the kernel cannot sandbox its process (seccomp, and
        /// Landlock of Linux 5.13).
        unsandboxed: Vec<String> = Vec::new(), "plugins.unsandboxed", "plugins.unsandboxed";
    }
}

/// A plugin's entry in a settings file.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginEntry {
    /// Its library; by default the plugin folder is searched.
    pub path: Option<PathBuf>,
    /// Whether it is started with the node.
    pub is_enabled: bool,
    /// Whether the node refuses to start without it.
    pub is_required: bool,
    /// `in-process` or `process`; `None` uses the node's default.
    pub isolation: Option<String>,
    /// Granted capabilities. `None`: a foreign build gets none, any other build gets all that it requests.
    pub capabilities: Option<Vec<String>>,
    /// Its limits.
    pub limits: PluginLimits,
    /// Its settings at start, as JSON text.
    pub settings_json: String,
}

/// `[plugins.NAME.limits]`: limits of one plugin; missing ones are the node's defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PluginLimits {
    /// `memory`: in a process of its own.
    pub memory: Option<ByteSize>,
    /// `call-time`: processor time per call, in a process of its own.
    pub call_time: Option<Duration>,
    /// `calls`: maximum number of concurrent calls, everywhere.
    pub calls: Option<u32>,
    /// `restarts`: per minute, of a process of its own.
    pub restarts: Option<u32>,
    /// `log-lines`: per second, everywhere.
    pub log_lines: Option<u32>,
    /// `storage`: bytes of keys and values in the node's database, everywhere.
    pub storage: Option<ByteSize>,
    /// `storage-records`: number of records there, everywhere.
    pub storage_records: Option<u64>,
}

impl Default for PluginEntry {
    fn default() -> Self {
        Self {
            path: None,
            is_enabled: true,
            is_required: false,
            isolation: None,
            capabilities: None,
            limits: PluginLimits::default(),
            settings_json: "{}".into(),
        }
    }
}

impl PluginEntry {
    /// The lines of its table in a settings file, keys and values, which parse to the same entry.
    pub fn show(&self) -> Vec<(String, Value)> {
        let limits = &self.limits;
        let bound = |name: &str, value: Value| (format!("limits.{name}"), value);
        let settings = serde_json::from_str(&self.settings_json).unwrap_or_default();
        let lines = [
            ("path".to_owned(), self.path.show()),
            ("enabled".to_owned(), self.is_enabled.show()),
            ("required".to_owned(), self.is_required.then_some(true).show()),
            ("isolation".to_owned(), self.isolation.show()),
            ("capabilities".to_owned(), self.capabilities.show()),
            bound("memory", limits.memory.show()),
            bound("call-time", limits.call_time.show()),
            bound("calls", limits.calls.show()),
            bound("restarts", limits.restarts.show()),
            bound("log-lines", limits.log_lines.show()),
            bound("storage", limits.storage.show()),
            bound("storage-records", limits.storage_records.show()),
            ("settings".to_owned(), Value::from_json(&settings)),
        ];
        let is_said = |value: &Value| !matches!(value, Value::Absent) && *value != Value::Table(Vec::new());
        lines.into_iter().filter(|(_, value)| is_said(value)).collect()
    }
}
