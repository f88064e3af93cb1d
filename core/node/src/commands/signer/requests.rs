//! `tenon signer requests | show | approve | deny | login | reload`: the commands of an approver.

use std::io::{BufRead as _, ErrorKind, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde::Serialize;
use serde_json::Value;
use tenon_ipc_client::{ApprovalsClient as _, PolicyClient as _, WaitingRequest};
use tenon_signing_policy::{DisplayText, Warning};

use crate::commands::argument_values::whole_number;
use crate::commands::print;
use crate::exit::Stop;
use crate::log_output;
use crate::node_client::NodeClient;

/// Environment variable with the default socket.
pub(super) const SOCKET_VARIABLE: &str = "TENON_SIGNER_SOCKET";

pub(super) fn definitions() -> [Command; 6] {
    let number = || {
        let number = Arg::new("number").value_name("NUMBER").required(true).value_parser(whole_number::<u64>);
        number.help("Number of the request")
    };
    let hash = Arg::new("hash").long("hash").value_name("HASH");
    let json = || Arg::new("json").long("json").action(ArgAction::SetTrue).help("JSON instead of lines");
    [
        Command::new("requests").about("List the requests that wait for approval").arg(json()),
        Command::new("show").about("Show what a request would sign").arg(number()).arg(json()),
        Command::new("approve")
            .about("Show a request and approve it")
            .arg(number())
            .arg(hash.help("Approve without asking if the request has this hash")),
        Command::new("deny").about("Refuse a request").arg(number()),
        Command::new("login").about("Print a URL of the page for approvals; it works once, within two minutes"),
        Command::new("reload").about("Read the policy again; if it is not valid, the current one stays in force"),
    ]
    .map(with_socket)
}

/// `--socket`, for every command of an approver.
pub(super) fn with_socket(command: Command) -> Command {
    command.arg(
        Arg::new("socket")
            .long("socket")
            .value_name("PATH")
            .required(true)
            .env(SOCKET_VARIABLE)
            .value_parser(value_parser!(PathBuf))
            .help("Socket of the approver, as named in the settings"),
    )
}

pub(super) fn execute(command: &str, matches: &ArgMatches) -> Result<(), Stop> {
    let path = matches.get_one::<PathBuf>("socket").map_or(Path::new(""), PathBuf::as_path);
    let client = connect(path)?;
    let number = || matches.try_get_one::<u64>("number").ok().flatten().copied().unwrap_or_default();
    let is_json = || matches.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or_default();
    match command {
        "requests" => list(&client.answer(client.waiting_requests())?, is_json()),
        "show" => {
            let waiting = client.answer(client.waiting_request(number()))?;
            let text = if is_json() { json_line(&waiting)? } else { shown(&waiting) };
            print(text.as_bytes())
        }
        "approve" => approve(&client, number(), matches.get_one::<String>("hash").map(String::as_str)),
        "deny" => {
            client.answer(client.deny_request(number()))?;
            print(b"refused\n")
        }
        "login" => {
            let url = client.answer(client.page_login())?;
            print(format!("{url}\n").as_bytes())
        }
        _ => {
            let hash = client.answer(client.reload_policy())?;
            print(format!("policy {hash}\n").as_bytes())
        }
    }
}

pub(super) fn connect(path: &Path) -> Result<NodeClient, Stop> {
    NodeClient::open(path, None, |kind| match kind {
        ErrorKind::NotFound => {
            Some("there is no such socket; `tenon signer run` creates the one named in its settings")
        }
        ErrorKind::ConnectionRefused => Some("no signing service listens on it; start `tenon signer run`"),
        ErrorKind::PermissionDenied => Some("the socket belongs to another user"),
        _ => None,
    })
    .map_err(Stop::Failure)
}

/// A text of the service, without characters that could mislead a terminal's user.
pub(super) fn text(value: &str) -> String {
    DisplayText::new(value).as_str().to_owned()
}

/// An answer in one line, its members by name.
fn json_line(answer: &impl Serialize) -> Result<String, Stop> {
    let value = serde_json::to_value(answer).map_err(Stop::failure)?;
    Ok(format!("{value}\n"))
}

fn seconds_left(waiting: &WaitingRequest) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    waiting.until.saturating_sub(now)
}

fn list(all: &[WaitingRequest], is_json: bool) -> Result<(), Stop> {
    if is_json {
        return print(all.iter().map(json_line).collect::<Result<String, _>>()?.as_bytes());
    }
    if all.is_empty() {
        return print(b"no request is waiting\n");
    }
    let line = |waiting: &WaitingRequest| {
        format!(
            "{}  {}  {}  rule {}  {} of {} approvals  {} s left\n",
            waiting.number,
            text(&waiting.client),
            text(&waiting.presentation.title),
            text(&waiting.rule),
            waiting.approved_by.len(),
            waiting.needed,
            seconds_left(waiting),
        )
    };
    print(all.iter().map(line).collect::<String>().as_bytes())
}

/// The request as readable text.
fn shown(waiting: &WaitingRequest) -> String {
    let presentation = &waiting.presentation;
    let mut text_of_all = format!("{}\n", text(&presentation.title));
    let lines = &presentation.lines;
    let width = lines.iter().map(|line| text(&line.label).chars().count()).max().unwrap_or_default();
    for line in lines {
        text_of_all += &format!("  {:width$}  {}\n", text(&line.label), text(&line.value));
    }
    for warning in &presentation.marks {
        let warning = serde_json::from_value::<Warning>(Value::from(warning.as_str()));
        let unknown = "  ! unknown warning: this program is older than the service; update it\n";
        text_of_all += &warning.map_or_else(|_| unknown.to_owned(), |warning| format!("  ! {warning}\n"));
    }
    let (hash, rule) = (waiting.hash, text(&waiting.rule));
    text_of_all + &format!("  rule {rule}, hash {hash}, {} s left\n", seconds_left(waiting))
}

fn approve(client: &NodeClient, number: u64, hash: Option<&str>) -> Result<(), Stop> {
    let hash = match hash {
        Some(hash) => hash.to_owned(),
        None => {
            let waiting = client.answer(client.waiting_request(number))?;
            print(shown(&waiting).as_bytes())?;
            if !is_confirmed()? {
                return Err(Stop::Failure("not approved".to_owned()));
            }
            waiting.hash.to_string()
        }
    };
    let words = match client.answer(client.approve_request(number, &hash))? {
        0 => "approved\n",
        _ => "approved; it waits for another approver\n",
    };
    print(words.as_bytes())
}

/// Asks at the terminal: only `yes` approves.
fn is_confirmed() -> Result<bool, Stop> {
    if !std::io::stdin().is_terminal() {
        return Err(Stop::Usage(
            "there is no terminal for a prompt: look at the request with `show`, then give its --hash".to_owned(),
        ));
    }
    log_output::eprint_line("Type yes to approve.");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(Stop::failure)?;
    Ok(answer.trim() == "yes")
}
