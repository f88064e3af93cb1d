//! `verify` names the damaged record.

use std::{fs, path::Path};

use alloy_primitives::U256;
use tempfile::TempDir;
use tenon_api::{ChainReader, StoreError};
use tenon_storage::{Mode, Store, VerifyReport, VerifyStage};

use crate::support::{Maker, address, change, dump, fill, log, open, options, overwrite, tables_of, word};

fn chain() -> Maker {
    let mut maker = Maker::new();
    maker.add(vec![change(1, 5, &[(1, 7), (2, 8)])], &[vec![log(1, &[1, 2], b"a")]]);
    maker.add(vec![change(2, 6, &[])], &[vec![log(2, &[1], b"b"), log(2, &[3], b"c")]]);
    maker
}

/// The result of `verify` after another program changed one record.
fn damage_after(change: impl FnOnce(&Path, &Maker)) -> Option<String> {
    let (maker, folder) = (chain(), tempfile::tempdir().unwrap());
    let store = open(folder.path(), Mode::Archive);
    fill(&store, &maker.commits);
    drop(store);
    change(folder.path(), &maker);
    let report = open(folder.path(), Mode::Archive).verify(&mut |_| {}, &|| false).unwrap();
    report.damage.map(|damage| damage.to_string())
}

/// Changes the last byte of a column's first record whose key has this prefix.
fn corrupt_records(path: &Path, column: &str, prefix: &[u8]) {
    let records = dump(path);
    let (key, value) = records[column].iter().find(|(key, _)| key.starts_with(prefix)).unwrap();
    let mut spoiled = value.clone();
    *spoiled.last_mut().unwrap() ^= 1;
    overwrite(path, column, key, Some(&spoiled));
}

#[test]
fn an_intact_database_has_no_damage_and_reports_the_checked_counts() {
    let maker = chain();
    let mut stages = Vec::new();

    let report = maker.store.verify(&mut |progress| stages.push(progress.stage), &|| false).unwrap();

    assert_eq!((report.blocks, report.logs, report.accounts, report.slots), (3, 3, 3, 2));
    assert!(report.trie_nodes > 3 && report.damage.is_none() && !report.was_cancelled, "{report:?}");
    assert!(stages.contains(&VerifyStage::Chain) && stages.contains(&VerifyStage::History), "{stages:?}");
    assert!(maker.store.verify(&mut |_| {}, &|| true).unwrap().was_cancelled);
}

#[test]
fn the_damaged_record_is_named() {
    let block_1 = 1_u64.to_be_bytes();
    for (column, named) in [
        ("headers", "header of block 1"),
        ("bodies", "body of block 1"),
        ("receipts", "receipts of block 1"),
        ("logs", "receipts of block 1"),
        ("canonical", "header of block 1"),
    ] {
        let found = damage_after(|path, _| corrupt_records(path, column, &block_1));
        assert!(found.as_ref().is_some_and(|found| found.starts_with(named)), "{column}: {found:?}");
    }
    for (column, named) in [
        ("account_latest", "latest account"),
        ("slot_latest", "latest slot"),
        ("trie", "trie"),
        ("log_index", "log index of block"),
        ("transactions", "place of transaction"),
    ] {
        let found = damage_after(|path, _| corrupt_records(path, column, &[]));
        assert!(found.as_ref().is_some_and(|found| found.contains(named)), "{column}: {found:?}");
    }
}

#[test]
fn a_missing_record_is_named() {
    let missing = |column: &'static str| {
        damage_after(move |path, _| {
            let key = dump(path)[column].keys().next().unwrap().clone();
            overwrite(path, column, &key, None);
        })
    };
    for (column, named) in [
        ("account_latest", "latest accounts: 2 records, but the trie has 3"),
        ("slot_latest", "latest slots: 1 records, but the trie has 2"),
        ("log_index", "lacks log"),
        ("trie", "does not have the trie node"),
    ] {
        let found = missing(column);
        assert!(found.as_ref().is_some_and(|found| found.contains(named)), "{column}: {found:?}");
    }
}

/// The same in a closed folder.
fn closed_chain() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fill(&open(folder.path(), Mode::Archive), &chain().commits);
    folder
}

#[test]
fn a_missing_or_zeroed_table_of_any_column_is_an_error() {
    let columns: Vec<String> = dump(closed_chain().path()).into_keys().collect();
    let mut seen = Vec::new();
    for column in &columns {
        for is_missing in [true, false] {
            let folder = closed_chain();
            let Some(table) = tables_of(folder.path(), column).pop() else { continue };
            if is_missing {
                fs::remove_file(&table).unwrap();
            } else {
                let mut bytes = fs::read(&table).unwrap();
                bytes[..4].fill(0);
                fs::write(&table, bytes).unwrap();
            }
            let verified =
                Store::open(folder.path(), options(Mode::Archive)).map(|store| store.verify(&mut |_| {}, &|| false));
            assert!(
                !matches!(&verified, Ok(Ok(VerifyReport { damage: None, .. }))),
                "{column}, missing: {is_missing}: {verified:?}"
            );
            seen.push(column.as_str());
        }
    }
    assert!(seen.contains(&"account_history") && seen.contains(&"changes"), "{seen:?}");
}

#[test]
fn missing_changes_of_a_block_are_named() {
    for (number, missing) in [(1, "changes of block 1: are missing"), (2, "changes of block 2: are missing")] {
        let found = damage_after(|path, _| overwrite(path, "changes", &u64::to_be_bytes(number), None));
        assert_eq!(found.as_deref(), Some(missing));
    }
}

#[test]
fn a_superfluous_index_entry_is_named() {
    let found = damage_after(|path, _| {
        let records = dump(path);
        let (key, positions) = records["log_index"].iter().next().unwrap();
        overwrite(path, "log_index", key, Some(&[positions.as_slice(), &[9]].concat()));
    });

    assert!(found.as_ref().is_some_and(|found| found.contains("names log")), "{found:?}");
}

#[test]
fn reading_a_record_that_does_not_decode_is_a_named_error() {
    let (maker, folder) = (chain(), tempfile::tempdir().unwrap());
    fill(&open(folder.path(), Mode::Archive), &maker.commits);
    let slot = [address(1).as_slice(), word(1).as_slice()].concat();
    overwrite(folder.path(), "account_latest", address(1).as_slice(), Some(&[0; 9]));
    overwrite(folder.path(), "slot_latest", &slot, Some(&[0; 3]));
    let hash = maker.commits[1].block.hash();
    overwrite(folder.path(), "bodies", &[1_u64.to_be_bytes().as_slice(), hash.as_slice()].concat(), Some(&[9]));

    let store = open(folder.path(), Mode::Archive);

    let state = store.state_at(store.head().number()).unwrap();
    assert!(matches!(state.account(address(1)), Err(StoreError::Corrupt { .. })));
    assert!(matches!(state.storage(address(1), word(1)), Err(StoreError::Corrupt { .. })));
    assert_eq!(state.storage(address(1), word(2)), Ok(U256::from(8)));
    assert!(matches!(store.block(hash), Err(StoreError::Corrupt { what }) if what.contains("body of block 1")));
}
