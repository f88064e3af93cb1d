//! `tenon module`: the modules of a running node, over its Unix socket.

mod shown;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde::Serialize;
use serde_json::{Map, Value};
use tenon_api::messages::{ModuleReport, ModuleState};
use tenon_api::shown_json_problem;
use tenon_config::{Layers, SettingInfo};
use tenon_ipc_client::{
    AdminClient as _, AdminSubscriptions as _, EnableOptions, LoadOptions, ModuleTerms, ReplaceOptions,
};

use crate::command_line;
use crate::commands::{module_check, module_new, print};
use crate::exit::Stop;
use crate::node_client::NodeClient;
use shown::{facts, line, names_only, permissions, purged, reloaded, report, time};

pub(crate) use shown::table;

const EXAMPLES: &str = "\
Examples:
  tenon module list                      the modules and their states
  tenon module disable sealing           make no more blocks; transactions stay pending
  tenon module disable debug             refuse new calls; running ones may finish
  tenon module enable debug --for 10m    disabled again after 10 minutes, also after a restart
  tenon module replace eth               load the new build at its path, without an interruption
  tenon module load ./libtoken.so --grant ReadChain --settings '{\"depth\": 3}'
  tenon module replace eth ./libeth.so --trust  your own build instead of a built-in plugin
  tenon module reload                    apply changes of the settings file
  tenon module reload eth                start a failed module again
  tenon module watch --json              one line per change
  tenon module new tokens                create the crate of a new plugin
  tenon module check libtokens.so        check a plugin, without a node";

pub(crate) fn definition() -> Command {
    let commands = [
        Command::new("list").about("List the modules"),
        Command::new("names").about("Print the names of the modules, one per line").hide(true),
        Command::new("info").about("Print everything known about a module").arg(name()),
        load_definition(),
        Command::new("enable")
            .about("Start a module: a plugin, or a part of the node that was stopped")
            .arg(name())
            .arg(end_of_enabling()),
        Command::new("disable").about("Stop a module; it can be enabled again").arg(name()),
        replace_definition(),
        Command::new("unload")
            .about("Stop a module and remove it from the list")
            .arg(name())
            .arg(flag("purge", "Also remove the data that it has stored")),
        reload_definition(),
        Command::new("watch").about("Print every change until interrupted"),
    ];
    let complete = |command: Command| {
        let command = command.arg(flag("json", "JSON instead of a table"));
        tenon_config::add_flags(command, is_wanted, is_wanted, &[])
    };
    Command::new("module")
        .about("Load, enable, disable, replace and unload the modules of a running node")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(commands.map(complete))
        .subcommands([module_check::definition(), module_new::definition()])
}

fn load_definition() -> Command {
    Command::new("load")
        .about("Load a module and enable it")
        .arg(
            Arg::new("target")
                .value_name("NAME|PATH")
                .required(true)
                .help("Name of a plugin in the plugin folders, or path of a library in one of them"),
        )
        .arg(Arg::new("as").long("as").value_name("NAME").help("Name for a library given by its path"))
        .arg(flag("disabled", "Load it without enabling it"))
        .args(term_arguments())
}

fn replace_definition() -> Command {
    Command::new("replace")
        .about("Replace a module by another build, without an interruption")
        .arg(name())
        .arg(
            Arg::new("path")
                .value_name("PATH")
                .help("The new library [default: the file at the module's path, read again]"),
        )
        .args(term_arguments())
}

fn reload_definition() -> Command {
    Command::new("reload")
        .about("Read the settings again and apply what needs no restart; or start one module again")
        .arg(Arg::new("name").value_name("NAME").help(
            "Reload only this module, from its library: a failed one is started again, a running one is replaced \
             without an interruption",
        ))
}

