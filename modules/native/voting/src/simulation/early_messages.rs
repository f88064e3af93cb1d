//! Votes and timeouts of later rounds, and certificates for blocks that are not stored, sent to one masternode of four over
//! the simulated ports.

use alloy_primitives::{B256, Bytes, U256, uint};
use alloy_rlp::Decodable;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tenon_api::{RoundMessage, RoundMessageKind};
use tenon_native_consensus::v2::MasternodeKey;
use tenon_native_consensus::{BlockInfo, QuorumCertificate, SyncInfo, Timeout, Vote, timeout_digest, vote_digest};

use super::byzantine::message;
use super::node::{Network, Node};
use super::world::network_of;
use crate::actor::Input;
use crate::received::MessageCollector;

/// Later than the node's round by more than one: such a vote is not counted yet.
const ROUND: u64 = 9;

fn started(key: &MasternodeKey, network: &Network) -> Node {
    let mut node = Node::new(0, key.clone(), network);
    node.clock.set(1_700_000_000_000);
    node.start(network);
    node
}

/// Messages that the actor gets together.
fn received(messages: impl IntoIterator<Item = RoundMessage>) -> Input {
    let collector = MessageCollector::default();
    let mut added = messages.into_iter().map(|message| collector.add(message, Box::new(())));
    let together = added.next().flatten().unwrap();
    assert!(added.all(|others| others.is_none()));
    Input::Messages(together)
}

fn vote(key: &MasternodeKey) -> RoundMessage {
    let block = BlockInfo { hash: B256::repeat_byte(7), round: ROUND, number: 1 };
    let signature: Bytes = key.sign(vote_digest(&block, 0)).to_vec().into();
    message(RoundMessageKind::Vote, &Vote { block, signature, gap_number: 0 })
}

/// The same vote with the other S, which no node counts.
fn vote_with_high_s(key: &MasternodeKey) -> RoundMessage {
    const ORDER: U256 = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);
    let mut vote = Vote::decode(&mut &vote(key).payload[..]).unwrap();
    let mut signature = vote.signature.to_vec();
    let high = ORDER - U256::from_be_slice(&signature[32..64]);
    signature[32..64].copy_from_slice(&high.to_be_bytes::<32>());
    signature[64] ^= 1;
    vote.signature = signature.into();
    message(RoundMessageKind::Vote, &vote)
}

fn timeout(key: &MasternodeKey) -> RoundMessage {
    let signature: Bytes = key.sign(timeout_digest(ROUND, 0)).to_vec().into();
    message(RoundMessageKind::Timeout, &Timeout { round: ROUND, signature, gap_number: 0 })
}

#[test]
fn early_votes_and_timeouts_are_kept_only_from_masternodes() {
    let (network, keys) = network_of(4, 1, &mut StdRng::seed_from_u64(1));
    let stranger = MasternodeKey::from_bytes([9; 32]).unwrap();
    let mut node = started(&keys[0], &network);
    let running = node.running.as_mut().unwrap();

    for key in [&stranger, &keys[1]] {
        running.handle(received([vote(key)]));
        running.handle(received([timeout(key)]));
    }

    let kept = vec![keys[1].address()];
    assert_eq!(running.actor.early().signers(), (kept.clone(), kept));
}

#[test]
fn messages_that_come_together_are_each_judged() {
    let (network, keys) = network_of(4, 1, &mut StdRng::seed_from_u64(1));
    let stranger = MasternodeKey::from_bytes([9; 32]).unwrap();
    let mut node = started(&keys[0], &network);
    let running = node.running.as_mut().unwrap();

    running.handle(received([
        vote(&keys[1]),
        vote_with_high_s(&keys[2]),
        vote(&stranger),
        vote(&keys[1]),
        timeout(&keys[3]),
        vote(&keys[3]),
    ]));

    let (votes, timeouts) = (vec![keys[1].address(), keys[3].address()], vec![keys[3].address()]);
    assert_eq!(running.actor.early().signers(), (votes, timeouts));
}

/// A certificate for a block that is not stored, with these signatures.
fn sync_info(keys: &[&MasternodeKey]) -> RoundMessage {
    let block = BlockInfo { hash: B256::repeat_byte(7), round: ROUND, number: 1 };
    let signatures = keys.iter().map(|key| key.sign(vote_digest(&block, 0)).to_vec().into()).collect();
    let quorum = QuorumCertificate { block, signatures, gap_number: 0 };
    message(RoundMessageKind::SyncInfo, &SyncInfo { quorum, timeout: Default::default() })
}

/// A quorum of four masternodes is three; half of it are two signers.
#[test]
fn certificates_are_kept_if_candidates_have_signed_them() {
    let (network, keys) = network_of(4, 1, &mut StdRng::seed_from_u64(1));
    let stranger = MasternodeKey::from_bytes([9; 32]).unwrap();
    let (one, other) = (&keys[1], &keys[2]);
    for (signers, is_kept) in [
        (&[][..], false),
        (&[one], false),
        (&[one, one, one], false),
        (&[one, &stranger, other], false),
        (&[&stranger, one, other], false),
        (&[one, other], true),
    ] {
        let mut node = started(&keys[0], &network);
        let running = node.running.as_mut().unwrap();

        running.handle(received([sync_info(signers)]));

        assert_eq!(running.actor.early().sync_info_count() == 1, is_kept, "{} signatures", signers.len());
    }
}
