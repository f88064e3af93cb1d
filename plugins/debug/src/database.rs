//! The database under the reference's names and keys: `docs/spec/rpc-node.md` 4.3. The node's database differs, so this
//! maps the records that exist in both, and finds no others.

use std::fmt::Write as _;

use tenon_sdk::prelude::*;

use crate::DebugContext;

/// The reference's database error for an unknown key or name.
const NOT_FOUND: &str = "leveldb: not found";

/// A record of the reference's database that exists in this one too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    /// Hash of the head.
    Head,
    /// RLP of the header of this hash at this height.
    Header(u64, B256),
    /// Hash of the canonical block of this height.
    CanonicalHash(u64),
    /// Height of the block of this hash.
    Height(B256),
    /// Height of the block with this transaction.
    Transaction(B256),
    /// The code of this hash.
    Code(B256),
    /// The data with this hash.
    Preimage(B256),
}

impl Record {
    /// The record of a key of the reference's schema.
    fn of(key: &[u8]) -> Option<Self> {
        if matches!(key, b"LastBlock" | b"LastHeader" | b"LastFast") {
            return Some(Self::Head);
        }
        if let Some(hash) = key.strip_prefix(b"secure-key-") {
            return B256::try_from(hash).ok().map(Self::Preimage);
        }
        let (kind, rest) = key.split_first()?;
        match (kind, rest.len()) {
            (b'h', 40) => Some(Self::Header(height(rest)?, B256::from_slice(&rest[8..]))),
            (b'h', 9) if rest[8] == b'n' => Some(Self::CanonicalHash(height(rest)?)),
            (b'H', 32) => Some(Self::Height(B256::from_slice(rest))),
            (b'l', 32) => Some(Self::Transaction(B256::from_slice(rest))),
            (b'c', 32) => Some(Self::Code(B256::from_slice(rest))),
            _ => None,
        }
    }

    async fn read(self, context: &DebugContext) -> Result<Option<Vec<u8>>, Failure> {
        Ok(match self {
            Self::Head => Some(context.call(GetHead).await?.header.hash().to_vec()),
            Self::Header(number, hash) => {
                let block = BlockId::hash(hash);
                let found = context.call(GetHeader { block }).await?.filter(|found| found.header.number == number);
                let raw = if found.is_some() { context.call(GetRaw::Header(block)).await? } else { None };
                raw.and_then(|list| list.into_iter().next()).map(|bytes| bytes.to_vec())
            }
            Self::CanonicalHash(number) => {
                let found = context.call(GetHeader { block: BlockId::number(number) }).await?;
                found.map(|found| found.header.hash().to_vec())
            }
            Self::Height(hash) => {
                let found = context.call(GetHeader { block: BlockId::hash(hash) }).await?;
                found.map(|found| found.header.number.to_be_bytes().to_vec())
            }
            Self::Transaction(hash) => {
                let found = context.call(GetTransaction { hash }).await?;
                found.map(|found| U256::from(found.header.number).to_be_bytes_trimmed_vec())
            }
            Self::Code(hash) => {
                let found = context.call(GetPreimage { hash }).await?;
                found.map(|code| code.to_vec())
            }
            Self::Preimage(hash) => {
                let found = context.call(GetPreimage { hash }).await?;
                found.map(|preimage| preimage.to_vec())
            }
        })
    }
}

fn height(key: &[u8]) -> Option<u64> {
    key.first_chunk().map(|number| u64::from_be_bytes(*number))
}

/// `debug_dbGet`: a key that starts with `0x` is hexadecimal, any other is plain text.
pub(crate) async fn get(context: DebugContext, key: String) -> Result<Data, Failure> {
    let key = key_bytes(&key).map_err(Failure::server)?;
    let found = match Record::of(&key) {
        Some(record) => record.read(&context).await?,
        None => None,
    };
    found.map(|bytes| Data(bytes.into())).ok_or_else(|| Failure::server(NOT_FOUND))
}

fn key_bytes(key: &str) -> Result<Vec<u8>, &'static str> {
    let Some(digits) = key.strip_prefix("0x").or_else(|| key.strip_prefix("0X")) else {
        return Ok(key.as_bytes().to_vec());
    };
    match digits {
        "" => Err("empty hex string"),
        digits if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => Err("invalid hex string"),
        digits if digits.len() % 2 != 0 => Err("hex string of odd length"),
        digits => digits.parse::<Bytes>().map(|bytes| bytes.to_vec()).map_err(|_| "invalid hex string"),
    }
}

/// `debug_chaindbProperty`.
pub(crate) async fn property(context: DebugContext, name: String) -> Result<String, Failure> {
    let name = match name.strip_prefix("leveldb.").unwrap_or(&name) {
        "" if name.is_empty() => "stats".to_owned(),
        rest => rest.to_owned(),
    };
    let statistics = context.call(GetDatabaseStatistics).await?;
    property_text(&name, &statistics).ok_or_else(|| Failure::server(NOT_FOUND))
}

