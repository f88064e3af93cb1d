//! The heights at which trie nodes were created, for nodes created since a checkpoint. Thinning needs them, and would
//! otherwise have to read the record of every superseded node.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::BuildHasher,
};

use foldhash::quality::RandomState;

use crate::format::meta::checkpoint_before;

/// Maximum number of listed nodes: about 12 MB.
const MAX_NODES: usize = 1 << 18;

/// Heights of nodes written by commits since a checkpoint. Thinning removes entries together with their nodes.
///
/// The list is complete, or known to be incomplete: code that writes nodes in another way, or may have failed to write
/// them, calls [`CreatedNodes::forget`]. The list is then complete again from the next checkpoint on.
#[derive(Default)]
pub(crate) struct CreatedNodes {
    /// By hash of the key: 128 bits with random seeds, so that keys do not collide.
    heights: HashMap<u128, u64>,
    /// The checkpoint above which every node is listed.
    complete_above: Option<u64>,
    seeds: (RandomState, RandomState),
}

/// When a node of `Trie` was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Creation {
    /// It was last created at this height.
    At(u64),
    /// It was created at the checkpoint or below it.
    UpToCheckpoint,
    /// The height is known only from the node's record.
    Unknown,
}

impl CreatedNodes {
    /// Lists the nodes, with their heights, of blocks that were committed on top of the head, from `first` on. No
    /// checkpoint is between them.
    pub(crate) fn committed<'a>(
        &mut self,
        first: u64,
        checkpoint_every: u64,
        nodes: impl Iterator<Item = (u64, &'a Vec<u8>)>,
    ) {
        let checkpoint = checkpoint_before(first, checkpoint_every);
        if self.complete_above.is_none() {
            if checkpoint + 1 != first {
                return;
            }
            self.complete_above = Some(checkpoint);
        }
        for (number, key) in nodes {
            let place = self.place(key);
            self.heights.insert(place, number);
        }
        if self.heights.len() > MAX_NODES {
            self.forget();
        }
    }

    /// When a node was created, for thinning a block whose last checkpoint is `checkpoint`.
    pub(crate) fn creation(&self, key: &[u8], checkpoint: u64) -> Creation {
        match self.heights.get(&self.place(key)) {
            Some(height) => Creation::At(*height),
            None if self.complete_above.is_some_and(|above| above <= checkpoint) => Creation::UpToCheckpoint,
            None => Creation::Unknown,
        }
    }

    /// Takes a node off the list after thinning a block has removed it, unless it was created again after the block.
    pub(crate) fn removed(&mut self, key: &[u8], number: u64) {
        if let Entry::Occupied(listed) = self.heights.entry(self.place(key))
            && *listed.get() <= number
        {
            listed.remove();
        }
    }

    /// Removes the nodes created up to a checkpoint from the list, because every block below it is thinned.
    pub(crate) fn passed(&mut self, checkpoint: u64) {
        if self.complete_above.is_some_and(|above| above < checkpoint) {
            self.complete_above = Some(checkpoint);
            self.heights.retain(|_, height| *height > checkpoint);
        }
    }

    /// Clears the list, because nodes are written in another way.
    pub(crate) fn forget(&mut self) {
        self.complete_above = None;
        self.heights = HashMap::new();
    }

    fn place(&self, key: &[u8]) -> u128 {
        u128::from(self.seeds.0.hash_one(key)) << 64 | u128::from(self.seeds.1.hash_one(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: u64 = 16;

    fn key(name: u8) -> Vec<u8> {
        vec![name; 40]
    }

    #[test]
    fn nodes_are_listed_from_the_first_checkpoint_on() {
        let mut nodes = CreatedNodes::default();

        nodes.committed(20, EVERY, [(20, &key(1))].into_iter());
        assert_eq!(nodes.creation(&key(1), 16), Creation::Unknown);
        nodes.committed(33, EVERY, [(33, &key(2))].into_iter());
        nodes.committed(40, EVERY, [(40, &key(3))].into_iter());

        assert_eq!(nodes.creation(&key(1), 16), Creation::Unknown, "of a block before the list began");
        assert_eq!(nodes.creation(&key(1), 32), Creation::UpToCheckpoint);
        assert_eq!((nodes.creation(&key(2), 32), nodes.creation(&key(3), 32)), (Creation::At(33), Creation::At(40)));
        nodes.removed(&key(2), 40);
        assert_eq!(nodes.creation(&key(2), 32), Creation::UpToCheckpoint);
    }

    #[test]
    fn nodes_of_a_passed_checkpoint_are_dropped() {
        let mut nodes = CreatedNodes::default();
        nodes.committed(1, EVERY, [(1, &key(1))].into_iter());
        nodes.committed(17, EVERY, [(17, &key(2))].into_iter());

        nodes.passed(16);

        assert_eq!(nodes.heights.len(), 1);
        assert_eq!(nodes.creation(&key(1), 16), Creation::UpToCheckpoint);
        assert_eq!(nodes.creation(&key(2), 16), Creation::At(17));
    }

    #[test]
    fn a_full_list_is_dropped_until_the_next_checkpoint() {
        let mut nodes = CreatedNodes::default();
        let many: Vec<_> = (0..=MAX_NODES).map(|index| index.to_be_bytes().to_vec()).collect();

        nodes.committed(1, EVERY, many.iter().map(|key| (1, key)));

        assert_eq!((nodes.heights.len(), nodes.creation(&many[0], 0)), (0, Creation::Unknown));
        nodes.committed(17, EVERY, [(17, &key(2))].into_iter());
        assert_eq!(nodes.creation(&key(2), 16), Creation::At(17));
    }
}
