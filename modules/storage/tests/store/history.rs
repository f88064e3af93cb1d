//! Every past state, in archive and in pruned mode.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::support::{Maker, Random, Writes as _, address, assert_state, assert_whole, change, dump, fill, open, word};
use alloy_primitives::U256;
use tenon_api::{AccountChange, BlockNumber, ChainReader, StoreError};
use tenon_chain::prove;
use tenon_storage::Mode;

#[test]
fn an_archive_answers_every_height_as_the_model_does() {
    let mut random = Random::new();
    let maker = Maker::random(&mut random, 60);

    for number in 0..=60 {
        assert_state(&maker.store, number, &maker.states);
    }
    assert_whole(&maker.store);
}

#[test]
fn a_wiped_storage_is_gone_and_stays_readable_in_the_past() {
    let mut maker = Maker::new();
    maker.add(vec![change(5, 1, &[(1, 10), (2, 20), (3, 30)])], &[]);
    let wiped = AccountChange { storage_wiped: true, ..change(5, 2, &[(2, 21)]) };
    maker.add(vec![wiped], &[]);
    maker.add(vec![AccountChange { account: None, storage_wiped: true, ..change(5, 0, &[]) }], &[]);
    maker.add(vec![change(5, 3, &[(3, 31)])], &[]);

    let expected = [(1, [10, 20, 30]), (2, [0, 21, 0]), (3, [0, 0, 0]), (4, [0, 0, 31])];
    for (number, values) in expected {
        let state = maker.store.state_at(BlockNumber(number)).unwrap();
        let read: Vec<U256> = (1..=3).map(|slot| state.storage(address(5), word(slot)).unwrap()).collect();
        assert_eq!(read, values.map(U256::from), "block {number}");
        assert_eq!(state.account(address(5)).unwrap().is_some(), number != 3);
    }
    assert_whole(&maker.store);
}

#[test]
fn pruned_mode_answers_its_window_and_reports_older_heights() {
    let mut random = Random::new();
    let mut maker = Maker::new();
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Pruned(7));
    fill(&store, &maker.commits);

    for number in 1..=50_u64 {
        let commit = maker.add_random(&mut random);
        store.commit(commit).unwrap();
        let oldest = number.saturating_sub(7);
        assert_eq!(store.oldest_state(), oldest);
        assert_state(&store, oldest, &maker.states);
        assert_state(&store, number, &maker.states);
    }

    for number in 43..=50 {
        assert_state(&store, number, &maker.states);
        let state = store.state_at(BlockNumber(number)).unwrap();
        for (index, slot) in [(0, 0), (3, 1), (6, 2)] {
            let root = maker.commits[number as usize].block.header.state_root;
            let proof = prove(&*store.trie(), root, address(index), &[word(slot)]).unwrap();
            assert_eq!(proof.account, state.account(address(index)).unwrap().unwrap_or_default());
            assert_eq!(proof.storage[0].value, state.storage(address(index), word(slot)).unwrap());
        }
    }
    let refused = StoreError::Pruned { number: BlockNumber(42), oldest: BlockNumber(43) };
    assert_eq!(store.state_at(BlockNumber(42)).err(), Some(refused.clone()));
    assert_eq!(store.unwind(BlockNumber(42)), Err(refused));
    assert_whole(&store);
}

#[test]
fn a_pruned_database_keeps_only_the_records_of_its_window() {
    let mut random = Random::new();
    let maker = Maker::random(&mut random, 40);
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Pruned(5));
    fill(&store, &maker.commits);
    drop(store);

    let records = dump(folder.path());

    // Versions: per key at most one that is not newer than the oldest kept state, and that one is not a tombstone.
    for column in ["account_history", "slot_history"] {
        let mut last = (Vec::new(), false);
        for (key, value) in &records[column] {
            let (name, version) = key.split_at(key.len() - 8);
            let number = !u64::from_be_bytes(version.try_into().unwrap());
            let is_old = number <= 35;
            assert!(!(is_old && value.is_empty()), "tombstone of block {number} in {column}");
            assert!(!(is_old && last == (name.to_vec(), true)), "second old version of block {number} in {column}");
            last = (name.to_vec(), is_old);
        }
    }
    let oldest = records["changes"].keys().map(|key| u64::from_be_bytes(key.as_slice().try_into().unwrap()));
    assert_eq!(oldest.collect::<Vec<_>>(), std::iter::once(0).chain(36..=40).collect::<Vec<_>>());
    // Trie: exactly the nodes of the kept states.
    let mut kept = std::collections::BTreeSet::new();
    for number in 35..=40_usize {
        let root = maker.commits[number].block.header.state_root;
        reachable(&maker, root, &mut kept);
    }
    assert_eq!(records["trie"].keys().cloned().collect::<std::collections::BTreeSet<_>>(), kept);
}

