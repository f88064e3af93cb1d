//! After an unwind the database equals one that never had those blocks.

use std::{collections::BTreeMap, path::Path};

use alloy_primitives::U256;

use crate::support::{Maker, Random, Writes as _, assert_same_state, assert_state, assert_whole, dump, fill, open};
use tenon_api::{BlockNumber, ChainReader, LogFilter, StoreError};
use tenon_storage::Mode;

/// Columns that keep records of abandoned branches: side blocks, and their trie nodes and code.
const KEEPS_SIDE_BLOCKS: [&str; 6] = ["headers", "header_numbers", "bodies", "receipts", "trie", "codes"];

/// Every record except the marks of heights at which a block was removed, which only thinning uses.
fn dump_of_chain(path: &Path) -> BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut records = dump(path);
    records.get_mut("meta").unwrap().retain(|key, _| !key.starts_with(b"removed/"));
    records
}

#[test]
fn unwinding_equals_a_fresh_build() {
    let mut random = Random::new();
    let maker = Maker::random(&mut random, 40);
    for target in [0, 1, 17, 39] {
        let (unwound, fresh) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let store = open(unwound.path(), Mode::Archive);
        fill(&store, &maker.commits);
        store.unwind(BlockNumber(target)).unwrap();
        assert_eq!(store.head().header.hash(), maker.commits[target as usize].block.hash());
        (0..=target).for_each(|number| assert_state(&store, number, &maker.states));
        assert_whole(&store);
        drop(store);
        fill(&open(fresh.path(), Mode::Archive), &maker.commits[..=target as usize]);

        let (unwound, fresh) = (dump_of_chain(unwound.path()), dump_of_chain(fresh.path()));

        for (column, records) in &fresh {
            if KEEPS_SIDE_BLOCKS.contains(&column.as_str()) {
                let missing = records.keys().find(|key| !unwound[column].contains_key(*key));
                assert_eq!(missing, None, "{column} after unwinding to {target}");
            } else {
                assert_eq!(&unwound[column], records, "{column} after unwinding to {target}");
            }
        }
    }
}

#[test]
fn a_chain_that_was_unwound_and_committed_again_is_the_same_to_the_byte() {
    let mut random = Random::new();
    let maker = Maker::random(&mut random, 30);
    let (again, fresh) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(again.path(), Mode::Archive);
    fill(&store, &maker.commits);

    for target in [25, 10, 0] {
        store.unwind(BlockNumber(target)).unwrap();
        maker.commits[target as usize + 1..].iter().for_each(|commit| store.commit(commit).unwrap());
    }

    (0..=30).for_each(|number| assert_state(&store, number, &maker.states));
    assert_whole(&store);
    drop(store);
    fill(&open(fresh.path(), Mode::Archive), &maker.commits);
    assert_eq!(dump_of_chain(again.path()), dump_of_chain(fresh.path()));
}

#[test]
fn another_branch_replaces_the_old_one() {
    let mut random = Random::new();
    let mut maker = Maker::random(&mut random, 10);
    let (old, old_states) = (maker.commits.clone(), maker.states.clone());

    maker.unwind(6);
    maker.mark = 1;
    for _ in 0..5 {
        maker.add_random(&mut random);
    }

    let store = &maker.store;
    for commit in &old[7..] {
        let hash = commit.block.hash();
        assert_eq!(store.block(hash).unwrap().as_deref(), Some(&*commit.block));
        // Formerly canonical blocks can still be queried.
        assert_eq!(store.receipts(hash).unwrap().as_deref(), Some(&*commit.receipts));
        let state = store.state_of_branch(&commit.block.header).unwrap().unwrap();
        assert_same_state(&*state, commit.block.header.number, &old_states);
        for number in 0..=commit.block.header.number {
            let own = old[number as usize].block.hash();
            assert_eq!(state.block_hash(BlockNumber(number)), Ok(Some(own)), "block {number} seen from {hash}");
        }
        assert_eq!(state.block_hash(BlockNumber(commit.block.header.number + 1)), Ok(None));
        for change in &commit.accounts {
            let listed = store.slots_of_branch(&commit.block.header, change.address).unwrap();
            assert!(change.slots.iter().all(|slot| listed.contains(&slot.slot)), "slots of {}", change.address);
        }
        for transaction in &commit.block.transactions {
            assert_eq!(store.transaction_location(transaction.hash), Ok(None));
        }
    }
    (0..=11).for_each(|number| assert_state(store, number, &maker.states));
    let logs = store.logs(BlockNumber(0), BlockNumber(99), &LogFilter::default(), 1_000, &|| false).unwrap();
    assert!(logs.iter().all(|log| maker.commits[log.block_number.0 as usize].block.hash() == log.block_hash));
    assert_whole(store);
}

