//! The open subscriptions of one connection.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::task::AbortHandle;

/// Ids of one connection and the tasks that send their notifications. Shared by the connection's calls; no lock is held
/// across an await.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    /// `None` while the subscription's answer is still being sent.
    open: Mutex<HashMap<String, Option<AbortHandle>>>,
    max: usize,
}

impl Subscriptions {
    /// Creates a list of at most `max` subscriptions.
    pub(crate) fn new(max: usize) -> Self {
        Self { open: Mutex::default(), max }
    }

    /// Maximum number of subscriptions of the connection.
    pub(crate) const fn max(&self) -> usize {
        self.max
    }

    /// A new id: `0x` and up to 32 random hex digits. `None` if the connection has its maximum number.
    pub(crate) fn reserve(&self) -> Option<String> {
        let id = format!("{:#x}", rand::random::<u128>());
        let mut open = self.open.lock();
        if open.len() >= self.max {
            return None;
        }
        open.insert(id.clone(), None);
        Some(id)
    }

    /// Stores the handle of the task that serves `id`; returns it if `id` was removed in the meantime.
    pub(crate) fn started(&self, id: &str, task: AbortHandle) -> Result<(), AbortHandle> {
        match self.open.lock().get_mut(id) {
            Some(slot) => {
                *slot = Some(task);
                Ok(())
            }
            None => Err(task),
        }
    }

    /// Ends a subscription. Returns false if there is none with that id.
    pub(crate) fn remove(&self, id: &str) -> bool {
        let removed = self.open.lock().remove(id);
        if let Some(Some(task)) = &removed {
            task.abort();
        }
        removed.is_some()
    }

    /// Ends all subscriptions.
    pub(crate) fn clear(&self) {
        for task in self.open.lock().drain().filter_map(|(_, task)| task) {
            task.abort();
        }
    }
}
