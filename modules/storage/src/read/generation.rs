//! Lets readers detect a concurrent unwind of the chain, without a snapshot of the database.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering, fence},
};

use parking_lot::{Condvar, Mutex};
use tenon_api::{BlockNumber, StoreError};

/// Unwinds that are remembered. A reader that missed more of them must start again.
const MAX_RECORDED_UNWINDS: usize = 64;

/// How often a read is repeated if blocks were removed while it ran.
const ATTEMPTS: usize = 8;

/// A counter of unwinds: odd during an unwind.
///
/// Commits need no such check, because a block never changes the values at lower heights. An unwind to height `t`
/// changes what reads at heights above `t` find, and only those.
///
/// A replacement, in which one batch swaps a branch for another, is an unwind too. It lasts as long as the write of
/// that batch. Readers that begin above the fork wait for its end, so they see the chain before it or after it.
#[derive(Default)]
pub(crate) struct Generations {
    generation: AtomicU64,
    /// Past unwinds and the current one, oldest first. Locked for a few instructions; readers access it only after an
    /// unwind during their read.
    unwinds: Mutex<VecDeque<Unwind>>,
    /// Wakes readers that wait for the end of a replacement.
    ended: Condvar,
}

/// One unwind.
struct Unwind {
    /// The odd generation in which it happened.
    generation: u64,
    /// The highest block that was kept.
    target: u64,
    /// Whether the same batch adds another branch above `target`.
    is_replacement: bool,
}

/// The counter's value when a read began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(u64);

impl Generations {
    /// Begins a read at a height. Waits while a branch below it is being replaced; fails while blocks at or below it
    /// are being removed one by one.
    pub(crate) fn observe(&self, number: u64) -> Result<Token, StoreError> {
        let generation = self.generation.load(Ordering::Acquire);
        if generation.is_multiple_of(2) {
            return Ok(Token(generation));
        }
        let mut unwinds = self.unwinds.lock();
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            match unwinds.back().filter(|last| last.generation == generation && last.target < number) {
                None => return Ok(Token(generation)),
                Some(last) if !last.is_replacement => return Err(reorganised(number)),
                // Its end is signalled under this lock.
                Some(_) => self.ended.wait(&mut unwinds),
            }
        }
    }

    /// The counter's value, for [`Generations::is_unchanged_since`].
    fn moment(&self) -> u64 {
        let generation = self.generation.load(Ordering::Acquire);
        if generation.is_multiple_of(2) {
            return generation;
        }
        let mut unwinds = self.unwinds.lock();
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            if unwinds.back().is_none_or(|last| last.generation != generation || !last.is_replacement) {
                return generation;
            }
            self.ended.wait(&mut unwinds);
        }
    }

    /// Returns whether no unwind has begun or ended since `moment`.
    fn is_unchanged_since(&self, moment: u64) -> bool {
        // Keeps the reads before this check from being reordered after its load.
        fence(Ordering::Acquire);
        self.generation.load(Ordering::Relaxed) == moment
    }

    /// Reads several records of the canonical chain consistently: all from before a reorganisation or all from after
    /// it.
    pub(crate) fn together<T>(&self, mut read: impl FnMut() -> T) -> T {
        for _ in 1..ATTEMPTS {
            let moment = self.moment();
            let found = read();
            if self.is_unchanged_since(moment) {
                return found;
            }
        }
        // Blocks are being removed one by one; the caller gets what is on the chain at this moment.
        read()
    }

    /// Ends a read at a height: fails if a block at or below it was removed meanwhile, even if the chain has grown
    /// again since.
    pub(crate) fn check(&self, token: Token, number: u64) -> Result<(), StoreError> {
        // Keeps the reads before this check from being reordered after its load.
        fence(Ordering::Acquire);
        if self.generation.load(Ordering::Relaxed) == token.0 {
            return Ok(());
        }
        let unwinds = self.unwinds.lock();
        let is_forgotten =
            unwinds.len() == MAX_RECORDED_UNWINDS && unwinds.front().is_some_and(|first| first.generation > token.0);
        let is_gone = unwinds.iter().any(|unwind| unwind.generation > token.0 && unwind.target < number);
        if is_forgotten || is_gone { Err(reorganised(number)) } else { Ok(()) }
    }

    /// Announces an unwind to `target`, before its first write; it lasts until the result is dropped. The writer's lock
    /// excludes concurrent unwinds.
    pub(crate) fn unwind_to(&self, target: u64) -> Unwinding<'_> {
        self.begin(target, false)
    }

    /// Announces the replacement of everything above `target` in one batch; it lasts until the result is dropped, and
    /// readers above `target` wait for that. The holder must not read above `target` itself.
    pub(crate) fn replace_above(&self, target: u64) -> Unwinding<'_> {
        self.begin(target, true)
    }

    /// Ends an unwind that a panic interrupted. Call it after the head was read from the disk again.
    pub(crate) fn end_interrupted(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        if !generation.is_multiple_of(2) {
            self.end(generation + 1);
        }
    }

    /// Ends an interrupted replacement, because readers wait for it. An interrupted unwind stays in force: its readers
    /// get an error, because blocks may be half removed.
    pub(crate) fn end_interrupted_replacement(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        let is_replacement = {
            let unwinds = self.unwinds.lock();
            unwinds.back().is_some_and(|last| last.generation == generation && last.is_replacement)
        };
        if is_replacement {
            self.end(generation + 1);
        }
    }

    fn end(&self, even: u64) {
        let _unwinds = self.unwinds.lock();
        self.generation.store(even, Ordering::SeqCst);
        self.ended.notify_all();
    }

    fn begin(&self, target: u64, is_replacement: bool) -> Unwinding<'_> {
        let mut unwinds = self.unwinds.lock();
        let odd = self.generation.load(Ordering::Relaxed) + 1;
        if unwinds.len() == MAX_RECORDED_UNWINDS {
            unwinds.pop_front();
        }
        unwinds.push_back(Unwind { generation: odd, target, is_replacement });
        self.generation.store(odd, Ordering::SeqCst);
        Unwinding { generations: self, even: odd + 1 }
    }
}

