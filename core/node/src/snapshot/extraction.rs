//! Reads snapshots in one file: extracts its parts, and compares them with the list, which its writer places last.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Take, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use tenon_api::B256;

use super::gzip_members::GzipMembers;
use super::hashed::Hashed;
use super::parts::{ListedParts, SnapshotRequirements, interrupted};
use crate::backup::{self, GENESIS, MAX_FILES, Manifest};
use crate::backup_source::{MANIFEST, Source};
use crate::bounded_file;
use crate::exit::Stop;
use crate::synced_files::failed;

/// Maximum number of bytes of content per byte of the file, in addition to [`FREE_EXPANSION`]. Tables hardly shrink
/// further, because they are already compressed.
const MAX_EXPANSION: u64 = 64;
const FREE_EXPANSION: u64 = 64 << 20;
/// Maximum sizes of the list and of the genesis file: those of [`bounded_file`].
const MAX_LIST: u64 = 64 << 20;
const MAX_GENESIS: u64 = 256 << 20;

/// The content of a snapshot's file.
type Content = Take<GzipMembers<BufReader<File>>>;
/// One part of it.
type Part<'a> = tar::Entry<'a, Content>;

/// Extracts the parts of the database into a folder, and compares every part with the list. The files are not synced to
/// disk. After an error the folder may contain some of them.
///
/// # Errors
/// As [`super::verify`].
pub(super) fn take(
    source: Source<'_>,
    place: &Path,
    requirements: &SnapshotRequirements<'_>,
) -> Result<ListedParts, Stop> {
    // The list may name `MAX_FILES` parts, and is itself a part.
    Archive { source, requirements, max_parts: MAX_FILES + 1 }.take(place)
}

/// A snapshot in one file.
struct Archive<'a> {
    source: Source<'a>,
    requirements: &'a SnapshotRequirements<'a>,
    max_parts: usize,
}

/// What was read of an archive.
#[derive(Default)]
struct Extracted {
    /// Length and hash of each part, by its path.
    parts: BTreeMap<String, (u64, B256)>,
    list: Option<Vec<u8>>,
    genesis: Vec<u8>,
}

