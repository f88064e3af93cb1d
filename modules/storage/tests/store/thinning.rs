//! Thinned tries: proofs of every height, checkpoints, and going back below the window.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use alloy_primitives::{Address, B256};
use tempfile::TempDir;
use tenon_api::{Allowance, BlockCommit, BlockId, BlockNumber, ChainReader, StoreError, Unlimited, messages::GetProof};
use tenon_bus::{BusError, CallContext, PoolBusy};
use tenon_chain::{TrieError, prove};
use tenon_storage::{Mode, Store, StoreOptions};

use crate::{
    crash::{CHAIN_LENGTH, CHILD_FOLDER, CHILD_GOES_TO, CHILD_IS_AT, chain, killed_child},
    handlers::{LIMITS, ask, bus_within},
    history::reachable,
    reorganise::Branches,
    support::{
        CHAIN_ID, Maker, Random, Writes as _, address, assert_state, assert_whole, change, dump, fill, open, options,
        overwrite, remove_nodes, word,
    },
};

const WINDOW: u64 = 6;
const EVERY: u64 = 16;

/// A store with a small window, close checkpoints, and no cache that could contain old nodes.
fn thinning(path: &Path, mode: Mode) -> Arc<Store> {
    thinning_with_cache(path, mode, 0)
}

fn thinning_with_cache(path: &Path, mode: Mode, trie_cache_bytes: usize) -> Arc<Store> {
    let options = StoreOptions { trie_window: WINDOW, trie_checkpoint_every: EVERY, trie_cache_bytes, ..options(mode) };
    Store::open(path, options).unwrap()
}

/// Accounts and slots of which proofs are compared: present and absent ones.
fn asked() -> Vec<(Address, Vec<B256>)> {
    (0..13).map(|index| (address(index), (0..4).map(|slot| word(slot * 3)).collect())).collect()
}

/// Compares proofs of a height with those of a store that keeps every trie.
fn assert_proofs(store: &Store, full: &Store, commit: &BlockCommit) {
    let header = &commit.block.header;
    let nodes = store.trie_of(header, Arc::new(Unlimited)).unwrap();
    for (address, slots) in asked() {
        let wanted = prove(&*full.trie(), header.state_root, address, &slots).unwrap();
        let found = prove(&*nodes, header.state_root, address, &slots);
        assert_eq!(found.as_ref(), Ok(&wanted), "proof of {address} at block {}", header.number);
    }
}

fn random_chain(random: &mut Random, length: u64) -> Maker {
    let mut maker = Maker::new();
    for number in 0..length {
        if number % 5 == 4 {
            // A recurring state: its nodes are superseded and created again and again.
            maker.add(vec![change(1, number % 2, &[(1, 1 + number % 2)])], &[]);
        } else {
            maker.add_random(random);
        }
    }
    maker
}

/// A thinning archive of these blocks, and its folder.
fn filled(commits: &[BlockCommit]) -> (TempDir, Arc<Store>) {
    let folder = tempfile::tempdir().unwrap();
    let store = thinning(folder.path(), Mode::Archive);
    fill(&store, commits);
    (folder, store)
}

/// A thinning archive of a random chain.
fn archive_of(length: u64) -> (Maker, TempDir, Arc<Store>) {
    let maker = random_chain(&mut Random::new(), length);
    let (folder, store) = filled(&maker.commits);
    (maker, folder, store)
}

#[test]
fn proofs_of_every_height_are_those_of_whole_tries() {
    let mut random = Random::new();
    let maker = random_chain(&mut random, 90);
    let folder = tempfile::tempdir().unwrap();
    let store = thinning(folder.path(), Mode::Archive);
    store.initialise(&maker.commits[0], CHAIN_ID).unwrap();

    for (number, commit) in (1_u64..).zip(&maker.commits[1..]) {
        store.commit(commit).unwrap();
        let any = random.below(number + 1);
        assert_proofs(&store, &maker.store, &maker.commits[any as usize]);
    }

    assert_eq!(store.statistics().unwrap().oldest_trie, BlockNumber(90 - WINDOW));
    maker.commits.iter().for_each(|commit| assert_proofs(&store, &maker.store, commit));
    (0..=90).for_each(|number| assert_state(&store, number, &maker.states));
    assert_whole(&store);
}

