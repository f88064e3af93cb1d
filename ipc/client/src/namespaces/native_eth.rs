//! `eth` on native chains: what only these chains have. On others the methods do not exist.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, U256};
use alloy_rpc_types_eth::{BlockId, BlockNumberOrTag};
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Masternodes, rewards and finality.
#[rpc(client, namespace = "eth")]
pub trait NativeEth {
    /// An account in one object.
    #[method(name = "getAccountInfo")]
    async fn account_info(&self, account: Address, block: BlockId) -> RpcResult<AccountInfo>;

    /// Owner of a masternode; the zero address if it is no candidate.
    #[method(name = "getOwnerByCoinbase")]
    async fn owner_by_coinbase(&self, coinbase: Address, block: BlockNumberOrTag) -> RpcResult<Address>;

    /// Rewards that a block paid, in the reference client's form; an empty object if none.
    #[method(name = "getRewardByHash")]
    async fn reward_by_hash(&self, hash: B256) -> RpcResult<Value>;

    /// Masternodes that signed a block.
    #[method(name = "getBlockSignersByNumber")]
    async fn block_signers_by_number(&self, block: BlockNumberOrTag) -> RpcResult<Option<Vec<Address>>>;

    /// Masternodes that signed a block.
    #[method(name = "getBlockSignersByHash")]
    async fn block_signers_by_hash(&self, hash: B256) -> RpcResult<Option<Vec<Address>>>;

    /// Percentage of the masternodes that signed a block.
    #[method(name = "getBlockFinalityByNumber")]
    async fn block_finality_by_number(&self, block: BlockNumberOrTag) -> RpcResult<u64>;

    /// Percentage of the masternodes that signed a block.
    #[method(name = "getBlockFinalityByHash")]
    async fn block_finality_by_hash(&self, hash: B256) -> RpcResult<u64>;

    /// Candidates of an epoch, given by its number or `latest`.
    #[method(name = "getCandidates")]
    async fn candidates(&self, epoch: BlockNumberOrTag) -> RpcResult<Candidates>;

    /// One candidate of an epoch, given by its number or `latest`.
    #[method(name = "getCandidateStatus")]
    async fn candidate_status(&self, coinbase: Address, epoch: BlockNumberOrTag) -> RpcResult<CandidateInfo>;
}

/// An account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountInfo {
    /// Address.
    pub address: Address,
    /// Balance, wei.
    pub balance: U256,
    /// Hash of the code; zero for an account that does not exist.
    pub code_hash: B256,
    /// Length of the code, bytes.
    pub code_size: u64,
    /// Nonce.
    pub nonce: u64,
    /// Root of the storage; zero for an account that does not exist.
    pub storage_hash: B256,
}

/// Status of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CandidateStatus {
    /// A masternode of the epoch.
    #[serde(rename = "MASTERNODE")]
    Masternode,
    /// A penalised candidate.
    #[serde(rename = "SLASHED")]
    Slashed,
    /// A candidate that is neither.
    #[serde(rename = "PROPOSED")]
    Proposed,
    /// Not a candidate.
    #[serde(rename = "")]
    None,
}

/// Candidates of an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidates {
    /// By address, spelled as the node spells addresses (`0x` or `xdc`).
    #[serde(default)]
    pub candidates: BTreeMap<String, Candidate>,
    /// The epoch.
    pub epoch: u64,
    /// Whether the node knows the epoch.
    pub success: bool,
}

/// A candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its stake, wei; `None` for a masternode that is no candidate.
    #[serde(with = "super::digits::optional")]
    pub capacity: Option<U256>,
    /// Its status.
    pub status: CandidateStatus,
}

/// One candidate of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateInfo {
    /// Its stake, wei; `None` for a masternode that is no candidate.
    #[serde(with = "super::digits::optional")]
    pub capacity: Option<U256>,
    /// The epoch.
    pub epoch: u64,
    /// Its status.
    pub status: CandidateStatus,
    /// Whether the node knows the epoch.
    pub success: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stake_of_any_size_is_kept_and_minus_one_means_none() {
        let text = r#"{"candidates":{"xdc01":{"capacity":10000000000000000000000000,"status":"MASTERNODE"},"xdc02":{"capacity":-1,"status":"SLASHED"}},"epoch":5,"success":true}"#;

        let candidates: Candidates = serde_json::from_str(text).unwrap();

        let stakes: Vec<_> = candidates.candidates.values().map(|candidate| candidate.capacity).collect();
        assert_eq!(stakes, [Some(U256::from(10).pow(U256::from(25))), None]);
        assert_eq!(serde_json::to_string(&candidates).unwrap(), text);
        let unknown: Candidates = serde_json::from_str(r#"{"epoch":9,"success":false}"#).unwrap();
        assert!(unknown.candidates.is_empty());
    }
}
