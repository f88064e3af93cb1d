use tenon_api::U256;
use tenon_chain::NativeSettings;

/// Wei of a coin.
const WEI_PER_COIN: u64 = 1_000_000_000_000_000_000;
/// Blocks of two seconds in a year.
const BLOCKS_PER_YEAR: u64 = 15_768_000;

/// What an epoch whose rewards are paid at this height is worth in all, wei: half from the third year on, a quarter
/// from the sixth, until `tipNoHalvingMNReward`; the whole from there on (`spec/chain.md` 4.3).
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
