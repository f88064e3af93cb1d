//! Checks the logs of the database, whose damaged records the database crate skips without an error. A log is a sequence of
//! blocks; a record has a checksum (masked CRC-32C), a length and a kind, and does not cross the end of a block.

use std::io::{self, Read};

use crate::environment::{Whole, is_checksum};

/// Size of a block of a log, in bytes.
const BLOCK: usize = 1 << 15;
/// Size of a record's header: checksum, length, kind.
const HEADER: usize = 7;
/// Kind of a record that is a whole entry.
const FULL: u8 = 1;
/// Kind of an entry's first record.
const FIRST: u8 = 2;

/// Returns the position of the first damaged record, in bytes; `None` for an intact log. The end of a log may be torn, as a
/// killed process leaves it: an incomplete or damaged record that no other one follows.
///
/// # Errors
/// The log cannot be read.
pub(crate) fn first_damage(log: impl Read) -> io::Result<Option<u64>> {
    let (mut damage, mut is_followed) = (None, false);
    walk(log, |offset, record| {
        match record {
            Some(Record { is_intact: true, .. }) => is_followed = damage.is_some(),
            Some(_) | None => damage = damage.or(Some(offset)),
        }
        !is_followed
    })?;
    Ok(damage.filter(|_| is_followed))
}

/// Passes the start of every intact entry to `take`: the content of its only or first record.
///
/// # Errors
/// The log cannot be read.
pub(crate) fn starts_of_entries(log: impl Read, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    walk(log, |_, record| {
        if let Some(Record { is_intact: true, kind: FULL | FIRST, content, .. }) = record {
            take(content);
        }
        true
    })
}

/// Passes every record and its offset to `see`, until it returns false. Passes `None` for bytes that are not a record,
/// and skips the rest of their block.
fn walk(log: impl Read, mut see: impl FnMut(u64, Option<&Record<'_>>) -> bool) -> io::Result<()> {
    let (mut log, mut block, mut start) = (Whole(log), vec![0; BLOCK], 0);
    loop {
        let length = log.read(&mut block)?;
        let mut place = 0;
        while let Some(rest) = block.get(place..length).filter(|rest| rest.len() >= HEADER) {
            let record = record(rest);
            if !see(start + place as u64, record.as_ref()) {
                return Ok(());
            }
            let Some(Record { size, .. }) = record else { break };
            place += size;
        }
        if length < BLOCK {
            return Ok(());
        }
        start += BLOCK as u64;
    }
}

/// A record in a block.
struct Record<'a> {
    /// Its bytes with its header.
    size: usize,
    kind: u8,
    content: &'a [u8],
    is_intact: bool,
}

/// The record at the start of these bytes; `None` if the bytes end before the record.
fn record(bytes: &[u8]) -> Option<Record<'_>> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
    let [first, second, third, fourth, low, high, kind] = *header;
    let length = usize::from(u16::from_le_bytes([low, high]));
    let content = rest.get(..length)?;
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&[kind]), content);
    let is_intact = is_checksum(u32::from_le_bytes([first, second, third, fourth]), checksum);
    Some(Record { size: HEADER + length, kind, content, is_intact })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a record, of which a whole number fits into a block.
    const SIZE: usize = 1 << 10;

    fn log(records: usize) -> Vec<u8> {
        let mut log = Vec::new();
        for number in 0..records {
            let content = vec![number as u8; SIZE - HEADER];
            let checksum = crc32c::crc32c_append(crc32c::crc32c(&[1]), &content);
            log.extend(checksum.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes());
            log.extend((content.len() as u16).to_le_bytes());
            log.push(1);
            log.extend(content);
        }
        log
    }

    #[test]
    fn an_intact_log_and_one_with_a_torn_end_have_no_damage() {
        let whole = log(200);
        assert_eq!(first_damage(&whole[..]).unwrap(), None);
        for lost in [1, 500, SIZE - 1, SIZE, SIZE + 500] {
            assert_eq!(first_damage(&whole[..whole.len() - lost]).unwrap(), None, "{lost}");
        }
        let mut torn = whole.clone();
        *torn.last_mut().unwrap() ^= 1;
        assert_eq!(first_damage(&torn[..]).unwrap(), None);
        torn.resize(torn.len() + 3 * BLOCK, 0);
        assert_eq!(first_damage(&torn[..]).unwrap(), None);
        assert_eq!(first_damage(&[][..]).unwrap(), None);
    }

    #[test]
    fn damage_before_intact_records_is_found_at_its_record() {
        // In the first block, in a later one, and in the last one, which is not full.
        for record in [3, 70, 195] {
            let mut spoiled = log(200);
            spoiled[record * SIZE + 20] ^= 1;
            assert_eq!(first_damage(&spoiled[..]).unwrap(), Some((record * SIZE) as u64));
            let mut zeros = log(200);
            zeros[record * SIZE..(record + 1) * SIZE].fill(0);
            let found = first_damage(&zeros[..]).unwrap();
            // A record of zeros does not show its length: intact ones are found from the next block on.
            assert_eq!(found, (record < 192).then_some((record * SIZE) as u64));
        }
    }
}
