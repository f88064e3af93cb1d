//! Prepares blocks ahead of execution on all cores: reads them, and does everything that needs no other block.

use std::{fmt::Display, num::NonZeroUsize, sync::Arc, thread};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use parking_lot::{Condvar, Mutex};
use rayon::{Scope, ThreadPool, ThreadPoolBuilder};
use tenon_api::{Block, BlockNumber, RecoveredBlock, SealedHeader, Transaction};
use tenon_chain::SignerRules;

use super::{importer::Importer, pipeline::ImportedBlock};
use crate::ImportError;

/// A worker's group ends at this number of transactions: about 10 ms of recovery. Smaller groups would cost more for
/// the hand-over; larger ones would leave cores idle at the end.
const GROUP_TRANSACTIONS: usize = 256;

/// Maximum number of blocks in a group, however empty they are.
const GROUP_BLOCKS: usize = 32;

/// A group also ends at this length, bytes of RLP: blocks may be long with few transactions.
const GROUP_BYTES: u64 = 1 << 20;

/// Maximum total length of the blocks being prepared or waiting, bytes of RLP. A longer block is processed alone.
/// Decoded they take up to forty times as much, so without this a file of long blocks would exhaust memory.
const BYTES_AHEAD: u64 = 16 << 20;

/// Groups per core being recovered or waiting for execution. Recovery is the slower step, so more would only take
/// memory.
const GROUPS_PER_CORE: usize = 3;

/// A prepared block, or the error that ends the source.
pub(super) type Prepared = Result<(ImportedBlock, Option<RecoveredBlock>), ImportError>;

/// Consecutive blocks, processed by a worker.
pub(super) struct Group {
    /// Receives one answer.
    answer: Receiver<Vec<Prepared>>,
    /// Released when the blocks are executed or dropped.
    _reserved: ReservedBytes,
}

/// Bounds the total length of blocks between reading and execution.
#[derive(Clone, Default)]
struct ByteLimit(Arc<(Mutex<LimitState>, Condvar)>);

/// State of a [`ByteLimit`].
#[derive(Default)]
struct LimitState {
    bytes: u64,
    /// Set when no more blocks are accepted: their bytes are never released.
    is_closed: bool,
}

/// Reserved bytes of a [`ByteLimit`].
struct ReservedBytes {
    limit: ByteLimit,
    bytes: u64,
}

impl ByteLimit {
    /// Waits until the bytes fit, or until nothing else is reserved; `None` if closed.
    fn take(&self, bytes: u64) -> Option<ReservedBytes> {
        let (taken, changed) = &*self.0;
        let mut taken = taken.lock();
        changed.wait_while(&mut taken, |taken| {
            !taken.is_closed && taken.bytes > 0 && taken.bytes.saturating_add(bytes) > BYTES_AHEAD
        });
        if taken.is_closed {
            return None;
        }
        taken.bytes = taken.bytes.saturating_add(bytes);
        Some(ReservedBytes { limit: self.clone(), bytes })
    }

    fn close(&self) {
        let (taken, changed) = &*self.0;
        taken.lock().is_closed = true;
        changed.notify_one();
    }
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        let (taken, changed) = &*self.limit.0;
        let mut taken = taken.lock();
        taken.bytes = taken.bytes.saturating_sub(self.bytes);
        // Only the reading thread waits.
        changed.notify_one();
    }
}

/// The workers of one import. A separate pool: in a shared one the tasks of execution (state tries) would wait behind
/// hundreds of recoveries (measured: a quarter of the import's time).
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

    /// Creates the queue of groups.
    pub(super) fn queue(&self) -> (Queue, Groups) {
        let (sender, receiver) = bounded(GROUPS_PER_CORE * self.cores);
        let limit = ByteLimit::default();
        (Queue { sender, limit: limit.clone() }, Groups { receiver, next: None, limit })
    }
}

/// The sending end of the queue.
pub(super) struct Queue {
    sender: Sender<Group>,
    limit: ByteLimit,
}

/// Prepared blocks, in the order of the source: the receiving end of the queue.
pub(super) struct Groups {
    receiver: Receiver<Group>,
    /// A group that was received and is not ready yet.
    next: Option<Group>,
    limit: ByteLimit,
}

impl Drop for Groups {
    /// Wakes the reader, which would otherwise wait forever for bytes to be released.
    fn drop(&mut self) {
        self.limit.close();
    }
}

impl Groups {
    /// The next group, once it is ready; `None` at the end.
    pub(super) fn wait(&mut self) -> Option<Vec<Prepared>> {
        let group = self.next.take().or_else(|| self.receiver.recv().ok())?;
        // A group without an answer had a worker that panicked; the end of the thread scope propagates that.
        group.answer.recv().ok()
    }

