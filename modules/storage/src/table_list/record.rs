//! The record: one line of words and their checksum.

use alloy_primitives::{B256, hex, keccak256};

/// Prefix of the names of lists of tables.
const LIST_PREFIX: &str = "MANIFEST-";
/// Represents the newest log of a folder without logs.
pub(crate) const NO_LOG: &str = "-";

/// A recorded list of tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The list's file.
    pub(crate) file: String,
    /// Number of its bytes on disk.
    pub(crate) length: u64,
    /// Their hash.
    pub(crate) hash: B256,
    /// The newest log, read after the length; `-` if there was none.
    pub(crate) log: String,
}

impl Known {
    /// Encodes the record as a line.
    pub(crate) fn encode(&self) -> String {
        signed(&format!("{} {} {:x} {}", self.file, self.length, self.hash, self.log))
    }

    /// Decodes a record; `None` unless [`encode`](Self::encode) made it.
    pub(crate) fn decode(record: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(record).ok()?.strip_suffix('\n')?;
        let (facts, sum) = line.rsplit_once(' ')?;
        let [file, length, hash, log] = facts.split(' ').collect::<Vec<_>>().try_into().ok()?;
        let is_whole = sum == check_sum(facts) && list_number(file).is_some();
        let known = Self { file: file.into(), length: length.parse().ok()?, hash: hash.parse().ok()?, log: log.into() };
        // Rejects other spellings of numbers, such as `+77` or `0x…`.
        (is_whole && known.encode().as_bytes() == record).then_some(known)
    }
}

/// The words with their checksum, as a line.
pub(crate) fn signed(facts: &str) -> String {
    format!("{facts} {}\n", check_sum(facts))
}

fn check_sum(facts: &str) -> String {
    let hash = keccak256(facts);
    hex::encode(hash.get(..8).unwrap_or_default())
}

/// The number in the name of a list of tables.
pub(super) fn list_number(file: &str) -> Option<u64> {
    file.strip_prefix(LIST_PREFIX)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        Known { file: "MANIFEST-000004".into(), length: 77, hash: keccak256(b"list"), log: "000009.log".into() }
    }

    #[test]
    fn a_record_round_trips_and_any_flipped_bit_or_missing_end_is_refused() {
        let record = known().encode().into_bytes();
        assert_eq!(Known::decode(&record), Some(known()));

        for bit in 0..record.len() * 8 {
            let mut flipped = record.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // A digit of the checksum or the hash in upper case is the same number, but not the encoding.
            assert_eq!(Known::decode(&flipped), None, "bit {bit}");
        }
        for length in 0..record.len() {
            assert_eq!(Known::decode(&record[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn numbers_in_another_spelling_are_refused_despite_a_correct_checksum() {
        let facts = format!("MANIFEST-000004 77 {:x} 000009.log", known().hash);
        assert_eq!(Known::decode(signed(&facts).as_bytes()), Some(known()));

        for other in [facts.replace(" 77 ", " +77 "), facts.replace(" 77 ", " 077 "), facts.replace(" 77 ", " 77 0x")] {
            assert_eq!(Known::decode(signed(&other).as_bytes()), None, "{other}");
        }
    }
}
