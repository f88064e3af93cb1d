//! The format of the journal's records, and reading a damaged file.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

use alloy_primitives::keccak256;

use crate::validation::MAX_TRANSACTION_BYTES;

/// Bit of the length word that says that a checksum follows. Older releases had no checksums and wrote plain lengths.
const CHECKED: u32 = 1 << 31;
/// Bytes of the length word.
const WORD: usize = 4;
/// Bytes of the checksum.
const CHECKSUM: usize = 8;
/// Maximum length of a record.
const MAX_RECORD: usize = WORD + CHECKSUM + MAX_TRANSACTION_BYTES as usize;
/// Number of bytes that one read of the file requests.
const READ_AT_ONCE: usize = 64 * 1024;
/// Maximum number of bytes hashed to find whole records after damaged ones: a quarter of a second. Each possible start
/// of a record costs a hash over the length that it claims.
const MAX_SEARCH_BYTES: usize = 64 * 1024 * 1024;

/// The record of a transaction:
///
/// 1. a word of four bytes (big endian) with its length and the bit [`CHECKED`];
/// 2. the first eight bytes of the Keccak hash of word and transaction;
/// 3. the canonical bytes of the transaction.
pub(crate) fn record(raw: &[u8]) -> Vec<u8> {
    // The pool accepts no transaction near 2 GiB.
    let length = u32::try_from(raw.len()).unwrap_or(u32::MAX) | CHECKED;
    let word = length.to_be_bytes();
    [&word[..], &checksum(word, raw), raw].concat()
}

fn checksum(word: [u8; WORD], raw: &[u8]) -> [u8; CHECKSUM] {
    let hash = keccak256([&word[..], raw].concat());
    hash.first_chunk().copied().unwrap_or_default()
}

/// Result of reading a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Bytes from the start of the file to the end of its last whole record.
    pub(crate) whole: u64,
    /// Bytes that do not belong to a whole record.
    pub(crate) damaged: u64,
}

impl Found {
    /// Whether only the end of a file of this length is damaged, by less than a record, as after a crash or on a full
    /// disk.
    pub(super) const fn is_torn_only(&self, length: u64) -> bool {
        let end = length.saturating_sub(self.whole);
        self.damaged <= end && end < MAX_RECORD as u64
    }
}

/// The apparent content of a file without a whole record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartialFile {
    /// A truncated record, or only zeros, as some file systems leave them after a power failure.
    Torn,
    /// A record of full length whose checksum is wrong.
    Damaged,
    /// Not a journal.
    Foreign,
}

pub(super) fn partial_file(file: &File) -> io::Result<PartialFile> {
    let mut reader = file;
    reader.seek(SeekFrom::Start(0))?;
    let mut begin = Vec::new();
    reader.take(MAX_RECORD as u64 + 1).read_to_end(&mut begin)?;
    let first = first_record(&begin);
    if first != PartialFile::Foreign {
        return Ok(first);
    }
    let mut rest = begin;
    while !rest.is_empty() {
        if rest.iter().any(|byte| *byte != 0) {
            return Ok(PartialFile::Foreign);
        }
        rest.clear();
        reader.take(READ_AT_ONCE as u64).read_to_end(&mut rest)?;
    }
    Ok(PartialFile::Torn)
}

/// Classifies the first bytes of a file.
fn first_record(bytes: &[u8]) -> PartialFile {
    let torn_if = |is_torn| if is_torn { PartialFile::Torn } else { PartialFile::Foreign };
    let Some((word, rest)) = bytes.split_first_chunk::<WORD>() else {
        // The checksum bit is in the first byte, and no length needs more than the other three.
        return torn_if(bytes.first() == Some(&0x80));
    };
    let word = u32::from_be_bytes(*word);
    let length = (word & !CHECKED) as usize;
    if length as u64 > MAX_TRANSACTION_BYTES {
        return PartialFile::Foreign;
    }
    if word & CHECKED != 0 {
        return if rest.len() < CHECKSUM + length { PartialFile::Torn } else { PartialFile::Damaged };
    }
    let begins_as_transaction = rest.first().is_none_or(|first| matches!(first, 0x01..=0x04 | 0xc0..=0xff));
    torn_if(length > 0 && rest.len() < length && begins_as_transaction)
}

