//! A native chain's consensus data about blocks and masternodes. Topics `0x0800..`; they have no handler on chains of
//! the Ethereum profile.

use std::{collections::BTreeMap, sync::Arc};

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::request;
use crate::{BlockId, Header, SealedHeader};

/// The rewards that a block paid (`eth_getRewardByHash`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetEpochReward {
    /// Hash of the block.
    pub block: B256,
}
request!(GetEpochReward => Option<EpochReward>, topic 0x0800, schema 2, ReadChain);

/// The rewards that a block paid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochReward {
    /// Rewards of the masternodes.
    pub masternodes: RoleRewards,
    /// Rewards of the other roles; `None` before `tipUpgradeReward`.
    pub others: Option<OtherRewards>,
}

/// The rewards of the roles that are paid from `tipUpgradeReward` on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherRewards {
    /// Rewards of the protectors.
    pub protectors: RoleRewards,
    /// Rewards of the observers.
    pub observers: RoleRewards,
}

/// The rewards of the members of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleRewards {
    /// Signed blocks and reward of each member.
    pub signers: BTreeMap<Address, SignerReward>,
    /// The split of each member's reward: wei by receiver. Voters are listed with zero.
    pub shares: BTreeMap<Address, BTreeMap<Address, U256>>,
}

/// Signatures and reward of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignerReward {
    /// Number of blocks of the epoch that it signed.
    pub signed: u64,
    /// Its reward before the split, wei.
    pub reward: U256,
}

/// The signers of a block, and their percentage of its masternodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetBlockSigners {
    /// Which block.
    pub block: BlockId,
}
request!(GetBlockSigners => BlockSigners, topic 0x0801, ReadChain);

/// The signers of a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockSigners {
    /// In the order of the masternodes. Most blocks are not signed themselves: for them, the signers of the next block
    /// whose number is a multiple of 15 count. `None` if no masternode signed that block.
    pub signers: Option<Vec<Address>>,
    /// Signers in percent of masternodes, rounded down.
    pub finality: u64,
}

/// The candidates of an epoch and their status in it (`eth_getCandidates`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetCandidates {
    /// Number of the epoch; `None` for the current one.
    pub epoch: Option<u64>,
}
request!(GetCandidates => CandidateList, topic 0x0802, ReadChain);

/// The candidates of an epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateList {
    /// Number of the epoch.
    pub epoch: u64,
    /// Whether the epoch has begun, and has candidates and masternodes. Otherwise the candidates are those of the
    /// state, if any.
    pub is_known: bool,
    /// Candidates, and masternodes that are no longer candidates.
    pub candidates: Vec<CandidateStanding>,
}

/// A candidate's status in an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateStanding {
    /// The candidate.
    pub address: Address,
    /// Stake in wei; `None` for a masternode that is not a candidate.
    pub stake: Option<U256>,
    /// Whether it is one of the epoch's masternodes.
    pub is_masternode: bool,
    /// Whether only a penalty keeps it from being one.
    pub is_slashed: bool,
}

/// Yearly return of staking (`eth_getStakerROI`, `eth_getStakerROIMasternode`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetStakingReturn {
    /// Return for voters of this masternode; `None` for all together.
    pub masternode: Option<Address>,
}
request!(GetStakingReturn => StakingReturn, topic 0x0803, ReadChain);

/// Yearly return of staking.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StakingReturn {
    /// Percent by the reference's formula, whose integer division makes it infinite if the stake is below a year's
    /// reward; zero if there is no reward.
    pub percent: f64,
}

/// The addresses authorised to make blocks as of a block (`Consensus_getSnapshot`, `Consensus_getSigners` and similar).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAuthorised {
    /// The block.
    pub block: BlockId,
}
request!(GetAuthorised => Option<Authorised>, topic 0x0804, ReadChain);

/// The addresses authorised to make blocks: for a v1 block those after it, for a v2 block the candidates of the gap
/// block of its height.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorised {
    /// Height of the block that the list belongs to: the requested one in v1, the gap block in v2.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
    /// Ascending in v1; by stake, highest first, in v2.
    pub signers: Vec<Address>,
    /// Voting state, v1 only.
    pub voting: Option<HeaderVoting>,
}

/// The voting in headers of engine v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderVoting {
    /// The makers of the last blocks, with the heights, ascending: they are not expected to make the next one.
    pub recent: Vec<(u64, Address)>,
    /// Votes that currently count, oldest first.
    pub votes: Vec<HeaderVote>,
    /// Totals, by candidate address, ascending.
    pub tally: Vec<HeaderTally>,
    /// Whether the block opens an epoch, which discards all votes.
    pub opens_epoch: bool,
}

