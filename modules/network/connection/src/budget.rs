//! Received bytes that are not processed yet, counted over all connections of a node.
//!
//! Every connection has a reserve of its own, so that a flood on some connections never stops small messages on others.
//! Bytes beyond the reserve are taken from one common pool. Unfinished messages of some peers cannot block others:
//!
//! * An address may hold at most twice what is free of the first three quarters, however many connections it has. So a
//!   part always remains for another address.
//! * Of the connections without room, one at a time is chosen, and may use the last quarter until its message is
//!   complete. Messages that wait for each other's memory complete in this way. While others wait, another one is chosen
//!   after [`PROGRESS_TIME`]: of the address that was chosen least often while it has held bytes of the pool, and of those the
//!   one that holds the least. If half of the last quarter is used up by then, the connection that holds the most is
//!   closed.
//! * While another connection waits, the owner of an [`Account`] closes its connection if it holds bytes of the pool and
//!   sends less than [`MIN_PROGRESS_BYTES`] in [`PROGRESS_TIME`].

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// The common part in bytes; the longest frame has 12.3 MB. With the reserves of 100 connections and two large messages of
/// 10 MiB it stays below 64 MiB.
const COMMON_BYTES: usize = 16 << 20;
/// The reserve of each connection in bytes.
const RESERVE_BYTES: usize = 128 << 10;
/// An address may hold this many times the free bytes.
const SHARE_OF_FREE: usize = 2;
/// Time in which a peer must send [`MIN_PROGRESS_BYTES`]. Longer than the retransmission of a lost packet usually takes.
pub(crate) const PROGRESS_TIME: Duration = Duration::from_secs(3);
/// With [`PROGRESS_TIME`]: 64 KiB a second.
pub(crate) const MIN_PROGRESS_BYTES: usize = 192 << 10;
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
    ledger: Mutex<Ledger>,
    /// Notified when bytes are released, and when a connection is chosen.
    changed: Notify,
    /// Notified when a connection must be closed.
    closing: Notify,
    large: Arc<Semaphore>,
}

/// What is held, and by which connection.
#[derive(Debug, Default)]
struct Ledger {
    /// Bytes of all accounts, with large messages that are being processed.
    total: usize,
    /// Bytes of all accounts beyond their reserves.
    common: usize,
    /// Addresses that hold bytes of the pool.
    addresses: HashMap<IpAddr, OfAddress>,
    accounts: BTreeMap<u64, Entry>,
    next: u64,
    chosen: Option<Chosen>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfAddress {
    /// Bytes of its accounts beyond their reserves.
    common: usize,
    /// How often one of its accounts was chosen.
    turns: u32,
}

/// One connection.
#[derive(Debug)]
struct Entry {
    address: IpAddr,
    held: usize,
    is_waiting: bool,
    must_close: bool,
}

/// The account that may use the last quarter of the pool.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    id: u64,
    since: Instant,
    /// What it held then beyond its reserve. What it holds in addition counts in the last quarter.
    held: usize,
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
        let (ledger, changed, closing) = (Mutex::default(), Notify::new(), Notify::new());
        Self(Arc::new(Shared { common, reserve, ledger, changed, closing, large }))
    }

    /// Bytes that are held by all connections together.
    pub fn held(&self) -> usize {
        self.0.lock().total
    }

    /// The account of a new connection with a peer at `address`.
    pub(crate) fn account(&self, address: IpAddr) -> Account {
        let mut ledger = self.0.lock();
        let id = ledger.next;
        ledger.next += 1;
        ledger.accounts.insert(id, Entry { address, held: 0, is_waiting: false, must_close: false });
        drop(ledger);
        Account(Arc::new(AccountState { shared: Arc::clone(&self.0), id }))
    }
}

