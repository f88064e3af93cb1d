//! `tenon signer policy check | explain | apply`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use alloy_primitives::{Address, B256, U256, keccak256};
use clap::{Arg, ArgGroup, ArgMatches, Command, value_parser};
use serde_json::Value;
use tenon_api::{AccessListItem, Transaction, TransactionPayload, TransactionSignature};
use tenon_device_session::Fees;
use tenon_ipc_client::PolicyClient as _;
use tenon_signing_policy::{
    DisplayText, Domain, ExplainedDecision, NoHistory, Outcome, Policy, PolicyError, Presentation, Request, Subject,
    TypedMessage,
};
use tenon_signing_service::Settings;

use crate::bounded_file;
use crate::commands::argument_values::address;
use crate::commands::device::{read_transaction, read_typed_data};
use crate::commands::print;
use crate::commands::signer::requests::{self, SOCKET_VARIABLE};
use crate::exit::Stop;
use crate::log_output;

const EXAMPLES: &str = "\
Examples:
  tenon signer policy check policy.toml
  tenon signer policy explain policy.toml --client payroll --account 0xf39F… --transaction transfer.json
  tenon signer policy explain policy.toml --client website --account 0xf39F… --message 'Login to example.org'";

pub(super) fn definition() -> Command {
    let policy = Arg::new("policy").value_name("FILE").required(true).value_parser(value_parser!(PathBuf));
    let policy = policy.help("The policy (TOML), with its contract interfaces in the same folder");
    let file = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
    };
    let explain = Command::new("explain")
        .about(
            "Print what the policy decides about a request if no request came before it, why, and the text for \
            the approver",
        )
        .arg(policy.clone())
        .arg(Arg::new("client").long("client").value_name("NAME").required(true).help("Client that sends the request"))
        .arg(
            Arg::new("account")
                .long("account")
                .value_name("ADDRESS")
                .required(true)
                .value_parser(address)
                .help("Account whose key would sign"),
        )
        .arg(file("transaction", "A transaction as JSON, with the members of eth_signTransaction"))
        .arg(Arg::new("message").long("message").value_name("TEXT").help("A message (EIP-191)"))
        .arg(file("typed-data", "Typed data as JSON (EIP-712)"))
        .arg(file("raw", "A file of bytes of unknown meaning"))
        .group(ArgGroup::new("what").args(["transaction", "message", "typed-data", "raw"]).required(true));
    Command::new("policy")
        .about("Check, explain or replace the rules for signing")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(Command::new("check").about("Check a policy, and print its hash or its errors").arg(policy))
        .subcommand(explain)
        .subcommand(apply_definition())
}

fn apply_definition() -> Command {
    let path = |name: &'static str, value: &'static str, help: &'static str| {
        let argument = Arg::new(name).value_name(value).required(true).value_parser(value_parser!(PathBuf));
        argument.help(help)
    };
    Command::new("apply")
        .about("Check a policy, replace the policy of the service by it, and let the service read it")
        .arg(path(
            "policy",
            "FILE",
            "The new policy; its contract interfaces are in the folder of the service's \
            policy",
        ))
        .arg(path("settings", "FILE", "Settings file of the service").long("settings"))
        .arg(path("socket", "PATH", "Socket of an approver").long("socket").env(SOCKET_VARIABLE))
}

pub(super) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    match matches.subcommand() {
        Some(("check", matches)) => check(matches),
        Some(("explain", matches)) => explain(matches),
        Some(("apply", matches)) => apply(matches),
        _ => Err(Stop::Usage("tenon signer policy: no command given; `tenon signer policy --help` lists them".into())),
    }
}

fn policy(matches: &ArgMatches) -> Result<Policy, Stop> {
    let path = matches.get_one::<PathBuf>("policy").map_or(Path::new("policy.toml"), PathBuf::as_path);
    Policy::read(path).map_err(|error| match error {
        error @ PolicyError::Unreadable { .. } => Stop::Usage(error.to_string()),
        error => Stop::Usage(format!("{}: {error}", path.display())),
    })
}

fn check(matches: &ArgMatches) -> Result<(), Stop> {
    let policy = policy(matches)?;
    let mut text = format!("{} rules, hash {}\n", policy.len(), policy.hash());
    if policy.is_empty() {
        text.push_str("without a rule every request is denied\n");
    }
    if policy.signs_raw() {
        text.push_str("warning: a rule signs bytes of unknown meaning\n");
    }
    print(text.as_bytes())
}

/// Checks the new policy in its final place, replaces the old one atomically, and has the service read it.
fn apply(matches: &ArgMatches) -> Result<(), Stop> {
    let path = |name: &str| matches.get_one::<PathBuf>(name).map_or(Path::new(""), PathBuf::as_path);
    let settings = Settings::read(path("settings")).map_err(|error| Stop::Usage(error.to_string()))?;
    let text = text(path("policy"))?;
    let folder = settings.policy.parent().unwrap_or(Path::new("."));
    let mut beside = tempfile::Builder::new()
        .prefix(".policy-")
        .tempfile_in(folder)
        .map_err(|error| Stop::Usage(format!("{}: {error}", folder.display())))?;
    let written = beside.write_all(text.as_bytes()).and_then(|()| beside.as_file().sync_all());
    written.map_err(|error| Stop::failure(format!("{}: {error}", beside.path().display())))?;
    let policy = Policy::read(beside.path()).map_err(|error| wrong(path("policy"), &error.to_string()))?;
    for (rule, client) in policy.unknown_clients(|name| settings.clients.contains_key(name)) {
        log_output::eprint_line(&format!(
            "rule \"{rule}\" names the client \"{client}\", which is not in the settings"
        ));
    }
    let client = requests::connect(path("socket"))?;
    beside
        .persist(&settings.policy)
        .map_err(|error| Stop::failure(format!("{}: {error}", settings.policy.display())))?;
    let hash = policy.hash();
    match client.answer(client.reload_policy())? == hash {
        true => print(format!("policy {hash}\n").as_bytes()),
        false => Err(Stop::Failure(format!(
            "{} was replaced, but the service still has another policy: check that these are its settings",
            settings.policy.display()
        ))),
    }
}

