//! Tests of the writers: order, panics in the middle of a write, refusals.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::Path,
    sync::{Arc, atomic::Ordering, mpsc},
    thread,
    time::Duration,
};

use tempfile::TempDir;
use tenon_api::{
    ActorError, BlockCommit, BlockNumber, ChainReader as _, ChainWriter as _, DatabaseWatch as _, StoreError,
};
use tenon_supervisor::{ActorOptions, ActorState, RestartPolicy, SpawnError, Supervisor};

use super::{
    actor::{StorageMessage, spawn_with},
    *,
};
use crate::{
    Mode, StoreOptions,
    database::OrderedPanic,
    format::meta,
    store::{Store, stored_head},
};

#[allow(dead_code, reason = "the integration tests use the rest")]
#[path = "../../tests/store/support.rs"]
mod support;

use support::{CHAIN_ID, Maker, Model, Random, assert_state, assert_whole};

/// Head of a store before its change.
const HEAD: usize = 6;
/// Last common block of the two branches.
const FORK: usize = 4;

/// Two branches with a common beginning, and the state after each block.
struct Branches {
    old: Vec<Arc<BlockCommit>>,
    old_states: Vec<Model>,
    new: Vec<Arc<BlockCommit>>,
    new_states: Vec<Model>,
}

impl Branches {
    fn random() -> Self {
        let (mut random, mut maker) = (Random::new(), Maker::new());
        for _ in 0..8 {
            maker.add_random(&mut random);
        }
        let (old, old_states) = (shared(&maker), maker.states.clone());
        maker.unwind(FORK as u64);
        maker.mark = 1;
        for _ in 0..5 {
            maker.add_random(&mut random);
        }
        Self { old, old_states, new: shared(&maker), new_states: maker.states.clone() }
    }

    /// The branch of a store's head.
    fn of(&self, store: &Store) -> (&[Arc<BlockCommit>], &[Model]) {
        let head = store.head();
        let is_old =
            self.old.get(head.header.number as usize).is_some_and(|commit| commit.block.hash() == head.header.hash());
        if is_old { (&self.old, &self.old_states) } else { (&self.new, &self.new_states) }
    }
}

fn shared(maker: &Maker) -> Vec<Arc<BlockCommit>> {
    maker.commits.iter().cloned().map(Arc::new).collect()
}

/// Keeps the tries of two blocks only, and commits in groups, so that every kind of write is made of several batches.
fn open(folder: &Path, mode: Mode) -> Arc<Store> {
    let options = StoreOptions {
        trie_window: 2,
        old_trie_window: 2,
        trie_checkpoint_every: 16,
        old_group_blocks: 8,
        ..support::options(mode)
    };
    Store::open(folder, options).unwrap()
}

/// Random branches, and a store with the first blocks of one, whose caches have been used.
fn filled() -> (Branches, TempDir, Arc<Store>) {
    let branches = Branches::random();
    let (folder, store) = filled_in(&branches, Mode::Archive);
    (branches, folder, store)
}

fn filled_in(branches: &Branches, mode: Mode) -> (TempDir, Arc<Store>) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), mode);
    store.initialise(&branches.old[0], CHAIN_ID).unwrap();
    let writer = store.take_writer().unwrap();
    branches.old[1..=HEAD].iter().for_each(|commit| writer.commit(commit).unwrap());
    assert_states(&store, &branches.old_states);
    (folder, store)
}

/// Compares the state of every height from the oldest one that is kept up to the head.
fn assert_states(store: &Store, states: &[Model]) {
    (store.oldest_state()..=store.head().header.number).for_each(|number| assert_state(store, number, states));
}

async fn stop(supervisor: Supervisor) {
    assert!(supervisor.stop(Duration::from_secs(10)).await.is_empty());
}

type Change = fn(&StorageWriter, &Branches, Mode) -> Result<(), StoreError>;

