//! Counters of the write path.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use tenon_api::{
    BlockCommit, BlockNumber, ChainWriter, DurationCounts, Durations, Header, RecoveredBlock, StoreError, U256,
};

/// The chain's writer, with counters.
pub struct CountedWriter {
    writer: Arc<dyn ChainWriter>,
    durations: Durations,
    blocks: AtomicU64,
    transactions: AtomicU64,
    gas: AtomicU64,
    unwinds: AtomicU64,
    side_blocks: AtomicU64,
}

/// The values of [`CountedWriter`]'s counters at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitCounts {
    /// Number and duration of commits. All blocks of a reorganisation or of a group count as one commit.
    pub durations: DurationCounts,
    /// Blocks that became canonical.
    pub blocks: u64,
    /// Transactions of these blocks.
    pub transactions: u64,
    /// Gas used by these transactions.
    pub gas: u64,
    /// Number of unwinds of the head.
    pub unwinds: u64,
    /// Blocks stored on side branches.
    pub side_blocks: u64,
}

impl CountedWriter {
    /// Wraps `writer`.
    pub fn new(writer: Arc<dyn ChainWriter>) -> Self {
        Self {
            writer,
            durations: Durations::default(),
            blocks: AtomicU64::new(0),
            transactions: AtomicU64::new(0),
            gas: AtomicU64::new(0),
            unwinds: AtomicU64::new(0),
            side_blocks: AtomicU64::new(0),
        }
    }

    fn count_block(&self, commit: &BlockCommit) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
        self.transactions.fetch_add(commit.block.transactions.len() as u64, Ordering::Relaxed);
        self.gas.fetch_add(commit.block.header.gas_used, Ordering::Relaxed);
    }

    /// The current values.
    pub fn counted(&self) -> CommitCounts {
        CommitCounts {
            durations: self.durations.counted(),
            blocks: self.blocks.load(Ordering::Relaxed),
            transactions: self.transactions.load(Ordering::Relaxed),
            gas: self.gas.load(Ordering::Relaxed),
            unwinds: self.unwinds.load(Ordering::Relaxed),
            side_blocks: self.side_blocks.load(Ordering::Relaxed),
        }
    }
}

impl ChainWriter for CountedWriter {
    fn commit(&self, commit: &Arc<BlockCommit>) -> Result<(), StoreError> {
        let begun = Instant::now();
        self.writer.commit(commit)?;
        self.durations.count(begun.elapsed());
        self.count_block(commit);
        Ok(())
    }

    fn group_size(&self, header: &Header) -> usize {
        self.writer.group_size(header)
    }

    fn commit_first(&self, commits: &[Arc<BlockCommit>]) -> Result<usize, StoreError> {
        let begun = Instant::now();
        let count = self.writer.commit_first(commits)?;
        self.durations.count(begun.elapsed());
        commits.iter().take(count).for_each(|commit| self.count_block(commit));
        Ok(count)
    }

    fn insert_side_block(&self, block: &Arc<RecoveredBlock>, total_difficulty: U256) -> Result<(), StoreError> {
        self.writer.insert_side_block(block, total_difficulty)?;
        self.side_blocks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn keep_side_state(&self, commit: &Arc<BlockCommit>) -> Result<(), StoreError> {
        self.writer.keep_side_state(commit)
    }

    fn check_unwind(&self, number: BlockNumber) -> Result<(), StoreError> {
        self.writer.check_unwind(number)
    }

    fn unwind(&self, number: BlockNumber) -> Result<(), StoreError> {
        self.writer.unwind(number)?;
        self.unwinds.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn reorganise(&self, ancestor: BlockNumber, branch: &[Arc<BlockCommit>]) -> Result<(), StoreError> {
        let begun = Instant::now();
        self.writer.reorganise(ancestor, branch)?;
        self.durations.count(begun.elapsed());
        self.unwinds.fetch_add(1, Ordering::Relaxed);
        branch.iter().for_each(|commit| self.count_block(commit));
        Ok(())
    }

    fn set_finality(&self, finalized: Option<BlockNumber>, safe: Option<BlockNumber>) -> Result<(), StoreError> {
        self.writer.set_finality(finalized, safe)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{B256, Block, SealedHeader};

    use super::*;

    /// Refuses single blocks, and writes above the first heights. Accepts up to three blocks in one commit.
    struct RefusingWriter;

    impl ChainWriter for RefusingWriter {
        fn commit(&self, _: &Arc<BlockCommit>) -> Result<(), StoreError> {
            Err(StoreError::Engine("full".to_owned()))
        }

        fn commit_first(&self, commits: &[Arc<BlockCommit>]) -> Result<usize, StoreError> {
            Ok(commits.len().min(3))
        }

        fn insert_side_block(&self, _: &Arc<RecoveredBlock>, _: U256) -> Result<(), StoreError> {
            Ok(())
        }

        fn keep_side_state(&self, _: &Arc<BlockCommit>) -> Result<(), StoreError> {
            Err(StoreError::Engine("full".to_owned()))
        }

        fn check_unwind(&self, number: BlockNumber) -> Result<(), StoreError> {
            let refusal = StoreError::UnknownBlock { what: number.to_string() };
            if number < BlockNumber(5) { Ok(()) } else { Err(refusal) }
        }

        fn unwind(&self, number: BlockNumber) -> Result<(), StoreError> {
            self.check_unwind(number)
        }

        fn reorganise(&self, ancestor: BlockNumber, _: &[Arc<BlockCommit>]) -> Result<(), StoreError> {
            self.unwind(ancestor)
        }

        fn set_finality(&self, _: Option<BlockNumber>, _: Option<BlockNumber>) -> Result<(), StoreError> {
            Ok(())
        }

        fn flush(&self) -> Result<(), StoreError> {
            Ok(())
        }
    }

    #[test]
    fn counts_successful_writes_only() {
        let writer = CountedWriter::new(Arc::new(RefusingWriter));

        assert!(writer.unwind(BlockNumber(4)).is_ok() && writer.unwind(BlockNumber(9)).is_err());
        assert!(writer.reorganise(BlockNumber(4), &[]).is_ok() && writer.reorganise(BlockNumber(9), &[]).is_err());

        let counted = writer.counted();
        assert_eq!((counted.unwinds, counted.durations.number()), (2, 1));
    }

    #[test]
    fn counts_every_block_of_a_group_and_of_a_branch() {
        let writer = CountedWriter::new(Arc::new(RefusingWriter));
        let commits: Vec<_> = (0..4).map(|_| Arc::new(commit(7))).collect();

        assert_eq!(writer.commit_first(&commits), Ok(3));
        assert!(writer.commit(&commits[0]).is_err());
        assert!(writer.reorganise(BlockNumber(4), &commits[..2]).is_ok());

        let counted = writer.counted();
        assert_eq!((counted.blocks, counted.gas, counted.durations.number()), (5, 35, 2));
    }

    fn commit(gas_used: u64) -> BlockCommit {
        let header = SealedHeader::new_unchecked(Header { gas_used, ..Header::default() }, B256::ZERO);
        let block = Block { header, transactions: Vec::new(), ommers: Vec::new(), withdrawals: None, size: 0 };
        BlockCommit {
            block: Arc::new(RecoveredBlock { block, senders: Vec::new() }),
            total_difficulty: U256::ZERO,
            receipts: Arc::default(),
            accounts: Vec::new(),
            codes: Vec::new(),
            trie_nodes: Vec::new(),
            superseded_trie_nodes: Vec::new(),
        }
    }
}
