//! Logs refused connections without filling the log.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::service::ClientId;

/// Minimum interval between log lines about one address.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Maximum number of addresses that are counted separately. Refusals of further ones are counted together, so that all
/// addresses cause one line a second on average, however many refused connections there are.
const MAX_ADDRESSES: usize = 9;

/// Refusals that are not logged yet, by address. `None` stands for all addresses beyond the maximum.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    counts: HashMap<Option<ClientId>, Count>,
}

#[derive(Debug)]
struct Count {
    refused: u64,
    gave_way: u64,
    /// When its log line is due.
    due: Instant,
}

/// A log line's content for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// `None` for all addresses that were not counted separately.
    pub(crate) address: Option<ClientId>,
    /// Refused connections from there.
    pub(crate) refused: u64,
    /// Connections from there that were closed for others.
    pub(crate) gave_way: u64,
}

impl Refusals {
    /// Counts a refused connection from this address.
    pub(crate) fn refuse(&mut self, address: ClientId, now: Instant) {
        self.count(address, now).refused += 1;
    }

    /// Counts a connection from this address that was closed for another one.
    pub(crate) fn give_way(&mut self, address: ClientId, now: Instant) {
        self.count(address, now).gave_way += 1;
    }

    fn count(&mut self, address: ClientId, now: Instant) -> &mut Count {
        let is_known = self.counts.contains_key(&Some(address));
        let name = (is_known || self.counts.len() < MAX_ADDRESSES).then_some(address);
        self.counts.entry(name).or_insert_with(|| Count { refused: 0, gave_way: 0, due: now + LOG_EVERY })
    }

    /// When the next line is due, if any.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.counts.values().map(|count| count.due).min()
    }

    /// The lines that are due now. Their addresses' counts restart at zero.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<Report> {
        let due = self.counts.extract_if(|_, count| count.due <= now);
        due.map(|(address, Count { refused, gave_way, .. })| Report { address, refused, gave_way }).collect()
    }
}

/// Logs refusals once they are due. `connections` are those open at `endpoint`.
pub(crate) async fn log_when_due(refusals: &mut Refusals, endpoint: &'static str, connections: usize) {
    match refusals.next_due() {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
    for Report { address, refused, gave_way } in refusals.take_due(Instant::now()) {
        let client = address.map_or_else(|| "others".to_owned(), |address| address.to_string());
        tracing::warn!(
            endpoint,
            client,
            refused,
            gave_way,
            connections,
            seconds = LOG_EVERY.as_secs(),
            "connections were refused, or closed in favour of new ones: limit reached"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_reported_once_in_ten_seconds_with_its_number() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        let [one, other] = [1, 2].map(ClientId::from_number);
        for _ in 0..1_000 {
            refusals.refuse(one, now);
        }
        refusals.give_way(other, now + Duration::from_secs(5));

        assert_eq!(refusals.next_due(), Some(now + LOG_EVERY));
        assert_eq!(refusals.take_due(now + Duration::from_secs(9)), []);
        let reports = refusals.take_due(now + LOG_EVERY);
        assert_eq!(reports, [Report { address: Some(one), refused: 1_000, gave_way: 0 }]);
        assert_eq!(refusals.take_due(now + LOG_EVERY), []);
        let reports = refusals.take_due(now + Duration::from_secs(15));
        assert_eq!(reports, [Report { address: Some(other), refused: 0, gave_way: 1 }]);
        assert_eq!(refusals.next_due(), None);
    }

    #[test]
    fn refusals_of_many_addresses_log_at_most_one_line_a_second() {
        let (mut refusals, start) = (Refusals::default(), Instant::now());
        let mut lines = 0;
        for millisecond in 0..100_000 {
            let now = start + Duration::from_millis(millisecond);
            refusals.refuse(ClientId::from_number(millisecond), now);
            lines += refusals.take_due(now).len();
        }

        assert!((50..=100).contains(&lines), "{lines}");
    }

    #[test]
    fn addresses_over_the_maximum_share_one_line() {
        let (mut refusals, now) = (Refusals::default(), Instant::now());
        for number in 0..5_000 {
            refusals.refuse(ClientId::from_number(number), now);
        }

        let reports = refusals.take_due(now + LOG_EVERY);

        assert_eq!(reports.len(), MAX_ADDRESSES + 1);
        let others = reports.iter().find(|report| report.address.is_none()).map(|report| report.refused);
        assert_eq!(others, Some(5_000 - MAX_ADDRESSES as u64));
    }
}
