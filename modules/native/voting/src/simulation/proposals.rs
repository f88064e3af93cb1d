//! The proposals of one masternode of four, over the simulated ports (7.1).

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use tenon_api::SealedHeader;
use tenon_native_consensus::v2::MasternodeKey;
use tenon_native_consensus::{BlockInfo, QuorumCertificate, VotingState};

use super::node::{Network, Node};
use super::ports::Outbox;
use super::world::network_of;
use crate::VotingPorts;
use crate::proposer::{Proposer, RoundDecision};

const MASTERNODES: u64 = 4;
/// The first round of [`Leader`].
const ROUND: u64 = 5;

/// The leader of rounds 5, 9, 13 and so on.
struct Leader {
    network: Network,
    node: Node,
    key: MasternodeKey,
}

impl Leader {
    fn new() -> Self {
        let (network, mut keys) = network_of(MASTERNODES, 1, &mut StdRng::seed_from_u64(1));
        let leader = network.masternodes[(ROUND % MASTERNODES) as usize];
        keys.retain(|key| key.address() == leader);
        let key = keys.remove(0);
        let node = Node::new(0, key.clone(), &network);
        Self { network, node, key }
    }

    fn ports(&self) -> VotingPorts {
        self.node.ports(&self.network, &Outbox::default()).0
    }

    /// The state of this round after rounds without a block: the certified block is the genesis block.
    fn state(&self, round: u64, highest_proposed_round: u64) -> VotingState {
        let block = BlockInfo { hash: self.network.genesis.hash(), round: 0, number: 0 };
        let highest_quorum = QuorumCertificate { block, ..QuorumCertificate::default() };
        VotingState { round, highest_quorum, highest_proposed_round, ..VotingState::default() }
    }

    /// The parent of the block that a proposer makes in this state.
    fn parent(&self, proposer: &mut Proposer, state: &VotingState) -> Option<SealedHeader> {
        let now = Duration::from_secs(1_700_000_000);
        match proposer.next_step(&self.ports(), &self.key, state, now).unwrap() {
            RoundDecision::Propose(parent, _) => Some((*parent).clone()),
            RoundDecision::Nothing => None,
            RoundDecision::Wait(wait) => panic!("due in {wait:?}"),
        }
    }
}

#[test]
fn a_node_builds_again_on_the_same_parent_in_its_next_round() {
    let leader = Leader::new();
    let mut proposer = Proposer::default();
    let parent = Some(leader.network.genesis.clone());

    assert_eq!(leader.parent(&mut proposer, &leader.state(ROUND, 0)), parent);
    for round in ROUND + 1..ROUND + MASTERNODES {
        assert_eq!(leader.parent(&mut proposer, &leader.state(round, ROUND)), None, "round {round} has another leader");
    }
    assert_eq!(leader.parent(&mut proposer, &leader.state(ROUND + MASTERNODES, ROUND)), parent);
}

#[test]
fn a_node_never_builds_twice_in_a_round_not_even_after_a_restart() {
    let leader = Leader::new();
    let mut proposer = Proposer::default();
    let proposed = leader.state(ROUND, ROUND);
    leader.ports().engine.write_voting_state(&proposed).unwrap();

    assert_eq!(leader.parent(&mut proposer, &proposed), None);
    let remembered = leader.ports().engine.voting_state().unwrap();
    assert_eq!(leader.parent(&mut Proposer::default(), &remembered), None);
    // A round before it, as after a start with an older state.
    assert_eq!(leader.parent(&mut proposer, &leader.state(ROUND, ROUND + MASTERNODES)), None);
}
