//! One session of `eth` from this node's side, without I/O: Status, the question for the peer's head, and what follows from
//! each message (`docs/spec/p2p.md` 12, 15, 16).
//!
//! This release follows no head and takes no transactions, votes or timeouts from peers: these are ignored without being
//! decoded, as the reference does while it is not synced.

use std::time::Duration;

use alloy_primitives::{B256, U256};
use tenon_api::SealedHeader;
use tenon_network_peers::Fault;
use tenon_network_rlpx::DisconnectReason;
use tenon_network_wire::{
    EthSession, Gates, HeaderOrigin, HeaderRequest, Kind, Message, NewBlock, Received, SessionFault, Status, Version,
};

use crate::serving::Question;

/// Time for an answer (`docs/spec/p2p.md` 19.4).
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// What a message or the clock leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Send this.
    Send {
        /// Its code.
        code: u64,
        /// Its payload.
        payload: Vec<u8>,
    },
    /// The peer asks for something.
    Serve(Question),
    /// The peer belongs to the same chain, and its head is this.
    Established(Status),
    /// The peer has another head.
    NewHead {
        /// Its hash.
        hash: B256,
        /// Its total difficulty.
        total_difficulty: U256,
        /// Its height.
        number: u64,
    },
    /// The peer has shown the header of its head.
    Height {
        /// The head's hash.
        hash: B256,
        /// Its height.
        number: u64,
    },
    /// The peer did something wrong, and stays.
    Fault(Fault),
    /// End the connection.
    End(Ended),
}

/// Why this side ends a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// What the peer is told.
    pub(crate) told: DisconnectReason,
    /// What the log and subscribers are told.
    pub(crate) reason: String,
    /// What the peer did wrong, if it was its fault.
    pub(crate) fault: Option<Fault>,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Conversation {
    session: EthSession,
    /// Total difficulty that the peer claims.
    total_difficulty: U256,
    /// The head that was asked for, and when the answer is due.
    asked: Option<(B256, Duration)>,
}

impl Conversation {
    /// A session at an agreed version.
    pub(crate) fn new(version: &'static Version, status: Status, now: Duration) -> Self {
        let session = EthSession::new(version, status, now);
        Self { session, total_difficulty: U256::ZERO, asked: None }
    }

    /// This node's Status, to be sent at once.
    pub(crate) fn status(&self) -> Vec<u8> {
        self.session.status_payload()
    }

    /// The code of an answer in the agreed version.
    pub(crate) fn code(&self, kind: Kind) -> Option<u64> {
        self.session.version().code(kind)
    }

    /// When [`Conversation::tick`] has something to do.
    pub(crate) fn wakes_at(&self) -> Option<Duration> {
        self.session.wakes_at().or(self.asked.map(|(_, deadline)| deadline))
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Duration) -> Option<Step> {
        if let Err(fault) = self.session.tick(now) {
            return Some(end(&fault));
        }
        if self.asked.is_some_and(|(_, deadline)| now >= deadline) {
            self.asked = None;
            return Some(Step::Fault(Fault::NoAnswer));
        }
        None
    }

    /// Takes a message.
    pub(crate) fn receive(&mut self, code: u64, payload: &[u8], now: Duration) -> Vec<Step> {
        let gates = Gates { takes_transactions: false, takes_consensus: false };
        match self.session.receive(code, payload, gates) {
            Err(fault) => vec![end(&fault)],
            Ok(Received::Ignored(_)) => Vec::new(),
            Ok(Received::Established(status)) => self.begin(status, now),
            Ok(Received::Message(message)) => self.take(message),
        }
    }

    fn begin(&mut self, status: Status, now: Duration) -> Vec<Step> {
        self.total_difficulty = status.total_difficulty;
        let request = HeaderRequest { origin: HeaderOrigin::Hash(status.head), amount: 1, skip: 0, is_reverse: false };
        let mut steps = Vec::new();
        if let Some((kind, payload)) = Message::GetBlockHeaders(request).encode()
            && let Some(code) = self.code(kind)
        {
            self.asked = Some((status.head, now + ANSWER_LIMIT));
            steps.push(Step::Send { code, payload });
        }
        steps.insert(0, Step::Established(status));
        steps
    }

    fn take(&mut self, message: Message) -> Vec<Step> {
        match message {
            Message::GetBlockHeaders(request) => vec![Step::Serve(Question::Headers(request))],
            Message::GetBlockBodies(hashes) => vec![Step::Serve(Question::Bodies(hashes))],
            Message::GetReceipts(hashes) => vec![Step::Serve(Question::Receipts(hashes))],
            Message::GetNodeData(hashes) => vec![Step::Serve(Question::NodeData(hashes))],
            Message::BlockHeaders(headers) => self.take_headers(&headers).into_iter().collect(),
            Message::NewBlock(new) => self.take_block(&new).into_iter().collect(),
            // Announcements without a head to follow, and answers that nobody waits for: lateness is no fault.
            _ => Vec::new(),
        }
    }

