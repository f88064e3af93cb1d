//! After any crash the database is at a whole block.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt::Debug,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    str::FromStr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use alloy_primitives::B256;
use tenon_abuse_figures::Figure;
use tenon_api::{BlockNumber, ChainReader};
use tenon_storage::{Mode, Store};

use crate::{
    reorganise::Branches,
    support::{CHAIN_ID, Maker, Random, Writes as _, assert_state, assert_whole, fill, open},
};

/// Variable that names a child process's folder.
pub(crate) const CHILD_FOLDER: &str = "TENON_CRASH_FOLDER";
/// Variable with the child's task.
const CHILD_WORK: &str = "TENON_CRASH_WORK";
/// Printed by the child with its height.
pub(crate) const CHILD_IS_AT: &str = "at ";
/// Printed by the child with its target height.
pub(crate) const CHILD_GOES_TO: &str = "going to ";
/// The seed from which parent and child generate the same chain.
const CHAIN_SEED: u64 = 11;
pub(crate) const CHAIN_LENGTH: u64 = 60;

pub(crate) fn chain() -> Maker {
    Maker::random(&mut Random::seeded(CHAIN_SEED), CHAIN_LENGTH)
}

/// Checks that the store is at one of the chain's blocks, whole, and can continue to its end.
fn assert_stands_at_a_whole_block(store: &Arc<Store>, maker: &Maker) -> u64 {
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

/// The task of a child until it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Commits, with occasional unwinds of some blocks.
    Writing,
    /// Long unwinds, and the same blocks again.
    Unwinding,
    /// A flush with every block, so that files are written and merged continuously.
    Compacting,
}

impl Work {
    const ALL: [Self; 3] = [Self::Writing, Self::Unwinding, Self::Compacting];

    fn by_name(name: &OsStr) -> Self {
        Self::ALL.into_iter().find(|work| name == OsStr::new(&format!("{work:?}"))).unwrap()
    }

    /// The height to go to next.
    fn next(self, head: u64, random: &mut Random) -> u64 {
        let unwinds = match self {
            Self::Writing => head > 40 && random.chance(5),
            Self::Unwinding => head > 45,
            Self::Compacting => head > 50 && random.chance(20),
        };
        match self {
            _ if head < CHAIN_LENGTH && !unwinds => head + 1,
            Self::Unwinding => head - 1 - random.below(18),
            Self::Writing | Self::Compacting => head - 1 - random.below(8),
        }
    }
}

/// Maximum length of the alternating branches.
const MAX_BRANCH: u64 = 100;
/// Their last common block.
const FORK: u64 = 3;

fn branches() -> Branches {
    Branches::random(&mut Random::seeded(CHAIN_SEED), FORK, MAX_BRANCH)
}

/// Alternates between two branches until it is killed, replacing 1 to 100 blocks by 1 to 100 others. Prints before each
/// step which block becomes the head, and after it which block is.
#[test]
fn child_that_reorganises_until_it_is_killed() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    let branches = branches();
    let store = open(&PathBuf::from(folder), Mode::Archive);
    if store.chain().is_none() {
        fill(&store, &branches.commits[0][..=FORK as usize + 1]);
    }
    let mut random = Random::new();
    println!("{CHILD_IS_AT}{}", store.head().header.hash());
    loop {
        let head = store.head();
        let is_first = branches.hash(0, head.number().0) == head.header.hash();
        let (branch, count) = (usize::from(is_first), 1 + random.below(MAX_BRANCH));
        let target = branches.hash(branch, FORK + count);
        println!("{CHILD_GOES_TO}{target}");
        store.reorganise(BlockNumber(FORK), &branches.above(branch, count)).unwrap();
        println!("{CHILD_IS_AT}{target}");
    }
}

