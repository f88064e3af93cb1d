//! Peers that failed as the source of a cycle. They are not chosen again for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use tenon_network_identity::NodeId;

/// Time for which a peer is excluded after its first failure. Each further failure doubles it.
const FIRST_EXCLUSION: Duration = Duration::from_secs(30);
/// Maximum number of doublings: the longest exclusion is 16 minutes.
const MAX_DOUBLINGS: u32 = 5;
/// One failure is forgotten each time this time has passed since the end of an exclusion.
const FAILURE_DECAY_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Maximum number of remembered peers.
const MAX_REMEMBERED: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Exclusion {
    until: Duration,
    failures: u32,
}

impl Exclusion {
    fn failures_at(self, now: Duration) -> u32 {
        let faded = now.saturating_sub(self.until).as_secs() / FAILURE_DECAY_INTERVAL.as_secs();
        self.failures.saturating_sub(u32::try_from(faded).unwrap_or(u32::MAX))
    }
}

/// The failures of each peer. A peer that leaves and returns keeps them.
#[derive(Debug, Default)]
pub(crate) struct Exclusions(BTreeMap<NodeId, Exclusion>);

impl Exclusions {
    /// Records a failure, and excludes the peer.
    pub(crate) fn exclude(&mut self, peer: NodeId, now: Duration) {
        let before = self.0.get(&peer).map_or(0, |exclusion| exclusion.failures_at(now));
        if before == 0 {
            self.make_room(now);
        }
        let until = now + FIRST_EXCLUSION * 2_u32.pow(before.min(MAX_DOUBLINGS));
        self.0.insert(peer, Exclusion { until, failures: before.saturating_add(1).min(MAX_DOUBLINGS + 1) });
    }

    /// Forgets the failures of a peer: a cycle with it as the source has succeeded.
    pub(crate) fn clear_failures(&mut self, peer: &NodeId) {
        self.0.remove(peer);
    }

    /// Whether the peer must not be chosen as a source now.
    pub(crate) fn is_excluded(&self, peer: &NodeId, now: Duration) -> bool {
        self.end_of(peer, now).is_some()
    }

    /// When the exclusion of the peer ends; `None` if it is not excluded.
    pub(crate) fn end_of(&self, peer: &NodeId, now: Duration) -> Option<Duration> {
        self.0.get(peer).map(|exclusion| exclusion.until).filter(|until| *until > now)
    }

    /// Removes faded failures. If all are fresh and there are too many, removes the one whose exclusion ends first.
    fn make_room(&mut self, now: Duration) {
        if self.0.len() < MAX_REMEMBERED {
            return;
        }
        self.0.retain(|_, exclusion| exclusion.failures_at(now) > 0);
        if self.0.len() >= MAX_REMEMBERED
            && let Some(peer) = self.0.iter().min_by_key(|(_, exclusion)| exclusion.until).map(|(peer, _)| *peer)
        {
            self.0.remove(&peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId([1; 64]);

    fn seconds_excluded(exclusions: &mut Exclusions, now: Duration) -> u64 {
        exclusions.exclude(PEER, now);
        (exclusions.end_of(&PEER, now).expect("excluded") - now).as_secs()
    }

    #[test]
    fn each_failure_doubles_the_exclusion_and_time_halves_it() {
        let mut exclusions = Exclusions::default();
        let mut now = Duration::ZERO;
        for seconds in [30, 60, 120, 240, 480, 960, 960] {
            assert_eq!(seconds_excluded(&mut exclusions, now), seconds);
            now += Duration::from_secs(seconds);
            assert!(!exclusions.is_excluded(&PEER, now));
        }

        now += FAILURE_DECAY_INTERVAL * 3;

        assert_eq!(seconds_excluded(&mut exclusions, now), 240);
        exclusions.clear_failures(&PEER);
        assert_eq!(seconds_excluded(&mut exclusions, now), 30);
    }

    #[test]
    fn the_number_of_remembered_peers_is_bounded() {
        let mut exclusions = Exclusions::default();
        for number in 0..3_000_u64 {
            let mut id = [0; 64];
            id[..8].copy_from_slice(&number.to_be_bytes());
            exclusions.exclude(NodeId(id), Duration::from_millis(number));
        }
        assert_eq!(exclusions.0.len(), MAX_REMEMBERED);
    }
}
