//! `Consensus`: blocks, epochs and masternodes of native chains, in this project's own forms (not those of the
//! `XDPoS` names). On other chains the methods do not exist.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, U64};
use alloy_rpc_types_eth::BlockNumberOrTag;
use jsonrpsee::proc_macros::rpc;
use serde::{Deserialize, Serialize};

/// Consensus data of a native chain.
#[rpc(client, namespace = "Consensus")]
pub trait Consensus {
    /// Authorised block producers as of a block.
    #[method(name = "getSnapshot")]
    async fn snapshot(&self, block: BlockNumberOrTag) -> RpcResult<Snapshot>;

    /// Authorised block producers as of a block.
    #[method(name = "getSnapshotAtHash")]
    async fn snapshot_at_hash(&self, hash: B256) -> RpcResult<Snapshot>;

    /// Addresses of the authorised block producers.
    #[method(name = "getSigners")]
    async fn signers(&self, block: BlockNumberOrTag) -> RpcResult<Vec<Address>>;

    /// Addresses of the authorised block producers.
    #[method(name = "getSignersAtHash")]
    async fn signers_at_hash(&self, hash: B256) -> RpcResult<Vec<Address>>;

    /// Masternodes, penalised and standby nodes of a block's epoch.
    #[method(name = "getMasternodesByNumber")]
    async fn masternodes_by_number(&self, block: BlockNumberOrTag) -> RpcResult<EpochMasternodes>;

    /// Votes and timeouts at the node that have no certificate yet.
    #[method(name = "getLatestPoolStatus")]
    async fn voting_pool(&self) -> RpcResult<VotingPool>;

    /// Round and status of a block.
    #[method(name = "getV2BlockByNumber")]
    async fn v2_block_by_number(&self, block: BlockNumberOrTag) -> RpcResult<V2Block>;

    /// Round and status of a block.
    #[method(name = "getV2BlockByHash")]
    async fn v2_block_by_hash(&self, hash: B256) -> RpcResult<V2Block>;

    /// Contracts and parameters of the chain's consensus.
    #[method(name = "networkInformation")]
    async fn network_information(&self) -> RpcResult<NetworkInformation>;

    /// Rounds without a block, from a block back to the first of its epoch.
    #[method(name = "getMissedRoundsInEpochByBlockNum")]
    async fn missed_rounds(&self, block: BlockNumberOrTag) -> RpcResult<MissedRounds>;

    /// Heights of the first blocks of epochs, in a range of at most 50,000 blocks.
    #[method(name = "getEpochNumbersBetween")]
    async fn epoch_numbers_between(&self, begin: BlockNumberOrTag, end: BlockNumberOrTag) -> RpcResult<Vec<U64>>;

    /// First and last block of an epoch.
    #[method(name = "getBlockInfoByEpochNum")]
    async fn epoch_blocks(&self, epoch: u64) -> RpcResult<EpochBlocks>;
}

/// Authorised block producers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Height of the block.
    pub number: u64,
    /// Hash of the block.
    pub hash: B256,
    /// The producers.
    pub signers: Vec<Address>,
    /// Makers of recent blocks by height, on chains with votes in headers.
    pub recents: Option<BTreeMap<u64, Address>>,
    /// Votes in headers.
    pub votes: Vec<HeaderVote>,
    /// Counts of `votes` by the address to add or remove.
    pub tally: Option<BTreeMap<Address, HeaderTally>>,
}

/// A vote in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderVote {
    /// The voter.
    pub signer: Address,
    /// Height of the header.
    pub block: u64,
    /// The address to add or remove.
    pub address: Address,
    /// True for a vote to add the address, false for one to remove it.
    pub authorize: bool,
}

/// Count of the votes to add or remove an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderTally {
    /// True for votes to add the address, false for votes to remove it.
    pub authorize: bool,
    /// Number of votes.
    pub votes: u64,
}

/// Members of an epoch. Everything is zero or empty if there is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct EpochMasternodes {
    /// Height of the block.
    pub number: U64,
    /// Its round.
    pub round: U64,
    /// Number of masternodes.
    pub masternodes_len: u64,
    /// The masternodes.
    pub masternodes: Vec<Address>,
    /// Number of penalised nodes.
    pub penalty_len: u64,
    /// The penalised nodes.
    pub penalty: Vec<Address>,
    /// Number of standby nodes.
    pub standbynodes_len: u64,
    /// The standby nodes.
    pub standbynodes: Vec<Address>,
    /// Why there is no answer; empty if there is one.
    pub error: String,
}

/// Round and status of a block. Everything is zero or empty if there is an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct V2Block {
    /// Hash.
    pub hash: B256,
    /// Round.
    pub round: U64,
    /// Height.
    pub number: Option<U64>,
    /// Hash of the parent.
    pub parent_hash: B256,
    /// Whether it is committed.
    pub committed: bool,
    /// Its maker, in the last 20 bytes.
    pub miner: B256,
    /// Time, seconds since 1970.
    pub timestamp: Option<U64>,
    /// Canonical bytes of the header, base64.
    #[serde(rename = "EncodedRLP")]
    pub encoded_rlp: String,
    /// Why there is no answer; empty if there is one.
    pub error: String,
}

