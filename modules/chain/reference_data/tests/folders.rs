//! Tests with folders written by the reference (`tests/data/native/chaindata`), intact and damaged.

#![allow(clippy::unwrap_used, reason = "a failure fails the test")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tenon_api::Block;
use tenon_chain::BlockStream;
use tenon_reference_data::{Part, ReferenceChain, ReferenceDataError};
use tenon_test_data::unpacked;

/// A reference node's data folder.
fn folder(chain: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let archive = unpacked(format!("native/chaindata/{chain}.tar.gz"));
    tar::Archive::new(&archive[..]).unpack(folder.path().join("XDC")).unwrap();
    folder
}

fn database(folder: &TempDir) -> PathBuf {
    folder.path().join("XDC/chaindata")
}

/// The blocks of the same chain, exported by the reference.
fn recorded(chain: &str) -> Vec<Block> {
    BlockStream::new(&unpacked(format!("native/chains/{chain}.rlp.gz"))[..]).collect::<Result<_, _>>().unwrap()
}

/// Name, time and hash of every file.
fn state_of(folder: &Path) -> BTreeMap<PathBuf, (std::time::SystemTime, Vec<u8>)> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files
        .map(|path| {
            let modified = fs::metadata(&path).unwrap().modified().unwrap();
            let hash = Sha256::digest(fs::read(&path).unwrap()).to_vec();
            (path, (modified, hash))
        })
        .collect()
}

fn tables(folder: &TempDir) -> Vec<PathBuf> {
    let files = fs::read_dir(database(folder)).unwrap().map(|file| file.unwrap().path());
    let mut tables: Vec<_> = files.filter(|path| path.extension().is_some_and(|name| name == "ldb")).collect();
    tables.sort();
    tables
}

/// Reads all blocks of a folder, up to the first error.
fn read_all(folder: &TempDir) -> Result<Vec<Block>, ReferenceDataError> {
    ReferenceChain::open(folder.path())?.blocks(0).collect()
}

#[test]
fn a_folder_has_the_blocks_that_the_reference_exported() {
    for chain in ["local", "reorg-a"] {
        let folder = folder(chain);
        let before = state_of(&database(&folder));
        let recorded = recorded(chain);
        let last = recorded.last().unwrap().header.clone();

        let read = ReferenceChain::open(folder.path()).unwrap();
        assert_eq!(read.head(), (last.number, last.hash()), "{chain}");
        assert_eq!(read.genesis_hash(), recorded.first().unwrap().header.hash());
        assert_eq!(read.canonical_hash(7).unwrap(), Some(recorded.get(7).unwrap().header.hash()));
        assert_eq!(read.canonical_hash(last.number + 1).unwrap(), None);
        let blocks: Vec<Block> = read.blocks(0).collect::<Result<_, _>>().unwrap();
        assert!(blocks == recorded, "{chain}");
        let rest: Vec<Block> = read.blocks(last.number - 3).collect::<Result<_, _>>().unwrap();
        assert_eq!(rest, recorded.get(recorded.len() - 4..).unwrap());
        assert_eq!(read.blocks(last.number + 1).count(), 0);
        drop((read, blocks));

        assert_eq!(state_of(&database(&folder)), before, "{chain}: the folder was written to");
    }
}

#[test]
fn a_folder_is_found_from_each_of_its_parents() {
    let folder = folder("reorg-a");
    for place in ["", "XDC", "XDC/chaindata"] {
        assert!(ReferenceChain::open(&folder.path().join(place)).is_ok(), "{place}");
    }
    let nothing = ReferenceChain::open(&folder.path().join("XDC/chaindata/none")).err().unwrap();
    assert!(matches!(nothing, ReferenceDataError::NotFound { .. }), "{nothing}");
}

#[test]
fn a_folder_that_a_node_has_open_is_refused_and_a_folder_being_read_is_locked() {
    let folder = folder("reorg-a");
    let lock = File::open(database(&folder).join("LOCK")).unwrap();
    lock.lock().unwrap();
    let refused = ReferenceChain::open(folder.path()).err().unwrap();
    assert!(matches!(refused, ReferenceDataError::InUse { .. }), "{refused}");
    assert!(refused.to_string().contains("stop that node"), "{refused}");
    lock.unlock().unwrap();

    let _open = ReferenceChain::open(folder.path()).unwrap();
    assert!(lock.try_lock().is_err());
}

