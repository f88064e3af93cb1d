//! Blocks round-trip, and invalid ones are refused by name.

use crate::support::{CHAIN_ID, Maker, Random, Writes as _, assert_whole, change, fill, log, open, options, overwrite};
use alloy_primitives::{B256, U256, keccak256};
use tenon_api::{Account, BlockNumber, ChainReader, EMPTY_CODE_HASH, LogFilter, StoreError};
use tenon_storage::{Durability, Mode, OpenError, Store};

#[test]
fn a_block_round_trips_before_and_after_a_restart() {
    let mut maker = Maker::new();
    maker.add(
        vec![change(1, 5, &[(1, 9)])],
        &[vec![log(1, &[1, 2], b"a")], vec![], vec![log(2, &[], b""), log(1, &[3], b"b")]],
    );
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Archive);
    fill(&store, &maker.commits);

    for _ in 0..2 {
        let store = &maker.store;
        for commit in &maker.commits {
            let (number, hash) = (commit.block.number(), commit.block.hash());
            assert_eq!(store.canonical_hash(number), Ok(Some(hash)));
            assert_eq!(store.header(hash).unwrap().as_deref(), Some(&commit.block.header));
            assert_eq!(store.block(hash).unwrap().as_deref(), Some(&*commit.block));
            assert_eq!(store.receipts(hash).unwrap(), Some(commit.receipts.clone()));
            assert_eq!(store.total_difficulty(hash), Ok(Some(commit.total_difficulty)));
            for (index, transaction) in (0_u64..).zip(&commit.block.transactions) {
                assert_eq!(store.transaction_location(transaction.hash), Ok(Some((hash, index))));
            }
        }
        assert_eq!(store.head().header.hash(), maker.commits[1].block.hash());
    }

    // Reopened to bypass every cache.
    drop(store);
    let store = open(folder.path(), Mode::Archive);
    let commit = &maker.commits[1];
    assert_eq!(*store.head(), *maker.store.head());
    assert_eq!(store.chain(), Some((CHAIN_ID, maker.commits[0].block.hash())));
    assert_eq!(store.block(commit.block.hash()).unwrap().as_deref(), Some(&*commit.block));
    assert_eq!(store.receipts(commit.block.hash()).unwrap(), Some(commit.receipts.clone()));
    for node in &commit.trie_nodes {
        let found = store.trie().node(node.position.owner, &node.position.path, node.hash);
        assert_eq!(found, Ok(Some(node.rlp.clone())));
    }
    assert_whole(&store);
}

#[test]
fn missing_records_are_none() {
    let maker = Maker::new();
    let store = &maker.store;
    let unknown = B256::repeat_byte(9);

    assert_eq!(store.header(unknown), Ok(None));
    assert_eq!(store.block(unknown), Ok(None));
    assert_eq!(store.receipts(unknown), Ok(None));
    assert_eq!(store.total_difficulty(unknown), Ok(None));
    assert_eq!(store.transaction_location(unknown), Ok(None));
    assert_eq!(store.canonical_hash(BlockNumber(1)), Ok(None));
    assert_eq!(store.trie().node(None, &[], unknown), Ok(None));
    assert!(matches!(store.state_at(BlockNumber(1)), Err(StoreError::UnknownBlock { .. })));
    let state = store.state_at(BlockNumber(0)).unwrap();
    assert_eq!(state.code(unknown), Ok(None));
    assert_eq!(state.code(EMPTY_CODE_HASH), Ok(Some(Default::default())));
    assert_eq!(state.block_hash(BlockNumber(0)), Ok(Some(maker.commits[0].block.hash())));
    assert_eq!(state.block_hash(BlockNumber(1)), Ok(None));
}

#[test]
fn a_commit_that_does_not_follow_the_head_changes_nothing() {
    let mut maker = Maker::new();
    maker.add(vec![change(1, 5, &[])], &[]);
    maker.add(vec![change(1, 6, &[])], &[]);
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Archive);

    let refused = StoreError::NotNext { number: BlockNumber(1), head: BlockNumber(0) };
    assert_eq!(store.commit(&maker.commits[1]), Err(refused));
    fill(&store, &maker.commits[..2]);
    for number in [0, 1] {
        let refused = StoreError::NotNext { number: BlockNumber(number), head: BlockNumber(1) };
        assert_eq!(store.commit(&maker.commits[number as usize]), Err(refused));
    }
    let mut other = Maker::new();
    other.mark = 1;
    other.add(vec![], &[]);
    other.add(vec![], &[]);
    let refused = StoreError::NotNext { number: BlockNumber(2), head: BlockNumber(1) };
    assert_eq!(store.commit(&other.commits[2]), Err(refused));

    assert_eq!(store.head().header.hash(), maker.commits[1].block.hash());
    assert_whole(&store);
}

#[test]
fn a_folder_that_is_in_use_or_of_another_chain_or_newer_is_refused_by_name() {
    let maker = Maker::new();
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Archive);
    fill(&store, &maker.commits);

    let locked = Store::open(folder.path(), options(Mode::Archive)).unwrap_err();
    assert_eq!(locked, OpenError::Locked { path: folder.path().into() });
    assert_eq!(store.initialise(&maker.commits[0], CHAIN_ID), Ok(()));
    let mut other = Maker::new();
    other.mark = 1;
    let refused = store.initialise(&maker.commits[0], 50).unwrap_err();
    assert!(matches!(refused, OpenError::OtherChain { found_chain: CHAIN_ID, wanted_chain: 50, .. }), "{refused}");

    drop(store);
    overwrite(folder.path(), "meta", b"format", Some(&9_u32.to_be_bytes()));
    let newer = Store::open(folder.path(), options(Mode::Archive)).unwrap_err();
    assert_eq!(newer, OpenError::NewerFormat { path: folder.path().into(), found: 9, known: 2 });
}

