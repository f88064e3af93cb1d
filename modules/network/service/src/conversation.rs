//! One session of `eth` from this node's side, without I/O: Status, and the step that each message leads to
//! (`docs/spec/p2p.md` 12, 15, 16).
//!
//! Transactions before the node is synced, and votes, timeouts and certificates while it syncs, are ignored without being
//! decoded.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{B256, U256};
use alloy_rlp::Encodable;
use tenon_api::{Block, RoundMessage, RoundMessageKind, SealedHeader, Transaction};
use tenon_chain::round_messages::BlockInfo;
use tenon_network_peers::Fault;
use tenon_network_rlpx::DisconnectReason;
use tenon_network_wire::{
    AcceptedMessages, Announced, BlockBody, Checked, EthSession, Kind, Message, NewBlock, SessionFault, Status,
    Version, WireError,
};

use crate::serving::PeerRequest;

/// The consequence of a message or of the clock.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send a message.
    Send {
        /// Its code.
        code: u64,
        /// Its payload.
        payload: Vec<u8>,
    },
    /// Answer a request of the peer.
    Serve(PeerRequest),
    /// The peer belongs to the same chain; its Status.
    Established(Status),
    /// The head of the peer has changed.
    NewHead {
        /// Its hash.
        hash: B256,
        /// Its total difficulty.
        total_difficulty: U256,
        /// Its height.
        number: u64,
    },
    /// Pass a message of the peer to the actor.
    Deliver(Delivery),
    /// End the connection.
    End(Ended),
}

/// The result of [`Conversation::begin`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BeginOutcome {
    /// The message is not decoded. Take these steps, if any.
    Done(Vec<Step>),
    /// No honest peer sends it now. It is not decoded.
    Unwanted,
    /// It is to be decoded, and the result passed to [`Conversation::finish`].
    Decode(Kind),
}

/// A message of a peer for the actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Headers.
    Headers(Vec<SealedHeader>),
    /// Bodies, with the size of the message in bytes.
    Bodies {
        /// In the order of the request.
        bodies: Vec<BlockBody>,
        /// Bytes of the message.
        bytes: usize,
    },
    /// A block, and the sum of difficulties up to and including it.
    Block(Box<Block>, U256),
    /// Blocks that the peer has.
    Announced(Vec<Announced>),
    /// Transactions.
    Transactions(Vec<Arc<Transaction>>),
    /// A vote, a timeout, or certificates, and the block of a vote or certificate.
    Round(RoundMessage, Option<Announced>),
}

/// Why this side ends a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The reason in Disconnect.
    pub(crate) sent_reason: DisconnectReason,
    /// The reason for the log and for subscribers.
    pub(crate) reason: String,
    /// The peer's fault, if it is one.
    pub(crate) fault: Option<Fault>,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Conversation {
    session: EthSession,
    /// Total difficulty that the peer claims.
    total_difficulty: U256,
}

impl Conversation {
    /// A session at an agreed version.
    pub(crate) fn new(version: &'static Version, status: Status, now: Duration) -> Self {
        let session = EthSession::new(version, status, now);
        Self { session, total_difficulty: U256::ZERO }
    }

    /// This node's Status, to be sent immediately.
    pub(crate) fn status(&self) -> Vec<u8> {
        self.session.status_payload()
    }

