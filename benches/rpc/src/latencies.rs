//! Latencies of a run.

use std::time::Duration;

/// Buckets per power of two: a value is known to within 1/64 of itself.
const PARTS: u64 = 64;

/// A histogram of latencies, of constant memory however long a run is.
#[derive(Clone, Debug)]
pub struct Latencies {
    counts: Vec<u64>,
    total: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        // Up to 2⁴⁰ µs, twelve days.
        Self { counts: vec![0; bucket(1 << 40) + 1], total: 0 }
    }
}

/// The bucket of a latency: exact below 64 µs, above that 64 buckets per power of two.
fn bucket(micros: u64) -> usize {
    let Some(shift) = micros.checked_ilog2().map(|log| log.saturating_sub(6)) else { return 0 };
    let index = u64::from(shift) * PARTS + (micros >> shift);
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// The minimum latency of a bucket.
fn min_latency(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / PARTS).saturating_sub(1);
    (bucket - shift * PARTS) << shift
}

impl Latencies {
    /// Counts one.
    pub fn add(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let last = self.counts.len() - 1;
        self.counts[bucket(micros).min(last)] += 1;
        self.total += 1;
    }

    /// Adds another histogram.
    pub fn append(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
        self.total += other.total;
    }

    /// Number of latencies.
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// The latency below which `percent` of all requests are, microseconds; `None` if empty.
    pub fn percentile(&self, percent: u64) -> Option<u64> {
        let rank = self.total.checked_sub(1)? * percent / 100;
        let mut seen = 0;
        let position = self.counts.iter().position(|count| {
            seen += count;
            seen > rank
        })?;
        Some(min_latency(position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_below_64_microseconds_and_near_above() {
        let mut latencies = Latencies::default();
        for micros in (1..=60).rev() {
            latencies.add(Duration::from_micros(micros));
        }
        assert_eq!(
            (latencies.percentile(0), latencies.percentile(50), latencies.percentile(99)),
            (Some(1), Some(30), Some(59))
        );
        assert_eq!(Latencies::default().percentile(50), None);

        for micros in [100, 1_000, 12_345, 9_999_999] {
            let mut one = Latencies::default();
            one.add(Duration::from_micros(micros));
            let found = one.percentile(99).unwrap();
            assert!(found <= micros && micros - found <= micros / 64, "{micros}: {found}");
        }
    }

    #[test]
    fn buckets_are_contiguous() {
        for index in 1..bucket(1 << 40) {
            assert_eq!(bucket(min_latency(index)), index);
            assert_eq!(bucket(min_latency(index) - 1), index - 1);
        }
    }

    #[test]
    fn histograms_can_be_merged() {
        let (mut one, mut other) = (Latencies::default(), Latencies::default());
        one.add(Duration::from_micros(5));
        other.add(Duration::from_micros(50));

        one.append(&other);

        assert_eq!((one.count(), one.percentile(0), one.percentile(100)), (2, Some(5), Some(50)));
    }
}
