//! Histograms of durations: counted on hot paths, shown by the metrics module.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Upper bounds of the buckets, nanoseconds; one more bucket counts longer durations. They span from the cost of a read
/// to the longest call that the limits allow.
pub const DURATION_BOUNDS: [u64; 14] = [
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    1_000_000,
    5_000_000,
    25_000_000,
    100_000_000,
    500_000_000,
    2_500_000_000,
    10_000_000_000,
];

const BUCKETS: usize = DURATION_BOUNDS.len() + 1;

/// A histogram that any number of threads may update at once. Counting costs two relaxed additions: no lock, and no
/// memory beyond the value itself.
#[derive(Debug, Default)]
pub struct Durations {
    buckets: [AtomicU64; BUCKETS],
    nanoseconds: AtomicU64,
}

impl Durations {
    /// Counts one duration.
    pub fn count(&self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = DURATION_BOUNDS.partition_point(|bound| *bound < nanoseconds);
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// The counts so far. Concurrent additions may be included, for each bucket independently.
    pub fn counted(&self) -> DurationCounts {
        DurationCounts {
            buckets: std::array::from_fn(|bucket| self.buckets[bucket].load(Ordering::Relaxed)),
            nanoseconds: self.nanoseconds.load(Ordering::Relaxed),
        }
    }
}

/// The counts of [`Durations`] at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurationCounts {
    /// Count for each bucket of [`DURATION_BOUNDS`], longer ones last. Not cumulative.
    pub buckets: [u64; BUCKETS],
    /// The sum of all, nanoseconds.
    pub nanoseconds: u64,
}

impl DurationCounts {
    /// Total count.
    pub fn number(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The sum of all.
    pub const fn sum(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds)
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.buckets.iter_mut().zip(&other.buckets) {
            *own = own.saturating_add(*other);
        }
        self.nanoseconds = self.nanoseconds.saturating_add(other.nanoseconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_each_duration_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let cases = [(0, 0), (2_500, 0), (2_501, 1), (1_000_000, 7), (10_000_000_000, 13), (10_000_000_001, 14)];
        for (nanoseconds, wanted) in cases {
            let durations = Durations::default();

            durations.count(Duration::from_nanos(nanoseconds));

            let counted = durations.counted();
            assert_eq!(counted.buckets[wanted], 1, "{nanoseconds} ns");
            assert_eq!((counted.number(), counted.nanoseconds), (1, nanoseconds));
        }
    }

    #[test]
    fn counts_of_several_histograms_add_up() {
        let (first, second) = (Durations::default(), Durations::default());
        first.count(Duration::from_micros(3));
        second.count(Duration::from_micros(4));
        second.count(Duration::from_secs(60));

        let mut sum = first.counted();
        sum.add(&second.counted());

        assert_eq!((sum.buckets[1], sum.buckets[14], sum.number()), (2, 1, 3));
        assert_eq!(sum.sum(), Duration::from_secs(60) + Duration::from_micros(7));
    }

    #[test]
    fn bounds_ascend() {
        assert!(DURATION_BOUNDS.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
