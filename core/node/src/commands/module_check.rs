//! `tenon module check`: tests a plugin as the node would, without a node.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;
use tenon_config::Settings;
use tenon_isolation::IsolationOptions;
use tenon_modules::{CheckReport, ModuleOptions, check_plugin};

use crate::commands::print;
use crate::exit::Stop;

/// Maximum number of printed problems per check.
const MAX_PROBLEMS: usize = 10;

pub(crate) fn definition() -> Command {
    Command::new("check")
        .about("Check a plugin's library without a node: symbol, ABI, panics, threads, memory, capabilities, 100 loads")
        .arg(
            Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf)).help("The library"),
        )
        .arg(
            Arg::new("settings")
                .long("settings")
                .value_name("JSON")
                .default_value("{}")
                .help("Settings that the plugin is started with"),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("JSON instead of a table"))
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let path = matches.get_one::<PathBuf>("file").cloned().unwrap_or_default();
    let settings = matches.get_one::<String>("settings").cloned().unwrap_or_default();
    let path = std::path::absolute(&path).unwrap_or(path);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(Stop::failure)?;
    let cache = tempfile::tempdir().map_err(Stop::failure)?;
    let defaults = Settings::default();
    let mut options = ModuleOptions::new(cache.path(), defaults.plugins.grace, defaults.rpc.queue as usize);
    options.processes = Some(IsolationOptions::of_this_program());
    let report = runtime.block_on(check_plugin(&path, &settings, options)).map_err(Stop::failure)?;
    let text = if matches.get_flag("json") { as_json(&report) } else { as_table(&report) };
    print(text.as_bytes())?;
    if report.is_passed() {
        return Ok(());
    }
    let failed = report.checks.iter().filter(|check| !check.problems.is_empty()).count();
    Err(Stop::Failure(format!("{}: {failed} of {} checks failed", path.display(), report.checks.len())))
}

fn as_json(report: &CheckReport) -> String {
    let checks: Vec<_> = report
        .checks
        .iter()
        .map(|check| json!({ "statement": check.statement, "passed": check.problems.is_empty(), "problems": check.problems }))
        .collect();
    let module = &report.library;
    let loads = report.loads.map(|loads| {
        json!({
            "count": loads.count, "threadsBefore": loads.threads_before, "threadsAfter": loads.threads_after,
            "memoryBeforeKiB": loads.memory_before, "memoryAfterKiB": loads.memory_after,
        })
    });
    let value = json!({
        "plugin": module.plugin, "namespace": module.namespace, "version": module.version, "contentHash": module.content_hash,
        "builtWith": module.built_with, "passed": report.is_passed(), "checks": checks, "loads": loads,
    });
    format!("{value:#}\n")
}

fn as_table(report: &CheckReport) -> String {
    let module = &report.library;
    let mut text = format!(
        "{} {}: {}, {}, built with {}\n",
        module.namespace,
        module.version,
        counted(module.methods.len(), "method"),
        counted(module.subscriptions.len(), "subscription"),
        module.built_with
    );
    for check in &report.checks {
        let outcome = if check.problems.is_empty() { "ok    " } else { "FAILED" };
        let _ = writeln!(text, "{outcome} {}", check.statement);
        for problem in check.problems.iter().take(MAX_PROBLEMS) {
            let _ = writeln!(text, "         {problem}");
        }
        if check.problems.len() > MAX_PROBLEMS {
            let _ = writeln!(text, "         and {} more", check.problems.len() - MAX_PROBLEMS);
        }
    }
    if let Some(loads) = report.loads {
        let _ = writeln!(
            text,
            "{} loads: {} → {} threads, {} → {} KiB of memory",
            loads.count, loads.threads_before, loads.threads_after, loads.memory_before, loads.memory_after
        );
    }
    text
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_item_is_singular() {
        let told = [0, 1, 2].map(|count| counted(count, "method"));

        assert_eq!(told, ["0 methods", "1 method", "2 methods"]);
    }
}
