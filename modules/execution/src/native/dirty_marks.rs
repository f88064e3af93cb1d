//! Which empty accounts a block writes back (`docs/spec/chain.md` 5.3, "touch + revert quirk").
//!
//! The reference marks an account object as dirty when it is first changed, and at the end writes, or deletes when
//! empty, what is marked. Two things about the marks cannot be seen from the state alone:
//!
//! - the mark of a change that is undone stays, so that an empty account that was sent coins in a call that failed is
//!   deleted although nothing happened to it;
//! - the mark of a *touch* (a transfer of nothing to an empty account) is taken back when the touch is undone, and an
//!   object marks itself once only. From then on, to the end of the block, changes of that account are seen by
//!   whoever reads it and written by nobody.
//!
//! Only an account that exists and is empty in the parent's state can be concerned: `0x…00` and `0x…01` of the three
//! networks until they are removed, and whatever else a genesis file lists without balance, nonce and code.

use alloy_primitives::{Address, address, map::AddressMap};

/// RIPEMD-160: undoing a touch of it does not take its mark back, as on Ethereum.
pub(crate) const RIPEMD: Address = address!("0000000000000000000000000000000000000003");

/// What was done to an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing was added to its balance while it was empty.
    Touch,
    /// Anything else that changes it.
    Write,
    /// A contract was created in its place.
    Creation,
}

/// The marks of those accounts of one block that are empty in its parent's state, and what the open frames of a
/// transaction did to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirtyMarks {
    marks: AddressMap<Mark>,
    /// What can be undone, in its order, with the mark that the account had.
    journal: Vec<(Address, Change, Mark)>,
    /// Where in the journal each open frame begins.
    frames: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// The object has never marked itself: its next change will.
    is_armed: bool,
    is_dirty: bool,
}

impl DirtyMarks {
    /// An account was read that exists and is empty in the parent's state.
    pub(crate) fn watch(&mut self, address: Address) {
        self.marks.insert(address, Mark { is_armed: true, is_dirty: false });
    }

    /// The account is gone, or another has taken its place: what becomes of it is written like any other.
    pub(crate) fn forget(&mut self, address: Address) {
        self.marks.remove(&address);
    }

    /// The accounts that are looked after; none in nearly all blocks.
    pub(crate) fn watched(&self) -> Vec<Address> {
        self.marks.keys().copied().collect()
    }

    /// A transaction begins.
    pub(crate) fn begin_transaction(&mut self) {
        self.journal.clear();
        self.frames.clear();
    }

    /// A frame begins: what is recorded from here on is undone with it.
    pub(crate) fn begin_frame(&mut self) {
        self.frames.push(self.journal.len());
    }

    /// The innermost frame ends.
    pub(crate) fn end_frame(&mut self, is_undone: bool) {
        let begin = self.frames.pop().unwrap_or_default();
        while is_undone && self.journal.len() > begin {
            if let Some((address, change, before)) = self.journal.pop() {
                self.undo(address, change, before);
            }
        }
    }

    /// An account was changed.
    pub(crate) fn record(&mut self, address: Address, change: Change) {
        let Some(mark) = self.marks.get_mut(&address) else { return };
        self.journal.push((address, change, *mark));
        // The contract has a mark of its own; the account in whose place it is keeps its own until it is back.
        if mark.is_armed && change != Change::Creation {
            *mark = Mark { is_armed: false, is_dirty: true };
        }
    }

    /// Whether the transaction created a contract in an account's place, and did not undo that.
    pub(crate) fn has_created(&self, address: Address) -> bool {
        self.journal.iter().any(|(created, change, _)| *created == address && *change == Change::Creation)
    }

    fn undo(&mut self, address: Address, change: Change, before: Mark) {
        let Some(mark) = self.marks.get_mut(&address) else { return };
        match change {
            // Undoing a write is a change too, and marks nothing that is marked.
            Change::Write => {}
            Change::Touch if before.is_armed && address != RIPEMD => mark.is_dirty = false,
            Change::Touch => {}
            // The account is back, with the mark that the contract made under its address.
            Change::Creation => *mark = Mark { is_armed: before.is_armed, is_dirty: true },
        }
    }

    /// Whether what became of an account is written at the end of the block.
    pub(crate) fn is_written(&self, address: Address) -> bool {
        self.marks.get(&address).is_none_or(|mark| mark.is_dirty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: Address = Address::ZERO;

    /// What a frame did, and whether it was undone.
    type Frame<'a> = (&'a [Change], bool);

    /// What is written after these frames, each with what it did and whether it was undone.
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
    fn what_is_undone_leaves_the_marks_that_the_reference_leaves() {
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
    fn an_outer_frame_undoes_what_an_inner_one_kept() {
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
