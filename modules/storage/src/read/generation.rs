//! How a reader notices that the chain was unwound under it, without a snapshot of the database.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering, fence},
};

use parking_lot::Mutex;
use tenon_api::{BlockNumber, StoreError};

/// Unwinds that are remembered. A reader that slept through more of them is told to ask again.
const REMEMBERED: usize = 64;

/// A counter of unwinds: odd while one is under way.
///
/// Commits need no such care, because a value at a height never changes by what is put on top of it. An unwind
/// to height `t` changes what reads at heights above `t` find, and only those.
#[derive(Default)]
pub(crate) struct Generations {
    generation: AtomicU64,
    /// The odd generation and the target height of past unwinds. Locked for a few instructions; touched by readers
    /// only when an unwind happened during their read.
    unwinds: Mutex<VecDeque<(u64, u64)>>,
}

/// What a reader saw when it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(u64);

impl Generations {
    /// Starts reading at a height. Fails while blocks at or below it are being taken off.
    pub(crate) fn observe(&self, number: u64) -> Result<Token, StoreError> {
        let generation = self.generation.load(Ordering::Acquire);
        if generation % 2 == 1 && self.unwinds.lock().back().is_some_and(|(_, target)| *target < number) {
            return Err(reorganised(number));
        }
        Ok(Token(generation))
    }

    /// Ends a read at a height: fails when a block at or below it was taken off meanwhile, even if the chain has
    /// grown again since.
    pub(crate) fn check(&self, token: Token, number: u64) -> Result<(), StoreError> {
        // The reads that this judges must not move behind the load that judges them.
        fence(Ordering::Acquire);
        if self.generation.load(Ordering::Relaxed) == token.0 {
            return Ok(());
        }
        let unwinds = self.unwinds.lock();
        let is_forgotten = unwinds.len() == REMEMBERED && unwinds.front().is_some_and(|(first, _)| *first > token.0);
        let is_gone = unwinds.iter().any(|(generation, target)| *generation > token.0 && *target < number);
        if is_forgotten || is_gone { Err(reorganised(number)) } else { Ok(()) }
    }

    /// Announces an unwind to `target`, before the first write of it; it lasts until the answer is dropped.
    /// The writer's lock makes sure that there is one at a time.
    pub(crate) fn unwind_to(&self, target: u64) -> Unwinding<'_> {
        let mut unwinds = self.unwinds.lock();
        let odd = self.generation.load(Ordering::Relaxed) + 1;
        if unwinds.len() == REMEMBERED {
            unwinds.pop_front();
        }
        unwinds.push_back((odd, target));
        self.generation.store(odd, Ordering::SeqCst);
        Unwinding { generations: self, even: odd + 1 }
    }
}

/// An unwind under way.
pub(crate) struct Unwinding<'a> {
    generations: &'a Generations,
    even: u64,
}

impl Drop for Unwinding<'_> {
    fn drop(&mut self) {
        self.generations.generation.store(self.even, Ordering::SeqCst);
    }
}

fn reorganised(number: u64) -> StoreError {
    StoreError::Reorganised { number: BlockNumber(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_fails_only_when_its_own_height_was_taken_off() {
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
    fn nobody_starts_reading_what_is_being_taken_off() {
        let generations = Generations::default();
        let unwinding = generations.unwind_to(4);

        assert_eq!(generations.observe(5), Err(reorganised(5)));
        let below = generations.observe(4).unwrap();

        drop(unwinding);
        assert_eq!(generations.check(below, 4), Ok(()));
        assert!(generations.observe(5).is_ok());
    }

    #[test]
    fn a_reader_that_slept_through_too_many_unwinds_is_told_to_ask_again() {
        let generations = Generations::default();
        let token = generations.observe(1).unwrap();

        for _ in 0..=REMEMBERED {
            drop(generations.unwind_to(5));
        }

        assert_eq!(generations.check(token, 1), Err(reorganised(1)));
    }
}
