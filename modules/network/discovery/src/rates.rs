//! Limits on the signatures that datagrams cause. Checking a datagram's signature and signing the answers costs this
//! node far more than a datagram costs its sender. A list of nodes has up to 17 packets, each with a signature.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use crate::addresses::is_lan;

/// Signatures a second for one address, checked and made: about eleven lists of nodes. A node that searches asks each node
/// once in a search.
const MAX_PER_SECOND_OF_ADDRESS: u32 = 200;
/// The same in private networks and on the local machine, where many nodes may have one address.
const MAX_PER_SECOND_OF_LAN_ADDRESS: u32 = 1000;
/// Signatures a second for all addresses together.
const MAX_PER_SECOND_OF_ALL: u32 = 4000;
/// Signatures a second of answers to requests of this node, which are not counted elsewhere.
const MAX_PER_SECOND_OF_EXPECTED: u32 = 2000;
/// After a pause, the signatures of this time are accepted at once.
const BURST: Duration = Duration::from_secs(2);
/// Maximum number of addresses that are counted. Further ones are counted together.
const MAX_ADDRESSES: usize = 4096;

/// A rate limit: the time at which the signatures counted so far would be finished if they were made at exactly the
/// rate.
#[derive(Clone, Copy, Debug, Default)]
struct Rate(Duration);

impl Rate {
    fn admits(self, now: Duration) -> bool {
        self.0 <= now + BURST
    }

    fn count(&mut self, signatures: u32, per_second: u32, now: Duration) {
        self.0 = self.0.max(now) + Duration::from_secs(1) * signatures / per_second;
    }
}

/// The rates of all senders.
#[derive(Debug, Default)]
pub(crate) struct DatagramRates {
    all: Rate,
    expected: Rate,
    of_address: HashMap<IpAddr, Rate>,
    /// Shared by the addresses beyond [`MAX_ADDRESSES`].
    others: Rate,
}

impl DatagramRates {
    /// Returns whether to check the signature of a datagram from this address, and counts it if so. Expected answers
    /// have a limit of their own, so that datagrams with the forged address of an asked node cannot keep out its
    /// answers.
    pub(crate) fn admit(&mut self, ip: IpAddr, is_expected: bool, now: Duration) -> bool {
        if is_expected {
            let is_admitted = self.expected.admits(now);
            if is_admitted {
                self.expected.count(1, MAX_PER_SECOND_OF_EXPECTED, now);
            }
            return is_admitted;
        }
        let is_admitted = self.all.admits(now) && self.rate(ip, now).0.admits(now);
        if is_admitted {
            self.count(ip, 1, now);
        }
        is_admitted
    }

    /// Counts signatures that an address has caused.
    pub(crate) fn count(&mut self, ip: IpAddr, signatures: u32, now: Duration) {
        self.all.count(signatures, MAX_PER_SECOND_OF_ALL, now);
        let (rate, per_second) = self.rate(ip, now);
        rate.count(signatures, per_second, now);
    }

    fn rate(&mut self, ip: IpAddr, now: Duration) -> (&mut Rate, u32) {
        let (ip, per_second) =
            (counted(ip), if is_lan(ip) { MAX_PER_SECOND_OF_LAN_ADDRESS } else { MAX_PER_SECOND_OF_ADDRESS });
        if self.of_address.len() >= MAX_ADDRESSES && !self.of_address.contains_key(&ip) {
            self.of_address.retain(|_, rate| rate.0 > now);
            if self.of_address.len() >= MAX_ADDRESSES {
                return (&mut self.others, MAX_PER_SECOND_OF_LAN_ADDRESS);
            }
        }
        (self.of_address.entry(ip).or_default(), per_second)
    }
}

/// A host can use all IPv6 addresses of a /64 network.
fn counted(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << 64))),
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const NOW: Duration = Duration::from_secs(100);

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn admitted(rates: &mut DatagramRates, ip: IpAddr, datagrams: usize, now: Duration) -> usize {
        (0..datagrams).filter(|_| rates.admit(ip, false, now)).count()
    }

    #[test]
    fn a_flood_from_one_address_does_not_limit_the_others() {
        let mut rates = DatagramRates::default();
        assert_eq!(admitted(&mut rates, ip("1.2.3.4"), 5000, NOW), 401);
        assert_eq!(admitted(&mut rates, ip("1.2.3.4"), 5000, NOW + SECOND), 200);
        assert_eq!(admitted(&mut rates, ip("1.2.3.5"), 30, NOW + SECOND), 30);
        assert_eq!(admitted(&mut rates, ip("127.0.0.1"), 5000, NOW + SECOND), 2001);
    }

    #[test]
    fn the_signatures_of_answers_count() {
        let mut rates = DatagramRates::default();
        rates.count(ip("1.2.3.4"), 10_000, NOW);
        assert!(
            !rates.admit(ip("1.2.3.4"), false, NOW + 47 * SECOND)
                && rates.admit(ip("1.2.3.4"), false, NOW + 48 * SECOND)
        );
    }

    #[test]
    fn expected_answers_are_admitted_during_a_flood_from_their_address() {
        let mut rates = DatagramRates::default();
        admitted(&mut rates, ip("1.2.3.4"), 5000, NOW);
        assert_eq!((0..5000).filter(|_| rates.admit(ip("1.2.3.4"), true, NOW)).count(), 4001);
    }

    #[test]
    fn the_addresses_of_an_ipv6_network_of_a_host_count_together() {
        let mut rates = DatagramRates::default();
        assert_eq!(admitted(&mut rates, ip("2a00:1:2:3::1"), 5000, NOW), 401);
        assert_eq!(admitted(&mut rates, ip("2a00:1:2:3:ffff::2"), 5000, NOW), 0);
        assert_eq!(admitted(&mut rates, ip("2a00:1:2:4::1"), 10, NOW), 10);
    }

    #[test]
    fn all_addresses_together_are_limited_and_few_are_kept() {
        let mut rates = DatagramRates::default();
        let flood = |rates: &mut DatagramRates, now: Duration| {
            (0..20_000_u32)
                .filter(|number| rates.admit(IpAddr::from((0x0b00_0000 + number).to_be_bytes()), false, now))
                .count()
        };
        let admitted = flood(&mut rates, NOW) + flood(&mut rates, NOW + SECOND);
        assert!(admitted <= 12_001, "{admitted}");
        assert!(rates.of_address.len() <= MAX_ADDRESSES);
    }
}
