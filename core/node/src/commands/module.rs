//! `tenon module`: the modules of a running node, over its Unix socket.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Map, Value, json};
use tenon_config::{Layers, SettingInfo};

use crate::command_line;
use crate::commands::{module_check, module_new, print};
use crate::exit::Stop;
use crate::socket_client::SocketClient;

const EXAMPLES: &str = "\
Examples:
  tenon module list                      what is loaded, and whether it serves
  tenon module disable sealing           no more blocks; transactions stay pending
  tenon module disable debug             its calls are refused from now on; running ones may finish
  tenon module enable debug --for 10m    and disabled again when that is over, also after a restart
  tenon module replace eth               the new build that lies at its path, without a gap
  tenon module load ./libtoken.so --grant ReadChain --settings '{\"depth\": 3}'
  tenon module replace eth ./libeth.so --trust  a build of your own in a built-in plugin's place
  tenon module reload                    what changed in the settings file
  tenon module watch --json              a line for every change
  tenon module new tokens                a crate to begin a plugin with
  tenon module check libtokens.so        what is wrong with a plugin, without a node";

pub(crate) fn definition() -> Command {
    let name = || Arg::new("name").value_name("NAME").required(true).help("Name of the module");
    let settings =
        || Arg::new("settings").long("settings").value_name("JSON").value_parser(object).help("Its own settings");
    let path =
        Arg::new("path").value_name("PATH").help("The new library; without it the module's own path, read again");
    let grant =
        || {
            Arg::new("grant").long("grant").value_name("NAMES").value_delimiter(',').action(ArgAction::Append).help(
                "Grant capabilities that it asks for: names between commas, or `all` for all but Sign and Administer",
            )
        };
    let trust = || {
        Arg::new("trust")
            .long("trust")
            .action(ArgAction::SetTrue)
            .help("Vouch for this build, by its content hash: it runs as a built-in plugin does")
    };
    let purge = Arg::new("purge").long("purge").action(ArgAction::SetTrue).help("Remove what it has stored, too");
    let time = Arg::new("for")
        .long("for")
        .value_name("TIME")
        .value_parser(seconds)
        .help("Disable it again after this time, such as 10m or 1h30m; also when the node was restarted meanwhile");
    let target = Arg::new("target").value_name("NAME|PATH").required(true);
    let load = Command::new("load")
        .about("Make a module known and enable it")
        .arg(target.help("A name in the plugin folders, or the path of a library in one of them"))
        .arg(Arg::new("as").long("as").value_name("NAME").help("Name for a library that is given by its path"))
        .arg(Arg::new("disabled").long("disabled").action(ArgAction::SetTrue).help("Do not enable it yet"))
        .arg(settings())
        .arg(grant())
        .arg(trust());
    let commands = [
        Command::new("list").about("List the modules"),
        Command::new("names").about("Print the names of the modules, a line each").hide(true),
        Command::new("info").about("Print all that is known of a module").arg(name()),
        load,
        Command::new("enable")
            .about("Start a module: a plugin, or a part of the node that was stopped")
            .arg(name())
            .arg(time),
        Command::new("disable").about("Stop a module; it can be enabled again").arg(name()),
        Command::new("replace")
            .about("Put another build in a module's place, without a gap")
            .arg(name())
            .arg(path)
            .arg(settings())
            .arg(grant())
            .arg(trust()),
        Command::new("unload").about("Stop a module and forget it").arg(name()).arg(purge),
        Command::new("reload").about("Read the settings again, and take over what needs no restart"),
        Command::new("watch").about("Print every change until interrupted"),
    ];
    let json = || Arg::new("json").long("json").action(ArgAction::SetTrue).help("JSON instead of a table");
    let complete = |command: Command| tenon_config::add_flags(command.arg(json()), is_wanted, is_wanted, &[]);
    Command::new("module")
        .about("Load, enable, disable, replace and unload the modules of a running node")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(commands.map(complete))
        .subcommands([module_check::definition(), module_new::definition()])
}

