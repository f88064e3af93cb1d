//! Limits on the work that messages of peers cause: large messages wait for a turn, answers without a request are ignored,
//! and a connection may send few blocks whose body does not match their header.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tenon_network_connection::{FairTurn, FairTurns, ReadPause};
use tenon_network_identity::NodeId;
use tenon_network_wire::Kind;
use tokio::time::Instant;

/// Maximum size of a payload, in bytes, that is decoded on the connection's own task: decoding takes half a millisecond
/// at most.
pub(crate) const MAX_SHORT_PAYLOAD: usize = 16 * 1024;
/// Maximum number of transactions of a message that are offered to the pool without a turn.
pub(crate) const MAX_SHORT_TRANSACTIONS: usize = 32;

/// Decompressed bytes per second that are read from a connection that sends messages which no honest peer sends.
/// Decompressing them costs this node more than the peer.
const UNWANTED_BYTES_IN_A_SECOND: u32 = 1 << 20;

/// Time for which nothing more is read from a peer after such a message.
pub(crate) fn unwanted_pause(bytes: usize) -> Duration {
    Duration::from_secs(bytes as u64) / UNWANTED_BYTES_IN_A_SECOND
}

/// Turns for decoding and processing large messages. All connections share them; the address that has used the least time
/// is served first. A connection has at most one message in progress.
#[derive(Clone, Debug)]
pub(crate) struct MessageTurns {
    /// For transactions: at most one per two processors, so that requests of other clients are served meanwhile.
    transactions: FairTurns,
    /// For blocks that were not requested: one at a time, because a body that does not match its header may expand to
    /// ten times its size.
    new_blocks: FairTurns,
    /// For requested headers and bodies.
    answers: FairTurns,
}

impl Default for MessageTurns {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self {
            transactions: FairTurns::new(processors.div_ceil(2)),
            new_blocks: FairTurns::new(1),
            answers: FairTurns::new(processors),
        }
    }
}

impl MessageTurns {
    /// Waits for a turn for a message of this kind from `address`.
    pub(crate) fn wait(&self, kind: Kind, address: IpAddr) -> impl Future<Output = FairTurn> + use<> {
        let turns = match kind {
            Kind::NewBlock => &self.new_blocks,
            Kind::BlockHeaders | Kind::BlockBodies => &self.answers,
            _ => &self.transactions,
        };
        let turns = turns.clone();
        async move { turns.wait(address).await }
    }
}

/// Held until a message is processed: the next one of its peer is read afterwards.
#[derive(Debug)]
pub(crate) struct InProgress {
    /// Dropping it lets the connection read the next message.
    _pause: ReadPause,
    /// The turn of a large message.
    pub(crate) turn: Option<FairTurn>,
}

impl InProgress {
    pub(crate) const fn new(pause: ReadPause) -> Self {
        Self { _pause: pause, turn: None }
    }
}

/// Numbers of requests for headers and bodies that each connected node has not answered. The two connections of a node
/// share them, because a reference node may answer on the other one (`docs/spec/p2p.md` 11).
#[derive(Clone, Debug, Default)]
pub(crate) struct AwaitedAnswers(Arc<Mutex<HashMap<NodeId, Weak<Awaited>>>>);

#[derive(Debug, Default)]
struct Awaited {
    headers: AtomicUsize,
    bodies: AtomicUsize,
}

/// The outstanding answers of one node, shared by its connections. The drop of the last one removes the node from the
/// table.
#[derive(Debug)]
pub(crate) struct AwaitedOfNode {
    all: AwaitedAnswers,
    node: NodeId,
    awaited: Arc<Awaited>,
}

impl AwaitedAnswers {
    /// For a new connection of a node.
    pub(crate) fn of_node(&self, node: NodeId) -> AwaitedOfNode {
        let mut all = self.0.lock();
        let awaited = all.get(&node).and_then(Weak::upgrade).unwrap_or_default();
        all.insert(node, Arc::downgrade(&awaited));
        AwaitedOfNode { all: self.clone(), node, awaited }
    }
}

impl AwaitedOfNode {
    fn count(&self, answer: Kind) -> Option<&AtomicUsize> {
        match answer {
            Kind::BlockHeaders => Some(&self.awaited.headers),
            Kind::BlockBodies => Some(&self.awaited.bodies),
            _ => None,
        }
    }

