//! `tenon peers`: the peers of a running node, over its Unix socket.

use std::fmt::Write as _;

use clap::{Arg, ArgAction, ArgMatches, Command};
use tenon_config::{Layers, SettingInfo};
use tenon_ipc_client::{AdminClient as _, Peer, PeerEth};

use crate::command_line;
use crate::commands::{columns::aligned, print};
use crate::exit::Stop;
use crate::node_client::NodeClient;

const EXAMPLES: &str = "\
Examples:
  tenon peers                            the connected peers and their heads
  tenon peers self                       the enode URL of this node
  tenon peers add enode://…@10.0.0.7:30303
  tenon peers remove enode://…@10.0.0.7:30303
  tenon peers trust enode://…            exempt this node from the limits
  tenon module enable network            turn the network on (at the start: --p2p)";

pub(crate) fn definition() -> Command {
    let url = || Arg::new("url").value_name("ENODE").required(true).help("enode URL of the node");
    let json = || Arg::new("json").long("json").action(ArgAction::SetTrue).help("JSON instead of a table");
    let commands = [
        Command::new("list").about("List the connected peers").arg(json()),
        Command::new("self").about("Print the enode URL of this node"),
        Command::new("add").about("Connect to a node and stay connected").arg(url()),
        Command::new("remove").about("End the connection to a node, and do not dial it again").arg(url()),
        Command::new("trust").about("Exempt a node from the limits on peers").arg(url()),
        Command::new("distrust").about("End the exemption of a node from the limits").arg(url()),
    ];
    let complete = |command: Command| tenon_config::add_flags(command, is_wanted, is_wanted, &[]);
    complete(
        Command::new("peers")
            .about("List, add and remove the peers of a running node")
            .after_help(EXAMPLES)
            .args_conflicts_with_subcommands(true)
            .arg(json()),
    )
    .subcommands(commands.map(complete))
}

/// Settings that locate the node.
fn is_wanted(row: &SettingInfo) -> bool {
    matches!(row.key, "datadir" | "ipc.path")
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let (command, matches) = matches.subcommand().unwrap_or(("list", matches));
    let node = NodeClient::find(&command_line::settings(Layers::new("peers"), matches)?)?;
    let url = || matches.get_one::<String>("url").map_or("", String::as_str);
    match command {
        "list" => return list(&node, matches.get_flag("json")),
        "self" => return print_own_node(&node),
        "add" => node.answer(node.add_peer(url()))?,
        "remove" => node.answer(node.remove_peer(url()))?,
        "trust" => node.answer(node.add_trusted_peer(url()))?,
        _ => node.answer(node.remove_trusted_peer(url()))?,
    };
    Ok(())
}

fn list(node: &NodeClient, is_json: bool) -> Result<(), Stop> {
    let peers = node.answer(node.peers())?;
    let text = if is_json { serde_json::to_string(&peers).map_err(Stop::failure)? + "\n" } else { table(&peers) };
    print(text.as_bytes())
}

fn print_own_node(node: &NodeClient) -> Result<(), Stop> {
    match node.answer(node.node_info())?.enode {
        Some(enode) => print(format!("{enode}\n").as_bytes()),
        None => Err(Stop::Failure(
            "the network of this node is off; `tenon module enable network` turns it on, for native chains".to_owned(),
        )),
    }
}

/// One line per peer.
fn table(peers: &[Peer]) -> String {
    let header = ["PEER", "ADDRESS", "WAY", "NAME", "HEAD", "DIFFICULTY"];
    let mut rows = vec![header.map(str::to_owned)];
    for peer in peers {
        let network = &peer.network;
        let mut way = if network.inbound { "in" } else { "out" }.to_owned();
        for (word, is_so) in [("static", network.is_static), ("trusted", network.trusted)] {
            if is_so {
                let _ = write!(way, ",{word}");
            }
        }
        let (head, difficulty) = match &peer.protocols.eth {
            PeerEth::Chain(chain) => (chain.head.to_string().chars().take(18).collect(), chain.difficulty.to_string()),
            PeerEth::Handshake(text) => (text.clone(), "-".to_owned()),
        };
        let id: String = peer.id.chars().take(16).collect();
        // The peer chooses its name freely: one line of plain characters of it is shown.
        let name: String = peer.name.chars().filter(|shown| !shown.is_control()).take(40).collect();
        rows.push([id, network.remote_address.clone(), way, name, head, difficulty]);
    }
    aligned(&rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_peer_is_a_line_and_its_name_cannot_break_it() {
        let peers = json!([{
            "id": "ab".repeat(64),
            "name": "XDC/v2.7.0\n\u{1b}[31m",
            "network": { "remoteAddress": "10.0.0.7:30303", "inbound": false, "static": true, "trusted": false },
            "protocols": { "eth": { "version": 100, "difficulty": 12, "head": format!("0x{}", "cd".repeat(32)) } },
        }, {
            "id": "cd".repeat(64),
            "name": "",
            "network": { "remoteAddress": "10.0.0.8:1", "inbound": true, "static": false, "trusted": true },
            "protocols": { "eth": "handshake" },
        }]);
        let peers: Vec<Peer> = serde_json::from_str(&peers.to_string()).unwrap();

        let shown = table(&peers);

        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 3, "{shown}");
        assert!(lines[1].contains("abababababababab  10.0.0.7:30303  out,static"), "{shown}");
        assert!(lines[1].contains("XDC/v2.7.0[31m") && lines[1].ends_with("0xcdcdcdcdcdcdcdcd  12"), "{shown}");
        let words: Vec<&str> = lines[2].split_whitespace().collect();
        assert_eq!(words[1..], ["10.0.0.8:1", "in,trusted", "handshake", "-"], "{shown}");
    }
}