/// Every kind of change.
const CHANGES: &[(&str, Change)] = &[
    ("commit", |writer, branches, _| writer.commit(&branches.old[HEAD + 1])),
    ("commit of a group", |writer, branches, _| writer.commit_first(&branches.old[HEAD + 1..]).map(drop)),
    ("side block", |writer, branches, _| {
        let side = &branches.new[FORK + 1];
        writer.insert_side_block(&side.block, side.total_difficulty)?;
        writer.keep_side_state(side)
    }),
    ("unwind", |writer, _, mode| writer.unwind(BlockNumber(if mode == Mode::Archive { 1 } else { FORK as u64 }))),
    ("reorganisation", |writer, branches, _| writer.reorganise(BlockNumber(FORK as u64), &branches.new[FORK + 1..])),
    ("finality", |writer, _, _| writer.set_finality(Some(BlockNumber(2)), Some(BlockNumber(3)))),
];

/// Makes a change during which the writer panics, and checks that memory and disk agree afterwards, and that the chain
/// continues. Returns false if the change is over before the panic.
async fn survives(branches: &Branches, mode: Mode, (name, change): (&str, Change), order: OrderedPanic) -> bool {
    let (folder, store) = filled_in(branches, mode);
    let supervisor = Supervisor::new().unwrap();
    let writer = spawn_writer(&supervisor, &store).unwrap();
    *store.shared.database.ordered_panic.lock() = Some(order);

    let outcome = change(&writer, branches, mode);

    if store.shared.database.ordered_panic.lock().take().is_some() {
        assert_eq!(outcome, Ok(()), "{name}");
        stop(supervisor).await;
        return false;
    }
    assert_eq!(outcome, Err(StoreError::WriterStopped), "{name}, {order:?}");
    println!("{mode:?}, {name}, {order:?}: head {}", store.head().number());
    assert_eq!(store.oldest_state(), meta::oldest_state(&store.shared.database).unwrap(), "{name}, {order:?}");
    // The store was read again, so a single panic is over.
    assert_eq!(store.writes().panicking_since, None);
    let head = store.head();
    let stored = stored_head(&store.shared).unwrap().unwrap();
    assert_eq!((head.header.hash(), head.finalized), (stored.header.hash(), stored.finalized), "{name}, {order:?}");
    let (commits, states) = branches.of(&store);
    assert_states(&store, states);
    // The actor is restarted meanwhile, and the message waits for it.
    commits[head.header.number as usize + 1..].iter().for_each(|commit| writer.commit(commit).unwrap());
    assert_states(&store, states);
    assert_whole(&store);
    if head.header.hash() != store.head().header.hash() {
        assert_eq!(supervisor.health()[0].restarts, 1);
    }

    stop(supervisor).await;
    drop((writer, store));
    let store = open(folder.path(), mode);
    assert_states(&store, states);
    assert_whole(&store);
    true
}

#[tokio::test]
async fn after_a_panic_in_any_write_memory_and_disk_agree_and_the_chain_continues() {
    let branches = Branches::random();
    for mode in [Mode::Archive, Mode::Pruned(2)] {
        for change in CHANGES {
            for is_after_batch in [false, true] {
                let mut batches = 0;
                while survives(&branches, mode, *change, OrderedPanic { batches, is_after_batch }).await {
                    batches += 1;
                }
                assert!(batches > 0, "{mode:?}, {}", change.0);
            }
        }
    }
}

/// Interrupts a change after its first batch, and then fails to read the disk again. `interrupted` runs in between.
fn fail_to_reload(
    writer: &DirectWriter,
    change: impl Fn(&Store) -> Result<(), StoreError>,
    interrupted: impl FnOnce(&Store),
) {
    let panicked = catch_unwind(AssertUnwindSafe(|| -> Result<(), StoreError> {
        writer.run(|store| {
            *store.shared.database.ordered_panic.lock() = Some(OrderedPanic { batches: 0, is_after_batch: true });
            let panic = catch_unwind(AssertUnwindSafe(|| change(store))).unwrap_err();
            store.shared.database.fails_to_sync.store(true, Ordering::Relaxed);
            interrupted(store);
            resume_unwind(panic)
        })
    }));
    assert!(panicked.is_err());
}

