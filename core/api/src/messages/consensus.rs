//! What a native chain's consensus knows about its blocks and masternodes. Topics `0x0800..`; nobody answers them on chains
//! of the Ethereum profile.

use std::sync::Arc;

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

/// Who may make blocks as of a block (`Consensus_getSnapshot`, `Consensus_getSigners` and their like).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAuthorised {
    /// As of which block.
    pub block: BlockId,
}
request!(GetAuthorised => Option<Authorised>, topic 0x0804, ReadChain);

/// Who may make blocks: of a v1 block those after it, of a v2 block the candidates of the gap block that its height
/// belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authorised {
    /// Height of the block that the list is of: the one asked about in v1, the gap block in v2.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
    /// Ascending in v1; by stake, highest first, in v2.
    pub signers: Vec<Address>,
    /// What only v1 has.
    pub voting: Option<HeaderVoting>,
}

/// The voting in headers of engine v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderVoting {
    /// The last makers, with the heights of their blocks, ascending: none of them is expected to make the next one.
    pub recent: Vec<(u64, Address)>,
    /// Votes that count at the moment, the oldest first.
    pub votes: Vec<HeaderVote>,
    /// Their sums, by the address that they are about, ascending.
    pub tally: Vec<HeaderTally>,
    /// The block opens an epoch, which forgets all votes.
    pub opens_epoch: bool,
}

/// A vote in a header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderVote {
    /// Who voted.
    pub voter: Address,
    /// In the block of this height.
    pub block: u64,
    /// About whom.
    pub about: Address,
    /// To add; otherwise to drop.
    pub is_to_add: bool,
}

/// The votes about one address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderTally {
    /// About whom.
    pub about: Address,
    /// To add; otherwise to drop.
    pub is_to_add: bool,
    /// How many.
    pub votes: u64,
}

/// The masternodes of the epoch that a block belongs to (`Consensus_getMasternodesByNumber`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetEpochMembers {
    /// Which block.
    pub block: BlockId,
}
request!(GetEpochMembers => Option<EpochMembers>, topic 0x0805, ReadChain);

/// The masternodes of an epoch of engine v2; nobody for a block of v1, but for the switch block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochMembers {
    /// Height of the block that was asked about.
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
request!(GetRound => Option<BlockRound>, topic 0x0806, ReadChain);

/// A header that is stored, or one that the caller brings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RoundOf {
    /// Stored.
    Block(BlockId),
    /// Brought; it need not exist.
    Header(Box<Header>),
}

/// A header with its round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockRound {
    /// The header.
    pub header: Arc<SealedHeader>,
    /// Its encoding.
    pub rlp: Bytes,
    /// Its round, 0 in v1; or in the reference's words why its extra data tells none.
    pub round: Result<u64, String>,
    /// Hash of the canonical block of its height, if there is one.
    pub canonical: Option<B256>,
    /// Height of the last block that the voting has committed, if any is known.
    pub committed: Option<u64>,
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
    /// By the blocks around them, the newest first; ascending between two blocks.
    pub missed: Vec<MissedRound>,
}

/// A round without a block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissedRound {
    /// The round.
    pub round: u64,
    /// Whose turn it was.
    pub leader: Address,
    /// Height and hash of the next block.
    pub next: (u64, B256),
    /// Height and hash of the block before.
    pub previous: (u64, B256),
}

/// Heights of the blocks that open epochs of engine v2 between two blocks of one branch, ascending
/// (`Consensus_getEpochNumbersBetween`). The first block counts if it opens one itself, unless it is the last, too.
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
    /// Height of the last; none while the next epoch has no block.
    pub last: Option<u64>,
}

/// Votes and timeouts that wait at this node for others of their kind (`Consensus_getLatestPoolStatus`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetVotingPool;
request!(GetVotingPool => VotingPool, topic 0x080a, ReadChain);

/// Votes and timeouts that wait. A node that takes no part in the voting receives none and holds none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VotingPool {
    /// Votes by what they are for.
    pub votes: Vec<WaitingVotes>,
    /// Timeouts by their round.
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
    /// Who has voted, and who has not.
    pub members: WaitingMembers,
}

/// Timeouts of one round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingTimeouts {
    /// The round.
    pub round: u64,
    /// Number of the gap block that the senders named.
    pub gap_number: u64,
    /// Who has sent one, and who has not.
    pub members: WaitingMembers,
}

/// Who has sent a message, and who has not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingMembers {
    /// One a message.
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
    /// Least distance of two v1 blocks, seconds.
    pub period: u64,
    /// Blocks (v1) or rounds (v2) of an epoch.
    pub epoch: u64,
    /// Reward of an epoch, whole coins.
    pub reward: u64,
    /// Blocks between two rewards.
    pub reward_checkpoint: u64,
    /// Distance of the gap block before the next multiple of `epoch`, blocks.
    pub gap: u64,
    /// Receiver of the foundation's share.
    pub foundation_wallet: Address,
    /// v1 headers are not verified.
    pub skips_v1_validation: bool,
    /// Number of the first v2 epoch.
    pub switch_epoch: u64,
    /// Last block of engine v1.
    pub switch_block: u64,
    /// What holds from a round on, by that round, ascending.
    pub rounds: Vec<(u64, RoundParameters)>,
    /// The round of the entry of `rounds` that this process took up last: that of the last epoch that began while it
    /// ran, the first entry before.
    pub current: u64,
}

/// Parameters that hold from a round on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundParameters {
    /// Most masternodes of an epoch.
    pub max_masternodes: u64,
    /// The round as the entry itself says it; its key in the list decides.
    pub switch_round: u64,
    /// Least distance of two blocks, seconds.
    pub mine_period: u64,
    /// Own timeouts between two sync infos.
    pub timeout_sync_threshold: u64,
    /// How long a round may last, seconds.
    pub timeout_period: u64,
    /// Share of the masternodes that a certificate needs.
    pub certificate_threshold: f64,
    /// By what a timeout grows with every failed round.
    pub timeout_base: f64,
    /// How often it grows at most.
    pub timeout_max_exponent: u8,
}
