//! Decides whether this node is far behind its network, by verified blocks and the age of the local head. The claims of peers
//! alone decide it only for [`MAX_UNPROVEN`], because a false claim stops this node's votes.

use std::time::Duration;

/// Maximum age of a recent head, seconds. The network makes 30 blocks in this time, and the fetcher accepts blocks up to 32
/// above the head.
const RECENT_SECONDS: u64 = 60;
/// Time for which a node with an old head trusts a claim without evidence. An honest source proves its claim within seconds;
/// the rest allows for the failures of other sources.
const MAX_UNPROVEN: Duration = Duration::from_secs(120);

/// What is known of the running cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// No cycle runs.
    NoCycle,
    /// A peer claims more blocks; none was verified.
    Claim,
    /// The import has inserted new blocks: they were verified.
    NewBlocks,
}

/// Decides whether this node is far behind.
#[derive(Debug)]
pub(crate) struct Lag {
    /// Remaining time for which a claim counts. Full at the start, when the first peer connects, and after evidence; empty as
    /// soon as the head is recent.
    unproven_left: Duration,
    /// Time of the last update with a claim. The next update deducts the time since then.
    counting_since: Option<Duration>,
    is_behind: bool,
}

impl Default for Lag {
    fn default() -> Self {
        Self { unproven_left: MAX_UNPROVEN, counting_since: None, is_behind: false }
    }
}

impl Lag {
    /// Whether the node is far behind, as of the last update.
    pub(crate) const fn is_behind(&self) -> bool {
        self.is_behind
    }

    /// Called when the first peer connects: claims count again, because the network may have advanced without this
    /// node.
    pub(crate) const fn trust_claims(&mut self) {
        self.unproven_left = MAX_UNPROVEN;
    }

    /// Decides with the timestamp of the head, and with what is known of the running cycle.
    pub(crate) fn update(&mut self, head_timestamp: u64, evidence: Evidence, now: Duration, unix: u64) {
        if let Some(since) = self.counting_since.take() {
            self.unproven_left = self.unproven_left.saturating_sub(now.saturating_sub(since));
        }
        if unix.saturating_sub(head_timestamp) <= RECENT_SECONDS {
            self.unproven_left = Duration::ZERO;
            self.is_behind = false;
            return;
        }
        self.is_behind = match evidence {
            Evidence::NoCycle => false,
            Evidence::NewBlocks => {
                self.unproven_left = MAX_UNPROVEN;
                true
            }
            Evidence::Claim => {
                self.counting_since = Some(now);
                !self.unproven_left.is_zero()
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: u64 = 1_000;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_node_with_a_recent_head_is_never_behind() {
        for evidence in [Evidence::NoCycle, Evidence::Claim, Evidence::NewBlocks] {
            let mut lag = Lag::default();
            lag.update(HEAD, evidence, seconds(1), HEAD + RECENT_SECONDS);
            assert!(!lag.is_behind(), "{evidence:?}");
        }
    }

    #[test]
    fn claims_count_for_a_node_with_an_old_head_until_their_time_is_used_up() {
        let (mut lag, old) = (Lag::default(), HEAD + RECENT_SECONDS + 1);
        lag.update(HEAD, Evidence::NoCycle, seconds(0), old);
        assert!(!lag.is_behind());

        // Time without a cycle is not deducted.
        for (now, evidence, is_behind) in [
            (1_000, Evidence::Claim, true),
            (1_100, Evidence::Claim, true),
            (1_110, Evidence::NoCycle, false),
            (2_000, Evidence::Claim, true),
            (2_010, Evidence::Claim, false),
            (3_000, Evidence::NewBlocks, true),
            (4_000, Evidence::Claim, true),
        ] {
            lag.update(HEAD, evidence, seconds(now), old);
            assert_eq!(lag.is_behind(), is_behind, "at {now} s");
        }
    }

    #[test]
    fn a_node_that_was_near_the_head_needs_evidence_unless_it_was_alone() {
        let (mut lag, old) = (Lag::default(), HEAD + RECENT_SECONDS + 1);
        lag.update(HEAD, Evidence::NoCycle, seconds(0), HEAD);
        lag.update(HEAD, Evidence::Claim, seconds(100), old);
        assert!(!lag.is_behind());
        lag.update(HEAD, Evidence::NewBlocks, seconds(101), old);
        assert!(lag.is_behind());

        lag.update(HEAD, Evidence::NoCycle, seconds(102), HEAD);
        lag.trust_claims();
        lag.update(HEAD, Evidence::Claim, seconds(103), old);
        assert!(lag.is_behind());
    }
}