#[test]
fn a_changed_byte_is_an_error_that_names_its_file_and_never_shortens_the_chain() {
    let blocks = read_all(&folder("reorg-a")).unwrap().len();
    let mut seen = 0;
    for table in 0..tables(&folder("reorg-a")).len() {
        for part in [3, 5, 8] {
            let folder = folder("reorg-a");
            let path = tables(&folder).get(table).unwrap().clone();
            let mut content = fs::read(&path).unwrap();
            let place = content.len() / 10 * part;
            *content.get_mut(place).unwrap() ^= 0x40;
            fs::write(&path, content).unwrap();

            match read_all(&folder) {
                // The changed byte was in a state or a receipt.
                Ok(read) => assert_eq!(read.len(), blocks),
                Err(error) => {
                    let text = error.to_string();
                    assert!(matches!(error, ReferenceDataError::Damaged { .. }), "{text}");
                    assert!(text.contains(path.file_name().unwrap().to_str().unwrap()), "{text}");
                    assert!(text.contains("checksum of the block at byte"), "{text}");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 0, "no change hit a block's table");
}

#[test]
fn a_truncated_or_missing_table_is_named() {
    for keep in [0.0, 0.001, 0.5, 0.99] {
        let folder = folder("reorg-a");
        for path in tables(&folder) {
            let length = fs::metadata(&path).unwrap().len() as f64;
            OpenOptions::new().write(true).open(&path).unwrap().set_len((length * keep) as u64).unwrap();
        }
        let error = read_all(&folder).err().unwrap();
        assert!(matches!(error, ReferenceDataError::Damaged { .. }), "{keep}: {error}");
    }
    let folder = folder("reorg-a");
    fs::remove_file(tables(&folder).first().unwrap()).unwrap();
    let error = read_all(&folder).err().unwrap();
    let wanted = ["missing live files", "the file is missing"];
    assert!(wanted.iter().any(|wanted| error.to_string().contains(wanted)), "{error}");
}

#[test]
fn a_truncated_log_shortens_the_chain_or_names_the_missing_record() {
    let folder = folder("reorg-a");
    let whole = recorded("reorg-a");
    let logs = fs::read_dir(database(&folder)).unwrap().map(|file| file.unwrap().path());
    let log = logs.into_iter().find(|path| path.extension().is_some_and(|name| name == "log")).unwrap();
    let content = fs::read(&log).unwrap();
    for part in 0..10 {
        fs::write(&log, content.get(..content.len() * part / 10).unwrap()).unwrap();
        match read_all(&folder) {
            // As after a crash of the node: the missing records are those of the last blocks.
            Ok(read) => assert_eq!(read, whole.get(..read.len()).unwrap()),
            Err(ReferenceDataError::Missing { part, .. }) => {
                assert!(matches!(part, Part::Header | Part::Body | Part::CanonicalHash))
            }
            Err(error) => assert!(matches!(error, ReferenceDataError::NoHead { .. }), "{error}"),
        }
    }
}

#[test]
fn a_missing_log_that_the_manifest_needs_is_named() {
    for chain in ["local", "reorg-a"] {
        let folder = folder(chain);
        let logs = fs::read_dir(database(&folder)).unwrap().map(|file| file.unwrap().path());
        let log = logs.filter(|path| path.extension().is_some_and(|name| name == "log")).max().unwrap();
        fs::remove_file(&log).unwrap();

        let error = ReferenceChain::open(folder.path()).err().unwrap();

        let is_named =
            matches!(&error, ReferenceDataError::Damaged { path, .. } if path.ends_with(log.file_name().unwrap()));
        assert!(is_named && error.to_string().contains("missing"), "{error}");
    }
}

#[test]
fn noise_in_every_file_is_an_error_and_never_a_block() {
    let whole = recorded("reorg-a");
    for seed in 0_u32..40 {
        let folder = folder("reorg-a");
        let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        for file in fs::read_dir(database(&folder)).unwrap().map(|file| file.unwrap().path()) {
            let mut content = fs::read(&file).unwrap();
            for _ in 0..content.len() / 20_000 + 1 {
                let place = next() as usize % content.len().max(1);
                if let Some(byte) = content.get_mut(place) {
                    *byte = next() as u8;
                }
            }
            fs::write(&file, content).unwrap();
        }
        let Ok(read) = ReferenceChain::open(folder.path()) else { continue };
        for (block, recorded) in read.blocks(0).map_while(Result::ok).zip(&whole) {
            assert!(block == *recorded, "seed {seed}");
        }
    }
}
