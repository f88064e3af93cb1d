//! The total reward of an epoch.

use tenon_api::U256;
use tenon_chain::NativeSettings;

/// Wei per coin.
const WEI_PER_COIN: u64 = 1_000_000_000_000_000_000;
/// Blocks of two seconds in a year.
const BLOCKS_PER_YEAR: u64 = 15_768_000;

/// Total reward of an epoch paid at this height, wei: half from the third year on, a quarter from the sixth, until
/// `tipNoHalvingMNReward`; from there on the full reward (`docs/spec/chain.md` 4.3).
pub fn epoch_reward(settings: &NativeSettings, number: u64) -> U256 {
    let whole = U256::from(settings.consensus.reward) * U256::from(WEI_PER_COIN);
    if number >= settings.heights.tip_no_halving_reward { whole } else { halved(whole, number, BLOCKS_PER_YEAR) }
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
            let genesis = unpacked(&format!("chain/native-genesis-{network}.json.gz"));
            let settings = tenon_chain::Genesis::from_json(&genesis).unwrap().spec.native.clone().unwrap();
            for (number, coins) in heights {
                let wanted = U256::from(*coins) * U256::from(WEI_PER_COIN);
                assert_eq!(epoch_reward(&settings, *number), wanted, "{network} {number}");
            }
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
