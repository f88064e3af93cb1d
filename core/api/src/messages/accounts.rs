//! Keys of this node, and their wallets. Topics `0x0500..`.

use alloy_primitives::{Address, B256, Bytes};
use serde::{Deserialize, Serialize};

use super::{CallRequest, PoolRefusal, event, request};
use crate::{DeviceProblem, SecretText};

/// Addresses of the keys that this node can sign with, locked ones too, in the order of their wallets' URLs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAccounts;
request!(ListAccounts => Vec<Address>, topic 0x0500, ReadNode);

/// Signs a message in the personal-message form (EIP-191): 65 bytes; the last byte is 27 or 28.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignMessage {
    /// The signing account.
    pub address: Address,
    /// The message without prefix.
    pub message: Bytes,
    /// Opens the key for this message alone. Without it the account must be unlocked.
    pub password: Option<SecretText>,
}
request!(SignMessage => Bytes, topic 0x0501, schema 2, Sign, with secrets);

/// Signs a transaction that is complete, including gas, nonce and prices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignTransaction {
    /// The transaction; `from` names the key.
    pub request: CallRequest,
    /// Opens the key for this transaction alone. Without it the account must be unlocked.
    pub password: Option<SecretText>,
}
request!(SignTransaction => SignedTransactionReply, topic 0x0502, schema 2, Sign, with secrets);

/// A signed transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedTransactionReply {
    /// Canonical bytes.
    pub raw: Bytes,
    /// Transaction hash.
    pub hash: B256,
}

/// Signs a transaction and submits it to the pool. Without a nonce it gets the sender's next one; the node chooses
/// nonces for one transaction of a sender at a time, regardless of the plugin that requests it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendTransaction {
    /// The transaction; `from` names the key. Only the nonce may be missing.
    pub request: CallRequest,
    /// Opens the key for this transaction alone. Without it the account must be unlocked.
    pub password: Option<SecretText>,
}
request!(SendTransaction => Result<B256, PoolRefusal>, topic 0x0503, schema 2, Sign, with secrets);

/// Wallets in the order of their URLs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListWallets;
request!(ListWallets => Vec<Wallet>, topic 0x0504, schema 3, Sign);

/// A wallet: a key file, the keys of a mnemonic, a device, or an external signer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wallet {
    /// `<scheme>://<path>`.
    pub url: String,
    /// Whether it signs without a password, or the status that it reports.
    pub status: WalletStatus,
    /// Its last error.
    pub failure: Option<WalletFailure>,
    /// Its accounts.
    pub accounts: Vec<WalletAccount>,
}

/// Whether a wallet signs without a password, or the status that it reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WalletStatus {
    /// It needs a password to sign.
    Locked,
    /// It signs without a password.
    Unlocked,
    /// The status of a hardware wallet. Plugins write its text.
    Device(DeviceStatus),
    /// Status text of an external signer, safe to display.
    Text(String),
}

/// How far a hardware wallet is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceStatus {
    /// Not connected, or not opened yet.
    Closed,
    /// The PIN must be entered.
    WaitingForPin(DeviceName),
    /// The device answers.
    Online(DeviceName),
}

/// What a hardware wallet reports about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceName {
    /// Version of its firmware.
    pub version: [u32; 3],
    /// Its label, safe to display; empty if it has none.
    pub label: String,
}

/// The last error of a wallet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WalletFailure {
    /// Of a hardware wallet. Plugins write its text.
    Device(DeviceProblem),
    /// Text of an external signer, or why it was not reached; safe to display.
    Text(String),
}

/// An account of a wallet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalletAccount {
    /// Its address.
    pub address: Address,
    /// `<scheme>://<path>`.
    pub url: String,
}

/// Creates a key in a new key file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateAccount {
    /// Its password; any text, also an empty one.
    pub password: SecretText,
}
request!(CreateAccount => Address, topic 0x0505, Administer, with secrets);

/// Stores a given key in a new key file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportKey {
    /// 64 hexadecimal digits.
    pub key: SecretText,
    /// Its password; any text, also an empty one.
    pub password: SecretText,
}
request!(ImportKey => Address, topic 0x0506, Administer, with secrets);