#[test]
fn a_side_block_that_never_was_canonical_has_a_state_and_receipts_once_it_was_executed() {
    let mut random = Random::new();
    let (mut maker, mut other) = (Maker::new(), Maker::new());
    other.mark = 1;
    for _ in 0..5 {
        maker.add_random(&mut random);
        other.add_random(&mut random);
    }
    let store = &maker.store;
    for commit in &other.commits[1..] {
        let (side, hash) = (&commit.block, commit.block.hash());
        store.insert_side_block(side, U256::ONE).unwrap();
        assert!(store.state_of_branch(&side.header).unwrap().is_none());
        assert_eq!(store.receipts(hash), Ok(None));

        store.keep_side_state(commit).unwrap();

        assert_eq!(store.receipts(hash).unwrap().as_deref(), Some(&*commit.receipts));
        let state = store.state_of_branch(&side.header).unwrap().unwrap();
        assert_same_state(&*state, side.header.number, &other.states);
    }
    (0..=5).for_each(|number| assert_state(store, number, &maker.states));
    assert_whole(store);
    // The other branch becomes canonical, as if nothing of it had been stored.
    store.unwind(BlockNumber(0)).unwrap();
    other.commits[1..].iter().for_each(|commit| store.commit(commit).unwrap());
    (0..=5).for_each(|number| assert_state(store, number, &other.states));
    assert_whole(store);
}

#[test]
fn pruning_after_reorganisations_loses_nothing_of_the_kept_states() {
    let mut random = Random::new();
    let mut maker = Maker::new();
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Pruned(6));
    fill(&store, &maker.commits);

    for round in 0..40 {
        let head = store.head().number().0;
        let depth = if random.chance(40) { random.below(5).min(head - store.oldest_state()) } else { 0 };
        if depth > 0 {
            maker.unwind(head - depth);
            store.unwind(BlockNumber(head - depth)).unwrap();
            maker.mark = round + 1;
        }
        for _ in 0..=depth {
            store.commit(&maker.add_random(&mut random).clone()).unwrap();
        }
        for number in store.oldest_state()..=store.head().number().0 {
            assert_state(&store, number, &maker.states);
        }
        assert_whole(&store);
    }
}

#[test]
fn a_transaction_that_was_on_the_chain_before_is_found_there_again() {
    let mut maker = Maker::new();
    // Blocks 2, 4 and 5 have the same two transactions; none raises its sender's nonce above its own.
    for number in 1..=6 {
        maker.repeats = matches!(number, 4 | 5).then_some(2);
        maker.add(Vec::new(), &[vec![], vec![]]);
    }
    let repeated = maker.commits[2].block.transactions[1].hash;
    let unwound = tempfile::tempdir().unwrap();
    let store = open(unwound.path(), Mode::Archive);
    fill(&store, &maker.commits);

    for (target, number) in [(6, Some(5)), (5, Some(5)), (4, Some(4)), (3, Some(2)), (2, Some(2)), (1, None)] {
        store.unwind(BlockNumber(target)).unwrap();

        let expected = number.map(|number: usize| (maker.commits[number].block.hash(), 1));
        assert_eq!(store.transaction_location(repeated).unwrap(), expected, "unwound to {target}");
        assert_whole(&store);
    }
    maker.commits[2..].iter().for_each(|commit| store.commit(commit).unwrap());
    store.unwind(BlockNumber(3)).unwrap();
    drop(store);

    let fresh = tempfile::tempdir().unwrap();
    fill(&open(fresh.path(), Mode::Archive), &maker.commits[..=3]);
    assert_eq!(dump(unwound.path())["transactions"], dump(fresh.path())["transactions"]);
}

#[test]
fn refuses_to_unwind_to_a_height_above_the_head() {
    let maker = Maker::new();

    assert_eq!(maker.store.unwind(BlockNumber(1)), Err(StoreError::UnknownBlock { what: "1".into() }));
    assert_eq!(maker.store.unwind(BlockNumber(0)), Ok(()));
}
