//! The `eth` namespace: chain and state queries, calls, fees, transactions, logs, filters and subscriptions.
//!
//! It owns callers' notation (parameters, defaults, ranges), the polling filters, and the default values of
//! transactions. [`tenon_sdk::shapes`] owns the JSON forms of chain data.
//!
//! Invariants:
//!
//! - an answer about one block comes from one message, so that its parts belong together;
//! - between calls the plugin only removes idle filters, because a filter stores just a position in the chain or the
//!   pool (`registry`);
//! - where families of chains differ, the chain's `Dialect` decides.
//!
//! It knows no storage, no transport and no key.
//!
//! Sources: `docs/spec/rpc-eth.md` 4 to 18, on the Ethereum profile `docs/spec/conformance.md` 2 and 3.2.

#![deny(unsafe_code)]

mod blocks;
mod calls;
mod chain;
mod changes;
mod config;
mod criteria;
mod deferred;
mod dialect;
mod event_logs;
mod feed;
mod fees;
mod filters;
mod go_rlp;
// Tests and fuzzers have debug assertions, releases have not. A cargo feature would not do: the library's file name has no
// hash, so a build with other features would overwrite it.
#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod fuzzing;
mod logs;
mod mining;
mod native;
mod pending_logs;
mod registry;
mod results;
mod sending;
mod settings;
mod shared_event;
mod simulation;
mod state;
mod storage_key;
mod subscriptions;
mod table;
mod token_stats;
mod transactions;
mod typed_data;
mod uncles;

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use tenon_sdk::{prelude::*, shapes::JsonWriter};

use crate::{
    deferred::Deferred, dialect::Dialect, event_logs::EventLogs, feed::FeedPlace, registry::Registry,
    settings::Settings, shared_event::SharedEvent,
};

/// The running plugin.
pub struct Eth {
    settings: Settings,
    /// Requested once: it never changes while the node runs.
    chain_info: OnceLock<Arc<ChainInfo>>,
    /// Requested once too.
    spelling: OnceLock<Spelling>,
    filters: Registry,
    /// The headers of new blocks, shared by all subscriptions to `newHeads`.
    head_feed: FeedPlace<SharedEvent<NewHead>>,
    /// The logs of new blocks, shared by all subscriptions to logs.
    log_feed: FeedPlace<EventLogs>,
    /// The transactions that became pending, shared by all subscriptions to them.
    pending_feed: FeedPlace<SharedEvent<TransactionPending>>,
}

impl Plugin for Eth {
    fn start(host: Host, settings: &str, handover: &[u8]) -> Result<Self, Failure> {
        Ok(Self {
            settings: Settings::parse(settings)?,
            chain_info: OnceLock::new(),
            spelling: OnceLock::new(),
            filters: Registry::new(handover, |client, bytes| host.hold(client, bytes).map(Some)),
            head_feed: FeedPlace::default(),
            log_feed: FeedPlace::default(),
            pending_feed: FeedPlace::default(),
        })
    }

    fn export_state(&self) -> Vec<u8> {
        self.filters.export()
    }
}

/// One call of this plugin.
type EthContext = Context<Eth>;
/// A result that is written as JSON directly.
type Answer = Result<JsonWriter, Failure>;

/// Facts about the chain; sends a request only the first time.
async fn chain_info(context: &EthContext) -> Result<Arc<ChainInfo>, Failure> {
    if let Some(info) = context.chain_info.get() {
        return Ok(info.clone());
    }
    let info = context.call(GetChainInfo).await?;
    Ok(context.chain_info.get_or_init(|| info).clone())
}

/// The family of rules whose shapes and defaults apply.
async fn profile(context: &EthContext) -> Result<Profile, Failure> {
    match context.chain_info.get() {
        Some(info) => Ok(info.profile),
        None => Ok(chain_info(context).await?.profile),
    }
}

/// What the chain's family decides about answers.
async fn dialect(context: &EthContext) -> Result<&'static Dialect, Failure> {
    Ok(Dialect::of(profile(context).await?))
}

/// The spelling of addresses that are member names.
async fn spelling(context: &EthContext) -> Result<Spelling, Failure> {
    match context.spelling.get() {
        Some(spelling) => Ok(*spelling),
        None => {
            let spelling = context.call(GetSpelling).await?;
            Ok(*context.spelling.get_or_init(|| spelling))
        }
    }
}

/// The block argument of a state query.
type StateBlock = Deferred<Option<BlockParam>>;

/// The block of a state query. On the Ethereum profile it may be omitted and means the latest one. The reference
/// requires it: it reports argument number `position` as missing, and for `null` that neither a block nor a hash is
/// specified.
async fn block_or_default(context: &EthContext, block: StateBlock, position: usize) -> Result<BlockId, Failure> {
    let was_given = block.was_given();
    if let Some(block) = block.at(position)? {
        return usable(context, block, position).await;
    }
    if !dialect(context).await?.requires_state_block {
        return Ok(BlockId::LATEST);
    }
    if was_given {
        return BlockParam::named(None).id();
    }
    Err(Failure::missing_argument(position))
}

/// The block of a call, argument number `position`, which may be omitted on every profile.
async fn block_or_latest(context: &EthContext, block: Option<BlockParam>, position: usize) -> Result<BlockId, Failure> {
    let Some(block) = block else { return Ok(BlockId::LATEST) };
    usable(context, block, position).await
}

/// The block named by argument number `position`, if this chain allows that name.
async fn usable(context: &EthContext, block: BlockParam, position: usize) -> Result<BlockId, Failure> {
    let id = block.id()?;
    if id != BlockId::Tag(BlockTag::Safe) {
        return Ok(id);
    }
    match refuse_safe(context, id, position).await {
        Err(_) if block.is_object => {
            let error = ArgumentError::mismatch("object", "string");
            Err(Failure::invalid_argument(position, error))
        }
        refused => refused.map(|()| id),
    }
}

/// A block by tag or height, argument number `position`.
async fn named_block(context: &EthContext, block: BlockNumberParam, position: usize) -> Result<BlockId, Failure> {
    refuse_safe(context, block.0, position).await?;
    Ok(block.0)
}

/// Refuses `safe` where it is not a tag (`docs/spec/rpc-eth.md` 4.4).
async fn refuse_safe(context: &EthContext, block: BlockId, position: usize) -> Result<(), Failure> {
    if block == BlockId::Tag(BlockTag::Safe) && !dialect(context).await?.has_safe_tag {
        return Err(Failure::invalid_argument(position, "hex string without 0x prefix"));
    }
    Ok(())
}

/// A list of bytes, each as `0x` and hex digits.
fn write_data_list<T: AsRef<[u8]>>(json: &mut JsonWriter, values: impl IntoIterator<Item = T>) {
    json.begin_list();
    for value in values {
        json.data(value);
    }
    json.end_list();
}

/// The answer if nothing was found.
fn null() -> JsonWriter {
    let mut json = JsonWriter::with_capacity(4);
    json.null();
    json
}

tenon_sdk::export!(Eth, table::table);
