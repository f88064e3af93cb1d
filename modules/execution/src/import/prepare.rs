//! Ahead of execution, on all cores: blocks are read, and everything about them that needs no other block is done.

use std::{fmt::Display, num::NonZeroUsize, sync::Arc, thread};

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded};
use parking_lot::{Condvar, Mutex};
use rayon::{Scope, ThreadPool, ThreadPoolBuilder};
use tenon_api::{Block, BlockNumber, RecoveredBlock, SealedHeader, Transaction};
use tenon_chain::SignerRules;

use super::{importer::Importer, pipeline::ImportedBlock};
use crate::ImportError;

/// Blocks are handed to a worker together until they have this many transactions: about 10 ms of recovery, so that
/// handing over costs nothing and the last group does not leave cores idle for long.
const GROUP_TRANSACTIONS: usize = 256;

/// As many blocks are handed over together, however empty they are.
const GROUP_BLOCKS: usize = 32;

/// And as soon as they are so long together, bytes of RLP: blocks may be long and have few transactions.
const GROUP_BYTES: u64 = 1 << 20;

/// How long the blocks are together, bytes of RLP, that are recovered or wait for execution. A longer one is alone there. Decoded
/// they take up to forty times as much: without this a file of long blocks would take all memory.
const BYTES_AHEAD: u64 = 16 << 20;

/// Groups a core that are recovered or wait for execution. Recovery is the slower side, so more would only hold
/// memory.
const GROUPS_PER_CORE: usize = 3;

/// A block on its way, or why there is no further one.
pub(super) type Prepared = Result<(ImportedBlock, Option<RecoveredBlock>), ImportError>;

/// Blocks that follow one another, in the hands of a worker.
pub(super) struct Group {
    /// Answers once.
    answer: Receiver<Vec<Prepared>>,
    /// Given back when execution takes the blocks, or nobody does.
    _place: Place,
}

/// Bounds how long the blocks are together that are between reading and execution.
#[derive(Clone, Default)]
struct Room(Arc<(Mutex<Taken>, Condvar)>);

/// What is in a room.
#[derive(Default)]
struct Taken {
    bytes: u64,
    /// Nobody takes blocks out of it any more: what still lies in it stays.
    is_closed: bool,
}

/// So many bytes of a room.
struct Place {
    room: Room,
    bytes: u64,
}

impl Room {
    /// Waits until there is room, or until there is nothing else in it; none when it is closed.
    fn take(&self, bytes: u64) -> Option<Place> {
        let (taken, changed) = &*self.0;
        let mut taken = taken.lock();
        changed.wait_while(&mut taken, |taken| {
            !taken.is_closed && taken.bytes > 0 && taken.bytes.saturating_add(bytes) > BYTES_AHEAD
        });
        if taken.is_closed {
            return None;
        }
        taken.bytes = taken.bytes.saturating_add(bytes);
        Some(Place { room: self.clone(), bytes })
    }

    fn close(&self) {
        let (taken, changed) = &*self.0;
        taken.lock().is_closed = true;
        changed.notify_one();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (taken, changed) = &*self.room.0;
        let mut taken = taken.lock();
        taken.bytes = taken.bytes.saturating_sub(self.bytes);
        // Only the thread that reads waits.
        changed.notify_one();
    }
}

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
    pub(super) fn queue(&self) -> (Queue, Groups) {
        let (sender, receiver) = bounded(GROUPS_PER_CORE * self.cores);
        let room = Room::default();
        (Queue { sender, room: room.clone() }, Groups { receiver, next: None, room })
    }
}

/// Where groups are put.
pub(super) struct Queue {
    sender: Sender<Group>,
    room: Room,
}

/// Prepared blocks, in the order of the source.
pub(super) struct Groups {
    receiver: Receiver<Group>,
    /// Was asked for and is not ready yet.
    next: Option<Group>,
    room: Room,
}

impl Drop for Groups {
    /// The reader must not wait for room that nobody makes.
    fn drop(&mut self) {
        self.room.close();
    }
}

impl Groups {
    /// The next group, as soon as it is ready; none at the end.
    pub(super) fn wait(&mut self) -> Option<Vec<Prepared>> {
        let group = self.next.take().or_else(|| self.receiver.recv().ok())?;
        // A group without an answer is one whose worker panicked, which the end of the threads' scope passes on.
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
    /// Reads to the end of the source, or to its first error, or until nobody takes blocks any more.
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

    /// Gives a group to the workers; answers whether anybody takes what comes of it.
    fn hand_over<'scope>(
        &'scope self,
        group: Vec<Result<Block, ImportError>>,
        bytes: u64,
        workers: &Scope<'scope>,
        groups: &Queue,
    ) -> bool {
        let Some(place) = groups.room.take(bytes) else { return false };
        let (promise, answer) = bounded(1);
        workers.spawn(move |_| {
            let prepared = self.prepare(group);
            // Nobody waits for it when the import ended early.
            drop(promise.send(prepared));
        });
        groups.sender.send(Group { answer, _place: place }).is_ok()
    }

    /// Recovers the signers of headers and transactions of all blocks of a group together.
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
            // All of a block's are taken, also when one of them has no sender: the next block's follow.
            let senders: Vec<_> = senders.by_ref().take(block.transactions.len()).collect();
            let senders = senders
                .into_iter()
                .collect::<Result<_, _>>()
                .map_err(|error| ImportError::Sender { number: passed.number, reason: error.to_string() })?;
            Ok((passed, Some(RecoveredBlock { block, senders })))
        };
        looked_up.into_iter().map(|block| block.and_then(&mut with_senders)).collect()
    }

    /// Whether the chain has a block already; it is given back where it has not.
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
    fn a_reader_waits_until_there_is_room_and_what_is_too_long_for_it_is_alone() {
        let room = Room::default();
        let [first, second] = [room.take(BYTES_AHEAD / 2), room.take(BYTES_AHEAD / 2)];
        let (told, hears) = bounded(2);
        let waiting = thread::spawn({
            let room = room.clone();
            move || {
                drop(room.take(1));
                told.send("one byte").unwrap();
                drop(room.take(10 * BYTES_AHEAD));
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
    fn a_reader_waits_no_longer_when_nobody_takes_blocks_any_more() {
        let workers = Workers::start().unwrap();
        let (queue, groups) = workers.queue();
        let full = queue.room.take(BYTES_AHEAD);
        let waiting = thread::spawn(move || queue.room.take(1).is_none());

        drop(groups);

        assert!(waiting.join().unwrap());
        drop(full);
    }
}