/// Adds the keys of all trie nodes of a state.
pub(crate) fn reachable(maker: &Maker, root: alloy_primitives::B256, kept: &mut std::collections::BTreeSet<Vec<u8>>) {
    use std::ops::ControlFlow;
    use tenon_chain::trie::{TrieItem, decode_account, walk_trie};
    let trie = maker.store.trie();
    let mut storages = Vec::new();
    let mut key = |owner: alloy_primitives::B256, path: &[u8], hash: alloy_primitives::B256| {
        kept.insert([owner.as_slice(), path, hash.as_slice()].concat());
    };
    walk_trie(&*trie, None, root, &mut |item| {
        match item {
            TrieItem::Node { path, hash, .. } => key(Default::default(), path, hash),
            TrieItem::Leaf { path, value } => {
                let owner: Vec<u8> = path.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
                storages
                    .push((alloy_primitives::B256::from_slice(&owner), decode_account(value).unwrap().storage_root));
            }
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    for (owner, root) in storages {
        walk_trie(&*trie, Some(owner), root, &mut |item| {
            if let TrieItem::Node { path, hash, .. } = item {
                key(owner, path, hash);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    }
}

#[test]
fn an_archive_switched_to_pruned_removes_its_backlog_and_can_switch_back() {
    let mut random = Random::new();
    let mut maker = Maker::new();
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..50 {
        maker.add_random(&mut random);
    }

    let store = open(folder.path(), Mode::Archive);
    fill(&store, &maker.commits[..31]);
    drop(store);
    let store = open(folder.path(), Mode::Pruned(10));
    assert_eq!(store.oldest_state(), 0);
    maker.commits[31..=40].iter().for_each(|commit| store.commit(commit).unwrap());
    assert_eq!(store.oldest_state(), 30);
    drop(store);
    let store = open(folder.path(), Mode::Archive);
    maker.commits[41..].iter().for_each(|commit| store.commit(commit).unwrap());

    assert_eq!(store.oldest_state(), 30);
    (30..=50).for_each(|number| assert_state(&store, number, &maker.states));
    assert!(matches!(store.state_at(BlockNumber(29)), Err(StoreError::Pruned { .. })));
    assert_whole(&store);
}

#[test]
fn cached_values_do_not_outlive_a_block_or_unwind_that_changed_them() {
    let mut random = Random::new();
    let mut maker = Maker::new();
    for step in 0..120 {
        let head = maker.commits.len() as u64 - 1;
        if random.chance(25) {
            maker.mark = step;
            maker.unwind(head - random.below(head.min(4) + 1));
        } else {
            maker.add_random(&mut random);
        }
        let head = maker.commits.len() as u64 - 1;
        for number in [head, head - random.below(head.min(6) + 1), random.below(head + 1)] {
            assert_state(&maker.store, number, &maker.states);
        }
    }
}

#[test]
fn a_reader_never_sees_another_chain_than_the_one_it_requested() {
    let mut random = Random::new();
    let mut maker = Maker::new();
    for _ in 0..20 {
        maker.add(vec![change(1, random.below(1_000), &[(1, 1 + random.below(1_000))])], &[]);
    }
    let mut other = Maker::new();
    other.mark = 1;
    for _ in 0..20 {
        other.add(vec![change(1, 5_000 + random.below(1_000), &[(1, 5_000 + random.below(1_000))])], &[]);
    }
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Archive);
    store.initialise(&maker.commits[0], crate::support::CHAIN_ID).unwrap();
    let is_done = Arc::new(AtomicBool::new(false));

    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut behind = 0;
                while !is_done.load(Ordering::Relaxed) {
                    let head = store.head().number();
                    behind = (behind + 1) % 4;
                    let number = BlockNumber(head.0.saturating_sub(behind));
                    let Ok(state) = store.state_at(number) else { continue };
                    let Ok(Some(hash)) = state.block_hash(number) else { continue };
                    for _ in 0..20 {
                        let Ok(value) = state.storage(address(1), word(1)) else { break };
                        let branch = [&maker, &other].into_iter();
                        let same = branch.filter(|maker| {
                            maker.commits[number.0 as usize].block.hash() == hash
                                && value == maker.states[number.0 as usize].slots[&(address(1), word(1))]
                        });
                        assert!(same.count() >= 1, "block {number} {hash}: {value}");
                    }
                }
            });
        }
        for round in 0..15 {
            let branch = if round % 2 == 0 { &maker } else { &other };
            branch.commits[1..].iter().for_each(|commit| store.commit(commit).unwrap());
            store.unwind(BlockNumber(0)).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_removed_state_is_reported_as_such() {
    let mut maker = Maker::new();
    for _ in 0..4 {
        maker.add(vec![change(1, 5, &[(1, 1)])], &[]);
    }
    let commits = maker.commits.clone();
    let states: Vec<_> = (0..=4).map(|number| maker.store.state_at(BlockNumber(number)).unwrap()).collect();

    maker.unwind(2);
    maker.store.commit(&commits[3]).unwrap();

    for (number, state) in (0..).zip(states) {
        let read = state.account(address(1));
        match number {
            0..=2 => assert!(read.is_ok(), "{read:?}"),
            _ => assert_eq!(read, Err(StoreError::Reorganised { number: BlockNumber(number) })),
        }
    }
}

#[test]
fn a_trie_node_that_is_recreated_survives_the_pruning_of_the_block_that_removed_it() {
    let mut maker = Maker::new();
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Pruned(3));
    fill(&store, &maker.commits);

    for number in 1..=12_u64 {
        // Two alternating states: every node is superseded by one block and created again by the next.
        let mut commit = maker.add(vec![change(1, number % 2, &[(1, 1 + number % 2)])], &[]).clone();
        // As if the block had removed a node and added the same one again.
        let again = commit.trie_nodes.iter().map(|node| (node.position.clone(), node.hash));
        commit.superseded_trie_nodes.extend(again.take(1));
        store.commit(&commit).unwrap();
        assert_whole(&store);
        for kept in store.oldest_state()..=number {
            assert_state(&store, kept, &maker.states);
            let root = maker.commits[kept as usize].block.header.state_root;
            let proof = prove(&*store.trie(), root, address(1), &[word(1)]).unwrap();
            assert_eq!(proof.storage[0].value, maker.states[kept as usize].slots[&(address(1), word(1))]);
        }
    }
}
