//! Time and memory that a caller grants to long work done on its behalf.

use crate::StoreError;

/// Time and memory of the caller, spent by a store that computes trie nodes which it does not keep.
pub trait Allowance: Send + Sync {
    /// Whether to stop: the caller has gone, or its time is over. Asked every few milliseconds.
    fn should_stop(&self) -> bool;
    /// Takes memory for as long as this value lives.
    ///
    /// # Errors
    /// [`StoreError::OutOfMemory`] if the caller may hold no more.
    fn take(&self, bytes: usize) -> Result<(), StoreError>;
}

/// The allowance of the node's own work.
#[derive(Clone, Copy, Debug)]
pub struct Unlimited;

impl Allowance for Unlimited {
    fn should_stop(&self) -> bool {
        false
    }

    fn take(&self, _: usize) -> Result<(), StoreError> {
        Ok(())
    }
}