/// Passes every whole record to `take`, in order. Damaged parts are skipped, so that no other record is lost; without a
/// checksum, only its form distinguishes a torn record from a whole one. Needs memory for one record, however long the
/// file is.
pub(crate) fn read_records(reader: impl Read, mut take: impl FnMut(&[u8])) -> io::Result<Found> {
    let mut window = Window { reader, bytes: Vec::new(), start: 0, is_at_end: false };
    let (mut place, mut found) = (0_u64, Found::default());
    let mut search_left = MAX_SEARCH_BYTES;
    let mut is_searching = false;
    loop {
        let bytes = window.at_least(MAX_RECORD)?;
        if bytes.is_empty() || search_left == 0 {
            found.damaged += bytes.len() as u64 + window.rest()?;
            return Ok(found);
        }
        if let Some((length, raw)) = whole_record(bytes, is_searching, &mut search_left) {
            take(raw);
            place += length as u64;
            found.whole = place;
            window.skip(length);
            is_searching = false;
        } else {
            place += 1;
            found.damaged += 1;
            window.skip(1);
            is_searching = true;
        }
    }
}

/// The record that starts at the first of these bytes: its length, and its transaction.
fn whole_record<'a>(bytes: &'a [u8], is_searching: bool, search_left: &mut usize) -> Option<(usize, &'a [u8])> {
    let (word, rest) = bytes.split_first_chunk::<WORD>()?;
    let word_value = u32::from_be_bytes(*word);
    let length = (word_value & !CHECKED) as usize;
    if length as u64 > MAX_TRANSACTION_BYTES {
        return None;
    }
    if word_value & CHECKED == 0 {
        let raw = rest.get(..length)?;
        let is_transaction = has_form_of_transaction(raw) && tenon_chain::decode_transaction(raw).is_ok();
        return is_transaction.then_some((WORD + length, raw));
    }
    let (sum, rest) = rest.split_first_chunk::<CHECKSUM>()?;
    let raw = rest.get(..length)?;
    if is_searching {
        *search_left = search_left.saturating_sub(length + WORD);
    }
    (checksum(*word, raw) == *sum).then_some((WORD + CHECKSUM + length, raw))
}

/// Cheap test that the bytes can be an encoded transaction: an optional type byte below RLP's list prefixes, and a list
/// that ends where the record ends.
fn has_form_of_transaction(raw: &[u8]) -> bool {
    let list = match raw {
        [0x01..=0x7f, list @ ..] => list,
        legacy => legacy,
    };
    match list {
        [first @ 0xc0..=0xf7, rest @ ..] => rest.len() == usize::from(first - 0xc0),
        [first @ 0xf8..=0xff, rest @ ..] => {
            let (length, rest) = rest.split_at_checked(usize::from(first - 0xf7)).unwrap_or((&[], &[]));
            let claimed =
                length.iter().try_fold(0_usize, |sum, byte| sum.checked_mul(256)?.checked_add((*byte).into()));
            !length.is_empty() && claimed == Some(rest.len())
        }
        _ => false,
    }
}

/// A sliding window over the file.
struct Window<R> {
    reader: R,
    bytes: Vec<u8>,
    /// Offset in `bytes` at which the window starts.
    start: usize,
    is_at_end: bool,
}

impl<R: Read> Window<R> {
    /// The next bytes: at least this many, or all that are left.
    fn at_least(&mut self, wanted: usize) -> io::Result<&[u8]> {
        while !self.is_at_end && self.bytes.len() - self.start < wanted {
            self.bytes.drain(..self.start);
            self.start = 0;
            let read = self.reader.by_ref().take(READ_AT_ONCE as u64).read_to_end(&mut self.bytes)?;
            self.is_at_end = read == 0;
        }
        Ok(self.bytes.get(self.start..).unwrap_or_default())
    }