/// An unwind in progress.
pub(crate) struct Unwinding<'a> {
    generations: &'a Generations,
    even: u64,
}

impl Drop for Unwinding<'_> {
    fn drop(&mut self) {
        // After a panic, the head in memory may be a block that the disk no longer has: see `end_interrupted`.
        if !std::thread::panicking() {
            self.generations.end(self.even);
        }
    }
}

fn reorganised(number: u64) -> StoreError {
    StoreError::Reorganised { number: BlockNumber(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_fails_only_if_its_own_height_was_removed() {
        let generations = Generations::default();
        let token = generations.observe(10).unwrap();

        drop(generations.unwind_to(10));
        assert_eq!(generations.check(token, 10), Ok(()));

        drop(generations.unwind_to(9));
        assert_eq!(generations.check(token, 10), Err(reorganised(10)));
        assert_eq!(generations.check(token, 9), Ok(()));
        let later = generations.observe(10).unwrap();
        assert_eq!(generations.check(later, 10), Ok(()));
    }

    #[test]
    fn no_read_starts_at_a_height_that_is_being_removed() {
        let generations = Generations::default();
        let unwinding = generations.unwind_to(4);

        assert_eq!(generations.observe(5), Err(reorganised(5)));
        let below = generations.observe(4).unwrap();

        drop(unwinding);
        assert_eq!(generations.check(below, 4), Ok(()));
        assert!(generations.observe(5).is_ok());
    }

    #[test]
    fn a_read_above_a_fork_waits_for_the_other_branch() {
        let generations = Generations::default();
        let before = generations.observe(5).unwrap();
        let replacing = generations.replace_above(4);
        let below = generations.observe(4).unwrap();
        let (told, hears) = std::sync::mpsc::channel();

        std::thread::scope(|scope| {
            scope.spawn(|| told.send(generations.observe(5)).unwrap());
            // However long this takes, no answer may arrive before the end.
            std::thread::yield_now();
            assert!(hears.try_recv().is_err());
            drop(replacing);
            let after = hears.recv().unwrap().unwrap();
            assert_eq!(generations.check(after, 5), Ok(()));
        });

        assert_eq!(generations.check(below, 4), Ok(()));
        assert_eq!(generations.check(before, 5), Err(reorganised(5)));
    }

    #[test]
    fn an_interrupted_unwind_lasts_until_its_result_is_read_from_the_disk() {
        let generations = Generations::default();
        let interrupted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _unwinding = generations.unwind_to(4);
            panic!("on purpose");
        }));
        assert!(interrupted.is_err());
        assert_eq!(generations.observe(5), Err(reorganised(5)));

        generations.end_interrupted();
        generations.end_interrupted();

        assert!(generations.observe(5).is_ok());
        drop(generations.unwind_to(3));
        assert!(generations.observe(5).is_ok());
    }

    #[test]
    fn a_consistent_read_is_repeated_if_blocks_were_removed_meanwhile() {
        let generations = Generations::default();
        let mut reads = 0;

        generations.together(|| {
            reads += 1;
            if reads < 3 {
                drop(generations.replace_above(4));
            }
        });

        assert_eq!(reads, 3);
    }

    #[test]
    fn a_reader_that_missed_too_many_unwinds_must_start_again() {
        let generations = Generations::default();
        let token = generations.observe(1).unwrap();

        for _ in 0..=MAX_RECORDED_UNWINDS {
            drop(generations.unwind_to(5));
        }

        assert_eq!(generations.check(token, 1), Err(reorganised(1)));
    }
}
