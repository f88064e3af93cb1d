//! Runs to the heads of peers, the blocks that peers send, and late or wrong answers.

use proptest::prelude::*;
use tenon_network_wire::Announced;

use super::*;

#[test]
fn a_long_chain_comes_from_one_peer_in_bounded_pieces() {
    let (own, theirs) = (Chain::new(0, 1, 0), Chain::new(9_000, 1, 0));
    let mut world = World::new(&own, &[(PeerBehaviour::Honest, theirs.clone())]);
    assert!(world.run(theirs.head().hash(), 300), "at {:?}", world.local.head());
    assert!(world.sync.is_synced() && world.faults.is_empty(), "{:?}", world.faults);
    assert!(world.max_importing <= 2_048, "{}", world.max_importing);
}

#[test]
fn silent_and_lying_peers_cost_their_own_questions_only() {
    let (own, theirs) = (Chain::new(0, 1, 0), Chain::new(6_000, 1, 0));
    let good = (PeerBehaviour::Honest, theirs.clone());
    let mut alone = World::new(&own, std::slice::from_ref(&good));
    assert!(alone.run(theirs.head().hash(), 300));
    // Among equal peers the one with the highest identifier becomes the source, so the liar is used.
    let bad = [PeerBehaviour::Silent, PeerBehaviour::Silent, PeerBehaviour::Liar]
        .map(|behaviour| (behaviour, theirs.clone()));
    let mut world = World::new(&own, &[vec![good; 5], bad.to_vec()].concat());
    assert!(world.run(theirs.head().hash(), 300), "at {:?}", world.local.head());
    assert!(world.now < alone.now * 2 + Duration::from_secs(12), "{:?}, alone {:?}", world.now, alone.now);
    // The requests to the silent ones become overdue.
    world.run(B256::ZERO, 6);
    let blamed: BTreeSet<_> = world.faults.iter().map(|(peer, _)| *peer).collect();
    assert_eq!(blamed, BTreeSet::from([node(6), node(7), node(8)]));
}

#[test]
fn a_branch_is_left_for_a_better_one_at_its_newest_common_block() {
    for fork in [1, 50, 299, 300] {
        let own = Chain::new(300, fork, 1);
        let theirs = Chain::new(700, fork, 2);
        let mut world = World::new(&own, &[(PeerBehaviour::Honest, theirs.clone())]);
        assert!(world.run(theirs.head().hash(), 60), "fork at {fork}: {:?}", world.local.head());
        assert!(world.faults.is_empty(), "{:?}", world.faults);
    }
}

#[test]
fn a_source_that_leaves_is_replaced() {
    let (own, theirs) = (Chain::new(0, 1, 0), Chain::new(5_000, 1, 0));
    let mut world =
        World::new(&own, &[(PeerBehaviour::Honest, theirs.clone()), (PeerBehaviour::Leaves(900), theirs.clone())]);
    assert!(world.run(theirs.head().hash(), 300), "at {:?}", world.local.head());
    assert!(world.faults.is_empty(), "{:?}", world.faults);
}

#[test]
fn headers_whose_bodies_are_nowhere_cost_their_source() {
    let (own, theirs) = (Chain::new(0, 1, 0), Chain::new(1_000, 1, 0));
    let invented = Chain::new(2_000, 1, 9);
    let peers = [(PeerBehaviour::Honest, theirs.clone()), (PeerBehaviour::Bodiless, invented)];
    let mut world = World::new(&own, &peers);
    assert!(world.run(theirs.head().hash(), 120), "at {:?} {:?}", world.local.head(), world.faults);
    assert!(world.faults.contains(&(node(2), Fault::EmptyAnswer)), "{:?}", world.faults);
    assert!(world.faults.iter().all(|(peer, _)| *peer == node(2)), "{:?}", world.faults);
}

