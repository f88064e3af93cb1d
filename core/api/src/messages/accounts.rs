//! Keys that this node holds, and the wallets that they lie in. Topics `0x0500..`.

use alloy_primitives::{Address, B256, Bytes};
use serde::{Deserialize, Serialize};

use super::{CallRequest, event, request};
use crate::SecretText;

/// Addresses of the keys that this node can sign with, locked ones too, in the order of their wallets' URLs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListAccounts;
request!(ListAccounts => Vec<Address>, topic 0x0500, ReadNode);

/// Signs a message in the personal-message form (EIP-191): 65 bytes, the last 27 or 28.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignMessage {
    /// With whose key.
    pub address: Address,
    /// The message without prefix.
    pub message: Bytes,
    /// Opens the key for this message alone. Without it the account must be unlocked.
    pub password: Option<SecretText>,
}
request!(SignMessage => Bytes, topic 0x0501, schema 2, Sign, with secrets);

/// Signs a transaction; everything must be filled in: gas, nonce, prices.
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

/// Signs a transaction and hands it to the pool. Without a nonce it gets the next one of its sender: the node lets one
/// transaction of a sender at a time choose, whichever plugins ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendTransaction {
    /// The transaction; `from` names the key. Only the nonce may be open.
    pub request: CallRequest,
    /// Opens the key for this transaction alone. Without it the account must be unlocked.
    pub password: Option<SecretText>,
}
request!(SendTransaction => B256, topic 0x0503, Sign, with secrets);

/// Wallets in the order of their URLs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListWallets;
request!(ListWallets => Vec<Wallet>, topic 0x0504, Sign);

/// A wallet: a key file, the keys of a mnemonic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wallet {
    /// `<scheme>://<path>`.
    pub url: String,
    /// Whether it signs.
    pub status: WalletStatus,
    /// Its accounts.
    pub accounts: Vec<WalletAccount>,
}

/// Whether a wallet signs without a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WalletStatus {
    /// It needs a password.
    Locked,
    /// It signs.
    Unlocked,
}

/// An account of a wallet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalletAccount {
    /// Its address.
    pub address: Address,
    /// `<scheme>://<path>`.
    pub url: String,
}

/// Makes a key and keeps it in a new key file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateAccount {
    /// Its password; any text, also an empty one.
    pub password: SecretText,
}
request!(CreateAccount => Address, topic 0x0505, Administer, with secrets);

/// Keeps a given key in a new key file.
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
    /// Which account.
    pub address: Address,
    /// Its password.
    pub password: SecretText,
    /// For how many seconds; 0: until it is locked or the node ends.
    pub seconds: u64,
}
request!(UnlockAccount => (), topic 0x0507, Sign, with secrets);

/// Forgets the key of an account. Nothing happens if it is not unlocked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockAccount {
    /// Which account.
    pub address: Address,
}
request!(LockAccount => (), topic 0x0508, Sign);

/// Asks something of the wallet at a URL that only devices have an answer to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UseWallet {
    /// Which wallet.
    pub url: String,
    /// What.
    pub operation: WalletOperation,
}
request!(UseWallet => WalletAnswer, topic 0x0509, Administer, with secrets);

/// What a wallet can be asked.
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
        /// Whether the wallet keeps it in its list.
        is_pinned: bool,
    },
    /// Makes a new secret in an empty wallet.
    Initialize,
    /// Ends the pairing with this node.
    Unpair {
        /// The wallet's PIN.
        pin: SecretText,
    },
}

/// What a wallet answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WalletAnswer {
    /// It was done.
    Done,
    /// The derived account.
    Account(WalletAccount),
    /// The words of a new secret.
    Mnemonic(SecretText),
}

/// Who signed a message in the personal-message form (EIP-191).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoverSigner {
    /// The message without prefix.
    pub message: Bytes,
    /// 65 bytes, the last 27 or 28.
    pub signature: Bytes,
}
request!(RecoverSigner => Address, topic 0x050a, ReadChain);

/// Signs typed data (EIP-712): 65 bytes, the last 27 or 28.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignTypedData {
    /// With whose key.
    pub address: Address,
    /// Hash of the domain, its separator.
    pub domain: B256,
    /// Hash of the message's structure; none where the domain alone is signed.
    pub message: Option<B256>,
    /// Opens the key for this message alone. Without it the account must be unlocked.
    pub password: Option<SecretText>,
}
request!(SignTypedData => Bytes, topic 0x050b, Sign, with secrets);

/// A wallet came or went, or its key was opened or locked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalletChanged {
    /// What happened.
    pub change: WalletChange,
    /// Which wallet.
    pub url: String,
}
event!(WalletChanged, topic 0x8008, Sign);

/// What happened to a wallet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WalletChange {
    /// It is new.
    Arrived,
    /// It signs without a password.
    Opened,
    /// It needs a password again.
    Locked,
    /// It is gone.
    Dropped,
}
