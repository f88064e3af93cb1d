//! Voting among several nodes: simulated networks, and the cases of `docs/spec/consensus.md` 15.7.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tenon_api::SealAttributes;
use tenon_native_consensus::recorded_chain::{RecordedChain, key};
use tenon_native_consensus::v2::testing::network::{EPOCH, GAP, Network};
use tenon_native_consensus::v2::testing::{Listed, engine};
use tenon_native_consensus::v2::{MasternodeKey, leader, seal};

use super::*;

#[derive(Clone)]
enum Message {
    Vote(Vote),
    Timeout(Timeout),
    SyncInfo(SyncInfo),
}

/// Nodes that share one store of blocks and exchange messages, which arrive in random order.
struct Simulation {
    network: Network,
    nodes: Vec<(Address, Replica)>,
    waiting: Vec<(usize, Message)>,
    /// Nodes that neither propose, send nor receive.
    down: Vec<usize>,
    seen: std::collections::HashSet<(usize, B256)>,
}

impl Simulation {
    fn new(seed: u64, count: u64) -> Self {
        let mut network = Network::of(count, seed, StdRng::seed_from_u64(seed));
        let mut all: Vec<Address> = network.keys.keys().copied().collect();
        all.sort_unstable();
        for epoch in 0..20 {
            network.candidates.insert(epoch * EPOCH + EPOCH - GAP, all.clone());
        }
        let genesis = network.tip().clone();
        let mut simulation =
            Self { network, nodes: Vec::new(), waiting: Vec::new(), down: Vec::new(), seen: Default::default() };
        for address in all {
            let key = simulation.network.keys[&address].clone();
            let engine = Arc::new(simulation.network.engine());
            let started =
                Replica::start(engine, Some(Arc::new(key)), VotingState::default(), &genesis, &*simulation.network);
            let (replica, actions) = started.unwrap();
            simulation.nodes.push((address, replica));
            simulation.act(simulation.nodes.len() - 1, actions);
        }
        simulation
    }

    /// Delivers a node's messages to the others, once.
    fn act(&mut self, from: usize, actions: Vec<Action>) {
        for action in actions {
            let (hash, message) = match action {
                Action::SendVote(vote) => (vote.hash(), Message::Vote(vote)),
                Action::SendTimeout(timeout) => (timeout.hash(), Message::Timeout(timeout)),
                Action::SendSyncInfo(sync) => (sync.hash(), Message::SyncInfo(sync)),
                _ => continue,
            };
            self.seen.insert((from, hash));
            for to in 0..self.nodes.len() {
                if to != from && self.seen.insert((to, hash)) {
                    self.waiting.push((to, message.clone()));
                }
            }
        }
    }

    fn deliver_all(&mut self) {
        while !self.waiting.is_empty() {
            let next = self.network.random.random_range(0..self.waiting.len());
            let (to, message) = self.waiting.swap_remove(next);
            if self.down.contains(&to) {
                continue;
            }
            let mut actions = Vec::new();
            let node = &mut self.nodes[to].1;
            // Late votes and timeouts are refused with an error; that is not a failure.
            let _late = match message {
                Message::Vote(vote) => node.on_vote(vote, &*self.network, &mut actions),
                Message::Timeout(timeout) => node.on_timeout(timeout, &*self.network, &mut actions),
                Message::SyncInfo(sync) => node.on_sync_info(sync, &*self.network, &mut actions).map_err(Into::into),
            };
            self.act(to, actions);
        }
    }

    /// Lets the leader propose, if a running node leads its current round and has the certificate of the newest block.
    fn propose(&mut self) -> bool {
        let parent = self.network.tip().clone();
        for index in 0..self.nodes.len() {
            if self.down.contains(&index) {
                continue;
            }
            let (address, replica) = &self.nodes[index];
            let (address, round) = (*address, replica.state().round);
            let quorum = replica.state().highest_quorum.clone();
            let attributes = SealAttributes {
                timestamp: parent.timestamp,
                beneficiary: address,
                gas_limit: 50_000_000,
                extra_data: Bytes::new(),
                mix_hash: B256::ZERO,
            };
            let engine = self.network.engine();
            let Ok(header) = engine.prepare(&parent, round, quorum, &attributes, &*self.network) else { continue };
            let header = seal(header, &self.network.keys[&address]).unwrap();
            engine.verify_header(&header, &parent, &*self.network, None).unwrap();
            self.network.store(header.clone(), Vec::new());
            for to in 0..self.nodes.len() {
                if !self.down.contains(&to) {
                    let mut actions = Vec::new();
                    self.nodes[to].1.on_block(&header, &*self.network, &mut actions).unwrap();
                    self.act(to, actions);
                }
            }
            return true;
        }
        false
    }

