//! Peers that claim a higher chain than there is. The votes of a node near the head do not depend on claims, and the blocks
//! of other peers still arrive.

use super::*;

/// Height of the node's head at the start, and number of blocks that the network makes afterwards.
const HEIGHT: u64 = 100;
const NEW_BLOCKS: u64 = 300;
/// Distance of a forged head from the real one.
const FORGED_LEAD: u64 = 150;
const CLAIM: U256 = U256::from_limbs([0, 0, 0, 1]);

fn forged_header(number: u64, parent_hash: B256) -> SealedHeader {
    // A body is missing, and no peer has it.
    tenon_chain::seal(Header { number, parent_hash, ommers_hash: B256::repeat_byte(3), ..Header::default() })
}

impl World {
    /// Answers as a [`PeerBehaviour::Forger`] or [`PeerBehaviour::Echo`].
    pub(super) fn answer_with_forgeries(&mut self, peer: NodeId, behaviour: PeerBehaviour, request: &SyncRequest) {
        let SyncRequest::Headers(request) = request else { return };
        let headers = match request.origin {
            HeaderOrigin::Hash(hash) => {
                self.forged.values().filter(|header| header.hash() == hash).take(1).cloned().collect()
            }
            HeaderOrigin::Number(first) => {
                let real = self.own_headers(first, request);
                let is_forged = real.is_empty() && behaviour == PeerBehaviour::Forger;
                if is_forged { vec![self.forge(first)] } else { real }
            }
        };
        let wait = if behaviour == PeerBehaviour::Forger { 4_500 } else { 50 };
        self.later(wait, Arrival::Headers(peer, headers));
    }

    fn own_headers(&self, first: u64, request: &HeaderRequest) -> Vec<SealedHeader> {
        let numbers = (0..request.amount).map(|index| first + index * (request.skip + 1));
        let own = numbers.map_while(|number| self.local.canonical.get(usize::try_from(number).ok()?));
        own.cloned().collect()
    }

    /// Makes the header of a height, above the node's head or above another forged one.
    fn forge(&mut self, number: u64) -> SealedHeader {
        let below = number.saturating_sub(1);
        let parent = self.local.canonical_hash(below).or_else(|| self.forged.get(&below).map(SealedHeader::hash));
        let header = forged_header(number, parent.unwrap_or_default());
        self.forged.insert(number, header.clone());
        header
    }

    /// Replaces the claims of all peers of these behaviours: each has a forged head, with an immense total difficulty.
    fn claim_more(&mut self) {
        let goal = self.local.head().number + FORGED_LEAD;
        let head = forged_header(goal, B256::repeat_byte(4));
        self.forged.insert(goal, head.clone());
        let is_liar =
            |behaviour| matches!(behaviour, PeerBehaviour::Mute | PeerBehaviour::Forger | PeerBehaviour::Echo);
        let liars = self.peers.iter().filter(|(_, (behaviour, _))| is_liar(*behaviour)).map(|(id, _)| *id);
        for liar in liars.collect::<Vec<_>>() {
            self.sync.left(liar);
            self.sync.joined(liar, head.hash(), CLAIM);
        }
    }

    /// Whether the node's head is at most a minute old.
    fn has_recent_head(&self) -> bool {
        self.unix_now() <= self.local.head().timestamp + 60
    }

    /// Runs for a time, and checks a statement at each step. Returns whether the head was `goal` in the end.
    fn run_checked(&mut self, goal: B256, length: Duration, check: impl Fn(&Self)) -> bool {
        let until = self.now + length;
        while self.now < until && self.local.head().hash != goal && self.step_until(until) {
            check(self);
        }
        self.local.head().hash == goal
    }
}

/// A node at [`HEIGHT`] with an honest peer and with liars, at the time of its head's block.
fn world_near_the_head(liars: &[PeerBehaviour]) -> (World, Chain) {
    let network = Chain::new(HEIGHT + NEW_BLOCKS, 1_000, 0);
    let own = Chain(Arc::new(network.0[..=HEIGHT as usize].to_vec()));
    let peers = liars.iter().map(|behaviour| (*behaviour, own.clone()));
    let honest = (PeerBehaviour::Honest, network.clone());
    let mut world = World::new(&own, &std::iter::once(honest).chain(peers).collect::<Vec<_>>());
    world.sync.left(node(1));
    world.sync.joined(node(1), own.head().hash(), U256::from(HEIGHT + 1));
    world.unix = HEIGHT * BLOCK_SECONDS;
    world.claim_more();
    (world, network)
}

/// The honest peer sends each new block when it is made. Checks that the node takes it at once and never counts as behind.
fn follow_the_network(world: &mut World, network: &Chain) {
    for number in HEIGHT + 1..=HEIGHT + NEW_BLOCKS {
        let block = Arc::new(network.at(number).cloned().expect("in the chain"));
        world.later((number - HEIGHT) * BLOCK_SECONDS * 1_000, Arrival::Block(node(1), block));
    }

    let length = Duration::from_secs(NEW_BLOCKS * BLOCK_SECONDS + 1);
    let has_followed = world.run_checked(network.head().hash(), length, |world| {
        assert!(!world.sync.is_behind(), "at {:?}", world.now);
        let made = (world.now.as_secs() / BLOCK_SECONDS).saturating_sub(1);
        assert!(world.local.head().number >= HEIGHT + made, "{:?} at {:?}", world.local.head(), world.now);
    });

    assert!(has_followed && world.sync.is_synced(), "{:?}", world.local.head());
}

/// Number of cycles that began with a peer: its head was requested once more when it connected.
fn cycles_of(world: &World, peer: NodeId) -> usize {
    world.head_requests.iter().filter(|(asked, _)| *asked == peer).count() - 1
}