    fn take_headers(&mut self, headers: &[SealedHeader]) -> Option<Step> {
        let (hash, _) = self.asked.take()?;
        match headers {
            // It may have moved on, and dropped a block that was not final.
            [] => Some(Step::Fault(Fault::EmptyAnswer)),
            [header] if header.hash() == hash => Some(Step::Height { hash, number: header.number }),
            _ => Some(Step::Fault(Fault::WrongAnswer)),
        }
    }

    /// The peer has the block's parent, whatever becomes of the block (`docs/spec/p2p.md` 16.1).
    fn take_block(&mut self, new: &NewBlock) -> Option<Step> {
        let header = &new.block.header;
        let total_difficulty = new.total_difficulty.checked_sub(header.difficulty)?;
        let number = header.number.checked_sub(1)?;
        if total_difficulty <= self.total_difficulty {
            return None;
        }
        self.total_difficulty = total_difficulty;
        Some(Step::NewHead { hash: header.parent_hash, total_difficulty, number })
    }
}

fn end(fault: &SessionFault) -> Step {
    let blame = match fault {
        // Another chain or version is a mistake of nobody.
        SessionFault::Mismatch(_) => None,
        SessionFault::StatusTimeout => Some(Fault::NoAnswer),
        SessionFault::NoStatus { .. } | SessionFault::SecondStatus | SessionFault::Message(_) => Some(Fault::Malformed),
    };
    Step::End(Ended { told: DisconnectReason(fault.disconnect_reason()), reason: fault.to_string(), fault: blame })
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

    fn established() -> Conversation {
        let mut conversation = conversation();
        let steps = conversation.receive(0, &status(50).encode(), Duration::from_secs(1));
        assert!(matches!(&steps[..], [Step::Established(_), Step::Send { code: 3, .. }]), "{steps:?}");
        conversation
    }

    #[test]
    fn status_is_due_within_5_s_and_must_fit() {
        let mut conversation = conversation();
        assert_eq!(conversation.wakes_at(), Some(Duration::from_secs(5)));
        assert_eq!(conversation.tick(Duration::from_secs(4)), None);
        let Some(Step::End(ended)) = conversation.tick(Duration::from_secs(5)) else { panic!("it ends") };
        assert_eq!((ended.told, ended.fault), (DisconnectReason::READ_TIMEOUT, Some(Fault::NoAnswer)));

        let steps = conversation.receive(0, &status(51).encode(), Duration::ZERO);
        let [Step::End(ended)] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!((ended.told, ended.fault), (DisconnectReason::SUBPROTOCOL_ERROR, None));
    }

    #[test]
    fn the_head_is_asked_for_and_silence_or_another_header_is_a_fault() {
        let mut silent = established();
        assert_eq!(silent.wakes_at(), Some(Duration::from_secs(6)));
        assert_eq!(silent.tick(Duration::from_secs(6)), Some(Step::Fault(Fault::NoAnswer)));
        assert_eq!(silent.tick(Duration::from_secs(60)), None);
        // The late answer is no fault.
        assert_eq!(silent.receive(4, &[0xc0], Duration::from_secs(61)), []);

        assert_eq!(established().receive(4, &[0xc0], Duration::ZERO), [Step::Fault(Fault::EmptyAnswer)]);
    }

    #[test]
    fn questions_are_served_and_gossip_is_ignored_undecoded() {
        let mut conversation = established();
        assert_eq!(conversation.receive(5, &[0xc0], Duration::ZERO), [Step::Serve(Question::Bodies(Vec::new()))]);
        for code in [2, 0xe0, 0xe1, 0xe2] {
            assert_eq!(conversation.receive(code, b"no RLP", Duration::ZERO), []);
        }
        for wrong in [0x00, 0x03, 0x0a] {
            let steps = conversation.receive(wrong, b"no RLP", Duration::ZERO);
            assert!(
                matches!(&steps[..], [Step::End(Ended { fault: Some(Fault::Malformed), .. })]),
                "{wrong}: {steps:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn whatever_a_peer_says_leads_to_few_steps_and_nothing_follows_the_end(
            messages in proptest::collection::vec((0_u64..240, proptest::collection::vec(any::<u8>(), 0..80), 0_u64..10), 0..40),
            is_established: bool,
        ) {
            let mut conversation = if is_established { established() } else { conversation() };
            let mut now = Duration::from_secs(1);
            for (code, payload, wait) in messages {
                now += Duration::from_secs(wait);
                let steps = conversation.receive(code, &payload, now);
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