fn explain(matches: &ArgMatches) -> Result<(), Stop> {
    let policy = policy(matches)?;
    let request = Request {
        client: matches.get_one::<String>("client").cloned().unwrap_or_default(),
        account: matches.get_one::<Address>("account").copied().unwrap_or_default(),
        subject: subject(matches)?,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let explained = policy.explain(&request, &NoHistory, now);
    let shown = Presentation::new(&request, policy.interfaces());
    print(explanation(&shown, &explained).as_bytes())
}

fn explanation(shown: &Presentation, explained: &ExplainedDecision) -> String {
    let mut text = format!("{}\n", shown.title);
    let width = shown.lines.iter().map(|line| line.label.chars().count()).max().unwrap_or_default();
    for line in &shown.lines {
        let _ = writeln!(text, "  {:width$}  {}", line.label, line.value);
    }
    for warning in &shown.warnings {
        let _ = writeln!(text, "  ! {warning}");
    }
    text.push_str("\nRules\n");
    for (name, outcome) in &explained.rules {
        let reason = outcome.map_or_else(|mismatch| mismatch.to_string(), |()| "matches".to_owned());
        let _ = writeln!(text, "  {}: {reason}", DisplayText::new(name));
    }
    if explained.rules.is_empty() {
        text.push_str("  no rule is about such a request\n");
    }
    let word = match explained.decision.outcome {
        Outcome::Allow => "allow",
        Outcome::Ask => "ask",
        Outcome::Deny => "deny",
    };
    let _ = writeln!(text, "\nDecision: {word} ({})", explained.decision.reason);
    text
}

fn subject(matches: &ArgMatches) -> Result<Subject, Stop> {
    let file = |name: &str| matches.get_one::<PathBuf>(name);
    if let Some(path) = file("transaction") {
        return transaction(&text(path)?).map_err(|error| wrong(path, &error));
    }
    if let Some(path) = file("typed-data") {
        return typed_data(&text(path)?).map_err(|error| wrong(path, &error));
    }
    if let Some(path) = file("raw") {
        return Ok(Subject::Raw(bytes(path)?.into()));
    }
    let message = matches.get_one::<String>("message").cloned().unwrap_or_default();
    Ok(Subject::Message(message.into_bytes().into()))
}

fn wrong(path: &Path, error: &str) -> Stop {
    Stop::Usage(format!("{}: {error}", path.display()))
}

fn bytes(path: &Path) -> Result<Vec<u8>, Stop> {
    bounded_file::signing_request(path).map_err(|error| wrong(path, &error.to_string()))
}

fn text(path: &Path) -> Result<String, Stop> {
    String::from_utf8(bytes(path)?).map_err(|_| wrong(path, "the file is not UTF-8"))
}

fn transaction(text: &str) -> Result<Subject, String> {
    let (read, _) = read_transaction(text)?;
    let payload = match read.fees {
        Fees::Legacy { gas_price } => TransactionPayload::Legacy { gas_price },
        Fees::FeeMarket { max_fee, max_priority_fee, access_list } => TransactionPayload::DynamicFee {
            max_fee_per_gas: max_fee,
            max_priority_fee_per_gas: max_priority_fee,
            access_list: access_list
                .into_iter()
                .map(|item| AccessListItem { address: item.address, storage_keys: item.storage_keys })
                .collect(),
        },
    };
    let transaction = Transaction {
        hash: B256::ZERO,
        chain_id: read.chain_id,
        nonce: read.nonce,
        gas_limit: read.gas_limit,
        to: read.to,
        value: read.value,
        input: read.data,
        payload,
        signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
    };
    let hash = tenon_chain::signing_hash(&transaction);
    Ok(Subject::Transaction { transaction: Box::new(transaction), hash })
}

fn typed_data(text: &str) -> Result<Subject, String> {
    let hashed = read_typed_data(text)?;
    let message = hashed.message_hash.as_ref().map_or(&[][..], |hash| hash.as_slice());
    let hash = keccak256([&[0x19, 0x01], hashed.domain_separator.as_slice(), message].concat());
    let json: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let domain = &json["domain"];
    let of_domain = |name: &str| domain[name].as_str().map(str::to_owned);
    let number = |value: &Value| value.as_u64().map(U256::from).or_else(|| value.as_str()?.parse().ok());
    let members = json["message"].as_object().into_iter().flatten();
    Ok(Subject::TypedData(Box::new(TypedMessage {
        domain: Domain {
            name: of_domain("name"),
            version: of_domain("version"),
            chain_id: number(&domain["chainId"]),
            contract: of_domain("verifyingContract").and_then(|address| address.parse().ok()),
            others: other_members(domain),
        },
        primary_type: json["primaryType"].as_str().unwrap_or_default().to_owned(),
        hash,
        members: members.map(|(name, value)| (name.clone(), shown_member(value))).collect(),
    })))
}

/// Members of a domain that have no line of their own.
fn other_members(domain: &Value) -> Vec<(String, String)> {
    let has_line = |name: &str| matches!(name, "name" | "version" | "chainId" | "verifyingContract");
    let others = domain.as_object().into_iter().flatten().filter(|(name, _)| !has_line(name));
    others.map(|(name, value)| (name.clone(), shown_member(value))).collect()
}

/// A member's value: a string unchanged, other values as JSON.
fn shown_member(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
