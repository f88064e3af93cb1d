//! `tenon device`: hardware wallets, and simulated ones.

mod person;
mod reach;
mod registry;
mod sign;
mod simulate;
mod transaction;
mod typed_data;
mod use_wallet;

use clap::{ArgMatches, Command};

use crate::exit::Stop;
pub(crate) use person::KEYPAD;
pub(crate) use transaction::read as read_transaction;
pub(crate) use typed_data::read as read_typed_data;

const EXAMPLES: &str = "\
Examples:
  tenon device simulate                          a simulated device on UDP port 21324
  tenon device list                              the devices that are connected
  tenon device list --udp 127.0.0.1:21324        the simulated one too
  tenon device open                              enter PIN and passphrase, print the features of the device
  tenon device accounts --count 5                its first five addresses
  tenon device show-address                      show an address on the device, to compare it
  tenon device sign --message 'hello'            sign a message, after confirmation on the device
  tenon device sign --transaction transfer.json  sign a transaction for eth_sendRawTransaction
  tenon device registry                          number, name, flags and body of every message";

pub(crate) fn definition() -> Command {
    Command::new("device")
        .about("List hardware wallets, show their addresses, sign with them, or simulate one")
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            reach::definition(),
            use_wallet::open(),
            use_wallet::accounts(),
            use_wallet::show_address(),
            sign::definition(),
            simulate::definition(),
            registry::definition(),
        ])
}

pub(crate) fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    match matches.subcommand() {
        Some(("registry", matches)) => registry::execute(matches),
        Some(("simulate", matches)) => run(simulate::execute(matches)),
        Some(("list", matches)) => run(reach::execute(matches)),
        Some(("open", matches)) => run(use_wallet::execute_open(matches)),
        Some(("accounts", matches)) => run(use_wallet::execute_accounts(matches)),
        Some(("show-address", matches)) => run(use_wallet::execute_show_address(matches)),
        Some(("sign", matches)) => run(sign::execute(matches)),
        _ => Err(Stop::Usage("tenon device: no command given; `tenon device --help` lists them".into())),
    }
}

/// Runs a command on its own runtime, with one thread: the device is slower than any computation here.
fn run(command: impl Future<Output = Result<(), Stop>>) -> Result<(), Stop> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Stop::failure)?;
    let result = runtime.block_on(command);
    if matches!(result, Err(Stop::Interrupted(_))) {
        crate::passwords::show_typing();
    }
    // A thread that lists devices may hang in the operating system; the program must end nevertheless.
    runtime.shutdown_background();
    result
}
