//! Files with headers: RLP of headers or of whole blocks, or JSON objects that contain the RLP.

use std::io::{BufRead, BufReader, Read};

use serde::Deserialize;
use tenon_api::{B256, Bytes, SealedHeader};
use tenon_chain::{BlockStream, DecodeError, StreamError, decode_sealed_header};

/// Maximum size of a header or block.
const MAX_HEADER: u64 = 64 << 20;
/// Maximum size of a JSON text, which is read as a whole.
const MAX_JSON: u64 = 256 << 20;

/// Why a header could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileProblem {
    /// The RLP stream is invalid.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// An item of the stream is invalid.
    #[error("header {index} of the file{}: {source}", .offset.map(|at| format!(", which begins at byte {at}")).unwrap_or_default())]
    Header {
        /// Position, from 0.
        index: u64,
        /// Its offset; `None` in JSON.
        offset: Option<u64>,
        /// The problem.
        source: DecodeError,
    },
    /// The file could not be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The JSON text is invalid.
    #[error("not JSON with headers, in the value that begins at byte {offset}: {source}")]
    Json {
        /// Its offset.
        offset: usize,
        /// The error.
        source: serde_json::Error,
    },
    /// A recorded hash that is not the header's.
    #[error("header {index} of the file, number {number}, has hash {found}, not {recorded}")]
    Hash {
        /// Position, from 0.
        index: u64,
        /// Its height.
        number: u64,
        /// The computed hash.
        found: B256,
        /// The recorded hash.
        recorded: B256,
    },
}

/// A header in a JSON file.
#[derive(Deserialize)]
struct Recorded {
    rlp: Bytes,
    hash: Option<B256>,
}

/// One JSON value of a file.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected an object with `rlp`, or an array of such objects")]
enum Entry {
    One(Recorded),
    Many(Vec<Recorded>),
}

/// The headers of a file, read on demand.
pub(super) struct HeaderFile {
    source: Source,
    index: u64,
    /// Offsets of the headers of the last batch.
    offsets: Vec<u64>,
}

enum Source {
    Rlp(BlockStream<Box<dyn Read + Send>>),
    Json(std::vec::IntoIter<Recorded>),
}

impl HeaderFile {
    /// Detects the kind of file by its first byte.
    pub(super) fn new(reader: Box<dyn Read + Send>) -> Result<Self, FileProblem> {
        let mut reader = BufReader::new(reader);
        let first = reader.fill_buf()?.iter().copied().find(|byte| !byte.is_ascii_whitespace());
        if !matches!(first, Some(b'{' | b'[')) {
            return Ok(Self {
                source: Source::Rlp(BlockStream::with_bound(Box::new(reader), MAX_HEADER)),
                index: 0,
                offsets: Vec::new(),
            });
        }
        let mut text = Vec::new();
        reader.take(MAX_JSON).read_to_end(&mut text)?;
        let mut recorded = Vec::new();
        let mut entries = serde_json::Deserializer::from_slice(&text).into_iter::<Entry>();
        loop {
            let offset = entries.byte_offset();
            match entries.next() {
                None => break,
                Some(Err(source)) => return Err(FileProblem::Json { offset, source }),
                Some(Ok(Entry::One(header))) => recorded.push(header),
                Some(Ok(Entry::Many(headers))) => recorded.extend(headers),
            }
        }
        Ok(Self { source: Source::Json(recorded.into_iter()), index: 0, offsets: Vec::new() })
    }

    /// At most `count` headers, none at the end; and the reason why the next one could not be read.
    pub(super) fn next_batch(&mut self, count: usize) -> (Vec<SealedHeader>, Option<FileProblem>) {
        let mut headers = Vec::new();
        self.offsets.clear();
        while headers.len() < count {
            match self.next() {
                Ok(Some(header)) => headers.push(header),
                Ok(None) => break,
                Err(problem) => return (headers, Some(problem)),
            }
        }
        (headers, None)
    }

    /// The offset of a header in the last batch, as text; empty for JSON.
    pub(super) fn place(&self, position: usize) -> String {
        self.offsets.get(position).map(|at| format!("; the header begins at byte {at} of the file")).unwrap_or_default()
    }

