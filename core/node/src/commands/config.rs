//! `tenon config`.

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::json;
use tenon_config::{Layers, Resolved, all_settings};

use crate::command_line;
use crate::commands::{dev, print};
use crate::exit::Stop;

const EXAMPLES: &str = "\
Examples:
  tenon config                                what `tenon run` would use
  tenon config --dev --json                   what `tenon dev` would use, for programs
  tenon config --config node.toml --http.port 9000";

pub(crate) fn definition() -> Command {
    let command = Command::new("config")
        .about("Print the settings in effect, and where each came from")
        .after_help(EXAMPLES)
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("One JSON object"))
        .arg(Arg::new("dev").long("dev").action(ArgAction::SetTrue).help("With the defaults of `tenon dev`"));
    tenon_config::add_flags(command, |_| true, |_| false, &[])
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let resolved = if matches.get_flag("dev") {
        dev::settings(matches)?
    } else {
        command_line::settings(Layers::new("run"), matches)?
    };
    for warning in &resolved.warnings {
        eprintln!("tenon: {warning}");
    }
    let text = if matches.get_flag("json") { as_json(&resolved) } else { as_toml(&resolved) };
    print(text.as_bytes())
}

/// A settings file with the origin of each value as a comment, so that it can be used as one.
fn as_toml(resolved: &Resolved) -> String {
    let mut lines = Vec::new();
    let mut section = "";
    for row in all_settings() {
        let (table, name) = row.key.split_once('.').unwrap_or(("", row.key));
        if table != section {
            section = table;
            lines.push((String::new(), String::new()));
            lines.push((format!("[{table}]"), String::new()));
        }
        let origin = resolved.origin(row.key).to_string();
        let value = resolved.settings.show(row.key).unwrap_or(tenon_config::Value::Absent);
        lines.push(match value {
            tenon_config::Value::Absent => (format!("# {name} ="), origin),
            value => (format!("{name} = {value}"), origin),
        });
    }
    for (name, entry) in &resolved.settings.plugin_entries {
        lines.push((String::new(), String::new()));
        lines.push((format!("[plugins.{name}]"), String::new()));
        if let Some(path) = &entry.path {
            lines.push((format!("path = {:?}", path.display().to_string()), "settings file".into()));
        }
        lines.push((format!("enabled = {}", entry.is_enabled), "settings file".into()));
        if entry.is_required {
            lines.push(("required = true".into(), "settings file".into()));
        }
        if let Some(isolation) = &entry.isolation {
            lines.push((format!("isolation = {isolation:?}"), "settings file".into()));
        }
        if let Some(capabilities) = &entry.capabilities {
            lines.push((format!("capabilities = {capabilities:?}"), "settings file".into()));
        }
        lines.push((format!("# settings = {}", entry.settings_json), "settings file".into()));
    }
    let width = lines.iter().map(|(left, _)| left.chars().count()).filter(|width| *width <= 56).max().unwrap_or(0);
    lines.iter().fold(String::new(), |text, (left, origin)| match origin.as_str() {
        "" => text + left + "\n",
        origin => text + &format!("{left:width$}  # {origin}\n"),
    })
}

fn as_json(resolved: &Resolved) -> String {
    let values: serde_json::Map<_, _> = all_settings()
        .iter()
        .map(|row| {
            let value = resolved.settings.show(row.key).unwrap_or(tenon_config::Value::Absent).to_json();
            (row.key.to_owned(), json!({ "value": value, "origin": resolved.origin(row.key).to_string() }))
        })
        .collect();
    let plugins: serde_json::Map<_, _> = resolved
        .settings
        .plugin_entries
        .iter()
        .map(|(name, entry)| {
            let settings: serde_json::Value = serde_json::from_str(&entry.settings_json).unwrap_or_default();
            let entry = json!({
                "path": entry.path,
                "enabled": entry.is_enabled,
                "required": entry.is_required,
                "isolation": entry.isolation,
                "capabilities": entry.capabilities,
                "settings": settings,
            });
            (name.clone(), entry)
        })
        .collect();
    format!("{:#}\n", json!({ "settings": values, "plugins": plugins, "file": resolved.file }))
}
