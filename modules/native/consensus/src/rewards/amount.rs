//! The total reward of an epoch.

use tenon_api::U256;
use tenon_native_spec::NativeSettings;

/// Wei per coin.
const WEI_PER_COIN: u64 = 1_000_000_000_000_000_000;
/// Blocks of two seconds in a year.
const BLOCKS_PER_YEAR: u64 = 15_768_000;

/// Total reward of an epoch paid at this height, wei: half from the third year on, a quarter from the sixth, until
/// `tipNoHalvingReward`; from there on the full reward (`docs/spec/chain.md` 4.3).
pub fn epoch_reward(settings: &NativeSettings, number: u64) -> U256 {
    let whole = U256::from(settings.consensus.reward) * U256::from(WEI_PER_COIN);
    if number >= settings.heights.tip_no_halving_reward { whole } else { halved(whole, number, BLOCKS_PER_YEAR) }
}

/// The reward of a member of a role, wei: halved like the epoch's (`docs/spec/upgrades.md` 3.2).
pub(super) fn role_reward(settings: &NativeSettings, number: u64, coins: f64) -> U256 {
    let whole = wei(coins);
    if number >= settings.heights.tip_no_halving_reward { whole } else { halved(whole, number, BLOCKS_PER_YEAR) }
}

/// Converts coins to wei: the product with 10^18 is rounded to 64 significant bits, ties to even, and then truncated
/// (`docs/spec/upgrades.md` 3.2). Zero if `coins` is not positive and finite, which no valid configuration contains.
fn wei(coins: f64) -> U256 {
    const FRACTION_BITS: u32 = 52;
    const PRODUCT_BITS: u32 = 64;
    const BIAS: i32 = 1_075;
    if !coins.is_finite() || coins <= 0.0 {
        return U256::ZERO;
    }
    let bits = coins.to_bits();
    let (exponent, fraction) = ((bits >> FRACTION_BITS) & 0x7ff, bits & ((1 << FRACTION_BITS) - 1));
    // Below the smallest normal number, where there is no implicit bit, the product is less than one wei.
    let Some(mut exponent) = i32::try_from(exponent).ok().filter(|exponent| *exponent > 0).map(|found| found - BIAS)
    else {
        return U256::ZERO;
    };
    // The factors have at most 53 and 60 bits.
    let mut product = u128::from(fraction | (1 << FRACTION_BITS)) * u128::from(WEI_PER_COIN);
    let excess = (u128::BITS - product.leading_zeros()).saturating_sub(PRODUCT_BITS);
    if excess > 0 {
        let (half, rest) = (1_u128 << (excess - 1), product & ((1 << excess) - 1));
        product >>= excess;
        if rest > half || (rest == half && product & 1 == 1) {
            product += 1;
        }
        exponent += excess.cast_signed();
    }
    let distance = usize::try_from(exponent.unsigned_abs()).unwrap_or(usize::MAX);
    if exponent < 0 { U256::from(product) >> distance } else { U256::from(product) << distance }
}