/// Votes and timeouts at a node that have no certificate yet, grouped by block or round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VotingPool {
    /// Timeouts, by `round:gapNumber`.
    pub timeout: BTreeMap<String, WaitingSigners>,
    /// Votes, by `round:gapNumber:number:hash`.
    pub vote: BTreeMap<String, WaitingSigners>,
}

/// Signers of waiting messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct WaitingSigners {
    /// Number of messages.
    pub current_number: u64,
    /// Masternodes that have signed.
    pub current_signers: Vec<Address>,
    /// Masternodes that have not.
    pub missing_signers: Vec<Address>,
}

/// Rounds without a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct MissedRounds {
    /// Round of the epoch's first block.
    pub epoch_round: U64,
    /// Its height.
    pub epoch_block_number: U64,
    /// The rounds.
    pub missed_rounds: Vec<MissedRound>,
}

/// A round without a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct MissedRound {
    /// The round.
    pub round: U64,
    /// The masternode whose turn it was.
    pub miner: Address,
    /// Hash of the next block.
    pub current_block_hash: B256,
    /// Height of the next block.
    pub current_block_num: U64,
    /// Hash of the previous block.
    pub parent_block_hash: B256,
    /// Height of the previous block.
    pub parent_block_num: U64,
}

/// First and last block of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EpochBlocks {
    /// Hash of the first block.
    pub hash: B256,
    /// Its round.
    pub round: u64,
    /// Its height.
    pub first_block: u64,
    /// Height of the last block; `None` while the epoch lasts.
    pub last_block: Option<u64>,
}

/// Contracts and parameters of a chain's consensus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct NetworkInformation {
    /// Chain id.
    pub network_id: U64,
    /// Contract of the masternodes.
    pub native_validator_address: Address,
    /// Contract of the exchange's relayers.
    pub relayer_registration_address: Address,
    /// Contract of the exchange's listings.
    pub native_x_listing_address: Address,
    /// Contract of the tokens that pay fees.
    pub native_z_address: Address,
    /// Contract of lending.
    pub lending_address: Address,
    /// Parameters.
    pub consensus_configs: ConsensusConfig,
}

/// Parameters of a chain's consensus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsensusConfig {
    /// Seconds between blocks of engine v1.
    pub period: u64,
    /// Blocks (v1) or rounds (v2) of an epoch.
    pub epoch: u64,
    /// Reward of an epoch, coins.
    pub reward: u64,
    /// Blocks between rewards.
    pub reward_checkpoint: u64,
    /// Distance of the gap block from the next multiple of `epoch`, blocks.
    pub gap: u64,
    /// Wallet of the foundation, in the reference client's spelling.
    #[serde(rename = "foudationWalletAddr")]
    pub foundation_wallet: Address,
    /// Whether blocks of engine v1 are not verified.
    #[serde(rename = "SkipV1Validation")]
    pub skip_v1_validation: bool,
    /// Engine v2.
    pub v2: V2Config,
}

/// Parameters of engine v2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct V2Config {
    /// Epoch at which it takes over.
    #[serde(rename = "SwitchEpoch")]
    pub switch_epoch: u64,
    /// Last block of engine v1; engine v2 makes the next one.
    pub switch_block: u64,
    /// Parameters in force.
    pub config: Option<RoundConfig>,
    /// All parameters, by the round from which they are in force.
    pub all_configs: BTreeMap<u64, RoundConfig>,
}

/// Parameters from a round on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoundConfig {
    /// Maximum number of masternodes.
    pub max_masternodes: u64,
    /// First round.
    pub switch_round: u64,
    /// Seconds between blocks.
    pub mine_period: u64,
    /// Own timeouts after which a node sends its sync info.
    pub timeout_sync_threshold: u64,
    /// Seconds of a round's countdown.
    pub timeout_period: u64,
    /// Fraction of the masternodes that a certificate needs.
    pub certificate_threshold: f64,
    /// Growth of the countdown.
    pub exp_timeout_config: TimeoutConfig,
}

/// Growth of the countdown of consecutive timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimeoutConfig {
    /// Factor of each timeout.
    pub base: f64,
    /// Maximum exponent.
    pub max_exponent: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A development network has no voting pool to compare with.
    #[test]
    fn a_voting_pool_keeps_every_member() {
        let members = r#"{"CurrentNumber":1,"CurrentSigners":["0x0000000000000000000000000000000000000001"],"MissingSigners":[]}"#;
        let text = format!(r#"{{"timeout":{{"7:450":{members}}},"vote":{{}}}}"#);

        let pool: VotingPool = serde_json::from_str(&text).unwrap();

        assert_eq!(pool.timeout["7:450"].current_number, 1);
        assert_eq!(serde_json::to_string(&pool).unwrap(), text);
    }
}
