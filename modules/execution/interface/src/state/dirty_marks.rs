//! Determines which empty accounts a block writes back (`docs/spec/chain.md` 5.3, "touch + revert quirk").
//!
//! The reference marks an account object as dirty at its first change, and at the end writes the marked objects, or
//! deletes them if empty. Two properties of the marks are not visible in the state:
//!
//! - the mark of a reverted change stays, so that an empty account that received coins in a failed call is deleted
//!   although its state did not change;
//! - the mark of a *touch* (a transfer of zero to an empty account) is removed when the touch is reverted, and an
//!   object marks itself only once. From then until the end of the block, changes of that account are visible to reads
//!   but never written.
//!
//! Only an account that exists and is empty in the parent's state can be affected. On the three networks these are
//! `0x…00` and `0x…01` until they are removed. On other chains it is any account that the genesis file lists without
//! balance, nonce and code.

use alloy_primitives::{Address, address, map::AddressMap};

/// RIPEMD-160: reverting a touch of it does not remove its mark, as on Ethereum.
pub(crate) const RIPEMD: Address = address!("0000000000000000000000000000000000000003");

/// A change of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Zero was added to its balance while it was empty.
    Touch,
    /// Any other change.
    Write,
    /// A contract was created at its address.
    Creation,
}

/// The marks of the accounts of one block that are empty in its parent's state, and their changes in the open frames of
/// a transaction.
#[derive(Clone, Debug, Default)]
pub struct DirtyMarks {
    marks: AddressMap<Mark>,
    /// Revertible changes in order, with the account's previous mark.
    journal: Vec<(Address, Change, Mark)>,
    /// Journal position at which each open frame begins.
    frames: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// Whether the account's next change marks the account's object. An object marks itself only once.
    is_armed: bool,
    is_dirty: bool,
}

impl DirtyMarks {
    /// Records that an account was read that exists and is empty in the parent's state.
    pub fn watch(&mut self, address: Address) {
        self.marks.insert(address, Mark { is_armed: true, is_dirty: false });
    }

    /// Stops tracking an account that is gone or was replaced: its changes are written like any other's.
    pub fn forget(&mut self, address: Address) {
        self.marks.remove(&address);
    }

    /// The tracked accounts; none in nearly all blocks.
    pub fn watched(&self) -> Vec<Address> {
        self.marks.keys().copied().collect()
    }

    /// A transaction begins.
    pub fn begin_transaction(&mut self) {
        self.journal.clear();
        self.frames.clear();
    }

    /// A frame begins: later changes are reverted with it.
    pub fn begin_frame(&mut self) {
        self.frames.push(self.journal.len());
    }

    /// The innermost frame ends.
    pub fn end_frame(&mut self, is_undone: bool) {
        let begin = self.frames.pop().unwrap_or_default();
        while is_undone && self.journal.len() > begin {
            if let Some((address, change, before)) = self.journal.pop() {
                self.undo(address, change, before);
            }
        }
    }

    /// Records a change of an account.
    pub fn record(&mut self, address: Address, change: Change) {
        let Some(mark) = self.marks.get_mut(&address) else { return };
        self.journal.push((address, change, *mark));
        // The contract has a mark of its own; the account that it replaces keeps its mark for the case of a revert.
        if mark.is_armed && change != Change::Creation {
            *mark = Mark { is_armed: false, is_dirty: true };
        }
    }

    /// Returns whether the transaction created a contract at an account's address, and the creation was not reverted.
    pub fn has_created(&self, address: Address) -> bool {
        self.journal.iter().any(|(created, change, _)| *created == address && *change == Change::Creation)
    }

    fn undo(&mut self, address: Address, change: Change, before: Mark) {
        let Some(mark) = self.marks.get_mut(&address) else { return };
        match change {
            // The mark stays: reverting a write counts as a change too.
            Change::Write => {}
            Change::Touch if before.is_armed && address != RIPEMD => mark.is_dirty = false,
            Change::Touch => {}
            // The account is restored, with the mark that the contract made under its address.
            Change::Creation => *mark = Mark { is_armed: before.is_armed, is_dirty: true },
        }
    }

    /// Returns whether an account's changes are written at the end of the block.
    pub fn is_written(&self, address: Address) -> bool {
        self.marks.get(&address).is_none_or(|mark| mark.is_dirty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: Address = Address::ZERO;

    /// Changes of a frame, and whether it was reverted.
    type Frame<'a> = (&'a [Change], bool);

    /// Whether an account is written after these frames.
    fn is_written_after(address: Address, frames: &[Frame<'_>]) -> bool {
        let mut marks = DirtyMarks::default();
        marks.watch(address);
        for (changes, is_undone) in frames {
            marks.begin_transaction();
            marks.begin_frame();
            for change in *changes {
                marks.record(address, *change);
            }
            marks.end_frame(*is_undone);
        }
        marks.is_written(address)
    }

    #[test]
    fn reverted_changes_leave_the_same_marks_as_in_the_reference() {
        use Change::{Creation, Touch, Write};
        let cases: &[(&[Frame<'_>], bool, &str)] = &[
            (&[], false, "only read"),
            (&[(&[Touch], false)], true, "a touch"),
            (&[(&[Touch], true)], false, "an undone touch"),
            (&[(&[Write], true)], true, "an undone write"),
            (&[(&[Touch, Write], true)], false, "a touch before an undone write"),
            (&[(&[Write, Touch], true)], true, "a write before an undone touch"),
            (&[(&[Touch], true), (&[Write], false)], false, "a write after an undone touch"),
            (&[(&[Touch], false), (&[Touch], true)], true, "an undone touch after one that stayed"),
            (&[(&[Creation], true)], true, "an undone creation"),
            (&[(&[Creation], true), (&[Touch], true)], false, "an undone touch after an undone creation"),
            (&[(&[Touch], true), (&[Creation], true)], true, "an undone creation after an undone touch"),
            (&[(&[Touch, Creation], true)], false, "a touch before an undone creation"),
        ];
        for (frames, is_written, what) in cases {
            assert_eq!(is_written_after(ACCOUNT, frames), *is_written, "{what}");
        }
        assert!(is_written_after(RIPEMD, &[(&[Touch], true)]));
    }

    #[test]
    fn an_outer_frame_reverts_what_an_inner_one_kept() {
        let mut marks = DirtyMarks::default();
        marks.watch(ACCOUNT);

        marks.begin_frame();
        marks.begin_frame();
        marks.record(ACCOUNT, Change::Touch);
        marks.end_frame(false);
        assert!(marks.is_written(ACCOUNT));
        marks.end_frame(true);

        assert!(!marks.is_written(ACCOUNT));
    }

    #[test]
    fn other_accounts_are_always_written() {
        let mut marks = DirtyMarks::default();
        marks.record(ACCOUNT, Change::Touch);
        assert!(marks.is_written(ACCOUNT));
    }
}
