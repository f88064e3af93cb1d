//! A log that was tampered with does not open, and an intact one restores its state.

use std::{
    fs,
    path::{Path, PathBuf},
};

use alloy_primitives::{Address, B256, U256, keccak256};
use proptest::prelude::*;
use tenon_signing_policy::{History as _, Kind, Spent};

use super::{checkpoint::Sealer, *};

const ACCOUNT: Address = Address::repeat_byte(0xaa);
const NOW: u64 = 1_800_000_000;

fn signed(request: u64, nonce: u64, value: u64) -> Step {
    Step::SignedTransaction {
        request,
        rule: "salaries".to_owned(),
        account: ACCOUNT,
        chain_id: 50,
        nonce,
        value: U256::from(value),
        fee: U256::from(1),
        hash: keccak256(nonce.to_be_bytes()),
    }
}

fn vote(round: u64, hash: u8) -> Step {
    Step::SignedForConsensus {
        request: round,
        rule: "votes".to_owned(),
        account: ACCOUNT,
        chain_id: 50,
        kind: Kind::Vote,
        round,
        hash: B256::repeat_byte(hash),
    }
}

fn unsigned(number: u64, previous: B256, entry: Step) -> Line {
    Line { number, time: NOW, previous, entry, signature: None }
}

fn sealer(folder: &Path) -> Sealer {
    Sealer::open(folder, Checkpoint::read(folder).unwrap().as_ref(), 1).unwrap()
}

/// Appends lines to the log's only file without its writer, as an attacker with write access to it would.
fn add_lines(folder: &Path, lines: &[Line]) {
    let path = only_file(folder);
    let mut text = fs::read(&path).unwrap();
    for line in lines {
        text.extend(serde_json::to_vec(line).unwrap());
        text.push(b'\n');
    }
    fs::write(path, text).unwrap();
}