    fn time_out(&mut self) {
        for index in 0..self.nodes.len() {
            if !self.down.contains(&index) {
                let mut actions = Vec::new();
                self.nodes[index].1.on_countdown(&*self.network, &mut actions).unwrap();
                self.act(index, actions);
            }
        }
    }
}

#[test]
fn nodes_make_and_commit_the_same_chain_with_any_node_down() {
    for seed in [1, 2, 3] {
        let mut simulation = Simulation::new(seed, 7);
        let mut timeouts = 0;
        for step in 0..400 {
            if simulation.network.tip().number >= 70 {
                break;
            }
            if step % 40 == 20 {
                // One of seven may be down; it returns later and catches up.
                simulation.down = vec![simulation.network.random.random_range(0..7)];
            }
            if step % 40 == 35 {
                let tip = simulation.network.tip().clone();
                for index in std::mem::take(&mut simulation.down) {
                    let mut actions = Vec::new();
                    simulation.nodes[index].1.on_block(&tip, &*simulation.network, &mut actions).unwrap();
                    simulation.act(index, actions);
                }
            }
            if !simulation.propose() {
                simulation.time_out();
                timeouts += 1;
            }
            simulation.deliver_all();
        }

        assert!(simulation.network.tip().number >= 70, "seed {seed}: {}", simulation.network.tip().number);
        assert!(timeouts > 0);
        let committed: Vec<BlockInfo> = simulation
            .nodes
            .iter()
            .enumerate()
            .filter(|(index, _)| !simulation.down.contains(index))
            .map(|(_, (_, replica))| replica.state().committed.unwrap())
            .collect();
        assert!(committed.iter().all(|block| block == &committed[0]), "seed {seed}: {committed:?}");
        assert_eq!(committed[0].hash, simulation.network.chain[&committed[0].number].hash());
    }
}

/// Blocks 0 to `head` of the recorded chain.
fn recorded(head: usize) -> RecordedChain {
    let mut chain = RecordedChain::local();
    chain.truncate(head);
    chain
}

fn masternode(n: usize) -> MasternodeKey {
    MasternodeKey::from_bytes(key(n).secret_bytes()).unwrap()
}

fn replica_at(chain: &RecordedChain, head: u64, own: Option<usize>) -> Replica {
    let engine = Arc::new(engine(chain, Listed::from_headers(&RecordedChain::local())));
    Replica::start(engine, own.map(|n| Arc::new(masternode(n)) as _), VotingState::default(), chain.at(head), &**chain)
        .unwrap()
        .0
}

fn vote_for(header: &SealedHeader, n: usize, gap_number: u64) -> Vote {
    let round = extra_of(header).unwrap().round;
    let block = BlockInfo { hash: header.hash(), round, number: header.number };
    Vote { block, signature: masternode(n).sign(vote_digest(&block, gap_number)).to_vec().into(), gap_number }
}

fn timeout_of(round: u64, n: usize, gap_number: u64) -> Timeout {
    Timeout { round, signature: masternode(n).sign(timeout_digest(round, gap_number)).to_vec().into(), gap_number }
}

#[test]
fn a_node_that_starts_at_a_block_is_in_its_round() {
    let chain = recorded(12);

    let at_genesis = replica_at(&chain, 0, None);
    assert_eq!(at_genesis.state().round, 1);
    assert_eq!(at_genesis.state().highest_quorum.block.hash, chain.at(0).hash());
    assert!(at_genesis.state().highest_quorum.signatures.is_empty());

    let later = replica_at(&chain, 12, None);
    assert_eq!(later.state().round, 12);
    assert_eq!(later.state().highest_quorum.block.round, 11);
    assert_eq!(later.state().lock.as_ref().unwrap().block.round, 10);
    assert_eq!(later.state().committed.unwrap().number, 9);
}

