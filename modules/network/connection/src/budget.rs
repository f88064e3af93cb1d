//! Received bytes that are not processed yet, counted over all connections of a node.
//!
//! Every connection has a reserve of its own, so that a flood on some connections never stops small messages on others.
//! Bytes beyond the reserve are taken from one common pool. Unfinished messages of some peers cannot block others:
//!
//! * An address may take more bytes only while it holds less than is free in the first three quarters of the pool, over
//!   all its connections. So a part of the pool always remains free for another address.
//! * One waiting connection at a time is chosen. It may use the last quarter until its message is complete, so messages
//!   that wait for each other's memory complete one after another. The choice is made again every [`TURN_TIME`], unless
//!   the chosen connection received [`MIN_TURN_BYTES`] in that time; then it stays chosen for up to [`PROGRESS_TIME`].
//!   The choice is the address that has used the least time, then the address with the oldest connection, then the
//!   connection that has waited longest.
//! * While connections wait, half of the last quarter may be in use for [`PROGRESS_TIME`], and all of it for
//!   [`MAX_USED_UP_TIME`]. After that, the connection is closed that received the fewest bytes in its last turn; of
//!   equal ones, the one with the most bytes of the pool.
//! * While another connection waits, the owner of a [`ReceiveAccount`] closes its connection if it holds bytes of the pool and
//!   sends less than [`MIN_PROGRESS_BYTES`] in [`PROGRESS_TIME`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::fair_turns::{FairTurn, FairTurns};
use crate::turn_times::TurnTimes;

/// Size of the common pool in bytes; the longest frame has 12.3 MB. With the reserves of 100 connections, one read of
/// each of them, and two large messages of 10 MiB, the total stays below 64 MiB.
const COMMON_BYTES: usize = 24 << 20;
/// The reserve of each connection in bytes.
const RESERVE_BYTES: usize = 128 << 10;
/// Time after which another connection may be chosen. The bytes that the system has buffered are read within it.
const TURN_TIME: Duration = Duration::from_millis(100);
/// A connection that receives at least this many bytes in [`TURN_TIME`] (320 KiB a second) stays chosen. So a fast peer's
/// message is completed before another connection is chosen.
const MIN_TURN_BYTES: usize = 32 << 10;
/// Time for which the pool may be used up before a connection is closed.
const MAX_USED_UP_TIME: Duration = Duration::from_millis(250);
/// Time in which a peer must send [`MIN_PROGRESS_BYTES`]. Longer than the retransmission of a lost packet usually takes.
pub(crate) const PROGRESS_TIME: Duration = Duration::from_secs(3);
/// With [`PROGRESS_TIME`]: 64 KiB a second.
pub(crate) const MIN_PROGRESS_BYTES: usize = 192 << 10;
/// Number of unread bytes from which a message counts as large. Smaller messages decompress to at most 90 KiB.
pub(crate) const LARGE_BYTES: usize = 4 << 10;
/// Maximum number of large messages that are decompressed and not processed yet.
const MAX_LARGE_MESSAGES: usize = 2;
/// Time that a message with a turn adds to its address, besides [`COST_PER_BYTE`]. The duration of its turn is not used,
/// because the message may wait for other work in it.
const COST_PER_TURN: Duration = Duration::from_micros(100);
/// The same for each decompressed byte.
const COST_PER_BYTE: Duration = Duration::from_nanos(100);

/// The budget of a node. Clones share it.
#[derive(Clone, Debug)]
pub struct ReceiveBudget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    common: usize,
    reserve: usize,
    /// Locked for a few additions and look-ups; never held across an await.
    ledger: Mutex<Ledger>,
    /// Notified when bytes are released, and when a connection is chosen.
    changed: Notify,
    /// Notified when a connection must be closed.
    closing: Notify,
    large: FairTurns,
}

