//! Time for which each address has used a resource that only a few connections can use at a time. The address that has
//! used the least is served next (weighted fair queueing), so an address gains nothing by opening more connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Maximum number of addresses whose time is kept: several for each connection that a node can have.
const MAX_ADDRESSES: usize = 1024;

/// Used times on a virtual clock, which advances by each used time divided by the number of competing addresses. A new
/// or returning address starts at the clock's value: it gets no more than its share, and a series of new addresses does
/// not delay the others.
#[derive(Debug, Default)]
pub(crate) struct TurnTimes {
    /// Used time by address. Values up to `now` are removed when the map is full.
    of_address: HashMap<IpAddr, Duration>,
    now: Duration,
}

impl TurnTimes {
    /// The time of an address that begins to wait.
    pub(crate) fn of(&self, address: IpAddr) -> Duration {
        self.time_of_waiting(address, self.now)
    }

    /// Returns the time of a waiting address, which is at least `arrived`, its time when it began to wait. The waiting
    /// address with the lowest time is served next.
    pub(crate) fn time_of_waiting(&self, address: IpAddr, arrived: Duration) -> Duration {
        self.of_address.get(&address).copied().unwrap_or_default().max(arrived)
    }

    /// Records that a turn of an address with this time begins.
    pub(crate) fn begin(&mut self, time: Duration) {
        self.now = self.now.max(time);
    }

    /// Adds the time that an address has used, while `addresses` waited or were served, itself included.
    pub(crate) fn add(&mut self, address: IpAddr, used: Duration, addresses: usize) {
        if self.of_address.len() >= MAX_ADDRESSES && !self.of_address.contains_key(&address) {
            self.make_room();
        }
        let time = self.of(address).saturating_add(used);
        self.of_address.insert(address, time);
        let share = used / u32::try_from(addresses).unwrap_or(u32::MAX).max(1);
        self.now = self.now.saturating_add(share);
    }

    /// Removes the times up to `now`, which have no effect on addresses that come later. If that frees nothing, removes
    /// the lowest.
    fn make_room(&mut self) {
        let now = self.now;
        self.of_address.retain(|_, time| *time > now);
        if self.of_address.len() >= MAX_ADDRESSES
            && let Some((_, lowest)) = self.of_address.iter().map(|(address, time)| (*time, *address)).min()
        {
            self.of_address.remove(&lowest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn address(last: u16) -> IpAddr {
        let [high, low] = last.to_be_bytes();
        IpAddr::from([10, 0, high, low])
    }

    /// Serves addresses that always wait, for a number of turns of a second. Returns the turns of each.
    fn serve(times: &mut TurnTimes, waiting: &[u16], turns: usize) -> Vec<usize> {
        let mut served = vec![0; waiting.len()];
        let mut arrived: Vec<Duration> = waiting.iter().map(|last| times.of(address(*last))).collect();
        for _ in 0..turns {
            let order = |index: &usize| (times.time_of_waiting(address(waiting[*index]), arrived[*index]), *index);
            let next = (0..waiting.len()).min_by_key(order).unwrap();
            times.begin(order(&next).0);
            times.add(address(waiting[next]), SECOND, waiting.len());
            arrived[next] = times.of(address(waiting[next]));
            served[next] += 1;
        }
        served
    }

    #[test]
    fn addresses_that_always_wait_share_the_time_equally() {
        let mut times = TurnTimes::default();
        assert_eq!(serve(&mut times, &[1, 2, 3, 4], 400), [100; 4]);
    }

    #[test]
    fn an_address_that_comes_back_gets_its_share_and_not_the_time_of_its_absence() {
        let mut times = TurnTimes::default();
        serve(&mut times, &[1, 2], 2000);
        let served = serve(&mut times, &[1, 2, 3], 30);
        assert!(served.iter().all(|turns| (9..=11).contains(turns)), "{served:?}");
    }

    #[test]
    fn time_that_is_used_while_no_other_address_waits_is_no_disadvantage_later() {
        let mut times = TurnTimes::default();
        serve(&mut times, &[1], 1000);
        let served = serve(&mut times, &[1, 2], 40);
        assert!(served[0] >= 19, "{served:?}");
    }

    #[test]
    fn addresses_that_are_new_in_every_turn_leave_an_old_one_its_share() {
        let (mut times, mut served) = (TurnTimes::default(), 0);
        let mut arrived = times.of(address(1));
        for new in 2..2002 {
            // Nine others wait, all new.
            let other = times.of(address(new));
            if times.time_of_waiting(address(1), arrived) <= other {
                times.begin(arrived);
                times.add(address(1), SECOND, 10);
                (arrived, served) = (times.of(address(1)), served + 1);
            } else {
                times.begin(other);
                times.add(address(new), SECOND, 10);
            }
        }
        assert!((190..=210).contains(&served), "{served} of 2,000 turns");
    }

    #[test]
    fn the_number_of_addresses_is_bounded() {
        let mut times = TurnTimes::default();
        times.add(address(1), 50_000 * SECOND, 1000);
        for number in 2..10_000 {
            times.add(address(number), SECOND, 1000);
            assert!(times.of_address.len() <= MAX_ADDRESSES);
        }
        assert!(times.of(address(1)) > times.of(address(9_999)), "the highest times are kept");
    }
}
