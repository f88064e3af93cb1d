//! Encodes waits as a pprof profile with the value types of Go's runtime.

use std::io;
use std::time::{Duration, SystemTime};

use tenon_bus::waits::{WaitPlace, WaitTotal};

use super::pprof_file::{ProfileBuilder, SourceLocation};

/// The file's content.
///
/// # Errors
/// See [`ProfileBuilder::finish`].
pub(super) fn encode(waits: &[(WaitPlace, WaitTotal)]) -> io::Result<Vec<u8>> {
    let mut profile = ProfileBuilder::new(&[("contentions", "count"), ("delay", "nanoseconds")]);
    profile.taken(SystemTime::now(), Duration::ZERO, ("contentions", "count"), 1);
    for (place, total) in waits {
        let at = |function: &str| SourceLocation {
            function: function.to_owned(),
            file: place.file.to_owned(),
            line: place.line,
        };
        // The subject of the wait is the innermost frame, to distinguish the waits of one function.
        let stack = [vec![at(place.subject)], vec![at(place.function)]];
        #[allow(clippy::cast_possible_truncation, reason = "saturates, and rounds a figure for people")]
        let values = vec![total.count as i64, total.nanoseconds as i64];
        profile.sample(&stack, values, &[]);
    }
    profile.finish()
}
