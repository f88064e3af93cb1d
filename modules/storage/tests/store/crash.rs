//! However it ends, the database stands at a whole block.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

use tenon_api::{BlockNumber, ChainReader, ChainWriter};
use tenon_storage::{Mode, Store};

use crate::support::{CHAIN_ID, Maker, Random, assert_state, assert_whole, fill, open};

/// Tells a child process of this very program which folder to write to.
const CHILD_FOLDER: &str = "TENON_CRASH_FOLDER";
/// What the child prints once it writes.
const CHILD_WRITES: &str = "writing";
/// The seed from which parent and child make the same chain.
const CHAIN_SEED: u64 = 11;
const CHAIN_LENGTH: u64 = 60;

fn chain() -> Maker {
    let mut random = Random::seeded(CHAIN_SEED);
    let mut maker = Maker::new();
    for _ in 0..CHAIN_LENGTH {
        maker.add_random(&mut random);
    }
    maker
}

/// The store is at one of the chain's blocks, whole, and can go on to its end.
fn assert_stands_at_a_whole_block(store: &Store, maker: &Maker) -> u64 {
    let head = store.head().number();
    assert_eq!(store.head().header.hash(), maker.commits[head.0 as usize].block.hash());
    assert_whole(store);
    for number in store.oldest_state()..=head.0 {
        assert_state(store, number, &maker.states);
    }
    maker.commits[head.0 as usize + 1..].iter().for_each(|commit| store.commit(commit).unwrap());
    assert_whole(store);
    head.0
}

/// Commits and unwinds for ever, until it is killed.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    let maker = chain();
    let store = open(&PathBuf::from(folder), Mode::Pruned(20));
    store.initialise(&maker.commits[0], CHAIN_ID).unwrap();
    let mut random = Random::new();
    println!("{CHILD_WRITES}");
    loop {
        let head = store.head().number().0;
        if head == CHAIN_LENGTH || (head > 40 && random.chance(5)) {
            store.unwind(BlockNumber(head - 1 - random.below(8))).unwrap();
        } else {
            store.commit(&maker.commits[head as usize + 1]).unwrap();
        }
        if random.chance(1) {
            store.flush().unwrap();
        }
    }
}

#[test]
fn a_process_that_is_killed_leaves_a_whole_block() {
    let mut random = Random::new();
    let maker = chain();
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..6 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::child_that_writes_until_it_is_killed", "--nocapture"])
            .env(CHILD_FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line == CHILD_WRITES), "the child ended before it wrote");
        std::thread::sleep(Duration::from_millis(random.below(500)));
        child.kill().unwrap();
        child.wait().unwrap();

        let store = open(folder.path(), Mode::Pruned(20));
        let head = store.head().number().0;
        assert_stands_at_a_whole_block(&store, &maker);
        // The next child goes on from where this one was killed, as far as pruning lets it.
        store.unwind(BlockNumber(store.oldest_state().max(head))).unwrap();
    }
}

#[test]
fn a_log_that_lost_its_end_leaves_a_whole_block() {
    let mut random = Random::new();
    let maker = chain();
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Archive);
    fill(&store, &maker.commits[..10]);
    store.flush().unwrap();
    maker.commits[10..50].iter().for_each(|commit| store.commit(commit).unwrap());

    let mut reached = Vec::new();
    for _ in 0..6 {
        // Taken while the store is open, nothing flushed: what a disk holds after a power loss, with the part of the
        // log that had not been synced cut off anywhere.
        let copy = tempfile::tempdir().unwrap();
        copy_folder(folder.path(), copy.path());
        let log = newest_log(copy.path());
        let length = fs::metadata(&log).unwrap().len();
        fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(random.below(length)).unwrap();

        let reopened = open(copy.path(), Mode::Archive);
        reached.push(assert_stands_at_a_whole_block(&reopened, &maker));
    }
    assert!(reached.iter().all(|head| (9..50).contains(head)), "{reached:?}");
}

#[test]
fn a_copy_of_the_folder_without_a_flush_has_every_block() {
    let maker = chain();
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Archive);
    fill(&store, &maker.commits[..30]);

    let copy = tempfile::tempdir().unwrap();
    copy_folder(folder.path(), copy.path());

    assert_eq!(assert_stands_at_a_whole_block(&open(copy.path(), Mode::Archive), &maker), 29);
}

/// Copies a folder whose store is open and idle, as one instant has it. The engine may still be writing tables and
/// removing logs in the background: then the copy is of no instant, and is made again.
fn copy_folder(from: &Path, to: &Path) {
    loop {
        let before = listing(from);
        let whole = before.keys().all(|name| fs::copy(from.join(name), to.join(name)).is_ok());
        if whole && listing(from) == before {
            return;
        }
        fs::read_dir(to).unwrap().for_each(|entry| fs::remove_file(entry.unwrap().path()).unwrap());
    }
}

/// The files of a folder with their lengths and times of change; those that vanish meanwhile have none.
fn listing(folder: &Path) -> BTreeMap<OsString, Option<(u64, SystemTime)>> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    files
        .map(|file| {
            let state = file.metadata().ok().and_then(|found| Some((found.len(), found.modified().ok()?)));
            (file.file_name(), state)
        })
        .collect()
}

/// The write-ahead log with the highest number.
fn newest_log(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "log")).max().unwrap()
}
