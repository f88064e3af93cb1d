//! Refuses a folder whose logs are damaged before their end.
//!
//! RocksDB replays its write-ahead logs up to the first damaged record and *deletes* the rest. After a crash that is
//! right: only the end can be torn. A damaged record before intact ones is a broken disk or a bad copy, and RocksDB
//! would silently drop synced blocks. [`check`] reads the logs once, before the engine is opened, and changes nothing.
//!
//! A power loss may also lose a page in the middle of what was not synced yet. Such a page reads as zeros. Unless every
//! block is synced, damage that ends a page with zeros is therefore taken for the end of the log, with a warning.
//!
//! A log is a sequence of blocks; a record has a checksum (masked CRC-32C), a length and a kind, and does not cross the
//! end of a block. A batch is one record, or several from a first to a last one. It begins with its sequence number and
//! the count of its changes. Logs are not recycled, so there are no other headers.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use crate::{Durability, OpenError};

/// Size of a block of a log, bytes.
const BLOCK: usize = 32 << 10;
/// Size of a record's header: checksum, length, kind.
const HEADER: usize = 7;
/// Size of the pages of a file that a power loss keeps or loses, bytes.
const PAGE: usize = 4 << 10;
/// A page that ends in this many zeros counts as lost. An intact record rarely fills the end of a page with that many
/// zeros.
const LOST_ZEROS: usize = 64;

/// Kind of a record that is a whole batch.
const FULL: u8 = 1;
/// Kind of a batch's first record.
const FIRST: u8 = 2;
/// Kind of the records between a batch's first and last one.
const MIDDLE: u8 = 3;
/// Kind of a batch's last record.
const LAST: u8 = 4;

/// Refuses a folder with a damaged record before an intact batch, unless a power loss can have caused it. Returns where the
/// logs end if they are torn.
///
/// # Errors
/// [`OpenError::Log`], or [`OpenError::Engine`] if a log cannot be read.
pub(crate) fn check(folder: &Path, durability: Durability) -> Result<Option<TornLog>, OpenError> {
    let failed = |error: io::Error| OpenError::Engine { path: folder.into(), reason: error.to_string() };
    let mut search = Search { is_every_block_synced: durability == Durability::EveryBlock, ..Search::default() };
    for log in logs(folder).map_err(failed)? {
        search.starts_log = true;
        let found = File::open(&log).and_then(|file| search.read(&log, file)).map_err(failed)?;
        if let Some(Damage { log, offset, .. }) = found {
            let file = log.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Err(OpenError::Log { path: folder.into(), file, offset });
        }
    }
    Ok(search.damage.map(|Damage { log, offset, .. }| TornLog { log, offset }))
}

/// The end of the logs, if a record is incomplete there.
pub(crate) struct TornLog {
    log: PathBuf,
    /// Of the incomplete record, bytes.
    offset: u64,
}

impl TornLog {
    /// Logs the loss. Call it after the engine has opened the folder: if the engine refuses the folder, nothing is
    /// lost.
    pub(crate) fn warn(&self) {
        let (log, offset) = (self.log.display(), self.offset);
        tracing::warn!(%log, offset, "the database's log is torn, as after a power loss; what was written from this byte \
            on is lost");
    }
}

/// The logs, oldest first.
fn logs(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let number = |path: &PathBuf| {
        let number = path.file_name()?.to_str()?.strip_suffix(".log")?;
        number.parse::<u64>().ok()
    };
    let files = fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<io::Result<Vec<_>>>()?;
    let mut logs: Vec<_> = files.into_iter().filter(|path| number(path).is_some()).collect();
    logs.sort_by_key(number);
    Ok(logs)
}

/// A place from which records are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Damage {
    log: PathBuf,
    /// Of the damaged record, bytes.
    offset: u64,
    /// Whether a power loss can have caused it, even though later records were kept.
    may_be_power_loss: bool,
    /// Whether the engine would take the damage for padding between two batches, and apply later batches without the
    /// missing ones.
    looks_like_padding: bool,
}

/// The search for a damaged record with an intact batch behind it.
#[derive(Default)]
struct Search {
    is_every_block_synced: bool,
    /// The first damage; intact batches must not follow.
    damage: Option<Damage>,
    /// Sequence number after the last whole batch.
    next: u64,
    /// The sequence number after the batch whose end was not read yet.
    pending: u64,
    /// Whether the last record belongs to a batch whose end is not read yet.
    is_in_batch: bool,
    /// Whether no record of the current log was read yet.
    starts_log: bool,
}

