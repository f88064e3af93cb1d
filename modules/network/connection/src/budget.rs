//! Received bytes that are not processed yet, counted over all connections of a node.
//!
//! Every connection has a reserve of its own, so that a flood on some connections never stops small messages on others.
//! Bytes beyond the reserve are taken from one common pool; while that is used up, connections that need more of it are
//! not read.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// The common part in bytes. With the reserves of 100 connections and two large messages of 10 MiB it stays below 64 MiB.
const COMMON_BYTES: usize = 16 << 20;
/// The reserve of each connection in bytes.
const RESERVE_BYTES: usize = 128 << 10;
/// Number of unread bytes from which a message counts as large. Smaller messages decompress to at most 90 KiB.
pub(crate) const LARGE_BYTES: usize = 4 << 10;
/// Maximum number of large messages that are decompressed and not processed yet.
const MAX_LARGE_MESSAGES: usize = 2;

/// The budget of a node. Clones share it.
#[derive(Clone, Debug)]
pub struct ReceiveBudget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    common: usize,
    reserve: usize,
    held: Mutex<Held>,
    freed: Notify,
    large: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Held {
    /// Bytes of all accounts.
    total: usize,
    /// Bytes of all accounts beyond their reserves.
    common: usize,
}

impl Default for ReceiveBudget {
    fn default() -> Self {
        Self::new(COMMON_BYTES, RESERVE_BYTES)
    }
}

impl ReceiveBudget {
    /// A budget with a common part and a reserve for each connection, in bytes.
    pub fn new(common: usize, reserve: usize) -> Self {
        let large = Arc::new(Semaphore::new(MAX_LARGE_MESSAGES));
        Self(Arc::new(Shared { common, reserve, held: Mutex::default(), freed: Notify::new(), large }))
    }

    /// Bytes that are held by all connections together.
    pub fn held(&self) -> usize {
        self.0.lock().total
    }

    /// The account of a new connection.
    pub(crate) fn account(&self) -> Account {
        Account(Arc::new(AccountState { shared: Arc::clone(&self.0), held: Mutex::default() }))
    }
}

impl Shared {
    /// Locked for a few additions; never held across an await.
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of one connection.
#[derive(Clone)]
pub(crate) struct Account(Arc<AccountState>);

struct AccountState {
    shared: Arc<Shared>,
    held: Mutex<usize>,
}

impl AccountState {
    fn change(&self, added: usize, removed: usize) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let after = (*held + added).saturating_sub(removed);
        let beyond = |bytes: usize| bytes.saturating_sub(self.shared.reserve);
        let mut all = self.shared.lock();
        all.total = (all.total + after).saturating_sub(*held);
        all.common = (all.common + beyond(after)).saturating_sub(beyond(*held));
        *held = after;
        drop((all, held));
        if removed > added {
            self.shared.freed.notify_waiters();
        }
    }
}

impl Drop for AccountState {
    fn drop(&mut self) {
        let held = *self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.change(0, held);
    }
}

impl Account {
    /// Whether more may be read.
    pub(crate) fn has_room(&self) -> bool {
        let held = *self.0.held.lock().unwrap_or_else(PoisonError::into_inner);
        held < self.0.shared.reserve || self.0.shared.lock().common < self.0.shared.common
    }

    /// Waits until more may be read.
    pub(crate) async fn room(&self) {
        loop {
            let freed = self.0.shared.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if self.has_room() {
                return;
            }
            freed.await;
        }
    }

    /// Records a change of the unread bytes of the session.
    pub(crate) fn recount(&self, before: usize, after: usize) {
        self.0.change(after, before);
    }

    /// Waits for the turn of a large message; `None` for a small one.
    pub(crate) async fn turn(&self, unread: usize) -> Option<OwnedSemaphorePermit> {
        if unread < LARGE_BYTES {
            return None;
        }
        // The semaphore is never closed.
        Arc::clone(&self.0.shared.large).acquire_owned().await.ok()
    }

    /// Counts a message until it is dropped.
    pub(crate) fn payload(&self, bytes: Vec<u8>, turn: Option<OwnedSemaphorePermit>) -> Payload {
        self.0.change(bytes.len(), 0);
        Payload { _charge: Charge { account: self.clone(), bytes: bytes.len(), _turn: turn }, bytes }
    }
}

struct Charge {
    account: Account,
    bytes: usize,
    _turn: Option<OwnedSemaphorePermit>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.0.change(0, self.bytes);
    }
}

/// The payload of a received message. It counts until it is dropped.
pub struct Payload {
    bytes: Vec<u8>,
    _charge: Charge,
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Payload").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_waits_while_the_common_part_is_used_up_and_others_keep_their_reserve() {
        let budget = ReceiveBudget::new(100, 10);
        let (greedy, modest) = (budget.account(), budget.account());
        greedy.recount(0, 110);
        assert!(!greedy.has_room() && modest.has_room());
        modest.recount(0, 10);
        assert!(!modest.has_room());
        assert_eq!(budget.held(), 120);

        let waiting = tokio::spawn(async move { modest.room().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        greedy.recount(110, 109);
        waiting.await.unwrap();
    }

    #[tokio::test]
    async fn messages_count_until_they_are_dropped_and_large_ones_wait_for_their_turn() {
        let budget = ReceiveBudget::new(100, 10);
        let account = budget.account();
        let mut large = Vec::new();
        for _ in 0..MAX_LARGE_MESSAGES {
            large.push(account.payload(vec![0; 40], account.turn(LARGE_BYTES).await));
        }
        assert_eq!(budget.held(), 80);
        assert!(account.turn(LARGE_BYTES - 1).await.is_none());
        let third = tokio::spawn(async move { account.turn(LARGE_BYTES).await.is_some() });
        tokio::task::yield_now().await;
        assert!(!third.is_finished());
        large.pop();
        assert!(third.await.unwrap());
        assert_eq!(budget.held(), 40);
        large.clear();
        assert_eq!(budget.held(), 0);
    }
}
