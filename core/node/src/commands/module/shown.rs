//! Facts about modules, as readable text.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use indicatif::HumanBytes;
use tenon_api::Capability;
use tenon_api::messages::{
    ActorDetails, MailboxUse, ModuleBuild, ModuleDetails, ModuleFaults, ModuleLimits, ModuleReport, PluginDetails,
    SettingsReport, SpaceUsage, Trust,
};
use tenon_ipc_client::Module;

use crate::commands::columns::aligned;

/// A plugin's requested and granted capabilities. Empty for a built-in one that has all, for one whose library has not
/// been opened, and for an actor.
pub(super) fn permissions(module: &Module) -> String {
    let ModuleDetails::Plugin(PluginDetails { library: Some(library), granted, .. }) = &module.details else {
        return String::new();
    };
    if library.trust == Trust::BuiltIn && library.wanted == *granted {
        return String::new();
    }
    let rows = [
        ("build", library.trust.name().to_owned()),
        ("runs", library.isolation.name().to_owned()),
        ("requests", capabilities(&library.wanted)),
        ("granted", capabilities(granted)),
    ];
    let line = |(key, value): &(&str, String)| {
        format!("  {key:<14} {}\n", if value.is_empty() { "nothing" } else { value.as_str() })
    };
    let mut lines: String = rows.iter().map(line).collect();
    if library.wanted.iter().any(|wanted| !granted.contains(wanted)) {
        lines.push_str("  more with      --grant NAMES, or capabilities in its section of the settings\n");
    }
    lines
}

/// A time in all its non-zero units.
pub(super) fn time(seconds: u64) -> String {
    let parts = [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let text: String =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// The end of a module that is enabled for a limited time.
fn end(module: &Module) -> Option<(&'static str, String)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Some(("disabled in", time(module.until?.saturating_sub(now))))
}

/// The reports of the changed modules, the failures, and the changes that need a restart.
pub(super) fn reloaded(answer: &SettingsReport) -> String {
    let mut lines: String = answer.modules.iter().map(report).collect();
    for failure in &answer.failures {
        let _ = writeln!(lines, "{:<12} not changed  {}", failure.module, failure.reason);
    }
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "not set".to_owned());
    for change in &answer.changed {
        let _ = writeln!(lines, "{:<28} {} → {}", change.key, value(&change.running), value(&change.wanted));
    }
    if !answer.needs_restart.is_empty() {
        lines.push_str("After a restart:\n");
    }
    for change in &answer.needs_restart {
        let _ = writeln!(lines, "  {:<28} {} → {}", change.key, value(&change.running), value(&change.wanted));
    }
    if lines.is_empty() { "nothing changed\n".to_owned() } else { lines }
}

pub(super) fn purged(usage: &SpaceUsage) -> String {
    format!("  storage        {} records of {} bytes removed\n", usage.records, usage.bytes)
}

/// The start of a hash, enough to distinguish builds.
fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

/// One name per line, for completion in shells.
pub(super) fn names_only(modules: &[Module]) -> String {
    modules.iter().fold(String::new(), |lines, module| lines + &module.name + "\n")
}

/// The modules with their states, first the plugins and then the actors, and below them what needs a sentence.
pub(crate) fn table(modules: &[Module]) -> String {
    let (mut plugins, mut actors) = (Vec::new(), Vec::new());
    for module in modules {
        match &module.details {
            ModuleDetails::Plugin(plugin) => plugins.push(plugin_row(module, plugin)),
            ModuleDetails::Actor(actor) => actors.push(actor_row(module, actor)),
        }
    }
    let tables = [with_header(PLUGIN_HEADER, plugins), with_header(ACTOR_HEADER, actors)];
    let shown: Vec<_> = tables.into_iter().filter(|table| !table.is_empty()).collect();
    shown.join("\n") + &sentences(modules)
}

const PLUGIN_HEADER: [&str; 9] =
    ["MODULE", "KIND", "STATE", "NAMESPACE", "VERSION", "BUILD", "ISOLATION", "CALLS", "SUBSCRIPTIONS"];

fn plugin_row(module: &Module, plugin: &PluginDetails) -> [String; 9] {
    let or_dash = |text: &str| or_dash(text).to_owned();
    let library = plugin.library.as_ref();
    [
        or_dash(&module.name),
        module.kind().name().to_owned(),
        module.state.name().to_owned(),
        or_dash(library.map_or("", |library| &library.namespace)),
        or_dash(library.map_or("", |library| &library.version)),
        or_dash(library.map_or("", |library| short(&library.content_hash))),
        or_dash(library.map_or("", |library| library.isolation.name())),
        plugin.running_calls.to_string(),
        plugin.open_subscriptions.to_string(),
    ]
}

const ACTOR_HEADER: [&str; 8] = ["MODULE", "KIND", "STATE", "HEALTH", "RESTARTS", "MAILBOX", "CONNECTIONS", "ADDRESS"];

fn actor_row(module: &Module, actor: &ActorDetails) -> [String; 8] {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        module.name.clone(),
        module.kind().name().to_owned(),
        module.state.name().to_owned(),
        or_dash(actor.health.map(|health| health.name().to_owned())),
        // Without a mailbox there is no actor that could be restarted.
        or_dash(actor.mailbox.map(|_| module.faults.restarts.to_string())),
        or_dash(actor.mailbox.map(mailbox)),
        or_dash(actor.connections.map(|connections| connections.to_string())),
        or_dash(actor.address.clone()),
    ]
}