#[test]
fn the_third_of_four_votes_certifies_a_block() {
    let chain = recorded(12);
    let mut replica = replica_at(&chain, 12, None);
    let mut actions = Vec::new();
    let votes: Vec<Vote> = (0..3).map(|n| vote_for(chain.at(12), n, 0)).collect();

    for vote in [&votes[0], &votes[1], &votes[1]] {
        replica.on_vote(vote.clone(), &*chain, &mut actions).unwrap();
    }
    assert_eq!(replica.state().round, 12);
    // A candidate that is not a masternode is accepted, but not counted into the certificate.
    replica.on_vote(votes[2].clone(), &*chain, &mut actions).unwrap();

    assert_eq!(replica.state().round, 13);
    assert_eq!(replica.state().highest_quorum.block.round, 12);
    assert_eq!(replica.state().highest_quorum.signatures.len(), 3);
    assert_eq!(replica.state().lock.as_ref().unwrap().block.round, 11);
    assert_eq!(replica.state().committed.unwrap().number, 10);
    let numbers = replica.committed_certificates().unwrap().certificates().each_ref().map(|each| each.block.number);
    assert_eq!(numbers, [10, 11, 12]);
    assert!(actions.iter().all(|action| !matches!(action, Action::Report(_))));
    assert!(actions.contains(&Action::RoundBegan(13)));
    assert!(actions.contains(&Action::Committed(replica.state().committed.unwrap())));
    let certificate = replica.state().highest_quorum.clone();
    let verifier = engine(&chain, Listed::from_headers(&RecordedChain::local()));
    verifier.verify_quorum_certificate(&certificate, None, &*chain).unwrap();
}

#[test]
fn invalid_votes_are_refused_or_dropped() {
    let chain = recorded(12);
    let whole = RecordedChain::local();
    let mut replica = replica_at(&chain, 12, None);
    let mut actions = Vec::new();
    let mut verdict = |vote: Vote| match replica.on_vote(vote, &*chain, &mut actions) {
        Ok(()) => "taken".to_owned(),
        Err(error) => error.to_string(),
    };

    assert_eq!(verdict(vote_for(chain.at(11), 0, 0)), "taken", "of an old round: dropped");
    assert_eq!(
        verdict(vote_for(whole.at(14), 0, 0)),
        "vote message round number: 14 is too far away from currentRound: 12"
    );
    let unknown = verdict(vote_for(whole.at(13), 0, 0));
    assert!(unknown.starts_with("vote proposed block is not found hash: 0x"), "{unknown}");
    assert_eq!(verdict(vote_for(chain.at(12), 0, 7000)), "getSnapshot fail to get header by number: 7000");
    let short = Vote { signature: vec![1].into(), ..vote_for(chain.at(12), 0, 0) };
    assert_eq!(verdict(short), "error while verifying message: invalid signature length");
    assert_eq!(verdict(vote_for(chain.at(12), 25, 0)), "taken", "of a stranger: dropped");
    assert!(actions.iter().all(|action| matches!(action, Action::SendVote(vote) if vote.block.round >= 13)));
}

#[test]
fn votes_received_before_their_block_count_once_it_arrives() {
    let (before, after) = (recorded(12), recorded(13));
    let mut replica = replica_at(&before, 12, None);
    let mut actions = Vec::new();
    for n in 0..2 {
        let error = replica.on_vote(vote_for(after.at(13), n, 0), &*before, &mut actions).unwrap_err();
        assert!(matches!(error, ReplicaError::VoteBlock { .. }));
    }
    assert_eq!(actions.len(), 2, "they are relayed nevertheless");

    replica.on_block(after.at(13), &*after, &mut actions).unwrap();
    replica.on_vote(vote_for(after.at(13), 2, 0), &*after, &mut actions).unwrap();

    assert_eq!(replica.state().round, 14);
}

