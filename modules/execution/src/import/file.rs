//! Inserting the blocks of a file while the node runs (`admin_importChain`).

use std::{
    fs::File,
    io::{BufReader, ErrorKind, Read},
    path::Path,
};

use tenon_api::{Block, Failure};
use tenon_bus::CallContext;

use super::ChainHandle;

/// The longest RLP of a block that is read, bytes.
const MOST_BLOCK_BYTES: usize = 64 << 20;

impl ChainHandle {
    /// Inserts the blocks of a file, RLP one after another, each by itself as if a peer had sent it. Those that are there
    /// already are passed over. Blocks the caller's thread.
    ///
    /// # Errors
    /// The file cannot be read, holds something else, or a block is refused; the blocks before it stay.
    pub fn import_file(&self, path: &Path, caller: &CallContext) -> Result<(), Failure> {
        let named = |what: String| Failure::server(format!("{}: {what}", path.display()));
        let file = File::open(path).map_err(|error| named(error.to_string()))?;
        let mut bytes = BufReader::new(file);
        let mut number = None;
        while let Some(block) = next_block(&mut bytes).map_err(|what| named(after(number, &what)))? {
            if caller.is_cancelled() {
                return Err(Failure::limit("request timed out"));
            }
            number = Some(block.header.number);
            if number == Some(0) {
                continue;
            }
            self.insert_waiting(block)?;
        }
        Ok(())
    }
}

fn after(number: Option<u64>, what: &str) -> String {
    number.map_or_else(|| what.to_owned(), |number| format!("after block {number}: {what}"))
}

/// The next block of a file; none at its end.
fn next_block(bytes: &mut impl Read) -> Result<Option<Block>, String> {
    let mut rlp = vec![0];
    match bytes.read_exact(&mut rlp) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other.map_err(|error| error.to_string())?,
    }
    let digits = match rlp[0] {
        0xc0..=0xf7 => 0,
        0xf8.. => usize::from(rlp[0] - 0xf7),
        _ => return Err("not the RLP of a block".to_owned()),
    };
    append(bytes, &mut rlp, digits)?;
    let length = match digits {
        0 => usize::from(rlp[0] - 0xc0),
        _ => rlp[1..].iter().fold(0_usize, |length, digit| length.saturating_mul(256).saturating_add((*digit).into())),
    };
    if length > MOST_BLOCK_BYTES {
        return Err(format!("a block of {length} bytes; at most {MOST_BLOCK_BYTES} are read"));
    }
    append(bytes, &mut rlp, length)?;
    tenon_chain::decode_block(&mut &rlp[..]).map(Some).map_err(|error| error.to_string())
}

fn append(bytes: &mut impl Read, rlp: &mut Vec<u8>, count: usize) -> Result<(), String> {
    let read = bytes.take(count as u64).read_to_end(rlp).map_err(|error| error.to_string())?;
    if read == count { Ok(()) } else { Err("the last block is cut off".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_block_is_refused_by_name() {
        let cases: [(&[u8], &str); 4] = [
            (&[0x01], "not the RLP of a block"),
            (&[0xf9, 0x01], "the last block is cut off"),
            (&[0xc3, 0x01], "the last block is cut off"),
            (&[0xff; 9], "a block of"),
        ];
        for (bytes, expected) in cases {
            let refused = next_block(&mut &bytes[..]).err();
            assert!(refused.as_ref().is_some_and(|text| text.starts_with(expected)), "{bytes:?}: {refused:?}");
        }
        assert!(matches!(next_block(&mut &[][..]), Ok(None)));
    }
}