    /// The agreed version.
    pub(crate) const fn version(&self) -> &'static Version {
        self.session.version()
    }

    /// The code of an answer in the agreed version.
    pub(crate) fn code(&self, kind: Kind) -> Option<u64> {
        self.session.version().code(kind)
    }

    /// The message of a code in the agreed version.
    pub(crate) fn kind(&self, code: u64) -> Option<Kind> {
        self.session.version().kind(code)
    }

    /// When [`Conversation::tick`] has something to do.
    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        self.session.wakes_at()
    }

    /// Checks the time limit of the peer's Status.
    pub(crate) fn tick(&self, now: Duration) -> Option<Step> {
        self.session.tick(now).err().map(|fault| end(&fault))
    }

    /// Processes a message of the peer up to its decoding, which may take long.
    pub(crate) fn begin(&mut self, code: u64, payload: &[u8], acceptance: AcceptedMessages) -> BeginOutcome {
        match self.session.check(code, payload, acceptance) {
            Err(fault) => BeginOutcome::Done(vec![end(&fault)]),
            Ok(Checked::Ignored(
                Kind::NewBlock
                | Kind::BlockHeaders
                | Kind::BlockBodies
                | Kind::Receipts
                | Kind::NodeData
                | Kind::PooledTransactions,
            )) => BeginOutcome::Unwanted,
            Ok(Checked::Ignored(_)) => BeginOutcome::Done(Vec::new()),
            Ok(Checked::Established(status)) => {
                self.total_difficulty = status.total_difficulty;
                BeginOutcome::Done(vec![Step::Established(status)])
            }
            Ok(Checked::Decodable(kind)) => BeginOutcome::Decode(kind),
        }
    }

    /// Processes a decoded message of this size.
    pub(crate) fn finish(&mut self, decoded: Result<Message, WireError>, bytes: usize) -> Vec<Step> {
        match decoded {
            Ok(message) => self.take(message, bytes),
            Err(error) => vec![end(&error.into())],
        }
    }

    fn take(&mut self, message: Message, bytes: usize) -> Vec<Step> {
        let delivery = match message {
            Message::GetBlockHeaders(request) => return vec![Step::Serve(PeerRequest::Headers(request))],
            Message::GetBlockBodies(hashes) => return vec![Step::Serve(PeerRequest::Bodies(hashes))],
            Message::GetReceipts(hashes) => return vec![Step::Serve(PeerRequest::Receipts(hashes))],
            Message::GetNodeData(hashes) => return vec![Step::Serve(PeerRequest::NodeData(hashes))],
            Message::NewBlock(new) => return self.take_block(*new),
            Message::BlockHeaders(headers) => Delivery::Headers(headers),
            Message::BlockBodies(bodies) => Delivery::Bodies { bodies, bytes },
            Message::NewBlockHashes(announced) => Delivery::Announced(announced),
            Message::Transactions(transactions) | Message::PooledTransactions(transactions) => {
                Delivery::Transactions(transactions)
            }
            Message::Vote(vote) => round(RoundMessageKind::Vote, &vote, Some(vote.block)),
            Message::Timeout(timeout) => round(RoundMessageKind::Timeout, &timeout, None),
            Message::SyncInfo(info) => round(RoundMessageKind::SyncInfo, &*info, Some(info.quorum.block)),
            // Not served (pooled transactions), of no use (orders, `docs/spec/p2p.md` 14.6), or of no meaning here (a second
            // Status).
            _ => return Vec::new(),
        };
        vec![Step::Deliver(delivery)]
    }

    /// The peer has the block's parent, even if the block is invalid (`docs/spec/p2p.md` 16.1).
    fn take_block(&mut self, new: NewBlock) -> Vec<Step> {
        let header = &new.block.header;
        let mut steps = Vec::new();
        if let Some(total_difficulty) = new.total_difficulty.checked_sub(header.difficulty)
            && let Some(number) = header.number.checked_sub(1)
            && total_difficulty > self.total_difficulty
        {
            self.total_difficulty = total_difficulty;
            steps.push(Step::NewHead { hash: header.parent_hash, total_difficulty, number });
        }
        steps.push(Step::Deliver(Delivery::Block(Box::new(new.block), new.total_difficulty)));
        steps
    }
}

/// Encodes the message as it is passed on: without the bytes after its first value.
fn round(kind: RoundMessageKind, message: &dyn Encodable, block: Option<BlockInfo>) -> Delivery {
    let mut payload = Vec::with_capacity(message.length());
    message.encode(&mut payload);
    let block = block.map(|block| Announced { hash: block.hash, number: block.number });
    Delivery::Round(RoundMessage { kind, payload: payload.into() }, block)
}

