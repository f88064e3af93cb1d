//! Storage spaces of plugins: separate, bounded, with atomic commits.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use alloy_primitives::Bytes;
use tenon_api::{
    PluginSpaces, SpaceError, SpaceLimits,
    messages::{CommitOutcome, CommitRecords, RecordChange, ScanRecords},
};
use tenon_storage::{Mode, Store};

use crate::support::{Random, open};

const LIMITS: SpaceLimits = SpaceLimits { records: 1_000, bytes: 100_000 };

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn put(key: &str, value: &str) -> RecordChange {
    RecordChange::Put { key: bytes(key), value: bytes(value) }
}

fn changes(changes: Vec<RecordChange>) -> CommitRecords {
    CommitRecords { expects: Vec::new(), changes }
}

fn commit(store: &Store, space: &str, list: Vec<RecordChange>) -> Result<CommitOutcome, SpaceError> {
    store.commit(space, &changes(list), LIMITS)
}

fn all(store: &Store, space: &str) -> Vec<(Bytes, Bytes)> {
    let scan = ScanRecords { from: Bytes::new(), to: None, is_descending: false, limit: u64::MAX };
    let page = store.scan(space, &scan).unwrap();
    assert!(!page.has_more);
    page.records
}

fn new_store() -> (tempfile::TempDir, Arc<Store>) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Archive);
    (folder, store)
}

#[test]
fn spaces_are_separate_even_if_name_and_key_concatenate_alike() {
    let (_folder, store) = new_store();
    commit(&store, "ab", vec![put("c", "of ab")]).unwrap();
    commit(&store, "a", vec![put("bc", "of a"), put("\u{7f}", "last of a")]).unwrap();
    commit(&store, "b", vec![put("", "empty key of b")]).unwrap();

    assert_eq!(all(&store, "ab"), [(bytes("c"), bytes("of ab"))]);
    assert_eq!(all(&store, "a"), [(bytes("bc"), bytes("of a")), (bytes("\u{7f}"), bytes("last of a"))]);
    assert_eq!(store.get("abc", &[Bytes::new()]).unwrap(), [None]);
    assert_eq!(store.get("b", &[Bytes::new()]).unwrap(), [Some(bytes("empty key of b"))]);
    assert_eq!(store.purge("a").unwrap(), (2, 2 + 4 + 1 + 9));
    assert_eq!((all(&store, "a").len(), all(&store, "ab").len(), all(&store, "b").len()), (0, 1, 1));
    assert_eq!(store.usage("a").unwrap(), (0, 0));
    assert!(matches!(store.get("", &[]), Err(SpaceError::Size { .. })));
}

#[test]
fn pages_go_both_ways_and_report_whether_there_is_more() {
    let (_folder, store) = new_store();
    commit(&store, "m", ["a", "b", "c", "d"].iter().map(|key| put(key, "")).collect()).unwrap();
    commit(&store, "l", vec![put("z", "before")]).unwrap();
    commit(&store, "n", vec![put("a", "after")]).unwrap();
    let scan = |from: &str, to: Option<&str>, is_descending, limit| {
        let scan = ScanRecords { from: bytes(from), to: to.map(bytes), is_descending, limit };
        let page = store.scan("m", &scan).unwrap();
        let text: Vec<u8> = page.records.iter().flat_map(|(key, _)| key.to_vec()).collect();
        (String::from_utf8(text).unwrap(), page.has_more)
    };

    let cases = [
        (("", None, false, 9), ("abcd", false)),
        (("", None, true, 9), ("dcba", false)),
        (("b", Some("d"), false, 9), ("bc", false)),
        (("b", Some("d"), true, 9), ("cb", false)),
        (("bb", Some("cc"), true, 9), ("c", false)),
        (("", None, false, 2), ("ab", true)),
        (("", None, true, 3), ("dcb", true)),
        (("d", Some("b"), false, 9), ("", false)),
        (("x", None, true, 9), ("", false)),
    ];
    for ((from, to, is_descending, limit), (text, has_more)) in cases {
        let found = scan(from, to, is_descending, limit);
        assert_eq!(found, (text.to_owned(), has_more), "{from:?} to {to:?}, descending {is_descending}, {limit}");
    }
}

#[test]
fn a_full_space_refuses_by_name_and_accepts_changes_that_shrink_it() {
    let (_folder, store) = new_store();
    let limits = SpaceLimits { records: 2, bytes: 20 };
    store.commit("m", &changes(vec![put("a", "12345"), put("b", "12345")]), limits).unwrap();

    let records = store.commit("m", &changes(vec![put("c", "")]), limits).unwrap_err();
    let too_long = store.commit("m", &changes(vec![put("a", "123456789012345")]), limits).unwrap_err();
    let lower = SpaceLimits { records: 1, bytes: 5 };
    let shrunk = store.commit("m", &changes(vec![put("b", "1")]), lower).unwrap();

    assert_eq!(
        records.to_string(),
        "storage of module m is full: it would have 3 records with 13 bytes, but at most 2 with 20 bytes are allowed; raise storage-records \
         or storage in [plugins.m.limits]"
    );
    assert!(matches!(too_long, SpaceError::Full { usage, .. } if usage.bytes == 22));
    assert_eq!((shrunk.usage.records, shrunk.usage.bytes), (2, 8));
    assert_eq!(all(&store, "m"), [(bytes("a"), bytes("12345")), (bytes("b"), bytes("1"))]);
}