impl Shared {
    /// Locked for a few additions and look-ups; never held across an await.
    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, ledger: &mut Ledger, id: u64, added: usize, removed: usize) {
        let Some(entry) = ledger.accounts.get_mut(&id) else { return };
        let before = entry.held;
        entry.held = (before + added).saturating_sub(removed);
        let replace = |sum: usize, old: usize, new: usize| (sum + new).saturating_sub(old);
        let (old, new) = (before.saturating_sub(self.reserve), entry.held.saturating_sub(self.reserve));
        ledger.total = replace(ledger.total, before, entry.held);
        ledger.common = replace(ledger.common, old, new);
        let of_address = ledger.addresses.entry(entry.address).or_default();
        of_address.common = replace(of_address.common, old, new);
        if of_address.common == 0 {
            ledger.addresses.remove(&entry.address);
        }
        if removed > added {
            self.changed.notify_waiters();
        }
    }

    /// Whether more may be read for an account. If not, it waits from now on.
    fn has_room(&self, ledger: &mut Ledger, id: u64, now: Instant) -> bool {
        let Some(entry) = ledger.accounts.get(&id) else { return true };
        let last_quarter = self.common / 4;
        let free =
            (self.common - last_quarter + self.of_chosen(ledger).min(last_quarter)).saturating_sub(ledger.common);
        let fits =
            entry.held < self.reserve || ledger.of_address(entry.address).common < SHARE_OF_FREE.saturating_mul(free);
        ledger.set_waiting(id, !fits);
        if !fits {
            self.choose(ledger, now);
        }
        let may_finish = ledger.is_chosen(id) && ledger.common < self.common && self.of_chosen(ledger) < last_quarter;
        ledger.set_waiting(id, !fits && !may_finish);
        fits || may_finish
    }

    /// What the chosen account has received since it was chosen.
    fn of_chosen(&self, ledger: &Ledger) -> usize {
        let held = |chosen: Chosen| Some((ledger.accounts.get(&chosen.id)?.held, chosen.held));
        let (held, before) = ledger.chosen.and_then(held).unwrap_or_default();
        held.saturating_sub(self.reserve).saturating_sub(before)
    }

    /// Chooses a waiting account, unless another one is chosen and its time is not over.
    fn choose(&self, ledger: &mut Ledger, now: Instant) {
        if ledger.chosen.is_some_and(|chosen| now < chosen.since + PROGRESS_TIME) {
            return;
        }
        let waiting = ledger.accounts.iter().filter(|(id, entry)| entry.is_waiting && !ledger.is_chosen(**id));
        let order = |id: u64, address: IpAddr| {
            let of_address = ledger.of_address(address);
            (of_address.turns, of_address.common, id)
        };
        let Some((id, entry)) = waiting.min_by_key(|(id, entry)| order(**id, entry.address)) else { return };
        let (id, address, held) = (*id, entry.address, entry.held.saturating_sub(self.reserve));
        if ledger.chosen.is_some() && ledger.common > self.common - self.common / 8 {
            let others = ledger.accounts.iter_mut().filter(|(other, entry)| **other != id && !entry.must_close);
            if let Some((_, largest)) = others.max_by_key(|(_, entry)| entry.held) {
                largest.must_close = true;
            }
            self.closing.notify_waiters();
        }
        ledger.chosen = Some(Chosen { id, since: now, held });
        ledger.addresses.entry(address).or_default().turns += 1;
        self.changed.notify_waiters();
    }

    /// Records that the message of an account is complete, or that its connection has ended.
    fn release(&self, ledger: &mut Ledger, id: u64) {
        ledger.set_waiting(id, false);
        if ledger.is_chosen(id) {
            ledger.chosen = None;
            self.changed.notify_waiters();
        }
    }
}

impl Ledger {
    fn of_address(&self, address: IpAddr) -> OfAddress {
        self.addresses.get(&address).copied().unwrap_or_default()
    }

    fn is_chosen(&self, id: u64) -> bool {
        self.chosen.is_some_and(|chosen| chosen.id == id)
    }

    fn set_waiting(&mut self, id: u64, is_waiting: bool) {
        if let Some(entry) = self.accounts.get_mut(&id) {
            entry.is_waiting = is_waiting;
        }
    }
}

/// The account of one connection. Its bytes count until the connection and its last message are dropped.
pub(crate) struct Account(Arc<AccountState>);

impl Drop for Account {
    fn drop(&mut self) {
        self.0.shared.release(&mut self.0.shared.lock(), self.0.id);
    }
}

pub(crate) struct AccountState {
    shared: Arc<Shared>,
    id: u64,
}

impl AccountState {
    fn change(&self, added: usize, removed: usize) {
        self.shared.change(&mut self.shared.lock(), self.id, added, removed);
    }

    fn turn_of_another(&self) -> Option<Chosen> {
        self.shared.lock().chosen.filter(|chosen| chosen.id != self.id)
    }

    fn must_close(&self) -> bool {
        self.shared.lock().accounts.get(&self.id).is_some_and(|entry| entry.must_close)
    }

    /// Waits until the connection must be closed, because others need the memory that it holds.
    pub(crate) async fn closed(&self) {
        loop {
            let closing = self.shared.closing.notified();
            tokio::pin!(closing);
            closing.as_mut().enable();
            if self.must_close() {
                return;
            }
            closing.await;
        }
    }
}

impl Drop for AccountState {
    fn drop(&mut self) {
        let mut ledger = self.shared.lock();
        let held = ledger.accounts.get(&self.id).map_or(0, |entry| entry.held);
        self.shared.change(&mut ledger, self.id, 0, held);
        ledger.accounts.remove(&self.id);
    }
}