    fn next(&mut self) -> Result<Option<SealedHeader>, FileProblem> {
        let index = self.index;
        let decode = |item: &[u8], offset: Option<u64>| {
            let mut header = header_of(item);
            decode_sealed_header(&mut header).map_err(|source| FileProblem::Header { index, offset, source })
        };
        let header = match &mut self.source {
            Source::Rlp(stream) => {
                let offset = stream.offset();
                match stream.next_encoded()? {
                    None => return Ok(None),
                    Some(item) => {
                        self.offsets.push(offset);
                        decode(item, Some(offset))?
                    }
                }
            }
            Source::Json(recorded) => {
                let Some(entry) = recorded.next() else { return Ok(None) };
                let header = decode(&entry.rlp, None)?;
                if let Some(recorded) = entry.hash.filter(|hash| *hash != header.hash()) {
                    return Err(FileProblem::Hash { index, number: header.number, found: header.hash(), recorded });
                }
                header
            }
        };
        self.index += 1;
        Ok(Some(header))
    }
}

/// The header's RLP in an item that is a header, or a block, whose first member is one.
fn header_of(item: &[u8]) -> &[u8] {
    let content = match item.first() {
        Some(short @ 0xc0..=0xf7) => item.get(1..1 + usize::from(short - 0xc0)),
        Some(long @ 0xf8..=0xff) => item.get(1 + usize::from(long - 0xf7)..),
        _ => None,
    };
    match content {
        Some(content) if content.first().is_some_and(|byte| *byte >= 0xc0) => content,
        _ => item,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> (Vec<SealedHeader>, Option<FileProblem>) {
        match HeaderFile::new(Box::new(std::io::Cursor::new(bytes.to_vec()))) {
            Ok(mut file) => file.next_batch(usize::MAX),
            Err(problem) => (Vec::new(), Some(problem)),
        }
    }

    fn header(number: u64) -> (Vec<u8>, SealedHeader) {
        let header = tenon_chain::seal(tenon_api::Header {
            number,
            native_seal: Some(tenon_api::NativeSeal::default()),
            ..Default::default()
        });
        let mut bytes = Vec::new();
        tenon_chain::encode_header(&header, &mut bytes);
        (bytes, header)
    }

    #[test]
    fn reads_headers_blocks_and_json_alike() {
        let (rlp, wanted) = header(7);
        let block = tenon_chain::assemble_block(wanted.clone(), Vec::new(), Vec::new(), None);
        let text = format!("  [{{\"rlp\": \"{}\", \"hash\": \"{}\"}}]", Bytes::from(rlp.clone()), wanted.hash());
        for bytes in [rlp, tenon_chain::encode_block(&block), text.into_bytes()] {
            let (headers, problem) = all(&bytes);
            assert!(problem.is_none(), "{}", problem.unwrap());
            assert_eq!(headers, std::slice::from_ref(&wanted));
        }
    }

    #[test]
    fn returns_the_headers_before_the_damage() {
        let (first, wanted) = header(1);
        let (second, _) = header(2);
        let (headers, problem) = all(&[&first[..], &second[..second.len() - 1]].concat());
        assert_eq!(headers, [wanted]);
        assert!(problem.unwrap().to_string().starts_with("the file ends inside"));
    }

    #[test]
    fn names_the_offset_of_a_damaged_header() {
        let (first, _) = header(1);
        let (mut second, _) = header(2);
        // The parent's hash becomes one byte shorter, which shifts the following fields.
        let at = second.iter().position(|byte| *byte == 0xa0).unwrap();
        second[at] = 0x9f;
        let problem = all(&[&first[..], &second].concat()).1.unwrap().to_string();
        assert!(
            problem.starts_with(&format!("header 1 of the file, which begins at byte {}: ", first.len())),
            "{problem}"
        );
    }

    #[test]
    fn names_the_value_that_is_not_a_header() {
        let (rlp, _) = header(1);
        let first = format!("{{\"rlp\": \"{}\"}}", Bytes::from(rlp));
        let problem = all(format!("{first}{{\"hash\": 1}}").as_bytes()).1.unwrap().to_string();
        let expected = format!("not JSON with headers, in the value that begins at byte {}: ", first.len());
        assert!(problem.starts_with(&expected), "{problem}");
    }

    #[test]
    fn compares_the_recorded_hash() {
        let (rlp, wanted) = header(3);
        let text = format!("{{\"rlp\": \"{}\", \"hash\": \"{}\"}}", Bytes::from(rlp), B256::ZERO);
        let problem = all(text.as_bytes()).1.unwrap().to_string();
        let found = wanted.hash();
        assert_eq!(problem, format!("header 0 of the file, number 3, has hash {found}, not {}", B256::ZERO));
    }
}