#[test]
fn a_wrong_block_costs_its_source_and_is_remembered() {
    let (own, theirs) = (Chain::new(0, 1, 0), Chain::new(400, 1, 0));
    let bad = Chain::new(800, 200, 3);
    let peers = [
        (PeerBehaviour::Honest, theirs.clone()),
        (PeerBehaviour::Honest, bad.clone()),
        (PeerBehaviour::Honest, bad.clone()),
    ];
    let mut world = World::new(&own, &peers);
    world.wrong = bad.at(210).map(Block::hash);
    // The blocks below the wrong one are taken. After this failure the honest peer is the source, then the other one again.
    world.run(theirs.head().hash(), 60);
    world.run(B256::ZERO, 10);
    assert_eq!(world.local.canonical_hash(400), theirs.at(400).map(Block::hash));
    let blamed: BTreeSet<_> = world.faults.iter().copied().map(|(peer, _)| peer).collect();
    assert_eq!(blamed, BTreeSet::from([node(2), node(3)]), "{:?}", world.faults);
    assert!(world.faults.iter().all(|(_, fault)| *fault == Fault::InvalidBlock), "{:?}", world.faults);
    assert_eq!(world.wrong_imports, 1, "the other peer with this block was recognised by its headers");
}

/// The block is not among the headers that the source sends first, but in a part of its chain that is filled in later.
#[test]
fn a_known_wrong_block_is_not_imported_again_from_another_peer() {
    let (own, theirs, bad) = (Chain::new(0, 1, 0), Chain::new(450, 1, 0), Chain::new(800, 200, 3));
    let peers = [&theirs, &bad, &bad].map(|chain| (PeerBehaviour::Honest, chain.clone()));
    let mut world = World::new(&own, &peers);
    world.wrong = bad.at(205).map(Block::hash);
    world.sync.left(node(3));
    world.run(theirs.head().hash(), 60);
    assert_eq!((world.local.head().hash, world.wrong_imports), (theirs.head().hash(), 1));

    world.sync.joined(node(3), bad.head().hash(), U256::from(801));
    world.run(B256::ZERO, 20);

    assert_eq!(world.wrong_imports, 1);
    assert!(world.faults.contains(&(node(3), Fault::InvalidBlock)), "{:?}", world.faults);
}

#[test]
fn claims_without_blocks_and_chains_below_the_commit_lead_to_a_fault() {
    let own = Chain::new(100, 1, 0);
    let mut world = World::new(&own, &[(PeerBehaviour::Honest, own.clone())]);
    world.sync.left(node(1));
    world.sync.joined(node(1), own.head().hash(), U256::MAX);
    world.run(B256::ZERO, 20);
    assert_eq!(world.faults, [(node(1), Fault::WrongAnswer)]);
}

#[test]
fn a_head_without_a_header_is_a_fault() {
    let own = Chain::new(100, 1, 0);
    let mut world = World::new(&own, &[(PeerBehaviour::Honest, own.clone())]);
    world.sync.left(node(1));
    world.sync.joined(node(1), B256::repeat_byte(9), U256::from(1));
    world.run(B256::ZERO, 20);
    assert_eq!(world.faults, [(node(1), Fault::EmptyAnswer)]);
}

#[test]
fn a_block_that_a_peer_sends_is_relayed_to_the_others_and_taken() {
    let (own, theirs) = (Chain::new(10, 1, 0), Chain::new(12, 1, 0));
    let mut world =
        World::new(&own, &[(PeerBehaviour::Honest, theirs.clone()), (PeerBehaviour::Honest, theirs.clone())]);
    for peer in [node(1), node(2)] {
        world.sync.left(peer);
        world.sync.joined(peer, own.head().hash(), U256::from(11));
    }
    let block = |number| Arc::new(theirs.at(number).cloned().expect("in the chain"));
    let (local, now) = (&world.local, world.now);
    // The second block comes first: it waits for its parent.
    world.sync.new_block(node(1), block(12), U256::from(13), local, now);
    world.sync.new_block(node(1), block(11), U256::from(12), local, now);
    world.sync.new_block(node(2), block(11), U256::from(12), local, now);
    assert!(world.run(theirs.head().hash(), 5));
    assert_eq!(world.relayed, [(theirs.head().hash(), vec![node(2)])]);
    assert!(world.faults.is_empty());
}