#[test]
fn a_folder_that_is_a_file_is_refused_by_name() {
    let file = tempfile::NamedTempFile::new().unwrap();

    let refused = Store::open(file.path(), options(Mode::Archive)).unwrap_err();

    let reason = "is a file, not a folder".to_owned();
    assert_eq!(refused, OpenError::Engine { path: file.path().into(), reason });
}

#[test]
fn a_side_block_is_found_by_its_hash_only() {
    let mut maker = Maker::new();
    maker.add(vec![change(1, 5, &[])], &[vec![log(1, &[1], b"")]]);
    let mut other = Maker::new();
    other.mark = 1;
    other.add(vec![change(1, 6, &[])], &[vec![log(1, &[1], b"")]]);
    let side = &other.commits[1];

    maker.store.insert_side_block(&side.block, U256::from(99)).unwrap();

    let (store, hash) = (&maker.store, side.block.hash());
    assert_eq!(store.block(hash).unwrap().as_deref(), Some(&*side.block));
    assert_eq!(store.total_difficulty(hash), Ok(Some(U256::from(99))));
    assert_eq!(store.receipts(hash), Ok(None));
    assert_eq!(store.canonical_hash(BlockNumber(1)), Ok(Some(maker.commits[1].block.hash())));
    assert_eq!(store.transaction_location(side.block.transactions[0].hash), Ok(None));
    assert_whole(store);
}

#[test]
fn finality_survives_a_restart_and_commits() {
    let mut maker = Maker::new();
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        maker.add(vec![], &[]);
    }
    let store = open(folder.path(), Mode::Archive);
    fill(&store, &maker.commits[..3]);

    store.set_finality(Some(BlockNumber(1)), Some(BlockNumber(2))).unwrap();
    drop(store);
    let store = open(folder.path(), Mode::Archive);
    store.commit(&maker.commits[3]).unwrap();

    let head = store.head();
    assert_eq!((head.finalized, head.safe), (Some(BlockNumber(1)), Some(BlockNumber(2))));
    store.unwind(BlockNumber(0)).unwrap();
    let head = store.head();
    assert_eq!((head.finalized, head.safe), (Some(BlockNumber(0)), Some(BlockNumber(0))));
}

#[test]
fn code_is_kept_by_its_hash() {
    let mut maker = Maker::new();
    let code = b"some code".as_slice();
    let mut contract = change(5, 0, &[]);
    contract.account = Some(Account { code_hash: keccak256(code), ..Account::default() });
    let mut commit = {
        maker.add(vec![], &[]);
        maker.commits[1].clone()
    };
    commit.codes.push((keccak256(code), code.to_vec().into()));
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Archive);
    fill(&store, &[maker.commits[0].clone(), commit]);

    let state = store.state_at(BlockNumber(1)).unwrap();

    assert_eq!(state.code(keccak256(code)), Ok(Some(code.to_vec().into())));
}

#[test]
fn statistics_name_every_column_and_the_heights() {
    let mut maker = Maker::new();
    maker.add_random(&mut Random::seeded(1));
    maker.store.flush().unwrap();

    let statistics = maker.store.statistics().unwrap();

    assert_eq!((statistics.head, statistics.oldest_state), (BlockNumber(1), BlockNumber(0)));
    assert_eq!(statistics.oldest_trie, BlockNumber(0));
    let names: Vec<&str> = statistics.columns.iter().map(|column| column.name).collect();
    assert!(names.contains(&"slot_history") && names.contains(&"spaces") && names.len() == 18, "{names:?}");
    assert!(statistics.disk_bytes() > 0);
}

#[test]
fn every_durability_setting_keeps_committed_blocks() {
    let mut random = Random::new();
    let maker = Maker::random(&mut random, 5);
    let period = std::time::Duration::from_secs(3_600);
    for durability in [Durability::EveryBlock, Durability::Interval { blocks: 2, period }, Durability::OnFlush] {
        let folder = tempfile::tempdir().unwrap();
        let options = tenon_storage::StoreOptions { durability, ..options(Mode::Archive) };
        let store = Store::open(folder.path(), options.clone()).unwrap();
        fill(&store, &maker.commits);
        drop(store);

        let store = Store::open(folder.path(), options).unwrap();

        assert_eq!(*store.head(), *maker.store.head());
        let all = store.logs(BlockNumber(0), BlockNumber(5), &LogFilter::default(), 1_000, &|| false).unwrap();
        let count: usize =
            maker.commits.iter().flat_map(|commit| commit.receipts.iter()).map(|receipt| receipt.logs.len()).sum();
        assert_eq!(all.len(), count);
    }
}

#[test]
fn a_block_is_found_by_height_only_once_it_is_the_head() {
    let mut maker = Maker::new();
    for number in 1..400 {
        maker.add(vec![change(1, number, &[])], &[]);
    }
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Archive);
    store.initialise(&maker.commits[0], CHAIN_ID).unwrap();
    let last = maker.commits.len() as u64 - 1;

    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let next = store.head().number().0 + 1;
                if next > last {
                    break;
                }
                if store.canonical_hash(next.into()).unwrap().is_some() {
                    assert!(store.head().number().0 >= next, "block {next} was found, and is not on the chain");
                }
            }
        });
        maker.commits[1..].iter().for_each(|commit| store.commit(commit).unwrap());
    });
}