/// The folder of a log, in a temporary folder that others cannot write to.
struct Folder {
    path: PathBuf,
    _parent: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        Self { path: parent.path().join("log"), _parent: parent }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// A folder with a log of `count` entries, in files of `file_bytes`.
fn log_of(count: u64, file_bytes: u64) -> Folder {
    let folder = Folder::new();
    let (mut log, opened) = AuditLog::open_with(folder.path(), file_bytes).unwrap();
    assert_eq!(opened.report, Report::default());
    for number in 0..count {
        log.append(signed(number, number, number), NOW + number).unwrap();
    }
    folder
}

fn only_file(folder: &Path) -> PathBuf {
    let paths = files(folder).unwrap();
    assert_eq!(paths.len(), 1);
    paths[0].clone()
}

#[test]
fn a_restart_remembers_earlier_signatures() {
    let folder = log_of(5, 1 << 20);

    let (mut log, opened) = AuditLog::open(folder.path()).unwrap();

    assert_eq!((opened.report.entries, opened.report.files, opened.report.torn_bytes), (5, 1, 0));
    let memory = log.memory();
    let all = Spent { value: U256::from(10), fee: U256::from(5), requests: 5 };
    assert_eq!(memory.spent("salaries", 0), all);
    assert_eq!(memory.spent("salaries", NOW + 2), Spent { value: U256::from(7), fee: U256::from(2), requests: 2 });
    assert_eq!(memory.spent("others", 0), Spent::default());
    assert_eq!(memory.latest(), NOW + 4);
    assert_eq!(memory.signed_for_nonce(50, ACCOUNT, 3), Some(keccak256(3_u64.to_be_bytes())));
    assert_eq!(memory.signed_for_nonce(51, ACCOUNT, 3), None);
    log.append(signed(9, 9, 9), NOW).unwrap();
    assert_eq!(log.memory().latest(), NOW + 4, "the clock was set back");
    drop(log);
    assert_eq!(verify(folder.path(), None, |_| {}).unwrap().entries, 6);
}

#[test]
fn the_hash_chain_continues_across_files() {
    let folder = log_of(20, 1_000);
    assert!(files(folder.path()).unwrap().len() > 3);

    let (log, opened) = AuditLog::open_with(folder.path(), 1_000).unwrap();

    assert_eq!(opened.report.entries, 20);
    assert_eq!(log.memory().spent("salaries", 0).requests, 20);
    drop(log);
    let second = files(folder.path()).unwrap()[1].clone();
    fs::remove_file(second).unwrap();
    assert!(matches!(AuditLog::open(folder.path()), Err(AuditError::Damaged { .. })), "a file is missing");
}

#[test]
fn a_missing_end_is_detected() {
    let folder = log_of(5, 1 << 20);
    let path = only_file(folder.path());
    let text = fs::read_to_string(&path).unwrap();
    let kept: Vec<&str> = text.lines().take(3).collect();
    fs::write(&path, kept.join("\n") + "\n").unwrap();

    let refused = AuditLog::open(folder.path()).map(|_| ()).unwrap_err();
    assert!(matches!(refused, AuditError::CutOff { found: 3, wanted: 5 }), "{refused}");
    fs::remove_file(path).unwrap();
    let refused = AuditLog::open(folder.path()).map(|_| ()).unwrap_err();
    assert!(matches!(refused, AuditError::CutOff { found: 0, wanted: 5 }), "{refused}");
}

#[test]
fn a_checkpoint_of_another_key_or_none_is_refused() {
    let (folder, other) = (log_of(3, 1 << 20), log_of(3, 1 << 20));
    let checkpoint = folder.path().join("checkpoint.json");
    let own = fs::read(&checkpoint).unwrap();
    let (log, _) = AuditLog::open(folder.path()).unwrap();
    let (number, hash) = log.last();
    drop(log);
    // The key of the other log signs the last entry of this one.
    sealer(other.path()).write(number, hash).unwrap();
    fs::copy(other.path().join("checkpoint.json"), &checkpoint).unwrap();
    assert!(matches!(AuditLog::open(folder.path()), Err(AuditError::Checkpoint { .. })));

    let changed = String::from_utf8(own.clone()).unwrap().replace("\"number\":3", "\"number\":2");
    fs::write(&checkpoint, changed).unwrap();
    assert!(matches!(AuditLog::open(folder.path()), Err(AuditError::Checkpoint { .. })), "its signature is not valid");
    fs::remove_file(&checkpoint).unwrap();
    assert!(matches!(AuditLog::open(folder.path()), Err(AuditError::Checkpoint { .. })), "it is missing");
    fs::write(&checkpoint, own).unwrap();
    assert!(AuditLog::open(folder.path()).is_ok());
}

#[test]
fn a_log_is_unchanged_only_by_its_own_key() {
    let (folder, other) = (log_of(3, 1 << 20), log_of(3, 1 << 20));
    let key = verify(folder.path(), None, |_| {}).unwrap().key.unwrap();
    // As if the log had been rewritten with another key.
    fs::remove_file(folder.path().join("audit.key")).unwrap();
    assert!(matches!(verify(folder.path(), None, |_| {}), Err(AuditError::NoKey(_))));
    assert_eq!(verify(folder.path(), Some(&key), |_| {}).unwrap().entries, 3);
    let refused = AuditLog::open(folder.path()).map(|_| ()).unwrap_err();
    assert!(matches!(refused, AuditError::Checkpoint { .. }), "{refused}");
    assert!(!folder.path().join("audit.key").exists(), "no other key is made");
    assert!(matches!(verify(other.path(), Some(&key), |_| {}), Err(AuditError::Checkpoint { .. })));
}

#[test]
fn a_new_log_is_refused_while_the_key_of_the_old_one_exists() {
    let folder = log_of(3, 1 << 20);
    let path = only_file(folder.path());
    fs::remove_file(folder.path().join("checkpoint.json")).unwrap();
    fs::write(&path, b"").unwrap();
    assert!(matches!(verify(folder.path(), None, |_| {}), Err(AuditError::Checkpoint { .. })));
    assert!(matches!(AuditLog::open(folder.path()), Err(AuditError::Checkpoint { .. })));

    fs::remove_file(path).unwrap();

    assert!(matches!(verify(folder.path(), None, |_| {}), Err(AuditError::NoLog { has_key: true, .. })));
    let refused = AuditLog::open(folder.path()).map(|_| ()).unwrap_err();
    assert!(matches!(refused, AuditError::NoLog { has_key: true, .. }), "{refused}");
}

#[test]
fn a_log_whose_creation_was_interrupted_opens() {
    let folder = Folder::new();
    drop(AuditLog::open(folder.path()).unwrap());
    let path = only_file(folder.path());

    // Killed before the first file was created, and before the key was.
    fs::remove_file(&path).unwrap();
    drop(AuditLog::open(folder.path()).unwrap());
    fs::remove_file(&path).unwrap();
    fs::rename(folder.path().join("audit.key"), folder.path().join("audit.key.new")).unwrap();
    drop(AuditLog::open(folder.path()).unwrap());

    fs::remove_file(folder.path().join("audit.key")).unwrap();
    assert!(matches!(AuditLog::open(folder.path()), Err(AuditError::Checkpoint { .. })), "there is a file");
}

#[test]
fn a_partial_line_is_removed_and_an_acknowledged_one_is_not() {
    let folder = log_of(2, 1 << 20);
    let path = only_file(folder.path());
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], br#"{"number":3,"time":18"#].concat()).unwrap();