#[test]
fn a_second_vote_in_one_round_is_detected_and_still_counted() {
    let chain = recorded(12);
    let mut replica = replica_at(&chain, 12, None);
    let mut actions = Vec::new();
    let honest = vote_for(chain.at(12), 1, 0);
    let block = BlockInfo { hash: B256::repeat_byte(9), ..honest.block };
    let signature = masternode(1).sign(vote_digest(&block, 0)).to_vec().into();
    replica.on_vote(honest, &*chain, &mut actions).unwrap();

    replica.on_vote(Vote { block, signature, gap_number: 0 }, &*chain, &mut actions).unwrap_err();

    let reports: Vec<String> = actions
        .iter()
        .filter_map(|action| if let Action::Report(proof) = action { Some(proof.id()) } else { None })
        .collect();
    assert_eq!(reports, [format!("{}:12:12", alloy_primitives::hex::encode(masternode(1).address()))]);
    for n in [0, 2] {
        replica.on_vote(vote_for(chain.at(12), n, 0), &*chain, &mut actions).unwrap();
    }
    assert_eq!(replica.state().round, 13);
}

/// A masternode can sign any number of votes and timeouts of a round, each of which is valid.
#[test]
fn a_flood_of_one_signer_is_not_relayed_and_leaves_room_for_others() {
    let chain = recorded(12);
    let mut replica = replica_at(&chain, 12, None);
    let (mut actions, liar) = (Vec::new(), masternode(1));
    for salt in 1..=100 {
        let block = BlockInfo { hash: B256::repeat_byte(salt), ..vote_for(chain.at(12), 1, 0).block };
        let signature = liar.sign(vote_digest(&block, 0)).to_vec().into();
        let verdict = replica.on_vote(Vote { block, signature, gap_number: 0 }, &*chain, &mut actions);
        assert_eq!(verdict.is_err(), salt <= 4, "unknown blocks, and then dropped");
    }
    for _ in 0..3 {
        replica.on_timeout(timeout_of(12, 1, 0), &*chain, &mut actions).unwrap();
    }

    let relayed = |actions: &[Action]| actions.iter().filter(|action| matches!(action, Action::SendVote(_))).count();
    assert_eq!(relayed(&actions), 4);
    for n in [0, 2, 3] {
        replica.on_vote(vote_for(chain.at(12), n, 0), &*chain, &mut actions).unwrap();
    }
    assert_eq!(replica.state().round, 13);
    assert_eq!(replica.state().highest_quorum.signatures.len(), 3);
}

#[test]
fn a_masternode_votes_once_in_a_round_and_only_for_the_current_one() {
    let chain = recorded(13);
    let mut replica = replica_at(&chain, 12, Some(0));
    let votes_of = |actions: &[Action]| actions.iter().filter(|action| matches!(action, Action::SendVote(_))).count();

    let mut actions = Vec::new();
    replica.on_block(chain.at(12), &*chain, &mut actions).unwrap();
    assert_eq!((votes_of(&actions), replica.state().highest_voted_round), (1, 12));
    let mut actions = Vec::new();
    replica.on_block(chain.at(12), &*chain, &mut actions).unwrap();
    assert_eq!(votes_of(&actions), 0);

    // The state kept across a restart prevents a second vote.
    let engine = Arc::new(engine(&chain, Listed::from_headers(&RecordedChain::local())));
    let remembered = replica.state().clone();
    let (mut restarted, _) =
        Replica::start(engine, Some(Arc::new(masternode(0))), remembered, chain.at(12), &*chain).unwrap();
    let mut actions = Vec::new();
    restarted.on_block(chain.at(12), &*chain, &mut actions).unwrap();
    assert_eq!(votes_of(&actions), 0);
    let mut actions = Vec::new();
    restarted.on_block(chain.at(13), &*chain, &mut actions).unwrap();
    assert_eq!(votes_of(&actions), 1);
    let mut actions = Vec::new();
    restarted.on_block(chain.at(11), &*chain, &mut actions).unwrap();
    assert_eq!(votes_of(&actions), 0);
}