fn halved(whole: U256, number: u64, blocks_per_year: u64) -> U256 {
    match number / blocks_per_year {
        0 | 1 => whole,
        2..=4 => whole / U256::from(2),
        _ => whole / U256::from(4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded_chain::unpacked;

    /// Heights around those at which the reward of a network changes; in coins.
    #[test]
    fn the_networks_pay_their_historical_rewards() {
        let cases: [(&str, &[(u64, u64)]); 3] = [
            ("mainnet", &[(1_800, 5_000), (31_535_100, 5_000), (31_536_000, 2_500), (38_383_200, 2_500)]),
            ("mainnet", &[(38_383_838, 5_000), (38_384_100, 5_000), (78_840_000, 5_000), (100_000_000, 5_000)]),
            ("testnet", &[(1_800, 5_000), (23_779_800, 5_000), (31_536_000, 5_000), (90_000_000, 5_000)]),
        ];

        for (network, heights) in cases {
            let genesis = unpacked(format!("chain/native-genesis-{network}.json.gz"));
            let settings =
                NativeSettings::of(&tenon_native_spec::read_genesis(&genesis).unwrap().spec).cloned().unwrap();
            for (number, coins) in heights {
                let wanted = U256::from(*coins) * U256::from(WEI_PER_COIN);
                assert_eq!(epoch_reward(&settings, *number), wanted, "{network} {number}");
            }
        }
    }

    // The table of `docs/spec/upgrades.md` 3.2.
    #[test]
    fn a_role_s_reward_is_converted_with_64_significant_bits() {
        for (coins, wanted) in [
            (63.42, "63420000000000001704"),
            (50.27, "50270000000000003128"),
            (25.13, "25129999999999999006"),
            (300.125, "300125000000000000000"),
            (400.0, "400000000000000000000"),
            (500.0, "500000000000000000000"),
            (1.0, "1000000000000000000"),
            // Exactly between two numbers of 64 bits: rounded up, and down, to the even one.
            (8388611.0, "8388611000000000000262144"),
            (8388609.0, "8388608999999999999737856"),
            (0.0, "0"),
            // 2^-60 and less of a coin are less than a wei.
            (8.673_617_379_884_035e-19, "0"),
            (1e-18, "1"),
            (f64::MIN_POSITIVE, "0"),
            (f64::from_bits(1), "0"),
        ] {
            assert_eq!(wei(coins).to_string(), wanted, "{coins}");
        }
    }

    /// The same conversion with integers of any size: rounds the exact product to 64 bits and truncates it.
    #[test]
    fn the_conversion_equals_one_with_exact_numbers() {
        use alloy_primitives::U512;
        let exact = |coins: f64| {
            // Scaled by 2^200, which exceeds every rounding.
            let bits = coins.to_bits();
            let exponent = i32::try_from(bits >> 52).unwrap() - 1_075;
            let mantissa = U512::from((bits & ((1 << 52) - 1)) | 1 << 52);
            let product = (mantissa * U512::from(WEI_PER_COIN)) << usize::try_from(200 + exponent).unwrap();
            let unit = U512::from(1) << (product.bit_len() - 64);
            let (quotient, rest) = (product / unit, product % unit);
            let twice = rest * U512::from(2);
            let is_up = twice > unit || (twice == unit && quotient % U512::from(2) == U512::from(1));
            let rounded = (quotient + if is_up { U512::from(1) } else { U512::ZERO }) * unit;
            U256::from(rounded >> 200_usize)
        };
        let mut coins = 0.001_f64;
        let mut differs_from_truncation = 0;
        for step in 0..5_000 {
            assert_eq!(wei(coins), exact(coins), "{coins}");
            differs_from_truncation += usize::from(exact(coins) != U256::from(coins * 1e18));
            coins *= 1.0 + f64::from(step % 17) / 999.0;
            if coins > 1e25 {
                coins /= 1e27;
            }
        }
        assert!(differs_from_truncation > 1_000, "{differs_from_truncation}");
    }

    #[test]
    fn a_role_s_reward_is_halved_where_the_epoch_s_is() {
        let genesis = unpacked("chain/native-genesis-mainnet.json.gz");
        let settings = NativeSettings::of(&tenon_native_spec::read_genesis(&genesis).unwrap().spec).cloned().unwrap();
        let coin = U256::from(WEI_PER_COIN);
        for (number, halves) in [(1_800, 1), (31_536_000, 2), (38_383_838, 1)] {
            assert_eq!(role_reward(&settings, number, 2.0), coin * U256::from(2) / U256::from(halves), "{number}");
        }
    }

    #[test]
    fn halves_after_two_and_five_years() {
        let whole = U256::from(250_000);

        for (number, wanted) in
            [(0, 250_000), (10, 250_000), (19, 250_000), (20, 125_000), (49, 125_000), (50, 62_500), (900, 62_500)]
        {
            assert_eq!(halved(whole, number, 10), U256::from(wanted), "{number}");
        }
    }
}
