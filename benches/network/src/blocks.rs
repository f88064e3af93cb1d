//! Blocks of a file.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use tenon_api::Block;
use tenon_chain::BlockStream;

use crate::Outcome;

/// All blocks of a file of RLP. An exported chain begins with the genesis block.
pub(crate) fn read(path: &Path) -> Outcome<Vec<Block>> {
    let blocks = BlockStream::new(BufReader::new(File::open(path)?));
    Ok(blocks.collect::<Result<_, _>>()?)
}