/// A vote in a header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderVote {
    /// The voter.
    pub voter: Address,
    /// Height of the block with the vote.
    pub block: u64,
    /// The address voted on.
    pub about: Address,
    /// True for a vote to add it, false to drop it.
    pub is_to_add: bool,
}

/// The votes on one address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderTally {
    /// The address voted on.
    pub about: Address,
    /// True for votes to add it, false to drop it.
    pub is_to_add: bool,
    /// Number of votes.
    pub votes: u64,
}

/// The masternodes of the epoch that a block belongs to (`Consensus_getMasternodesByNumber`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetEpochMembers {
    /// Which block.
    pub block: BlockId,
}
request!(GetEpochMembers => Option<EpochMembers>, topic 0x0805, ReadChain);

/// The masternodes of an epoch of engine v2; empty for a block of v1, except the switch block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochMembers {
    /// Height of the requested block.
    pub number: u64,
    /// Its round, 0 in v1.
    pub round: u64,
    /// In the order in which they lead rounds.
    pub masternodes: Vec<Address>,
    /// The penalised, in the header's order.
    pub penalties: Vec<Address>,
    /// Candidates that are neither, by stake.
    pub standby: Vec<Address>,
}

/// A header with its round (`Consensus_getV2BlockByNumber` and its like).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetRound {
    /// Which header.
    pub header: RoundOf,
}
request!(GetRound => Option<BlockRound>, topic 0x0806, schema 2, ReadChain);

/// A stored header, or one supplied by the caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoundOf {
    /// Stored.
    Block(BlockId),
    /// Supplied by the caller; it need not be stored.
    Header(Box<Header>),
}

/// A header with its round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRound {
    /// The header.
    pub header: Arc<SealedHeader>,
    /// Its encoding.
    pub rlp: Bytes,
    /// Its round, 0 in v1; or why the extra data contains none.
    pub round: Result<u64, RoundProblem>,
    /// Hash of the canonical block of its height, if there is one.
    pub canonical: Option<B256>,
    /// Height of the last block committed by the voting, if known.
    pub committed: Option<u64>,
}

/// Why the extra data of a v2 header contain no round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoundProblem {
    /// They are empty.
    NoExtra,
    /// They are too long.
    ExtraTooLong,
    /// Their first byte is another version.
    Version(u8),
    /// The rest is not valid RLP.
    Malformed {
        /// The decoder's text.
        reason: String,
    },
}

/// Rounds without a block, from a block back to the first of its epoch
/// (`Consensus_getMissedRoundsInEpochByBlockNum`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetMissedRounds {
    /// Which block.
    pub block: BlockId,
}
request!(GetMissedRounds => Option<MissedRounds>, topic 0x0807, ReadChain);

/// Rounds of an epoch without a block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedRounds {
    /// Round of the epoch's first block.
    pub epoch_round: u64,
    /// Its height.
    pub epoch_number: u64,
    /// Grouped by the blocks around them, newest first; ascending between two blocks.
    pub missed: Vec<MissedRound>,
}

/// A round without a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedRound {
    /// The round.
    pub round: u64,
    /// The masternode whose turn it was.
    pub leader: Address,
    /// Height and hash of the next block.
    pub next: (u64, B256),
    /// Height and hash of the previous block.
    pub previous: (u64, B256),
}

/// Heights of the blocks between two blocks of one branch that open epochs of engine v2, ascending
/// (`Consensus_getEpochNumbersBetween`). The first block counts if it opens an epoch itself, unless it is also the
/// last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetEpochSwitches {
    /// Hash of the first block.
    pub first: B256,
    /// Hash of the last block.
    pub last: B256,
}
request!(GetEpochSwitches => Vec<u64>, topic 0x0808, ReadChain);

/// The blocks of an epoch of engine v2 (`Consensus_getBlockInfoByEpochNum`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetEpochBlocks {
    /// Number of the epoch.
    pub epoch: u64,
}
request!(GetEpochBlocks => EpochBlocks, topic 0x0809, ReadChain);

/// The blocks of an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochBlocks {
    /// Hash of the first.
    pub hash: B256,
    /// Its round.
    pub round: u64,
    /// Its height.
    pub first: u64,
    /// Height of the last; `None` while the next epoch has no block.
    pub last: Option<u64>,
}

/// Votes and timeouts collected by this node that have no certificate yet (`Consensus_getLatestPoolStatus`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetVotingPool;
request!(GetVotingPool => VotingPool, topic 0x080a, ReadChain);