    /// The next group if it is ready.
    pub(super) fn ready(&mut self) -> Option<Vec<Prepared>> {
        let group = self.next.take().or_else(|| self.receiver.try_recv().ok())?;
        match group.answer.try_recv() {
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
    /// Reads to the end of the source, or to its first error, or until the receiver is dropped.
    pub(super) fn read_ahead<E: Display>(
        &self,
        blocks: impl Iterator<Item = Result<Block, E>>,
        workers: &Workers,
        groups: &Queue,
    ) {
        workers.pool.in_place_scope(|scope| {
            let mut after = BlockNumber::GENESIS;
            let mut group = Vec::new();
            let (mut transactions, mut bytes) = (0, 0);
            for block in blocks {
                let block = block.map_err(|error| ImportError::Source { after, reason: error.to_string() });
                let is_last = block.is_err();
                if let Ok(block) = &block {
                    after = block.number();
                    transactions += block.transactions.len();
                    bytes += block.size;
                }
                group.push(block);
                if is_last {
                    break;
                }
                if transactions >= GROUP_TRANSACTIONS || group.len() >= GROUP_BLOCKS || bytes >= GROUP_BYTES {
                    transactions = 0;
                    if !self.hand_over(std::mem::take(&mut group), std::mem::take(&mut bytes), scope, groups) {
                        return;
                    }
                }
            }
            self.hand_over(group, bytes, scope, groups);
        });
    }

    /// Passes a group to the workers; returns whether the receiver still exists.
    fn hand_over<'scope>(
        &'scope self,
        group: Vec<Result<Block, ImportError>>,
        bytes: u64,
        workers: &Scope<'scope>,
        groups: &Queue,
    ) -> bool {
        let Some(reserved) = groups.limit.take(bytes) else { return false };
        let (promise, answer) = bounded(1);
        workers.spawn(move |_| {
            let prepared = self.prepare(group);
            // The receiver is gone if the import ended early.
            drop(promise.send(prepared));
        });
        groups.sender.send(Group { answer, _reserved: reserved }).is_ok()
    }

    /// Recovers the signers of headers and transactions of all blocks of a group in one batch.
    fn prepare(&self, group: Vec<Result<Block, ImportError>>) -> Vec<Prepared> {
        let looked_up: Vec<_> = group.into_iter().map(|block| block.and_then(|block| self.look_up(block))).collect();
        let new = || looked_up.iter().flatten().filter_map(|(_, block)| block.as_ref());
        let headers: Vec<&SealedHeader> = new().map(|block| &block.header).collect();
        self.engine.recover_ahead(&headers);
        let rules: Vec<SignerRules> = new().map(|block| self.signer_rules(block)).collect();
        let transactions: Vec<(&SignerRules, &Transaction)> = new()
            .zip(&rules)
            .flat_map(|(block, rules)| block.transactions.iter().map(move |transaction| (rules, &**transaction)))
            .collect();
        let mut senders = tenon_chain::recover_senders_of(&transactions, GROUP_TRANSACTIONS).into_iter();
        let mut with_senders = |(passed, block): (ImportedBlock, Option<Block>)| {
            let Some(block) = block else { return Ok((passed, None)) };
            // Takes the results of all the block's transactions before looking for a failure: the next block's results
            // follow in the iterator.
            let senders: Vec<_> = senders.by_ref().take(block.transactions.len()).collect();
            let senders = senders
                .into_iter()
                .collect::<Result<_, _>>()
                .map_err(|error| ImportError::Sender { number: passed.number, reason: error.to_string() })?;
            Ok((passed, Some(RecoveredBlock { block, senders })))
        };
        looked_up.into_iter().map(|block| block.and_then(&mut with_senders)).collect()
    }

    /// Checks whether the chain already has a block; returns the block if not.
    fn look_up(&self, block: Block) -> Result<(ImportedBlock, Option<Block>), ImportError> {
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
        Ok((passed, (!was_known).then_some(block)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_waits_until_bytes_are_free_and_longer_blocks_are_alone() {
        let limit = ByteLimit::default();
        let [first, second] = [limit.take(BYTES_AHEAD / 2), limit.take(BYTES_AHEAD / 2)];
        let (told, hears) = bounded(2);
        let waiting = thread::spawn({
            let limit = limit.clone();
            move || {
                drop(limit.take(1));
                told.send("one byte").unwrap();
                drop(limit.take(10 * BYTES_AHEAD));
                told.send("what is too long").unwrap();
            }
        });

        assert_eq!(hears.try_recv(), Err(TryRecvError::Empty));
        drop(first);
        assert_eq!(hears.recv(), Ok("one byte"));
        assert_eq!(hears.try_recv(), Err(TryRecvError::Empty));
        drop(second);

        assert_eq!(hears.recv(), Ok("what is too long"));
        waiting.join().unwrap();
    }

    #[test]
    fn a_reader_stops_waiting_when_the_receiver_is_dropped() {
        let workers = Workers::start().unwrap();
        let (queue, groups) = workers.queue();
        let full = queue.limit.take(BYTES_AHEAD);
        let waiting = thread::spawn(move || queue.limit.take(1).is_none());

        drop(groups);

        assert!(waiting.join().unwrap());
        drop(full);
    }
}