impl Account {
    /// The state, which may be kept longer than the connection.
    pub(crate) fn state(&self) -> Arc<AccountState> {
        Arc::clone(&self.0)
    }

    /// Whether more may be read. If not, the connection waits from now on.
    pub(crate) fn has_room(&self) -> bool {
        self.0.shared.has_room(&mut self.0.shared.lock(), self.0.id, Instant::now())
    }

    /// Waits until more may be read.
    pub(crate) async fn room(&self) {
        loop {
            let changed = self.0.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.has_room() {
                return;
            }
            // Another connection is chosen; or this one is, and has used up the last quarter.
            match self.0.turn_of_another() {
                Some(chosen) => drop(timeout_at(chosen.since + PROGRESS_TIME, changed).await),
                None => changed.await,
            }
        }
    }

    /// Whether the connection holds bytes of the pool.
    pub(crate) fn holds_common(&self) -> bool {
        let held = self.0.shared.lock().accounts.get(&self.0.id).map_or(0, |entry| entry.held);
        held > self.0.shared.reserve
    }

    /// Whether another connection waits for room.
    pub(crate) fn others_wait(&self) -> bool {
        self.0.shared.lock().accounts.iter().any(|(id, entry)| *id != self.0.id && entry.is_waiting)
    }

    /// Records a change of the unread bytes of the session. If they become fewer, a message was complete.
    pub(crate) fn recount(&self, before: usize, after: usize) {
        let mut ledger = self.0.shared.lock();
        self.0.shared.change(&mut ledger, self.0.id, after, before);
        if after < before {
            self.0.shared.release(&mut ledger, self.0.id);
        }
    }

    /// Waits for the turn of a large message; `None` for a small one.
    pub(crate) async fn turn(&self, unread: usize) -> Option<OwnedSemaphorePermit> {
        if unread < LARGE_BYTES {
            return None;
        }
        // The semaphore is never closed.
        Arc::clone(&self.0.shared.large).acquire_owned().await.ok()
    }

    /// Counts a message until it is dropped. Large ones are limited by their turns instead of the pool.
    pub(crate) fn payload(&self, bytes: Vec<u8>, turn: Option<OwnedSemaphorePermit>) -> Payload {
        let charge = Charge { account: Arc::clone(&self.0), bytes: bytes.len(), turn };
        match charge.turn {
            Some(_) => self.0.shared.lock().total += charge.bytes,
            None => self.0.change(charge.bytes, 0),
        }
        Payload { bytes, _charge: charge }
    }
}

struct Charge {
    account: Arc<AccountState>,
    bytes: usize,
    turn: Option<OwnedSemaphorePermit>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        match self.turn {
            Some(_) => self.account.shared.lock().total -= self.bytes,
            None => self.account.change(0, self.bytes),
        }
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
    use tokio::time::timeout;

    use super::*;