fn name() -> Arg {
    Arg::new("name").value_name("NAME").required(true).help("Name of the module")
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

fn end_of_enabling() -> Arg {
    Arg::new("for")
        .long("for")
        .value_name("TIME")
        .value_parser(seconds)
        .help("Disable it again after this time, such as 10m or 1h30m; a restart of the node does not change this")
}

/// The settings and permissions of a library that is loaded.
fn term_arguments() -> [Arg; 3] {
    [
        Arg::new("settings").long("settings").value_name("JSON").value_parser(object).help("Settings of the module"),
        Arg::new("grant").long("grant").value_name("NAMES").value_delimiter(',').action(ArgAction::Append).help(
            "Grant capabilities that the plugin requests: names separated by commas, or `all` for all except \
             Sign and Administer",
        ),
        flag("trust", "Trust this build, by its content hash: it runs like a built-in plugin"),
    ]
}

/// Settings that locate the node.
fn is_wanted(row: &SettingInfo) -> bool {
    matches!(row.key, "datadir" | "ipc.path")
}

/// A time in whole seconds.
fn seconds(text: &str) -> Result<u64, String> {
    let time = tenon_config::parse_duration(text)?;
    let has_parts = time.subsec_nanos() > 0;
    if time.is_zero() || has_parts {
        Err("expected whole seconds, at least one".to_owned())
    } else {
        Ok(time.as_secs())
    }
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("not a JSON object: {}", shown_json_problem(&error)))
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let (command, matches) = super::subcommand("module", matches)?;
    // These two need no node.
    match command {
        "check" => return module_check::execute(matches),
        "new" => return module_new::execute(matches),
        _ => {}
    }
    let node = NodeClient::find(&command_line::settings(Layers::new("module"), matches)?)?;
    let is_json = matches.get_flag("json");
    let name = || matches.get_one::<String>("name").map_or("", String::as_str);
    match command {
        "list" => show(&node.answer(node.list_modules())?, is_json, |modules| table(modules)),
        "names" => show(&node.answer(node.list_modules())?, is_json, |modules| names_only(modules)),
        "info" => show(&node.answer(node.module_info(name()))?, is_json, facts),
        "load" => {
            let report = node.answer(node.load_module(&load_target(matches), Some(load_options(matches))))?;
            changed(&node, &report, is_json)
        }
        "enable" => enable(&node, name(), matches.get_one::<u64>("for").copied(), is_json),
        "disable" => disable(&node, name(), is_json),
        "replace" => {
            let report = node.answer(node.replace_module(name(), Some(replace_options(matches))))?;
            changed(&node, &report, is_json)
        }
        "reload" => match matches.get_one::<String>("name") {
            None => reload(&node, is_json),
            Some(name) => reload_one(&node, name, is_json),
        },
        "unload" => unload(&node, name(), matches.get_flag("purge"), is_json),
        _ => watch(&node, is_json),
    }
}

/// The path is sent to another process, so it must not depend on this one's working folder.
fn absolute(path: &str) -> String {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

fn load_target(matches: &ArgMatches) -> String {
    let target = matches.get_one::<String>("target").cloned().unwrap_or_default();
    if target.contains('/') { absolute(&target) } else { target }
}

fn load_options(matches: &ArgMatches) -> LoadOptions {
    LoadOptions {
        name: matches.get_one::<String>("as").cloned(),
        enabled: Some(!matches.get_flag("disabled")),
        terms: terms(matches),
    }
}

fn replace_options(matches: &ArgMatches) -> ReplaceOptions {
    ReplaceOptions { path: matches.get_one::<String>("path").map(|path| absolute(path)), terms: terms(matches) }
}

/// The module's settings, and what the operator permits.
fn terms(matches: &ArgMatches) -> ModuleTerms {
    ModuleTerms {
        settings: matches.get_one::<Map<String, Value>>("settings").cloned(),
        grant: matches.get_many::<String>("grant").map(|names| names.cloned().collect()),
        trust: matches.get_flag("trust"),
    }
}

/// Shows the report of a loaded or replaced module, and its requested and granted capabilities.
fn changed(node: &NodeClient, done: &ModuleReport, is_json: bool) -> Result<(), Stop> {
    show(done, is_json, report)?;
    if is_json {
        return Ok(());
    }
    let module = node.answer(node.module_info(&done.module))?;
    print(permissions(&module).as_bytes())
}

/// Starts a module, and shows when it ends if it is limited.
fn enable(node: &NodeClient, name: &str, seconds: Option<u64>, is_json: bool) -> Result<(), Stop> {
    let Some(seconds) = seconds else {
        return switch(node, name, ModuleState::Enabled, || node.answer(node.enable_module(name, None)), is_json);
    };
    show(&node.answer(node.enable_module(name, Some(EnableOptions { seconds })))?, is_json, report)?;
    if is_json { Ok(()) } else { print(format!("  disabled in    {}\n", time(seconds)).as_bytes()) }
}

/// The answer for a module that is in the wanted state already.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Unchanged<'a> {
    module: &'a str,
    operation: &'a str,
    state: ModuleState,
    is_unchanged: bool,
}