/// A node passes a block on after it has verified the header: only a wrong header is the fault of a sender.
#[test]
fn a_wrong_block_with_a_right_header_is_no_fault_of_those_that_pass_it_on() {
    for is_header_right in [true, false] {
        let (own, theirs) = (Chain::new(10, 1, 0), Chain::new(11, 1, 0));
        let mut world = World::new(&own, &[(PeerBehaviour::Honest, own.clone()), (PeerBehaviour::Honest, own.clone())]);
        let block = Arc::new(theirs.head().clone());
        let (hash, local, now) = (block.hash(), &world.local, world.now);
        world.sync.new_block(node(1), Arc::clone(&block), U256::from(12), local, now);
        world.sync.advance(local, now, 0);
        let wrong = BlockVerdict::Wrong { reason: "state root".to_owned() };
        let of_header = if is_header_right { BlockVerdict::Head } else { wrong.clone() };
        world.sync.header_verified(hash, &of_header, local);
        world.sync.inserted(hash, &wrong, 0);
        world.sync.new_block(node(2), block, U256::from(12), local, now);
        world.sync.advance(local, now, 0);
        let actions: Vec<Action> = std::iter::from_fn(|| world.sync.next_action()).collect();
        let is_fault = |action: &&Action| matches!(action, Action::Fault { peer, .. } if *peer == node(1));
        let faults = actions.iter().filter(|action| matches!(action, Action::Fault { .. })).count();
        assert_eq!(faults, usize::from(!is_header_right), "{actions:?}");
        assert_eq!(actions.iter().filter(is_fault).count(), faults);
        assert_eq!(actions.iter().filter(|action| matches!(action, Action::VerifyAndInsert(_))).count(), 1);
    }
}

#[test]
fn an_announced_block_is_asked_for_after_a_while() {
    let (own, theirs) = (Chain::new(10, 1, 0), Chain::new(11, 1, 0));
    let mut world = World::new(&own, &[(PeerBehaviour::Honest, theirs.clone())]);
    world.sync.left(node(1));
    world.sync.joined(node(1), own.head().hash(), U256::from(11));
    let (hash, number) = (theirs.head().hash(), 11);
    let (local, now) = (&world.local, world.now);
    world.sync.announced(node(1), &[Announced { hash, number }], local, now);
    assert!(world.run(hash, 5));
    assert!(world.now >= Duration::from_millis(400), "{:?}", world.now);

    let mut world = World::new(&own, &[(PeerBehaviour::Honest, theirs.clone())]);
    world.sync.left(node(1));
    world.sync.joined(node(1), own.head().hash(), U256::from(11));
    let (local, now) = (&world.local, world.now);
    world.sync.announced(node(1), &[Announced { hash, number: 12 }], local, now);
    world.run(hash, 3);
    assert_eq!(world.faults, [(node(1), Fault::WrongAnswer)]);
}

/// A connection that stalls delivers the answer to an old request while a new one is open.
#[test]
fn a_late_answer_is_not_taken_for_a_wrong_one() {
    let (own, theirs) = (Chain::new(10, 1, 0), Chain::new(11, 1, 0));
    let mut world = World::new(&own, &[(PeerBehaviour::Slow(16_000), theirs.clone())]);
    world.sync.left(node(1));
    world.sync.joined(node(1), own.head().hash(), U256::from(11));
    world.run(B256::ZERO, 15);

    let (hash, local, now) = (theirs.head().hash(), &world.local, world.now);
    world.sync.announced(node(1), &[Announced { hash, number: 11 }], local, now);
    world.run(B256::ZERO, 30);

    assert_eq!(world.faults, [(node(1), Fault::NoAnswer)], "the header of its head did not come in time");
}

/// A wrong answer is a fault even if the peer still owes another answer.
#[test]
fn a_wrong_answer_is_not_taken_for_a_late_one() {
    let (own, theirs) = (Chain::new(10, 1, 0), Chain::new(1_000, 1, 0));
    let mut world = World::new(&own, &[(PeerBehaviour::Slow(3_600_000), theirs.clone())]);
    world.run(B256::ZERO, 12);
    assert_eq!(world.faults, [(node(1), Fault::NoAnswer)]);

    world.peers.insert(node(1), (PeerBehaviour::Liar, theirs));
    world.run(B256::ZERO, 30);

    assert_eq!(world.faults.get(1), Some(&(node(1), Fault::WrongAnswer)), "{:?}", world.faults);
}

/// A late answer to the first request counts as the answer to its repetition. The answer to the repetition arrives
/// afterwards.
#[test]
fn two_answers_to_a_question_that_was_repeated_are_both_right() {
    let (own, theirs) = (Chain::new(10, 1, 0), Chain::new(2_000, 1, 0));
    let mut world = World::new(&own, &[(PeerBehaviour::Slow(17_000), theirs.clone())]);
    world.run(B256::ZERO, 200);

    assert!(world.faults.iter().all(|(_, fault)| *fault == Fault::NoAnswer), "{:?}", world.faults);
}