#[test]
fn a_reload_that_fails_is_repeated_before_the_next_write_also_by_another_writer() {
    let (branches, _folder, store) = filled();
    let writer = store.take_writer().unwrap();
    fail_to_reload(&writer, |store| store.unwind_to(BlockNumber(FORK as u64)), |_| {});

    // Blocks above its target may be half removed, so none of them is read.
    assert!(matches!(store.shared.generations.observe(FORK as u64 + 1), Err(StoreError::Reorganised { .. })));
    let failed = writer.commit(&branches.old[HEAD]);
    assert!(store.writes().panicking_since.is_some());
    drop(writer);
    let writer = store.take_writer().unwrap();
    let failed_again = writer.commit(&branches.old[HEAD]);
    store.shared.database.fails_to_sync.store(false, Ordering::Relaxed);
    writer.commit(&branches.old[HEAD]).unwrap();
    assert_eq!(store.writes().panicking_since, None);

    let error = Err(StoreError::Engine("ordered by a test".to_owned()));
    assert_eq!((failed, failed_again), (error.clone(), error));
    assert_eq!(store.head().header.number as usize, HEAD);
    assert_states(&store, &branches.old_states);
    assert_whole(&store);
}

#[test]
fn a_reader_that_waits_in_an_interrupted_replacement_goes_on_even_if_the_disk_cannot_be_read() {
    let (branches, _folder, store) = filled();
    let writer = store.take_writer().unwrap();
    let mut readers = Vec::new();

    let replace = |store: &Store| store.replace_above(BlockNumber(FORK as u64), &branches.new[FORK + 1..]);
    fail_to_reload(&writer, replace, |_| {
        let store = Arc::clone(&store);
        readers.push(thread::spawn(move || store.shared.generations.observe(HEAD as u64).map(drop)));
    });

    for reader in readers {
        assert_eq!(reader.join().unwrap(), Ok(()));
    }
    store.shared.database.fails_to_sync.store(false, Ordering::Relaxed);
    writer.set_finality(None, None).unwrap();
    assert_eq!(store.head().header.hash(), branches.new.last().unwrap().block.hash());
    assert_states(&store, &branches.new_states);
    assert_whole(&store);
}

#[test]
fn a_panic_of_a_direct_write_reaches_the_caller_and_the_next_write_succeeds() {
    let (branches, _folder, store) = filled();
    let writer = store.take_writer().unwrap();
    *store.shared.database.ordered_panic.lock() = Some(OrderedPanic { batches: 0, is_after_batch: true });

    let panicked = catch_unwind(AssertUnwindSafe(|| writer.commit(&branches.old[HEAD + 1])));

    assert!(panicked.is_err());
    assert_eq!(store.head().header.number as usize, HEAD + 1);
    writer.commit(&branches.old[HEAD + 2]).unwrap();
    assert_states(&store, &branches.old_states);
    assert_whole(&store);
}

#[tokio::test]
async fn a_writer_that_panics_twice_in_a_row_counts_as_broken_until_it_changes_the_chain() {
    let (branches, _folder, store) = filled();
    let supervisor = Supervisor::new().unwrap();
    let writer = spawn_writer(&supervisor, &store).unwrap();

    let is_broken = [(), ()].map(|()| {
        *store.shared.database.ordered_panic.lock() = Some(OrderedPanic { batches: 0, is_after_batch: false });
        assert_eq!(writer.commit(&branches.old[HEAD + 1]), Err(StoreError::WriterStopped));
        store.writes().panicking_since.is_some()
    });
    writer.commit(&branches.old[HEAD + 1]).unwrap();

    assert_eq!(is_broken, [false, true]);
    assert_eq!(store.writes().panicking_since, None);
    stop(supervisor).await;
}

