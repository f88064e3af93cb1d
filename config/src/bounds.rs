//! Bounds of settings. A value outside is refused with an error that names the allowed range: a node could not work
//! with it, and would fail later in a way that does not show the cause.

use crate::value::{SettingValue, Value};

const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The allowed range: numbers as they are, sizes in bytes, durations in milliseconds.
struct Bounds {
    /// Whether 0 is allowed with a special meaning, such as no limit.
    takes_zero: bool,
    min: u64,
    max: u64,
}

impl Bounds {
    fn show<T: SettingValue>(&self) -> String {
        let [min, max] = [self.min, self.max].map(T::show_number);
        let zero = if self.takes_zero { "0, or " } else { "" };
        format!("{zero}{min} to {max}")
    }
}

const fn from_to(min: u64, max: u64) -> Bounds {
    Bounds { takes_zero: false, min, max }
}

const fn zero_or(min: u64, max: u64) -> Bounds {
    Bounds { takes_zero: true, min, max }
}

/// The bounds of a setting; `None` if every value of its type is allowed.
fn bounds_of(key: &str) -> Option<Bounds> {
    Some(match key {
        "grace" | "plugins.grace" => from_to(0, HOUR),
        // The program checks the maximum further, because it knows the machine's memory.
        "database.cache" => from_to(16, 16 << 20),
        "database.history" => from_to(1, 1_000_000_000_000),
        // Fewer would not even cover an ordinary reorganisation.
        "database.triewindow" => from_to(128, 1_000_000_000_000),
        "database.openfiles" => from_to(16, 1_000_000),
        "http.connections" | "ws.connections" | "ipc.connections" => from_to(1, 1_000_000),
        "p2p.maxpeers" => zero_or(1, 10_000),
        "p2p.maxpendpeers" => zero_or(1, 10_000),
        "http.bodylimit" | "ws.messagelimit" => from_to(KIB, GIB),
        "ipc.messagelimit" => from_to(64 * KIB, GIB),
        "http.requesttimeout" | "http.writetimeout" | "http.idletimeout" | "rpc.requesttimeout" => from_to(100, DAY),
        "rpc.evmtimeout" | "rpc.tracetimeout" => from_to(1, DAY),
        "rpc.computingtime" => zero_or(1, DAY),
        "rpc.tracesteps" => from_to(1, u64::MAX),
        "rpc.scripts" => from_to(0, 1_024),
        "rpc.scriptmemory" => from_to(MIB, GIB),
        "rpc.memory" => from_to(16 * MIB, 1024 * GIB),
        "rpc.clientmemory" | "rpc.tracememory" => zero_or(MIB, 1024 * GIB),
        "rpc.batch-request-limit" => from_to(1, 1_000_000),
        "rpc.batch-response-max-size" | "rpc.response-max-size" => from_to(KIB, 4 * GIB),
        "rpc.logslimit" => from_to(1, 100_000_000),
        "rpc.subscriptions" | "rpc.clientsubscriptions" => from_to(0, 1_000_000),
        "rpc.threads" => zero_or(1, 1_024),
        "rpc.queue" => from_to(1, 1_000_000),
        "txpool.pricebump" => from_to(0, 10_000),
        "txpool.accountslots" | "txpool.globalslots" => from_to(1, 16 << 20),
        "txpool.lifetime" => from_to(SECOND, YEAR),
        // With fewer rounds, no block lies between an epoch's gap block and the epoch switch.
        "dev.epoch" => from_to(2, 1_000_000_000),
        "dev.block-time" => from_to(1, DAY),
        "dev.accounts" => from_to(0, 1_000),
        // Above this, a signature's `v` no longer fits into 64 bits (EIP-2294).
        "dev.chain-id" => from_to(1, u64::MAX / 2 - 36),
        "dev.gas-limit" => from_to(5_000, i64::MAX as u64),
        "accounts.memory" => from_to(8 * MIB, 1024 * GIB),
        "device.prompt" => from_to(SECOND, DAY),
        "health.head-age" | "health.database-errors" => from_to(0, YEAR),
        "log.verbosity" => from_to(0, 5),
        "log.keep" => from_to(0, 100_000),
        "limits.memory" => from_to(8 * MIB, 1024 * GIB),
        "limits.call-time" => from_to(1, DAY),
        "limits.calls" => from_to(1, 1_000_000),
        "limits.restarts" | "limits.log-lines" => from_to(0, 1_000_000),
        _ => return None,
    })
}

/// The allowed range of a setting as text; `None` if every value of its type is allowed.
pub(crate) fn allowed<T: SettingValue>(key: &str) -> Option<String> {
    bounds_of(key).map(|bounds| bounds.show::<T>())
}

/// Reads a value of a setting, within its bounds.
///
/// # Errors
/// The expected and the given value.
pub(crate) fn read<T: SettingValue>(key: &str, value: &Value) -> Result<T, String> {
    check(key, T::read(value)?)
}

/// Returns a value that is within the bounds of its setting.
///
/// # Errors
/// The allowed range and the given value.
fn check<T: SettingValue>(key: &str, value: T) -> Result<T, String> {
    let (Some(bounds), Some(number)) = (bounds_of(key), value.as_number()) else { return Ok(value) };
    if (bounds.min..=bounds.max).contains(&number) || (bounds.takes_zero && number == 0) {
        return Ok(value);
    }
    Err(format!("expected {}, found {}", bounds.show::<T>(), value.show()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::all_settings;
    use crate::{Layers, resolve};

    #[test]
    fn absurd_values_are_refused_with_their_key_and_the_allowed_range() {
        for (key, text, allowed) in [
            ("http.port", "99999999", "a whole number from 0 to 65535"),
            ("database.cache", "0", "16 to 16777216"),
            ("database.openfiles", "0", "16 to 1000000"),
            ("http.connections", "0", "1 to 1000000"),
            ("http.requesttimeout", "0", "\"100ms\" to \"24h\""),
            ("http.idletimeout", "-5s", "a duration such as"),
            ("rpc.evmtimeout", "2d", "\"1ms\" to \"24h\""),
            ("health.head-age", "400d", "\"0s\" to \"8760h\""),
            ("rpc.memory", "1", "\"16MiB\" to \"1024GiB\""),
            ("rpc.clientmemory", "1kB", "0, or \"1MiB\" to \"1024GiB\""),
            ("rpc.threads", "4000000000", "0, or 1 to 1024"),
            ("rpc.batch-request-limit", "0", "1 to 1000000"),
            ("txpool.globalslots", "18446744073709551615", "1 to 16777216"),
            ("dev.accounts", "4294967295", "0 to 1000"),
            ("dev.chain-id", "0", "1 to 9223372036854775771"),
            ("log.verbosity", "9", "0 to 5"),
        ] {
            let flag = (key, format!("--{key}"), text.to_owned());
            let refused = resolve(Layers::new("run").flags([flag])).unwrap_err().to_string();
            let expected = format!("flag --{key}: `{key}`: expected {allowed}");
            assert!(refused.starts_with(&expected), "{refused:?} instead of {expected:?}");
        }
    }

    #[test]
    fn every_bound_belongs_to_a_setting() {
        let rows = all_settings();
        let bounded = rows.iter().filter(|row| bounds_of(row.key).is_some()).count();

        assert!(bounded > 40, "{bounded}");
    }
}
