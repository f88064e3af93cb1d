//! Ahead of execution, on all cores: blocks are read, and everything about them that needs no other block is done.

use std::{fmt::Display, num::NonZeroUsize, thread};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use rayon::{Scope, ThreadPool, ThreadPoolBuilder};
use tenon_api::{Block, BlockNumber, RecoveredBlock};

use super::{importer::Importer, pipeline::ImportedBlock};
use crate::ImportError;

/// Blocks are handed to a worker together until they have this many transactions: about 10 ms of recovery, so that
/// handing over costs nothing and the last group does not leave cores idle for long.
const GROUP_TRANSACTIONS: usize = 256;

/// As many blocks are handed over together, however empty they are.
const GROUP_BLOCKS: usize = 32;

/// Groups a core that are recovered or wait for execution. Recovery is the slower side, so more would only hold
/// memory.
const GROUPS_PER_CORE: usize = 3;

/// A block on its way, or why there is no further one.
pub(super) type Prepared = Result<(ImportedBlock, Option<RecoveredBlock>), ImportError>;

/// Answers once, with blocks that follow one another.
type Group = Receiver<Vec<Prepared>>;

/// The workers of one import. A pool of their own: the tasks of execution (state tries) would wait behind hundreds of
/// recoveries in a shared one (measured: a quarter of the import's time).
pub(super) struct Workers {
    pool: ThreadPool,
    cores: usize,
}

impl Workers {
    pub(super) fn start() -> Result<Self, ImportError> {
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let named = ThreadPoolBuilder::new().num_threads(cores).thread_name(|index| format!("import-recover-{index}"));
        let pool = named.build().map_err(|error| ImportError::Thread(std::io::Error::other(error)))?;
        Ok(Self { pool, cores })
    }

    /// Where groups wait.
    pub(super) fn queue(&self) -> (Sender<Group>, Groups) {
        let (sender, receiver) = bounded(GROUPS_PER_CORE * self.cores);
        (sender, Groups { receiver, next: None })
    }
}

/// Prepared blocks, in the order of the source.
pub(super) struct Groups {
    receiver: Receiver<Group>,
    /// Was asked for and is not ready yet.
    next: Option<Group>,
}

impl Groups {
    /// The next group, as soon as it is ready; none at the end.
    pub(super) fn wait(&mut self) -> Option<Vec<Prepared>> {
        let group = self.next.take().or_else(|| self.receiver.recv().ok())?;
        // A group without an answer is one whose worker panicked, which the end of the threads' scope passes on.
        group.recv().ok()
    }

    /// The next group if it is ready.
    pub(super) fn ready(&mut self) -> Option<Vec<Prepared>> {
        let group = self.next.take().or_else(|| self.receiver.try_recv().ok())?;
        match group.try_recv() {
            Ok(prepared) => Some(prepared),
            Err(TryRecvError::Empty) => {
                self.next = Some(group);
                None
            }
            Err(TryRecvError::Disconnected) => None,
        }
    }
}

impl Importer {
    /// Reads to the end of the source, or to its first error, or until nobody takes blocks any more.
    pub(super) fn read_ahead<E: Display>(
        &self,
        blocks: impl Iterator<Item = Result<Block, E>>,
        workers: &Workers,
        groups: &Sender<Group>,
    ) {
        workers.pool.in_place_scope(|scope| {
            let mut after = BlockNumber::GENESIS;
            let mut group = Vec::new();
            let mut transactions = 0;
            for block in blocks {
                let block = block.map_err(|error| ImportError::Source { after, reason: error.to_string() });
                let is_last = block.is_err();
                if let Ok(block) = &block {
                    after = block.number();
                    transactions += block.transactions.len();
                }
                group.push(block);
                if is_last {
                    break;
                }
                if transactions >= GROUP_TRANSACTIONS || group.len() >= GROUP_BLOCKS {
                    transactions = 0;
                    if !self.hand_over(std::mem::take(&mut group), scope, groups) {
                        return;
                    }
                }
            }
            self.hand_over(group, scope, groups);
        });
    }

    /// Gives a group to the workers; answers whether anybody takes what comes of it.
    fn hand_over<'scope>(
        &'scope self,
        group: Vec<Result<Block, ImportError>>,
        workers: &Scope<'scope>,
        groups: &Sender<Group>,
    ) -> bool {
        let (promise, answer) = bounded(1);
        workers.spawn(move |_| {
            let prepared = group.into_iter().map(|block| block.and_then(|block| self.prepare(block))).collect();
            // Nobody waits for it when the import ended early.
            drop(promise.send(prepared));
        });
        groups.send(answer).is_ok()
    }

    fn prepare(&self, block: Block) -> Prepared {
        let canonical = self.chain.canonical_hash(block.number())?;
        if block.number() == BlockNumber::GENESIS && canonical != Some(block.hash()) {
            let own = canonical.unwrap_or_default();
            return Err(ImportError::OtherChain { found: block.hash(), own });
        }
        let was_known = canonical == Some(block.hash());
        let passed = ImportedBlock {
            number: block.number(),
            hash: block.hash(),
            transactions: block.transactions.len() as u64,
            gas_used: block.header.gas_used,
            was_known,
        };
        if was_known {
            return Ok((passed, None));
        }
        self.engine.recover_ahead(&block.header);
        Ok((passed, Some(self.recover(block)?)))
    }
}
