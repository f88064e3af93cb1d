//! A list of tables, or a log, with a missing part is refused by name: the engine itself would silently open without
//! the tables.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;
use tenon_api::{ChainReader as _, EngineRecords as _};
use tenon_storage::{Mode, OpenError, Store, StoreOptions, TableListProblem};

use crate::{
    crash::{chain, copy_folder},
    damaged_files::{Ending, ending},
    support::{Maker, Writes as _, assert_whole, fill, open, options, overwrite},
};

/// A folder as left by a killed process: tables, and blocks that are only in the log.
fn killed(maker: &Maker) -> TempDir {
    let (original, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(original.path(), Mode::Archive);
    fill(&store, &maker.commits[..20]);
    store.flush().unwrap();
    maker.commits[20..40].iter().for_each(|commit| store.commit(commit).unwrap());
    loop {
        copy_folder(original.path(), copy.path());
        if fs::metadata(list_of(copy.path())).unwrap().len() == recorded_length(copy.path()) {
            return copy;
        }
        // A merge ran in the background since; the next write records it.
        std::thread::sleep(Duration::from_millis(10));
        store.put("anything", b"").unwrap();
    }
}

/// The list's length according to the record.
fn recorded_length(folder: &Path) -> u64 {
    fs::read_to_string(folder.join("TABLES")).unwrap().split(' ').nth(1).unwrap().parse().unwrap()
}

/// A folder that was closed.
fn closed(maker: &Maker) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fill(&open(folder.path(), Mode::Archive), &maker.commits[..40]);
    folder
}

fn copy_of(folder: &TempDir) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_folder(folder.path(), copy.path());
    copy
}

fn list_of(folder: &Path) -> PathBuf {
    folder.join(fs::read_to_string(folder.join("CURRENT")).unwrap().trim_end())
}

/// The logs, oldest first.
fn logs(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut logs: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "log")).collect();
    logs.sort();
    logs
}

/// Every file with its bytes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn shorten(file: &Path, left: u64) {
    fs::OpenOptions::new().write(true).open(file).unwrap().set_len(left).unwrap();
}

/// The problem for which a folder is refused.
fn problem(folder: &Path) -> TableListProblem {
    match Store::open(folder, options(Mode::Archive)) {
        Err(OpenError::TableList { path, problem }) if path == folder => problem,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was opened"),
    }
}

#[test]
fn a_list_truncated_at_any_byte_is_refused_with_both_lengths_and_nothing_is_changed() {
    let maker = chain();
    for folder in [killed(&maker), closed(&maker)] {
        let list = list_of(folder.path());
        let whole = fs::read(&list).unwrap();
        let name = list.file_name().unwrap().to_string_lossy().into_owned();
        let known = recorded_length(folder.path());
        assert_eq!(known, whole.len() as u64);
        let before = contents(folder.path());

        for left in (0..known).rev() {
            shorten(&list, left);
            let torn = TableListProblem::Torn { file: name.clone(), found: left, known };
            assert_eq!(problem(folder.path()), torn);
        }

        fs::write(&list, &whole).unwrap();
        assert_eq!(contents(folder.path()), before, "{name}");
        println!("{known} lengths of {name} refused");
        assert_eq!(ending(folder.path(), &maker), Ending::Whole);
    }
}

#[test]
fn a_modified_list_or_a_missing_one_is_refused() {
    let maker = chain();
    let folder = closed(&maker);
    let list = list_of(folder.path());
    let name = list.file_name().unwrap().to_string_lossy().into_owned();
    let whole = fs::read(&list).unwrap();
    let known = whole.len() as u64;

    // Zeros instead of the end: the engine skips them.
    let mut zeroed = whole.clone();
    zeroed[whole.len() / 2..].fill(0);
    fs::write(&list, zeroed).unwrap();
    assert_eq!(problem(folder.path()), TableListProblem::Changed { file: name.clone(), known });
    fs::remove_file(&list).unwrap();
    assert_eq!(problem(folder.path()), TableListProblem::Torn { file: name, found: 0, known });
    fs::write(&list, whole).unwrap();
    assert_eq!(ending(folder.path(), &maker), Ending::Whole);
}

