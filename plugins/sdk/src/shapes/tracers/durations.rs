//! Durations in Go's format.

use std::time::Duration;

use super::quoted;

/// Parses a duration in Go's format: `5s`, `300ms`, `1m30s`, `1.5h`.
///
/// # Errors
/// Go's text.
pub(super) fn parse_go_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {}", quoted(text));
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let unit_at = rest.find(|character: char| !character.is_ascii_digit() && character != '.');
        let (number, tail) = rest.split_at(unit_at.unwrap_or(rest.len()));
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let unit_end = tail.find(|character: char| character.is_ascii_digit() || character == '.');
        let (unit, tail) = tail.split_at(unit_end.unwrap_or(tail.len()));
        let seconds = match unit {
            "" => return Err(format!("time: missing unit in duration {}", quoted(text))),
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            unit => return Err(format!("time: unknown unit {} in duration {}", quoted(unit), quoted(text))),
        };
        total += number * seconds;
        rest = tail;
    }
    Duration::try_from_secs_f64(total).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_parsed() {
        let cases = [("5s", 5000), ("300ms", 300), ("1m30s", 90_000), ("1.5s", 1500), ("0", 0), ("1h", 3_600_000)];
        for (text, millis) in cases {
            assert_eq!(parse_go_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_refused_with_gos_texts() {
        let cases = [
            ("10", "time: missing unit in duration \"10\""),
            ("abc", "time: invalid duration \"abc\""),
            ("", "time: invalid duration \"\""),
            ("-5s", "time: invalid duration \"-5s\""),
            ("1x", "time: unknown unit \"x\" in duration \"1x\""),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_go_duration(text), Err(expected.to_owned()));
        }
    }
}