/// Settings that say where the node is.
fn is_wanted(row: &SettingInfo) -> bool {
    matches!(row.key, "datadir" | "ipc.path")
}

/// A time in whole seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let time = tenon_config::parse_duration(text)?;
    let has_parts = time.subsec_nanos() > 0;
    if time.is_zero() || has_parts {
        Err("expected whole seconds, one at least".to_owned())
    } else {
        Ok(time.as_secs())
    }
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let Some((command, matches)) = matches.subcommand() else {
        return Err(Stop::Usage("tenon module: which one?".into()));
    };
    // These two need no node.
    match command {
        "check" => return module_check::execute(matches),
        "new" => return module_new::execute(matches),
        _ => {}
    }
    let mut node = SocketClient::find(&command_line::settings(Layers::new("module"), matches)?)?;
    let is_json = matches.get_flag("json");
    let name = || matches.get_one::<String>("name").cloned().unwrap_or_default();
    match command {
        "list" => show(&node.call("admin_listModules", &json!([]))?, is_json, table),
        "names" => show(&node.call("admin_listModules", &json!([]))?, is_json, names_only),
        "info" => show(&node.call("admin_moduleInfo", &json!([name()]))?, is_json, facts),
        "load" => changed(&mut node, "admin_loadModule", &load_params(matches), is_json),
        "enable" => enable(&mut node, &name(), matches.get_one::<u64>("for").copied(), is_json),
        "disable" => disable(&mut node, &name(), is_json),
        "replace" => changed(&mut node, "admin_replaceModule", &replace_params(&name(), matches), is_json),
        "reload" => reload(&mut node, is_json),
        "unload" => unload(&mut node, &name(), matches.get_flag("purge"), is_json),
        _ => watch(&mut node, is_json),
    }
}