/// The rows as columns below their header; empty without rows.
fn with_header<const N: usize>(header: [&str; N], rows: Vec<[String; N]>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    aligned(&[vec![header.map(str::to_owned)], rows].concat())
}

/// An actor's waiting messages and its capacity.
fn mailbox(mailbox: MailboxUse) -> String {
    format!("{} of {}", mailbox.waiting, mailbox.capacity)
}

/// Why modules failed, the last faults of actors, and the permissions of foreign plugins.
fn sentences(modules: &[Module]) -> String {
    let mut reasons = String::new();
    for module in modules {
        if let Some(reason) = &module.reason {
            let _ = writeln!(reasons, "\n{}: {reason}", module.name);
        } else if let ModuleDetails::Actor(_) = &module.details
            && let Some(fault) = &module.faults.last_end
        {
            let _ = writeln!(reasons, "\n{}: last fault: {fault}", module.name);
        }
        if let ModuleDetails::Plugin(PluginDetails { library: Some(library), granted, .. }) = &module.details
            && library.trust == Trust::Foreign
        {
            let nothing = |names: String| if names.is_empty() { "nothing".to_owned() } else { names };
            let (wanted, granted) = (nothing(capabilities(&library.wanted)), nothing(capabilities(granted)));
            let _ = writeln!(reasons, "\n{}: foreign; granted {granted}; requests {wanted}", module.name);
        }
    }
    reasons
}

/// Names of capabilities.
fn capabilities(capabilities: &[Capability]) -> String {
    capabilities.iter().map(|capability| capability.name()).collect::<Vec<_>>().join(", ")
}

fn lines(rows: Vec<(&str, String)>) -> String {
    rows.iter()
        .fold(String::new(), |lines, (key, value)| lines + format!("{key:<11} {}", or_dash(value)).trim_end() + "\n")
}

/// Names wrapped to lines that fit a terminal, aligned below each other.
fn column(names: &str) -> String {
    const WIDTH: usize = 88;
    let (mut lines, mut length) = (String::new(), 0);
    for name in names.split_inclusive(", ") {
        if length + name.trim_end().len() > WIDTH {
            lines.truncate(lines.trim_end().len());
            let _ = write!(lines, "\n{:<11} ", "");
            length = 0;
        }
        lines.push_str(name);
        length += name.len();
    }
    lines
}

/// All facts about a part of the node.
fn actor_facts(module: &Module, actor: &ActorDetails) -> String {
    let fixed = match &actor.fixed {
        None => "yes".to_owned(),
        Some(reason) => format!("no: {reason}"),
    };
    let mut rows = vec![
        ("module", module.name.clone()),
        ("kind", "actor, a part of the node".to_owned()),
        ("state", module.state.name().to_owned()),
        ("does", actor.summary.clone()),
        ("can stop", fixed),
        ("uses", module.needs.join(", ")),
        ("used by", module.needed_by.join(", ")),
    ];
    rows.extend(actor.health.map(|health| ("health", health.name().to_owned())));
    rows.extend(actor.mailbox.map(|messages| ("mailbox", format!("{} messages", mailbox(messages)))));
    rows.extend(actor.address.iter().map(|address| ("address", address.clone())));
    rows.extend(actor.connections.map(|connections| ("connections", connections.to_string())));
    if let Some(reason) = &module.reason {
        rows.insert(3, ("reason", reason.clone()));
    }
    rows.extend(end(module));
    rows.extend(faults(&module.faults, "last fault"));
    lines(rows)
}

