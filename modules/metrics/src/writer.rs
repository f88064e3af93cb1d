//! Counters of the write path.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use delegate::delegate;
use tenon_api::{
    BlockCommit, BlockNumber, ChainReader, ChainWriter, DurationCounts, Durations, Header, RecoveredBlock, StoreError,
    U256,
};

/// The chain's writer, with counters. A change during which the writer panicked is counted if it was made nevertheless.
pub struct CountedWriter {
    writer: Arc<dyn ChainWriter>,
    /// Shows whether a change was made by a writer that panicked.
    chain: Arc<dyn ChainReader>,
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
    /// Wraps the writer of `chain`.
    pub fn new(writer: Arc<dyn ChainWriter>, chain: Arc<dyn ChainReader>) -> Self {
        Self {
            writer,
            chain,
            durations: Durations::default(),
            blocks: AtomicU64::new(0),
            transactions: AtomicU64::new(0),
            gas: AtomicU64::new(0),
            unwinds: AtomicU64::new(0),
            side_blocks: AtomicU64::new(0),
        }
    }

    /// Counts the blocks of a commit. `outcome` is how many of them the writer has committed. Returns how many were.
    fn count_commit(
        &self,
        begun: Instant,
        commits: &[Arc<BlockCommit>],
        outcome: &Result<usize, StoreError>,
    ) -> Option<usize> {
        let committed = outcome.clone().or_else(|error| error.committed_despite(&*self.chain, commits)).ok()?;
        self.durations.count(begun.elapsed());
        for commit in commits.iter().take(committed) {
            self.blocks.fetch_add(1, Ordering::Relaxed);
            self.transactions.fetch_add(commit.block.transactions.len() as u64, Ordering::Relaxed);
            self.gas.fetch_add(commit.block.header.gas_used, Ordering::Relaxed);
        }
        Some(committed)
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
        let outcome = self.writer.commit(commit);
        self.count_commit(begun, std::slice::from_ref(commit), &outcome.clone().map(|()| 1));
        outcome
    }

    fn commit_first(&self, commits: &[Arc<BlockCommit>]) -> Result<usize, StoreError> {
        let begun = Instant::now();
        let outcome = self.writer.commit_first(commits);
        self.count_commit(begun, commits, &outcome);
        outcome
    }

