//! Clients with recent large answers, whose single calls take turns.
//!
//! Reading a block of some hundred kilobytes, writing its JSON and passing that to the system takes milliseconds on the
//! task of its connection. Tokio runs tasks in the order in which they became ready, so hundreds of connections of one
//! client would delay every other client by seconds. After its first such answer, a client begins at most as many calls at
//! a time as there are threads.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tenon_bus::ClientId;

/// Minimum size of a large answer, in bytes: reading and writing it takes about a millisecond.
pub(super) const LARGE_ANSWER: usize = 128 << 10;

/// Up to this many connections of a client, only answers of [`LARGE_ANSWER`] are large. With more, the limit falls in
/// proportion, because an answer on each of them takes as long in total. A connection counts for its address, so this
/// does not apply to clients behind a proxy or with a token of their own over HTTP.
const FEW_CONNECTIONS: usize = 64;

/// Time after the last large answer of a client during which its calls take turns.
const RECENT: Duration = Duration::from_secs(1);

/// The clients with recent large answers. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct LargeAnswers(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// Whether there are any. The lock is taken only in this case.
    has_clients: AtomicBool,
    /// Nothing awaits under the lock.
    answers: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    /// Time of the last large answer of each client.
    of_clients: HashMap<ClientId, Instant>,
    /// Time of the last one of all.
    last: Option<Instant>,
}

/// Whether an answer of `bytes` to a client with this number of connections is large.
pub(super) const fn is_large(bytes: usize, connections: usize) -> bool {
    bytes >= LARGE_ANSWER || bytes.saturating_mul(connections) >= LARGE_ANSWER * FEW_CONNECTIONS
}

impl LargeAnswers {
    /// Records a large answer.
    pub(super) fn record(&self, client: ClientId, now: Instant) {
        let mut answers = self.0.answers.lock();
        answers.of_clients.retain(|_, last| is_recent(*last, now));
        answers.of_clients.insert(client, now);
        answers.last = Some(now);
        self.0.has_clients.store(true, Ordering::Relaxed);
    }

    /// Whether the client has had a large answer recently. Calls `now` only if any client may have had one.
    pub(super) fn has_recent(&self, client: ClientId, now: impl FnOnce() -> Instant) -> bool {
        if !self.0.has_clients.load(Ordering::Relaxed) {
            return false;
        }
        let now = now();
        let mut answers = self.0.answers.lock();
        if !answers.last.is_some_and(|last| is_recent(last, now)) {
            *answers = Answers::default();
            self.0.has_clients.store(false, Ordering::Relaxed);
        }
        answers.of_clients.get(&client).is_some_and(|last| is_recent(*last, now))
    }
}

fn is_recent(last: Instant, now: Instant) -> bool {
    now.saturating_duration_since(last) < RECENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_depends_on_the_number_of_connections() {
        assert!(is_large(LARGE_ANSWER, 1));
        assert!(!is_large(LARGE_ANSWER - 1, FEW_CONNECTIONS));
        assert!(is_large(LARGE_ANSWER / 8, 8 * FEW_CONNECTIONS));
        assert!(!is_large(LARGE_ANSWER / 8, 8 * FEW_CONNECTIONS - 1));
        assert!(!is_large(LARGE_ANSWER - 1, 0), "behind a proxy");
    }

    #[test]
    fn a_client_counts_for_a_second_after_its_last_large_answer() {
        let (answers, start) = (LargeAnswers::default(), Instant::now());
        let (greedy, modest) = (ClientId::from_number(1), ClientId::from_number(2));
        assert!(!answers.has_recent(greedy, || panic!("the clock is not read")));

        answers.record(greedy, start);
        answers.record(greedy, start + RECENT / 2);

        assert!(answers.has_recent(greedy, || start + RECENT));
        assert!(!answers.has_recent(modest, || start + RECENT));
        // The calls of any client end the time.
        assert!(!answers.has_recent(modest, || start + 2 * RECENT));
        assert!(!answers.has_recent(greedy, || panic!("the clock is not read")));
    }
}