#[tokio::test]
async fn changes_are_made_in_their_order_and_before_the_stop() {
    let (branches, _folder, store) = filled();
    let supervisor = Supervisor::new().unwrap();
    let writer = spawn_writer(&supervisor, &store).unwrap();
    let (reply, answers) = mpsc::sync_channel(8);
    {
        let _held = store.writer.lock();
        for commit in &branches.old[HEAD + 1..] {
            let (commit, reply) = (Arc::clone(commit), reply.clone());
            writer.mailbox.try_send(StorageMessage::Commit { commit, reply }).unwrap();
        }
        writer.mailbox.try_send(StorageMessage::Unwind { number: BlockNumber(3), reply: reply.clone() }).unwrap();
        let commit = Arc::clone(&branches.old[4]);
        writer.mailbox.try_send(StorageMessage::Commit { commit, reply }).unwrap();
    }

    stop(supervisor).await;

    assert_eq!(answers.iter().collect::<Vec<_>>(), [Ok(()), Ok(()), Ok(()), Ok(())]);
    assert_eq!(store.head().header.hash(), branches.old[4].block.hash());
}

#[tokio::test]
async fn a_full_mailbox_refuses_a_change_at_once() {
    let (branches, _folder, store) = filled();
    let supervisor = Supervisor::new().unwrap();
    let writer = spawn_writer(&supervisor, &store).unwrap();
    let refused = {
        let _held = store.writer.lock();
        let (reply, _answers) = mpsc::sync_channel(1);
        let send = || writer.mailbox.try_send(StorageMessage::Flush { reply: reply.clone() });
        send().unwrap();
        // Until the actor has taken it, and waits for the lock.
        while supervisor.health()[0].waiting > 0 {
            std::thread::yield_now();
        }
        while send().is_ok() {}
        writer.commit(&branches.old[HEAD + 1])
    };

    assert_eq!(refused, Err(StoreError::NotAccepted(ActorError::MailboxFull { actor: ACTOR })));
    let text = "storage is busy: its mailbox is full; this change was not made: try again";
    assert_eq!(refused.unwrap_err().to_string(), text);
    writer.flush().unwrap_or_else(|error| assert_eq!(error.to_string(), text));
    stop(supervisor).await;
    assert_eq!(store.head().header.number as usize, HEAD);
}

#[tokio::test]
async fn a_stopped_writer_refuses_changes_and_the_store_gives_out_another() {
    let (branches, _folder, store) = filled();
    let supervisor = Supervisor::new().unwrap();
    let writer = spawn_writer(&supervisor, &store).unwrap();
    assert_eq!(store.take_writer().unwrap_err(), StoreError::WriterTaken);

    stop(supervisor).await;

    let refused = writer.commit(&branches.old[HEAD + 1]);
    assert_eq!(refused, Err(StoreError::NotAccepted(ActorError::Stopped { actor: ACTOR })));
    store.take_writer().unwrap().commit(&branches.old[HEAD + 1]).unwrap();
}

#[tokio::test]
async fn a_writer_that_has_failed_for_good_names_the_cause() {
    let (branches, _folder, store) = filled();
    let supervisor = Supervisor::new().unwrap();
    let restart = RestartPolicy { ceiling: 0, ..RestartPolicy::default() };
    let writer = spawn_with(&supervisor, &store, ActorOptions { restart, ..ActorOptions::default() }).unwrap();
    *store.shared.database.ordered_panic.lock() = Some(OrderedPanic { batches: 0, is_after_batch: false });

    let stopped = writer.commit(&branches.old[HEAD + 1]);
    while !matches!(supervisor.health()[0].state, ActorState::Failed { .. }) {
        std::thread::yield_now();
    }
    let refused = writer.commit(&branches.old[HEAD + 1]);

    assert_eq!(stopped, Err(StoreError::WriterStopped));
    let reason = "ordered by a test".to_owned();
    assert_eq!(refused, Err(StoreError::NotAccepted(ActorError::Failed { actor: ACTOR, reason })));
    stop(supervisor).await;
}

#[tokio::test]
async fn one_writer_exists_at_a_time() {
    let (_, _folder, store) = filled();
    let supervisor = Supervisor::new().unwrap();
    let first = store.take_writer().unwrap();

    let second = spawn_writer(&supervisor, &store);

    assert!(matches!(&second, Err(SpawnError::NotBuilt(_))), "{second:?}");
    assert_eq!(second.unwrap_err().to_string(), StoreError::WriterTaken.to_string());
    drop(first);
    assert!(spawn_writer(&supervisor, &store).is_ok());
    stop(supervisor).await;
}