#[test]
fn the_tries_of_checkpoints_stay_and_those_of_other_old_blocks_go() {
    let mut random = Random::new();
    let mut maker = Maker::new();
    for _ in 0..80 {
        // No state recurs, so that exactly the checkpoints' nodes are kept.
        let fresh = random.next();
        maker.add(vec![change(random.below(40), fresh, &[(random.below(5), fresh)])], &[]);
    }
    let (folder, store) = filled(&maker.commits);

    let is_stored = |number: usize| {
        let root = maker.commits[number].block.header.state_root;
        prove(&*store.trie(), root, address(1), &[word(1)]).is_ok()
    };
    let stored: BTreeSet<usize> = (0..=80).filter(|number| is_stored(*number)).collect();
    let wanted: BTreeSet<usize> = [0, 16, 32, 48, 64].into_iter().chain(74..=80).collect();

    assert_eq!(stored, wanted);
    drop(store);
    let records = dump(folder.path());
    let mut needed = BTreeSet::new();
    for number in wanted {
        reachable(&maker, maker.commits[number].block.header.state_root, &mut needed);
    }
    let kept: BTreeSet<Vec<u8>> = records["trie"].keys().chain(records["trie_checkpoints"].keys()).cloned().collect();
    assert!(kept == needed, "{} nodes are kept, {} are needed", kept.len(), needed.len());
}

#[test]
fn checkpoints_get_the_same_nodes_from_the_cache_and_from_the_database() {
    let maker = random_chain(&mut Random::new(), 90);
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for (index, folder) in folders.iter().enumerate() {
        let open = || thinning_with_cache(folder.path(), Mode::Archive, index.min(1) << 20);
        let mut store = open();
        store.initialise(&maker.commits[0], CHAIN_ID).unwrap();
        for (number, commit) in (1_u64..).zip(&maker.commits[1..]) {
            // The heights of nodes are unknown after the start, until the next checkpoint.
            if index == 2 && number % 9 == 0 {
                drop(store);
                store = open();
            }
            store.commit(commit).unwrap();
        }
    }
    let kept = |index: usize, column: &str| dump(folders[index].path()).remove(column).unwrap();

    for column in ["trie", "trie_checkpoints"] {
        let records = kept(0, column);
        assert!(!records.is_empty());
        assert!(kept(1, column) == records && kept(2, column) == records, "{column}");
    }
}

#[test]
fn the_window_is_short_while_the_head_is_old() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    for (began, oldest_trie) in [(now - 3_600, 0), (now - 90_000, 14)] {
        let mut maker = Maker::new();
        maker.began = began;
        for fresh in 0..20 {
            maker.add(vec![change(1, fresh, &[])], &[]);
        }
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions { old_trie_window: WINDOW, ..options(Mode::Archive) };
        let store = Store::open(folder.path(), options).unwrap();

        fill(&store, &maker.commits);

        assert_eq!(store.statistics().unwrap().oldest_trie, BlockNumber(oldest_trie));
    }
}

#[test]
fn the_chain_goes_back_far_below_the_window_and_on_from_there() {
    let maker = random_chain(&mut Random::new(), 90);
    for target in [0, 1, 15, 16, 17, 31, 40, 63, 70, 83] {
        let (_folder, store) = filled(&maker.commits);

        store.unwind(BlockNumber(target)).unwrap();

        assert_whole(&store);
        for commit in &maker.commits[..=target as usize] {
            assert_proofs(&store, &maker.store, commit);
        }
        maker.commits[target as usize + 1..].iter().for_each(|commit| store.commit(commit).unwrap());
        maker.commits.iter().for_each(|commit| assert_proofs(&store, &maker.store, commit));
        assert_whole(&store);
    }
}