    fn skip(&mut self, count: usize) {
        self.start = (self.start + count).min(self.bytes.len());
    }

    /// Number of bytes of the file that are not in the window yet; reads past them.
    fn rest(&mut self) -> io::Result<u64> {
        io::copy(&mut self.reader, &mut io::sink())
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{Transaction, TransactionPayload, U256};

    use super::*;
    use crate::fake_chain::{signed, transfer};

    fn record_without_checksum(raw: &[u8]) -> Vec<u8> {
        [&u32::try_from(raw.len()).unwrap().to_be_bytes()[..], raw].concat()
    }

    fn read(file: &[u8]) -> (Vec<Vec<u8>>, Found) {
        let mut records = Vec::new();
        let found = read_records(file, |raw| records.push(raw.to_vec())).unwrap();
        (records, found)
    }

    #[test]
    fn a_damaged_record_loses_no_other() {
        let texts = [&b"one"[..], &[7; 100_000], b"three", b""];
        let whole = texts.map(record).concat();
        assert_eq!(read(&whole), (texts.map(<[u8]>::to_vec).to_vec(), Found { whole: whole.len() as u64, damaged: 0 }));
        let ends: Vec<usize> = texts
            .iter()
            .scan(0, |end, text| {
                *end += record(text).len();
                Some(*end)
            })
            .collect();

        for place in [0, 3, 5, 12, 14, 15, 20, 30, 70_000, ends[1], ends[1] + 13] {
            let mut damaged = whole.clone();
            damaged[place] ^= 0x10;
            let hit = ends.iter().position(|end| place < *end).unwrap();
            let others: Vec<_> = (0..4).filter(|index| *index != hit).map(|index| texts[index].to_vec()).collect();
            assert_eq!(read(&damaged).0, others, "byte {place}");
        }
        for cut in [1, 4, 11, 13, 50_000] {
            let torn = &whole[ends[0]..ends[0] + cut];
            let file = [&whole[..ends[0]], torn, &whole[ends[1]..]].concat();
            let (records, found) = read(&file);
            assert_eq!(records, [b"one".to_vec(), b"three".to_vec(), Vec::new()], "cut after {cut}");
            assert_eq!(found, Found { whole: file.len() as u64, damaged: cut as u64 });
        }
    }

    #[test]
    fn records_without_checksum_are_read_even_between_others() {
        let typed = transfer(0, 9, 9);
        let legacy = Transaction { payload: TransactionPayload::Legacy { gas_price: U256::from(9) }, ..typed.clone() };
        let long = Transaction { input: vec![3; 300].into(), ..legacy.clone() };
        let [typed, legacy, long] = [typed, legacy, long].map(|transaction| signed(0, transaction));
        let old: Vec<u8> = [&typed, &legacy, &long].into_iter().flat_map(|raw| record_without_checksum(raw)).collect();
        let file = [&old, &record(b"new")[..]].concat();
        let wanted = [typed.clone(), legacy.clone(), long.clone(), b"new".to_vec()];
        assert_eq!(read(&file), (wanted.to_vec(), Found { whole: file.len() as u64, damaged: 0 }));

        // Torn, as on a full disk: the next bytes seem to be the rest of it.
        for whole in [typed, legacy, long].map(|raw| record_without_checksum(&raw)) {
            for cut in [1, 3, 4, 5, 20, 40, 60] {
                assert_eq!(read(&[&whole[..cut], &file[..]].concat()).0, wanted, "cut after {cut}");
            }
        }
    }

    #[test]
    fn bytes_outside_records_are_counted_and_the_search_ends() {
        assert_eq!(read(&[0xff; 5000]), (Vec::new(), Found { whole: 0, damaged: 5000 }));
        // Every byte claims a record of 65,536 bytes: 4 GiB to hash without the limit.
        let claims = [0x80, 0x01, 0x00, 0x00].repeat(100_000);
        let (records, found) = read(&claims);
        assert_eq!((records, found), (Vec::new(), Found { whole: 0, damaged: 400_000 }));
    }
}
