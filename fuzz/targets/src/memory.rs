//! The memory bound of every input.

use peak_alloc::PeakAlloc;

/// Counts allocations. A program that checks bounds makes it its global allocator; without it all counts are zero and
/// every bound holds.
pub static PEAK: PeakAlloc = PeakAlloc;

/// Maximum memory while an input is processed: a fixed part and a part proportional to its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    fixed: usize,
    per_byte: usize,
}

impl Bound {
    /// `fixed` bytes, plus `per_byte` bytes for every byte of input.
    pub(crate) const fn bytes(fixed: usize, per_byte: usize) -> Self {
        Self { fixed, per_byte }
    }

    /// Maximum memory for an input of this length.
    pub const fn at(self, length: usize) -> usize {
        self.fixed + self.per_byte * length
    }

    /// Runs `check` on the input and compares its peak with the bound.
    pub(crate) fn hold(self, input: &[u8], check: fn(&[u8])) {
        let before = PEAK.current_usage();
        PEAK.reset_peak_usage();
        check(input);
        let taken = PEAK.peak_usage().saturating_sub(before);
        let max = self.at(input.len());
        assert!(
            taken <= max,
            "an input of {} bytes took {taken} bytes of memory, at most {max} are allowed",
            input.len()
        );
    }
}
