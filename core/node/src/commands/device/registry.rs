//! `tenon device registry`: the messages of hardware wallets.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::json;
use tenon_proto::{Entry, registry};

use crate::commands::print;
use crate::exit::Stop;

pub(super) fn definition() -> Command {
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("One JSON object per line");
    Command::new("registry")
        .about("Print the registry of messages: the number of each on the wire, its name, flags and body")
        .arg(json)
}

pub(super) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let text = if matches.get_flag("json") { as_json() } else { as_table() };
    print(text.as_bytes())
}

fn flags(entry: &Entry) -> Vec<&'static str> {
    entry.flags.iter().map(|flag| flag.name()).collect()
}

/// One line per entry.
fn as_table() -> String {
    let width = registry::entries().iter().map(|entry| entry.name.len()).max().unwrap_or_default();
    let mut table = format!("{:>3}  {:6}  {:width$}  {:35}  {}\n", "id", "family", "name", "flags", "body");
    for entry in registry::entries() {
        let flags = flags(entry).join(",");
        let family = entry.family().unwrap_or("-");
        let _ = writeln!(table, "{:3}  {family:6}  {:width$}  {flags:35}  {}", entry.id, entry.name, entry.body);
    }
    table
}

/// One JSON object per entry.
fn as_json() -> String {
    let object = |entry: &Entry| {
        json!({
            "id": entry.id,
            "name": entry.name,
            "documentName": entry.document_name(),
            "family": entry.family(),
            "flags": flags(entry),
            "body": entry.body,
        })
    };
    registry::entries().iter().map(|entry| format!("{}\n", object(entry))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_every_entry_once_by_number() {
        let table = as_table();
        let lines: Vec<&str> = table.lines().collect();

        assert_eq!(lines.len(), 194);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            words(lines[1]),
            ["0", "-", "MessageType_Initialize", "wire_in,wire_tiny", "tenon.device.management.Initialize"]
        );
        let address = lines.iter().find(|line| line.starts_with(" 57 ")).unwrap();
        assert_eq!(
            words(address),
            ["57", "F1", "MessageType_EthereumAddress", "wire_out", "tenon.device.ethereum.EthereumAddress"]
        );
        let numbers: Vec<u16> = lines[1..].iter().map(|line| line[..3].trim().parse().unwrap()).collect();
        assert!(numbers.is_sorted_by(|one, other| one < other));
    }

    #[test]
    fn prints_the_same_entries_as_json() {
        let lines: Vec<serde_json::Value> = as_json().lines().map(|line| serde_json::from_str(line).unwrap()).collect();

        assert_eq!(lines.len(), 193);
        let withdraw = lines.iter().find(|line| line["id"] == 356).unwrap();
        let expected = json!({
            "id": 356,
            "name": "MessageType_OntologySignWithdrawOng",
            "documentName": "MessageType_<F8>SignWithdraw",
            "family": "F8",
            "flags": ["wire_in"],
            "body": "tenon.device.ontology.OntologySignWithdrawOng",
        });
        assert_eq!(*withdraw, expected);
    }
}