impl Archive<'_> {
    fn take(&self, place: &Path) -> Result<ListedParts, Stop> {
        let mut extracted = self.extract(place)?;
        let list = extracted.list.take().ok_or_else(|| self.damaged(MANIFEST, "is missing: the file is incomplete"))?;
        let manifest = Manifest::parse(self.source, &list)?;
        self.compare(&manifest, extracted.parts)?;
        let (genesis_text, genesis) = manifest.checked_genesis(self.source, extracted.genesis)?;
        Ok(ListedParts { manifest, genesis_text, genesis })
    }

    fn open(&self) -> Result<tar::Archive<Content>, Stop> {
        let path = self.source.path;
        let file = bounded_file::regular(path).map_err(failed(path))?;
        let length = file.metadata().map_err(failed(path))?.len();
        let max = length.saturating_mul(MAX_EXPANSION).saturating_add(FREE_EXPANSION);
        let members = GzipMembers::new(BufReader::with_capacity(1 << 20, file));
        Ok(tar::Archive::new(members.take(max)))
    }

    /// Reads the whole archive.
    fn extract(&self, place: &Path) -> Result<Extracted, Stop> {
        let mut archive = self.open()?;
        let (mut extracted, mut buffer) = (Extracted::default(), vec![0; 1 << 20]);
        // Raw entries: the library's other iterator reads long names into memory without a limit, from separate headers
        // of GNU and POSIX tar. A snapshot has no such names.
        for part in archive.entries().map_err(self.unreadable())?.raw(true) {
            if (self.requirements.is_interrupted)() {
                return Err(interrupted());
            }
            self.extract_part(part.map_err(self.unreadable())?, place, &mut extracted, &mut buffer)?;
        }
        self.check_end(archive.into_inner(), &mut buffer)?;
        Ok(extracted)
    }

    fn extract_part(
        &self,
        part: Part<'_>,
        place: &Path,
        extracted: &mut Extracted,
        buffer: &mut [u8],
    ) -> Result<(), Stop> {
        let path = part.path().map_err(self.unreadable())?.to_string_lossy().into_owned();
        if !part.header().entry_type().is_file() || !(backup::is_place(&path) || path == MANIFEST) {
            return Err(self.damaged(&path, "is not part of a snapshot"));
        }
        if extracted.parts.contains_key(&path) {
            return Err(self.damaged(&path, "occurs twice"));
        }
        if extracted.parts.len() == self.max_parts {
            return Err(self.source.refused(format_args!("it has more than {} parts", self.max_parts)));
        }
        let mut part = Hashed::new(part);
        match backup::database_file(&path) {
            Some(name) => self.write(&mut part, &place.join(name), buffer)?,
            None if path == GENESIS => extracted.genesis = self.text(&path, &mut part, MAX_GENESIS)?,
            None => extracted.list = Some(self.text(&path, &mut part, MAX_LIST)?),
        }
        extracted.parts.insert(path, part.end());
        Ok(())
    }

    /// Writes a part to a new file.
    fn write(&self, part: &mut impl Read, to: &Path, buffer: &mut [u8]) -> Result<(), Stop> {
        let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(failed(to))?;
        loop {
            let count = part.read(buffer).map_err(self.unreadable())?;
            let read = buffer.get(..count).unwrap_or_default();
            if read.is_empty() {
                return Ok(());
            }
            target.write_all(read).map_err(failed(to))?;
        }
    }

    /// Compares the parts that were read with the list.
    fn compare(&self, manifest: &Manifest, mut parts: BTreeMap<String, (u64, B256)>) -> Result<(), Stop> {
        parts.remove(MANIFEST);
        for file in &manifest.files {
            match parts.remove(&file.path) {
                None => return Err(self.damaged(&file.path, "is missing")),
                Some(read) if read != (file.bytes, file.sha256) => {
                    return Err(self.damaged(&file.path, "differs from its entry in the list"));
                }
                Some(_) => {}
            }
        }
        parts.keys().next().map_or(Ok(()), |path| Err(self.damaged(path, "is not in its list")))
    }

    /// Reads a part into memory.
    fn text(&self, path: &str, part: &mut impl Read, max: u64) -> Result<Vec<u8>, Stop> {
        let mut text = Vec::new();
        part.take(max + 1).read_to_end(&mut text).map_err(self.unreadable())?;
        if text.len() as u64 > max {
            return Err(self.damaged(path, &format!("is larger than the limit of {max} bytes")));
        }
        Ok(text)
    }

    /// Refuses anything after the archive's end except zeros, with which tar fills its last record.
    fn check_end(&self, mut rest: Content, buffer: &mut [u8]) -> Result<(), Stop> {
        loop {
            let count = rest.read(buffer).map_err(self.unreadable())?;
            let read = buffer.get(..count).unwrap_or_default();
            if read.is_empty() {
                break;
            }
            if read.iter().any(|byte| *byte != 0) {
                return Err(self.source.refused("the archive has bytes after its end"));
            }
        }
        if rest.limit() == 0 {
            return Err(self.source.refused(format_args!("it expands to more than {MAX_EXPANSION} times its length")));
        }
        match rest.into_inner().bytes_after_end().map_err(self.unreadable())? {
            0 => Ok(()),
            1 => Err(self.source.refused("the archive has a byte after its end")),
            bytes => Err(self.source.refused(format_args!("the archive has {bytes} bytes after its end"))),
        }
    }

    fn damaged(&self, path: &str, problem: &str) -> Stop {
        self.source.damaged(path, problem)
    }

    fn unreadable(&self) -> impl Fn(io::Error) -> Stop {
        |error| self.source.refused(error)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::{Value, json};
    use sha2::{Digest as _, Sha256};

    use super::*;

    const GENESIS_TEXT: &[u8] = include_bytes!("../../../../tests/data/execution-apis/genesis.json");
    const TABLE: &str = "db/000001.sst";
    const REQUIREMENTS: SnapshotRequirements<'static> =
        SnapshotRequirements { trust_hash: None, checks_state: false, network_id: None, is_interrupted: &|| false };

    /// Names and contents.
    type Parts = Vec<(String, Vec<u8>)>;
    type Change = fn(&mut Parts);

    /// The parts of a snapshot with one table, in the order of its writer.
    fn parts() -> Parts {
        let genesis = tenon_chain::Genesis::from_json(GENESIS_TEXT).unwrap();
        let files = [(TABLE, &b"table"[..]), (GENESIS, GENESIS_TEXT)];
        let records: Vec<Value> = files
            .iter()
            .map(|(path, content)| {
                let sha256 = B256::from_slice(&Sha256::digest(content));
                json!({ "path": path, "bytes": content.len(), "sha256": sha256 })
            })
            .collect();
        let list = json!({
            "backup": 1, "program": "test", "chainId": genesis.spec.chain_id,
            "genesisHash": genesis.commit().unwrap().block.hash(), "databaseFormat": 1,
            "head": { "number": 0, "hash": B256::ZERO, "stateRoot": B256::ZERO },
            "oldestState": 0, "rules": null, "files": records,
        });
        let mut parts: Vec<_> = files.map(|(path, content)| (path.to_owned(), content.to_vec())).into();
        parts.push((MANIFEST.to_owned(), list.to_string().into_bytes()));
        parts
    }

    /// A tar archive of these parts, with the end that the library writes.
    fn packed(parts: &[(String, Vec<u8>)]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (path, content) in parts {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            archive.append_data(&mut header, path, content.as_slice()).unwrap();
        }
        archive.into_inner().unwrap()
    }

    fn compressed(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    /// The outcome for a file with this content, and the names of the files that were extracted.
    fn taken(content: &[u8]) -> (Result<(), String>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let (file, place) = (folder.path().join("a.tar.gz"), folder.path().join("place"));
        fs::write(&file, content).unwrap();
        fs::create_dir(&place).unwrap();
        let outcome = take(Source::snapshot(&file), &place, &REQUIREMENTS).map(drop).map_err(|stop| stop.to_string());
        let names = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        (outcome, names.collect())
    }

    #[test]
    fn an_archive_may_end_with_the_zeros_of_any_tar() {
        let archive = packed(&parts());
        let filled = |length: usize| [archive.clone(), vec![0; length.next_multiple_of(512)]].concat();

        for content in [archive.clone(), filled(10 << 10), filled(1 << 20)] {
            let (outcome, names) = taken(&compressed(&content));
            assert_eq!((outcome, names), (Ok(()), vec!["000001.sst".to_owned()]));
        }
        let in_two_members = [compressed(&archive[..700]), compressed(&archive[700..])].concat();
        assert_eq!(taken(&in_two_members).0, Ok(()));
    }

    #[test]
    fn bytes_after_the_end_of_an_archive_are_refused() {
        let archive = packed(&parts());
        let file = compressed(&archive);
        let after_the_end = [
            ([&file[..], b"x"].concat(), "the archive has a byte after its end"),
            ([&file[..], &[0; 512]].concat(), "the archive has 512 bytes after its end"),
            (compressed(&[&archive[..], b"more"].concat()), "the archive has bytes after its end"),
            ([&file[..], &file].concat(), "the archive has bytes after its end"),
            ([&file[..], &compressed(&vec![0; 128 << 20])].concat(), "expands to more than 64 times its length"),
        ];
        for (content, words) in after_the_end {
            let error = taken(&content).0.unwrap_err();
            assert!(error.starts_with("snapshot /") && error.contains(words), "{words}: {error}");
            assert!(error.ends_with("; use another snapshot"), "{error}");
        }
    }

    #[test]
    fn parts_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.tar.gz");
        fs::write(&file, compressed(&packed(&parts()))).unwrap();
        let outcome = |max_parts| {
            let place = tempfile::tempdir().unwrap();
            let source = Source::snapshot(&file);
            Archive { source, requirements: &REQUIREMENTS, max_parts }.take(place.path()).map(drop)
        };

        assert!(outcome(3).is_ok());
        let error = outcome(2).unwrap_err().to_string();
        assert!(error.contains("it has more than 2 parts; use another snapshot"), "{error}");
    }

    #[test]
    fn a_part_that_is_wrong_is_named() {
        let with = |change: Change| {
            let mut parts = parts();
            change(&mut parts);
            taken(&compressed(&packed(&parts)))
        };
        let cases: [(Change, &str); 8] = [
            (|parts| parts[0].1 = b"Table".to_vec(), "db/000001.sst differs from its entry in the list"),
            (|parts| parts[0].1 = vec![7; 1 << 20], "db/000001.sst differs from its entry in the list"),
            (|parts| drop(parts.remove(0)), "db/000001.sst is missing"),
            (|parts| drop(parts.remove(2)), "backup.json is missing: the file is incomplete"),
            (|parts| parts.push(("db/000002.sst".into(), Vec::new())), "db/000002.sst is not in its list"),
            (|parts| parts.push(parts[0].clone()), "db/000001.sst occurs twice"),
            (|parts| parts.push(parts[2].clone()), "backup.json occurs twice"),
            (|parts| parts.insert(0, ("keys/x".into(), Vec::new())), "keys/x is not part of a snapshot"),
        ];
        for (change, words) in cases {
            let error = with(change).0.unwrap_err();
            assert!(error.contains(words), "{words}: {error}");
        }
    }
}