#[test]
fn many_ways_back_and_forth_leave_every_trie_exact() {
    let mut random = Random::new();
    let mut maker = random_chain(&mut random, 20);
    let (folder, mut store) = filled(&maker.commits);
    for round in 1..=12 {
        let head = maker.commits.len() as u64 - 1;
        let target = head - random.below(head.min(40) + 1);
        maker.mark = round;
        maker.unwind(target);
        store.unwind(BlockNumber(target)).unwrap();
        for _ in 0..random.below(40) {
            maker.add_random(&mut random);
        }
        commit_in_groups(&store, &maker.commits[target as usize + 1..], &mut random);
        if random.chance(50) {
            drop(store);
            store = match random.chance(50) {
                true => thinning(folder.path(), Mode::Archive),
                false => grouping(folder.path(), 0),
            };
        }
        maker.commits.iter().for_each(|commit| assert_proofs(&store, &maker.store, commit));
        assert_whole(&store);
    }
}

#[test]
fn a_branch_from_below_the_window_takes_the_place_of_the_chain() {
    let mut random = Random::new();
    let branches = Branches::random(&mut random, 20, 40);
    let (folder, store) = filled(&branches.commits[0]);
    let full_folder = tempfile::tempdir().unwrap();
    let whole = StoreOptions { trie_window: 1_000, ..options(Mode::Archive) };
    let full = Store::open(full_folder.path(), whole).unwrap();
    fill(&full, &branches.commits[1]);
    // The block below the branch.
    let fork = &branches.commits[1][20];
    assert_proofs(&store, &full, fork);

    store.reorganise(BlockNumber(20), &branches.above(1, 40)).unwrap();

    assert_whole(&store);
    branches.commits[1].iter().for_each(|commit| assert_proofs(&store, &full, commit));
    drop(store);
    let store = thinning(folder.path(), Mode::Archive);
    store.thin(&mut |_, _| {}, &|| false).unwrap();
    branches.commits[1].iter().for_each(|commit| assert_proofs(&store, &full, commit));
    assert_whole(&store);
}

/// Removes a closed folder's record that its checkpoints cannot lack nodes, as if it had been of format 1.
fn forget_exactness(path: &Path) {
    overwrite(path, "meta", b"exact_checkpoints", None);
}

/// The stored nodes that a state needs and no state of the window does: those that a folder of format 1 may lack.
fn nodes_of_old_state(maker: &Maker, number: usize) -> BTreeSet<Vec<u8>> {
    let (mut needed, mut newer) = (BTreeSet::new(), BTreeSet::new());
    reachable(maker, maker.commits[number].block.header.state_root, &mut needed);
    for commit in &maker.commits[maker.commits.len() - 1 - WINDOW as usize..] {
        reachable(maker, commit.block.header.state_root, &mut newer);
    }
    needed.difference(&newer).cloned().collect()
}

/// Every node of a state's tries is stored in a closed folder.
fn assert_complete(path: &Path, maker: &Maker, number: usize) {
    let (records, mut needed) = (dump(path), BTreeSet::new());
    reachable(maker, maker.commits[number].block.header.state_root, &mut needed);
    let is_stored =
        |key: &Vec<u8>| ["trie", "trie_checkpoints"].iter().any(|column| records[*column].contains_key(key));
    let missing = needed.iter().filter(|key| !is_stored(key)).count();
    assert_eq!(missing, 0, "of {} nodes of block {number}", needed.len());
}

#[test]
fn the_chain_goes_back_although_the_checkpoint_lacks_nodes() {
    let mut random = Random::new();
    let maker = random_chain(&mut random, 90);
    for target in [32, 33, 40, 47] {
        let (folder, store) = filled(&maker.commits);
        drop(store);
        forget_exactness(folder.path());
        let lost: Vec<_> = nodes_of_old_state(&maker, 32).into_iter().filter(|_| random.chance(40)).collect();
        assert!(!lost.is_empty());
        remove_nodes(folder.path(), &lost);

        let store = thinning(folder.path(), Mode::Archive);
        store.unwind(BlockNumber(target)).unwrap();

        assert_proofs(&store, &maker.store, &maker.commits[target as usize]);
        drop(store);
        assert_complete(folder.path(), &maker, target as usize);
        let store = thinning(folder.path(), Mode::Archive);
        maker.commits[target as usize + 1..].iter().for_each(|commit| store.commit(commit).unwrap());
        drop(store);
        assert_complete(folder.path(), &maker, 90);
    }
}

