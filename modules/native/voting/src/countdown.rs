//! Duration of a round (`docs/spec/consensus.md` 5.7).

use std::time::Duration;

use tenon_native_spec::RoundConfig;

/// The countdown of a round with `certified` as the highest certified round: the period, increased with every failed
/// round. The number of failed rounds is an 8-bit value, as in the reference: 257 count as one (pitfall 29).
pub(crate) fn countdown(config: &RoundConfig, round: u64, certified: u64) -> Duration {
    let growth = config.timeout_growth;
    let power = if certified < round {
        let distance = (round - certified).to_le_bytes()[0].wrapping_sub(1);
        growth.base.powi(i32::from(distance.min(growth.max_exponent))).trunc()
    } else {
        1.0
    };
    // The configuration's check limits the power to less than 2^32, so the conversion is exact.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 2^32 and not negative")]
    let factor = power.max(0.0) as u64;
    Duration::from_secs(config.timeout_period.saturating_mul(factor))
}

#[cfg(test)]
mod tests {
    use tenon_native_spec::TimeoutGrowth;

    use super::*;

    fn config(timeout_period: u64, base: f64, max_exponent: u8) -> RoundConfig {
        RoundConfig {
            max_masternodes: 18,
            switch_round: 0,
            mine_period: 2,
            timeout_sync_threshold: 2,
            timeout_period,
            certificate_threshold: 0.667,
            timeout_growth: TimeoutGrowth { base, max_exponent },
            ..RoundConfig::default()
        }
    }

    #[test]
    fn the_countdown_grows_by_the_published_figures() {
        let cases = [
            (config(59, 2.0, 2), 10, 9, 59),
            (config(59, 2.0, 2), 11, 9, 118),
            (config(59, 2.0, 2), 12, 9, 236),
            (config(60, 3.0, 3), 14, 9, 60 * 27),
            (config(30, 1.0, 0), 500, 1, 30),
            (config(30, 0.0, 0), 500, 1, 30),
            (config(5, 2.0, 5), 9, 9, 5),
            // Eight bits: 257 counts as 1, 256 as the maximum.
            (config(5, 2.0, 5), 266, 9, 5),
            (config(5, 2.0, 5), 265, 9, 160),
        ];
        for (config, round, certified, seconds) in cases {
            assert_eq!(countdown(&config, round, certified), Duration::from_secs(seconds), "{round} {certified}");
        }
    }
}
