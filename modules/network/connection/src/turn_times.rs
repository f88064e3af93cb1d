//! The time that each address has used of something that one address at a time, or few, can use. The address that has used
//! the least is served next (start-time fair queueing): connections that one address opens in addition gain nothing.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Time that an address may use before the others when it comes back, so that a message which takes several turns is not
/// interrupted by a turn of every address that uses all it can.
const CREDIT: Duration = Duration::from_secs(10);
/// Maximum number of addresses whose time is kept: several for each connection that a node can have.
const MAX_ADDRESSES: usize = 1024;

/// Used times, on a clock that follows the served addresses: the time of an address that has waited is never more than
/// [`CREDIT`] behind it.
#[derive(Debug)]
pub(crate) struct TurnTimes {
    of_address: HashMap<IpAddr, Duration>,
    /// The highest time at which a turn began.
    now: Duration,
}

impl Default for TurnTimes {
    fn default() -> Self {
        Self { of_address: HashMap::new(), now: CREDIT }
    }
}

impl TurnTimes {
    /// The time of an address. Of those that wait, the one with the lowest is served next.
    pub(crate) fn of(&self, address: IpAddr) -> Duration {
        self.of_address.get(&address).copied().unwrap_or_default().max(self.floor())
    }

    /// The time of addresses that are not kept.
    fn floor(&self) -> Duration {
        self.now.saturating_sub(CREDIT)
    }

    /// Records that a turn of an address begins.
    pub(crate) fn begin(&mut self, address: IpAddr) {
        self.now = self.now.max(self.of(address));
    }

    /// Adds the time that an address has used.
    pub(crate) fn add(&mut self, address: IpAddr, used: Duration) {
        if self.of_address.len() >= MAX_ADDRESSES && !self.of_address.contains_key(&address) {
            self.make_room();
        }
        let time = self.of(address).saturating_add(used);
        self.of_address.insert(address, time);
    }

    /// Removes the times that make no difference; without one, the lowest.
    fn make_room(&mut self) {
        let floor = self.floor();
        self.of_address.retain(|_, time| *time > floor);
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

    /// Serves the waiting addresses for a number of turns of a second. Returns the turns of each.
    fn serve(times: &mut TurnTimes, waiting: &[u16], turns: usize) -> Vec<usize> {
        let mut served = vec![0; waiting.len()];
        for _ in 0..turns {
            let next = (0..waiting.len()).min_by_key(|index| (times.of(address(waiting[*index])), *index)).unwrap();
            times.begin(address(waiting[next]));
            times.add(address(waiting[next]), SECOND);
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
    fn an_address_that_comes_back_is_served_first_for_ten_seconds_and_not_for_all_the_time_of_its_absence() {
        let mut times = TurnTimes::default();
        serve(&mut times, &[1, 2], 2000);
        assert_eq!(serve(&mut times, &[1, 2, 3], 10), [0, 0, 10]);
        let after = serve(&mut times, &[1, 2, 3], 30);
        assert!(after.iter().all(|turns| (9..=11).contains(turns)), "{after:?}");
    }

    #[test]
    fn time_that_is_used_while_no_other_address_waits_is_no_disadvantage_later() {
        let mut times = TurnTimes::default();
        serve(&mut times, &[1], 1000);
        let served = serve(&mut times, &[1, 2], 40);
        assert!(served[0] >= 14, "{served:?}");
    }

    #[test]
    fn the_number_of_addresses_is_bounded() {
        let mut times = TurnTimes::default();
        for number in 0..5000 {
            times.begin(address(number));
            times.add(address(number), SECOND);
            assert!(times.of_address.len() <= MAX_ADDRESSES);
        }
        times.add(address(1), 50 * SECOND);
        for number in 5000..10_000 {
            times.add(address(number), SECOND);
        }
        assert!(times.of(address(1)) > times.of(address(2)), "the highest times are kept");
    }
}