#[test]
fn a_branch_begins_at_a_state_whose_checkpoint_lacks_nodes() {
    let mut random = Random::new();
    let branches = Branches::random(&mut random, 20, 40);
    let (folder, store) = filled(&branches.commits[0]);
    drop(store);
    forget_exactness(folder.path());
    let head: BTreeSet<Vec<u8>> = dump(folder.path())["trie"].keys().cloned().collect();
    let kept = dump(folder.path());
    remove_nodes(folder.path(), kept["trie_checkpoints"].keys().filter(|key| !head.contains(*key)));

    let store = thinning(folder.path(), Mode::Archive);
    store.reorganise(BlockNumber(20), &branches.above(1, 40)).unwrap();

    let full_folder = tempfile::tempdir().unwrap();
    let whole = StoreOptions { trie_window: 1_000, ..options(Mode::Archive) };
    let full = Store::open(full_folder.path(), whole).unwrap();
    fill(&full, &branches.commits[1]);
    branches.commits[1][20..].iter().for_each(|commit| assert_proofs(&store, &full, commit));
}

#[test]
fn a_folder_with_exact_checkpoints_goes_back_too_when_a_node_on_its_way_is_lost() {
    let (maker, folder, store) = archive_of(90);
    drop(store);
    // Every change reads the root.
    let root = maker.commits[32].block.header.state_root;
    let key = [&[0; 32][..], root.as_slice()].concat();
    remove_nodes(folder.path(), [&key]);

    let store = thinning(folder.path(), Mode::Archive);
    store.unwind(BlockNumber(40)).unwrap();

    drop(store);
    assert_complete(folder.path(), &maker, 40);
}

#[test]
fn proofs_of_old_blocks_are_computed_from_another_checkpoint_if_the_nearest_lacks_nodes() {
    let (maker, folder, store) = archive_of(90);
    drop(store);
    // Nodes of block 32 that the neighbouring checkpoints do not share.
    let mut lost = nodes_of_old_state(&maker, 32);
    for other in [16, 48] {
        let mut kept = BTreeSet::new();
        reachable(&maker, maker.commits[other].block.header.state_root, &mut kept);
        lost.retain(|key| !kept.contains(key));
    }
    remove_nodes(folder.path(), &lost);

    let store = thinning(folder.path(), Mode::Archive);

    maker.commits[24..=40].iter().for_each(|commit| assert_proofs(&store, &maker.store, commit));
}

#[test]
fn thinning_an_older_archive_can_be_stopped_and_keeps_its_proofs() {
    let maker = random_chain(&mut Random::new(), 90);
    let folder = tempfile::tempdir().unwrap();
    // As a release of format 1 would have left it: nothing is thinned.
    let store = Store::open(folder.path(), StoreOptions { trie_window: 1_000, ..options(Mode::Archive) }).unwrap();
    fill(&store, &maker.commits);
    drop(store);

    let mut rounds = 0;
    loop {
        let store = thinning(folder.path(), Mode::Archive);
        let (mut left, checks) = (0, std::cell::Cell::new(0));
        let is_cancelled = || {
            checks.set(checks.get() + 1);
            checks.get() > 20
        };
        store.thin(&mut |done, all| left = all - done, &is_cancelled).unwrap();
        rounds += 1;
        maker.commits.iter().step_by(7).for_each(|commit| assert_proofs(&store, &maker.store, commit));
        assert_whole(&store);
        if store.statistics().unwrap().oldest_trie == BlockNumber(90 - WINDOW) {
            break;
        }
    }

    assert!(rounds > 3, "{rounds} rounds");
    let store = thinning(folder.path(), Mode::Archive);
    assert_eq!(store.thin(&mut |_, _| {}, &|| false), Ok(0));
    maker.commits.iter().for_each(|commit| assert_proofs(&store, &maker.store, commit));
}

