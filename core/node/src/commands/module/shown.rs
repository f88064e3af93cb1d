//! Facts about modules, as readable text.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use indicatif::HumanBytes;
use serde_json::Value;

use crate::commands::columns::aligned;

/// A module's requested and granted capabilities. Empty for a built-in one that has all.
pub(super) fn permissions(module: &Value) -> String {
    if text(module, "trust") == "built-in" && module["wanted"] == module["granted"] {
        return String::new();
    }
    let rows = [
        ("build", text(module, "trust").to_owned()),
        ("runs", text(module, "isolation").to_owned()),
        ("requests", names(module, "wanted")),
        ("granted", names(module, "granted")),
    ];
    let line = |(key, value): &(&str, String)| {
        format!("  {key:<14} {}\n", if value.is_empty() { "nothing" } else { value.as_str() })
    };
    let mut lines: String = rows.iter().map(line).collect();
    let list = |key: &str| module[key].as_array().cloned().unwrap_or_default();
    let granted = list("granted");
    if list("wanted").iter().any(|wanted| !granted.contains(wanted)) {
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
fn end(module: &Value) -> Option<(&'static str, String)> {
    let until = module["until"].as_u64()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Some(("disabled in", time(until.saturating_sub(now))))
}

/// The reports of the changed modules, the failures, and the changes that need a restart.
pub(super) fn reloaded(answer: &Value) -> String {
    let items = |key: &str| answer[key].as_array().cloned().unwrap_or_default();
    let mut lines: String = items("modules").iter().map(report).collect();
    for failure in items("failures") {
        let _ = writeln!(lines, "{:<12} not changed  {}", text(&failure, "module"), text(&failure, "reason"));
    }
    for change in items("changed") {
        let value = |key| change[key].as_str().unwrap_or("not set").to_owned();
        let _ = writeln!(lines, "{:<28} {} → {}", text(&change, "key"), value("running"), value("wanted"));
    }
    let waiting = items("needsRestart");
    if !waiting.is_empty() {
        lines.push_str("After a restart:\n");
    }
    for change in waiting {
        let value = |key| change[key].as_str().unwrap_or("not set").to_owned();
        let _ = writeln!(lines, "  {:<28} {} → {}", text(&change, "key"), value("running"), value("wanted"));
    }
    if lines.is_empty() { "nothing changed\n".to_owned() } else { lines }
}

pub(super) fn purged(usage: &Value) -> String {
    format!("  storage        {} records of {} bytes removed\n", usage["records"], usage["bytes"])
}

pub(super) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap_or_default()
}

/// The start of a hash, enough to distinguish builds.
fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

/// One name per line, for completion in shells.
pub(super) fn names_only(modules: &Value) -> String {
    modules.as_array().into_iter().flatten().fold(String::new(), |lines, module| lines + text(module, "name") + "\n")
}

pub(crate) fn table(modules: &Value) -> String {
    let header = ["MODULE", "KIND", "STATE", "NAMESPACE", "VERSION", "BUILD", "ISOLATION", "CALLS", "SUBSCRIPTIONS"];
    let mut rows = vec![header.map(str::to_owned)];
    let mut reasons = String::new();
    for module in modules.as_array().into_iter().flatten() {
        let field = |key| or_dash(text(module, key)).to_owned();
        // Module actors have no process and no counts of their own.
        let of_plugin = |value: String| if module["kind"] == "actor" { "-".to_owned() } else { value };
        rows.push([
            field("name"),
            field("kind"),
            field("state"),
            field("namespace"),
            field("version"),
            short(&field("contentHash")).to_owned(),
            of_plugin(field("isolation")),
            of_plugin(module["runningCalls"].to_string()),
            of_plugin(module["openSubscriptions"].to_string()),
        ]);
        if let Some(reason) = module["reason"].as_str() {
            let _ = writeln!(reasons, "\n{}: {reason}", text(module, "name"));
        }
        if text(module, "trust") == "foreign" {
            let (wanted, granted) = (names(module, "wanted"), names(module, "granted"));
            let nothing = |names: String| if names.is_empty() { "nothing".to_owned() } else { names };
            let (wanted, granted) = (nothing(wanted), nothing(granted));
            let _ = writeln!(reasons, "\n{}: foreign; granted {granted}; requests {wanted}", text(module, "name"));
        }
    }
    aligned(&rows) + &reasons
}

fn names(object: &Value, key: &str) -> String {
    let names: Vec<_> = object[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    names.join(", ")
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
fn actor_facts(module: &Value) -> String {
    let fixed = match text(module, "fixed") {
        "" => "yes".to_owned(),
        reason => format!("no: {reason}"),
    };
    let mut rows = vec![
        ("module", text(module, "name").to_owned()),
        ("kind", "actor, a part of the node".to_owned()),
        ("state", text(module, "state").to_owned()),
        ("does", text(module, "summary").to_owned()),
        ("can stop", fixed),
        ("uses", names(module, "needs")),
        ("used by", names(module, "neededBy")),
    ];
    if let Some(reason) = module["reason"].as_str() {
        rows.insert(3, ("reason", reason.to_owned()));
    }
    rows.extend(end(module));
    rows.extend(faults(module));
    lines(rows)
}

/// A module's faults; empty if there are none.
fn faults(module: &Value) -> Vec<(&'static str, String)> {
    let faults = &module["faults"];
    let counts = [
        ("restarts", "restarts"),
        ("failedCalls", "failed"),
        ("panics", "panics"),
        ("refusedCalls", "refused"),
        ("omittedLines", "lines omitted"),
    ];
    let number = |key: &str| faults[key].as_u64().unwrap_or_default();
    let mut rows: Vec<_> = counts
        .into_iter()
        .filter(|(key, _)| number(key) > 0)
        .map(|(key, word)| (word, number(key).to_string()))
        .collect();
    if let Some(end) = faults["lastEnd"].as_str() {
        rows.push(("last exit", end.to_owned()));
    }
    rows.extend(
        module["warnings"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|warning| ("warning", warning.as_str().unwrap_or_default().to_owned())),
    );
    rows
}

/// The limits of a module, in one line.
fn limits(module: &Value) -> String {
    let limits = &module["limits"];
    let number = |key: &str| limits[key].as_u64();
    let parts = [
        number("memory").map(|bytes| format!("memory {} MiB", bytes >> 20)),
        number("callMillis").map(|millis| format!("{millis} ms of processor time per call")),
        number("calls").map(|calls| format!("{calls} concurrent calls")),
        number("restarts").map(|restarts| format!("{restarts} restarts per minute")),
        number("logLines").map(|lines| format!("{lines} log lines per second")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A module's storage use and its limit, in one line.
fn storage(module: &Value) -> String {
    let usage = &module["storage"];
    let number = |key: &str| usage[key].as_u64().unwrap_or_default();
    if usage.is_null() {
        return String::new();
    }
    let (bytes, most_bytes) = (HumanBytes(number("bytes")), HumanBytes(number("mostBytes")));
    format!("{bytes} of {most_bytes}, {} of {} records", number("records"), number("mostRecords"))
}

pub(super) fn facts(module: &Value) -> String {
    if module["kind"] == "actor" {
        return actor_facts(module);
    }
    let list = |key: &str| column(&names(module, key));
    let mut rows = vec![
        ("module", text(module, "name").to_owned()),
        ("state", text(module, "state").to_owned()),
        ("namespace", format!("{} {}", or_dash(text(module, "namespace")), text(module, "version"))),
        ("plugin", text(module, "plugin").to_owned()),
        ("built with", text(module, "builtWith").to_owned()),
        ("library", text(module, "path").to_owned()),
        ("sha-256", text(module, "contentHash").to_owned()),
        ("build", text(module, "trust").to_owned()),
        ("isolation", text(module, "isolation").to_owned()),
        ("required", if module["isRequired"] == true { "yes" } else { "no" }.to_owned()),
        ("requests", list("wanted")),
        ("granted", list("granted")),
        ("needs", list("needs")),
        ("needed by", list("neededBy")),
        ("methods", list("methods")),
        ("subscribe", list("subscriptions")),
        ("running", format!("{} calls, {} subscriptions", module["runningCalls"], module["openSubscriptions"])),
        ("limits", limits(module)),
        ("storage", storage(module)),
    ];
    if let Some(process) = module["process"].as_u64() {
        rows.insert(9, ("process", process.to_string()));
    }
    if let Some(reason) = module["reason"].as_str() {
        rows.insert(2, ("reason", reason.to_owned()));
    }
    rows.extend(end(module));
    rows.extend(faults(module));
    lines(rows)
}

/// A change, in one line.
pub(super) fn line(change: &Value) -> String {
    let build = |key: &str| match &change[key] {
        Value::Null => String::new(),
        build => format!("{} {}", text(build, "version"), short(text(build, "contentHash"))),
    };
    let builds = match (build("old"), build("new")) {
        (old, new) if old.is_empty() || old == new => new,
        (old, new) if new.is_empty() => old,
        (old, new) => format!("{old} → {new}"),
    };
    let reason = change["reason"].as_str().map(|reason| format!("  {reason}")).unwrap_or_default();
    let line = format!(
        "{:<12} {:<8} {:<9} {builds}{reason}",
        text(change, "module"),
        text(change, "operation"),
        text(change, "state")
    );
    line.trim_end().to_owned() + "\n"
}

pub(super) fn report(report: &Value) -> String {
    let number = |key: &str| report[key].as_u64().unwrap_or_default();
    let milliseconds = |key: &str| format!("{}.{:03} ms", number(key) / 1000, number(key) % 1000);
    let mut lines = line(report);
    let mut add = |key: &str, value: String| {
        let _ = writeln!(lines, "  {key:<14} {value}");
    };
    if number("runningCalls") > 0 {
        let (cancelled, abandoned) = (number("cancelledCalls"), number("abandonedCalls"));
        add(
            "calls",
            format!("{} were running, {cancelled} cancelled, {abandoned} still running", number("runningCalls")),
        );
    }
    let (kept, closed) = (number("keptSubscriptions"), number("closedSubscriptions"));
    if kept + closed > 0 {
        add("subscriptions", format!("{kept} kept, {closed} closed with a notice"));
    }
    if report["isDraining"] == true {
        add("drain", "continues in the background".to_owned());
    } else if number("drainMicros") > 0 {
        add("drain", milliseconds("drainMicros"));
    }
    if report["dependants"].as_array().is_some_and(|names| !names.is_empty()) {
        add("told", names(report, "dependants"));
    }
    add("took", milliseconds("totalMicros"));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_in_columns_and_gives_reasons_below() {
        let eth = json!({ "name": "eth", "kind": "plugin", "state": "enabled", "namespace": "eth", "version": "1.0",
            "contentHash": "0123456789abcdef", "isolation": "in-process", "runningCalls": 2, "openSubscriptions": 1,
            "reason": null });
        let mine = json!({ "name": "mine", "kind": "plugin", "state": "failed", "namespace": "", "version": "", "contentHash": "",
            "isolation": "", "runningCalls": 0, "openSubscriptions": 0, "reason": "it fell over" });

        let expected = "\
MODULE  KIND    STATE    NAMESPACE  VERSION  BUILD         ISOLATION   CALLS  SUBSCRIPTIONS
eth     plugin  enabled  eth        1.0      0123456789ab  in-process  2      1
mine    plugin  failed   -          -        -             -           0      0

mine: it fell over
";
        assert_eq!(table(&json!([eth, mine])), expected);
    }

    #[test]
    fn parts_of_the_node_have_dashes_instead_of_figures() {
        let pool = json!({ "name": "pool", "kind": "actor", "state": "enabled", "namespace": "", "version": "",
            "contentHash": "", "isolation": "in-process", "runningCalls": 0, "openSubscriptions": 0, "reason": null });

        let shown = table(&json!([pool]));

        assert!(shown.ends_with("pool    actor  enabled  -          -        -      -          -      -\n"), "{shown}");
    }

    #[test]
    fn the_list_shows_grants_of_foreign_modules_and_a_report_says_how_to_grant_more() {
        let mine = json!({ "name": "mine", "kind": "plugin", "state": "enabled", "isolation": "process", "trust": "foreign",
            "wanted": ["ReadChain", "Sign"], "granted": ["ReadChain"] });
        let eth = json!({ "name": "eth", "kind": "plugin", "trust": "built-in", "wanted": ["ReadChain"],
            "granted": ["ReadChain"] });

        let list = table(&json!([eth, mine]));

        assert!(list.ends_with("\nmine: foreign; granted ReadChain; requests ReadChain, Sign\n"), "{list}");
        assert!(!list.contains("eth: "), "{list}");
        let expected = "  build          foreign\n  runs           process\n  requests       ReadChain, Sign\n  \
            granted        ReadChain\n  more with      --grant NAMES, or capabilities in its section of the settings\n";
        assert_eq!((permissions(&mine).as_str(), permissions(&eth).as_str()), (expected, ""));
    }

    #[test]
    fn long_lists_of_names_are_shown_in_lines() {
        let methods: Vec<_> = (10..30).map(|number| format!("eth_method{number}")).collect();

        let shown = facts(&json!({ "name": "eth", "kind": "plugin", "methods": methods }));

        let first = methods[..6].join(", ");
        let second = methods[6..12].join(", ");
        assert!(shown.contains(&format!("methods     {first},\n            {second},\n")), "{shown}");
    }

    #[test]
    fn shows_the_storage_and_the_faults_of_a_module() {
        let module = json!({ "name": "mine", "kind": "plugin", "state": "enabled",
            "storage": { "records": 3, "bytes": 1_600_000, "mostRecords": 4_000_000, "mostBytes": 1_u64 << 30 },
            "faults": { "restarts": 0, "failedCalls": 5, "panics": 4, "refusedCalls": 0, "omittedLines": 0 } });

        let text = facts(&module);

        assert!(text.contains("storage     1.53 MiB of 1.00 GiB, 3 of 4000000 records\n"), "{text}");
        assert!(text.contains("failed      5\npanics      4\n"), "{text}");
    }

    #[test]
    fn a_reload_shows_changes_failures_and_settings_that_need_a_restart() {
        let done = json!({ "module": "web3", "operation": "disable", "state": "disabled", "reason": null, "old": null,
            "new": null, "totalMicros": 1250 });
        let answer = json!({ "modules": [done], "failures": [{ "module": "mine", "reason": "it is a text file" }],
            "changed": [{ "key": "auth.namespaces", "running": "[]", "wanted": "[\"eth\"]" }],
            "needsRestart": [{ "key": "http.port", "running": "8545", "wanted": "9000" },
                { "key": "plugins.dir", "running": null, "wanted": "\"/opt\"" }] });

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
        assert_eq!(reloaded(&json!({ "modules": [], "failures": [], "needsRestart": [] })), "nothing changed\n");
    }

    #[test]
    fn reports_running_calls_and_how_they_ended() {
        let build = |version: &str| json!({ "version": version, "contentHash": format!("{version}aaaaaaaaaaaaaa") });
        let change = json!({ "module": "eth", "operation": "replace", "state": "enabled", "reason": null,
            "old": build("1.0"), "new": build("1.1"), "runningCalls": 3, "cancelledCalls": 1, "abandonedCalls": 0,
            "keptSubscriptions": 2, "closedSubscriptions": 0, "drainMicros": 1500, "totalMicros": 12345,
            "isDraining": false });

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
