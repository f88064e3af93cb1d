//! Limits how much work runs at a time: each piece of work needs a turn, which goes to the waiting address that has
//! used the least time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::turn_times::TurnTimes;

/// Turns that connections share. A free turn goes to the address that holds the fewest turns, then to the one that has
/// used the least time, then to the oldest request. Clones share the turns.
///
/// Locked for a few look-ups among the connections of a node; never held across an await.
#[derive(Clone, Debug)]
pub struct FairTurns(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    /// Number of turns that are not given.
    free: usize,
    times: TurnTimes,
    /// The number of turns of each address that has one.
    held: HashMap<IpAddr, usize>,
    /// In the order of arrival.
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
}

#[derive(Debug)]
struct Waiting {
    address: IpAddr,
    /// The time of its address when it arrived.
    arrived: Duration,
    /// When the request got a turn; its task has not taken it yet. `None` before.
    given: Option<Instant>,
    notify: Arc<Notify>,
}

impl FairTurns {
    /// At most `count` turns at a time.
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(Queue {
            free: count,
            times: TurnTimes::default(),
            held: HashMap::new(),
            waiting: BTreeMap::new(),
            next: 0,
        })))
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
        let mut queue = self.0.lock();
        let id = queue.next;
        queue.next += 1;
        let arrived = queue.times.of(address);
        queue.waiting.insert(id, Waiting { address, arrived, given: None, notify: Arc::clone(notify) });
        queue.give();
        drop(queue);
        Request { turns: self, id }
    }
}

impl Queue {
    /// Gives the free turns to the next requests. A request keeps its turn until its task takes it; later requests
    /// still get the other turns.
    fn give(&mut self) {
        while self.free > 0 {
            let order = |(id, waiting): (&u64, &Waiting)| {
                let held = self.held.get(&waiting.address).copied().unwrap_or_default();
                (held, self.times.time_of_waiting(waiting.address, waiting.arrived), *id)
            };
            let next = self.waiting.iter().filter(|(_, waiting)| waiting.given.is_none()).map(order).min();
            let Some((_, time, id)) = next else { return };
            let Some(waiting) = self.waiting.get_mut(&id) else { return };
            waiting.given = Some(Instant::now());
            waiting.notify.notify_one();
            let address = waiting.address;
            self.free -= 1;
            self.times.begin(time);
            *self.held.entry(address).or_default() += 1;
        }
    }

    /// Takes a turn back from an address, and adds `used` to its time.
    fn take_back(&mut self, address: IpAddr, used: Duration) {
        let waiting = self.waiting.values().filter(|waiting| waiting.given.is_none()).map(|waiting| waiting.address);
        let addresses = waiting.chain(self.held.keys().copied()).collect::<HashSet<_>>().len();
        self.times.add(address, used, addresses);
        if let Some(held) = self.held.get_mut(&address) {
            *held -= 1;
            if *held == 0 {
                self.held.remove(&address);
            }
        }
        self.free += 1;
        self.give();
    }
}

/// A request in the queue, until its task takes the turn or gives up.
struct Request<'a> {
    turns: &'a FairTurns,
    id: u64,
}

impl Request<'_> {
    fn take(&self) -> Option<FairTurn> {
        let mut queue = self.turns.0.lock();
        let given = queue.waiting.get(&self.id)?.given?;
        let address = queue.waiting.remove(&self.id)?.address;
        drop(queue);
        Some(FairTurn { turns: self.turns.clone(), address, given, cost: None })
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let mut queue = self.turns.0.lock();
        if let Some(Waiting { address, given: Some(given), .. }) = queue.waiting.remove(&self.id) {
            queue.take_back(address, given.elapsed());
        }
    }
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub struct FairTurn {
    turns: FairTurns,
    address: IpAddr,
    given: Instant,
    /// The time that is added to its address, instead of the time until it is dropped.
    cost: Option<Duration>,
}

impl FairTurn {
    /// Adds `cost` to the address instead of the duration of the turn, for turns in which the task also waits for
    /// others.
    pub(crate) const fn set_cost(&mut self, cost: Duration) {
        self.cost = Some(cost);
    }
}

impl Drop for FairTurn {
    fn drop(&mut self) {
        let used = self.cost.unwrap_or_else(|| self.given.elapsed());
        self.turns.0.lock().take_back(self.address, used);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    /// Takes a turn if one is free now; `None` otherwise.
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
        let queue = turns.0.lock();
        assert!(queue.free == 2 && queue.waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_waits_for_few_turns_behind_many_connections_of_other_addresses() {
        let turns = FairTurns::new(1);
        (1..=20).for_each(|last| use_all(&turns, last, 2));
        sleep(100 * SECOND).await;
        for _ in 0..5 {
            let begun = Instant::now();
            let turn = turns.wait(address(99)).await;
            assert!(begun.elapsed() <= 3 * SECOND, "{:?}", begun.elapsed());
            drop(turn);
            sleep(30 * SECOND).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_gains_nothing_by_more_connections() {
        let turns = FairTurns::new(1);
        use_all(&turns, 1, 30);
        use_all(&turns, 2, 1);
        sleep(Duration::from_millis(100_500)).await;
        let queue = turns.0.lock();
        let [first, second] = [1, 2].map(|last| queue.times.of(address(last)));
        drop(queue);
        assert!(first.abs_diff(second) <= SECOND, "{first:?} {second:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_its_task_does_not_take_delays_no_other_one() {
        let turns = FairTurns::new(2);
        let held = [turns.wait(address(1)).await, turns.wait(address(2)).await];
        let mut busy = Box::pin(turns.wait(address(3)));
        assert!(timeout(SECOND, &mut busy).await.is_err());
        drop(held);
        for last in 4..50 {
            drop(is_free(&turns, last).await.unwrap());
        }
        drop(busy.await);
        assert_eq!(turns.0.lock().free, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_with_a_cost_counts_as_the_cost() {
        let turns = FairTurns::new(1);
        let mut turn = turns.wait(address(1)).await;
        turn.set_cost(SECOND);
        sleep(10 * SECOND).await;
        drop(turn);
        assert_eq!(turns.0.lock().times.of(address(1)), SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_takes_another_turn_only_if_no_other_address_waits() {
        let turns = FairTurns::new(2);
        let first = turns.wait(address(1)).await;
        let second = turns.wait(address(2)).await;
        let (mut again, mut other) = (Box::pin(turns.wait(address(1))), Box::pin(turns.wait(address(3))));
        assert!(timeout(SECOND, &mut again).await.is_err() && timeout(SECOND, &mut other).await.is_err());
        drop(second);
        assert!(timeout(SECOND, &mut again).await.is_err());
        drop((first, other.await));
        again.await;
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