/// Collected votes and timeouts. A node that takes no part in the voting receives and holds none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VotingPool {
    /// Votes by block.
    pub votes: Vec<WaitingVotes>,
    /// Timeouts by round.
    pub timeouts: Vec<WaitingTimeouts>,
}

/// Votes for one block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingVotes {
    /// Round of the block.
    pub round: u64,
    /// Number of the gap block that the voters named.
    pub gap_number: u64,
    /// Height of the block.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
    /// Masternodes that have voted, and those that have not.
    pub members: WaitingMembers,
}

/// Timeouts of one round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingTimeouts {
    /// The round.
    pub round: u64,
    /// Number of the gap block that the senders named.
    pub gap_number: u64,
    /// Masternodes that have sent one, and those that have not.
    pub members: WaitingMembers,
}

/// Senders of a message, and the masternodes still missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingMembers {
    /// One per message.
    pub signers: Vec<Address>,
    /// Masternodes of the head's epoch without one, in their order.
    pub missing: Vec<Address>,
}

/// The parameters of the chain's consensus (`Consensus_networkInformation`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetConsensusParameters;
request!(GetConsensusParameters => Arc<ConsensusParameters>, topic 0x080b, ReadChain);

/// The parameters of the chain's consensus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConsensusParameters {
    /// Chain id.
    pub chain_id: u64,
    /// The voting contract.
    pub validator_contract: Address,
    /// Relayers of the exchange.
    pub relayer_registration: Address,
    /// Listings of the exchange.
    pub exchange_listing: Address,
    /// Issuer of tokens that pay their transfers' fees.
    pub token_issuer: Address,
    /// Lending.
    pub lending_registration: Address,
    /// Minimum time between two v1 blocks, seconds.
    pub period: u64,
    /// Blocks (v1) or rounds (v2) of an epoch.
    pub epoch: u64,
    /// Reward of an epoch, whole coins.
    pub reward: u64,
    /// Blocks between two rewards.
    pub reward_checkpoint: u64,
    /// Distance of the gap block from the next multiple of `epoch`, blocks.
    pub gap: u64,
    /// Receiver of the foundation's share.
    pub foundation_wallet: Address,
    /// v1 headers are not verified.
    pub skips_v1_validation: bool,
    /// Number of the first v2 epoch.
    pub switch_epoch: u64,
    /// Last block of engine v1.
    pub switch_block: u64,
    /// Parameters by the round from which they apply, ascending.
    pub rounds: Vec<(u64, RoundParameters)>,
    /// Round (the key in `rounds`) of the parameters that this process applied last: those of the last epoch that began
    /// while it ran, initially those of the first entry.
    pub current: u64,
}

/// Parameters that apply from a round on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundParameters {
    /// Maximum number of masternodes of an epoch.
    pub max_masternodes: u64,
    /// The round stated by the entry itself; its key in the list takes precedence.
    pub switch_round: u64,
    /// Minimum time between two blocks, seconds.
    pub mine_period: u64,
    /// Own timeouts between two sync infos.
    pub timeout_sync_threshold: u64,
    /// Duration of a round before it times out, seconds.
    pub timeout_period: u64,
    /// Share of the masternodes that a certificate needs.
    pub certificate_threshold: f64,
    /// Factor by which a timeout grows with every failed round.
    pub timeout_base: f64,
    /// Maximum number of such increases.
    pub timeout_max_exponent: u8,
}

/// The rules of a native chain by height (`eth_config`, `docs/spec/upgrades.md` 11.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetNativeSchedule;
request!(GetNativeSchedule => NativeSchedule, topic 0x080c, ReadChain);

/// The rules of a native chain by height.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeSchedule {
    /// Chain id of EIP-155.
    pub chain_id: u64,
    /// The rules of the head.
    pub current: NativeRules,
    /// The rules from the next height at which they change; `None` if no change is known.
    pub next: Option<NativeRules>,
    /// The rules from the last known height; `None` if there is no next one.
    pub last: Option<NativeRules>,
}

/// The rules of a native chain from a height on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeRules {
    /// The height; 0 for those of genesis.
    pub activation: u64,
    /// The checksum of EIP-2124 over genesis and the heights up to this one.
    pub fork_id: [u8; 4],
    /// Names of the rules in force, as the reference orders them.
    pub forks: Vec<String>,
    /// Precompiled contracts by name.
    pub precompiles: Vec<(String, Address)>,
    /// System contracts by name.
    pub system_contracts: Vec<(String, Address)>,
}
