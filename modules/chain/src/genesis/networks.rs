//! Genesis files that are part of the program (`spec/chain.md` 7.3).

use std::io::Read;

use flate2::read::GzDecoder;

use super::{Genesis, GenesisError};

const MAINNET: &[u8] = include_bytes!("../../../../config/networks/mainnet-genesis.json.gz");
const TESTNET: &[u8] = include_bytes!("../../../../config/networks/testnet-genesis.json.gz");
const DEVNET: &[u8] = include_bytes!("../../../../config/networks/devnet-genesis.json.gz");

impl Genesis {
    /// The genesis of a public network by its name: `mainnet` or `xinfin` (50), `testnet` or `apothem` (51),
    /// `devnet` (551). None for other names.
    ///
    /// # Errors
    /// Does not happen: a test reads all three.
    pub fn of_network(name: &str) -> Result<Option<Self>, GenesisError> {
        let packed = match name {
            "mainnet" | "xinfin" => MAINNET,
            "testnet" | "apothem" => TESTNET,
            "devnet" => DEVNET,
            _ => return Ok(None),
        };
        let mut text = Vec::new();
        GzDecoder::new(packed).read_to_end(&mut text).map_err(serde_json::Error::io)?;
        Self::from_json(&text).map(Some)
    }
}