/// Stops a module.
fn disable(node: &NodeClient, name: &str, is_json: bool) -> Result<(), Stop> {
    switch(node, name, ModuleState::Disabled, || node.answer(node.disable_module(name)), is_json)
}

/// Starts or stops a module. Succeeds if it is in that state already, unless the node reports that it could not store
/// the choice.
fn switch(
    node: &NodeClient,
    name: &str,
    state: ModuleState,
    change: impl FnOnce() -> Result<ModuleReport, Stop>,
    is_json: bool,
) -> Result<(), Stop> {
    // Problems with the name are reported below.
    let was_in_state = node.answer(node.module_info(name)).is_ok_and(|module| module.state == state);
    match change() {
        Err(Stop::Failure(reason)) if was_in_state && reason.ends_with(&format!(" is {} already", state.name())) => {
            let operation = if state == ModuleState::Enabled { "enable" } else { "disable" };
            let answer = Unchanged { module: name, operation, state, is_unchanged: true };
            show(&answer, is_json, |answer| format!("{} is {} already\n", answer.module, answer.state.name()))
        }
        answer => show(&answer?, is_json, report),
    }
}

/// Starts one module from its library again.
fn reload_one(node: &NodeClient, name: &str, is_json: bool) -> Result<(), Stop> {
    let module = node.answer(node.module_info(name))?;
    let done = match module.state {
        ModuleState::Failed => node.answer(node.enable_module(name, None))?,
        _ => node.answer(node.replace_module(name, None))?,
    };
    show(&done, is_json, report)
}

/// Stops and unloads a module and, with `is_purged`, deletes its stored data. The data of a module that is no longer
/// loaded can still be deleted.
fn unload(node: &NodeClient, name: &str, is_purged: bool, is_json: bool) -> Result<(), Stop> {
    let is_known =
        || -> Result<bool, Stop> { Ok(node.answer(node.list_modules())?.iter().any(|module| module.name == name)) };
    if !is_purged || is_known()? {
        show(&node.answer(node.unload_module(name))?, is_json, report)?;
    }
    if is_purged {
        show(&node.answer(node.purge_module_storage(name))?, is_json, purged)?;
    }
    Ok(())
}

/// Fails after the report if some changes could not be applied.
fn reload(node: &NodeClient, is_json: bool) -> Result<(), Stop> {
    let answer = node.answer(node.reload_settings())?;
    show(&answer, is_json, reloaded)?;
    match answer.failures.len() {
        0 => Ok(()),
        count => Err(Stop::Failure(format!("{count} of the changes could not be applied"))),
    }
}

fn watch(node: &NodeClient, is_json: bool) -> Result<(), Stop> {
    let mut changes = node.answer(node.module_changes())?;
    loop {
        let change = node.next_item(&mut changes)?;
        let text = if is_json { format!("{}\n", json_of(&change)?) } else { line(&change) };
        print(text.as_bytes())?;
    }
}

fn show<T: Serialize>(answer: &T, is_json: bool, for_people: impl Fn(&T) -> String) -> Result<(), Stop> {
    let text = if is_json { format!("{:#}\n", json_of(answer)?) } else { for_people(answer) };
    print(text.as_bytes())
}

/// The answer as JSON, with its members by name.
fn json_of(answer: &impl Serialize) -> Result<Value, Stop> {
    serde_json::to_value(answer).map_err(Stop::failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_and_shows_times_in_whole_seconds() {
        assert_eq!(
            ["10m", "1h30m", "45s", "2d"].map(|text| seconds(text).map(time)),
            ["10m", "1h30m", "45s", "2d"].map(|text| Ok(text.to_owned()))
        );
        for wrong in ["", "0s", "1500ms", "soon", "-5m"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