#[test]
fn slow_forgeries_never_make_a_node_near_the_head_count_as_behind() {
    for liars in [1_u8, 3] {
        let (mut world, network) = world_near_the_head(&vec![PeerBehaviour::Forger; liars.into()]);

        follow_the_network(&mut world, &network);

        for liar in 2..liars + 2 {
            assert!((2..=5).contains(&cycles_of(&world, node(liar))), "{:?}", world.head_requests);
        }
        assert!(world.faults.iter().all(|(peer, _)| *peer != node(1)), "{:?}", world.faults);
    }
}

#[test]
fn silent_liars_never_make_a_node_near_the_head_count_as_behind_and_are_tried_ever_less() {
    let (mut world, network) = world_near_the_head(&[PeerBehaviour::Mute; 6]);

    follow_the_network(&mut world, &network);

    for liar in 2..8 {
        assert!((2..=5).contains(&cycles_of(&world, node(liar))), "{:?}", world.head_requests);
    }
    assert!(world.faults.iter().all(|(_, fault)| *fault == Fault::NoAnswer), "{:?}", world.faults);
}

#[test]
fn a_node_far_behind_syncs_in_spite_of_liars_and_counts_as_behind_until_its_head_is_recent() {
    let (own, network) = (Chain::new(HEIGHT, 10_000, 0), Chain::new(4_000, 10_000, 0));
    let mut peers = vec![(PeerBehaviour::Honest, network.clone()), (PeerBehaviour::Forger, own.clone())];
    peers.extend(std::iter::repeat_n((PeerBehaviour::Mute, own.clone()), 6));
    let mut world = World::new(&own, &peers);
    world.unix = 4_000 * BLOCK_SECONDS;
    world.claim_more();

    let is_synced = world.run_checked(network.head().hash(), Duration::from_secs(115), |world| {
        let is_conservative = !world.sync.is_running() || world.sync.is_behind() || world.has_recent_head();
        assert!(is_conservative, "at {:?}", world.now);
    });

    assert!(is_synced, "at {:?} after {:?}, {:?}", world.local.head(), world.now, world.faults);
    world.step();
    assert!(!world.sync.is_behind());
    assert!(world.faults.iter().all(|(peer, _)| *peer != node(1)), "{:?}", world.faults);
}

/// As after an outage of the whole network: liars delay its first block only once.
#[test]
fn claims_without_evidence_count_for_two_minutes_even_if_the_head_is_old() {
    let own = Chain::new(HEIGHT, 1_000, 0);
    let mut world = World::new(&own, &[PeerBehaviour::Forger; 6].map(|behaviour| (behaviour, own.clone())));
    world.unix = 1_000_000;
    world.claim_more();
    let was_behind = std::cell::Cell::new(Duration::ZERO);
    let before = std::cell::Cell::new(Duration::ZERO);

    world.run_checked(B256::ZERO, Duration::from_secs(1_800), |world| {
        let passed = world.now - before.replace(world.now);
        if world.sync.is_behind() {
            was_behind.set(was_behind.get() + passed);
        }
    });

    assert!((100..=140).contains(&was_behind.get().as_secs()), "{was_behind:?}");
}

#[test]
fn a_source_that_sends_only_headers_of_this_node_is_excluded() {
    let (mut world, _) = world_near_the_head(&[PeerBehaviour::Echo]);
    let length = Duration::from_secs(29);
    assert!(!world.run_checked(B256::ZERO, length, |world| assert!(!world.sync.is_behind())));
    assert_eq!(cycles_of(&world, node(2)), 1);
    assert_eq!(world.faults, [(node(2), Fault::EmptyAnswer)]);

    world.run_checked(B256::ZERO, Duration::from_secs(3), |_| {});
    assert_eq!(cycles_of(&world, node(2)), 2);
}

/// Here the answers come late enough that the network has made the claimed number of blocks meanwhile.
#[test]
fn a_source_whose_blocks_have_all_arrived_in_another_way_is_excluded_if_it_claims_more() {
    let (mut world, network) = world_near_the_head(&[PeerBehaviour::Forger]);
    let goal = HEIGHT + 10;
    let head = forged_header(goal, B256::repeat_byte(4));
    world.forged = BTreeMap::from([(goal, head.clone())]);
    world.sync.left(node(2));
    world.sync.joined(node(2), head.hash(), CLAIM);

    follow_the_network(&mut world, &network);

    assert!(cycles_of(&world, node(2)) <= 6, "{:?}", world.head_requests);
}

/// Each liar leaves as soon as it has been a source, and another one connects.
#[test]
fn liars_with_ever_new_identities_do_not_keep_a_node_from_syncing() {
    let (own, network) = (Chain::new(HEIGHT, 10_000, 0), Chain::new(4_000, 10_000, 0));
    let peers = [(PeerBehaviour::Honest, network.clone()), (PeerBehaviour::Mute, own.clone())];
    let mut world = World::new(&own, &peers);
    world.unix = 4_000 * BLOCK_SECONDS;
    world.claim_more();

    for number in 3..=30 {
        let is_synced = world.run_checked(network.head().hash(), Duration::from_secs(6), |_| {});
        if is_synced {
            break;
        }
        let (before, liar) = (node(number - 1), node(number));
        world.peers.remove(&before);
        world.sync.left(before);
        world.peers.insert(liar, (PeerBehaviour::Mute, own.clone()));
        world.sync.joined(liar, B256::repeat_byte(number), CLAIM);
    }

    assert_eq!(world.local.head().hash, network.head().hash(), "after {:?}", world.now);
    assert!(world.now < Duration::from_secs(60), "{:?}", world.now);
}
