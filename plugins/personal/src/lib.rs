//! The `personal` namespace (`docs/spec/rpc-node.md` 6): creates, unlocks and uses accounts with their passwords.
//!
//! It owns the notation of the namespace. Invariants: a password or key goes to the node unchanged, is wiped when the
//! call ends, and never appears in an answer or in the log. It knows neither key files nor curves.

#![deny(unsafe_code)]

mod sending;
#[cfg(test)]
mod tests;
mod wallets;

use tenon_sdk::{prelude::*, shapes::schema};

struct Personal;

impl Plugin for Personal {
    fn start(_host: Host, _settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
        Ok(Self)
    }
}

type PersonalContext = Context<Personal>;

/// Default duration of an unlocked account, in seconds.
const UNLOCKED_FOR: u64 = 300;

/// Schema of an account with the place of its key.
macro_rules! account {
    () => {
        concat!(
            r#"{"type":"object","required":["address","url"],"properties":{"#,
            r#""address":{"type":"string","pattern":"^(0x|xdc)[0-9a-fA-F]{40}$"},"url":{"type":"string"}}}"#
        )
    };
}

/// Schemas of results whose types do not define one.
const RESULTS: &[(&str, &str)] = &[
    (
        "personal_listWallets",
        concat!(
            r#"{"type":"array","items":{"type":"object","required":["url","status"],"properties":{"#,
            r#""url":{"type":"string"},"status":{"type":"string"},"failure":{"type":"string"},"#,
            r#""accounts":{"type":["array","null"],"items":"#,
            account!(),
            "}}}}"
        ),
    ),
    ("personal_deriveAccount", account!()),
    ("personal_signTransaction", schema::SIGNED_TRANSACTION),
];

fn table() -> Table<Personal> {
    let table = Table::new("personal", "1.0").capabilities(&[
        Capability::ReadChain,
        Capability::ReadNode,
        Capability::CallEvm,
        Capability::SubmitTransactions,
        Capability::Sign,
        Capability::Administer,
    ]);
    with_sending(with_wallets(with_accounts(table))).results(RESULTS)
}

tenon_sdk::export!(Personal, table);

fn with_accounts(table: Table<Personal>) -> Table<Personal> {
    table
        .read("personal_listAccounts", &[], "Addresses of all accounts, in the order of their wallets.", list_accounts)
        .slow_method("personal_newAccount", &["password"], "Creates an account in a new key file.", new_account)
        .slow_method("personal_importRawKey", &["key", "password"], "Stores a key in a new key file.", import_raw_key)
        .slow_method(
            "personal_unlockAccount",
            &["address", "password", "seconds"],
            "Lets an account sign without a password for 300 seconds or the given number; 0 means until it is locked.",
            unlock_account,
        )
        .method("personal_lockAccount", &["address"], "Removes the key of an account from memory.", lock_account)
}

fn with_wallets(table: Table<Personal>) -> Table<Personal> {
    table
        .read(
            "personal_listWallets",
            &["ignored", "alsoIgnored"],
            "Wallets with their status and accounts. Takes no parameters: up to two texts are ignored.",
            wallets::list,
        )
        .method("personal_openWallet", &["url", "passphrase"], "Opens a hardware wallet.", wallets::open)
        .method(
            "personal_deriveAccount",
            &["url", "path", "pin"],
            "Derives an account of a hardware wallet.",
            wallets::derive,
        )
        .method("personal_initializeWallet", &["url"], "Creates a secret on an empty smart card.", wallets::initialize)
        .method("personal_unpair", &["url", "pin"], "Ends the pairing with a smart card.", wallets::unpair)
}

/// These may wait for confirmation on a device, so they must not occupy a place of the slow methods. Deriving keys from
/// passwords has a limit of its own.
fn with_sending(table: Table<Personal>) -> Table<Personal> {
    const SENDS: &str = "Fills in, signs with the password, and sends a transaction; returns its hash.";
    table
        .method("personal_sendTransaction", &["transaction", "password"], SENDS, sending::send_transaction)
        .method("personal_signAndSendTransaction", &["transaction", "password"], SENDS, sending::send_transaction)
        .read(
            "personal_signTransaction",
            &["transaction", "password"],
            "Signs a complete transaction with the password, without sending it.",
            sending::sign_transaction,
        )
        .read(
            "personal_sign",
            &["message", "address", "password"],
            "Signs a message (EIP-191) with the password; without one the account must be unlocked.",
            sending::sign,
        )
        .read("personal_ecRecover", &["message", "signature"], "The signer of a message (EIP-191).", sending::recover)
}

async fn list_accounts(context: PersonalContext) -> Result<Vec<Address>, Failure> {
    context.call(ListAccounts).await
}

async fn new_account(context: PersonalContext, password: SecretText) -> Result<Address, Failure> {
    context.call(CreateAccount { password }).await
}

async fn import_raw_key(context: PersonalContext, key: SecretText, password: SecretText) -> Result<Address, Failure> {
    context.call(ImportKey { key, password }).await
}

async fn unlock_account(
    context: PersonalContext,
    address: Address,
    password: SecretText,
    seconds: Option<Number>,
) -> Result<bool, Failure> {
    let seconds = seconds.map_or(UNLOCKED_FOR, |seconds| seconds.0);
    context.call(UnlockAccount { address, password, seconds }).await?;
    Ok(true)
}

async fn lock_account(context: PersonalContext, address: Address) -> Result<bool, Failure> {
    context.call(LockAccount { address }).await?;
    Ok(true)
}