impl Search {
    /// Reads a log; returns damage for which the folder must be refused.
    fn read(&mut self, log: &Path, mut file: impl Read) -> io::Result<Option<Damage>> {
        let mut block = Vec::with_capacity(BLOCK);
        for start in (0..).step_by(BLOCK) {
            block.clear();
            (&mut file).take(BLOCK as u64).read_to_end(&mut block)?;
            let mut place = 0;
            while let Some(rest) = block.get(place..).filter(|rest| !is_padding(rest, block.len())) {
                let record = Record::at(rest);
                match &record {
                    Some(Record { content: Some(content), kind, .. }) => {
                        if self.refuses(*kind, content) {
                            return Ok(self.damage.take());
                        }
                    }
                    Some(_) | None => {
                        let size = record.as_ref().map_or(HEADER, |record| record.size);
                        let is_cut = block.len() < BLOCK && record.is_none();
                        let may_be_power_loss = is_cut || has_lost_a_page(&block, place, size);
                        let looks_like_padding = !self.is_in_batch && is_empty_record(rest);
                        let offset = start + place as u64;
                        let damage = Damage { log: log.into(), offset, may_be_power_loss, looks_like_padding };
                        self.damage.get_or_insert(damage).looks_like_padding &= looks_like_padding;
                        self.is_in_batch = false;
                    }
                }
                let Some(record) = record else { break };
                place += record.size;
            }
            if block.len() < BLOCK {
                break;
            }
        }
        Ok(None)
    }

    /// Takes note of an intact record. Returns whether it proves that the damage before it is more than a torn end.
    fn refuses(&mut self, kind: u8, content: &[u8]) -> bool {
        let starts_log = std::mem::take(&mut self.starts_log);
        self.is_in_batch = !matches!(kind, FULL | LAST);
        if let Some(damage) = self.damage.as_mut().filter(|_| matches!(kind, MIDDLE | LAST)) {
            // The engine stops at a batch without a beginning.
            damage.looks_like_padding = false;
        }
        if matches!(kind, FULL | FIRST) {
            let sequence = number::<8>(content, 0);
            if let Some(damage) = &self.damage {
                // The engine continues a torn log with this number in a new log. If it is killed then, the torn log is
                // still there.
                if !(starts_log && sequence == self.next) {
                    return self.is_every_block_synced || !damage.may_be_power_loss || damage.looks_like_padding;
                }
                self.damage = None;
            }
            self.pending = sequence.saturating_add(number::<4>(content, 8));
        }
        if matches!(kind, FULL | LAST) && self.damage.is_none() {
            self.next = self.pending;
        }
        false
    }
}

/// Whether the rest of a block, or of a file, has no record: too short for one, or zeros from a preallocation.
fn is_padding(rest: &[u8], block: usize) -> bool {
    rest.is_empty() || (block == BLOCK && rest.len() < HEADER) || (block < BLOCK && rest.iter().all(|byte| *byte == 0))
}

/// Whether these bytes look like a preallocation: a record without length and kind.
fn is_empty_record(rest: &[u8]) -> bool {
    rest.get(4..HEADER).is_some_and(|header| header.iter().all(|byte| *byte == 0))
}

/// Returns whether a page that contains part of this record ends in zeros that cover part of the record, as after a
/// power loss. For a record without a kind, `size` is that of its header.
fn has_lost_a_page(block: &[u8], place: usize, size: usize) -> bool {
    let kind = place + HEADER - 1;
    let end = place + size;
    (place / PAGE + 1..=end.div_ceil(PAGE)).any(|page| {
        let page_end = block.len().min(page * PAGE);
        let first = kind.max(page_end.saturating_sub(LOST_ZEROS).min(end - 1));
        block.get(first..page_end).is_some_and(|bytes| !bytes.is_empty() && bytes.iter().all(|byte| *byte == 0))
    })
}

/// A little-endian number; zero beyond the end.
fn number<const BYTES: usize>(content: &[u8], at: usize) -> u64 {
    let bytes = content.get(at..at + BYTES).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A record in a block.
struct Record<'a> {
    /// Its bytes with its header.
    size: usize,
    kind: u8,
    /// `None` if it is damaged.
    content: Option<&'a [u8]>,
}

impl<'a> Record<'a> {
    /// The record at the start of these bytes; `None` if it does not end in them or has no kind.
    fn at(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
        let [first, second, third, fourth, low, high, kind] = *header;
        let content = rest.get(..usize::from(u16::from_le_bytes([low, high]))).filter(|_| kind != 0)?;
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&[kind]), content);
        let is_intact = u32::from_le_bytes([first, second, third, fourth]) == masked(checksum);
        Some(Record { size: HEADER + content.len(), kind, content: is_intact.then_some(content) })
    }
}