    /// Records a message to the node, which may be a request.
    pub(crate) fn sent(&self, kind: Kind) {
        match kind {
            Kind::GetBlockHeaders => self.awaited.headers.fetch_add(1, Ordering::Relaxed),
            Kind::GetBlockBodies => self.awaited.bodies.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// Whether an answer of this kind is outstanding.
    pub(crate) fn awaits(&self, answer: Kind) -> bool {
        self.count(answer).is_some_and(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// Records an answer of the node.
    pub(crate) fn answered(&self, answer: Kind) {
        if let Some(count) = self.count(answer) {
            // Fails at zero, if both connections deliver an answer at the same time.
            let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
        }
    }
}

impl Drop for AwaitedOfNode {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        // The last connection of the node: the table has only a weak reference.
        if Arc::strong_count(&self.awaited) == 1 {
            all.remove(&self.node);
        }
    }
}

/// Maximum number of blocks whose body does not match the header that are accepted from a connection in
/// [`MISMATCHED_BODY_INTERVAL`]. Honest peers relay a block once its header is verified, so a few of them are no fault.
const MAX_MISMATCHED_BODIES: u32 = 8;
/// See [`MAX_MISMATCHED_BODIES`].
const MISMATCHED_BODY_INTERVAL: Duration = Duration::from_secs(60);

/// Counts the blocks of a connection whose body does not match their header.
#[derive(Debug)]
pub(crate) struct MismatchedBodies {
    since: Instant,
    count: u32,
}

impl MismatchedBodies {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), count: 0 }
    }

    /// Records one.
    pub(crate) fn add(&mut self) {
        self.count += 1;
    }

    /// Whether another block is accepted now.
    pub(crate) fn accepts_new_blocks(&mut self) -> bool {
        if self.since.elapsed() >= MISMATCHED_BODY_INTERVAL {
            *self = Self::new();
        }
        self.count < MAX_MISMATCHED_BODIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_connections_of_a_node_await_the_answers_to_their_requests() {
        let all = AwaitedAnswers::default();
        let (first, second, other) =
            (all.of_node(NodeId([1; 64])), all.of_node(NodeId([1; 64])), all.of_node(NodeId([2; 64])));
        assert!(!first.awaits(Kind::BlockBodies));

        first.sent(Kind::GetBlockBodies);
        first.sent(Kind::Vote);

        assert!(
            second.awaits(Kind::BlockBodies) && !second.awaits(Kind::BlockHeaders) && !other.awaits(Kind::BlockBodies)
        );
        second.answered(Kind::BlockBodies);
        assert!(!first.awaits(Kind::BlockBodies));
        second.answered(Kind::BlockBodies);
        assert!(!first.awaits(Kind::BlockBodies));
        assert!(!first.awaits(Kind::Receipts), "never requested");

        drop((first, other));
        assert_eq!(all.0.lock().len(), 1);
        drop(second);
        assert!(all.0.lock().is_empty());
    }

    #[test]
    fn a_peer_is_read_more_slowly_after_unwanted_bytes() {
        assert_eq!(unwanted_pause(0), Duration::ZERO);
        assert_eq!(unwanted_pause(1 << 20), Duration::from_secs(1));
        assert_eq!(unwanted_pause(10 << 20), Duration::from_secs(10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_may_pass_on_eight_mismatched_bodies_a_minute() {
        let mut foreign = MismatchedBodies::new();
        for _ in 0..MAX_MISMATCHED_BODIES {
            assert!(foreign.accepts_new_blocks());
            foreign.add();
        }
        assert!(!foreign.accepts_new_blocks());
        tokio::time::advance(MISMATCHED_BODY_INTERVAL).await;
        assert!(foreign.accepts_new_blocks());
    }

    #[tokio::test]
    async fn transactions_blocks_and_answers_do_not_wait_for_each_other() {
        let (turns, address) = (MessageTurns::default(), IpAddr::from([10, 0, 0, 1]));
        let mut held = Vec::new();
        while let Some(turn) = futures_util::FutureExt::now_or_never(turns.wait(Kind::BlockBodies, address)) {
            held.push(turn);
        }
        let transactions = turns.wait(Kind::Transactions, address).await;
        let block = turns.wait(Kind::NewBlock, address).await;
        assert!(futures_util::FutureExt::now_or_never(turns.wait(Kind::NewBlock, address)).is_none());
        assert!(futures_util::FutureExt::now_or_never(turns.wait(Kind::BlockHeaders, address)).is_none());
        held.pop();
        turns.wait(Kind::BlockHeaders, address).await;
        drop((block, transactions));
    }
}