/// The text of a property, whose name is without the prefix `leveldb.`; `None` if there is no such property.
fn property_text(name: &str, statistics: &DatabaseStatistics) -> Option<String> {
    let level = name.strip_prefix("num-files-at-level").and_then(|level| level.parse::<usize>().ok());
    if let Some(files) = level.and_then(|level| statistics.files_by_level.get(level)) {
        return Some(files.to_string());
    }
    let DatabaseStatistics { running_compactions, pending_compactions, delayed_write_rate, .. } = statistics;
    let DatabaseStatistics { is_write_stopped, cache_capacity, cache_pinned_bytes, .. } = statistics;
    Some(match name {
        "stats" => levels_table(statistics),
        "compcount" => format!("Running:{running_compactions} Pending:{pending_compactions}"),
        "writedelay" => format!("DelayedRate:{delayed_write_rate} Stopped:{is_write_stopped}"),
        "cachedblock" => statistics.cache_bytes.to_string(),
        "blockpool" => format!("Capacity:{cache_capacity} Pinned:{cache_pinned_bytes}"),
        "alivesnaps" => statistics.snapshots.to_string(),
        "sstables" => files_table(&statistics.files),
        _ => return None,
    })
}

/// Files and bytes by level; the node's database has no times by level.
fn levels_table(statistics: &DatabaseStatistics) -> String {
    const RULE: &str = "-------+------------+---------------\n";
    let mut text = format!("Compactions\n Level |   Tables   |    Size(MB)\n{RULE}");
    let files = &statistics.files;
    for level in (0..).take(statistics.files_by_level.len()) {
        let of_level = files.iter().filter(|file| file.level == level);
        let (count, bytes) = of_level.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.bytes));
        if count > 0 {
            write_row(&mut text, &format!("{level:4}  "), count, bytes);
        }
    }
    text.push_str(RULE);
    write_row(&mut text, " Total", files.len(), files.iter().map(|file| file.bytes).sum());
    text
}

fn write_row(text: &mut String, name: &str, files: usize, bytes: u64) {
    #[allow(clippy::cast_precision_loss, reason = "shown with five decimals")]
    let megabytes = bytes as f64 / f64::from(1 << 20);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{name} | {files:10} | {megabytes:13.5}");
}

fn files_table(files: &[TableFile]) -> String {
    let mut text = String::new();
    for TableFile { column, level, bytes, name } in files {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{column} level {level} {bytes} bytes {name}");
    }
    text
}

/// `debug_chaindbCompact`.
pub(crate) async fn compact(context: DebugContext) -> Result<(), Failure> {
    context.call(CompactDatabase).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_reference_are_recognised() {
        let hash = B256::repeat_byte(7);
        let with_hash = |prefix: &[u8]| [prefix, hash.as_slice()].concat();
        let number = 5_u64.to_be_bytes();
        let cases = [
            (b"LastBlock".to_vec(), Some(Record::Head)),
            (with_hash(&[b"h".as_slice(), &number].concat()), Some(Record::Header(5, hash))),
            ([b"h".as_slice(), &number, b"n"].concat(), Some(Record::CanonicalHash(5))),
            (with_hash(b"H"), Some(Record::Height(hash))),
            (with_hash(b"l"), Some(Record::Transaction(hash))),
            (with_hash(b"c"), Some(Record::Code(hash))),
            (with_hash(b"secure-key-"), Some(Record::Preimage(hash))),
            (b"nothing".to_vec(), None),
            (Vec::new(), None),
        ];
        for (key, expected) in cases {
            assert_eq!(Record::of(&key), expected, "{key:?}");
        }
    }

    fn file(column: &str, level: u32, bytes: u64) -> TableFile {
        TableFile { column: column.to_owned(), level, bytes, name: format!("/{bytes:06}.sst") }
    }

    #[test]
    fn statistics_have_the_names_and_texts_of_the_reference() {
        const TABLE: &str = "\
            Compactions\n Level |   Tables   |    Size(MB)\n\
            -------+------------+---------------\n   \
            0   |          2 |       1.50000\n   \
            6   |          1 |       0.00001\n\
            -------+------------+---------------\n \
            Total |          3 |       1.50001\n";
        let statistics = DatabaseStatistics {
            files_by_level: vec![2, 0, 0, 0, 0, 0, 1],
            files: vec![file("headers", 0, 1 << 20), file("codes", 0, 1 << 19), file("codes", 6, 7)],
            running_compactions: 1,
            pending_compactions: 2,
            delayed_write_rate: 3,
            is_write_stopped: true,
            cache_bytes: 4,
            cache_capacity: 5,
            cache_pinned_bytes: 6,
            snapshots: 8,
        };
        let cases = [
            ("stats", Some(TABLE)),
            ("compcount", Some("Running:1 Pending:2")),
            ("writedelay", Some("DelayedRate:3 Stopped:true")),
            ("cachedblock", Some("4")),
            ("blockpool", Some("Capacity:5 Pinned:6")),
            ("alivesnaps", Some("8")),
            (
                "sstables",
                Some(
                    "headers level 0 1048576 bytes /1048576.sst\ncodes level 0 524288 bytes /524288.sst\n\
                     codes level 6 7 bytes /000007.sst\n",
                ),
            ),
            ("num-files-at-level0", Some("2")),
            ("num-files-at-level6", Some("1")),
            ("num-files-at-level7", None),
            ("num-files-at-level", None),
            ("nonsense", None),
        ];
        for (name, expected) in cases {
            assert_eq!(property_text(name, &statistics).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn keys_are_hexadecimal_or_text() {
        assert_eq!(key_bytes("LastBlock"), Ok(b"LastBlock".to_vec()));
        assert_eq!(key_bytes("0x4c61"), Ok(b"La".to_vec()));
        assert_eq!(key_bytes("0x"), Err("empty hex string"));
        assert_eq!(key_bytes("0x1"), Err("hex string of odd length"));
        assert_eq!(key_bytes("0xzz"), Err("invalid hex string"));
    }
}
