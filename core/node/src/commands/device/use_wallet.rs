//! `tenon device open`, `accounts` and `show-address`; opens the wallet for `sign`.

use alloy_primitives::Address;
use clap::{Arg, ArgMatches, Command};
use futures_util::future::BoxFuture;
use tenon_config::DeviceSettings;
use tenon_device_session::{DerivationPath, DeviceError, Timeouts, Wallet, WalletStatus};
use tenon_sdk::error_texts::{account_refusal_text, device_status_text};
use tokio::sync::watch;

use super::person::{TerminalPerson, passphrase_argument};
use super::reach::{choose, device_argument, udp_argument, url};
use crate::commands::argument_values::whole_number;
use crate::commands::print;
use crate::exit::Stop;

/// Maximum number of addresses listed at once.
const MAX_COUNT: u64 = 1000;

/// Arguments of every command that opens a device.
pub(super) fn with_wallet(command: Command) -> Command {
    command.args([device_argument(), udp_argument(), passphrase_argument()])
}

/// `--path`.
pub(super) fn path_argument() -> Arg {
    Arg::new("path")
        .long("path")
        .value_name("PATH")
        .value_parser(|text: &str| text.parse::<DerivationPath>().map_err(|error| error.to_string()))
        .help("Derivation path of the key; a relative one continues m/44'/60'/0'/0 [default: m/44'/60'/0'/0/0]")
}

pub(super) fn open() -> Command {
    with_wallet(Command::new("open").about("Enter PIN and passphrase, and print the features of the device"))
}

/// A number of addresses.
fn count(text: &str) -> Result<u64, String> {
    match whole_number(text)? {
        count @ 1..=MAX_COUNT => Ok(count),
        _ => Err(format!("expected a whole number from 1 to {MAX_COUNT}")),
    }
}

pub(super) fn accounts() -> Command {
    let count = Arg::new("count")
        .long("count")
        .value_name("NUMBER")
        .default_value("1")
        .value_parser(count)
        .help("Number of addresses");
    with_wallet(Command::new("accounts").about("Print the first addresses, with their paths")).arg(count)
}

pub(super) fn show_address() -> Command {
    let about = "Show an address on the device, and print it after confirmation there";
    with_wallet(Command::new("show-address").about(about)).arg(path_argument())
}

/// An open wallet, and the person who answers its questions.
pub(super) struct Opened {
    pub(super) wallet: Wallet,
    pub(super) person: TerminalPerson,
    status: watch::Receiver<WalletStatus>,
    url: String,
}

/// Opens the device that the arguments choose.
pub(super) async fn opened(matches: &ArgMatches) -> Result<Opened, Stop> {
    let mut person = TerminalPerson::new(matches);
    let (transport, found) = choose(matches).await?;
    let (send, status) = watch::channel(WalletStatus::default());
    let url = url(&found.path);
    let mut wallet = Wallet::new(transport, found.path, Timeouts::with_prompt(DeviceSettings::default().prompt), send);
    wallet.open(None, &mut person, &mut interrupted()).await.map_err(stop)?;
    Ok(Opened { wallet, person, status, url })
}

impl Opened {
    /// The address at a path, kept as an account.
    pub(super) async fn derive(&mut self, path: DerivationPath, is_shown: bool) -> Result<Address, Stop> {
        self.wallet.derive(path, true, is_shown, &mut self.person, &mut interrupted()).await.map_err(stop)
    }
}

/// Waits for Ctrl-C, which cancels the device's current operation.
pub(super) fn interrupted() -> BoxFuture<'static, ()> {
    Box::pin(async {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a handler the signal ends the program by itself.
            std::future::pending::<()>().await;
        }
    })
}

/// Converts a device's error to the end of the command, with the text that clients of a node receive.
pub(super) fn stop(error: DeviceError) -> Stop {
    match error {
        DeviceError::Cancelled => Stop::Interrupted("cancelled, on the device too".into()),
        error => Stop::failure(account_refusal_text(&error.into())),
    }
}

/// The path given to the command, or the first account's.
pub(super) fn path(matches: &ArgMatches) -> DerivationPath {
    matches.get_one::<DerivationPath>("path").cloned().unwrap_or_else(|| DerivationPath::account(0))
}

pub(super) async fn execute_open(matches: &ArgMatches) -> Result<(), Stop> {
    let opened = opened(matches).await?;
    let text = device_status_text(&opened.status.borrow().device_status(), None);
    print(format!("{}\n{text}\n", opened.url).as_bytes())
}

pub(super) async fn execute_accounts(matches: &ArgMatches) -> Result<(), Stop> {
    let count = matches.get_one::<u64>("count").copied().unwrap_or(1);
    let mut opened = opened(matches).await?;
    for index in 0..u32::try_from(count).unwrap_or(1) {
        let path = DerivationPath::account(index);
        let address = opened.derive(path.clone(), false).await?;
        print(format!("{address}  {path}\n").as_bytes())?;
    }
    Ok(())
}

pub(super) async fn execute_show_address(matches: &ArgMatches) -> Result<(), Stop> {
    let mut opened = opened(matches).await?;
    let path = path(matches);
    let address = opened.derive(path.clone(), true).await?;
    print(format!("{address}  {path}\n").as_bytes())
}
