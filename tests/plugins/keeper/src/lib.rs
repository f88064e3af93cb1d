//! A plugin with storage and background work, for the tests of both.
//!
//! It owns its records: what it is given, and how often its work ran. Invariant: it does only what a well-behaved
//! plugin does, unless its settings say otherwise.

#![deny(unsafe_code)]

use std::time::Duration;

use tenon_sdk::prelude::*;

struct Keeper {
    /// Whether its work fails twice, counted in storage.
    fails: bool,
    /// Whether its work panics at first.
    panics: bool,
}

impl Plugin for Keeper {
    fn start(_host: Host, settings: &str, _handover: &[u8]) -> Result<Self, Failure> {
        Ok(Self { fails: settings.contains("fails"), panics: settings.contains("panics") })
    }
}

async fn put(context: Context<Keeper>, key: String, value: String) -> Result<(), Failure> {
    context.storage().put(&key, value.as_bytes()).await
}

async fn get(context: Context<Keeper>, key: String) -> Result<Option<String>, Failure> {
    let value = context.storage().get(&key).await?;
    Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
}

async fn keys(context: Context<Keeper>) -> Result<Vec<String>, Failure> {
    let page = context.storage().range(&[], None, 100).await?;
    Ok(page.records.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect())
}

async fn usage(context: Context<Keeper>) -> Result<SpaceUsage, Failure> {
    context.storage().usage().await
}

/// Counts its starts, then ticks.
async fn work(context: Context<Keeper>) -> Result<(), Failure> {
    let storage = context.storage();
    let begun = storage.get("begun").await?.map_or(0, |value| value[0]);
    storage.put("begun", &[begun + 1]).await?;
    assert!(!context.panics || begun > 0, "on purpose, in its own work");
    if context.fails && begun < 2 {
        return Err(Failure::server("told to fail"));
    }
    loop {
        let ticks = storage
            .get("ticks")
            .await?
            .map_or(0, |value| u64::from_be_bytes(value[..8].try_into().unwrap_or_default()));
        storage.put("ticks", &(ticks + 1).to_be_bytes()).await?;
        context.sleep(Duration::from_millis(1)).await;
    }
}

async fn ticks(context: Context<Keeper>) -> Result<(u8, u64), Failure> {
    let values = context.storage().get_many(["begun", "ticks"]).await?;
    let number = |value: &Option<Bytes>| {
        value.as_ref().map_or(0, |value| u64::from_be_bytes(value[..8].try_into().unwrap_or_default()))
    };
    Ok((values[0].as_ref().map_or(0, |value| value[0]), number(&values[1])))
}

fn table() -> Table<Keeper> {
    Table::new("keeper", "1.0")
        .capabilities(&[Capability::Storage])
        .background(work)
        .method("keeper_put", &["key", "value"], "Stores.", put)
        .read("keeper_get", &["key"], "Reads.", get)
        .read("keeper_keys", &[], "Lists.", keys)
        .read("keeper_usage", &[], "How full.", usage)
        .read("keeper_ticks", &[], "How often its own work was begun, and went on.", ticks)
}

tenon_sdk::export!(Keeper, table);
