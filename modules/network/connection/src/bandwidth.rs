//! Limits on bytes per second, of all connections together and of each peer, in both directions.
//!
//! A limit is a token bucket that may become negative: a message is sent or read whole, and the next one waits until the level
//! is positive again. Consensus messages are charged and never wait; answers wait for a positive level, other messages
//! for a higher one, so that answers have precedence.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tenon_network_identity::NodeId;
use tokio::time::{Instant, sleep};

/// Minimum limit, bytes per second: with less, the largest frame takes longer than the time limit for writing.
pub const MIN_BYTES_PER_SECOND: u64 = 128 << 10;
/// Maximum bytes of one read on a limited connection. Small, because concurrent reads on several connections together
/// exceed the limit.
pub(crate) const LIMITED_READ_BYTES: usize = 16 << 10;
/// Time for which a bucket collects unused bytes.
const BURST: Duration = Duration::from_secs(1);
/// Part of a full bucket, as a divisor, that only answers may use.
const BULK_RESERVE: i128 = 4;
/// Time after which a waiting bulk message gets the priority of an answer: a peer with many requests can delay bulk
/// messages, but not block them.
const MAX_BULK_WAIT: Duration = Duration::from_secs(5);
/// Maximum sleep before a bucket is checked again: other connections may have used its bytes.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// Limits in bytes per second; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BandwidthLimits {
    /// Received from all peers.
    pub download: Option<u64>,
    /// Sent to all peers.
    pub upload: Option<u64>,
    /// Received from one peer.
    pub peer_download: Option<u64>,
    /// Sent to one peer.
    pub peer_upload: Option<u64>,
}

/// Priority of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// An answer to the peer's request.
    Answer,
    /// Messages that are neither answers nor urgent.
    Bulk,
}

/// A token bucket. The caller supplies the time.
#[derive(Debug)]
struct Bucket {
    /// Bytes per second, above zero.
    rate: u64,
    /// Level in nanobytes (bytes × 10⁹ / s × ns), exact for every interval. It may be negative.
    level: i128,
    at: Instant,
}

/// Nanobytes in a byte.
const NANO: i128 = 1_000_000_000;

impl Bucket {
    fn new(rate: u64, now: Instant) -> Self {
        let rate = rate.max(MIN_BYTES_PER_SECOND);
        Self { rate, level: Self::full(rate), at: now }
    }

    fn full(rate: u64) -> i128 {
        i128::from(rate) * BURST.as_nanos().cast_signed()
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.at).as_nanos().cast_signed();
        self.level =
            self.level.saturating_add(i128::from(self.rate).saturating_mul(elapsed)).min(Self::full(self.rate));
        self.at = now;
    }

    fn charge(&mut self, bytes: usize, now: Instant) {
        self.refill(now);
        self.level = self.level.saturating_sub(i128::try_from(bytes).unwrap_or(i128::MAX).saturating_mul(NANO));
    }

    /// Time until the level is above `floor` nanobytes; zero if it is.
    fn wait(&mut self, floor: i128, now: Instant) -> Duration {
        self.refill(now);
        let missing = floor.saturating_add(1).saturating_sub(self.level);
        if missing <= 0 {
            return Duration::ZERO;
        }
        let nanoseconds = u64::try_from(missing / i128::from(self.rate)).unwrap_or(u64::MAX).saturating_add(1);
        Duration::from_nanos(nanoseconds)
    }

    /// The level that messages other than answers require.
    fn bulk_floor(&self) -> i128 {
        Self::full(self.rate) / BULK_RESERVE
    }
}

/// The two directions of a limit; `None` is unlimited. Locked for a few additions; never held across an await.
#[derive(Debug)]
struct Buckets {
    download: Option<Mutex<Bucket>>,
    upload: Option<Mutex<Bucket>>,
}

impl Buckets {
    fn new(download: Option<u64>, upload: Option<u64>) -> Self {
        let now = Instant::now();
        let bucket = |rate: Option<u64>| rate.map(|rate| Mutex::new(Bucket::new(rate, now)));
        Self { download: bucket(download), upload: bucket(upload) }
    }
}

/// The limits of a node. Clones share them.
#[derive(Clone, Debug)]
pub struct Bandwidth(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: BandwidthLimits,
    all: Buckets,
    /// The limits of each connected node, shared by its connections.
    peers: Mutex<HashMap<NodeId, Weak<Buckets>>>,
}

