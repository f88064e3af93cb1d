//! Records of the consensus engine.

use alloy_primitives::U256;

use crate::support::{Maker, Random, Writes as _, assert_whole, fill, open};
use tenon_api::{BlockNumber, ChainReader, EngineRecords};
use tenon_storage::Mode;

#[test]
fn records_of_the_engine_survive_a_restart_and_an_unwind() {
    let folder = tempfile::tempdir().unwrap();
    let mut maker = Maker::new();
    for _ in 0..3 {
        maker.add(Vec::new(), &[]);
    }
    let store = open(folder.path(), Mode::Pruned(1));
    fill(&store, &maker.commits);
    assert_eq!(store.record("voting").unwrap(), None);
    store.put("voting", b"first").unwrap();
    store.put("voting", b"second").unwrap();
    store.put("head", &[0; 40]).unwrap();
    store.unwind(BlockNumber(2)).unwrap();
    drop(store);

    let store = open(folder.path(), Mode::Pruned(1));

    assert_eq!(store.record("voting").unwrap().as_deref(), Some(b"second".as_slice()));
    assert_eq!(tenon_api::ChainReader::head(&*store).number(), BlockNumber(2), "the folder's own records are others");
}

#[test]
fn rules_are_stored_and_side_blocks_checked_under_other_rules_are_removed() {
    let mut random = Random::new();
    let (mut maker, mut other) = (Maker::new(), Maker::new());
    other.seal = 1;
    for _ in 0..4 {
        maker.add_random(&mut random);
        other.add_random(&mut random);
    }
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Archive);
    fill(&store, &maker.commits);
    for commit in &other.commits[1..] {
        store.insert_side_block(&commit.block, U256::ONE).unwrap();
    }
    store.unwind(BlockNumber(2)).unwrap();
    assert_eq!(store.rules(), Ok(None));

    store.write_rules(b"first", None).unwrap();
    assert!(store.header(maker.commits[4].block.hash()).unwrap().is_some());
    // Canonical blocks are never removed, with any argument.
    store.write_rules(b"second", Some(0)).unwrap();

    assert_eq!(store.rules(), Ok(Some(b"second".to_vec())));
    for commits in [&maker.commits, &other.commits] {
        for commit in &commits[3..] {
            let hash = commit.block.hash();
            assert_eq!((store.header(hash), store.block(hash), store.receipts(hash)), (Ok(None), Ok(None), Ok(None)));
        }
    }
    assert!(store.block(other.commits[2].block.hash()).unwrap().is_some());
    assert_whole(&store);
    maker.commits[3..].iter().for_each(|commit| store.commit(commit).unwrap());
    assert_whole(&store);
    drop(store);
    assert_eq!(open(folder.path(), Mode::Archive).rules(), Ok(Some(b"second".to_vec())));
}