    let (mut log, opened) = AuditLog::open(folder.path()).unwrap();
    assert_eq!((opened.report.entries, opened.report.torn_bytes), (2, 21));
    log.append(signed(2, 2, 2), NOW + 9).unwrap();
    drop(log);
    assert_eq!(verify(folder.path(), None, |_| {}).unwrap().entries, 3);

    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let refused = AuditLog::open(folder.path()).map(|_| ()).unwrap_err();
    assert!(matches!(refused, AuditError::Damaged { line: 3, .. }), "{refused}");
}

#[test]
fn a_line_that_is_too_long_is_damaged() {
    let folder = log_of(2, 1 << 20);
    let path = only_file(folder.path());
    let whole = fs::read(&path).unwrap();
    for end in ["", "\n"] {
        fs::write(&path, [&whole[..], &vec![0; crate::line::MAX_LINE], end.as_bytes()].concat()).unwrap();
        let refused = verify(folder.path(), None, |_| {}).unwrap_err();
        assert!(matches!(refused, AuditError::Damaged { line: 3, .. }), "{refused}");
        assert!(matches!(AuditLog::open(folder.path()), Err(AuditError::Damaged { line: 3, .. })));
    }
}

#[test]
fn devices_pipes_and_endless_files_are_not_read() {
    let folder = log_of(2, 1 << 20);
    let log = only_file(folder.path());
    for path in [folder.path().join("checkpoint.json"), folder.path().join("audit.key"), log.clone()] {
        let whole = fs::read(&path).unwrap();
        let make: [&dyn Fn(); 3] = [
            &|| std::os::unix::fs::symlink("/dev/zero", &path).unwrap(),
            &|| rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap(),
            &|| fs::File::create(&path).unwrap().set_len(10 << 30).unwrap(),
        ];
        for make in make {
            fs::remove_file(&path).unwrap();
            make();

            assert!(verify(folder.path(), None, |_| {}).is_err(), "{}", path.display());
            assert!(path != log || matches!(read_file(&log), Err(AuditError::File { .. })));
        }
        fs::remove_file(&path).unwrap();
        fs::write(&path, whole).unwrap();
    }
    assert!(verify(folder.path(), None, |_| {}).is_ok());
}

#[test]
fn an_entry_beyond_the_checkpoint_counts() {
    let folder = log_of(3, 1 << 20);
    let before = fs::read(folder.path().join("checkpoint.json")).unwrap();
    let (mut log, _) = AuditLog::open(folder.path()).unwrap();
    log.append(signed(3, 3, 3), NOW + 9).unwrap();
    drop(log);
    // As if the service had ended after the line and before its checkpoint.
    fs::write(folder.path().join("checkpoint.json"), before).unwrap();

    let (log, _) = AuditLog::open(folder.path()).unwrap();

    assert_eq!(log.memory().spent("salaries", 0).requests, 4);
}

#[test]
fn an_added_entry_that_the_key_has_not_signed_is_refused() {
    let (folder, other) = (log_of(3, 1 << 20), log_of(4, 1 << 20));
    let (log, _) = AuditLog::open(folder.path()).unwrap();
    let last = log.last();
    drop(log);
    let path = only_file(folder.path());
    let whole = fs::read(&path).unwrap();
    let forged = Line { time: NOW + 9, ..unsigned(last.0 + 1, last.1, signed(9, 9, 9)) };
    // Both logs have the same entries, but different keys.
    let text = fs::read_to_string(only_file(other.path())).unwrap();
    let foreign: Line = serde_json::from_str(text.lines().next_back().unwrap()).unwrap();
    for added in [forged, Line { previous: last.1, ..foreign }] {
        fs::write(&path, &whole).unwrap();
        add_lines(folder.path(), &[added]);

        let refused = verify(folder.path(), None, |_| {}).unwrap_err();
        assert!(matches!(refused, AuditError::Damaged { line: 4, .. }), "{refused}");
        assert!(matches!(AuditLog::open(folder.path()), Err(AuditError::Damaged { line: 4, .. })));
    }
}

