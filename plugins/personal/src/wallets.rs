//! Lists wallets, and answers requests that only devices support.

use std::borrow::Cow;

use tenon_sdk::{
    error_texts::{device_status_text, wallet_failure_text},
    prelude::*,
    shapes::JsonWriter,
};

use crate::PersonalContext;

/// The interface document passes two strings to this method, which the reference does not accept: they may be secrets,
/// and are ignored without decoding.
pub(crate) async fn list(
    context: PersonalContext,
    _ignored: Option<SecretText>,
    _also_ignored: Option<SecretText>,
) -> Result<JsonWriter, Failure> {
    let wallets = context.call(ListWallets).await?;
    let mut json = JsonWriter::with_capacity(wallets.len() * 400 + 2);
    json.begin_list();
    for wallet in &wallets {
        json.begin_object();
        json.key("url").string(&wallet.url);
        json.key("status").string(&status_text(wallet));
        if let Some(failure) = &wallet.failure {
            json.key("failure").string(&wallet_failure_text(failure));
        }
        if !wallet.accounts.is_empty() {
            json.key("accounts");
            json.begin_list();
            wallet.accounts.iter().for_each(|account| write_account(&mut json, account));
            json.end_list();
        }
        json.end_object();
    }
    json.end_list();
    Ok(json)
}

fn status_text(wallet: &Wallet) -> Cow<'_, str> {
    match &wallet.status {
        WalletStatus::Locked => "Locked".into(),
        WalletStatus::Unlocked => "Unlocked".into(),
        WalletStatus::Device(status) => device_status_text(status, wallet.failure.as_ref()).into(),
        WalletStatus::Text(words) => words.into(),
    }
}

fn write_account(json: &mut JsonWriter, account: &WalletAccount) {
    json.begin_object();
    json.key("address").data(account.address);
    json.key("url").string(&account.url);
    json.end_object();
}

pub(crate) async fn open(
    context: PersonalContext,
    url: String,
    passphrase: Option<SecretText>,
) -> Result<Option<bool>, Failure> {
    let operation = WalletOperation::Open { passphrase: passphrase.unwrap_or_default() };
    context.call(UseWallet { url, operation }).await?;
    Ok(None)
}

pub(crate) async fn derive(
    context: PersonalContext,
    url: String,
    path: String,
    pin: Option<bool>,
) -> Result<JsonWriter, Failure> {
    let operation = WalletOperation::Derive { path, is_pinned: pin.unwrap_or_default() };
    match context.call(UseWallet { url, operation }).await? {
        WalletAnswer::Account(account) => {
            let mut json = JsonWriter::with_capacity(200);
            write_account(&mut json, &account);
            Ok(json)
        }
        _ => Err(unexpected()),
    }
}

pub(crate) async fn initialize(context: PersonalContext, url: String) -> Result<String, Failure> {
    match context.call(UseWallet { url, operation: WalletOperation::Initialize }).await? {
        WalletAnswer::Mnemonic(words) => Ok(words.expose().to_owned()),
        _ => Err(unexpected()),
    }
}

pub(crate) async fn unpair(context: PersonalContext, url: String, pin: SecretText) -> Result<Option<bool>, Failure> {
    context.call(UseWallet { url, operation: WalletOperation::Unpair { pin } }).await?;
    Ok(None)
}

fn unexpected() -> Failure {
    Failure::server("the wallet returned an answer of the wrong kind")
}