impl Default for Bandwidth {
    fn default() -> Self {
        Self::new(BandwidthLimits::default())
    }
}

impl Bandwidth {
    /// Creates the limits. Those below [`MIN_BYTES_PER_SECOND`] are raised to it.
    pub fn new(limits: BandwidthLimits) -> Self {
        let all = Buckets::new(limits.download, limits.upload);
        Self(Arc::new(Shared { limits, all, peers: Mutex::default() }))
    }

    /// The limits of a connection whose peer is not known yet: only those of all connections.
    pub fn share(&self) -> BandwidthShare {
        BandwidthShare { shared: Arc::clone(&self.0), peer: Arc::default() }
    }
}

/// The limits of one connection. Clones share them.
#[derive(Clone, Debug)]
pub struct BandwidthShare {
    shared: Arc<Shared>,
    /// Set after the peer has authenticated.
    peer: Arc<Mutex<Option<Arc<Buckets>>>>,
}

impl BandwidthShare {
    /// Applies the limits of a peer after it has authenticated.
    pub(crate) fn set_peer(&self, id: NodeId) {
        let limits = self.shared.limits;
        if limits.peer_download.is_none() && limits.peer_upload.is_none() {
            return;
        }
        let mut peers = self.shared.peers.lock();
        peers.retain(|_, buckets| buckets.strong_count() > 0);
        let known = peers.get(&id).and_then(Weak::upgrade);
        let buckets = known.unwrap_or_else(|| {
            let buckets = Arc::new(Buckets::new(limits.peer_download, limits.peer_upload));
            peers.insert(id, Arc::downgrade(&buckets));
            buckets
        });
        drop(peers);
        *self.peer.lock() = Some(buckets);
    }

    fn peer(&self) -> Option<Arc<Buckets>> {
        self.peer.lock().clone()
    }

    pub(crate) fn is_download_limited(&self) -> bool {
        self.shared.limits.download.is_some() || self.shared.limits.peer_download.is_some()
    }

    pub(crate) fn charge_received(&self, bytes: usize) {
        self.charge(|buckets| buckets.download.as_ref(), bytes);
    }

    pub(crate) fn charge_sent(&self, bytes: usize) {
        self.charge(|buckets| buckets.upload.as_ref(), bytes);
    }

    fn charge(&self, direction: impl Fn(&Buckets) -> Option<&Mutex<Bucket>>, bytes: usize) {
        let now = Instant::now();
        let peer = self.peer();
        for buckets in [Some(&self.shared.all), peer.as_deref()].into_iter().flatten() {
            if let Some(bucket) = direction(buckets) {
                bucket.lock().charge(bytes, now);
            }
        }
    }

    /// Time until both buckets of a direction are above their floors; zero if they are.
    fn wait(&self, direction: impl Fn(&Buckets) -> Option<&Mutex<Bucket>>, floor: fn(&Bucket) -> i128) -> Duration {
        let now = Instant::now();
        let peer = self.peer();
        let waits = [Some(&self.shared.all), peer.as_deref()].into_iter().flatten().filter_map(|buckets| {
            let mut bucket = direction(buckets)?.lock();
            let floor = floor(&bucket);
            Some(bucket.wait(floor, now))
        });
        waits.max().unwrap_or_default()
    }

    /// Waits until more may be read.
    pub(crate) async fn download(&self) {
        loop {
            match self.wait(|buckets| buckets.download.as_ref(), |_| 0) {
                Duration::ZERO => return,
                wait => sleep(wait.min(MAX_SLEEP)).await,
            }
        }
    }

    /// Whether more may be read now.
    pub(crate) fn may_read(&self) -> bool {
        self.wait(|buckets| buckets.download.as_ref(), |_| 0).is_zero()
    }

