//! `tenon device sign`.

use std::path::{Path, PathBuf};

use alloy_primitives::hex;
use clap::{Arg, ArgGroup, ArgMatches, Command, value_parser};

use super::use_wallet::{Opened, interrupted, opened, path, path_argument, stop, with_wallet};
use super::{transaction, typed_data};
use crate::bounded_file;
use crate::commands::print;
use crate::exit::Stop;

pub(super) fn definition() -> Command {
    let file = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf)).help(help)
    };
    let message = Arg::new("message").long("message").value_name("TEXT").help("A message, signed as in EIP-191");
    let what = ["transaction", "message", "typed-data"];
    with_wallet(Command::new("sign").about("Sign with a key of the device, after confirmation on the device"))
        .arg(path_argument())
        .arg(file(
            "transaction",
            "A transaction as JSON, with the members of eth_signTransaction; the signed \
            transaction is printed",
        ))
        .arg(message)
        .arg(file("typed-data", "Typed data as JSON (EIP-712)"))
        .group(ArgGroup::new("what").args(what).required(true))
}

fn read(path: &Path) -> Result<String, Stop> {
    let bytes =
        bounded_file::signing_request(path).map_err(|error| Stop::Usage(format!("{}: {error}", path.display())))?;
    String::from_utf8(bytes).map_err(|_| Stop::Usage(format!("{}: the file is not UTF-8", path.display())))
}

pub(super) async fn execute(matches: &ArgMatches) -> Result<(), Stop> {
    let file = |name: &str| matches.get_one::<PathBuf>(name);
    let wrong = |path: &Path, error: String| Stop::Usage(format!("{}: {error}", path.display()));
    // Read before the device is used.
    let transaction = file("transaction")
        .map(|path| transaction::read(&read(path)?).map_err(|error| wrong(path, error)))
        .transpose()?;
    let typed = file("typed-data")
        .map(|path| typed_data::read(&read(path)?).map_err(|error| wrong(path, error)))
        .transpose()?;
    let Opened { mut wallet, mut person, .. } = {
        let mut opened = opened(matches).await?;
        opened.derive(path(matches), false).await?;
        opened
    };
    let account = wallet.account_at(&path(matches)).ok_or_else(|| Stop::failure("unknown account"))?;
    let cancel = &mut interrupted();
    let bytes = if let Some((transaction, from)) = transaction {
        if let Some(from) = from.filter(|from| *from != account) {
            return Err(Stop::Usage(format!(
                "the transaction is from {from}, and the account at this path is {account}"
            )));
        }
        let unsigned = transaction.clone();
        let signature = wallet.sign_transaction(account, transaction, &mut person, cancel).await.map_err(stop)?;
        unsigned.signed(&signature)
    } else if let Some(data) = typed {
        let signature = wallet.sign_typed_data(account, data, &mut person, cancel).await.map_err(stop)?;
        signature.to_bytes().to_vec()
    } else {
        let message = matches.get_one::<String>("message").cloned().unwrap_or_default().into_bytes();
        wallet.sign_message(account, message, &mut person, cancel).await.map_err(stop)?.to_bytes().to_vec()
    };
    print(format!("{}\n", hex::encode_prefixed(bytes)).as_bytes())
}
