//! The namespace `token`: balances and transfers of chosen ERC-20 tokens, as an index inside the node.
//!
//! It is a model for a company's own index. The parts, in reading order:
//!
//! - here: settings, the table of methods, and the plugin's start;
//! - `keys`: the stored records and their keys;
//! - `transfer`: the content of a log;
//! - `ledger`: how transfers change balances, and how a batch of them is written;
//! - `follow`: the background work, which catches up, follows the head and undoes reorganised blocks;
//! - `methods`: the answers.
//!
//! Invariant: the stored cursor is the last indexed block, and is written in the same batch as the records of its
//! blocks. So the index is right after a crash, after a reorganisation, and while two builds of it run for a moment
//! during a replacement.
//!
//! ```toml
//! [plugins.token]
//! path = "…/libtenon_example_erc20_index.so"
//! [plugins.token.settings]
//! tokens = ["0x5FbDB2315678afecb367f032d93F642f64180aa3"]
//! from = 0 # the block before the tokens' first transfer, or any before it
//! [plugins.token.limits]
//! storage = "4GiB"
//! storage-records = 40000000
//! ```

#![deny(unsafe_code)]

mod follow;
mod keys;
mod ledger;
mod methods;
#[cfg(test)]
mod tests;
mod transfer;

use std::sync::{Mutex, MutexGuard, PoisonError};

use tenon_sdk::prelude::*;

/// Maximum number of tokens in one index: each costs a look-up in every undone block.
const MAX_TOKENS: usize = 64;

/// The plugin's own settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// The contracts.
    tokens: Vec<Address>,
    /// Only transfers of later blocks are indexed.
    #[serde(default)]
    from: u64,
}

/// One running instance.
struct Erc20Index {
    settings: Settings,
    /// Why following last stopped; `None` while it runs. Nothing awaits under the lock.
    problem: Mutex<Option<String>>,
}

impl Erc20Index {
    fn problem(&self) -> MutexGuard<'_, Option<String>> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plugin for Erc20Index {
    fn start(_host: Host, settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
        let malformed = |error| Failure::server(format!("settings: {error}; expected `tokens` and optionally `from`"));
        let mut settings: Settings = serde_json::from_str(settings).map_err(malformed)?;
        settings.tokens.sort_unstable();
        settings.tokens.dedup();
        if settings.tokens.is_empty() || settings.tokens.len() > MAX_TOKENS {
            let count = settings.tokens.len();
            return Err(Failure::server(format!("settings: tokens has {count} addresses, expected 1 to {MAX_TOKENS}")));
        }
        Ok(Self { settings, problem: Mutex::default() })
    }
}

fn table() -> Table<Erc20Index> {
    Table::new("token", "1.0")
        .capabilities(&[Capability::ReadChain, Capability::Storage])
        .lasting_subscriptions()
        .background(follow::follow)
        .read("token_balanceOf", &["token", "holder"], "Balance of an account in a token.", methods::balance_of)
        .read("token_holders", &["token", "page"], "Holders of a token, largest balance first.", methods::holders)
        .read("token_transfers", &["token", "page"], "Transfers of a token, newest first.", methods::transfers)
        .read("token_status", &[], "Progress and size of the index.", methods::status)
        .subscription("transfers", methods::subscribe)
}

tenon_sdk::export!(Erc20Index, table);