#[test]
fn an_older_list_or_none_is_refused() {
    let maker = chain();
    let folder = closed(&maker);
    let older = copy_of(&folder);
    drop(open(folder.path(), Mode::Archive));
    let (old, new) = (list_of(older.path()), list_of(folder.path()));
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    assert_ne!(name(&old), name(&new));

    fs::copy(&old, folder.path().join(old.file_name().unwrap())).unwrap();
    fs::copy(older.path().join("CURRENT"), folder.path().join("CURRENT")).unwrap();
    assert_eq!(problem(folder.path()), TableListProblem::Older { found: name(&old), known: name(&new) });
    fs::remove_file(folder.path().join("CURRENT")).unwrap();
    let unnamed = TableListProblem::Unnamed { list: Some(name(&new)) };
    assert_eq!(problem(folder.path()), unnamed);
    // Also without a record: the engine would create a new database over the old tables.
    fs::remove_file(folder.path().join("TABLES")).unwrap();
    // Either list may be the right one.
    assert_eq!(problem(folder.path()), TableListProblem::Unnamed { list: None });
    fs::remove_file(folder.path().join(name(&old))).unwrap();
    assert_eq!(problem(folder.path()), unnamed);
    let refusal = Store::open(folder.path(), options(Mode::Archive)).unwrap_err().to_string();
    let command = format!("echo {} > '{}/CURRENT'", name(&new), folder.path().display());
    assert!(refusal.contains(&command), "{refusal}");
    fs::write(folder.path().join("CURRENT"), format!("{}\n", name(&new))).unwrap();
    assert_eq!(ending(folder.path(), &maker), Ending::Whole);
}

#[test]
fn a_missing_damaged_or_older_record_refuses_nothing_and_is_rewritten() {
    let maker = chain();
    let folder = killed(&maker);
    let record = fs::read(folder.path().join("TABLES")).unwrap();
    let flipped: Vec<u8> = record.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at == 20)).collect();
    // As left by a process that was killed before it recorded the list of this opening.
    let older = fs::read(closed(&maker).path().join("TABLES")).unwrap();
    for record in [None, Some(&[][..]), Some(&record[..record.len() / 2]), Some(&flipped), Some(&older)] {
        let copy = copy_of(&folder);
        let path = copy.path().join("TABLES");
        match record {
            Some(record) => fs::write(&path, record).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }

        // A record of another list with the same name does not match this one.
        if record == Some(&older) {
            let list = list_of(copy.path());
            let later = copy.path().join("MANIFEST-000900");
            fs::rename(list, &later).unwrap();
            fs::write(copy.path().join("CURRENT"), "MANIFEST-000900\n").unwrap();
        }
        assert_eq!(ending(copy.path(), &maker), Ending::Whole, "{record:?}");

        let list = list_of(copy.path());
        let known = fs::metadata(&list).unwrap().len();
        shorten(&list, known - 1);
        assert!(matches!(problem(copy.path()), TableListProblem::Torn { known: of, .. } if of == known));
    }
}

#[test]
fn a_truncated_database_opens_after_the_operator_removes_the_record() {
    let maker = chain();
    let folder = closed(&maker);
    let list = list_of(folder.path());
    shorten(&list, fs::metadata(&list).unwrap().len() / 2);
    let refused = Store::open(folder.path(), options(Mode::Archive)).unwrap_err().to_string();
    assert!(
        refused.contains("remove") && refused.contains("TABLES") && refused.contains("nothing was changed"),
        "{refused}"
    );

    fs::remove_file(folder.path().join("TABLES")).unwrap();

    let opened = Store::open(folder.path(), options(Mode::Archive));
    assert!(!matches!(opened, Err(OpenError::TableList { .. })), "{opened:?}");
}

#[test]
fn a_record_that_cannot_be_written_blocks_no_commit() {
    let maker = chain();
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("TABLES.new")).unwrap();
    let store = open(folder.path(), Mode::Archive);
    fill(&store, &maker.commits[..20]);
    store.flush().unwrap();
    assert!(!folder.path().join("TABLES").exists());

    // Space is available again: later writes are recorded, without a restart.
    fs::remove_dir(folder.path().join("TABLES.new")).unwrap();
    maker.commits[20..40].iter().for_each(|commit| store.commit(commit).unwrap());
    store.flush().unwrap();
    assert!(folder.path().join("TABLES").exists());
    drop(store);

    assert_eq!(ending(folder.path(), &maker), Ending::Whole);
}

/// A folder with several logs, whose store is open: memory tables so small that the columns are flushed at different
/// times.
fn with_several_logs(maker: &Maker) -> (TempDir, Arc<Store>) {
    let folder = tempfile::tempdir().unwrap();
    let small = StoreOptions { write_buffer_bytes: 256 << 10, ..options(Mode::Archive) };
    let store = Store::open(folder.path(), small).unwrap();
    fill(&store, &maker.commits[..40]);
    (folder, store)
}