/// The memory in use, by connection.
#[derive(Debug, Default)]
struct Ledger {
    /// Bytes of all accounts, with large messages that are being processed.
    total: usize,
    /// Bytes of all accounts beyond their reserves.
    common: usize,
    /// The same for each address that holds bytes of the pool.
    common_of_address: HashMap<IpAddr, usize>,
    accounts: BTreeMap<u64, Entry>,
    /// Number of the next account, or of the next wait.
    next: u64,
    chosen: Option<Chosen>,
    /// How long the accounts of each address were chosen.
    times: TurnTimes,
    /// When half of the last quarter came into use while others waited, or when a connection was last closed for that.
    full_since: Option<Instant>,
}

/// One connection.
#[derive(Debug)]
struct Entry {
    address: IpAddr,
    held: usize,
    /// Whether its task waits for room now.
    is_waiting: bool,
    /// Its wait, until it has room.
    wait: Option<Wait>,
    /// Bytes that it received in its last turn; the maximum if it had none.
    received_in_last_turn: usize,
    must_close: bool,
}

/// The start of a wait.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// Lower numbers are earlier.
    number: u64,
    /// The address's time in [`TurnTimes`] when the wait began.
    time: Duration,
}

/// The account that may use the last quarter of the pool.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    id: u64,
    address: IpAddr,
    began: Instant,
    /// Start of the current turn. The same account can be chosen for several turns in a row.
    since: Instant,
    /// Bytes beyond the reserve that it held when it was chosen. Bytes above these count against the last quarter.
    held: usize,
    /// Bytes above `held` at the start of the current turn.
    received: usize,
}

impl Default for ReceiveBudget {
    fn default() -> Self {
        Self::new(COMMON_BYTES, RESERVE_BYTES)
    }
}

impl ReceiveBudget {
    /// A budget with a common part and a reserve for each connection, in bytes.
    pub fn new(common: usize, reserve: usize) -> Self {
        let large = FairTurns::new(MAX_LARGE_MESSAGES);
        let (ledger, changed, closing) = (Mutex::default(), Notify::new(), Notify::new());
        Self(Arc::new(Shared { common, reserve, ledger, changed, closing, large }))
    }

    /// Bytes that are held by all connections together.
    pub fn held(&self) -> usize {
        self.0.ledger.lock().total
    }

    /// The account of a new connection with a peer at `address`.
    pub(crate) fn account(&self, address: IpAddr) -> ReceiveAccount {
        let mut ledger = self.0.ledger.lock();
        let id = ledger.next;
        ledger.next += 1;
        ledger.accounts.insert(
            id,
            Entry {
                address,
                held: 0,
                is_waiting: false,
                wait: None,
                received_in_last_turn: usize::MAX,
                must_close: false,
            },
        );
        drop(ledger);
        ReceiveAccount(Arc::new(ReceiveAccountState { shared: Arc::clone(&self.0), id, address }))
    }
}

impl Shared {
    fn change(&self, ledger: &mut Ledger, id: u64, added: usize, removed: usize) {
        let Some(entry) = ledger.accounts.get_mut(&id) else { return };
        let before = entry.held;
        entry.held = (before + added).saturating_sub(removed);
        let replace = |sum: usize, old: usize, new: usize| (sum + new).saturating_sub(old);
        let (old, new) = (before.saturating_sub(self.reserve), entry.held.saturating_sub(self.reserve));
        ledger.total = replace(ledger.total, before, entry.held);
        ledger.common = replace(ledger.common, old, new);
        let of_address = ledger.common_of_address.entry(entry.address).or_default();
        *of_address = replace(*of_address, old, new);
        if *of_address == 0 {
            ledger.common_of_address.remove(&entry.address);
        }
        if ledger.common <= self.nearly_full() {
            ledger.full_since = None;
        }
        if removed > added {
            self.changed.notify_waiters();
        }
    }

    const fn last_quarter(&self) -> usize {
        self.common / 4
    }

