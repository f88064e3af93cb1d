//! Networks by name, and the genesis of the development network.

use std::path::{Path, PathBuf};

use alloy_primitives::{Address, U256};
use serde_json::{Value, json};

use crate::error::{Origin, SettingsError};
use crate::suggestion::nearest;

/// Contracts that blocks of the Ethereum profile call, at their fixed addresses: EIP-4788, 2935, 7002, 7251.
const SYSTEM_CONTRACTS: &str = include_str!("../data/system-contracts.json");

/// Base fee of the development network's first block: 1 gwei.
const DEVELOPMENT_BASE_FEE: u64 = 1_000_000_000;

/// Mainnet's deposit contract (EIP-6110); it does not exist on a development network, so there are no deposits.
const DEPOSIT_CONTRACT: &str = "0x00000000219ab540356cbb839cbe05303d7705fa";

/// A value of `network`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// The single-node network of `tenon dev`.
    Dev,
    /// A public network with a built-in genesis, by our name.
    Public(&'static str),
    /// The network of a genesis file.
    File(PathBuf),
}

/// Public networks: our name, then the reference client's names.
const PUBLIC: &[&[&str]] = &[&["mainnet", "xinfin"], &["testnet", "apothem"], &["devnet"], &["devnet-5551"]];

impl Network {
    /// The network with this name, or with the genesis file at this path: a text that contains `/` or `.`, or an
    /// existing file.
    ///
    /// # Errors
    /// [`SettingsError::UnknownNetwork`], with the known names.
    pub fn by_name(name: &str, origin: &Origin) -> Result<Self, SettingsError> {
        if name == "dev" {
            return Ok(Self::Dev);
        }
        if let Some(names) = PUBLIC.iter().find(|names| names.contains(&name)) {
            return Ok(Self::Public(names[0]));
        }
        if name.contains(['/', '.']) || Path::new(name).is_file() {
            return Ok(Self::File(name.into()));
        }
        let fix = match nearest(name, PUBLIC.iter().copied().flatten().copied().chain(["dev"])) {
            Some(near) => format!("did you mean `{near}`? Or name a genesis file"),
            None => "use `mainnet`, `testnet`, `devnet`, `devnet-5551`, `dev` or the path of a genesis file".into(),
        };
        Err(SettingsError::UnknownNetwork { origin: origin.clone(), name: name.to_owned(), fix })
    }
}

/// Parameters of a development network's genesis.
#[derive(Clone, Debug)]
pub struct DevGenesis {
    /// Chain id.
    pub chain_id: u64,
    /// Gas limit of the first block.
    pub gas_limit: u64,
    /// Funded accounts.
    pub accounts: Vec<Address>,
    /// Balance of each, wei.
    pub balance: U256,
}

impl DevGenesis {
    /// The genesis as JSON in go-ethereum's form: every fork up to Osaka at the first block, base fee 1 gwei, including
    /// the system contracts. Equal input gives equal bytes, so a persistent network can be reopened.
    pub fn to_json(&self) -> Vec<u8> {
        let mut alloc: serde_json::Map<String, Value> = serde_json::from_str(SYSTEM_CONTRACTS).unwrap_or_default();
        for contract in alloc.values_mut().filter_map(Value::as_object_mut) {
            contract.remove("comment");
        }
        for account in &self.accounts {
            alloc.insert(format!("{account:#x}"), json!({ "balance": format!("{:#x}", self.balance) }));
        }
        let blobs = |target: u64, max: u64, fraction: u64| json!({ "target": target, "max": max, "baseFeeUpdateFraction": fraction });
        let genesis = json!({
            "config": {
                "chainId": self.chain_id,
                "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0, "byzantiumBlock": 0,
                "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0, "muirGlacierBlock": 0,
                "berlinBlock": 0, "londonBlock": 0, "arrowGlacierBlock": 0, "grayGlacierBlock": 0,
                "mergeNetsplitBlock": 0, "terminalTotalDifficulty": 0, "terminalTotalDifficultyPassed": true,
                "shanghaiTime": 0, "cancunTime": 0, "pragueTime": 0, "osakaTime": 0,
                "depositContractAddress": DEPOSIT_CONTRACT,
                // EIP-7840 and EIP-7918: the schedule of mainnet at each fork.
                "blobSchedule": {
                    "cancun": blobs(3, 6, 3_338_477),
                    "prague": blobs(6, 9, 5_007_716),
                    "osaka": blobs(6, 9, 5_007_716),
                },
            },
            "nonce": "0x0",
            "timestamp": "0x0",
            "extraData": "0x",
            "gasLimit": format!("{:#x}", self.gas_limit),
            "difficulty": "0x0",
            "mixHash": format!("0x{}", "0".repeat(64)),
            "coinbase": format!("0x{}", "0".repeat(40)),
            "baseFeePerGas": format!("{DEVELOPMENT_BASE_FEE:#x}"),
            "blobGasUsed": "0x0",
            "excessBlobGas": "0x0",
            "alloc": alloc,
        });
        let mut bytes = serde_json::to_vec_pretty(&genesis).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_the_four_system_contracts_and_the_funded_accounts_into_the_genesis() {
        let genesis = DevGenesis {
            chain_id: 31_337,
            gas_limit: 30_000_000,
            accounts: vec![Address::repeat_byte(0xab)],
            balance: U256::from(10),
        };

        let json: Value = serde_json::from_slice(&genesis.to_json()).unwrap();

        assert_eq!(json["alloc"].as_object().unwrap().len(), 5);
        assert_eq!(json["alloc"]["0xabababababababababababababababababababab"]["balance"], "0xa");
        assert_eq!(json["alloc"]["0x000f3df6d732807ef1319fb7b8bb8522d0beac02"]["nonce"], "0x1");
        assert_eq!(json["config"]["osakaTime"], 0);
        assert_eq!(genesis.to_json(), genesis.to_json());
    }

    #[test]
    fn knows_the_networks_by_the_references_names_too() {
        let origin = Origin::Flag("--network".into());
        let by_name = |name: &str| Network::by_name(name, &origin);
        let cases = [
            ("dev", Network::Dev),
            ("mainnet", Network::Public("mainnet")),
            ("xinfin", Network::Public("mainnet")),
            ("testnet", Network::Public("testnet")),
            ("apothem", Network::Public("testnet")),
            ("devnet", Network::Public("devnet")),
            ("devnet-5551", Network::Public("devnet-5551")),
            ("genesis.json", Network::File("genesis.json".into())),
            ("./mainnet", Network::File("./mainnet".into())),
        ];
        for (name, network) in cases {
            assert_eq!(by_name(name).unwrap(), network, "{name}");
        }
    }

    #[test]
    fn suggests_the_nearest_network() {
        let origin = Origin::Flag("--network".into());
        let refusal = |name: &str| Network::by_name(name, &origin).unwrap_err().to_string();
        assert_eq!(
            refusal("apothen"),
            "flag --network: unknown network `apothen`; did you mean `apothem`? Or name a genesis file"
        );
        assert_eq!(
            refusal("ethereum"),
            "flag --network: unknown network `ethereum`; use `mainnet`, `testnet`, `devnet`, `devnet-5551`, `dev` or the path of a \
             genesis file"
        );
    }
}
