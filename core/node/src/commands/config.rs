//! `tenon config`.

use std::fmt::Write as _;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};
use tenon_config::{Layers, Resolved, all_settings};
use tenon_ipc_client::{AdminClient as _, Module};

use crate::command_line;
use crate::commands::{dev, module, print};
use crate::exit::Stop;
use crate::family::{RuleHeight, family_of};
use crate::node_client::NodeClient;
use crate::opened_chain::{self, Named, named_genesis};
use crate::{front_ends, log_output, logging, machine, peer_network, plugin_folder, pool_settings};

/// Time limit for a node to list its modules.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

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
        log_output::eprint_line(&format!("tenon: {warning}"));
    }
    let running = running_modules(&resolved);
    let rules = if matches.get_flag("dev") { Vec::new() } else { rules(&resolved) };
    let text = if matches.get_flag("json") {
        as_json(&resolved, running.as_deref(), &rules)
    } else {
        let modules = running.map(|modules| as_comment(&resolved, &modules)).unwrap_or_default();
        as_toml(&resolved) + &rules_as_comment(&rules) + &modules
    };
    print(text.as_bytes())?;
    // After printing the settings, so that they are printed even if refused.
    check(&resolved, matches.get_flag("dev"))?;
    command_line::check_settings_file(resolved).map(drop)
}

/// Checks that a start makes before it reads its data folder.
fn check(resolved: &Resolved, is_dev: bool) -> Result<(), Stop> {
    let settings = &resolved.settings;
    logging::filter_of(&settings.log)?;
    let mut needs_chain_in_folder = false;
    if is_dev {
        dev::check(resolved)?;
    } else {
        match named_genesis(resolved)? {
            Named::Chosen(genesis) => genesis.check(settings)?,
            Named::Development => {}
            Named::Nothing => needs_chain_in_folder = true,
        }
    }
    front_ends::proxies(settings)?;
    pool_settings::check(settings)?;
    peer_network::check(settings)?;
    machine::check_socket(settings)?;
    plugin_folder::plans(settings, &plugin_folder::program_folder()?)?;
    if needs_chain_in_folder { opened_chain::require_chain(&settings.node.datadir) } else { Ok(()) }
}

/// The rules that only the family of the chosen chain has. Empty if no chain is chosen, if its family has none, or if its
/// genesis can't be read, which [`check`] reports.
fn rules(resolved: &Resolved) -> Vec<RuleHeight> {
    let Ok(Named::Chosen(chosen)) = named_genesis(resolved) else { return Vec::new() };
    let Ok(genesis) = chosen.read(&resolved.settings) else { return Vec::new() };
    family_of(&genesis.spec).rule_heights()
}

fn rules_as_comment(rules: &[RuleHeight]) -> String {
    let mut text = String::new();
    if !rules.is_empty() {
        text.push_str("\n# The rules of the chain, each with its first block:\n");
    }
    for RuleHeight { name, first, source } in rules {
        let when = first.map_or_else(|| "never".to_owned(), |height| height.to_string());
        let _ = writeln!(text, "# {name:<24} {when:>10}  {source}");
    }
    text
}

/// The modules of the node that listens at the settings' socket; `None` if there is none. Settings only define how a
/// node starts; operators change modules at run time.
fn running_modules(resolved: &Resolved) -> Option<Vec<Module>> {
    let settings = &resolved.settings;
    let socket = settings.in_data_folder(&settings.ipc.path);
    let node = NodeClient::open(&socket, Some(ANSWER_TIMEOUT), |_| None).ok()?;
    node.answer(node.list_modules()).ok()
}

fn as_comment(resolved: &Resolved, modules: &[Module]) -> String {
    let settings = &resolved.settings;
    let socket = settings.in_data_folder(&settings.ipc.path);
    let mut text =
        format!("\n# Modules of the running node at {}, which may differ from the settings above:\n", socket.display());
    for line in module::table(modules).lines() {
        text.push_str(format!("# {line}").trim_end());
        text.push('\n');
    }
    text
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
        let said = entry.show().into_iter().map(|(key, value)| format!("{key} = {value}"));
        lines.extend(said.map(|line| (line, "settings file".into())));
    }
    let width = lines.iter().map(|(left, _)| left.chars().count()).filter(|width| *width <= 56).max().unwrap_or(0);
    lines.iter().fold(String::new(), |text, (left, origin)| match origin.as_str() {
        "" => text + left + "\n",
        origin => text + &format!("{left:width$}  # {origin}\n"),
    })
}

/// The limits of a plugin in the settings.
fn limits(entry: &tenon_config::PluginEntry) -> Value {
    let limits = &entry.limits;
    json!({
        "memory": limits.memory.map(|bytes| bytes.0),
        "callTime": limits.call_time.map(|time| format!("{time:?}")),
        "calls": limits.calls,
        "restarts": limits.restarts,
        "logLines": limits.log_lines,
        "storage": limits.storage.map(|bytes| bytes.0),
        "storageRecords": limits.storage_records,
    })
}

fn as_json(resolved: &Resolved, running: Option<&[Module]>, rules: &[RuleHeight]) -> String {
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
                "limits": limits(entry),
                "settings": settings,
            });
            (name.clone(), entry)
        })
        .collect();
    let rules: serde_json::Map<_, _> = rules
        .iter()
        .map(|rule| (rule.name.to_owned(), json!({ "block": rule.first, "source": rule.source })))
        .collect();
    let all = json!({
        "settings": values, "plugins": plugins, "file": resolved.file, "running": running, "rules": rules,
    });
    format!("{all:#}\n")
}