/// `TENON_KILLS` is the number of kills; the full run is 300.
#[test]
fn a_process_that_is_killed_in_a_reorganisation_leaves_the_old_head_or_the_new_one() {
    let kills: u64 = std::env::var("TENON_KILLS").map_or(6, |kills| kills.parse().unwrap());
    let mut random = Random::new();
    let branches = branches();
    let folder = tempfile::tempdir().unwrap();
    let (mut inside, mut new) = (0, 0);
    for _ in 0..kills {
        let child = "crash::child_that_reorganises_until_it_is_killed";
        let said = killed_child::<B256>(folder.path(), child, &[], &mut random);

        let store = open(folder.path(), Mode::Archive);
        let head = store.head();
        let (at, target) = (said.at.unwrap(), said.target);
        assert!(
            head.header.hash() == at || Some(head.header.hash()) == target,
            "the head is {} ({}), the child has said {said:?}",
            head.number(),
            head.header.hash()
        );
        inside += u64::from(target.is_some());
        new += u64::from(Some(head.header.hash()) == target);
        let branch = usize::from(branches.hash(0, head.number().0) != head.header.hash());
        (0..=head.number().0).for_each(|number| assert_state(&store, number, &branches.states[branch]));
        assert_whole(&store);
    }
    Figure {
        clause: "kill",
        what: "the database alone, reorganising 1 to 100 blocks",
        count: kills,
        figure: &format!(
            "{inside} inside a reorganisation, {new} of them at the new head; in between 0, half 0, wrong 0"
        ),
        bound: "0, 0, 0",
    }
    .record();
}

/// Commits and unwinds until it is killed. Prints its target before each step and its height after it.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    let work = Work::by_name(&std::env::var_os(CHILD_WORK).unwrap());
    let maker = chain();
    let store = open(&PathBuf::from(folder), Mode::Pruned(20));
    store.initialise(&maker.commits[0], CHAIN_ID).unwrap();
    let mut random = Random::new();
    println!("{CHILD_IS_AT}{}", store.head().number());
    loop {
        let head = store.head().number().0;
        let target = work.next(head, &mut random).max(store.oldest_state());
        println!("{CHILD_GOES_TO}{target}");
        if target > head {
            store.commit(&maker.commits[target as usize]).unwrap();
        } else {
            store.unwind(BlockNumber(target)).unwrap();
        }
        println!("{CHILD_IS_AT}{target}");
        if work == Work::Compacting || random.chance(1) {
            store.flush().unwrap();
        }
    }
}

/// A child's last reports on its head, a height or a hash: its position and its target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported<T> {
    at: Option<T>,
    target: Option<T>,
}

impl<T: FromStr<Err: Debug>> Reported<T> {
    fn read_line(&mut self, line: &str) {
        let place = |text: &str| Some(text.parse::<T>().unwrap());
        if let Some(at) = line.strip_prefix(CHILD_IS_AT) {
            *self = Self { at: place(at), target: None };
        } else if let Some(target) = line.strip_prefix(CHILD_GOES_TO) {
            self.target = place(target);
        }
    }
}

impl Reported<u64> {
    /// Fails unless the head is at the last position reported, or on the way to the last target.
    pub(crate) fn assert_explains(self, head: u64) {
        let at = self.at.unwrap();
        let target = self.target.unwrap_or(at);
        assert!((at.min(target)..=at.max(target)).contains(&head), "the head is {head}, the child has said {self:?}");
    }
}

/// Starts a child, kills it at a random time after its first output, and returns its reports.
pub(crate) fn killed_child<T: FromStr<Err: Debug> + Send + 'static>(
    folder: &Path,
    child: &str,
    environment: &[(&str, String)],
    random: &mut Random,
) -> Reported<T> {
    // A killed child cleans nothing up: its scratch files are in a folder that this process removes.
    let scratch = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", child, "--nocapture"])
        .env(CHILD_FOLDER, folder)
        .env("TMPDIR", scratch.path())
        .envs(environment.iter().cloned())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let first = lines.find(|line| line.starts_with(CHILD_IS_AT));
    let first = first.unwrap_or_else(|| panic!("the child ended before it wrote"));
    let hearing = std::thread::spawn(move || {
        let mut said = Reported { at: None, target: None };
        std::iter::once(first).chain(lines).for_each(|line| said.read_line(&line));
        said
    });
    std::thread::sleep(Duration::from_micros(random.below(300_000)));
    assert_eq!(child.try_wait().unwrap(), None, "the child ended before it was killed");
    child.kill().unwrap();
    child.wait().unwrap();
    hearing.join().unwrap()
}