#[test]
fn a_thinned_archive_that_is_pruned_drops_its_checkpoints_and_can_be_one_again() {
    let maker = random_chain(&mut Random::new(), 90);
    let (folder, store) = filled(&maker.commits[..=50]);
    drop(store);

    let store = thinning(folder.path(), Mode::Pruned(10));
    for (number, commit) in (51_u64..).zip(&maker.commits[51..=70]) {
        store.commit(commit).unwrap();
        for kept in store.oldest_state()..=number {
            assert_proofs(&store, &maker.store, &maker.commits[kept as usize]);
        }
    }
    assert_eq!(store.oldest_state(), 60);
    assert_whole(&store);
    drop(store);
    assert_eq!(dump(folder.path())["trie_checkpoints"].len(), 0);

    let store = thinning(folder.path(), Mode::Archive);
    maker.commits[71..].iter().for_each(|commit| store.commit(commit).unwrap());
    maker.commits[60..].iter().for_each(|commit| assert_proofs(&store, &maker.store, commit));
    // Below the first checkpoint of the kept states no trie could be completed.
    let refused = StoreError::Pruned { number: BlockNumber(62), oldest: BlockNumber(84) };
    assert_eq!(store.unwind(BlockNumber(62)), Err(refused));
    assert_eq!(store.head().number(), BlockNumber(90));
    store.unwind(BlockNumber(65)).unwrap();
    assert_whole(&store);
}

#[tokio::test]
async fn a_proof_that_is_asked_for_is_computed_and_refused_when_the_time_is_over() {
    let (maker, _folder, store) = archive_of(60);
    let bus = bus_within(&store, LIMITS);
    let request = |number| GetProof { address: address(1), slots: vec![word(1)], block: BlockId::number(number) };

    for number in 0..=60_u64 {
        let root = maker.commits[number as usize].block.header.state_root;
        let wanted = prove(&*maker.store.trie(), root, address(1), &[word(1)]).unwrap();
        assert_eq!(ask(&bus, request(number)).await, Ok(wanted), "block {number}");
    }
    let refused = bus.call(request(40), &CallContext::with_timeout(Duration::ZERO)).await.unwrap_err();
    // Either the pool or the caller notices the deadline first.
    let late = BusError::Busy(PoolBusy::DeadlinePassed { pool: "storage" });
    assert!(refused == BusError::TimedOut || refused == late, "{refused:?}");
}

/// Allows a limited amount.
struct Small {
    stops: bool,
}

impl Allowance for Small {
    fn should_stop(&self) -> bool {
        self.stops
    }

    fn take(&self, _: usize) -> Result<(), StoreError> {
        Err(StoreError::OutOfMemory { reason: "no more".into() })
    }
}

#[test]
fn computing_a_trie_ends_with_the_callers_time_or_memory() {
    let (maker, _folder, store) = archive_of(60);
    let header = &maker.commits[40].block.header;
    let attempt = |stops| {
        let nodes = store.trie_of(header, Arc::new(Small { stops })).unwrap();
        prove(&*nodes, header.state_root, address(1), &[]).unwrap_err()
    };

    assert_eq!(attempt(true), TrieError::Store(StoreError::Stopped));
    assert_eq!(attempt(false), TrieError::Store(StoreError::OutOfMemory { reason: "no more".into() }));
}

/// Commits blocks, singly and in groups, and unwinds far below the window, until it is killed.
#[test]
fn child_that_thins_and_unwinds_until_it_is_killed() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    let maker = chain();
    let commits: Vec<_> = maker.commits.iter().cloned().map(Arc::new).collect();
    let store = grouping(&PathBuf::from(folder), 0);
    store.initialise(&maker.commits[0], CHAIN_ID).unwrap();
    let mut random = Random::new();
    println!("{CHILD_IS_AT}{}", store.head().number());
    loop {
        let head = store.head().number().0;
        // A group ends at a checkpoint.
        let group = (1 + random.below(8)).min(EVERY - head % EVERY).min(CHAIN_LENGTH - head);
        let target = if head < CHAIN_LENGTH { head + group } else { random.below(head) };
        println!("{CHILD_GOES_TO}{target}");
        if target > head {
            let group = &commits[head as usize + 1..=target as usize];
            assert_eq!(store.commit_first(group), Ok(group.len()));
        } else {
            store.unwind(BlockNumber(target)).unwrap();
        }
        println!("{CHILD_IS_AT}{target}");
    }
}

