//! The public networks and their built-in genesis files (`docs/spec/chain.md` 7.3).

use std::io::Read;

use alloy_primitives::B256;
use flate2::read::GzDecoder;
use tenon_chain::{Genesis, GenesisError};

use crate::{NativeSettings, read_genesis};

const MAINNET: &[u8] = include_bytes!("../../../../config/networks/mainnet-genesis.json.gz");
const TESTNET: &[u8] = include_bytes!("../../../../config/networks/testnet-genesis.json.gz");
const DEVNET: &[u8] = include_bytes!("../../../../config/networks/devnet-genesis.json.gz");
const DEVNET_5551: &[u8] = include_bytes!("../../../../config/networks/devnet-5551-genesis.json.gz");

/// A network with a built-in genesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{}", self.names()[0])]
pub enum PublicNetwork {
    /// Chain 50.
    Mainnet,
    /// Chain 51.
    Testnet,
    /// Chain 551, the devnet up to v2.7.0.
    Devnet,
    /// Chain 5551, the devnet of the later line (`docs/spec/upgrades.md` 2.1).
    Devnet5551,
}

impl PublicNetwork {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Mainnet, Self::Testnet, Self::Devnet, Self::Devnet5551];

    /// Its names, our own first.
    pub const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Mainnet => &["mainnet", "xinfin"],
            Self::Testnet => &["testnet", "apothem"],
            Self::Devnet => &["devnet"],
            Self::Devnet5551 => &["devnet-5551"],
        }
    }

    /// Its chain id, which is also its network id.
    pub const fn chain_id(self) -> u64 {
        match self {
            Self::Mainnet => 50,
            Self::Testnet => 51,
            Self::Devnet => 551,
            Self::Devnet5551 => 5551,
        }
    }

    /// The network with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|network| network.names().contains(&name))
    }

    /// The network of a chain id.
    pub fn by_chain_id(chain_id: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|network| network.chain_id() == chain_id)
    }

    /// The network with this genesis block.
    pub fn by_genesis_hash(hash: B256) -> Option<Self> {
        Self::ALL.into_iter().find(|network| network.genesis_hash() == hash)
    }

    /// Hash of its block 0, as in the reference.
    pub fn genesis_hash(self) -> B256 {
        NativeSettings::known_genesis(self.chain_id()).unwrap_or_default().0
    }

    /// State root of its block 0, as in the reference.
    pub fn genesis_state_root(self) -> B256 {
        NativeSettings::known_genesis(self.chain_id()).unwrap_or_default().1
    }

    /// Its published genesis file.
    ///
    /// # Errors
    /// Never: a test reads all of them.
    pub fn genesis_text(self) -> Result<Vec<u8>, GenesisError> {
        let packed = match self {
            Self::Mainnet => MAINNET,
            Self::Testnet => TESTNET,
            Self::Devnet => DEVNET,
            Self::Devnet5551 => DEVNET_5551,
        };
        let mut text = Vec::new();
        GzDecoder::new(packed).read_to_end(&mut text).map_err(serde_json::Error::io)?;
        Ok(text)
    }
    /// The network's block 0 and rules.
    ///
    /// # Errors
    /// Never: a test reads all of them.
    pub fn genesis(self) -> Result<Genesis, GenesisError> {
        read_genesis(&self.genesis_text()?)
    }
}