    /// Waits until a message of this priority, queued at `since`, may be sent. Cancel safe.
    pub async fn upload(&self, priority: Priority, since: Instant) {
        loop {
            let uses_reserve_floor = priority == Priority::Bulk && since.elapsed() < MAX_BULK_WAIT;
            let floor: fn(&Bucket) -> i128 = if uses_reserve_floor { Bucket::bulk_floor } else { |_| 0 };
            match self.wait(|buckets| buckets.upload.as_ref(), floor) {
                Duration::ZERO => return,
                wait => sleep(wait.min(MAX_SLEEP)).await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 1 << 20;
    const ONE: NodeId = NodeId([1; 64]);
    const OTHER: NodeId = NodeId([2; 64]);

    fn limited(upload: Option<u64>, peer_upload: Option<u64>) -> Bandwidth {
        Bandwidth::new(BandwidthLimits { upload, peer_upload, ..BandwidthLimits::default() })
    }

    fn of(bandwidth: &Bandwidth, peer: NodeId) -> BandwidthShare {
        let share = bandwidth.share();
        share.set_peer(peer);
        share
    }

    /// Seconds that it takes to send messages one after another.
    async fn seconds_to_send(share: &BandwidthShare, priority: Priority, count: usize, bytes: usize) -> f64 {
        let begun = Instant::now();
        for _ in 0..count {
            share.upload(priority, Instant::now()).await;
            share.charge_sent(bytes);
        }
        begun.elapsed().as_secs_f64()
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_holds_over_time_and_lets_a_burst_of_one_second_through() {
        let share = limited(Some(RATE), None).share();
        // 11 MiB in messages of 64 KiB at 1 MiB/s, the first MiB without delay.
        let seconds = seconds_to_send(&share, Priority::Answer, 11 * 16, 64 << 10).await;
        assert!((9.8..10.1).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_without_a_limit() {
        let share = of(&limited(None, None), ONE);
        assert_eq!(seconds_to_send(&share, Priority::Bulk, 1_000, 10 << 20).await, 0.0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_larger_than_a_burst_leaves_whole_and_the_next_waits_for_its_debt() {
        let share = limited(Some(RATE), None).share();
        assert_eq!(seconds_to_send(&share, Priority::Answer, 1, 10 << 20).await, 0.0);
        let seconds = seconds_to_send(&share, Priority::Answer, 1, 1).await;
        assert!((8.9..9.1).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn connections_of_one_peer_share_its_limit_and_other_peers_have_their_own() {
        let bandwidth = limited(None, Some(RATE));
        let (first, second, other) = (of(&bandwidth, ONE), of(&bandwidth, ONE), of(&bandwidth, OTHER));
        first.charge_sent(3 << 20);
        assert_eq!(seconds_to_send(&other, Priority::Answer, 1, 1).await, 0.0);
        let seconds = seconds_to_send(&second, Priority::Answer, 1, 1).await;
        assert!((1.9..2.1).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reconnects_after_its_last_connection_starts_with_a_new_state() {
        let bandwidth = limited(None, Some(RATE));
        of(&bandwidth, ONE).charge_sent(30 << 20);
        assert_eq!(seconds_to_send(&of(&bandwidth, ONE), Priority::Answer, 1, 1).await, 0.0);
        assert_eq!(bandwidth.0.peers.lock().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_go_before_bulk_which_waits_for_five_seconds_at_most() {
        let bandwidth = limited(Some(RATE), None);
        let (asked, gossiping) = (bandwidth.share(), bandwidth.share());
        asked.charge_sent(2 << 20);
        let sent = Arc::new(Mutex::new(Vec::new()));
        let begun = Instant::now();
        let note = |what: &'static str| sent.lock().push((what, begun.elapsed().as_secs_f64()));
        let answers = async {
            for _ in 0..100 {
                asked.upload(Priority::Answer, Instant::now()).await;
                asked.charge_sent(100 << 10);
                note("answer");
            }
        };
        let bulk = async {
            gossiping.upload(Priority::Bulk, Instant::now()).await;
            note("bulk");
        };
        tokio::join!(answers, bulk);
        let sent = sent.lock();
        let (place, (_, waited)) = sent.iter().enumerate().find(|(_, (what, _))| *what == "bulk").unwrap();
        assert!(place > 30, "{place}");
        assert!((4.9..6.5).contains(waited), "{waited}");
    }

    #[tokio::test(start_paused = true)]
    async fn reading_waits_for_its_own_direction() {
        let limits = BandwidthLimits { download: Some(RATE), ..BandwidthLimits::default() };
        let share = Bandwidth::new(limits).share();
        share.charge_sent(100 << 20);
        assert!(share.may_read());
        share.charge_received(3 << 20);
        assert!(!share.may_read());
        let begun = Instant::now();
        share.download().await;
        let seconds = begun.elapsed().as_secs_f64();
        assert!((1.9..2.1).contains(&seconds), "{seconds}");
    }

    #[test]
    fn a_limit_that_is_too_low_counts_as_the_minimum() {
        assert_eq!(Bucket::new(1, Instant::now()).rate, MIN_BYTES_PER_SECOND);
    }
}
