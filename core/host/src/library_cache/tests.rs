//! Tests of the cache of plugin libraries.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    cell::{Cell, RefCell},
    io::Seek,
    os::unix::fs::{MetadataExt, symlink},
    time::SystemTime,
};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

/// The smallest file that is accepted as a library for this machine, with a name inside.
fn library(name: &str) -> Vec<u8> {
    let machine: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    let mut bytes = vec![0; 64];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    bytes[16] = 3;
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes.extend_from_slice(name.as_bytes());
    bytes
}

struct CacheFixture {
    folder: tempfile::TempDir,
    cache: LibraryCache,
}

impl CacheFixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cache = LibraryCache::new(folder.path().join("cache"));
        Self { folder, cache }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str) -> PathBuf {
        fs::write(self.path(name), library(name)).unwrap();
        self.path(name)
    }

    /// The names of the files in the cache.
    fn copies(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("cache")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }
}

/// Runs a function once, at one of the steps.
struct At<F>(&'static str, RefCell<Option<F>>);

impl<F: FnOnce()> At<F> {
    fn new(step: &'static str, deed: F) -> Self {
        Self(step, RefCell::new(Some(deed)))
    }

    fn reach(&self, step: &str) {
        if step == self.0 {
            self.1.take().unwrap()();
        }
    }
}

impl<F: FnOnce()> Steps for At<F> {
    fn opened(&self) {
        self.reach("opened");
    }

    fn checked(&self) {
        self.reach("checked");
    }
}

/// Simulates other owners than the file system has: tests run as one user, and often as root.
struct OwnedBy<F>(F);

impl<F: Fn(Ownership) -> Ownership> Steps for OwnedBy<F> {
    fn ownership(&self, facts: &fs::Metadata) -> Ownership {
        (self.0)(Ownership::of(facts))
    }
}

#[test]
fn files_and_folders_of_other_owners_are_refused_by_number_and_leave_nothing_behind() {
    let fixture = CacheFixture::new();
    let path = fixture.write("good.so");
    let own = fs::metadata(&path).unwrap();
    let (user, group) = (own.uid(), own.gid());
    type Case = (fn(Ownership) -> Ownership, String);
    let cases: [Case; 6] = [
        (
            |facts| if facts.is_folder { facts } else { Ownership { user: 4711, ..facts } },
            format!("it belongs to user 4711, neither to root nor to the user of the node ({user}); chown it"),
        ),
        (
            |facts| if facts.is_folder { Ownership { user: 4711, ..facts } } else { facts },
            format!("its folder belongs to user 4711, neither to root nor to the user of the node ({user}); chown it"),
        ),
        (
            |facts| if facts.is_folder { facts } else { Ownership { mode: 0o100_666, ..facts } },
            "it is writable by everyone (mode 666); chmod o-w".to_owned(),
        ),
        (
            |facts| if facts.is_folder { Ownership { mode: 0o40_777, ..facts } } else { facts },
            "its folder is writable by everyone (mode 777); chmod o-w".to_owned(),
        ),
        (
            |facts| if facts.is_folder { facts } else { Ownership { mode: 0o100_664, group: 4712, ..facts } },
            "it is writable by group 4712 (mode 664); chmod g-w".to_owned(),
        ),
        (
            |facts| if facts.is_folder { Ownership { mode: 0o40_775, group: 4712, ..facts } } else { facts },
            "its folder is writable by group 4712 (mode 775); chmod g-w".to_owned(),
        ),
    ];
    for (seen, words) in cases {
        let refused = fixture.cache.check_and_copy_with(&path, None, &OwnedBy(seen)).unwrap_err();

        assert_eq!(refused.to_string(), format!("plugin {}: refused: {words}", path.display()));
        assert!(fixture.copies().is_empty());
    }
    // Accepted: folders of root and of the node's user, folders that the node's own group may write to, and folders
    // such as /tmp that all users may write to.
    for (user, group, mode) in [(0, 0, 0o755), (user, 4712, 0o755), (user, group, 0o775), (0, 4712, 0o1777)] {
        let seen = |facts: Ownership| if facts.is_folder { Ownership { user, group, mode, ..facts } } else { facts };
        fixture.cache.check_and_copy_with(&path, None, &OwnedBy(seen)).unwrap();
    }
}

#[test]
fn a_link_that_is_redirected_between_check_and_copy_has_no_effect() {
    for step in ["opened", "checked"] {
        let fixture = CacheFixture::new();
        let (good, evil, link) = (fixture.write("good.so"), fixture.write("evil.so"), fixture.path("link.so"));
        symlink(&good, &link).unwrap();
        let turn = At::new(step, || {
            fs::remove_file(&link).unwrap();
            symlink(&evil, &link).unwrap();
        });

        let taken = fixture.cache.check_and_copy_with(&link, None, &turn).unwrap();

        assert_eq!(fs::read(&taken.copy).unwrap(), library("good.so"), "{step}: what was opened is what is loaded");
        assert_eq!(fs::read(&link).unwrap(), library("evil.so"));
        assert_eq!(taken.hash, hex::encode(Sha256::digest(library("good.so"))));
    }
}

#[test]
fn a_file_that_is_written_between_check_and_copy_is_refused_also_when_its_time_is_turned_back() {
    for is_time_turned_back in [false, true] {
        let fixture = CacheFixture::new();
        let path = fixture.write("good.so");
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        let spoil = At::new("checked", || {
            let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
            file.seek(io::SeekFrom::Start(64)).unwrap();
            file.write_all(b"evil").unwrap();
            file.set_modified(if is_time_turned_back { before } else { SystemTime::now() }).unwrap();
        });

        let refused = fixture.cache.check_and_copy_with(&path, None, &spoil).unwrap_err().to_string();

        assert!(refused.ends_with("refused: it is being written; try again"), "{refused}");
        assert!(fixture.copies().is_empty(), "{:?}", fixture.copies());
    }
}

#[test]
fn a_copy_whose_content_is_not_what_its_name_says_is_made_again() {
    let fixture = CacheFixture::new();
    let path = fixture.write("good.so");
    let copy = fixture.cache.check_and_copy(&path, None).unwrap().copy;
    fs::write(&copy, "something else").unwrap();

    let again = fixture.cache.check_and_copy(&path, None).unwrap();
    let elsewhere = LibraryCache::new(fixture.path("cache")).check_and_copy(&path, None).unwrap();

    assert_eq!(fs::read(&copy).unwrap(), library("good.so"));
    assert_eq!((&again, &elsewhere), (&elsewhere, &again));
    assert_eq!(fixture.copies().len(), 1);
}

#[test]
fn a_pipe_in_place_of_a_copy_is_replaced() {
    let fixture = CacheFixture::new();
    let path = fixture.write("good.so");
    let copy = fixture.cache.check_and_copy(&path, None).unwrap().copy;
    fs::remove_file(&copy).unwrap();
    mknodat(CWD, &copy, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();

    fixture.cache.check_and_copy(&path, None).unwrap();

    assert_eq!(fs::read(&copy).unwrap(), library("good.so"));
}

/// Counts the pieces.
#[derive(Default)]
struct Pieces(Cell<usize>);

impl Steps for Pieces {
    fn piece(&self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn copying_reading_and_comparing_yield_after_each_piece() {
    let fixture = CacheFixture::new();
    let path = fixture.write("long.so");
    let mut bytes = library("long.so");
    bytes.resize(2 * PIECE + 1, 7);
    fs::write(&path, bytes).unwrap();
    let pieces_of = |cache: &LibraryCache| {
        let pieces = Pieces::default();
        cache.check_and_copy_with(&path, None, &pieces).unwrap();
        pieces.0.get()
    };

    let copied = pieces_of(&fixture.cache);
    let read = pieces_of(&fixture.cache);
    let copied_and_compared = pieces_of(&LibraryCache::new(fixture.path("cache")));

    assert_eq!((copied, read, copied_and_compared), (3, 3, 6));
}

#[test]
fn a_build_that_comes_back_finds_its_copy_and_what_is_mapped_is_kept() {
    let fixture = CacheFixture::new();
    let path = fixture.write("good.so");
    let first = fixture.cache.check_and_copy(&path, None).unwrap();
    fixture.cache.note_mapped(&first.copy);
    let inode = || fs::metadata(&first.copy).unwrap().ino();
    let before = inode();
    fs::write(&path, library("evil")).unwrap();
    let second = fixture.cache.check_and_copy(&path, None).unwrap();

    assert!(!fixture.cache.has_unused(std::slice::from_ref(&second.copy)), "nothing to remove");
    fixture.cache.remove_unused(std::slice::from_ref(&second.copy));
    fs::write(&path, library("good.so")).unwrap();
    let again = fixture.cache.check_and_copy(&path, None).unwrap();

    assert_ne!(first.hash, second.hash);
    assert_eq!((again, inode()), (first.clone(), before), "the same file, not written again");
    assert_eq!(fixture.copies().len(), 2);
}

#[test]
fn removes_unused_and_unfinished_copies() {
    let fixture = CacheFixture::new();
    let used = fixture.cache.check_and_copy(&fixture.write("good.so"), None).unwrap().copy;
    fixture.cache.check_and_copy(&fixture.write("other.so"), None).unwrap();
    fs::write(fixture.path("cache").join("good.17.new"), "half").unwrap();
    fs::write(fixture.path("cache").join("mine.txt"), "not a copy").unwrap();

    fixture.cache.remove_unused(std::slice::from_ref(&used));

    let mut left = fixture.copies();
    left.sort();
    assert_eq!(left, [used.file_name().unwrap().to_str().unwrap(), "mine.txt"]);
}