/// The form in which logs store a checksum.
fn masked(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    fn record(kind: u8, content: &[u8]) -> Vec<u8> {
        let checksum = masked(crc32c::crc32c_append(crc32c::crc32c(&[kind]), content));
        let length = u16::try_from(content.len()).unwrap();
        [&checksum.to_le_bytes()[..], &length.to_le_bytes(), &[kind], content].concat()
    }

    /// Size of a batch in these logs, with its header; a block has 32 of them.
    const SIZE: usize = 1 << 10;

    /// Batches of one change from this sequence number on.
    fn log(sequence: u64, batches: u64) -> Vec<u8> {
        let batch = |sequence: u64| {
            let mut content = [&sequence.to_le_bytes()[..], &1_u32.to_le_bytes()].concat();
            content.resize(SIZE - HEADER, 0x55);
            record(FULL, &content)
        };
        (sequence..sequence + batches).flat_map(batch).collect()
    }

    fn flipped(mut log: Vec<u8>, at: usize) -> Vec<u8> {
        log[at] ^= 1;
        log
    }

    fn zeroed(mut log: Vec<u8>, range: std::ops::Range<usize>) -> Vec<u8> {
        log[range].fill(0);
        log
    }

    /// The log, counted from 0, and the offset of the damage for which these logs are refused.
    fn refused(durability: Durability, logs: &[&[u8]]) -> Option<(usize, u64)> {
        let folder = tempfile::tempdir().unwrap();
        for (number, log) in logs.iter().enumerate() {
            fs::write(folder.path().join(format!("{number:06}.log")), log).unwrap();
        }
        match check(folder.path(), durability) {
            Ok(_) => None,
            Err(OpenError::Log { file, offset, .. }) => Some((file[..6].parse().unwrap(), offset)),
            Err(other) => panic!("{other}"),
        }
    }

    fn refused_in_every_mode(logs: &[&[u8]]) -> Option<(usize, u64)> {
        let found = refused(Durability::EveryBlock, logs);
        assert_eq!(refused(Durability::PROCESS, logs), found);
        found
    }

    #[test]
    fn intact_logs_and_torn_ends_are_accepted() {
        let whole = log(1, 100);
        assert_eq!(refused_in_every_mode(&[]), None);
        assert_eq!(refused_in_every_mode(&[&whole, &log(101, 3), &[]]), None);
        for lost in [1, 500, SIZE - 1, SIZE, SIZE + 500, 70 * SIZE + 3] {
            let torn = &whole[..whole.len() - lost];
            assert_eq!(refused_in_every_mode(&[torn]), None, "{lost}");
            assert_eq!(refused_in_every_mode(&[&[torn, &[0; 3 * BLOCK]].concat()]), None, "{lost}, preallocated");
        }
        assert_eq!(refused_in_every_mode(&[&flipped(whole.clone(), 99 * SIZE + 20)]), None);
    }

    #[test]
    fn a_damaged_record_before_an_intact_batch_is_refused_with_its_place() {
        let whole = log(1, 100);
        for batch in [0, 3, 31, 70, 98] {
            let offset = Some((0, (batch * SIZE) as u64));
            assert_eq!(refused_in_every_mode(&[&flipped(whole.clone(), batch * SIZE + 20)]), offset, "{batch}");
        }
        let damaged = flipped(whole, 99 * SIZE + 20);
        assert_eq!(refused_in_every_mode(&[&damaged, &log(101, 1)]), Some((0, 99 * SIZE as u64)));
    }

    #[test]
    fn a_lost_page_is_refused_only_if_every_block_was_synced() {
        let whole = log(1, 100);
        let lost = zeroed(whole.clone(), 4 * PAGE - 100..4 * PAGE);
        assert!(refused(Durability::EveryBlock, &[&lost]).is_some());
        assert_eq!(refused(Durability::PROCESS, &[&lost]), None);
        // Zeros elsewhere in the block are another record's own.
        let elsewhere = flipped(zeroed(whole.clone(), 4 * PAGE - 100..4 * PAGE), 20);
        assert_eq!(refused(Durability::PROCESS, &[&elsewhere]), Some((0, 0)));
        // The page was written with a part of its first record.
        let partial = zeroed(whole.clone(), 3 * PAGE + 300..4 * PAGE);
        assert_eq!(refused(Durability::PROCESS, &[&partial]), None);
        let shorter = &whole[..50 * SIZE - 9];
        assert_eq!(refused(Durability::EveryBlock, &[shorter, &log(101, 3)]), Some((0, 49 * SIZE as u64)));
        assert_eq!(refused(Durability::PROCESS, &[shorter, &log(101, 3)]), None);
    }

    /// The engine takes zeros for padding if a record could begin there, and would apply the next batches without those.
    #[test]
    fn a_lost_page_that_the_engine_would_skip_is_refused() {
        let offset = Some((0, 3 * PAGE as u64));
        assert_eq!(refused_in_every_mode(&[&zeroed(log(1, 100), 3 * PAGE..4 * PAGE)]), offset);
        // It stops at the rest of a batch whose beginning is missing.
        let rest = [record(MIDDLE, &[9; 100]), record(LAST, &[9; 100])].concat();
        let lost = [log(1, 12), vec![0; BLOCK - 12 * SIZE], rest, log(20, 3)].concat();
        assert_eq!(refused(Durability::PROCESS, &[&lost]), None);
    }

    /// The engine was killed after it had replayed a torn log, and before it removed it.
    #[test]
    fn a_log_that_continues_a_torn_one_is_accepted() {
        let torn = flipped(log(1, 100), 99 * SIZE + 20);
        assert_eq!(refused_in_every_mode(&[&torn, &log(100, 5)]), None);
    }

    #[test]
    fn the_middle_of_an_unfinished_batch_may_be_missing() {
        let first = record(FIRST, &[9; 100]);
        let middle = flipped(record(MIDDLE, &[9; 100]), 50);
        assert_eq!(refused_in_every_mode(&[&[log(1, 5), first, middle, record(LAST, &[9; 100])].concat()]), None);
    }
}