#[test]
fn timeouts_of_a_quorum_end_a_round() {
    let chain = recorded(12);
    let mut replica = replica_at(&chain, 12, Some(0));
    let mut actions = Vec::new();
    assert_eq!(
        replica.on_timeout(timeout_of(13, 1, 0), &*chain, &mut actions).unwrap_err().to_string(),
        "timeout message round number: 13 does not match currentRound: 12"
    );
    assert_eq!(actions.len(), 1, "relayed nevertheless");

    let mut actions = Vec::new();
    replica.on_countdown(&*chain, &mut actions).unwrap();
    assert!(actions.contains(&Action::SendTimeout(timeout_of(12, 0, 0))));
    replica.on_timeout(timeout_of(12, 1, 0), &*chain, &mut actions).unwrap();
    replica.on_timeout(timeout_of(12, 1, 0), &*chain, &mut actions).unwrap();
    assert_eq!(replica.state().round, 12);
    replica.on_timeout(timeout_of(12, 2, 0), &*chain, &mut actions).unwrap();

    assert_eq!(replica.state().round, 13);
    assert_eq!(replica.state().highest_timeout.signatures.len(), 3);
    let sync =
        SyncInfo { quorum: replica.state().highest_quorum.clone(), timeout: replica.state().highest_timeout.clone() };
    assert!(actions.contains(&Action::SendSyncInfo(sync.clone())));

    // Another node learns the round from it. A quorum certificate counts even if the timeout certificate beside it is
    // empty (5.6).
    let mut other = replica_at(&chain, 12, None);
    other.on_sync_info(sync.clone(), &*chain, &mut actions).unwrap();
    assert_eq!(other.state().round, 13);
    let mut third = replica_at(&chain, 11, None);
    let initial = SyncInfo { timeout: TimeoutCertificate::default(), ..sync };
    let unsigned = TimeoutCertificate { round: 12, ..TimeoutCertificate::default() };
    let unsigned = SyncInfo { timeout: unsigned, ..initial.clone() };
    let refused = third.on_sync_info(unsigned, &*chain, &mut actions).unwrap_err();
    assert_eq!(refused.to_string(), "invalid TC Signatures");
    let mut forged = initial.clone();
    forged.quorum.signatures.truncate(2);
    assert_eq!(third.on_sync_info(forged, &*chain, &mut actions).unwrap_err(), V2Error::CertificateThreshold);
    assert_eq!(third.state().round, 11);
    third.on_sync_info(initial, &*chain, &mut actions).unwrap();
    assert_eq!((third.state().round, third.state().highest_timeout.round), (12, 0));
}

/// Timeouts with different gap numbers are not counted together (5.7).
#[test]
fn a_second_timeout_of_a_round_has_the_gap_number_of_the_new_head() {
    let (before, after) = (recorded(58), recorded(59));
    let engine = Arc::new(engine(&before, Listed::from_headers(&RecordedChain::local())));
    let state = VotingState { round: 65, ..VotingState::default() };
    let mut replica = Replica::start(engine, Some(Arc::new(masternode(0))), state, before.at(58), &*before).unwrap().0;
    let mut actions = Vec::new();

    replica.on_countdown(&*before, &mut actions).unwrap();
    replica.on_countdown(&*after, &mut actions).unwrap();

    let sent = actions.into_iter().filter(|action| matches!(action, Action::SendTimeout(_)));
    let expected = [0, 30].map(|gap_number| Action::SendTimeout(timeout_of(65, 0, gap_number)));
    assert_eq!(sent.collect::<Vec<_>>(), expected);
}

#[test]
fn a_masternode_sends_its_certificates_at_every_third_timeout() {
    let chain = recorded(12);
    let mut replica = replica_at(&chain, 12, Some(0));
    let mut sent = Vec::new();
    for _ in 0..6 {
        let mut actions = Vec::new();
        replica.on_countdown(&*chain, &mut actions).unwrap();
        sent.push(actions.iter().any(|action| matches!(action, Action::SendSyncInfo(_))));
    }

    assert_eq!(sent, [false, false, true, false, false, true]);
}

#[test]
fn the_leader_of_the_round_is_the_recorded_proposer() {
    let chain = recorded(100);
    let verifier = engine(&chain, Listed::from_headers(&RecordedChain::local()));
    for number in 2..=59 {
        let epoch = verifier.epoch_info(chain.at(number), &*chain).unwrap();
        let round = extra_of(chain.at(number)).unwrap().round;
        assert_eq!(leader(verifier.consensus(), round, &epoch.masternodes), Some(chain.at(number).beneficiary));
    }
    assert_eq!(chain.head().header.number, 100);
}
