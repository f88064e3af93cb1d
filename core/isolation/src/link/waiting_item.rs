//! Items of subscriptions that wait for their subscribers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tenon_bus::Reservation;
use tenon_sdk::Failure;

use crate::wire;

/// An item of a subscription, counted while it waits for its subscriber.
pub(super) struct Item {
    item: Option<wire::Item>,
    bytes: usize,
    items: Arc<AtomicUsize>,
    /// Its share of the memory budget until it is taken.
    _memory: Option<Reservation>,
}

/// Length of an item's text in bytes.
pub(super) fn length_of(item: &wire::Item) -> usize {
    match item {
        Ok((body, _)) => body.len(),
        Err(Failure { message, data, .. }) => message.len() + data.as_ref().map_or(0, String::len),
    }
}

impl Item {
    /// Counts an item until it is taken or dropped.
    pub(super) fn counted(item: wire::Item, items: &Arc<AtomicUsize>, memory: Option<Reservation>) -> Self {
        let bytes = length_of(&item);
        items.fetch_add(bytes, Ordering::Relaxed);
        Self { item: Some(item), bytes, items: Arc::clone(items), _memory: memory }
    }

    /// The item.
    pub(super) fn take(mut self) -> wire::Item {
        // Present until it is taken, once.
        self.item.take().unwrap_or_else(|| Ok((Vec::new(), None)))
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.items.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
