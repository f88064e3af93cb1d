//! `tenon signer audit verify | show | export`.

use std::path::{Path, PathBuf};

use alloy_primitives::{Bytes, hex};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::Value;
use tenon_signing_audit::{AuditError, Line, files, read_file, verify};
use tenon_signing_policy::DisplayText;

use crate::commands::argument_values::whole_number;
use crate::commands::print;
use crate::exit::Stop;

const EXAMPLES: &str = "\
Examples:
  tenon signer audit verify ./signer/log
  tenon signer audit show ./signer/log --request 17
  tenon signer audit export ./signer/log > audit.jsonl";

pub(super) fn definition() -> Command {
    let folder = Arg::new("folder").value_name("FOLDER").required(true).value_parser(value_parser!(PathBuf));
    let folder = folder.help("Folder of the log (`log` in the settings)");
    let key = Arg::new("key").long("key").value_name("PUBLIC_KEY").value_parser(public_key);
    let key = key.help("Public key of the log (33 bytes, hexadecimal), if audit.key is not in the folder");
    let request = Arg::new("request").long("request").value_name("NUMBER").value_parser(whole_number::<u64>);
    Command::new("audit")
        .about("The log of requests, decisions and signatures")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            Command::new("verify")
                .about("Check every line, the chain of hashes and the checkpoint; exit code 1 if anything was changed")
                .args([folder.clone(), key.clone()]),
            Command::new("show")
                .about("Print the entries, one per line")
                .args([folder.clone(), key.clone()])
                .arg(request.help("Only the entries of this request")),
            Command::new("export")
                .about("Check the log, and print the lines of all its files unchanged")
                .args([folder, key])
                .arg(Arg::new("checked").long("no-check").action(ArgAction::SetFalse).help("Print without checking")),
        ])
}

pub(super) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    match matches.subcommand() {
        Some(("verify", matches)) => check(matches),
        Some(("show", matches)) => show(matches),
        Some(("export", matches)) => export(matches),
        _ => Err(Stop::Usage("tenon signer audit: no command given; `tenon signer audit --help` lists them".into())),
    }
}

fn folder(matches: &ArgMatches) -> &Path {
    matches.get_one::<PathBuf>("folder").map_or(Path::new("."), PathBuf::as_path)
}

/// The given key, compressed.
fn key(matches: &ArgMatches) -> Option<&Bytes> {
    matches.get_one("key")
}

fn public_key(text: &str) -> Result<Bytes, String> {
    match text.parse::<Bytes>() {
        Ok(key) if key.len() == 33 => Ok(key),
        _ => Err("a public key has 33 bytes in hexadecimal".to_owned()),
    }
}

/// A folder that can't be read is a wrong argument; a changed log is a failure.
fn stop(error: AuditError) -> Stop {
    match error {
        error @ AuditError::File { .. } => Stop::Usage(error.to_string()),
        error => Stop::failure(error),
    }
}

fn check(matches: &ArgMatches) -> Result<(), Stop> {
    let report = verify(folder(matches), key(matches), |_| {}).map_err(stop)?;
    let mut text = format!(
        "{} in {}, unchanged; the last has the hash {}\n",
        counted(report.entries, "entry", "entries"),
        counted(report.files as u64, "file", "files"),
        hex::encode_prefixed(report.last_hash)
    );
    if let Some(key) = &report.key {
        text.push_str(&format!("the checkpoint is signed with the key {key}\n"));
    }
    if report.torn_bytes > 0 {
        text.push_str(
            "the last line is incomplete: the service ended while it was written, and nothing was signed for it\n",
        );
    }
    print(text.as_bytes())
}

fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

fn show(matches: &ArgMatches) -> Result<(), Stop> {
    let wanted = matches.get_one::<u64>("request").copied();
    let mut printed = Ok(());
    let shown = verify(folder(matches), key(matches), |line| {
        if printed.is_ok()
            && let Some(text) = shown_line(line, wanted)
        {
            printed = print(text.as_bytes());
        }
    });
    printed?;
    shown.map(drop).map_err(stop)
}

/// An entry as readable text; `None` if it belongs to another request than the wanted one.
fn shown_line(line: &Line, wanted: Option<u64>) -> Option<String> {
    let Ok(Value::Object(mut members)) = serde_json::to_value(&line.entry) else { return None };
    if wanted.is_some() && members.get("request").and_then(Value::as_u64) != wanted {
        return None;
    }
    let step = members.remove("step").and_then(|step| step.as_str().map(str::to_owned)).unwrap_or_default();
    let mut text = format!("{} {} {step}", line.number, line.time);
    for (name, value) in members {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        text.push_str(&format!(" {name}={}", DisplayText::new(&value)));
    }
    text.push('\n');
    Some(text)
}

fn export(matches: &ArgMatches) -> Result<(), Stop> {
    let folder = folder(matches);
    if matches.get_flag("checked") {
        verify(folder, key(matches), |_| {}).map_err(stop)?;
    }
    for path in files(folder).map_err(stop)? {
        let bytes = read_file(&path).map_err(stop)?;
        // A line that was incomplete when the service ended does not count.
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        print(bytes.get(..end).unwrap_or_default())?;
    }
    Ok(())
}
