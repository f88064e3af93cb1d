//! Database files with flipped bits or truncated ends: they are refused by name, or `verify` names the damage, or the
//! database is at a whole block. It never returns data that the chain did not have.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use tenon_abuse_figures::Figure;
use tenon_api::{ChainReader, StoreError};
use tenon_storage::{Mode, OpenError, Store};

use crate::{
    crash::{chain, copy_folder},
    support::{Maker, Random, Writes as _, fill, open, options},
};

/// The behaviour of a damaged copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// It was refused with a reason.
    Refused,
    /// It opened; `verify` or the engine named the damage.
    DamageNamed,
    /// It opened at an older whole block, or nothing was lost.
    Whole,
}

/// The files of a closed folder that contain or describe records.
fn files(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            let holds_records =
                [".sst", ".log", "MANIFEST", "CURRENT", "OPTIONS", "TABLES"].iter().any(|part| name.contains(part));
            holds_records && fs::metadata(path).unwrap().len() > 0
        })
        .collect();
    files.sort();
    files
}

/// Flips one to three bits of a random file, or truncates it; returns a description.
fn damage(folder: &Path, random: &mut Random) -> String {
    let files = files(folder);
    let file = &files[random.below(files.len() as u64) as usize];
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let mut bytes = fs::read(file).unwrap();
    let length = bytes.len() as u64;
    if random.chance(30) {
        let left = random.below(length);
        bytes.truncate(left as usize);
        fs::write(file, bytes).unwrap();
        return format!("{name}: {left} of {length} bytes left");
    }
    let mut flipped = Vec::new();
    for _ in 0..1 + random.below(3) {
        let bit = random.below(length * 8);
        bytes[bit as usize / 8] ^= 1 << (bit % 8);
        flipped.push(bit);
    }
    fs::write(file, bytes).unwrap();
    format!("{name}: bits {flipped:?} of {length} bytes flipped")
}

/// Opens a damaged copy and compares all its answers with the chain.
pub(crate) fn ending(folder: &Path, maker: &Maker) -> Ending {
    let store = match Store::open(folder, options(Mode::Archive)) {
        Ok(store) => store,
        Err(error) => {
            let is_named = matches!(&error, OpenError::Engine { path, reason } | OpenError::Damaged { path, reason } if path == folder && !reason.is_empty())
                || matches!(&error, OpenError::TableList { path, .. } | OpenError::Log { path, .. } if path == folder)
                || matches!(&error, OpenError::Store(StoreError::Engine(_) | StoreError::Corrupt { .. }));
            assert!(is_named, "{error}");
            return Ending::Refused;
        }
    };
    if store.chain().is_none() {
        // All records are lost, including the chain's identity: the node reports that the folder contains no chain.
        return Ending::DamageNamed;
    }
    let head = store.head().number();
    assert_eq!(store.head().header.hash(), maker.commits[head.0 as usize].block.hash());
    let mut is_whole = true;
    for number in 0..=head.0 {
        is_whole &= answers_are_true(&store, number, maker);
    }
    match store.verify(&mut |_| {}, &|| false) {
        Ok(report) if report.damage.is_none() && is_whole => Ending::Whole,
        Ok(_) | Err(StoreError::Engine(_) | StoreError::Corrupt { .. }) => Ending::DamageNamed,
        Err(other) => panic!("{other}"),
    }
}

/// Checks that every answer without an error is the chain's; false if something could not be read.
fn answers_are_true(store: &Store, number: u64, maker: &Maker) -> bool {
    let expected = &maker.states[number as usize];
    let block = &maker.commits[number as usize].block;
    let mut could_read = true;
    let mut check = |outcome: Result<bool, StoreError>| match outcome {
        Ok(is_true) => assert!(is_true, "block {number}: a wrong answer"),
        Err(StoreError::Engine(_) | StoreError::Corrupt { .. }) => could_read = false,
        Err(other) => panic!("block {number}: {other}"),
    };
    check(store.canonical_hash(number.into()).map(|hash| hash == Some(block.hash())));
    check(store.block(block.hash()).map(|found| found.is_some_and(|found| found.block == block.block)));
    let receipts = &maker.commits[number as usize].receipts;
    check(store.receipts(block.hash()).map(|found| found.is_some_and(|found| found == *receipts)));
    let Ok(state) = store.state_at(number.into()) else { return false };
    for (address, account) in &expected.accounts {
        check(state.account(*address).map(|found| found.as_ref() == Some(account)));
    }
    for ((address, slot), value) in &expected.slots {
        check(state.storage(*address, *slot).map(|found| found == *value));
    }
    could_read
}

#[test]
fn a_file_without_which_the_engine_cannot_open_is_named_with_what_to_do() {
    let maker = chain();
    let original = tempfile::tempdir().unwrap();
    fill(&open(original.path(), Mode::Archive), &maker.commits[..20]);
    for (current, named) in [("nonsense", "CURRENT"), ("MANIFEST-999999\n", "MANIFEST-999999")] {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(original.path(), copy.path());
        fs::write(copy.path().join("CURRENT"), current).unwrap();

        let refused = Store::open(copy.path(), options(Mode::Archive)).unwrap_err();

        let OpenError::Damaged { path, reason } = &refused else { panic!("{current}: {refused}") };
        assert_eq!(path, copy.path());
        assert!(reason.contains(named), "{reason}");
        assert!(!reason.contains('/'), "{reason}");
        assert!(refused.to_string().contains("restore a copy"), "{refused}");
    }
}

/// `TENON_DAMAGED_COPIES` is the number of copies; the full run is 1,000.
#[test]
fn a_damaged_file_is_named_or_the_database_is_at_a_complete_block() {
    let copies: u64 = std::env::var("TENON_DAMAGED_COPIES").map_or(40, |copies| copies.parse().unwrap());
    let mut random = Random::new();
    let maker = chain();
    let original = tempfile::tempdir().unwrap();
    let store = open(original.path(), Mode::Archive);
    fill(&store, &maker.commits[..20]);
    store.flush().unwrap();
    // The rest is only in the write-ahead log, as after a crash.
    maker.commits[20..40].iter().for_each(|commit| store.commit(commit).unwrap());

    let mut endings = BTreeMap::<Ending, u64>::new();
    for _ in 0..copies {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(original.path(), copy.path());
        let what = damage(copy.path(), &mut random);
        println!("{what}");
        *endings.entry(ending(copy.path(), &maker)).or_default() += 1;
    }
    assert_eq!(endings.values().sum::<u64>(), copies);
    Figure {
        clause: "database",
        what: "copies with a damaged file",
        count: copies,
        figure: &format!("{endings:?}; wrong answers 0"),
        bound: "no wrong answer",
    }
    .record();
}