    /// Bytes of the pool above which a connection is closed if the state lasts: half of the last quarter is in use.
    const fn nearly_full(&self) -> usize {
        self.common - self.common / 8
    }

    /// Whether more may be read for an account. If not, it waits from now on.
    fn has_room(&self, ledger: &mut Ledger, id: u64, now: Instant) -> bool {
        let Some(entry) = ledger.accounts.get(&id) else { return true };
        let first_quarters = self.common - self.last_quarter() + self.growth_of_chosen(ledger).min(self.last_quarter());
        let free = first_quarters.saturating_sub(ledger.common);
        let fits = entry.held < self.reserve || ledger.common_of(entry.address) < free;
        if fits {
            ledger.end_wait(id);
            return true;
        }
        ledger.set_waiting(id, true);
        self.choose(ledger, now);
        let may_finish = ledger.is_chosen(id) && self.chosen_has_room(ledger);
        if may_finish {
            ledger.set_waiting(id, false);
        }
        may_finish
    }

    /// Bytes beyond its reserve by which the chosen account has grown since it was chosen.
    fn growth_of_chosen(&self, ledger: &Ledger) -> usize {
        let held = |chosen: Chosen| Some((ledger.accounts.get(&chosen.id)?.held, chosen.held));
        let (held, before) = ledger.chosen.and_then(held).unwrap_or_default();
        held.saturating_sub(self.reserve).saturating_sub(before)
    }

    fn chosen_has_room(&self, ledger: &Ledger) -> bool {
        ledger.common < self.common && self.growth_of_chosen(ledger) < self.last_quarter()
    }

    /// Chooses a waiting account, unless another one is chosen and its turn is not over.
    fn choose(&self, ledger: &mut Ledger, now: Instant) {
        self.close_slowest(ledger, now);
        if self.stays_chosen(ledger, now) {
            return;
        }
        let has_used_up = self.growth_of_chosen(ledger) >= self.last_quarter();
        let may_read = |id: u64, entry: &Entry| if ledger.is_chosen(id) { !has_used_up } else { entry.is_waiting };
        // The oldest connection of each address: numbers ascend.
        let mut oldest = HashMap::new();
        ledger.accounts.iter().for_each(|(id, entry)| _ = *oldest.entry(entry.address).or_insert(*id));
        let order = |entry: &Entry| {
            let (number, time) = entry.wait.map(|wait| (wait.number, wait.time)).unwrap_or_default();
            (ledger.times.time_of_waiting(entry.address, time), oldest.get(&entry.address).copied(), number)
        };
        let candidates = ledger.accounts.iter().filter(|(id, entry)| may_read(**id, entry));
        let next = candidates.min_by_key(|(_, entry)| order(entry)).filter(|(id, _)| !ledger.is_chosen(**id));
        // If no other one waits, the same one may use the last quarter again.
        let again = ledger.accounts.iter().find(|(id, _)| has_used_up && ledger.is_chosen(**id));
        let Some((id, entry)) = next.or(again) else { return };
        let (address, held, time) = (entry.address, entry.held.saturating_sub(self.reserve), order(entry).0);
        ledger.chosen = Some(Chosen { id: *id, address, began: now, since: now, held, received: 0 });
        ledger.times.begin(time);
        self.changed.notify_waiters();
    }

    /// Whether the chosen account stays chosen. Adds its time when a turn is over.
    fn stays_chosen(&self, ledger: &mut Ledger, now: Instant) -> bool {
        let Some(chosen) = ledger.chosen else { return false };
        let used = now.saturating_duration_since(chosen.since);
        if used < TURN_TIME {
            return true;
        }
        let received = self.growth_of_chosen(ledger);
        // Time in which it waits for memory that others hold is not counted.
        if self.chosen_has_room(ledger) {
            ledger.add_time(chosen.address, used);
            if let Some(entry) = ledger.accounts.get_mut(&chosen.id) {
                entry.received_in_last_turn = received.saturating_sub(chosen.received);
            }
        }
        ledger.chosen = Some(Chosen { since: now, received, ..chosen });
        received >= chosen.received + MIN_TURN_BYTES && now < chosen.began + PROGRESS_TIME
    }

