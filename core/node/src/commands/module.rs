//! `tenon module`: the modules of a running node, over its Unix socket.

mod shown;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Map, Value, json};
use tenon_config::{Layers, SettingInfo};

use crate::command_line;
use crate::commands::{module_check, module_new, print};
use crate::exit::Stop;
use crate::socket_client::SocketClient;
use shown::{facts, line, names_only, permissions, purged, reloaded, report, text, time};

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
    let name = || Arg::new("name").value_name("NAME").required(true).help("Name of the module");
    let settings =
        || Arg::new("settings").long("settings").value_name("JSON").value_parser(object).help("Settings of the module");
    let path = Arg::new("path").value_name("PATH").help(
        "The new library [default: the file at the module's path, read \
            again]",
    );
    let grant = || {
        Arg::new("grant").long("grant").value_name("NAMES").value_delimiter(',').action(ArgAction::Append).help(
            "Grant capabilities that the plugin requests: names separated by commas, or `all` for all except \
                 Sign and Administer",
        )
    };
    let trust = || {
        Arg::new("trust")
            .long("trust")
            .action(ArgAction::SetTrue)
            .help("Trust this build, by its content hash: it runs like a built-in plugin")
    };
    let purge = Arg::new("purge").long("purge").action(ArgAction::SetTrue).help(
        "Also remove the data that it has \
        stored",
    );
    let time = Arg::new("for")
        .long("for")
        .value_name("TIME")
        .value_parser(seconds)
        .help("Disable it again after this time, such as 10m or 1h30m; a restart of the node does not change this");
    let target = Arg::new("target").value_name("NAME|PATH").required(true);
    let load = Command::new("load")
        .about("Load a module and enable it")
        .arg(target.help("Name of a plugin in the plugin folders, or path of a library in one of them"))
        .arg(Arg::new("as").long("as").value_name("NAME").help("Name for a library given by its path"))
        .arg(Arg::new("disabled").long("disabled").action(ArgAction::SetTrue).help("Load it without enabling it"))
        .arg(settings())
        .arg(grant())
        .arg(trust());
    let commands = [
        Command::new("list").about("List the modules"),
        Command::new("names").about("Print the names of the modules, one per line").hide(true),
        Command::new("info").about("Print everything known about a module").arg(name()),
        load,
        Command::new("enable")
            .about("Start a module: a plugin, or a part of the node that was stopped")
            .arg(name())
            .arg(time),
        Command::new("disable").about("Stop a module; it can be enabled again").arg(name()),
        Command::new("replace")
            .about("Replace a module by another build, without an interruption")
            .arg(name())
            .arg(path)
            .arg(settings())
            .arg(grant())
            .arg(trust()),
        Command::new("unload").about("Stop a module and remove it from the list").arg(name()).arg(purge),
        Command::new("reload")
            .about(
                "Read the settings again and apply what needs no restart; or start one module \
            again",
            )
            .arg(Arg::new("name").value_name("NAME").help(
                "Reload only this module, from its library: a failed one is started again, a running one is replaced \
                 without an interruption",
            )),
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
    serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let Some((command, matches)) = matches.subcommand() else {
        return Err(Stop::Usage("tenon module: no command given; `tenon module --help` lists them".into()));
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
        "reload" => match matches.get_one::<String>("name") {
            None => reload(&mut node, is_json),
            Some(name) => reload_one(&mut node, name, is_json),
        },
        "unload" => unload(&mut node, &name(), matches.get_flag("purge"), is_json),
        _ => watch(&mut node, is_json),
    }
}

/// The path is sent to another process, so it must not depend on this one's working folder.
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

/// Adds the module's settings and terms.
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

/// Loads or replaces a module; shows the report, and the requested and granted capabilities.
fn changed(node: &mut SocketClient, method: &str, params: &Value, is_json: bool) -> Result<(), Stop> {
    let answer = node.call(method, params)?;
    show(&answer, is_json, report)?;
    if is_json {
        return Ok(());
    }
    let module = node.call("admin_moduleInfo", &json!([text(&answer, "module")]))?;
    print(permissions(&module).as_bytes())
}

/// Starts a module, and shows when it ends if it is limited.
fn enable(node: &mut SocketClient, name: &str, seconds: Option<u64>, is_json: bool) -> Result<(), Stop> {
    let Some(seconds) = seconds else {
        return show(&node.call("admin_enableModule", &json!([name]))?, is_json, report);
    };
    show(&node.call("admin_enableModule", &json!([name, { "seconds": seconds }]))?, is_json, report)?;
    if is_json { Ok(()) } else { print(format!("  disabled in    {}\n", time(seconds)).as_bytes()) }
}

/// Stops a module. Succeeds if it is already stopped, unless the node reports that it could not store the choice.
fn disable(node: &mut SocketClient, name: &str, is_json: bool) -> Result<(), Stop> {
    // Problems with the name are reported below.
    let module = node.call("admin_moduleInfo", &json!([name])).unwrap_or_default();
    let was_disabled = module["state"] == "disabled";
    match node.call("admin_disableModule", &json!([name])) {
        Err(Stop::Failure(reason)) if was_disabled && reason.ends_with(" is disabled already") => {
            let answer = json!({ "module": name, "operation": "disable", "state": "disabled", "isUnchanged": true });
            show(&answer, is_json, |answer| format!("{} is disabled already\n", text(answer, "module")))
        }
        answer => show(&answer?, is_json, report),
    }
}

/// Starts one module from its library again.
fn reload_one(node: &mut SocketClient, name: &str, is_json: bool) -> Result<(), Stop> {
    let module = node.call("admin_moduleInfo", &json!([name]))?;
    let (method, params) = match text(&module, "state") {
        "failed" => ("admin_enableModule", json!([name])),
        _ => ("admin_replaceModule", json!([name, {}])),
    };
    show(&node.call(method, &params)?, is_json, report)
}

/// Stops and unloads a module and, with `is_purged`, deletes its stored data. The data of a module that is no longer
/// loaded can still be deleted.
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

/// Fails after the report if some changes could not be applied.
fn reload(node: &mut SocketClient, is_json: bool) -> Result<(), Stop> {
    let answer = node.call("admin_reloadSettings", &json!([]))?;
    show(&answer, is_json, reloaded)?;
    match answer["failures"].as_array().map_or(0, Vec::len) {
        0 => Ok(()),
        count => Err(Stop::Failure(format!("{count} of the changes could not be applied"))),
    }
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
