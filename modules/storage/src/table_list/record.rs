//! The record itself: one line of words with a check sum behind them.

use alloy_primitives::{B256, hex, keccak256};

/// How the names of lists of tables begin.
const LIST_PREFIX: &str = "MANIFEST-";
/// Stands for the newest log of a folder without one.
pub(crate) const NO_LOG: &str = "-";

/// A list of tables as the record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The list's file.
    pub(crate) file: String,
    /// Bytes of it that are on the disk.
    pub(crate) length: u64,
    /// Their hash.
    pub(crate) hash: B256,
    /// The newest log at a later instant than the length; `-` when there was none.
    pub(crate) log: String,
}

impl Known {
    /// The record's line.
    pub(crate) fn encode(&self) -> String {
        signed(&format!("{} {} {:x} {}", self.file, self.length, self.hash, self.log))
    }

    /// Reads a record; none when it is not one that [`encode`](Self::encode) makes.
    pub(crate) fn decode(record: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(record).ok()?.strip_suffix('\n')?;
        let (facts, sum) = line.rsplit_once(' ')?;
        let [file, length, hash, log] = facts.split(' ').collect::<Vec<_>>().try_into().ok()?;
        let is_whole = sum == check_sum(facts) && list_number(file).is_some();
        let known = Self { file: file.into(), length: length.parse().ok()?, hash: hash.parse().ok()?, log: log.into() };
        // Numbers are read in other spellings too, `+77` or `0x…`.
        (is_whole && known.encode().as_bytes() == record).then_some(known)
    }
}

/// These words with their check sum, as a line.
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
    fn a_record_is_read_back_and_any_flipped_bit_or_missing_end_makes_it_none() {
        let record = known().encode().into_bytes();
        assert_eq!(Known::decode(&record), Some(known()));

        for bit in 0..record.len() * 8 {
            let mut flipped = record.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // A digit of the sum or of the hash in capitals is the same number, but no record that was written.
            assert_eq!(Known::decode(&flipped), None, "bit {bit}");
        }
        for length in 0..record.len() {
            assert_eq!(Known::decode(&record[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn numbers_in_another_spelling_are_no_record_although_the_sum_is_right() {
        let facts = format!("MANIFEST-000004 77 {:x} 000009.log", known().hash);
        assert_eq!(Known::decode(signed(&facts).as_bytes()), Some(known()));

        for other in [facts.replace(" 77 ", " +77 "), facts.replace(" 77 ", " 077 "), facts.replace(" 77 ", " 77 0x")] {
            assert_eq!(Known::decode(signed(&other).as_bytes()), None, "{other}");
        }
    }
}