/// `TENON_KILLS` is the number of kills.
#[test]
fn a_process_that_is_killed_while_it_thins_or_unwinds_leaves_every_trie_exact() {
    let kills: u64 = std::env::var("TENON_KILLS").map_or(6, |kills| kills.parse().unwrap());
    let mut random = Random::new();
    let maker = chain();
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..kills {
        let child = "thinning::child_that_thins_and_unwinds_until_it_is_killed";
        let said = killed_child::<u64>(folder.path(), child, &[], &mut random);

        let store = thinning(folder.path(), Mode::Archive);
        let head = store.head().number().0;
        said.assert_explains(head);
        assert_whole(&store);
        maker.commits[..=head as usize].iter().for_each(|commit| assert_proofs(&store, &maker.store, commit));
        maker.commits[head as usize + 1..].iter().for_each(|commit| store.commit(commit).unwrap());
        assert_whole(&store);
    }
}

/// Offers a store one to nine blocks at a time.
fn commit_in_groups(store: &Arc<Store>, commits: &[BlockCommit], random: &mut Random) {
    let commits: Vec<Arc<BlockCommit>> = commits.iter().cloned().map(Arc::new).collect();
    let mut rest = &commits[..];
    while !rest.is_empty() {
        let count = store.commit_first(&rest[..rest.len().min(1 + random.below(9) as usize)]).unwrap();
        rest = &rest[count..];
    }
}

/// A store that commits up to eight old blocks in one batch.
fn grouping(path: &Path, trie_cache_bytes: usize) -> Arc<Store> {
    let options = StoreOptions {
        old_group_blocks: 8,
        trie_window: WINDOW,
        trie_checkpoint_every: EVERY,
        trie_cache_bytes,
        ..options(Mode::Archive)
    };
    Store::open(path, options).unwrap()
}

#[test]
fn groups_of_old_blocks_leave_the_records_of_single_ones() {
    let mut random = Random::new();
    let maker = random_chain(&mut random, 91);
    let [single, group, cached] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let window = StoreOptions { trie_window: 1, trie_checkpoint_every: EVERY, ..options(Mode::Archive) };
    let store = Store::open(single.path(), window).unwrap();
    fill(&store, &maker.commits);
    drop(store);

    for (folder, trie_cache_bytes) in [(&group, 0), (&cached, 1 << 20)] {
        let mut store = grouping(folder.path(), trie_cache_bytes);
        store.initialise(&maker.commits[0], CHAIN_ID).unwrap();
        for commits in maker.commits[1..=84].chunks(28) {
            commit_in_groups(&store, commits, &mut random);
            drop(store);
            store = grouping(folder.path(), trie_cache_bytes);
        }
        let last: Vec<_> = maker.commits[85..=90].iter().cloned().map(Arc::new).collect();
        assert_eq!(store.commit_first(&last), Ok(6));
        assert_eq!(store.statistics().unwrap().oldest_trie, BlockNumber(90));
        // The other store thins block 90 now.
        store.commit(&maker.commits[91]).unwrap();
        (0..=91).for_each(|number| assert_state(&store, number, &maker.states));
        maker.commits.iter().for_each(|commit| assert_proofs(&store, &maker.store, commit));
        assert_whole(&store);
    }

    let mut wanted = dump(single.path());
    let checkpoints = wanted.remove("trie_checkpoints").unwrap();
    for folder in [group, cached] {
        let found = dump(folder.path());
        for (column, records) in &wanted {
            assert!(found[column] == *records, "{column}");
        }
        // A single block also moves nodes that were created after the checkpoint, if the next block creates them again.
        let nodes = &found["trie_checkpoints"];
        assert!(nodes.iter().all(|(key, rlp)| checkpoints.get(key) == Some(rlp)));
        (0..=80).step_by(EVERY as usize).for_each(|number| assert_complete(folder.path(), &maker, number));
    }
}