/// A module's faults, the last one under the name `last`; empty if there are none.
fn faults(faults: &ModuleFaults, last: &'static str) -> Vec<(&'static str, String)> {
    let counts = [
        ("restarts", faults.restarts),
        ("failed", faults.failed_calls),
        ("panics", faults.panics),
        ("refused", faults.refused_calls),
        ("lines omitted", faults.omitted_lines),
    ];
    let mut rows: Vec<_> =
        counts.into_iter().filter(|(_, count)| *count > 0).map(|(word, count)| (word, count.to_string())).collect();
    rows.extend(faults.last_end.iter().map(|end| (last, end.clone())));
    rows
}

/// The limits of a module, in one line.
fn limits(limits: &ModuleLimits) -> String {
    let parts = [
        limits.memory.map(|bytes| format!("memory {} MiB", bytes >> 20)),
        limits.call_millis.map(|millis| format!("{millis} ms of processor time per call")),
        limits.calls.map(|calls| format!("{calls} concurrent calls")),
        limits.restarts.map(|restarts| format!("{restarts} restarts per minute")),
        limits.log_lines.map(|lines| format!("{lines} log lines per second")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A module's storage use and its limit, in one line.
fn storage(usage: &SpaceUsage) -> String {
    let (bytes, max_bytes) = (HumanBytes(usage.bytes), HumanBytes(usage.max_bytes));
    format!("{bytes} of {max_bytes}, {} of {} records", usage.records, usage.max_records)
}

/// All facts about a module.
pub(super) fn facts(module: &Module) -> String {
    match &module.details {
        ModuleDetails::Plugin(plugin) => plugin_facts(module, plugin),
        ModuleDetails::Actor(actor) => actor_facts(module, actor),
    }
}

/// All facts about a plugin.
fn plugin_facts(module: &Module, plugin: &PluginDetails) -> String {
    let library = plugin.library.clone().unwrap_or_default();
    let (trust, isolation) = match &plugin.library {
        Some(library) => (library.trust.name(), library.isolation.name()),
        None => ("", ""),
    };
    let list = |names: &[String]| column(&names.join(", "));
    let mut rows = vec![
        ("module", module.name.clone()),
        ("state", module.state.name().to_owned()),
        ("namespace", format!("{} {}", or_dash(&library.namespace), library.version)),
        ("plugin", library.plugin),
        ("built with", library.built_with),
        ("library", plugin.path.clone()),
        ("sha-256", library.content_hash),
        ("build", trust.to_owned()),
        ("isolation", isolation.to_owned()),
        ("required", if plugin.is_required { "yes" } else { "no" }.to_owned()),
        ("requests", column(&capabilities(&library.wanted))),
        ("granted", column(&capabilities(&plugin.granted))),
        ("needs", list(&module.needs)),
        ("needed by", list(&module.needed_by)),
        ("methods", list(&library.methods)),
        ("subscribe", list(&library.subscriptions)),
        ("running", format!("{} calls, {} subscriptions", plugin.running_calls, plugin.open_subscriptions)),
        ("limits", limits(&plugin.limits)),
        ("storage", plugin.storage.as_ref().map(storage).unwrap_or_default()),
    ];
    if let Some(process) = plugin.process {
        rows.insert(9, ("process", process.to_string()));
    }
    if let Some(reason) = &module.reason {
        rows.insert(2, ("reason", reason.clone()));
    }
    rows.extend(end(module));
    rows.extend(faults(&module.faults, "last exit"));
    rows.extend(plugin.warnings.iter().map(|warning| ("warning", warning.clone())));
    lines(rows)
}

/// A change, in one line.
pub(super) fn line(change: &ModuleReport) -> String {
    let build = |build: &Option<ModuleBuild>| {
        build.as_ref().map(|build| format!("{} {}", build.version, short(&build.content_hash))).unwrap_or_default()
    };
    let builds = match (build(&change.old), build(&change.new)) {
        (old, new) if old.is_empty() || old == new => new,
        (old, new) if new.is_empty() => old,
        (old, new) => format!("{old} → {new}"),
    };
    let reason = change.reason.as_ref().map(|reason| format!("  {reason}")).unwrap_or_default();
    let (operation, state) = (change.operation.name(), change.state.name());
    let line = format!("{:<12} {operation:<8} {state:<9} {builds}{reason}", change.module);
    line.trim_end().to_owned() + "\n"
}

pub(super) fn report(report: &ModuleReport) -> String {
    let milliseconds = |micros: u64| format!("{}.{:03} ms", micros / 1000, micros % 1000);
    let mut lines = line(report);
    let mut add = |key: &str, value: String| {
        let _ = writeln!(lines, "  {key:<14} {value}");
    };
    if report.running_calls > 0 {
        let (cancelled, abandoned) = (report.cancelled_calls, report.abandoned_calls);
        add(
            "calls",
            format!("{} were running, {cancelled} cancelled, {abandoned} still running", report.running_calls),
        );
    }
    let (kept, closed) = (report.kept_subscriptions, report.closed_subscriptions);
    if kept + closed > 0 {
        add("subscriptions", format!("{kept} kept, {closed} closed with a notice"));
    }
    if report.is_draining {
        add("drain", "continues in the background".to_owned());
    } else if report.drain_micros > 0 {
        add("drain", milliseconds(report.drain_micros));
    }
    if !report.dependants.is_empty() {
        add("dependants", report.dependants.join(", "));
    }
    add("took", milliseconds(report.total_micros));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tenon_api::messages::{ChangedSetting, ModuleFailure, ModuleOperation, ModuleState};

    use super::*;

    /// An enabled built-in plugin with these members in place of its own; the others are empty.
    fn module(members: Value) -> Module {
        let mut module = json!({ "name": "eth", "kind": "plugin", "state": "enabled", "isolation": "in-process",
            "trust": "built-in" });
        let Value::Object(members) = members else { panic!("{members} is not an object") };
        module.as_object_mut().unwrap().extend(members);
        serde_json::from_value(module).unwrap()
    }

    #[test]
    fn lists_in_columns_and_gives_reasons_below() {
        let eth = module(json!({ "name": "eth", "state": "enabled", "namespace": "eth", "version": "1.0",
            "contentHash": "0123456789abcdef", "isolation": "in-process", "runningCalls": 2, "openSubscriptions": 1 }));
        let mine = module(json!({ "name": "mine", "state": "failed", "reason": "it fell over", "isolation": "",
            "trust": "" }));

        let expected = "\
MODULE  KIND    STATE    NAMESPACE  VERSION  BUILD         ISOLATION   CALLS  SUBSCRIPTIONS
eth     plugin  enabled  eth        1.0      0123456789ab  in-process  2      1
mine    plugin  failed   -          -        -             -           0      0

mine: it fell over
";
        assert_eq!(table(&[eth, mine]), expected);
    }

    #[test]
    fn parts_of_the_node_are_listed_below_the_plugins_with_their_own_figures() {
        let actor = |members: Value| {
            let mut actor = json!({ "kind": "actor", "trust": "", "health": "running" });
            actor.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            module(actor)
        };
        let http = actor(json!({ "name": "http", "address": "http://127.0.0.1:8545", "connections": 3 }));
        let sealing = actor(json!({ "name": "sealing", "health": "restarting",
            "mailbox": { "waiting": 4, "capacity": 1024 },
            "faults": { "restarts": 2, "lastEnd": "on purpose", "failedCalls": 0, "panics": 0, "refusedCalls": 0,
                "omittedLines": 0 } }));

        let shown = table(&[module(json!({})), http, sealing.clone()]);

        let expected = "\
MODULE  KIND    STATE    NAMESPACE  VERSION  BUILD  ISOLATION   CALLS  SUBSCRIPTIONS
eth     plugin  enabled  -          -        -      in-process  0      0

MODULE   KIND   STATE    HEALTH      RESTARTS  MAILBOX    CONNECTIONS  ADDRESS
http     actor  enabled  running     -         -          3            http://127.0.0.1:8545
sealing  actor  enabled  restarting  2         4 of 1024  -            -

sealing: last fault: on purpose
";
        assert_eq!(shown, expected);
        let facts = facts(&sealing);
        let expected =
            "health      restarting\nmailbox     4 of 1024 messages\nrestarts    2\nlast fault  on purpose\n";
        assert!(facts.ends_with(expected), "{facts}");
    }

    #[test]
    fn the_list_shows_grants_of_foreign_modules_and_a_report_says_how_to_grant_more() {
        let mine = module(json!({ "name": "mine", "state": "enabled", "isolation": "process", "trust": "foreign",
            "wanted": ["ReadChain", "Sign"], "granted": ["ReadChain"] }));
        let eth =
            module(json!({ "name": "eth", "trust": "built-in", "wanted": ["ReadChain"], "granted": ["ReadChain"] }));

        let list = table(&[eth.clone(), mine.clone()]);

        assert!(list.ends_with("\nmine: foreign; granted ReadChain; requests ReadChain, Sign\n"), "{list}");
        assert!(!list.contains("eth: "), "{list}");
        let expected = "  build          foreign\n  runs           process\n  requests       ReadChain, Sign\n  \
            granted        ReadChain\n  more with      --grant NAMES, or capabilities in its section of the settings\n";
        assert_eq!((permissions(&mine).as_str(), permissions(&eth).as_str()), (expected, ""));
    }

    #[test]
    fn long_lists_of_names_are_shown_in_lines() {
        let methods: Vec<_> = (10..30).map(|number| format!("eth_method{number}")).collect();

        let shown = facts(&module(json!({ "name": "eth", "methods": methods })));

        let first = methods[..6].join(", ");
        let second = methods[6..12].join(", ");
        assert!(shown.contains(&format!("methods     {first},\n            {second},\n")), "{shown}");
    }

    #[test]
    fn shows_the_storage_and_the_faults_of_a_module() {
        let mine = module(json!({ "name": "mine", "state": "enabled",
            "storage": { "records": 3, "bytes": 1_600_000, "maxRecords": 4_000_000, "maxBytes": 1_u64 << 30 },
            "faults": { "restarts": 0, "failedCalls": 5, "panics": 4, "refusedCalls": 0, "omittedLines": 0 } }));

        let text = facts(&mine);

        assert!(text.contains("storage     1.53 MiB of 1.00 GiB, 3 of 4000000 records\n"), "{text}");
        assert!(text.contains("failed      5\npanics      4\n"), "{text}");
    }

    #[test]
    fn a_reload_shows_changes_failures_and_settings_that_need_a_restart() {
        let done = ModuleReport::new("web3", ModuleOperation::Disable, ModuleState::Disabled);
        let setting = |key: &str, running: Option<&str>, wanted: &str| ChangedSetting {
            key: key.to_owned(),
            running: running.map(str::to_owned),
            wanted: Some(wanted.to_owned()),
        };
        let answer = SettingsReport {
            modules: vec![ModuleReport { total_micros: 1250, ..done }],
            failures: vec![ModuleFailure { module: "mine".to_owned(), reason: "it is a text file".to_owned() }],
            changed: vec![setting("auth.namespaces", Some("[]"), "[\"eth\"]")],
            needs_restart: vec![setting("http.port", Some("8545"), "9000"), setting("plugins.dir", None, "\"/opt\"")],
        };

        let expected = "\
web3         disable  disabled
  took           1.250 ms
mine         not changed  it is a text file
auth.namespaces              [] → [\"eth\"]
After a restart:
  http.port                    8545 → 9000
  plugins.dir                  not set → \"/opt\"
";
        assert_eq!(reloaded(&answer), expected);
        assert_eq!(reloaded(&SettingsReport::default()), "nothing changed\n");
    }

    #[test]
    fn reports_running_calls_and_how_they_ended() {
        let build = |version: &str| {
            Some(ModuleBuild { version: version.to_owned(), content_hash: format!("{version}aaaaaaaaaaaaaa") })
        };
        let change = ModuleReport {
            old: build("1.0"),
            new: build("1.1"),
            running_calls: 3,
            cancelled_calls: 1,
            kept_subscriptions: 2,
            drain_micros: 1500,
            total_micros: 12345,
            ..ModuleReport::new("eth", ModuleOperation::Replace, ModuleState::Enabled)
        };

        let expected = "\
eth          replace  enabled   1.0 1.0aaaaaaaaa → 1.1 1.1aaaaaaaaa
  calls          3 were running, 1 cancelled, 0 still running
  subscriptions  2 kept, 0 closed with a notice
  drain          1.500 ms
  took           12.345 ms
";
        assert_eq!(report(&change), expected);
    }
}
