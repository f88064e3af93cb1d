//! A set with a maximum size, which drops its oldest items.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

/// A set with a maximum number of items.
#[derive(Clone, Debug)]
pub struct BoundedSet<T> {
    items: HashSet<T>,
    order: VecDeque<T>,
    max: usize,
}

impl<T: Copy + Eq + Hash> BoundedSet<T> {
    /// An empty set for at most `max` items.
    pub fn new(max: usize) -> Self {
        Self { items: HashSet::new(), order: VecDeque::new(), max }
    }

    /// Adds an item; false if the set contains it.
    pub fn insert(&mut self, item: T) -> bool {
        if !self.items.insert(item) {
            return false;
        }
        self.order.push_back(item);
        if self.order.len() > self.max
            && let Some(oldest) = self.order.pop_front()
        {
            self.items.remove(&oldest);
        }
        true
    }

    /// Whether the set contains an item.
    pub fn contains(&self, item: &T) -> bool {
        self.items.contains(item)
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.items.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_item_is_forgotten() {
        let mut set = BoundedSet::new(2);
        assert!(set.insert(1) && set.insert(2) && !set.insert(1));
        assert!(set.insert(3));
        assert!(!set.contains(&1) && set.contains(&2) && set.contains(&3));
        assert_eq!((set.items.len(), set.order.len()), (2, 2));
    }
}
