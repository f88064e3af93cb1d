//! The database under the reference's names and keys: `docs/spec/rpc-node.md` 4.3. The node's database differs, so this
//! maps the records that exist in both, and finds no others.

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
    context.call(GetDatabaseProperty { name }).await?.ok_or_else(|| Failure::server(NOT_FOUND))
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

    #[test]
    fn keys_are_hexadecimal_or_text() {
        assert_eq!(key_bytes("LastBlock"), Ok(b"LastBlock".to_vec()));
        assert_eq!(key_bytes("0x4c61"), Ok(b"La".to_vec()));
        assert_eq!(key_bytes("0x"), Err("empty hex string"));
        assert_eq!(key_bytes("0x1"), Err("hex string of odd length"));
        assert_eq!(key_bytes("0xzz"), Err("invalid hex string"));
    }
}
