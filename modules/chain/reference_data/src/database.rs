//! Reads records of the database: single ones, and those of consecutive heights.

use std::path::PathBuf;
use std::rc::Rc;

use rusty_leveldb::{DB, DBIterator, LdbIterator as _, Options};
use tenon_api::{B256, Block};
use tenon_chain::{decode_block, decode_sealed_header};

use crate::environment::Environment;
use crate::error::{Part, ReferenceDataError};
use crate::keys;

/// Buffer for the content of the database's last log. Far larger than the reference's own buffer, so that the crate
/// does not write a table for it.
const WRITE_BUFFER: usize = 4 << 30;
/// Number of tables that are open at the same time.
const MAX_OPEN_FILES: usize = 256;
/// Maximum number of records that are read at one height: the headers of all branches, and two more records for each.
const MAX_RECORDS: usize = 1 << 14;

/// An open database. It must stay on its thread.
pub(crate) struct Database {
    path: PathBuf,
    environment: Environment,
    db: DB,
}

/// Head and genesis of a chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) head: (u64, B256),
    pub(crate) genesis: B256,
}

impl Database {
    pub(crate) fn open(path: PathBuf) -> Result<Self, ReferenceDataError> {
        let environment = Environment::new(&path);
        // The crate would skip damaged records, and an older head would look like the whole chain.
        environment.check_logs()?;
        environment.check_needed_log()?;
        let options = Options {
            env: Rc::new(Box::new(environment.clone())),
            create_if_missing: false,
            write_buffer_size: WRITE_BUFFER,
            max_open_files: MAX_OPEN_FILES,
            ..Options::default()
        };
        let opened = DB::open(&path, options);
        // Checked first: this error names the damaged file, the crate's does not.
        environment.check()?;
        let db = opened.map_err(|error| ReferenceDataError::Open { path: path.clone(), reason: error.to_string() })?;
        Ok(Self { path, environment, db })
    }

    fn iterator(&mut self, key: &[u8]) -> Result<DBIterator, ReferenceDataError> {
        let made = self.db.new_iter();
        self.environment.check()?;
        let mut records =
            made.map_err(|error| ReferenceDataError::Open { path: self.path.clone(), reason: error.to_string() })?;
        records.seek(key);
        self.environment.check()?;
        Ok(records)
    }

    /// Reads one record. The crate's own `get` treats an unreadable table as a missing record, and may start a
    /// compaction.
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, ReferenceDataError> {
        let found = self.iterator(key)?.current();
        Ok(found.filter(|(found, _)| found == key).map(|(_, value)| value.to_vec()))
    }

    fn hash(&mut self, key: &[u8]) -> Result<Option<B256>, ReferenceDataError> {
        Ok(self.get(key)?.and_then(|value| B256::try_from(value.as_slice()).ok()))
    }

    /// The canonical hash of a height.
    pub(crate) fn canonical_hash(&mut self, number: u64) -> Result<Option<B256>, ReferenceDataError> {
        self.hash(&keys::canonical(number))
    }

    /// Head and genesis.
    pub(crate) fn facts(&mut self) -> Result<Facts, ReferenceDataError> {
        let no_head = ReferenceDataError::NoHead { path: self.path.clone() };
        let Some(hash) = self.hash(keys::HEAD_BLOCK)? else { return Err(no_head) };
        let number = self.get(&keys::number(hash))?.and_then(|value| <[u8; 8]>::try_from(value).ok());
        let Some(number) = number.map(u64::from_be_bytes) else { return Err(no_head) };
        let genesis = self.canonical_hash(0)?;
        let genesis = genesis.ok_or_else(|| self.missing(0, Part::CanonicalHash, number))?;
        Ok(Facts { head: (number, hash), genesis })
    }

    fn missing(&self, number: u64, part: Part, head: u64) -> ReferenceDataError {
        ReferenceDataError::Missing { path: self.path.clone(), number, part, head }
    }

