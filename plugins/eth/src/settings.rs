//! The plugin's own settings.

use tenon_sdk::prelude::*;

/// Settings of the `eth` namespace. The cap on fees is the pool's (`rpc.txfeecap`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings {
    /// Result of `eth_coinbase` and `eth_etherbase`. If it is absent, these fail on the Ethereum profile, and return
    /// the default of the reference's flag, `0x…abcd`, on native chains.
    pub(crate) etherbase: Option<Address>,
}

impl Settings {
    pub(crate) fn parse(json: &str) -> Result<Self, Failure> {
        if json.trim().is_empty() {
            return Ok(Self::default());
        }
        serde_json::from_str(json).map_err(|error| Failure::server(format!("settings of the eth plugin: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_defaults_and_errors_name_the_wrong_member() {
        assert_eq!(Settings::parse("{}"), Ok(Settings::default()));
        assert_eq!(Settings::parse(""), Ok(Settings::default()));
        let refused = Settings::parse(r#"{"ether-base":1}"#).map_err(|failure| failure.message);
        assert!(refused.is_err_and(|message| message.contains("ether-base")));
    }
}