/// Also of blocks inside a group, whose tries were never written.
#[test]
fn states_of_removed_blocks_stay_readable_by_their_roots() {
    let mut random = Random::new();
    for is_unwound in [false, true] {
        let branches = Branches::random(&mut random, 29, 12);
        let [whole, folder] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let full = open(whole.path(), Mode::Archive);
        fill(&full, &branches.commits[0]);
        let store = grouping(folder.path(), 0);
        store.initialise(&branches.commits[0][0], CHAIN_ID).unwrap();
        commit_in_groups(&store, &branches.commits[0][1..], &mut random);

        if is_unwound {
            store.unwind(BlockNumber(branches.fork)).unwrap();
        } else {
            store.reorganise(BlockNumber(branches.fork), &branches.above(1, 12)).unwrap();
        }

        let removed = &branches.commits[0][branches.fork as usize + 1..];
        assert_eq!(removed.len(), 12);
        for commit in removed {
            let root = commit.block.header.state_root;
            for (address, slots) in asked() {
                let wanted = prove(&*full.trie(), root, address, &slots).unwrap();
                assert_eq!(prove(&*store.trie(), root, address, &slots), Ok(wanted), "{address}");
            }
        }
        assert_whole(&store);
    }
}

#[test]
fn the_tries_of_a_head_and_of_older_blocks_stay_readable_while_a_group_follows() {
    let mut random = Random::new();
    let maker = random_chain(&mut random, 60);
    let folder = tempfile::tempdir().unwrap();
    let store = grouping(folder.path(), 0);
    store.initialise(&maker.commits[0], CHAIN_ID).unwrap();
    commit_in_groups(&store, &maker.commits[1..=38], &mut random);
    // Committed one by one, so that they are in a window.
    maker.commits[39..=40].iter().for_each(|commit| store.commit(commit).unwrap());
    let heights = [20, 31, 38, 39, 40];
    let header = |number: usize| &maker.commits[number].block.header;
    let tries = heights.map(|number| store.trie_of(header(number), Arc::new(Unlimited)).unwrap());

    commit_in_groups(&store, &maker.commits[41..], &mut random);

    for (number, trie) in heights.into_iter().zip(tries) {
        for (address, slots) in asked() {
            let root = header(number).state_root;
            let wanted = prove(&*maker.store.trie(), root, address, &slots).unwrap();
            assert_eq!(prove(&*trie, root, address, &slots).as_ref(), Ok(&wanted), "{address} at block {number}");
        }
    }
}

#[test]
fn a_checkpoint_keeps_the_nodes_of_a_storage_that_a_later_block_wiped_and_filled_again() {
    let mut maker = Maker::new();
    let slots: Vec<(u64, u64)> = (0..8).map(|slot| (slot, slot + 1)).collect();
    maker.add(vec![change(5, 1, &slots)], &[]);
    for number in 2..=EVERY {
        maker.add(vec![change(6, number, &[])], &[]);
    }
    let mut refilled = change(5, 2, &slots);
    refilled.storage_wiped = true;
    maker.add(vec![refilled], &[]);
    maker.add(vec![change(5, 3, &[(0, 9), (1, 9), (2, 9), (3, 9), (4, 9), (5, 9), (6, 9), (7, 9)])], &[]);
    for number in 0..WINDOW {
        maker.add(vec![change(6, number, &[])], &[]);
    }

    for is_grouping in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let store = if is_grouping { grouping(folder.path(), 0) } else { thinning(folder.path(), Mode::Archive) };
        store.initialise(&maker.commits[0], CHAIN_ID).unwrap();
        commit_in_groups(&store, &maker.commits[1..], &mut Random::new());
        drop(store);

        assert_complete(folder.path(), &maker, EVERY as usize);
    }
}

#[test]
fn blocks_are_committed_by_themselves_until_there_is_a_checkpoint_to_go_back_from() {
    let maker = random_chain(&mut Random::new(), 60);
    let commits: Vec<_> = maker.commits.iter().cloned().map(Arc::new).collect();
    let folder = tempfile::tempdir().unwrap();
    let store = thinning(folder.path(), Mode::Pruned(10));
    fill(&store, &maker.commits[..=45]);
    drop(store);

    let store = grouping(folder.path(), 0);
    let counts: Vec<_> = [46, 47, 48].map(|number| store.commit_first(&commits[number..=48]).unwrap()).into();
    store.unwind(BlockNumber(47)).unwrap();
    assert_whole(&store);
    assert_eq!((counts, store.commit_first(&commits[48..=55])), (vec![1, 1, 1], Ok(1)));
    assert_eq!(store.commit_first(&commits[49..=55]), Ok(7));

    store.unwind(BlockNumber(54)).unwrap();
    assert_whole(&store);
    assert_proofs(&store, &maker.store, &maker.commits[54]);
}