    /// Closes one connection if half of the last quarter has been in use for [`PROGRESS_TIME`], or all of it for
    /// [`MAX_USED_UP_TIME`]. It is the connection that received the fewest bytes in its last turn; of equal ones, the
    /// one with the most bytes of the pool.
    fn close_slowest(&self, ledger: &mut Ledger, now: Instant) {
        if ledger.common <= self.nearly_full() {
            return;
        }
        let since = *ledger.full_since.get_or_insert(now);
        if now < since + if ledger.common < self.common { PROGRESS_TIME } else { MAX_USED_UP_TIME } {
            return;
        }
        ledger.full_since = Some(now);
        let reading = ledger.chosen.map(|chosen| chosen.id).filter(|_| self.chosen_has_room(ledger));
        let others = ledger.accounts.iter_mut().filter(|(id, entry)| Some(**id) != reading && !entry.must_close);
        let holding = others.filter(|(_, entry)| entry.held > self.reserve);
        if let Some((_, entry)) = holding.min_by_key(|(_, entry)| (entry.received_in_last_turn, Reverse(entry.held))) {
            entry.must_close = true;
        }
        self.closing.notify_waiters();
    }

    /// Records that the message of an account is complete, or that its connection has ended.
    fn release(&self, ledger: &mut Ledger, id: u64) {
        ledger.end_wait(id);
        if let Some(chosen) = ledger.chosen.filter(|chosen| chosen.id == id) {
            // At most one turn: if others had waited for longer, `stays_chosen` would have added the time before.
            ledger.add_time(chosen.address, chosen.since.elapsed().min(TURN_TIME));
            ledger.chosen = None;
            self.changed.notify_waiters();
        }
    }
}

impl Ledger {
    /// Bytes beyond the reserves of all accounts of an address.
    fn common_of(&self, address: IpAddr) -> usize {
        self.common_of_address.get(&address).copied().unwrap_or_default()
    }

    fn is_chosen(&self, id: u64) -> bool {
        self.chosen.is_some_and(|chosen| chosen.id == id)
    }

    fn set_waiting(&mut self, id: u64, is_waiting: bool) {
        let Some(entry) = self.accounts.get_mut(&id) else { return };
        entry.is_waiting = is_waiting;
        if is_waiting && entry.wait.is_none() {
            entry.wait = Some(Wait { number: self.next, time: self.times.of(entry.address) });
            self.next += 1;
        }
        if !is_waiting && self.full_since.is_some() && !self.is_anyone_waiting() {
            self.full_since = None;
        }
    }

    /// Records that an account has room, or needs none.
    fn end_wait(&mut self, id: u64) {
        self.set_waiting(id, false);
        if let Some(entry) = self.accounts.get_mut(&id) {
            entry.wait = None;
        }
    }

    fn is_anyone_waiting(&self) -> bool {
        self.accounts.values().any(|entry| entry.is_waiting)
    }

    /// Adds the time of a chosen account.
    fn add_time(&mut self, address: IpAddr, used: Duration) {
        let waiting = self.accounts.values().filter(|entry| entry.is_waiting).map(|entry| entry.address);
        let addresses = waiting.chain([address]).collect::<HashSet<_>>().len();
        self.times.add(address, used, addresses);
    }
}

/// The account of one connection. Its bytes count until the connection and its last message are dropped.
pub(crate) struct ReceiveAccount(Arc<ReceiveAccountState>);

impl Drop for ReceiveAccount {
    fn drop(&mut self) {
        self.0.shared.release(&mut self.0.shared.ledger.lock(), self.0.id);
    }
}

pub(crate) struct ReceiveAccountState {
    shared: Arc<Shared>,
    id: u64,
    address: IpAddr,
}

