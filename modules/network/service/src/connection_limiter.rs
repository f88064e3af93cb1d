//! Limits on handshakes that peers begin (`docs/spec/p2p.md` 10): the number of concurrent ones, in total, per address and
//! per IPv6 network, and how often an address connects.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tenon_network_discovery::Networks;

/// Age from which a handshake can be displaced in any case. An honest one takes a few round trips.
const USUAL_HANDSHAKE: Duration = Duration::from_secs(1);
/// An IPv6 /48, which one customer may own, has the shares of this many addresses.
const NETWORK_SHARES: u8 = 2;

/// Bounds on handshakes that peers begin.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionLimiterSettings {
    /// Maximum number of concurrent handshakes.
    pub(crate) max_pending: usize,
    /// The same for one address (IPv6: one /64). An IPv6 /48 may have [`NETWORK_SHARES`] times as many.
    pub(crate) max_pending_of_address: usize,
    /// Maximum number of connections of one address in a window. An IPv6 /48 may have connections of [`NETWORK_SHARES`]
    /// times as many new addresses.
    pub(crate) max_attempts: u32,
    /// Length of a window.
    pub(crate) window: Duration,
    /// Maximum number of remembered addresses and networks. Only those with a handshake may exceed it.
    pub(crate) max_records: usize,
    /// The only networks that may connect.
    pub(crate) restrict: Option<Networks>,
}

impl ConnectionLimiterSettings {
    /// One address gets a fifth of the handshake slots, and two attempts a second on average: enough for the two
    /// connections of a pair (`docs/spec/p2p.md` 11).
    pub(crate) fn new(max_pending: usize, restrict: Option<Networks>) -> Self {
        Self {
            max_pending,
            max_pending_of_address: max_pending.div_ceil(5),
            max_attempts: 60,
            window: Duration::from_secs(30),
            max_records: 4096,
            restrict,
        }
    }
}

/// Why a connection is closed immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RefusedConnection {
    /// Its address lies outside the networks of `--netrestrict`.
    #[error("address outside the permitted networks")]
    Restricted,
    /// All handshake slots are taken.
    #[error("too many handshakes at a time")]
    Busy,
    /// Its address or network has used up its share of the slots.
    #[error("too many handshakes of one address or network")]
    BusyAddress,
    /// Its address, or new addresses of its network, have connected too often.
    #[error("address or network connects too often")]
    TooOften,
}

/// The source whose connections a record counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Subject {
    Address(IpAddr),
    /// An IPv6 /48.
    Network(Ipv6Addr),
}