#[test]
fn late_bodies_are_not_taken_for_wrong_ones() {
    let (own, theirs) = (Chain::new(0, 1, 0), Chain::new(200, 1, 0));
    let peers =
        [PeerBehaviour::Slow(3_000), PeerBehaviour::SlowBodies(16_000)].map(|behaviour| (behaviour, theirs.clone()));
    let mut world = World::new(&own, &peers);

    assert!(world.run(theirs.head().hash(), 600), "at {:?} {:?}", world.local.head(), world.faults);

    assert!(world.faults.contains(&(node(2), Fault::NoAnswer)), "{:?}", world.faults);
    assert!(world.faults.iter().all(|(_, fault)| *fault == Fault::NoAnswer), "{:?}", world.faults);
}

#[test]
fn the_database_is_not_read_for_announcements_beyond_the_limit_of_a_peer() {
    let own = Chain::new(10, 1, 0);
    let mut world = World::new(&own, &[(PeerBehaviour::Silent, own.clone())]);
    let hash = |number: u16| B256::left_padding_from(&number.to_be_bytes());
    let blocks: Vec<Announced> = (1..=10_000).map(|number| Announced { hash: hash(number), number: 11 }).collect();

    world.sync.announced(node(1), &blocks, &world.local, world.now);

    assert_eq!(world.local.look_ups.get(), 256);
}

/// A block that was dropped on its way is not sent a second time, and the network may wait for this node's vote.
#[test]
fn the_block_of_a_vote_is_requested_with_its_parents() {
    let (own, theirs) = (Chain::new(10, 1, 0), Chain::new(13, 1, 0));
    let mut world =
        World::new(&own, &[(PeerBehaviour::Honest, theirs.clone()), (PeerBehaviour::Honest, theirs.clone())]);
    for peer in [node(1), node(2)] {
        world.sync.left(peer);
        world.sync.joined(peer, own.head().hash(), U256::from(11));
    }
    let (hash, local, now) = (theirs.head().hash(), &world.local, world.now);
    // A wrong height counts against the peer that stated it, even if another peer has the block, too.
    world.sync.block_mentioned(node(2), Announced { hash, number: 12 }, local, now);
    world.sync.block_mentioned(node(1), Announced { hash, number: 13 }, local, now);
    let far = Announced { hash: B256::repeat_byte(3), number: 1_000 };
    world.sync.block_mentioned(node(1), far, local, now);
    assert!(world.run(hash, 10), "at {:?}", world.local.head());
    assert!(
        world.faults.iter().all(|(peer, fault)| (*peer, *fault) == (node(2), Fault::WrongAnswer)),
        "{:?}",
        world.faults
    );
}

fn behaviour() -> impl Strategy<Value = PeerBehaviour> {
    prop_oneof![
        Just(PeerBehaviour::Honest),
        Just(PeerBehaviour::Silent),
        (0_u64..9_000).prop_map(PeerBehaviour::Slow),
        Just(PeerBehaviour::Liar),
        Just(PeerBehaviour::Bodiless),
        (0_u64..5_000).prop_map(PeerBehaviour::Leaves),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn one_honest_peer_among_any_others_is_enough(
        others in proptest::collection::vec((behaviour(), 0_u64..1_500, 1_u64..1_500, 0_u8..3), 0..5),
        own in 0_u64..800,
        fork in 1_u64..800,
    ) {
        let theirs = Chain::new(1_500, 2_000, 0);
        let mut peers = vec![(PeerBehaviour::Honest, theirs.clone())];
        // The others are behind, or claim another branch of the same length.
        peers.extend(others.into_iter().map(|(behaviour, length, fork, salt)| (behaviour, Chain::new(length, fork, salt))));
        let mut world = World::new(&Chain::new(own, fork, 7), &peers);
        prop_assert!(world.run(theirs.head().hash(), 900), "at {:?} after {:?} {:?}", world.local.head(), world.now, world.faults);
        prop_assert!(world.faults.iter().all(|(peer, _)| *peer != node(1)), "{:?}", world.faults);
    }
}
