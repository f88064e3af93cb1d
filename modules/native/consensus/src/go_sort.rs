//! The unstable sort of Go before 1.19, step by step (`docs/spec/consensus.md` Appendix A).
//!
//! The moves of this algorithm decide the order of candidates with equal stakes, and thereby the leaders and which
//! candidates are beyond the end of the list. Any other sort, stable or not, breaks consensus; so do "improvements" of
//! this file.
//!
//! Implemented here, because no crate gives the order of Go's sort.

/// Ranges of at most this length are left to the shell and insertion passes.
const INSERTION_SORT_MAX: usize = 12;
/// For longer ranges the pivot is a median of nine.
const NINTHER_ABOVE: usize = 40;

/// Sorts `items` like the reference. `before(x, y)` is its comparison, which for candidates is "the stake of x is at
/// least the stake of y": true for equal ones, unlike a usual comparison.
pub fn sort_unstably<T>(items: &mut [T], before: impl Fn(&T, &T) -> bool) {
    let length = items.len();
    let depth = 2 * (usize::BITS - length.leading_zeros());
    Sorter { items, before }.quick_sort(0, length, depth);
}

/// Sorts by stake: greatest first, ties as the algorithm leaves them (`docs/spec/consensus.md` 4.3).
pub fn sort_by_stake_descending<T, S: Ord>(items: &mut [T], stake: impl Fn(&T) -> S) {
    sort_unstably(items, |left, right| stake(left) >= stake(right));
}

struct Sorter<'items, T, F> {
    items: &'items mut [T],
    before: F,
}

