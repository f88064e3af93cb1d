//! The text of a duration in Go's form, which clients know from error texts and traces.

use std::time::Duration;

/// A duration as Go writes it, to the millisecond: `5s`, `300ms`, `1m30s`.
pub fn duration_text(duration: Duration) -> String {
    let (whole, millis) = (duration.as_secs(), duration.subsec_millis());
    let seconds = match (whole % 60, millis) {
        (seconds, 0) => format!("{seconds}s"),
        (0, millis) if whole == 0 => return format!("{millis}ms"),
        (seconds, millis) => format!("{seconds}.{}s", format!("{millis:03}").trim_end_matches('0')),
    };
    match (whole / 3600, whole / 60 % 60) {
        (0, 0) => seconds,
        (0, minutes) => format!("{minutes}m{seconds}"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_gos_format() {
        let cases = [(0, "0s"), (5000, "5s"), (300, "300ms"), (90_000, "1m30s"), (1500, "1.5s"), (3_600_000, "1h0m0s")];

        for (millis, text) in cases {
            assert_eq!(duration_text(Duration::from_millis(millis)), text);
        }
    }
}