/// Lets an account sign without a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnlockAccount {
    /// The account.
    pub address: Address,
    /// Its password.
    pub password: SecretText,
    /// Duration in seconds; 0 means until it is locked or the node stops.
    pub seconds: u64,
}
request!(UnlockAccount => (), topic 0x0507, Sign, with secrets);

/// Removes an account's key from memory. Does nothing if it is not unlocked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockAccount {
    /// The account.
    pub address: Address,
}
request!(LockAccount => (), topic 0x0508, Sign);

/// Runs an operation, supported by devices only, on the wallet with this URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UseWallet {
    /// URL of the wallet.
    pub url: String,
    /// The operation.
    pub operation: WalletOperation,
}
request!(UseWallet => WalletAnswer, topic 0x0509, Administer, with secrets);

/// Operations of a wallet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WalletOperation {
    /// Opens it.
    Open {
        /// A PIN, a passphrase, or nothing.
        passphrase: SecretText,
    },
    /// Derives an account.
    Derive {
        /// Text of a derivation path.
        path: String,
        /// Whether the wallet keeps it in its list of accounts.
        is_pinned: bool,
    },
    /// Creates a new secret in an empty wallet.
    Initialize,
    /// Ends the pairing with this node.
    Unpair {
        /// The wallet's PIN.
        pin: SecretText,
    },
}

/// Result of a wallet operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WalletAnswer {
    /// Done.
    Done,
    /// The derived account.
    Account(WalletAccount),
    /// The words of a new secret.
    Mnemonic(SecretText),
}

/// Recovers the signer of a message in the personal-message form (EIP-191).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoverSigner {
    /// The message without prefix.
    pub message: Bytes,
    /// 65 bytes; the last byte is 27 or 28.
    pub signature: Bytes,
}
request!(RecoverSigner => Address, topic 0x050a, ReadChain);

/// Signs typed data (EIP-712): 65 bytes; the last byte is 27 or 28.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignTypedData {
    /// The signing account.
    pub address: Address,
    /// The domain separator: hash of the domain.
    pub domain: B256,
    /// Hash of the message's structure; `None` if only the domain is signed.
    pub message: Option<B256>,
    /// The hashed data, as JSON with the members of `eth_signTypedData_v4`: devices and external signers show it. Key
    /// files sign the hashes alone.
    pub data: Option<String>,
    /// Opens the key for this message alone. Without it the account must be unlocked.
    pub password: Option<SecretText>,
}
request!(SignTypedData => Bytes, topic 0x050b, schema 2, Sign, with secrets);

/// What the account with this address can sign. A read: no person is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescribeSigner {
    /// The account.
    pub address: Address,
}
request!(DescribeSigner => SignerAbilities, topic 0x050c, ReadNode);

/// What an account can sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignerAbilities {
    /// Whether it signs transactions of type 2 (EIP-1559). Devices with old firmware sign type 0 only.
    pub signs_fee_market: bool,
}

impl SignerAbilities {
    /// Everything.
    pub const ALL: Self = Self { signs_fee_market: true };
}

/// A wallet arrived or was dropped, or its key was unlocked or locked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalletChanged {
    /// The change.
    pub change: WalletChange,
    /// URL of the wallet.
    pub url: String,
}
event!(WalletChanged, topic 0x8008, Sign);

/// A change of a wallet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WalletChange {
    /// It is new.
    Arrived,
    /// It now signs without a password.
    Opened,
    /// It needs a password again.
    Locked,
    /// It has been removed.
    Dropped,
}

/// A wallet waits for a person. Published once for each question, not again when it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalletPrompted {
    /// URL of the wallet.
    pub url: String,
    /// The expected input.
    pub prompt: WalletPrompt,
}
event!(WalletPrompted, topic 0x800a, Sign);

/// The input that a wallet waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WalletPrompt {
    /// Positions of its PIN, with `personal_openWallet`.
    Pin,
    /// Its passphrase, with `personal_openWallet`.
    Passphrase,
    /// A person at the device, who confirms what it shows or rejects it.
    Button,
}
