//! The plugin's own settings.

use tenon_sdk::prelude::*;

/// Wei in a coin.
const COIN: u128 = 1_000_000_000_000_000_000;

/// Settings of the `eth` namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings {
    /// What `eth_coinbase` and `eth_etherbase` answer; an error when absent.
    pub(crate) etherbase: Option<Address>,
    /// Most that a transaction handed in over RPC may cost in fees, in wei; 0 means no limit. Default: one coin.
    pub(crate) transaction_fee_cap: U256,
}

impl Default for Settings {
    fn default() -> Self {
        Self { etherbase: None, transaction_fee_cap: U256::from(COIN) }
    }
}

impl Settings {
    pub(crate) fn parse(json: &str) -> Result<Self, Failure> {
        if json.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_str(json).map_err(|error| Failure::server(format!("settings of the eth plugin: {error}")))
    }

    /// Refuses a transaction whose fees could exceed the cap (`spec/rpc-eth.md` 12.3).
    pub(crate) fn check_fee(&self, gas_limit: u64, price: U256) -> Result<(), Failure> {
        let fee = U256::from(gas_limit).saturating_mul(price);
        if self.transaction_fee_cap.is_zero() || fee <= self.transaction_fee_cap {
            return Ok(());
        }
        Err(Failure::server(format!(
            "tx fee ({} ether) exceeds the configured cap ({} ether)",
            coins(fee),
            coins(self.transaction_fee_cap)
        )))
    }
}

/// Coins with two decimals, cut.
fn coins(wei: U256) -> String {
    let hundredths = wei / U256::from(COIN / 100);
    let (whole, rest) = hundredths.div_rem(U256::from(100));
    format!("{whole}.{:02}", rest.saturating_to::<u64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_default_and_name_what_is_wrong() {
        assert_eq!(Settings::parse("{}"), Ok(Settings::default()));
        assert_eq!(Settings::parse(""), Ok(Settings::default()));
        let uncapped = Settings::parse(r#"{"transaction-fee-cap":"0x0"}"#).map(|settings| settings.transaction_fee_cap);
        assert_eq!(uncapped, Ok(U256::ZERO));
        let refused = Settings::parse(r#"{"ether-base":1}"#).map_err(|failure| failure.message);
        assert!(refused.is_err_and(|message| message.contains("ether-base")));
    }

    #[test]
    fn fees_above_the_cap_are_refused_in_coins() {
        let settings = Settings::default();

        assert_eq!(settings.check_fee(21_000, U256::from(1_000_000_000)), Ok(()));
        let refused = settings.check_fee(21_000, U256::from(COIN / 10_000)).map_err(|failure| failure.message);
        assert_eq!(refused, Err("tx fee (2.10 ether) exceeds the configured cap (1.00 ether)".to_owned()));
    }
}
