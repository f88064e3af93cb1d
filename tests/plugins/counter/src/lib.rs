//! A plugin with state, for the tests of the life cycle: it counts, hands its count over, and subscribes to an event.
//!
//! It owns the count. Invariant: every caller gets a unique number, even while the plugin is being replaced.

#![deny(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use tenon_sdk::prelude::*;

struct Counter {
    count: AtomicU64,
    settings: String,
}

impl Plugin for Counter {
    fn start(_host: Host, settings: &str, handover: &[u8]) -> Result<Self, Failure> {
        if settings.contains("refuse") {
            return Err(Failure::server("told to refuse"));
        }
        let count = handover.try_into().map_or(0, u64::from_le_bytes);
        Ok(Self { count: AtomicU64::new(count), settings: settings.to_owned() })
    }

    fn export_state(&self) -> Vec<u8> {
        self.count.load(Ordering::Acquire).to_le_bytes().to_vec()
    }
}

fn table() -> Table<Counter> {
    Table::new("counter", "1.0")
        .capabilities(&[Capability::ReadNode])
        .lasting_subscriptions()
        .method("counter_next", &[], "Counts on.", next)
        .read("counter_settings", &[], "Its settings.", settings)
        .read("counter_abacus_settings", &[], "What `abacus_settings` answers by that other name.", abacus_settings)
        .subscription("progress", progress)
}

tenon_sdk::export!(Counter, table);

async fn next(context: Context<Counter>) -> Result<u64, Failure> {
    Ok(context.count.fetch_add(1, Ordering::AcqRel) + 1)
}

async fn settings(context: Context<Counter>) -> Result<String, Failure> {
    Ok(context.settings.clone())
}

async fn abacus_settings(_context: Context<Counter>) -> Result<String, Failure> {
    Ok("by another name".to_owned())
}

async fn progress(context: Context<Counter>, sink: Sink) -> Result<(), Failure> {
    let mut events = context.events::<SyncChanged>();
    sink.accept().await;
    while let Some(delivery) = events.next().await? {
        match delivery {
            Delivery::Event(event) => sink.send(&event.status.map(|status| status.current.0)).await?,
            Delivery::Missed(missed) => sink.send(&format!("missed {missed}")).await?,
        }
    }
    Ok(())
}