/// A path goes to another process: it must not depend on the folder that this one was started in.
fn absolute(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

fn load_params(matches: &ArgMatches) -> Value {
    let target = matches.get_one::<String>("target").cloned().unwrap_or_default();
    let target = if target.contains('/') { absolute(&target) } else { target };
    let mut options = Map::new();
    options.insert("enabled".into(), json!(!matches.get_flag("disabled")));
    if let Some(name) = matches.get_one::<String>("as") {
        options.insert("name".into(), json!(name));
    }
    add_terms(&mut options, matches);
    json!([target, options])
}

fn replace_params(name: &str, matches: &ArgMatches) -> Value {
    let mut options = Map::new();
    if let Some(path) = matches.get_one::<String>("path") {
        options.insert("path".into(), json!(absolute(path)));
    }
    add_terms(&mut options, matches);
    json!([name, options])
}

/// What it is handed, and what it is permitted.
fn add_terms(options: &mut Map<String, Value>, matches: &ArgMatches) {
    if let Some(settings) = matches.get_one::<Map<String, Value>>("settings") {
        options.insert("settings".into(), Value::Object(settings.clone()));
    }
    if let Some(grant) = matches.get_many::<String>("grant") {
        options.insert("grant".into(), grant.cloned().collect());
    }
    if matches.get_flag("trust") {
        options.insert("trust".into(), json!(true));
    }
}

/// Loads or replaces a module; shows the report, and what the module asks for and was granted.
fn changed(node: &mut SocketClient, method: &str, params: &Value, is_json: bool) -> Result<(), Stop> {
    let answer = node.call(method, params)?;
    show(&answer, is_json, report)?;
    if is_json {
        return Ok(());
    }
    let module = node.call("admin_moduleInfo", &json!([text(&answer, "module")]))?;
    print(permissions(&module).as_bytes())
}

/// What a module asks for and was granted. Of a built-in one that has everything there is nothing to say.
fn permissions(module: &Value) -> String {
    if text(module, "trust") == "built-in" && module["wanted"] == module["granted"] {
        return String::new();
    }
    let rows = [
        ("build", text(module, "trust").to_owned()),
        ("runs", text(module, "isolation").to_owned()),
        ("asks for", names(module, "wanted")),
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

/// Starts a module, and says when it ends if it does.
fn enable(node: &mut SocketClient, name: &str, seconds: Option<u64>, is_json: bool) -> Result<(), Stop> {
    let Some(seconds) = seconds else {
        return show(&node.call("admin_enableModule", &json!([name]))?, is_json, report);
    };
    show(&node.call("admin_enableModule", &json!([name, { "seconds": seconds }]))?, is_json, report)?;
    if is_json { Ok(()) } else { print(format!("  ends after     {}\n", time(seconds)).as_bytes()) }
}

/// A time in the largest units that it has.
fn time(seconds: u64) -> String {
    let parts = [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "m"), (seconds % 60, "s")];
    let text: String =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count}{unit}")).collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// When a module that is enabled for a time ends.
fn end(module: &Value) -> Option<(&'static str, String)> {
    let until = module["until"].as_u64()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Some(("ends after", time(until.saturating_sub(now))))
}

/// Stops a module. One that is stopped already is as it was asked for.
fn disable(node: &mut SocketClient, name: &str, is_json: bool) -> Result<(), Stop> {
    // What is wrong with the name is said below.
    let module = node.call("admin_moduleInfo", &json!([name])).unwrap_or_default();
    if module["state"] == "disabled" {
        let answer = json!({ "module": name, "operation": "disable", "state": "disabled", "isUnchanged": true });
        return show(&answer, is_json, |answer| format!("{} is disabled already\n", text(answer, "module")));
    }
    show(&node.call("admin_disableModule", &json!([name]))?, is_json, report)
}

/// Stops and forgets a module, and with `is_purged` what it has stored. One that is not loaded any more can still be purged.
fn unload(node: &mut SocketClient, name: &str, is_purged: bool, is_json: bool) -> Result<(), Stop> {
    let mut is_known = || -> Result<bool, Stop> {
        let modules = node.call("admin_listModules", &json!([]))?;
        Ok(modules.as_array().into_iter().flatten().any(|module| text(module, "name") == name))
    };
    if !is_purged || is_known()? {
        show(&node.call("admin_unloadModule", &json!([name]))?, is_json, report)?;
    }
    if is_purged {
        show(&node.call("admin_purgeModuleStorage", &json!([name]))?, is_json, purged)?;
    }
    Ok(())
}

/// Fails after the report when something could not be taken over.
fn reload(node: &mut SocketClient, is_json: bool) -> Result<(), Stop> {
    let answer = node.call("admin_reloadSettings", &json!([]))?;
    show(&answer, is_json, reloaded)?;
    match answer["failures"].as_array().map_or(0, Vec::len) {
        0 => Ok(()),
        count => Err(Stop::Failure(format!("{count} of the changes could not be taken over"))),
    }
}

/// The reports of the modules that changed, what failed, and what waits for a restart.
fn reloaded(answer: &Value) -> String {
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

fn purged(usage: &Value) -> String {
    format!("  storage        {} records of {} bytes removed\n", usage["records"], usage["bytes"])
}

fn watch(node: &mut SocketClient, is_json: bool) -> Result<(), Stop> {
    node.call("admin_subscribe", &json!(["modules"]))?;
    loop {
        let change = node.notification()?;
        let text = if is_json { format!("{change}\n") } else { line(&change) };
        print(text.as_bytes())?;
    }
}

fn show(answer: &Value, is_json: bool, for_people: fn(&Value) -> String) -> Result<(), Stop> {
    let text = if is_json { format!("{answer:#}\n") } else { for_people(answer) };
    print(text.as_bytes())
}

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap_or_default()
}

/// The beginning of a hash, enough to tell builds apart.
fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

/// For shells that complete names.
fn names_only(modules: &Value) -> String {
    modules.as_array().into_iter().flatten().fold(String::new(), |lines, module| lines + text(module, "name") + "\n")
}

pub(crate) fn table(modules: &Value) -> String {
    let header = ["MODULE", "KIND", "STATE", "NAMESPACE", "VERSION", "BUILD", "ISOLATION", "CALLS", "SUBSCRIPTIONS"];
    let mut rows = vec![header.map(str::to_owned)];
    let mut reasons = String::new();
    for module in modules.as_array().into_iter().flatten() {
        let field = |key| or_dash(text(module, key)).to_owned();
        // Parts of the node have no process and no count of their own.
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
            let _ = writeln!(reasons, "\n{}: foreign; granted {granted}; asks for {wanted}", text(module, "name"));
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<_> = (0..header.len()).map(width).collect();
    let mut lines = String::new();
    for row in &rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        lines.push_str(cells.join("  ").trim_end());
        lines.push('\n');
    }
    lines + &reasons
}

fn names(object: &Value, key: &str) -> String {
    let names: Vec<_> = object[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    names.join(", ")
}

fn lines(rows: Vec<(&str, String)>) -> String {
    rows.iter()
        .fold(String::new(), |lines, (key, value)| lines + format!("{key:<11} {}", or_dash(value)).trim_end() + "\n")
}

/// Names in lines that a terminal shows whole, each below the one before it.
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

/// All that is known of a part of the node.
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

/// What went wrong in a module; nothing when nothing did.
fn faults(module: &Value) -> Vec<(&'static str, String)> {
    let faults = &module["faults"];
    let counts = [
        ("restarts", "restarts"),
        ("failedCalls", "failed"),
        ("panics", "panics"),
        ("refusedCalls", "refused"),
        ("omittedLines", "lines cut"),
    ];
    let number = |key: &str| faults[key].as_u64().unwrap_or_default();
    let mut rows: Vec<_> = counts
        .into_iter()
        .filter(|(key, _)| number(key) > 0)
        .map(|(key, word)| (word, number(key).to_string()))
        .collect();
    if let Some(end) = faults["lastEnd"].as_str() {
        rows.push(("last end", end.to_owned()));
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

/// The bounds of a module in a line.
fn limits(module: &Value) -> String {
    let limits = &module["limits"];
    let number = |key: &str| limits[key].as_u64();
    let parts = [
        number("memory").map(|bytes| format!("memory {} MiB", bytes >> 20)),
        number("callMillis").map(|millis| format!("{millis} ms of processor time a call")),
        number("calls").map(|calls| format!("{calls} calls at a time")),
        number("restarts").map(|restarts| format!("{restarts} restarts a minute")),
        number("logLines").map(|lines| format!("{lines} log lines a second")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A number of bytes in the largest unit that leaves three digits or fewer before the point.
fn size(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let power = (0..units.len()).rev().find(|power| bytes >> (10 * power) > 0).unwrap_or_default();
    if power == 0 {
        return format!("{bytes} bytes");
    }
    let tenths = (u128::from(bytes) * 10) >> (10 * power);
    format!("{}.{} {}", tenths / 10, tenths % 10, units[power])
}

/// What a module stores, of what it may store, in a line.
fn storage(module: &Value) -> String {
    let usage = &module["storage"];
    let number = |key: &str| usage[key].as_u64().unwrap_or_default();
    if usage.is_null() {
        return String::new();
    }
    let (bytes, most_bytes) = (size(number("bytes")), size(number("mostBytes")));
    format!("{bytes} of {most_bytes}, {} of {} records", number("records"), number("mostRecords"))
}

fn facts(module: &Value) -> String {
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
        ("asks for", list("wanted")),
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

/// A change in a line.
fn line(change: &Value) -> String {
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

fn report(report: &Value) -> String {
    let number = |key: &str| report[key].as_u64().unwrap_or_default();
    let milliseconds = |key: &str| format!("{}.{:03} ms", number(key) / 1000, number(key) % 1000);
    let mut lines = line(report);
    let mut add = |key: &str, value: String| {
        let _ = writeln!(lines, "  {key:<14} {value}");
    };
    if number("runningCalls") > 0 {
        let (cancelled, abandoned) = (number("cancelledCalls"), number("abandonedCalls"));
        add("calls", format!("{} ran, {cancelled} cancelled, {abandoned} still there", number("runningCalls")));
    }
    let (kept, closed) = (number("keptSubscriptions"), number("closedSubscriptions"));
    if kept + closed > 0 {
        add("subscriptions", format!("{kept} went on, {closed} closed with a notice"));
    }
    if report["isDraining"] == true {
        add("drain", "goes on in the background".to_owned());
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
    fn parts_of_the_node_have_dashes_where_plugins_have_figures() {
        let pool = json!({ "name": "pool", "kind": "actor", "state": "enabled", "namespace": "", "version": "",
            "contentHash": "", "isolation": "in-process", "runningCalls": 0, "openSubscriptions": 0, "reason": null });

        let shown = table(&json!([pool]));

        assert!(shown.ends_with("pool    actor  enabled  -          -        -      -          -      -\n"), "{shown}");
    }

    #[test]
    fn the_list_says_of_foreign_modules_what_they_were_granted_and_a_report_how_to_grant_more() {
        let mine = json!({ "name": "mine", "kind": "plugin", "state": "enabled", "isolation": "process", "trust": "foreign",
            "wanted": ["ReadChain", "Sign"], "granted": ["ReadChain"] });
        let eth = json!({ "name": "eth", "kind": "plugin", "trust": "built-in", "wanted": ["ReadChain"],
            "granted": ["ReadChain"] });

        let list = table(&json!([eth, mine]));

        assert!(list.ends_with("\nmine: foreign; granted ReadChain; asks for ReadChain, Sign\n"), "{list}");
        assert!(!list.contains("eth: "), "{list}");
        let expected = "  build          foreign\n  runs           process\n  asks for       ReadChain, Sign\n  \
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
    fn shows_what_a_module_stores_and_what_went_wrong_in_it() {
        let module = json!({ "name": "mine", "kind": "plugin", "state": "enabled",
            "storage": { "records": 3, "bytes": 1_600_000, "mostRecords": 4_000_000, "mostBytes": 1_u64 << 30 },
            "faults": { "restarts": 0, "failedCalls": 5, "panics": 4, "refusedCalls": 0, "omittedLines": 0 } });

        let text = facts(&module);

        assert!(text.contains("storage     1.5 MiB of 1.0 GiB, 3 of 4000000 records\n"), "{text}");
        assert!(text.contains("failed      5\npanics      4\n"), "{text}");
        assert_eq!([0, 1023, 1024, 10 << 20].map(size), ["0 bytes", "1023 bytes", "1.0 KiB", "10.0 MiB"]);
    }

    #[test]
    fn tells_of_a_reload_what_changed_what_failed_and_what_waits_for_a_restart() {
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
    fn takes_and_shows_times_in_whole_seconds() {
        assert_eq!(
            ["10m", "1h30m", "45s", "2d"].map(|text| seconds(text).map(time)),
            ["10m", "1h30m", "45s", "2d"].map(|text| Ok(text.to_owned()))
        );
        for wrong in ["", "0s", "1500ms", "soon", "-5m"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn reports_what_was_running_and_how_it_ended() {
        let build = |version: &str| json!({ "version": version, "contentHash": format!("{version}aaaaaaaaaaaaaa") });
        let change = json!({ "module": "eth", "operation": "replace", "state": "enabled", "reason": null,
            "old": build("1.0"), "new": build("1.1"), "runningCalls": 3, "cancelledCalls": 1, "abandonedCalls": 0,
            "keptSubscriptions": 2, "closedSubscriptions": 0, "drainMicros": 1500, "totalMicros": 12345,
            "isDraining": false });

        let expected = "\
eth          replace  enabled   1.0 1.0aaaaaaaaa → 1.1 1.1aaaaaaaaa
  calls          3 ran, 1 cancelled, 0 still there
  subscriptions  2 went on, 0 closed with a notice
  drain          1.500 ms
  took           12.345 ms
";
        assert_eq!(report(&change), expected);
    }
}