impl Subject {
    /// Number of addresses whose shares it has.
    const fn shares(self) -> u8 {
        match self {
            Self::Address(_) => 1,
            Self::Network(_) => NETWORK_SHARES,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Record {
    pending: usize,
    attempts: u32,
    window_began: Duration,
}

/// A handshake that was admitted and has not ended.
#[derive(Clone, Copy, Debug)]
struct Pending {
    subjects: Subjects,
    began: Duration,
}

/// An admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Admission {
    /// The number of the handshake, for [`ConnectionLimiter::leave`].
    pub(crate) handshake: u64,
    /// A handshake whose connection must be closed to make room.
    pub(crate) displaced: Option<u64>,
}

/// Counts handshakes and attempts.
#[derive(Debug)]
pub(crate) struct ConnectionLimiter {
    settings: ConnectionLimiterSettings,
    /// By number, which is the order of their beginning.
    pending: BTreeMap<u64, Pending>,
    next: u64,
    records: HashMap<Subject, Record>,
    /// The same records, oldest window first.
    windows: BTreeSet<(Duration, Subject)>,
}

impl ConnectionLimiter {
    pub(crate) fn new(settings: ConnectionLimiterSettings) -> Self {
        Self { settings, pending: BTreeMap::new(), next: 0, records: HashMap::new(), windows: BTreeSet::new() }
    }

    /// Admits or refuses a new connection. After an admission [`ConnectionLimiter::leave`] must be called. If all slots are
    /// occupied, a handshake of the address or network with the most may be displaced ([`ConnectionLimiter::displaceable`]).
    ///
    /// # Errors
    /// [`RefusedConnection`].
    pub(crate) fn enter(&mut self, ip: IpAddr, now: Duration) -> Result<Admission, RefusedConnection> {
        let ip = ip.to_canonical();
        if self.settings.restrict.as_ref().is_some_and(|allowed| !allowed.contains(ip)) {
            return Err(RefusedConnection::Restricted);
        }
        let subjects = Subjects::new(ip);
        // Before an address is remembered, so that one network cannot replace the records of all others. An address that
        // is known has its own limit, and cannot use up that of its network.
        if let Some(network) = subjects.network
            && !self.records.contains_key(&subjects.address)
        {
            self.count_attempt(network, now)?;
        }
        self.count_attempt(subjects.address, now)?;
        let max_pending = self.settings.max_pending_of_address;
        if subjects.iter().any(|subject| self.pending_of(subject) >= max_pending * usize::from(subject.shares())) {
            return Err(RefusedConnection::BusyAddress);
        }
        let displaced = match self.pending.len() < self.settings.max_pending {
            true => None,
            false => Some(self.displaceable(subjects, now).ok_or(RefusedConnection::Busy)?),
        };
        if let Some(displaced) = displaced {
            self.leave(displaced);
        }
        for subject in subjects.iter() {
            self.record(subject, now).pending += 1;
        }
        let handshake = self.next;
        self.next += 1;
        self.pending.insert(handshake, Pending { subjects, began: now });
        Ok(Admission { handshake, displaced })
    }

    fn count_attempt(&mut self, subject: Subject, now: Duration) -> Result<(), RefusedConnection> {
        let max_attempts = self.settings.max_attempts * u32::from(subject.shares());
        let record = self.record(subject, now);
        record.attempts = record.attempts.saturating_add(1);
        if record.attempts > max_attempts { Err(RefusedConnection::TooOften) } else { Ok(()) }
    }

    /// The record of the current window. If there are too many, those with the oldest windows and no handshake are removed.
    fn record(&mut self, subject: Subject, now: Duration) -> &mut Record {
        let is_new = !self.records.contains_key(&subject);
        while is_new
            && self.records.len() >= self.settings.max_records
            // Passes over at most two records for each handshake.
            && let Some(oldest) = self.windows.iter().copied().find(|(_, subject)| self.pending_of(*subject) == 0)
        {
            self.windows.remove(&oldest);
            self.records.remove(&oldest.1);
        }
        let record = self.records.entry(subject).or_insert(Record { pending: 0, attempts: 0, window_began: now });
        if now.saturating_sub(record.window_began) >= self.settings.window {
            self.windows.remove(&(record.window_began, subject));
            (record.attempts, record.window_began) = (0, now);
        }
        self.windows.insert((record.window_began, subject));
        record
    }

    fn pending_of(&self, subject: Subject) -> usize {
        self.records.get(&subject).map_or(0, |record| record.pending)
    }

    /// The oldest handshake of the address (IPv6: /48) with the most handshakes. `None` unless that address has more
    /// than the address of the new connection would then have, or the handshake is older than [`USUAL_HANDSHAKE`].
    fn displaceable(&self, subjects: Subjects, now: Duration) -> Option<u64> {
        let of = |pending: &Pending| self.pending_of(pending.subjects.widest());
        // `find` returns the oldest, because handshakes are sorted by start.
        let max = self.pending.values().map(of).max()?;
        let (handshake, pending) = self.pending.iter().find(|(_, pending)| of(pending) == max)?;
        let own = self.pending_of(subjects.widest());
        (max > own + 1 || now.saturating_sub(pending.began) >= USUAL_HANDSHAKE).then_some(*handshake)
    }

    /// An admitted handshake has ended. Does nothing for one that was displaced.
    pub(crate) fn leave(&mut self, handshake: u64) {
        let Some(pending) = self.pending.remove(&handshake) else { return };
        for subject in pending.subjects.iter() {
            if let Some(record) = self.records.get_mut(&subject) {
                record.pending = record.pending.saturating_sub(1);
            }
        }
    }
}

/// The address and the network for which a connection counts.
#[derive(Clone, Copy, Debug)]
struct Subjects {
    address: Subject,
    network: Option<Subject>,
}

impl Subjects {
    fn new(ip: IpAddr) -> Self {
        let network = match ip {
            IpAddr::V6(ip) => Some(Subject::Network(prefix(ip, 48))),
            IpAddr::V4(_) => None,
        };
        Self { address: Subject::Address(counted_address(ip)), network }
    }

    fn iter(self) -> impl Iterator<Item = Subject> {
        self.network.into_iter().chain([self.address])
    }

    fn widest(self) -> Subject {
        self.network.unwrap_or(self.address)
    }
}

/// The address that is counted: for IPv6 the /64, which one machine may own.
pub(crate) fn counted_address(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6(prefix(ip, 64)),
        ip => ip,
    }
}

/// The first `bits` bits, between 1 and 128.
fn prefix(ip: Ipv6Addr, bits: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << (128 - bits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(100);

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn connection_limiter() -> ConnectionLimiter {
        ConnectionLimiter::new(ConnectionLimiterSettings::new(50, None))
    }

    #[test]
    fn one_address_has_a_fifth_of_the_handshakes_and_all_together_have_their_limit() {
        let mut limiter = connection_limiter();
        for _ in 0..10 {
            limiter.enter(ip(1), NOW).unwrap();
        }
        assert_eq!(limiter.enter(ip(1), NOW), Err(RefusedConnection::BusyAddress));
    }

    #[test]
    fn a_full_limiter_displaces_the_oldest_handshake_of_the_address_with_the_most() {
        let mut limiter = connection_limiter();
        let of = |limiter: &mut ConnectionLimiter, last, now| limiter.enter(ip(last), now);
        let first: Vec<_> = (0..50).map(|number| of(&mut limiter, number / 10, NOW).unwrap().handshake).collect();
        for displaced in [first[0], first[10], first[20]] {
            let admission = of(&mut limiter, 99, NOW).unwrap();
            assert_eq!(admission.displaced, Some(displaced));
            limiter.leave(displaced);
        }
        // Now the address has three handshakes, and the others have nine or ten.
        assert_eq!(limiter.pending.len(), 50);
        assert_eq!(of(&mut limiter, 3, NOW), Err(RefusedConnection::BusyAddress));
    }

    #[test]
    fn handshakes_of_as_many_addresses_are_displaced_only_when_they_take_long() {
        let mut limiter = connection_limiter();
        let first = (0..50).map(|last| limiter.enter(ip(last), NOW).unwrap().handshake).min();
        assert_eq!(limiter.enter(ip(99), NOW), Err(RefusedConnection::Busy));
        assert_eq!(limiter.enter(ip(99), NOW + USUAL_HANDSHAKE).unwrap().displaced, first);

        limiter.leave(first.unwrap() + 1);
        assert_eq!(limiter.enter(ip(98), NOW).unwrap().displaced, None);
    }

    #[test]
    fn an_address_that_connects_again_and_again_waits_for_the_next_window() {
        let mut limiter = connection_limiter();
        for _ in 0..60 {
            let admission = limiter.enter(ip(1), NOW).unwrap();
            limiter.leave(admission.handshake);
        }
        assert_eq!(limiter.enter(ip(1), NOW), Err(RefusedConnection::TooOften));
        assert!(limiter.enter(ip(2), NOW).is_ok());
        assert!(limiter.enter(ip(1), NOW + Duration::from_secs(30)).is_ok());
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address_and_mapped_addresses_as_those_of_ipv4() {
        let mut limiter = connection_limiter();
        for last in 0..10 {
            limiter.enter(format!("2001:db8::{last}").parse().unwrap(), NOW).unwrap();
        }
        assert_eq!(limiter.enter("2001:db8::ff".parse().unwrap(), NOW), Err(RefusedConnection::BusyAddress));
        assert!(limiter.enter("2001:db8:0:1::1".parse().unwrap(), NOW).is_ok());

        let restrict = Some("10.0.0.0/24".parse().unwrap());
        let mut limiter = ConnectionLimiter::new(ConnectionLimiterSettings::new(50, restrict));
        assert!(limiter.enter("::ffff:10.0.0.1".parse().unwrap(), NOW).is_ok());
        assert_eq!(limiter.enter(IpAddr::from([10, 0, 1, 1]), NOW), Err(RefusedConnection::Restricted));
    }

    /// An address of the `host`-th /64 of a /48.
    fn in_network(network: u16, host: u16) -> IpAddr {
        IpAddr::from([0x2001, 0xdb8, network, host, 0, 0, 0, 1])
    }

    #[test]
    fn a_network_has_the_handshakes_of_two_addresses_and_its_handshakes_are_displaced_first() {
        let mut limiter = connection_limiter();
        for host in 0..20 {
            limiter.enter(in_network(1, host), NOW).unwrap();
        }
        assert_eq!(limiter.enter(in_network(1, 20), NOW), Err(RefusedConnection::BusyAddress));

        for last in 0..30 {
            limiter.enter(ip(last), NOW).unwrap();
        }
        assert_eq!(limiter.enter(ip(99), NOW).unwrap().displaced, Some(0));
        assert_eq!(limiter.enter(in_network(2, 0), NOW).unwrap().displaced, Some(1));
        assert!(limiter.records.values().all(|record| record.pending <= 18));
    }

    #[test]
    fn new_addresses_of_a_network_are_limited_and_a_noisy_one_does_not_use_up_the_limit() {
        let mut limiter = connection_limiter();
        let mut enter =
            |host| limiter.enter(in_network(1, host), NOW).map(|admission| limiter.leave(admission.handshake));
        for _ in 0..1000 {
            let _ = enter(0);
        }
        assert_eq!(enter(0), Err(RefusedConnection::TooOften));
        for host in 1..120 {
            enter(host).unwrap();
        }

        assert_eq!(enter(120), Err(RefusedConnection::TooOften));
        assert_eq!(enter(1), Ok(()));
        assert_eq!(limiter.records.len(), 121);
    }

    #[test]
    fn a_full_table_forgets_the_oldest_windows_without_a_handshake_and_admits_new_addresses() {
        let mut limiter = connection_limiter();
        limiter.settings.max_records = 3;
        let handshakes: Vec<_> = (0..3_u8)
            .map(|last| limiter.enter(ip(last), NOW + Duration::from_secs(last.into())).unwrap().handshake)
            .collect();
        limiter.leave(handshakes[1]);
        limiter.leave(handshakes[2]);

        limiter.enter(ip(9), NOW + Duration::from_secs(3)).unwrap();

        let remembers = |limiter: &ConnectionLimiter, last| limiter.records.contains_key(&Subject::Address(ip(last)));
        assert_eq!([0, 1, 2, 9].map(|last| remembers(&limiter, last)), [true, false, true, true]);
        for last in 10..40 {
            limiter.enter(ip(last), NOW + Duration::from_secs(3)).unwrap();
        }
        assert_eq!(limiter.records.len(), 32, "those with a handshake");
        for number in 0..100 {
            limiter.leave(number);
        }
        let admission = limiter.enter(ip(50), NOW + Duration::from_secs(3)).unwrap();
        limiter.leave(admission.handshake);
        assert_eq!((limiter.records.len(), limiter.windows.len()), (3, 3));
    }
}