#[test]
fn oversized_values_are_refused_with_both_sizes() {
    let (_folder, store) = new_store();
    let long = "k".repeat(SpaceLimits::KEY + 1);
    let value = "v".repeat(SpaceLimits::VALUE + 1);
    let many: Vec<_> = (0..=SpaceLimits::CHANGES).map(|_| RecordChange::Delete { key: Bytes::new() }).collect();
    let cases = [
        (vec![put(&long, "")], "a key has 1025 bytes, at most 1024 are allowed"),
        (vec![put("k", &value)], "a value has 4194305 bytes, at most 4194304 are allowed"),
        (many, "a batch has 100001 changes, at most 100000 are allowed"),
    ];
    for (list, words) in cases {
        let error = commit(&store, "m", list).unwrap_err().to_string();
        assert!(error.ends_with(words), "{error}");
    }
    let keys = vec![Bytes::new(); SpaceLimits::KEYS_READ + 1];
    assert!(store.get("m", &keys).unwrap_err().to_string().contains("a read has 1001 keys"));
}

#[test]
fn a_failed_precondition_changes_nothing() {
    let (_folder, store) = new_store();
    let guarded = |expected: Option<&str>, value: &str| CommitRecords {
        expects: vec![(bytes("cursor"), expected.map(bytes))],
        changes: vec![put("cursor", value), put("x", value)],
    };

    let first = store.commit("m", &guarded(None, "1"), LIMITS).unwrap();
    let late = store.commit("m", &guarded(None, "2"), LIMITS).unwrap();
    let next = store.commit("m", &guarded(Some("1"), "3"), LIMITS).unwrap();

    assert_eq!([first.is_applied, late.is_applied, next.is_applied], [true, false, true]);
    assert_eq!(store.get("m", &[bytes("x")]).unwrap(), [Some(bytes("3"))]);
}

#[test]
fn random_commits_match_a_map_and_its_counts() {
    let (folder, store) = new_store();
    let mut random = Random::new();
    let mut model: BTreeMap<Bytes, Bytes> = BTreeMap::new();
    let key = |random: &mut Random| bytes(&format!("{:02}", random.below(60)));
    for _ in 0..200 {
        let mut list = Vec::new();
        for _ in 0..random.below(12) {
            let (from, to) = (key(&mut random), key(&mut random));
            list.push(match random.below(4) {
                0 => RecordChange::Delete { key: from },
                1 => RecordChange::DeleteRange { from, to },
                _ => RecordChange::Put { key: from, value: bytes(&"v".repeat(random.below(9) as usize)) },
            });
        }
        for change in list.clone() {
            match change {
                RecordChange::Put { key, value } => drop(model.insert(key, value)),
                RecordChange::Delete { key } => drop(model.remove(&key)),
                RecordChange::DeleteRange { from, to } => model.retain(|key, _| !(from <= *key && *key < to)),
            }
        }
        let usage = commit(&store, "m", list).unwrap().usage;

        assert_eq!(all(&store, "m"), model.clone().into_iter().collect::<Vec<_>>());
        let held: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert_eq!((usage.records, usage.bytes), (model.len() as u64, held as u64));
    }
    drop(store);
    let store = open(folder.path(), Mode::Archive);
    assert_eq!(all(&store, "m"), model.clone().into_iter().collect::<Vec<_>>(), "after a restart");
}

/// Variable that names a child process's folder.
const CHILD_FOLDER: &str = "TENON_SPACES_FOLDER";
const CHILD_WRITES: &str = "writing";
const BATCH: u64 = 40;

fn numbered(number: u64) -> CommitRecords {
    let change = |key: u64| put(&format!("{key:03}"), &number.to_string());
    changes((0..BATCH).map(change).collect())
}

/// Commits until it is killed.
#[test]
fn child_that_commits_until_it_is_killed() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER) else { return };
    let store = open(&PathBuf::from(folder), Mode::Archive);
    println!("{CHILD_WRITES}");
    for number in last_number(&store).. {
        store.commit("m", &numbered(number + 1), LIMITS).unwrap();
    }
}

/// The number that every record of a batch has.
fn last_number(store: &Store) -> u64 {
    let records = all(store, "m");
    let numbers: Vec<u64> =
        records.iter().map(|(_, value)| std::str::from_utf8(value).unwrap().parse().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] == pair[1]), "half a batch: {numbers:?}");
    let held: usize = records.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert_eq!(store.usage("m").unwrap(), (records.len() as u64, held as u64));
    numbers.first().copied().unwrap_or_default()
}

fn kill_a_writer(folder: &Path, after: Duration) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "spaces::child_that_commits_until_it_is_killed", "--nocapture"])
        .env(CHILD_FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line == CHILD_WRITES), "the child ended before it wrote");
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_process_that_is_killed_leaves_whole_batches() {
    let mut random = Random::new();
    let folder = tempfile::tempdir().unwrap();
    let mut last = 0;
    for _ in 0..4 {
        kill_a_writer(folder.path(), Duration::from_millis(random.below(200)));
        let number = last_number(&open(folder.path(), Mode::Archive));
        assert!(number >= last, "what was committed before is still there");
        last = number;
    }
}