impl ReceiveAccountState {
    fn change(&self, added: usize, removed: usize) {
        self.shared.change(&mut self.shared.ledger.lock(), self.id, added, removed);
    }

    fn must_close(&self) -> bool {
        self.shared.ledger.lock().accounts.get(&self.id).is_some_and(|entry| entry.must_close)
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

impl Drop for ReceiveAccountState {
    fn drop(&mut self) {
        let mut ledger = self.shared.ledger.lock();
        let held = ledger.accounts.get(&self.id).map_or(0, |entry| entry.held);
        self.shared.change(&mut ledger, self.id, 0, held);
        ledger.accounts.remove(&self.id);
    }
}

impl ReceiveAccount {
    /// The state, which may be kept longer than the connection.
    pub(crate) fn state(&self) -> Arc<ReceiveAccountState> {
        Arc::clone(&self.0)
    }

    /// Whether more may be read. If not, the connection waits from now on.
    pub(crate) fn has_room(&self) -> bool {
        self.0.shared.has_room(&mut self.0.shared.ledger.lock(), self.0.id, Instant::now())
    }

    /// Stops counting the connection as waiting: its task does other work now.
    pub(crate) fn stop_waiting(&self) {
        self.0.shared.ledger.lock().set_waiting(self.0.id, false);
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
            // Also checks after a turn's time, because the end of a turn is not notified.
            let _ = timeout(TURN_TIME, changed).await;
        }
    }

    /// Whether the connection holds bytes of the pool.
    pub(crate) fn holds_common(&self) -> bool {
        let held = self.0.shared.ledger.lock().accounts.get(&self.0.id).map_or(0, |entry| entry.held);
        held > self.0.shared.reserve
    }

    /// Whether another connection waits for room.
    pub(crate) fn others_wait(&self) -> bool {
        self.0.shared.ledger.lock().accounts.iter().any(|(id, entry)| *id != self.0.id && entry.is_waiting)
    }

    /// Records a change of the unread bytes of the session. If they become fewer, a message was complete.
    pub(crate) fn recount(&self, before: usize, after: usize) {
        let mut ledger = self.0.shared.ledger.lock();
        self.0.shared.change(&mut ledger, self.0.id, after, before);
        if after < before {
            self.0.shared.release(&mut ledger, self.0.id);
        }
    }

    /// Waits for the turn of a large message; `None` for a small one.
    pub(crate) async fn turn(&self, unread: usize) -> Option<FairTurn> {
        if unread < LARGE_BYTES {
            return None;
        }
        Some(self.0.shared.large.wait(self.0.address).await)
    }

    /// Counts a message until it is dropped. Large ones are limited by their turns instead of the pool.
    pub(crate) fn payload(&self, bytes: Vec<u8>, mut turn: Option<FairTurn>) -> Payload {
        if let Some(turn) = &mut turn {
            turn.set_cost(COST_PER_TURN + COST_PER_BYTE * u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        }
        let charge = Charge { account: Arc::clone(&self.0), bytes: bytes.len(), turn };
        match charge.turn {
            Some(_) => self.0.shared.ledger.lock().total += charge.bytes,
            None => self.0.change(charge.bytes, 0),
        }
        Payload { bytes, _charge: charge }
    }
}

struct Charge {
    account: Arc<ReceiveAccountState>,
    bytes: usize,
    turn: Option<FairTurn>,
}

impl Drop for Charge {
    fn drop(&mut self) {
        match self.turn {
            Some(_) => self.account.shared.ledger.lock().total -= self.bytes,
            None => self.account.change(0, self.bytes),
        }
    }
}

/// The payload of a received message. It counts until it is dropped.
#[derive(derive_more::Deref, derive_more::Debug)]
#[debug("Payload({} bytes)", bytes.len())]
pub struct Payload {
    #[deref(forward)]
    bytes: Vec<u8>,
    _charge: Charge,
}

#[cfg(test)]
mod tests;
