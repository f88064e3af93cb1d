//! The behaviour of dishonest masternodes: two blocks and several votes in one round, forged messages, and others'
//! messages with a second, high-S form of their signatures.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256, hex};
use alloy_rlp::{Decodable, Encodable};
use rand::Rng;
use tenon_api::{Block, BlockPort, Header, RoundMessage, RoundMessageKind};
use tenon_native_consensus::v2::seal;
use tenon_native_consensus::{BlockInfo, SyncInfo, Timeout, Vote, recover, timeout_digest, vote_digest};

use tenon_network_wire::Announced;

use super::links::Message;
use super::observer::round_of;
use super::world::{Event, World};

/// The order of the group of signatures.
const ORDER: [u8; 32] = hex!("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");
/// Number of votes for different blocks that are sent together in one round.
const FLOOD: usize = 12;
/// Milliseconds between two forged messages.
const PAUSE: std::ops::Range<u64> = 200..2_500;

/// Returns whether a vote or timeout has this masternode's signature.
pub(super) fn is_signed_by(message: &RoundMessage, who: Address) -> bool {
    let mut payload = &message.payload[..];
    let signer = match message.kind {
        RoundMessageKind::Vote => Vote::decode(&mut payload)
            .ok()
            .and_then(|vote| recover(vote_digest(&vote.block, vote.gap_number), &vote.signature).ok()),
        RoundMessageKind::Timeout => Timeout::decode(&mut payload)
            .ok()
            .and_then(|timeout| recover(timeout_digest(timeout.round, timeout.gap_number), &timeout.signature).ok()),
        RoundMessageKind::SyncInfo => None,
    };
    signer == Some(who)
}

/// The block that a message refers to, as real connections report it.
pub(super) fn block_of(message: &RoundMessage) -> Option<Announced> {
    let mut payload = &message.payload[..];
    let block = match message.kind {
        RoundMessageKind::Vote => Vote::decode(&mut payload).ok()?.block,
        RoundMessageKind::Timeout => return None,
        RoundMessageKind::SyncInfo => SyncInfo::decode(&mut payload).ok()?.quorum.block,
    };
    Some(Announced { hash: block.hash, number: block.number })
}

pub(super) fn message(kind: RoundMessageKind, content: &dyn Encodable) -> RoundMessage {
    let mut payload = Vec::new();
    content.encode(&mut payload);
    RoundMessage { kind, payload: payload.into() }
}

impl World {
    /// Sends one block of the round to half of the peers, and a second block of the same round to the others.
    pub(super) fn propose_twice(&mut self, who: usize, block: &Arc<Block>, total_difficulty: U256) {
        let key = self.nodes[who].key.clone();
        let header = Header { timestamp: block.header.timestamp + 1, ..block.header.header().clone() };
        let header = seal(header, &key).unwrap();
        let other = Arc::new(tenon_chain::assemble_block(header, block.transactions.clone(), Vec::new(), None));
        if let Some(running) = &mut self.nodes[who].running {
            running.blocks.insert((*other).clone());
        }
        for peer in self.peers_of(who) {
            let shown = if peer % 2 == 0 { block } else { &other };
            self.send(who, peer, Message::Block(Arc::clone(shown), total_difficulty));
        }
        self.vote_again(who, block);
        self.vote_again(who, &other);
    }

    /// Lets a dishonest node vote for every block that it sees.
    pub(super) fn vote_again(&mut self, who: usize, block: &Block) {
        if !self.is_byzantine(who) {
            return;
        }
        let info = BlockInfo { hash: block.hash(), round: round_of(block), number: block.header.number };
        self.vote_for(who, info);
    }

    fn vote_for(&mut self, who: usize, block: BlockInfo) {
        let Some(certified) = self.nodes[who].state().map(|state| state.highest_quorum.gap_number) else { return };
        let signature: Bytes = self.nodes[who].key.sign(vote_digest(&block, certified)).to_vec().into();
        let vote = Vote { block, signature, gap_number: certified };
        self.lie_to_all(who, &message(RoundMessageKind::Vote, &vote));
    }

