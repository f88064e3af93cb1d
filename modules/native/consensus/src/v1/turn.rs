//! Turns of masternodes, and the difficulty derived from them (`docs/spec/consensus.md` 2.4, `docs/spec/chain.md` 4.6).

use tenon_api::{Address, U256};

/// Seconds that a creator out of turn waits for each place.
const WAIT_PER_HOP: u64 = 10;
/// Seconds for each place if the wait would extend beyond the epoch.
const WAIT_PER_HOP_ACROSS_EPOCHS: u64 = 20;
/// Blocks of an epoch; this rule uses the constant regardless of the configuration.
const EPOCH: u64 = 900;

/// The positions of a block's creator and its parent's in the list of masternodes as of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreatorTurn {
    /// Length of the list.
    length: usize,
    /// Position of the parent's creator; `None` if the parent is the genesis block or its creator is not listed.
    previous: Option<usize>,
    /// Position of this block's creator.
    current: Option<usize>,
}

impl CreatorTurn {
    /// Looks up both positions. `parent_creator` is `None` for the genesis block.
    pub fn new(masternodes: &[Address], parent_creator: Option<Address>, creator: Address) -> Self {
        let place = |address: Address| masternodes.iter().position(|masternode| *masternode == address);
        Self { length: masternodes.len(), previous: parent_creator.and_then(place), current: place(creator) }
    }

    /// Returns whether the creator follows the parent's in the list.
    pub fn is_in_turn(&self) -> bool {
        let next = self.previous.map_or(0, |place| place + 1);
        self.length > 0 && Some(next % self.length) == self.current
    }

    /// Number of places skipped. A missing position counts as -1, as in the reference.
    fn hop(&self) -> i128 {
        let (length, previous, current) = (self.length as i128, signed(self.previous), signed(self.current));
        match previous.cmp(&current) {
            std::cmp::Ordering::Less => current - previous - 1,
            std::cmp::Ordering::Greater => length - previous + current - 1,
            std::cmp::Ordering::Equal => length - 1,
        }
    }

    /// The difficulty of the block: the length of the list, minus one for each place skipped.
    pub fn difficulty(&self) -> U256 {
        if self.length == 0 {
            return U256::ZERO;
        }
        U256::from((self.length as i128 - self.hop()).max(0).cast_unsigned())
    }

    /// Seconds after the parent until this creator may seal; `None` if it may not at all.
    pub fn wait_before_sealing(&self, parent_number: u64) -> Option<u64> {
        if self.is_in_turn() {
            return Some(0);
        }
        self.previous.and(self.current)?;
        let hop = u64::try_from(self.hop()).ok()?;
        let left_in_epoch = EPOCH - parent_number % EPOCH;
        let wait = if hop >= left_in_epoch { WAIT_PER_HOP_ACROSS_EPOCHS } else { WAIT_PER_HOP };
        Some(wait.saturating_mul(hop))
    }
}

fn signed(place: Option<usize>) -> i128 {
    place.map_or(-1, |place| place as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masternodes(count: u8) -> Vec<Address> {
        (1..=count).map(Address::with_last_byte).collect()
    }

    /// (length, previous, current, difficulty, in turn, wait after block 100)
    type Case = (u8, Option<u8>, u8, u64, bool, Option<u64>);

    #[test]
    fn difficulty_falls_by_one_for_each_place_skipped() {
        let cases: [Case; 12] = [
            (3, None, 1, 3, true, Some(0)),
            (3, None, 2, 2, false, None),
            (3, None, 3, 1, false, None),
            (3, Some(1), 2, 3, true, Some(0)),
            (3, Some(1), 3, 2, false, Some(10)),
            (3, Some(1), 1, 1, false, Some(20)),
            (3, Some(3), 1, 3, true, Some(0)),
            (3, Some(3), 2, 2, false, Some(10)),
            (1, Some(1), 1, 1, true, Some(0)),
            (3, Some(2), 9, 3, false, None),
            (3, Some(3), 9, 4, false, None),
            (0, None, 1, 0, false, None),
        ];

        for case @ (length, previous, current, difficulty, is_in_turn, wait) in cases {
            let list = masternodes(length);
            let turn = CreatorTurn::new(&list, previous.map(Address::with_last_byte), Address::with_last_byte(current));

            assert_eq!(turn.difficulty(), U256::from(difficulty), "{case:?}");
            assert_eq!(turn.is_in_turn(), is_in_turn, "{case:?}");
            assert_eq!(turn.wait_before_sealing(100), wait, "{case:?}");
        }
    }

    #[test]
    fn waits_twice_as_long_if_the_epoch_ends_during_the_wait() {
        let list = masternodes(5);
        let turn = CreatorTurn::new(&list, Some(list[0]), list[4]);

        assert_eq!(turn.wait_before_sealing(896), Some(30), "hop 3, 4 blocks left");
        assert_eq!(turn.wait_before_sealing(897), Some(60), "hop 3, 3 blocks left");
        assert_eq!(turn.wait_before_sealing(900), Some(30), "a whole epoch left");
    }
}
