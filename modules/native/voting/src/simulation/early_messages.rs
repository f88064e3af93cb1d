//! Votes and timeouts of later rounds, sent to one masternode of four over the simulated ports.

use alloy_primitives::{B256, Bytes};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tenon_api::{RoundMessage, RoundMessageKind};
use tenon_native_consensus::v2::MasternodeKey;
use tenon_native_consensus::{BlockInfo, Timeout, Vote, timeout_digest, vote_digest};

use super::lies::message;
use super::node::Node;
use super::world::network_of;
use crate::actor::Input;

/// Later than the node's round by more than one: such a vote is not counted yet.
const ROUND: u64 = 9;

fn vote(key: &MasternodeKey) -> RoundMessage {
    let block = BlockInfo { hash: B256::repeat_byte(7), round: ROUND, number: 1 };
    let signature: Bytes = key.sign(vote_digest(&block, 0)).to_vec().into();
    message(RoundMessageKind::Vote, &Vote { block, signature, gap_number: 0 })
}

fn timeout(key: &MasternodeKey) -> RoundMessage {
    let signature: Bytes = key.sign(timeout_digest(ROUND, 0)).to_vec().into();
    message(RoundMessageKind::Timeout, &Timeout { round: ROUND, signature, gap_number: 0 })
}

#[test]
fn those_of_a_masternode_are_kept_and_those_of_a_stranger_are_not() {
    let (network, keys) = network_of(4, 1, &mut StdRng::seed_from_u64(1));
    let stranger = MasternodeKey::from_bytes([9; 32]).unwrap();
    let mut node = Node::new(0, keys[0].clone(), &network);
    node.clock.set(1_700_000_000_000);
    node.start(&network);
    let running = node.running.as_mut().unwrap();

    for key in [&stranger, &keys[1]] {
        running.tell(Input::Message(vote(key), Box::new(())));
        running.tell(Input::Message(timeout(key), Box::new(())));
    }

    let kept = vec![keys[1].address()];
    assert_eq!(running.actor.early().signers(), (kept.clone(), kept));
}
