//! `tenon signer wallets | open | derive`: the hardware wallets of the service.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command};
use tenon_ipc_client::{Derived, SecretParams, SignerWallet, WalletsClient as _};

use super::requests::{self, connect};
use crate::commands::device::KEYPAD;
use crate::commands::print;
use crate::exit::Stop;
use crate::log_output;
use crate::passwords::Passwords;

/// The service's errors if a device needs its PIN, and if it needs a passphrase.
const WANTED: [(&str, &str); 2] =
    [("pin needed", "PIN: "), ("passphrase needed", "Passphrase (empty: the standard wallet): ")];
/// Maximum number of prompts of a device for one opening.
const MAX_PROMPTS: usize = 8;

pub(super) fn definitions() -> [Command; 3] {
    let url =
        || Arg::new("url").value_name("URL").required(true).help("The wallet, as `tenon signer wallets` lists it");
    let path = Arg::new("path").value_name("PATH").required(true).help(
        "Derivation path of the account, such as \
        m/44'/60'/0'/0/1",
    );
    [
        Command::new("wallets").about("List the wallets of the service and their states"),
        Command::new("open").about("Open a hardware wallet; asks for PIN and passphrase").arg(url()),
        Command::new("derive").about("Add an account of a hardware wallet").args([url(), path]),
    ]
    .map(super::requests::with_socket)
}

pub(super) fn execute(command: &str, matches: &ArgMatches) -> Result<(), Stop> {
    let socket = matches.get_one::<PathBuf>("socket").map_or(Path::new(""), PathBuf::as_path);
    let text = |name: &str| matches.try_get_one::<String>(name).ok().flatten().cloned().unwrap_or_default();
    match command {
        "wallets" => {
            let client = connect(socket)?;
            list(&client.answer(client.signer_wallets())?)
        }
        "open" => open(socket, &text("url")),
        _ => {
            let client = connect(socket)?;
            let account = match client.answer(client.derive_account(&text("url"), &text("path")))? {
                Derived::Account(account) => format!("{account:#x}\n"),
                Derived::Done(_) => "\n".to_owned(),
            };
            print(account.as_bytes())
        }
    }
}

fn list(wallets: &[SignerWallet]) -> Result<(), Stop> {
    let mut text = String::new();
    for wallet in wallets {
        text += &format!("{}  {}\n", requests::text(&wallet.url), requests::text(&wallet.status));
        for account in &wallet.accounts {
            text += &format!("  {account:#x}\n");
        }
    }
    if text.is_empty() {
        text += "no wallets; set `keystore`, `devices` or `udp` in the settings of the service\n";
    }
    print(text.as_bytes())
}

/// Asks for the PIN or passphrase that the device needs, one after another.
fn open(socket: &Path, url: &str) -> Result<(), Stop> {
    let client = connect(socket)?;
    let mut secret = tenon_api::SecretText::default();
    for _ in 0..MAX_PROMPTS {
        let params =
            SecretParams::new().plain(&url).and_then(|params| params.secret(&secret)).map_err(Stop::failure)?;
        let refusal = match client.call_with_secret::<bool>("wallets_open", params) {
            Ok(_) => return print(b"open\n"),
            Err(Stop::Failure(refusal)) => refusal,
            Err(stop) => return Err(stop),
        };
        let wanted = WANTED.iter().find(|(words, _)| refusal.ends_with(words));
        let Some((_, prompt)) = wanted else { return Err(Stop::Failure(refusal)) };
        if prompt.starts_with("PIN") {
            log_output::eprint_line(KEYPAD.trim_end());
        }
        secret = Passwords::Terminal { otherwise: "run this command in a terminal" }.next(prompt)?;
    }
    Err(Stop::Failure(format!("gave up: the device asked for input {MAX_PROMPTS} times")))
}