/// Ranges are half open, as in the specification: `low..high`.
impl<T, F: Fn(&T, &T) -> bool> Sorter<'_, T, F> {
    fn before(&self, left: usize, right: usize) -> bool {
        (self.before)(&self.items[left], &self.items[right])
    }

    fn swap(&mut self, left: usize, right: usize) {
        self.items.swap(left, right);
    }

    /// `Q` of the specification.
    fn quick_sort(&mut self, mut low: usize, mut high: usize, mut depth: u32) {
        while high - low > INSERTION_SORT_MAX {
            if depth == 0 {
                self.heap_sort(low, high);
                return;
            }
            depth -= 1;
            let (left_end, right_start) = self.partition(low, high);
            if left_end - low < high - right_start {
                self.quick_sort(low, left_end, depth);
                low = right_start;
            } else {
                self.quick_sort(right_start, high, depth);
                high = left_end;
            }
        }
        if high - low > 1 {
            for index in low + 6..high {
                if self.before(index, index - 6) {
                    self.swap(index, index - 6);
                }
            }
            self.insertion_sort(low, high);
        }
    }

    fn insertion_sort(&mut self, low: usize, high: usize) {
        for start in low + 1..high {
            let mut index = start;
            while index > low && self.before(index, index - 1) {
                self.swap(index, index - 1);
                index -= 1;
            }
        }
    }

    /// `MED` of the specification: moves the median of three to `middle`.
    fn median_of_three(&mut self, middle: usize, low: usize, high: usize) {
        if self.before(middle, low) {
            self.swap(middle, low);
        }
        if self.before(high, middle) {
            self.swap(high, middle);
            if self.before(middle, low) {
                self.swap(middle, low);
            }
        }
    }

    /// `PART` of the specification: returns the end of the lower and the start of the upper range still to be sorted.
    fn partition(&mut self, low: usize, high: usize) -> (usize, usize) {
        let middle = usize::midpoint(low, high);
        self.choose_pivot(low, middle, high);
        let pivot = low;
        let (mut first, mut upper) = (low + 1, high - 1);
        while first < upper && self.before(first, pivot) {
            first += 1;
        }
        let mut lower = first;
        loop {
            while lower < upper && !self.before(pivot, lower) {
                lower += 1;
            }
            while lower < upper && self.before(pivot, upper - 1) {
                upper -= 1;
            }
            if lower >= upper {
                break;
            }
            self.swap(lower, upper - 1);
            lower += 1;
            upper -= 1;
        }
        let mut has_many_equal = high - upper < 5;
        if !has_many_equal && high - upper < (high - low) / 4 {
            let mut equal = 0;
            if !self.before(pivot, high - 1) {
                self.swap(upper, high - 1);
                upper += 1;
                equal += 1;
            }
            if !self.before(lower - 1, pivot) {
                lower -= 1;
                equal += 1;
            }
            if !self.before(middle, pivot) {
                self.swap(middle, lower - 1);
                lower -= 1;
                equal += 1;
            }
            has_many_equal = equal > 1;
        }
        if has_many_equal {
            lower = self.gather_equal(first, lower, pivot);
        }
        self.swap(pivot, lower - 1);
        (lower - 1, upper)
    }

    /// Moves the median of three (or of nine in long ranges) to `low`.
    fn choose_pivot(&mut self, low: usize, middle: usize, high: usize) {
        if high - low > NINTHER_ABOVE {
            let step = (high - low) / 8;
            self.median_of_three(low, low + step, low + 2 * step);
            self.median_of_three(middle, middle - step, middle + step);
            self.median_of_three(high - 1, high - 1 - step, high - 1 - 2 * step);
        }
        self.median_of_three(low, middle, high - 1);
    }

    /// The second pass of a partition, which gathers elements equal to the pivot; returns its new end.
    fn gather_equal(&mut self, mut first: usize, mut lower: usize, pivot: usize) -> usize {
        loop {
            while first < lower && !self.before(lower - 1, pivot) {
                lower -= 1;
            }
            while first < lower && self.before(first, pivot) {
                first += 1;
            }
            if first >= lower {
                return lower;
            }
            self.swap(first, lower - 1);
            first += 1;
            lower -= 1;
        }
    }

    /// `HEAP` of the specification.
    fn heap_sort(&mut self, low: usize, high: usize) {
        let length = high - low;
        for root in (0..=(length - 1) / 2).rev() {
            self.sift_down(root, length, low);
        }
        for end in (0..length).rev() {
            self.swap(low, low + end);
            self.sift_down(0, end, low);
        }
    }

    /// `SIFT` of the specification; positions are relative to `low`.
    fn sift_down(&mut self, mut root: usize, length: usize, low: usize) {
        loop {
            let mut child = 2 * root + 1;
            if child >= length {
                return;
            }
            if child + 1 < length && self.before(low + child, low + child + 1) {
                child += 1;
            }
            if !self.before(low + root, low + child) {
                return;
            }
            self.swap(low + root, low + child);
            root = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::test_data;

    fn order(stakes: &[u64]) -> Vec<usize> {
        let mut indexes: Vec<usize> = (0..stakes.len()).collect();
        sort_by_stake_descending(&mut indexes, |index| stakes[*index]);
        indexes
    }

    #[test]
    fn orders_every_published_list_as_the_reference_does() {
        let vectors = test_data::consensus_vectors();

        for case in vectors["candidateSort_derived"].as_array().unwrap() {
            let stakes: Vec<u64> = case["stakes"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap()).collect();
            let wanted: Vec<usize> = serde_json::from_value(case["orderOfOriginalIndexes"].clone()).unwrap();

            assert_eq!(order(&stakes), wanted, "{} stakes", stakes.len());
        }
    }

    proptest! {
        #[test]
        fn orders_any_list_by_stake_and_loses_no_entry(stakes in proptest::collection::vec(0_u64..9, 0..400)) {
            let order = order(&stakes);

            let mut seen = order.clone();
            seen.sort_unstable();
            prop_assert!(seen.iter().copied().eq(0..stakes.len()));
            prop_assert!(order.windows(2).all(|pair| stakes[pair[0]] >= stakes[pair[1]]));
        }
    }

    /// The published examples never recurse deeply enough for the heap sort, so it is called directly here.
    #[test]
    fn heap_sort_orders_its_input() {
        let mut items: Vec<u64> = (0..60).map(|n| n * 7 % 61).collect();
        let length = items.len();

        Sorter { items: &mut items, before: |left: &u64, right: &u64| left > right }.quick_sort(0, length, 0);

        assert!(items.is_sorted_by(|left, right| left >= right));
    }
}
