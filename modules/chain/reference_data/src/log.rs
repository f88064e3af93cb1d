//! Checks the logs of the database, whose damaged records the database crate skips without an error. A log is a sequence of
//! blocks; a record has a checksum (masked CRC-32C), a length and a kind, and does not cross the end of a block.

use std::io::{self, Read};

use crate::environment::is_checksum;

/// Size of a block of a log, in bytes.
const BLOCK: usize = 1 << 15;
/// Size of a record's header: checksum, length, kind.
const HEADER: usize = 7;

/// Returns the position of the first damaged record, in bytes; `None` for an intact log. The end of a log may be torn, as a
/// killed process leaves it: an incomplete or damaged record that no other one follows.
///
/// # Errors
/// The log cannot be read.
pub(crate) fn first_damage(mut log: impl Read) -> io::Result<Option<u64>> {
    let (mut block, mut start, mut damage) = (vec![0; BLOCK], 0, None);
    loop {
        let length = fill(&mut log, &mut block)?;
        let mut place = 0;
        while let Some(record) = block.get(place..length).filter(|rest| rest.len() >= HEADER) {
            match size_of_record(record) {
                // The rest of the block is empty, or preallocated.
                Some(0) => break,
                Some(_) if damage.is_some() => return Ok(damage),
                Some(size) => place += size,
                None => {
                    damage = damage.or(Some(start + place as u64));
                    break;
                }
            }
        }
        if length < BLOCK {
            return Ok(None);
        }
        start += BLOCK as u64;
    }
}

/// The size of the intact record at the start of these bytes, with its header; 0 for zeros in its place. `None` if it is
/// damaged.
fn size_of_record(bytes: &[u8]) -> Option<usize> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
    if *header == [0; HEADER] {
        return Some(0);
    }
    let [first, second, third, fourth, low, high, kind] = *header;
    let length = usize::from(u16::from_le_bytes([low, high]));
    let content = rest.get(..length)?;
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&[kind]), content);
    is_checksum(u32::from_le_bytes([first, second, third, fourth]), checksum).then_some(HEADER + length)
}

/// Reads until the block is full or the log ends; returns the number of bytes.
fn fill(log: &mut impl Read, block: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = block.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match log.read(rest) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of records of this size.
    fn log(records: usize, size: usize) -> Vec<u8> {
        let mut log = Vec::new();
        for number in 0..records {
            let left = BLOCK - log.len() % BLOCK;
            if left < HEADER + size {
                log.resize(log.len() + left, 0);
            }
            let content = vec![number as u8; size];
            let checksum = crc32c::crc32c_append(crc32c::crc32c(&[1]), &content);
            log.extend(checksum.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes());
            log.extend((size as u16).to_le_bytes());
            log.push(1);
            log.extend(content);
        }
        log
    }

    #[test]
    fn an_intact_log_and_one_with_a_torn_end_have_no_damage() {
        let whole = log(200, 1_000);
        assert_eq!(first_damage(&whole[..]).unwrap(), None);
        for lost in [1, 500, 1_006, 1_007, 1_500] {
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
        let mut spoiled = log(200, 1_000);
        spoiled[3 * 1_007 + 20] ^= 1;
        assert_eq!(first_damage(&spoiled[..]).unwrap(), Some(3 * 1_007));
        let mut zeros = log(200, 1_000);
        zeros[BLOCK + 1_007..BLOCK + 1_010].fill(0);
        assert_eq!(first_damage(&zeros[..]).unwrap(), Some(BLOCK as u64 + 1_007));
    }
}