    /// Sends a random forged message, and schedules the next one.
    pub(super) fn act_byzantine(&mut self, who: usize) {
        let later = self.now + self.random.random_range(PAUSE);
        let Some(state) = self.nodes[who].state().cloned() else {
            self.at(later, who, Event::ActsByzantine);
            return;
        };
        let ahead = state.round + self.random.random_range(0..30);
        let gap_number = state.highest_quorum.gap_number;
        match self.random.random_range(0..7) {
            0 => {
                let hash = B256::repeat_byte(self.random.random_range(1..=255));
                let number = state.highest_quorum.block.number + self.random.random_range(0..3);
                self.vote_for(who, BlockInfo { hash, round: ahead, number });
            }
            1 => {
                let signature = self.nodes[who].key.sign(timeout_digest(ahead, gap_number)).to_vec().into();
                let timeout = Timeout { round: ahead, signature, gap_number };
                self.lie_to_all(who, &message(RoundMessageKind::Timeout, &timeout));
            }
            2 => {
                let (mut quorum, timeout) = (state.highest_quorum, state.highest_timeout);
                quorum.block.round = ahead;
                quorum.signatures = self.own_signatures(who, vote_digest(&quorum.block, gap_number));
                self.lie_to_all(who, &message(RoundMessageKind::SyncInfo, &SyncInfo { quorum, timeout }));
            }
            3 => {
                let (quorum, mut timeout) = (state.highest_quorum, state.highest_timeout);
                (timeout.round, timeout.gap_number) = (ahead, gap_number);
                timeout.signatures = self.own_signatures(who, timeout_digest(ahead, gap_number));
                self.lie_to_all(who, &message(RoundMessageKind::SyncInfo, &SyncInfo { quorum, timeout }));
            }
            4 => self.send_a_wrong_block(who),
            5 => {
                let other = self.random.random_range(0..self.nodes.len());
                self.send_with_high_s(who, other);
            }
            _ => {
                for _ in 0..FLOOD {
                    let hash = B256::new(self.random.random());
                    let number = state.highest_quorum.block.number + 1;
                    self.vote_for(who, BlockInfo { hash, round: state.round, number });
                }
            }
        }
        self.at(later, who, Event::ActsByzantine);
    }

    /// Sends the last vote or timeout of another masternode with the second signature that anyone can derive from the
    /// first one.
    pub(super) fn send_with_high_s(&mut self, who: usize, other: usize) {
        let Some(RoundMessage { kind, payload }) = self.nodes[other].last_sent.clone() else { return };
        let mut encoded = &payload[..];
        let turned = match kind {
            RoundMessageKind::Vote => {
                let vote = Vote::decode(&mut encoded).unwrap();
                message(kind, &Vote { signature: with_high_s(&vote.signature), ..vote })
            }
            RoundMessageKind::Timeout => {
                let timeout = Timeout::decode(&mut encoded).unwrap();
                message(kind, &Timeout { signature: with_high_s(&timeout.signature), ..timeout })
            }
            RoundMessageKind::SyncInfo => return,
        };
        self.lie_to_all(who, &turned);
    }

    fn lie_to_all(&mut self, who: usize, message: &RoundMessage) {
        let (sent, _) = self.sent_messages.of(message);
        self.broadcast(who, &sent, false);
    }

    /// One masternode's signature, repeated often enough for a quorum.
    fn own_signatures(&self, who: usize, digest: B256) -> Vec<Bytes> {
        vec![self.nodes[who].key.sign(digest).to_vec().into(); self.nodes.len()]
    }

    /// Sends the head with another state root, sealed with the sender's key although it is not the sender's turn.
    fn send_a_wrong_block(&mut self, who: usize) {
        let (head, total_difficulty) = self.nodes[who].head();
        let Some(block) = self.nodes[who].block(head) else { return };
        let state_root = B256::repeat_byte(self.random.random_range(1..=255));
        let header = Header { state_root, ..block.header.header().clone() };
        let header = seal(header, &self.nodes[who].key).unwrap();
        let block = tenon_chain::assemble_block(header, block.transactions.clone(), Vec::new(), None);
        let block = Arc::new(block);
        for peer in self.peers_of(who) {
            self.send(who, peer, Message::Block(Arc::clone(&block), total_difficulty));
        }
    }
}

/// The other valid signature of the same key for the same digest: S negated.
fn with_high_s(signature: &[u8]) -> Bytes {
    let s = U256::from_be_bytes(ORDER) - U256::from_be_slice(&signature[32..64]);
    [&signature[..32], &s.to_be_bytes::<32>(), &[signature[64] ^ 1]].concat().into()
}
