//! Positions of a file's blocks, to locate a refused one.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;

use parking_lot::Mutex;
use tenon_api::{Block, BlockNumber};
use tenon_chain::{BlockStream, StreamError};

/// Number of blocks whose positions are kept: far more than the importer reads ahead of a block that it may refuse.
const KEPT: usize = 1 << 16;

/// The positions of the last blocks read: height, and offset in the uncompressed file.
#[derive(Clone, Default)]
pub(super) struct BlockPositions(Arc<Mutex<VecDeque<(BlockNumber, u64)>>>);

impl BlockPositions {
    fn push(&self, number: BlockNumber, offset: u64) {
        let mut positions = self.0.lock();
        if positions.len() == KEPT {
            positions.pop_front();
        }
        positions.push_back((number, offset));
    }

    /// The position of the block of this height.
    pub(super) fn of(&self, number: BlockNumber) -> Option<u64> {
        let positions = self.0.lock();
        positions.iter().find(|(height, _)| *height == number).map(|(_, offset)| *offset)
    }
}

/// A stream of blocks that records their positions.
pub(super) struct PositionedStream<R> {
    stream: BlockStream<R>,
    positions: BlockPositions,
}

impl<R: Read> PositionedStream<R> {
    pub(super) const fn new(stream: BlockStream<R>, positions: BlockPositions) -> Self {
        Self { stream, positions }
    }
}

impl<R: Read> Iterator for PositionedStream<R> {
    type Item = Result<Block, StreamError>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.stream.offset();
        let block = self.stream.next()?;
        if let Ok(block) = &block {
            self.positions.push(BlockNumber(block.header.number), offset);
        }
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_the_positions_of_blocks() {
        let encoded = |number: u64| {
            let header = tenon_chain::seal(tenon_api::Header { number, ..Default::default() });
            tenon_chain::encode_block(&tenon_chain::assemble_block(header, Vec::new(), Vec::new(), None))
        };
        let (first, second) = (encoded(7), encoded(8));
        let file = [first.clone(), second].concat();
        let positions = BlockPositions::default();

        let read =
            PositionedStream::new(BlockStream::new(file.as_slice()), positions.clone()).filter(Result::is_ok).count();

        assert_eq!(read, 2);
        assert_eq!(
            [7, 8, 9].map(|number| positions.of(BlockNumber(number))),
            [Some(0), Some(first.len() as u64), None]
        );
    }
}