#[test]
fn unsigned_lines_count_up_to_the_checkpoint() {
    let folder = log_of(0, 1 << 20);
    let first = unsigned(1, B256::ZERO, signed(1, 1, 1));
    let hash = crate::line::hash_of(&serde_json::to_vec(&first).unwrap());
    add_lines(folder.path(), &[first]);
    sealer(folder.path()).write(1, hash).unwrap();

    let (mut log, opened) = AuditLog::open(folder.path()).unwrap();
    assert_eq!(opened.report.entries, 1);
    log.append(signed(2, 2, 2), NOW).unwrap();
    drop(log);
    assert_eq!(verify(folder.path(), None, |_| {}).unwrap().entries, 2);
}

#[test]
fn only_one_process_at_a_time_uses_the_folder() {
    let folder = log_of(1, 1 << 20);
    let (_log, _) = AuditLog::open(folder.path()).unwrap();

    assert!(matches!(AuditLog::open(folder.path()), Err(AuditError::InUse(_))));
    assert_eq!(verify(folder.path(), None, |_| {}).unwrap().entries, 1, "a check does not need the lock");
}

#[test]
fn a_failed_write_ends_the_log() {
    let folder = log_of(1, 100);
    let (mut log, _) = AuditLog::open_with(folder.path(), 100).unwrap();
    // The next entry begins a file, but a folder has its name.
    fs::create_dir(crate::scan::path_of(folder.path(), 2)).unwrap();

    assert!(matches!(log.append(signed(1, 1, 1), NOW), Err(AuditError::File { .. })));
    assert!(matches!(log.append(signed(2, 2, 2), NOW), Err(AuditError::Broken)));
    assert_eq!(log.memory().spent("salaries", 0).requests, 1);
}

#[test]
fn an_entry_that_is_too_long_is_refused_and_the_log_stays_usable() {
    let folder = log_of(1, 1 << 20);
    let (mut log, _) = AuditLog::open(folder.path()).unwrap();

    let long = Step::Failed { request: 1, reason: "x".repeat(300_000) };
    assert!(matches!(log.append(long, NOW), Err(AuditError::TooLong(_))));
    log.append(Step::Failed { request: 1, reason: "\u{1b}[2J \"quoted\"\n".to_owned() }, NOW).unwrap();
    drop(log);
    assert_eq!(verify(folder.path(), None, |_| {}).unwrap().entries, 2);
}

#[test]
fn a_log_that_others_can_change_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let folder = log_of(1, 1 << 20);
    let parent = folder.path().parent().unwrap();
    let paths = [parent.to_owned(), folder.path().to_owned(), only_file(folder.path())];
    for path in paths.into_iter().chain(["audit.key", "lock", "checkpoint.json"].map(|name| folder.path().join(name))) {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        set(&path, mode | 0o022);
        let refused = AuditLog::open(folder.path()).map(|_| ()).unwrap_err();
        assert!(matches!(&refused, AuditError::Exposed { path: found, .. } if *found == path), "{refused}");
        set(&path, mode);
    }
    assert!(AuditLog::open(folder.path()).is_ok());
}

#[test]
fn secrets_of_the_log_are_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = log_of(1, 1 << 20);
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", entry.path());
    }
}

#[test]
fn the_same_transaction_again_spends_nothing_more() {
    let mut memory = Memory::default();
    for number in 1..4 {
        memory.take(&unsigned(number, B256::ZERO, signed(number, 7, 5)));
    }
    let spent = memory.spent("salaries", 0);
    assert_eq!(spent, Spent { value: U256::from(5), fee: U256::from(1), requests: 3 });
}

