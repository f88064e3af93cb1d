//! Turns for work of which few may run at a time, given to the waiting address that has used the least time.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::turn_times::TurnTimes;

/// A number of turns that connections share. Of several requests of one address, the oldest is served first. Clones share
/// the turns.
#[derive(Clone, Debug)]
pub struct FairTurns(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    /// Number of turns that are not taken.
    free: usize,
    times: TurnTimes,
    /// In the order of arrival.
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
}

#[derive(Debug)]
struct Waiting {
    address: IpAddr,
    notify: Arc<Notify>,
}

impl FairTurns {
    /// At most `count` turns at a time.
    pub fn new(count: usize) -> Self {
        let (times, waiting) = (TurnTimes::default(), BTreeMap::new());
        Self(Arc::new(Mutex::new(Queue { free: count, times, waiting, next: 0 })))
    }

    /// Waits for a turn of a connection with a peer at `address`.
    pub async fn wait(&self, address: IpAddr) -> FairTurn {
        let notify = Arc::new(Notify::new());
        let request = self.enter(address, &notify);
        loop {
            if let Some(turn) = request.take() {
                return turn;
            }
            notify.notified().await;
        }
    }

    fn enter(&self, address: IpAddr, notify: &Arc<Notify>) -> Request<'_> {
        let mut queue = self.lock();
        let id = queue.next;
        queue.next += 1;
        queue.waiting.insert(id, Waiting { address, notify: Arc::clone(notify) });
        drop(queue);
        Request { turns: self, id }
    }

    /// Locked for a few look-ups among the connections of a node; never held across an await.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// The request that is served next, if a turn is free.
    fn first(&self) -> Option<u64> {
        if self.free == 0 {
            return None;
        }
        let order = |id: u64, waiting: &Waiting| (self.times.of(waiting.address), id);
        self.waiting.iter().map(|(id, waiting)| order(*id, waiting)).min().map(|(_, id)| id)
    }

    fn notify_first(&self) {
        if let Some(waiting) = self.first().and_then(|id| self.waiting.get(&id)) {
            waiting.notify.notify_one();
        }
    }
}

/// A request in the queue, until it is served or its owner gives up.
struct Request<'a> {
    turns: &'a FairTurns,
    id: u64,
}

impl Request<'_> {
    fn take(&self) -> Option<FairTurn> {
        let mut queue = self.turns.lock();
        if queue.first() != Some(self.id) {
            // If it was notified, a request with less time has arrived since then.
            queue.notify_first();
            return None;
        }
        let address = queue.waiting.remove(&self.id)?.address;
        queue.free -= 1;
        queue.times.begin(address);
        queue.notify_first();
        drop(queue);
        Some(FairTurn { turns: self.turns.clone(), address, began: Instant::now() })
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let mut queue = self.turns.lock();
        if queue.waiting.remove(&self.id).is_some() {
            queue.notify_first();
        }
    }
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub struct FairTurn {
    turns: FairTurns,
    address: IpAddr,
    began: Instant,
}

impl Drop for FairTurn {
    fn drop(&mut self) {
        let mut queue = self.turns.lock();
        queue.times.add(self.address, self.began.elapsed());
        queue.free += 1;
        queue.notify_first();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{sleep, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    /// Whether a turn is taken at once, or can be.
    async fn is_free(turns: &FairTurns, last: u8) -> Option<FairTurn> {
        timeout(Duration::from_millis(1), turns.wait(address(last))).await.ok()
    }

    /// `connections` of an address use every turn that they get for a second, and want another one immediately.
    fn use_all(turns: &FairTurns, last: u8, connections: usize) {
        for _ in 0..connections {
            let turns = turns.clone();
            tokio::spawn(async move {
                loop {
                    let _turn = turns.wait(address(last)).await;
                    sleep(SECOND).await;
                }
            });
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_the_given_number_of_turns_run() {
        let turns = FairTurns::new(2);
        let (first, second) = (is_free(&turns, 1).await.unwrap(), is_free(&turns, 1).await.unwrap());
        assert!(is_free(&turns, 2).await.is_none());
        drop(first);
        let third = is_free(&turns, 2).await.unwrap();
        assert!(is_free(&turns, 1).await.is_none());
        drop((second, third));
        assert!(is_free(&turns, 1).await.is_some());
        let queue = turns.lock();
        assert!(queue.free == 2 && queue.waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_waits_for_one_turn_at_most_behind_many_connections_of_other_addresses() {
        let turns = FairTurns::new(1);
        (1..=20).for_each(|last| use_all(&turns, last, 2));
        sleep(100 * SECOND).await;
        for _ in 0..5 {
            let begun = Instant::now();
            let turn = turns.wait(address(99)).await;
            assert!(begun.elapsed() <= SECOND, "{:?}", begun.elapsed());
            sleep(SECOND).await;
            drop(turn);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_gains_nothing_by_more_connections() {
        let turns = FairTurns::new(1);
        use_all(&turns, 1, 30);
        use_all(&turns, 2, 1);
        sleep(Duration::from_millis(100_500)).await;
        let queue = turns.lock();
        let [first, second] = [1, 2].map(|last| queue.times.of(address(last)));
        drop(queue);
        assert!(first.abs_diff(second) <= SECOND, "{first:?} {second:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_given_up_keeps_no_turn() {
        let turns = FairTurns::new(1);
        let held = turns.wait(address(1)).await;
        let mut given_up = Box::pin(turns.wait(address(2)));
        assert!(timeout(SECOND, &mut given_up).await.is_err());
        let waiting = tokio::spawn({
            let turns = turns.clone();
            async move { drop(turns.wait(address(3)).await) }
        });
        tokio::task::yield_now().await;

        // The first request is notified, and given up before it takes the turn.
        drop(held);
        drop(given_up);

        timeout(SECOND, waiting).await.unwrap().unwrap();
    }
}
