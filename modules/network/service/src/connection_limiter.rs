//! Limits on handshakes that peers begin (`docs/spec/p2p.md` 10): the number of concurrent ones, in total and per
//! address, and how often an address connects.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tenon_network_discovery::Networks;

/// Age from which a handshake can be displaced in any case. An honest one takes a few round trips.
const USUAL_HANDSHAKE: Duration = Duration::from_secs(1);

/// Bounds on handshakes that peers begin.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionLimiterSettings {
    /// Maximum number of concurrent handshakes.
    pub(crate) max_pending: usize,
    /// The same for one address (IPv6: one /64).
    pub(crate) max_pending_of_address: usize,
    /// Maximum number of connections of one address in a window.
    pub(crate) max_attempts: u32,
    /// Length of a window.
    pub(crate) window: Duration,
    /// Maximum number of remembered addresses.
    pub(crate) max_addresses: usize,
    /// The only networks that may connect.
    pub(crate) restrict: Option<Networks>,
}

impl ConnectionLimiterSettings {
    /// The reference allows 50 concurrent handshakes. Here one address gets a fifth of the slots. A reference node that
    /// was refused may dial hundreds of times a second (`docs/spec/p2p.md` 11); two attempts a second are enough.
    pub(crate) fn new(max_pending: usize, restrict: Option<Networks>) -> Self {
        Self {
            max_pending,
            max_pending_of_address: max_pending.div_ceil(5),
            max_attempts: 60,
            window: Duration::from_secs(30),
            max_addresses: 4096,
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
    /// Its address has used up its share of the slots.
    #[error("too many handshakes of one address")]
    BusyAddress,
    /// Its address has connected too often.
    #[error("address connects too often")]
    TooOften,
}

#[derive(Clone, Copy, Debug)]
struct Address {
    pending: usize,
    attempts: u32,
    window_began: Duration,
}

/// A handshake that was admitted and has not ended.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// Its address as it is counted.
    subject: IpAddr,
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
    addresses: HashMap<IpAddr, Address>,
}

impl ConnectionLimiter {
    pub(crate) fn new(settings: ConnectionLimiterSettings) -> Self {
        Self { settings, pending: BTreeMap::new(), next: 0, addresses: HashMap::new() }
    }

    /// Admits or refuses a new connection. After an admission [`ConnectionLimiter::leave`] must be called. If all slots are
    /// occupied, a handshake of the address with the most may be displaced, so that a few addresses cannot keep out all others.
    ///
    /// # Errors
    /// [`RefusedConnection`].
    pub(crate) fn enter(&mut self, ip: IpAddr, now: Duration) -> Result<Admission, RefusedConnection> {
        let ip = ip.to_canonical();
        if self.settings.restrict.as_ref().is_some_and(|allowed| !allowed.contains(ip)) {
            return Err(RefusedConnection::Restricted);
        }
        let settings = self.settings.clone();
        let key = subject(ip);
        if !self.addresses.contains_key(&key) && self.addresses.len() >= settings.max_addresses {
            self.forget(now);
            if self.addresses.len() >= settings.max_addresses {
                return Err(RefusedConnection::Busy);
            }
        }
        let address = self.addresses.entry(key).or_insert(Address { pending: 0, attempts: 0, window_began: now });
        if now.saturating_sub(address.window_began) >= settings.window {
            (address.attempts, address.window_began) = (0, now);
        }
        address.attempts = address.attempts.saturating_add(1);
        if address.attempts > settings.max_attempts {
            return Err(RefusedConnection::TooOften);
        }
        if address.pending >= settings.max_pending_of_address {
            return Err(RefusedConnection::BusyAddress);
        }
        let own = address.pending;
        let displaced = match self.pending.len() < settings.max_pending {
            true => None,
            false => Some(self.displaceable(own, now).ok_or(RefusedConnection::Busy)?),
        };
        if let Some(displaced) = displaced {
            self.leave(displaced);
        }
        if let Some(address) = self.addresses.get_mut(&key) {
            address.pending += 1;
        }
        let handshake = self.next;
        self.next += 1;
        self.pending.insert(handshake, Pending { subject: key, began: now });
        Ok(Admission { handshake, displaced })
    }

    /// The oldest handshake of the address with the most handshakes. Displaceable only if that address has more than
    /// the new one would have, or if the handshake takes unusually long.
    fn displaceable(&self, own: usize, now: Duration) -> Option<u64> {
        let of = |pending: &Pending| self.addresses.get(&pending.subject).map_or(0, |address| address.pending);
        // `find` returns the oldest, because handshakes are sorted by start.
        let max = self.pending.values().map(of).max()?;
        let (handshake, pending) = self.pending.iter().find(|(_, pending)| of(pending) == max)?;
        (max > own + 1 || now.saturating_sub(pending.began) >= USUAL_HANDSHAKE).then_some(*handshake)
    }

    /// An admitted handshake has ended. Does nothing for one that was displaced.
    pub(crate) fn leave(&mut self, handshake: u64) {
        let Some(pending) = self.pending.remove(&handshake) else { return };
        if let Some(address) = self.addresses.get_mut(&pending.subject) {
            address.pending = address.pending.saturating_sub(1);
        }
    }

    fn forget(&mut self, now: Duration) {
        let window = self.settings.window;
        self.addresses.retain(|_, address| address.pending > 0 || now.saturating_sub(address.window_began) < window);
    }
}

/// The address that is counted: for IPv6 the /64, which one machine may own.
fn subject(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << 64))),
        ip => ip,
    }
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

    #[test]
    fn the_memory_of_addresses_is_bounded() {
        let mut limiter = connection_limiter();
        limiter.settings.max_addresses = 3;
        for last in 0..3 {
            let admission = limiter.enter(ip(last), NOW).unwrap();
            limiter.leave(admission.handshake);
        }
        assert_eq!(limiter.enter(ip(9), NOW), Err(RefusedConnection::Busy));
        assert!(limiter.enter(ip(9), NOW + Duration::from_secs(30)).is_ok());
        assert_eq!(limiter.addresses.len(), 1);
    }
}