#[test]
fn nonces_that_leave_too_many_gaps_are_refused_and_others_stay_open() {
    let mut memory = Memory::default();
    for number in 0..10_000 {
        let nonce = 1_000_000 + 2 * number;
        memory.take(&unsigned(number, B256::ZERO, signed(number, nonce, 0)));
    }
    let check = |rule, nonce| memory.check_gaps(rule, (50, ACCOUNT, nonce));

    assert_eq!(check("salaries", 0), Err(GuardRefusal::Gaps));
    assert_eq!(check("salaries", 1_000_001), Ok(()), "next to one that was signed");
    assert_eq!(check("another rule", 0), Ok(()));
    assert_eq!(memory.signed_for_nonce(50, ACCOUNT, 0), None, "no far nonce closes a near one");
    assert_eq!(memory.signed_for_nonce(50, ACCOUNT, 1_000_002), Some(keccak256(1_000_002_u64.to_be_bytes())));
}

#[test]
fn a_round_is_signed_for_once_and_never_an_earlier_one() {
    let mut memory = Memory::default();
    for (number, entry) in [vote(7, 1), vote(9, 2)].into_iter().enumerate() {
        memory.take(&unsigned(number as u64 + 1, B256::ZERO, entry));
    }
    let check = |kind, round, hash| memory.check_round((ACCOUNT, kind), round, B256::repeat_byte(hash), NOW);

    assert_eq!(check(Kind::Vote, 10, 3), Ok(()));
    assert_eq!(check(Kind::Vote, 9, 2), Ok(()), "the same again");
    assert_eq!(check(Kind::Vote, 9, 3), Err(GuardRefusal::Round));
    assert_eq!(check(Kind::Vote, 8, 1), Err(GuardRefusal::LaterRound));
    assert_eq!(check(Kind::Timeout, 8, 1), Ok(()), "another kind");
}

#[test]
fn a_round_that_cannot_have_been_reached_is_refused() {
    let mut memory = Memory::default();
    memory.take(&unsigned(1, B256::ZERO, vote(7, 1)));
    let check = |round, seconds| memory.check_round((ACCOUNT, Kind::Vote), round, B256::ZERO, NOW + seconds);

    assert_eq!(check(1_007, 0), Ok(()));
    assert_eq!(check(1_008, 0), Err(GuardRefusal::RoundAhead));
    assert_eq!(check(1_207, 100), Ok(()), "two rounds a second");
    assert_eq!(check(u64::MAX, 86_400), Err(GuardRefusal::RoundAhead));
}

#[test]
fn a_file_that_is_moved_while_it_is_written_ends_the_log() {
    for moved in ["lock", "log"] {
        let folder = Folder::new();
        let (mut log, _) = AuditLog::open(folder.path()).unwrap();
        log.append(signed(1, 1, 1), NOW).unwrap();
        let path = if moved == "lock" { folder.path().join("lock") } else { only_file(folder.path()) };
        fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        fs::write(&path, b"").unwrap();

        let refused = log.append(signed(2, 2, 2), NOW).unwrap_err();

        assert!(matches!(&refused, AuditError::Replaced(found) if *found == path), "{refused}");
    }
}

/// Ways to tamper with a log.
#[derive(Clone, Debug)]
enum Change {
    Byte { place: usize, value: u8 },
    RemoveLine(usize),
    SwapLines(usize, usize),
    RepeatLine(usize),
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(place, value)| Change::Byte { place, value }),
        (0..6_usize).prop_map(Change::RemoveLine),
        (0..6_usize, 0..6_usize).prop_map(|(one, other)| Change::SwapLines(one, other)),
        (0..6_usize).prop_map(Change::RepeatLine),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_change_is_found(change in changes()) {
        let folder = log_of(6, 1 << 20);
        let path = only_file(folder.path());
        let whole = fs::read(&path).unwrap();
        let mut lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
        let changed = match change {
            Change::Byte { place, value } => {
                let mut changed = whole.clone();
                let place = place % changed.len();
                changed[place] = value;
                changed
            }
            Change::RemoveLine(line) => { lines.remove(line); lines.concat() }
            Change::SwapLines(one, other) => { lines.swap(one, other); lines.concat() }
            Change::RepeatLine(line) => { lines.insert(line, lines[line]); lines.concat() }
        };
        let is_changed = changed != whole;
        fs::write(&path, changed).unwrap();

        prop_assert_eq!(AuditLog::open(folder.path()).is_err(), is_changed);
    }
}
