//! What a native chain's consensus knows about its blocks and masternodes. Topics `0x0800..`; nobody answers them on chains
//! of the Ethereum profile.

use alloy_primitives::{Address, B256, U256};
use serde::{Deserialize, Serialize};

use super::request;
use crate::BlockId;

/// The rewards that a block paid (`eth_getRewardByHash`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetEpochReward {
    /// Hash of the block.
    pub block: B256,
}
request!(GetEpochReward => Option<EpochReward>, topic 0x0800, ReadChain);

/// The rewards that a block paid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochReward {
    /// JSON text of the object that the reference keeps in a file: signers with their share, receivers by signer.
    pub json: String,
}

/// Who signed a block, and by how large a part of its masternodes it is signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetBlockSigners {
    /// Which block.
    pub block: BlockId,
}
request!(GetBlockSigners => BlockSigners, topic 0x0801, ReadChain);

/// Who signed a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSigners {
    /// In the order of the masternodes; none when nobody of them signed the block that counts for it.
    pub signers: Option<Vec<Address>>,
    /// Signers in percent of masternodes, rounded down.
    pub finality: u64,
}

/// The candidates of an epoch and what they were in it (`eth_getCandidates`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetCandidates {
    /// Number of the epoch; none for the current one.
    pub epoch: Option<u64>,
}
request!(GetCandidates => CandidateList, topic 0x0802, ReadChain);

/// The candidates of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateList {
    /// Number of the epoch.
    pub epoch: u64,
    /// Whether the epoch has begun, and has candidates and masternodes. Otherwise the candidates are those of the state, if
    /// there are any.
    pub is_known: bool,
    /// Candidates, and masternodes that are candidates no longer.
    pub candidates: Vec<CandidateStanding>,
}

/// What a candidate was in an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateStanding {
    /// Whose.
    pub address: Address,
    /// Stake in wei; none for a masternode that is no candidate.
    pub stake: Option<U256>,
    /// It is one of the epoch's masternodes.
    pub is_masternode: bool,
    /// It would be one, but for a penalty.
    pub is_slashed: bool,
}

/// What staking returns in a year (`eth_getStakerROI`, `eth_getStakerROIMasternode`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetStakingReturn {
    /// For voters of one masternode; none for all together.
    pub masternode: Option<Address>,
}
request!(GetStakingReturn => StakingReturn, topic 0x0803, ReadChain);

/// What staking returns in a year.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StakingReturn {
    /// Percent by the reference's formula, whose integer division makes it infinite when the stake is below a year's
    /// reward; zero when there is no reward.
    pub percent: f64,
}