    /// Passes the canonical blocks from `first` to `last`, in order, to `take`, until it returns false.
    pub(crate) fn read(
        &mut self,
        first: u64,
        last: u64,
        mut take: impl FnMut(Block) -> bool,
    ) -> Result<(), ReferenceDataError> {
        let mut headers = self.iterator(&keys::of_height(keys::HEADER, first))?;
        let mut bodies = self.iterator(&keys::of_height(keys::BODY, first))?;
        for number in first..=last {
            let listed = self.listed(&mut headers, number, last)?;
            let body = self.body(&mut bodies, number, listed.hash, last)?;
            if !take(self.block(number, &listed, &body)?) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the canonical header of a height. `records` must be at the first record of the height, or after it, and
    /// is left after the last one.
    fn listed(&self, records: &mut DBIterator, number: u64, head: u64) -> Result<Listed, ReferenceDataError> {
        let (start, canonical) = (keys::of_height(keys::HEADER, number), keys::canonical(number));
        let (mut hash, mut headers) = (None, Vec::new());
        for _ in 0..MAX_RECORDS {
            self.environment.check()?;
            let Some((key, value)) = records.current().filter(|(key, _)| key.starts_with(&start)) else { break };
            if key == canonical {
                hash = B256::try_from(&value[..]).ok();
            } else if key.len() == start.len() + B256::len_bytes() {
                headers.push((B256::from_slice(key.get(start.len()..).unwrap_or_default()), value));
            }
            records.advance();
        }
        self.environment.check()?;
        let hash = hash.ok_or_else(|| self.missing(number, Part::CanonicalHash, head))?;
        let header = headers.into_iter().find(|(listed, _)| *listed == hash);
        let (_, header) = header.ok_or_else(|| self.missing(number, Part::Header, head))?;
        Ok(Listed { hash, header: header.to_vec() })
    }

    fn body(
        &self,
        records: &mut DBIterator,
        number: u64,
        hash: B256,
        head: u64,
    ) -> Result<Vec<u8>, ReferenceDataError> {
        let wanted = keys::of_block(keys::BODY, number, hash);
        for _ in 0..MAX_RECORDS {
            self.environment.check()?;
            match records.current() {
                Some((key, value)) if key == wanted => return Ok(value.to_vec()),
                // A body of another branch, at this height or a lower one.
                Some((key, _)) if key[..] < wanted[..] => records.advance(),
                _ => break,
            };
        }
        self.environment.check()?;
        Err(self.missing(number, Part::Body, head))
    }

    /// Joins header and body. They are stored in the encoding of a block: the header's list, and a list of the
    /// transactions and the uncles.
    fn block(&self, number: u64, listed: &Listed, body: &[u8]) -> Result<Block, ReferenceDataError> {
        let invalid =
            |part| move |source| ReferenceDataError::Invalid { path: self.path.clone(), number, part, source };
        let header = decode_sealed_header(&mut listed.header.as_slice()).map_err(invalid(Part::Header))?;
        if (header.hash(), header.number) != (listed.hash, number) {
            return Err(ReferenceDataError::OtherHeader {
                path: self.path.clone(),
                number,
                listed: listed.hash,
                found_number: header.number,
                found: header.hash(),
            });
        }
        decode_block(&mut joined(&listed.header, body).as_slice()).map_err(invalid(Part::Body))
    }
}

/// A header, with the hash under which the chain lists it.
struct Listed {
    hash: B256,
    header: Vec<u8>,
}

/// The content of a body's RLP list; `None` if the body is not exactly one list.
fn payload(body: &[u8]) -> Option<&[u8]> {
    let (first, rest) = body.split_first()?;
    let (length, content) = match first {
        0xc0..=0xf7 => (usize::from(first - 0xc0), rest),
        0xf8.. => {
            let (length, content) = rest.split_at_checked(usize::from(first - 0xf7))?;
            (length.iter().try_fold(0_usize, |sum, byte| sum.checked_mul(256)?.checked_add((*byte).into()))?, content)
        }
        _ => return None,
    };
    (content.len() == length).then_some(content)
}

/// Returns the block's RLP. If the body is not a list, decoding the result fails.
fn joined(header: &[u8], body: &[u8]) -> Vec<u8> {
    let payload = payload(body).unwrap_or(body);
    let length = header.len() + payload.len();
    let mut block = Vec::with_capacity(length + 9);
    let bytes = (length as u64).to_be_bytes();
    let skipped = bytes.iter().take_while(|byte| **byte == 0).count();
    match u8::try_from(length) {
        Ok(short @ 0..56) => block.push(0xc0 + short),
        _ => {
            block.push(0xf7 + (bytes.len() - skipped) as u8);
            block.extend_from_slice(bytes.get(skipped..).unwrap_or_default());
        }
    }
    block.extend_from_slice(header);
    block.extend_from_slice(payload);
    block
}