fn end(fault: &SessionFault) -> Step {
    let blame = match fault {
        // Another chain or version is not a fault.
        SessionFault::Mismatch(_) => None,
        SessionFault::StatusTimeout => Some(Fault::NoAnswer),
        SessionFault::NoStatus { .. } | SessionFault::SecondStatus | SessionFault::Message(_) => Some(Fault::Malformed),
    };
    Step::End(Ended {
        sent_reason: DisconnectReason(fault.disconnect_reason()),
        reason: fault.to_string(),
        fault: blame,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tenon_network_wire::version;

    use super::*;

    const HEAD: B256 = B256::repeat_byte(7);

    fn status(network: u64) -> Status {
        let (total_difficulty, genesis) = (U256::from(10), B256::repeat_byte(1));
        Status { version: 100, network, total_difficulty, head: HEAD, genesis, fork_id: None }
    }

    fn conversation() -> Conversation {
        Conversation::new(version(100).unwrap(), status(50), Duration::ZERO)
    }

    const CLOSED: AcceptedMessages =
        AcceptedMessages { accepts_transactions: false, accepts_round_messages: false, ..AcceptedMessages::ALL };

    impl Conversation {
        fn receive(&mut self, code: u64, payload: &[u8], acceptance: AcceptedMessages) -> Vec<Step> {
            match self.begin(code, payload, acceptance) {
                BeginOutcome::Done(steps) => steps,
                BeginOutcome::Unwanted => Vec::new(),
                BeginOutcome::Decode(_) => self.finish(Message::decode(self.version(), code, payload), payload.len()),
            }
        }
    }

    fn established() -> Conversation {
        let mut conversation = conversation();
        let steps = conversation.receive(0, &status(50).encode(), CLOSED);
        assert!(matches!(&steps[..], [Step::Established(_)]), "{steps:?}");
        conversation
    }

    #[test]
    fn status_is_due_within_5_s_and_must_fit() {
        let mut conversation = conversation();
        assert_eq!(conversation.wakes_at(), Some(Duration::from_secs(5)));
        assert_eq!(conversation.tick(Duration::from_secs(4)), None);
        let Some(Step::End(ended)) = conversation.tick(Duration::from_secs(5)) else { panic!("it ends") };
        assert_eq!((ended.sent_reason, ended.fault), (DisconnectReason::READ_TIMEOUT, Some(Fault::NoAnswer)));

        let steps = conversation.receive(0, &status(51).encode(), CLOSED);
        let [Step::End(ended)] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!((ended.sent_reason, ended.fault), (DisconnectReason::SUBPROTOCOL_ERROR, None));
    }

    #[test]
    fn answers_and_transactions_are_for_the_whole_node() {
        let mut conversation = established();
        let nothing = [0xc0];
        assert_eq!(conversation.receive(4, &nothing, CLOSED), [Step::Deliver(Delivery::Headers(Vec::new()))]);
        let bodies = Delivery::Bodies { bodies: Vec::new(), bytes: 1 };
        assert_eq!(conversation.receive(6, &nothing, CLOSED), [Step::Deliver(bodies)]);
        let open = AcceptedMessages { accepts_transactions: true, ..CLOSED };
        assert_eq!(conversation.receive(2, &nothing, CLOSED), []);
        assert_eq!(conversation.receive(2, &nothing, open), [Step::Deliver(Delivery::Transactions(Vec::new()))]);
    }

    #[test]
    fn answers_that_are_not_awaited_are_ignored_undecoded() {
        let mut conversation = established();
        let nothing_awaited =
            AcceptedMessages { accepts_headers: false, accepts_bodies: false, ..AcceptedMessages::ALL };
        for code in [4, 6] {
            assert_eq!(conversation.receive(code, b"no RLP", nothing_awaited), []);
        }
        for never_requested in [0x0e, 0x10] {
            assert_eq!(conversation.receive(never_requested, b"no RLP", AcceptedMessages::ALL), []);
        }
        let no_blocks = AcceptedMessages { accepts_new_blocks: false, ..AcceptedMessages::ALL };
        assert_eq!(conversation.receive(7, b"no RLP", no_blocks), []);
    }

    #[test]
    fn questions_are_served_and_gossip_is_ignored_undecoded() {
        let mut conversation = established();
        assert_eq!(conversation.receive(5, &[0xc0], CLOSED), [Step::Serve(PeerRequest::Bodies(Vec::new()))]);
        for code in [2, 0xe0, 0xe1, 0xe2] {
            assert_eq!(conversation.receive(code, b"no RLP", CLOSED), []);
        }
        for wrong in [0x00, 0x03, 0x0a] {
            let steps = conversation.receive(wrong, b"no RLP", CLOSED);
            assert!(
                matches!(&steps[..], [Step::End(Ended { fault: Some(Fault::Malformed), .. })]),
                "{wrong}: {steps:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_message_leads_to_few_steps_and_none_after_the_end(
            messages in proptest::collection::vec((0_u64..240, proptest::collection::vec(any::<u8>(), 0..80), 0_u64..10), 0..40),
            is_established: bool,
        ) {
            let mut conversation = if is_established { established() } else { conversation() };
            let mut now = Duration::from_secs(1);
            for (code, payload, wait) in messages {
                now += Duration::from_secs(wait);
                let steps = conversation.receive(code, &payload, CLOSED);
                prop_assert!(steps.len() <= 2, "{steps:?}");
                let ends = steps.iter().filter(|step| matches!(step, Step::End(_))).count();
                prop_assert!(ends == 0 || steps.len() == 1);
                if conversation.wakes_at().is_some_and(|time| now >= time) {
                    prop_assert!(conversation.tick(now).is_some(), "what is due is done");
                }
            }
        }
    }
}