    fn insert_side_block(&self, block: &Arc<RecoveredBlock>, total_difficulty: U256) -> Result<(), StoreError> {
        self.writer.insert_side_block(block, total_difficulty)?;
        self.side_blocks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn unwind(&self, number: BlockNumber) -> Result<(), StoreError> {
        let outcome = self.writer.unwind(number);
        let was_unwound = match &outcome {
            Err(StoreError::WriterStopped) => self.chain.head().number() == number,
            outcome => outcome.is_ok(),
        };
        if was_unwound {
            self.unwinds.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    fn reorganise(&self, ancestor: BlockNumber, branch: &[Arc<BlockCommit>]) -> Result<(), StoreError> {
        let begun = Instant::now();
        let outcome = self.writer.reorganise(ancestor, branch);
        if self.count_commit(begun, branch, &outcome.clone().map(|()| branch.len())).is_some() {
            self.unwinds.fetch_add(1, Ordering::Relaxed);
        }
        outcome
    }

    delegate! {
        to self.writer {
            fn group_size(&self, header: &Header) -> usize;
            fn keep_side_state(&self, commit: &Arc<BlockCommit>) -> Result<(), StoreError>;
            fn check_unwind(&self, number: BlockNumber) -> Result<(), StoreError>;
            fn set_finality(&self, finalized: Option<BlockNumber>, safe: Option<BlockNumber>) -> Result<(), StoreError>;
            fn flush(&self) -> Result<(), StoreError>;
        }
    }
}

#[cfg(test)]
mod tests {
    use tenon_api::{B256, Block, SealedHeader};
    use tenon_memory_chain::MemoryChain;

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

    /// Makes each change, or none, and then answers as an actor that has panicked.
    struct StoppedWriter {
        chain: Arc<MemoryChain>,
        writes: bool,
    }

    impl StoppedWriter {
        fn stop_after(&self, write: impl FnOnce()) -> Result<(), StoreError> {
            if self.writes {
                write();
            }
            Err(StoreError::WriterStopped)
        }
    }

    impl ChainWriter for StoppedWriter {
        fn commit(&self, commit: &Arc<BlockCommit>) -> Result<(), StoreError> {
            self.stop_after(|| self.chain.push(Arc::clone(&commit.block)))
        }

        fn commit_first(&self, commits: &[Arc<BlockCommit>]) -> Result<usize, StoreError> {
            self.stop_after(|| commits.iter().take(2).for_each(|commit| self.chain.push(Arc::clone(&commit.block))))?;
            Ok(0)
        }

        fn insert_side_block(&self, _: &Arc<RecoveredBlock>, _: U256) -> Result<(), StoreError> {
            Err(StoreError::WriterStopped)
        }

        fn keep_side_state(&self, _: &Arc<BlockCommit>) -> Result<(), StoreError> {
            Err(StoreError::WriterStopped)
        }

        fn check_unwind(&self, _: BlockNumber) -> Result<(), StoreError> {
            Ok(())
        }

        fn unwind(&self, number: BlockNumber) -> Result<(), StoreError> {
            let hash = self.chain.canonical_hash(number)?.unwrap();
            self.stop_after(|| self.chain.set_head(hash))
        }

        fn reorganise(&self, ancestor: BlockNumber, branch: &[Arc<BlockCommit>]) -> Result<(), StoreError> {
            let hash = self.chain.canonical_hash(ancestor)?.unwrap();
            self.stop_after(|| {
                self.chain.set_head(hash);
                branch.iter().for_each(|commit| self.chain.push(Arc::clone(&commit.block)));
            })
        }

        fn set_finality(&self, _: Option<BlockNumber>, _: Option<BlockNumber>) -> Result<(), StoreError> {
            Err(StoreError::WriterStopped)
        }

        fn flush(&self) -> Result<(), StoreError> {
            Err(StoreError::WriterStopped)
        }
    }

    /// The counters after a commit, a commit of three blocks of which two are written, an unwind to the first one, and a
    /// reorganisation that replaces it by two blocks. The writer panics at the end of each.
    fn counted_of_a_stopped_writer(writes: bool) -> CommitCounts {
        let chain = Arc::new(MemoryChain::default());
        let old = chain_of_commits(0, B256::ZERO, 4);
        let new = chain_of_commits(10, old[0].block.hash(), 2);
        if !writes {
            old.iter().take(2).for_each(|commit| chain.push(Arc::clone(&commit.block)));
        }
        let writer = CountedWriter::new(Arc::new(StoppedWriter { chain: Arc::clone(&chain), writes }), chain);

        assert_eq!(writer.commit(&old[if writes { 0 } else { 3 }]), Err(StoreError::WriterStopped));
        assert_eq!(writer.commit_first(&old[if writes { 1..4 } else { 2..4 }]), Err(StoreError::WriterStopped));
        assert_eq!(writer.unwind(BlockNumber(0)), Err(StoreError::WriterStopped));
        assert_eq!(writer.reorganise(BlockNumber(0), &new), Err(StoreError::WriterStopped));
        writer.counted()
    }

    #[test]
    fn counts_what_was_written_before_the_writer_panicked() {
        let counted = counted_of_a_stopped_writer(true);

        assert_eq!((counted.blocks, counted.gas), (5, 5 * 7));
        assert_eq!((counted.unwinds, counted.durations.number()), (2, 3));
    }

    #[test]
    fn does_not_count_what_a_writer_that_panicked_has_not_written() {
        let counted = counted_of_a_stopped_writer(false);

        assert_eq!((counted.blocks, counted.gas), (0, 0));
        assert_eq!((counted.unwinds, counted.durations.number()), (0, 0));
    }

    #[test]
    fn counts_successful_writes_only() {
        let writer = CountedWriter::new(Arc::new(RefusingWriter), Arc::new(MemoryChain::default()));

        assert!(writer.unwind(BlockNumber(4)).is_ok() && writer.unwind(BlockNumber(9)).is_err());
        assert!(writer.reorganise(BlockNumber(4), &[]).is_ok() && writer.reorganise(BlockNumber(9), &[]).is_err());

        let counted = writer.counted();
        assert_eq!((counted.unwinds, counted.durations.number()), (2, 1));
    }

    #[test]
    fn counts_every_block_of_a_group_and_of_a_branch() {
        let writer = CountedWriter::new(Arc::new(RefusingWriter), Arc::new(MemoryChain::default()));
        let commits = chain_of_commits(0, B256::ZERO, 4);

        assert_eq!(writer.commit_first(&commits), Ok(3));
        assert!(writer.commit(&commits[0]).is_err());
        assert!(writer.reorganise(BlockNumber(4), &commits[..2]).is_ok());

        let counted = writer.counted();
        assert_eq!((counted.blocks, counted.gas, counted.durations.number()), (5, 35, 2));
    }

    /// Consecutive blocks on `parent`, each with 7 gas. Their hashes are consecutive numbers above `mark`.
    fn chain_of_commits(mark: u64, mut parent: B256, length: u64) -> Vec<Arc<BlockCommit>> {
        let first = if parent == B256::ZERO { 0 } else { 1 };
        (0..length)
            .map(|index| {
                let header = Header { number: first + index, parent_hash: parent, gas_used: 7, ..Header::default() };
                parent = B256::from(U256::from(mark + index + 1));
                Arc::new(commit(SealedHeader::new_unchecked(header, parent)))
            })
            .collect()
    }

    fn commit(header: SealedHeader) -> BlockCommit {
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