/// Opens a copy of a folder whose log at this position is missing, or truncated to this length.
fn without_log(folder: &TempDir, at: usize, left: Option<u64>, maker: &Maker) -> Ending {
    let copy = copy_of(folder);
    let log = &logs(copy.path())[at];
    match left {
        None => fs::remove_file(log).unwrap(),
        Some(left) => shorten(log, left),
    }
    ending(copy.path(), maker)
}

#[test]
fn a_missing_or_truncated_older_log_is_refused_and_a_truncated_newest_one_leaves_a_whole_block() {
    let maker = chain();
    let (open, _store) = with_several_logs(&maker);
    // The engine records closed logs once it has synced them, which it does in the background.
    let folder = (0..600).find_map(|_| {
        let copy = copy_of(&open);
        let logs = logs(copy.path());
        let is_known = logs.len() > 2 && {
            let last_closed = logs.len() - 2;
            let length = fs::metadata(&logs[last_closed]).unwrap().len();
            without_log(&copy, last_closed, Some(length - 1), &maker) == Ending::Refused
        };
        if !is_known {
            std::thread::sleep(Duration::from_millis(50));
        }
        is_known.then_some(copy)
    });
    let folder = folder.unwrap_or_else(|| panic!("closed logs are not known to the engine"));
    let lengths: Vec<u64> = logs(folder.path()).iter().map(|log| fs::metadata(log).unwrap().len()).collect();

    let (newest, older) = lengths.split_last().unwrap();
    for (at, length) in older.iter().enumerate() {
        for left in [None, Some(0), Some(length / 2), Some(length - 1)] {
            assert_eq!(without_log(&folder, at, left, &maker), Ending::Refused, "log {at}, {left:?} of {length} bytes");
        }
    }
    for left in [0, newest / 2, newest - 1] {
        assert_eq!(without_log(&folder, older.len(), Some(left), &maker), Ending::Whole, "{left} of {newest} bytes");
    }
    println!("{} older logs, each missing or shorter: refused", older.len());
}

#[test]
fn a_hole_among_the_last_blocks_is_refused_with_its_height() {
    let maker = chain();
    for missing in [0, 3, 38] {
        let folder = closed(&maker);
        overwrite(folder.path(), "canonical", &u64::to_be_bytes(missing), None);

        let refused = Store::open(folder.path(), options(Mode::Archive)).unwrap_err().to_string();

        let words = format!("block {missing} of the chain is missing; the head is block 39");
        assert!(refused.contains(&words), "{refused}");
    }
}

#[test]
fn removing_the_newest_log_of_a_running_node_is_detected_after_a_kill() {
    let maker = chain();
    let (folder, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // With large memory tables, so that all blocks are in the log only.
    let store = Store::open(folder.path(), StoreOptions::with_cache(64 << 20)).unwrap();
    fill(&store, &maker.commits[..20]);
    let log = logs(folder.path()).pop().unwrap();

    fs::remove_file(&log).unwrap();
    maker.commits[20..40].iter().for_each(|commit| store.commit(commit).unwrap());

    copy_folder(folder.path(), copy.path());
    let file = log.file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(problem(copy.path()), TableListProblem::LogMissing { file });
    // A node that is stopped writes everything elsewhere.
    store.flush().unwrap();
    drop(store);
    assert_eq!(open(folder.path(), Mode::Archive).head().header.number, 39);
}

#[test]
fn removing_the_newest_log_is_detected() {
    let maker = chain();
    let folder = killed(&maker);
    let log = logs(folder.path()).pop().unwrap();

    fs::remove_file(&log).unwrap();

    let file = log.file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(problem(folder.path()), TableListProblem::LogMissing { file });
}

#[test]
fn a_database_that_is_repeatedly_opened_and_closed_is_never_refused() {
    let maker = chain();
    let folder = tempfile::tempdir().unwrap();
    let small = || StoreOptions { write_buffer_bytes: 256 << 10, ..options(Mode::Archive) };
    for part in maker.commits.chunks(3) {
        let store = Store::open(folder.path(), small()).unwrap();
        for commit in part {
            match store.chain() {
                None => store.initialise(commit, crate::support::CHAIN_ID).unwrap(),
                Some(_) => store.commit(commit).unwrap(),
            }
            // Simulates a kill at this instant.
            let copy = tempfile::tempdir().unwrap();
            copy_folder(folder.path(), copy.path());
            let copied = Store::open(copy.path(), small()).unwrap();
            assert_eq!(copied.head().header.hash(), commit.block.hash());
        }
        assert_whole(&store);
    }
}
