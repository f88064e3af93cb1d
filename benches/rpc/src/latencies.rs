//! Latencies of a run.

use std::time::Duration;

/// Latencies, kept whole: a run has a million of them at most.
#[derive(Default)]
pub(crate) struct Latencies(Vec<u32>);

impl Latencies {
    pub(crate) fn add(&mut self, latency: Duration) {
        self.0.push(u32::try_from(latency.as_micros()).unwrap_or(u32::MAX));
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The latency that `percent` of all requests stay below, microseconds; `None` without any.
    pub(crate) fn percentile(&mut self, percent: usize) -> Option<u32> {
        self.0.sort_unstable();
        let position = self.0.len().checked_sub(1)? * percent / 100;
        self.0.get(position).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let mut latencies = Latencies::default();
        for micros in (1..=100).rev() {
            latencies.add(Duration::from_micros(micros));
        }

        assert_eq!(
            (latencies.percentile(0), latencies.percentile(50), latencies.percentile(99)),
            (Some(1), Some(50), Some(99))
        );
        assert_eq!(Latencies::default().percentile(50), None);
    }
}
