//! Command-line flags from the table of settings.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::settings::all_settings;
use crate::table::SettingInfo;
use crate::value::Value;

/// Adds the flags of the settings for which `wanted` is true to a command. `-h` shows those for which `prominent` is
/// true; `--help` shows all. `defaults` are this command's own default values.
pub fn add_flags(
    command: Command,
    wanted: impl Fn(&SettingInfo) -> bool,
    prominent: impl Fn(&SettingInfo) -> bool,
    defaults: &[(&'static str, Value)],
) -> Command {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .help("Settings file (TOML); without it tenon.toml of the data folder, if there is one")
        .help_heading("Node");
    all_settings().iter().filter(|row| wanted(row)).fold(command.arg(config), |command, row| {
        let arg = Arg::new(row.key)
            .long(row.flag)
            .aliases(row.old_flags.iter().copied())
            .help(help(row, defaults.iter().find(|(key, _)| *key == row.key).map(|(_, value)| value)))
            .help_heading(row.section)
            .value_name(row.kind_word())
            .hide_short_help(!prominent(row))
            .overrides_with(row.key)
            .action(ArgAction::Set);
        command.arg(if row.is_switch {
            arg.num_args(0..=1).require_equals(true).default_missing_value("true")
        } else {
            arg
        })
    })
}

/// The settings given as flags, with the flag's current name and the text.
pub fn given_flags(matches: &ArgMatches) -> Vec<(&'static str, String, String)> {
    all_settings()
        .into_iter()
        .filter_map(|row| {
            // An id unknown to the command is a setting that it does not accept.
            let value = matches.try_get_one::<String>(row.key).ok().flatten()?;
            let is_given = matches.value_source(row.key) == Some(ValueSource::CommandLine);
            is_given.then(|| (row.key, format!("--{}", row.flag), value.clone()))
        })
        .collect()
}

fn help(row: &SettingInfo, default: Option<&Value>) -> String {
    let text = row.help_text();
    let text = text.strip_suffix('.').unwrap_or(&text);
    let default = match default.unwrap_or(&row.default) {
        // The page must not contain the home folder of the user who generates it.
        _ if row.key == "datadir" && default.is_none() => "~/.tenon".to_owned(),
        Value::Absent | Value::Bool(false) => return text.to_owned(),
        Value::Text(value) => value.clone(),
        Value::List(values) => {
            let words: Vec<String> = values.iter().map(|value| value.to_string().replace('"', "")).collect();
            words.join(",")
        }
        value => value.to_string(),
    };
    if default.is_empty() { text.to_owned() } else { format!("{text} [default: {default}]") }
}

impl SettingInfo {
    /// The name of the value shown in help texts.
    fn kind_word(&self) -> &'static str {
        match self.kind {
            "switch" => "BOOL",
            "whole number" | "number" => "NUMBER",
            "path" => "PATH",
            "IP address" => "ADDRESS",
            "list" => "LIST",
            "duration" => "TIME",
            "size" => "SIZE",
            "text" => "TEXT",
            _ => "WORD",
        }
    }
}