    const MIB: usize = 1 << 20;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    /// Receives until the account has no room, or `most` bytes are unread. Returns the unread bytes.
    fn fill(account: &Account, most: usize) -> usize {
        let mut unread = 0;
        while unread < most && account.has_room() {
            account.recount(unread, unread + 4096);
            unread += 4096;
        }
        unread
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_waits_until_its_address_may_hold_more_or_it_is_chosen_and_others_keep_their_reserve() {
        let budget = ReceiveBudget::new(80, 10);
        let [greedy, second, third] = [1, 2, 3].map(|last| budget.account(address(last)));
        greedy.recount(0, 60);
        assert!(greedy.has_room(), "it is chosen");
        second.recount(0, 9);
        assert!(second.has_room());
        second.recount(9, 30);
        assert!(!second.has_room());
        third.recount(0, 10);
        let [mut second_room, mut third_room] = [&second, &third].map(|account| Box::pin(account.room()));
        let wait = Duration::from_millis(10);
        assert!(timeout(wait, &mut second_room).await.is_err() && timeout(wait, &mut third_room).await.is_err());

        greedy.recount(60, 50);

        // The message of the chosen connection is complete, so the third one is chosen.
        assert!(timeout(wait, &mut second_room).await.is_err() && timeout(wait, &mut third_room).await.is_ok());
    }

    #[test]
    fn one_address_leaves_room_for_others_however_many_connections_it_has() {
        let budget = ReceiveBudget::default();
        let flood: Vec<Account> = (0..50).map(|_| budget.account(address(1))).collect();
        for account in &flood {
            fill(account, 12 * MIB);
        }
        assert!(budget.held() <= 12 * MIB + 50 * RESERVE_BYTES, "{}", budget.held());

        let honest = budget.account(address(2));

        assert!(fill(&honest, 12 * MIB) > 2 * MIB);
    }

    #[tokio::test(start_paused = true)]
    async fn the_largest_connection_is_closed_if_the_chosen_one_has_not_finished_in_time() {
        let budget = ReceiveBudget::default();
        let [large, second, third] = [1, 2, 3].map(|last| budget.account(address(last)));
        assert!(fill(&large, 20 * MIB) >= 12 * MIB && !large.has_room());
        let begun = Instant::now();
        second.recount(0, 2 * MIB);
        third.recount(0, 2 * MIB);
        let closing = large.state();
        let closed = tokio::spawn(async move {
            closing.closed().await;
            drop((closing, large));
        });

        third.room().await;
        closed.await.unwrap();

        assert_eq!(begun.elapsed(), PROGRESS_TIME);
        assert!(budget.held() == 4 * MIB && !second.0.must_close() && !third.0.must_close());
    }

    #[test]
    fn the_longest_frame_fits_if_no_other_message_is_unfinished() {
        let budget = ReceiveBudget::default();
        let (account, _other) = (budget.account(address(1)), budget.account(address(1)));
        assert_eq!(fill(&account, 12 * MIB), 12 * MIB);
    }

    /// 25 connections receive 2 MiB each at the same speed, so that none completes before the pool is used up.
    fn complete_all_of(address_of: impl Fn(u8) -> IpAddr) {
        let budget = ReceiveBudget::default();
        let accounts: Vec<Account> = (0..25).map(|number| budget.account(address_of(number))).collect();
        let mut unread: Vec<usize> = vec![0; 25];
        let mut completed = 0;
        for _ in 0..25 * 2 * MIB / 4096 {
            for (account, unread) in accounts.iter().zip(&mut unread) {
                if *unread < 2 * MIB && account.has_room() {
                    account.recount(*unread, *unread + 4096);
                    *unread += 4096;
                    if *unread == 2 * MIB {
                        account.recount(2 * MIB, 0);
                        completed += 1;
                    }
                }
            }
            assert!(budget.held() < 16 * MIB + 25 * RESERVE_BYTES, "{}", budget.held());
        }
        assert_eq!(completed, 25);
    }

    #[test]
    fn messages_that_wait_for_each_other_complete_one_after_another() {
        complete_all_of(address);
        complete_all_of(|_| address(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hundred_addresses_that_send_all_they_can_stay_within_the_limit() {
        const READ: usize = 64 << 10;
        let budget = ReceiveBudget::default();
        let mut greedy: Vec<(Account, usize)> = (0..100).map(|last| (budget.account(address(last)), 0)).collect();
        let mut closed = 0;
        for _ in 0..1000 {
            tokio::time::advance(Duration::from_millis(100)).await;
            for (last, (account, unread)) in greedy.iter_mut().enumerate() {
                if account.0.must_close() {
                    (*account, *unread) = (budget.account(address(u8::try_from(last).unwrap())), 0);
                    closed += 1;
                } else if *unread < 12 * MIB && account.has_room() {
                    account.recount(*unread, *unread + READ);
                    *unread += READ;
                }
            }
            assert!(budget.held() <= 16 * MIB + 100 * (RESERVE_BYTES + READ), "{}", budget.held());
        }
        assert!(closed > 10, "{closed}");
    }

    /// 20 addresses hold all they can, and send no more than the minimum when they are chosen.
    #[tokio::test(start_paused = true)]
    async fn a_new_message_waits_for_one_turn_of_addresses_that_were_chosen_before() {
        let budget = ReceiveBudget::default();
        let slow: Vec<Account> = (1..=20).map(|last| budget.account(address(last))).collect();
        let mut unread: Vec<usize> = slow.iter().map(|account| fill(account, MIB / 2)).collect();
        for _ in 0..200 {
            tokio::time::advance(Duration::from_millis(500)).await;
            for (account, unread) in slow.iter().zip(&mut unread) {
                if account.has_room() {
                    account.recount(*unread, *unread + 4096);
                    *unread += 4096;
                }
            }
        }

        for _ in 0..5 {
            let (honest, begun) = (budget.account(address(99)), Instant::now());
            for unread in (0..2 * MIB).step_by(4096) {
                honest.room().await;
                honest.recount(unread, unread + 4096);
            }
            assert!(begun.elapsed() <= PROGRESS_TIME, "{:?}", begun.elapsed());
        }
        assert!(slow.iter().all(|account| !account.0.must_close()), "slow is not too slow");
    }

    #[tokio::test]
    async fn messages_count_until_they_are_dropped_and_large_ones_wait_for_their_turn() {
        let budget = ReceiveBudget::new(100, 10);
        let account = budget.account(address(1));
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
