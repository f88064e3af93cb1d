//! Samples the use of the processor.

use std::time::{Instant, SystemTime};

use pprof::{ProfilerGuard, ProfilerGuardBuilder, Symbol};

use super::error::ProfileError;
use super::pprof_file::{ProfileBuilder, SourceLocation};

/// Samples per second of processor time, as in the reference.
const FREQUENCY: i32 = 100;

/// Nanoseconds of processor time per sample.
const PERIOD: i64 = 1_000_000_000 / FREQUENCY as i64;

/// Libraries in which no stack is captured, because capturing may wait for a lock that the interrupted thread holds.
const NOT_SAMPLED: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

/// A running recording. Dropping it ends it.
pub(super) struct CpuRecording {
    sampler: ProfilerGuard<'static>,
    began: SystemTime,
    since: Instant,
}

impl CpuRecording {
    /// Starts to sample.
    ///
    /// # Errors
    /// If the system provides no timer, or something else is already sampling.
    pub(super) fn start() -> Result<Self, ProfileError> {
        let sampler = ProfilerGuardBuilder::default().frequency(FREQUENCY).blocklist(&NOT_SAMPLED).build();
        let sampler = sampler.map_err(ProfileError::Sampler)?;
        Ok(Self { sampler, began: SystemTime::now(), since: Instant::now() })
    }

    /// Ends the recording; returns the file's content. Takes seconds, because names of functions are looked up here.
    ///
    /// # Errors
    /// If the samples cannot be read, and as [`ProfileBuilder::finish`].
    pub(super) fn finish(self) -> Result<Vec<u8>, ProfileError> {
        let report = self.sampler.report().build().map_err(ProfileError::Sampler)?;
        let mut profile = ProfileBuilder::new(&[("samples", "count"), ("cpu", "nanoseconds")]);
        profile.taken(self.began, self.since.elapsed(), ("cpu", "nanoseconds"), PERIOD);
        drop(self.sampler);
        for (stack, count) in &report.data {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            let frames: Vec<Vec<SourceLocation>> =
                stack.frames.iter().map(|frame| frame.iter().map(location).collect()).collect();
            let values = vec![count, count.saturating_mul(PERIOD)];
            profile.sample(&frames, values, &[("thread", &stack.thread_name)]);
        }
        profile.finish().map_err(ProfileError::Packing)
    }
}

fn location(symbol: &Symbol) -> SourceLocation {
    SourceLocation { function: symbol.name(), file: symbol.filename().into_owned(), line: symbol.lineno() }
}