/// `TENON_KILLS` is the number of kills, over the three tasks together; the full run is 300.
#[test]
fn a_process_that_is_killed_leaves_a_whole_block_and_every_block_that_it_acknowledged() {
    let kills: u64 = std::env::var("TENON_KILLS").map_or(9, |kills| kills.parse().unwrap());
    let mut random = Random::new();
    let maker = chain();
    for work in Work::ALL {
        let folder = tempfile::tempdir().unwrap();
        let (mut killed, mut on_the_way) = (0, 0);
        while killed < kills.div_ceil(3) {
            let (child, work) = ("crash::child_that_writes_until_it_is_killed", (CHILD_WORK, format!("{work:?}")));
            let said = killed_child::<u64>(folder.path(), child, &[work], &mut random);
            killed += 1;
            on_the_way += u64::from(said.target.is_some());

            let store = open(folder.path(), Mode::Pruned(20));
            let head = store.head().number().0;
            said.assert_explains(head);
            assert_stands_at_a_whole_block(&store, &maker);
            // The next child continues from where this one was killed, as far as pruning permits.
            store.unwind(BlockNumber(store.oldest_state().max(head))).unwrap();
        }
        Figure {
            clause: "kill",
            what: match work {
                Work::Writing => "the database alone, committing",
                Work::Unwinding => "the database alone, unwinding",
                Work::Compacting => "the database alone, compacting",
            },
            count: killed,
            figure: &format!("{on_the_way} inside a commit or an unwinding; half 0, wrong 0, lost 0"),
            bound: "0, 0, 0",
        }
        .record();
    }
}

/// `TENON_TORN_LOGS` is the number of copies that lose the end of their log; the full run is 100.
fn copies() -> u64 {
    std::env::var("TENON_TORN_LOGS").map_or(6, |copies| copies.parse().unwrap())
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
    for _ in 0..copies() {
        // Copied while the store is open, nothing flushed: the disk's contents after a power loss, with the unsynced
        // part of the log cut off anywhere.
        let copy = tempfile::tempdir().unwrap();
        copy_folder(folder.path(), copy.path());
        let log = newest_log(copy.path());
        let length = fs::metadata(&log).unwrap().len();
        fs::OpenOptions::new().write(true).open(&log).unwrap().set_len(random.below(length)).unwrap();

        let reopened = open(copy.path(), Mode::Archive);
        reached.push(assert_stands_at_a_whole_block(&reopened, &maker));
    }
    assert!(reached.iter().all(|head| (9..50).contains(head)), "{reached:?}");
    Figure {
        clause: "database",
        what: "the newest log cut anywhere, in copies",
        count: reached.len() as u64,
        figure: &format!("whole blocks with their roots at {reached:?}, gone on to the end"),
        bound: "a whole block between the last flush and the end",
    }
    .record();
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

/// Copies a consistent state of a folder whose store is open and idle. If the engine writes tables or removes logs in
/// the background meanwhile, the copy is repeated.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    loop {
        let before = listing(from);
        let whole = before.keys().all(|name| fs::copy(from.join(name), to.join(name)).is_ok());
        if whole && listing(from) == before {
            return;
        }
        fs::read_dir(to).unwrap().for_each(|entry| fs::remove_file(entry.unwrap().path()).unwrap());
    }
}

/// The files of a folder with their lengths and modification times; files that vanish meanwhile have none.
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
