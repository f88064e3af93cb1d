//! Proofs that a node receives packets at its address (`docs/spec/p2p.md` 4.4).
//!
//! A proof is valid for one pair of identifier and address.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use tenon_network_identity::NodeId;

/// How long a proof is valid.
const PROOF_AGE: Duration = Duration::from_secs(24 * 3600);

/// A node at an address.
pub(crate) type Peer = (NodeId, SocketAddr);

/// Nodes that have answered a Ping at their address.
#[derive(Debug)]
pub(crate) struct Proofs {
    since: HashMap<Peer, Duration>,
    /// Proofs in order of time. A renewed proof occurs more than once.
    order: VecDeque<(Peer, Duration)>,
    limit: usize,
}

impl Proofs {
    /// Creates a store of at most `limit` proofs. Beyond that the oldest is removed.
    pub(crate) fn new(limit: usize) -> Self {
        Self { since: HashMap::new(), order: VecDeque::new(), limit }
    }

    pub(crate) fn add(&mut self, peer: Peer, now: Duration) {
        if self.since.insert(peer, now) == Some(now) {
            return;
        }
        self.order.push_back((peer, now));
        while self.since.len() > self.limit || self.order.len() > 4 * self.limit {
            let Some((oldest, time)) = self.order.pop_front() else { return };
            if self.since.get(&oldest) == Some(&time) {
                self.since.remove(&oldest);
            }
        }
    }

    /// When the proof was made; `None` if there is no valid proof.
    pub(crate) fn since(&self, peer: &Peer, now: Duration) -> Option<Duration> {
        self.since.get(peer).copied().filter(|time| now.saturating_sub(*time) < PROOF_AGE)
    }

    pub(crate) fn holds(&self, peer: &Peer, now: Duration) -> bool {
        self.since(peer, now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(id: u8, port: u16) -> Peer {
        (NodeId([id; 64]), SocketAddr::from(([1, 2, 3, 4], port)))
    }

    #[test]
    fn a_proof_is_valid_for_a_day_for_one_identifier_and_address() {
        let mut proofs = Proofs::new(10);
        proofs.add(peer(1, 1), Duration::ZERO);

        assert!(proofs.holds(&peer(1, 1), PROOF_AGE - Duration::from_secs(1)));
        assert!(!proofs.holds(&peer(1, 1), PROOF_AGE));
        assert!(!proofs.holds(&peer(1, 2), Duration::ZERO) && !proofs.holds(&peer(2, 1), Duration::ZERO));
    }

    #[test]
    fn the_oldest_proof_is_removed_first_and_renewing_a_proof_makes_it_new() {
        let mut proofs = Proofs::new(2);
        for (number, second) in [(1, 0), (2, 1), (1, 2), (3, 3)] {
            proofs.add(peer(number, 1), Duration::from_secs(second));
        }
        let now = Duration::from_secs(4);
        assert_eq!([1, 2, 3].map(|number| proofs.holds(&peer(number, 1), now)), [true, false, true]);
        (4..100).for_each(|second| proofs.add(peer(3, 1), Duration::from_secs(second)));
        assert!(proofs.order.len() <= 8 && proofs.holds(&peer(3, 1), now));
    }
}
