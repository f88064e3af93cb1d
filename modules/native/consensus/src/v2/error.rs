//! Errors of engine v2.

use tenon_api::{Address, B256, SignError, StoreError};

use crate::{extra::ExtraProblem, signers::SignatureProblem};

/// Why engine v2 refuses a header, certificate or message. The texts are the reference's, spellings included
/// (`docs/spec/consensus.md` 5.4 to 5.6, 6, 14.1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum V2Error {
    /// This node's account cannot sign.
    #[error(transparent)]
    Signer(#[from] SignError),
    /// The header lacks the three native items.
    #[error("not a native header: no validators, validator and penalties")]
    NotNative,
    /// A v1 block instead of a v2 block.
    #[error("not supported in the v1 consensus")]
    V1Block,
    /// The proposer's signature is missing.
    #[error("no validator in v2 header")]
    NoValidator,
    /// The proposer's signature has the wrong length.
    #[error("invalid validator signature length {0}, want 65")]
    ValidatorLength(usize),
    /// The block is later than the clock.
    #[error("block in the future")]
    FutureBlock,
    /// The parent is unknown or not the previous block.
    #[error("unknown ancestor")]
    UnknownAncestor,
    /// The gas limit changed too much.
    #[error("invalid gas limit: have {found}, want {parent} +-= {bound}")]
    GasLimitStep {
        /// The header's value.
        found: u64,
        /// The parent's value.
        parent: u64,
        /// The maximum change.
        bound: u64,
    },
    /// The gas limit is below 5000.
    #[error("invalid gas limit below 5000")]
    GasLimitTooLow,
    /// More gas was used than the limit.
    #[error("gas used exceeded gaslimit, gas used: {used}, gas limit: {limit}")]
    GasUsed {
        /// Gas used.
        used: u64,
        /// Gas limit.
        limit: u64,
    },
    /// The extra data cannot be decoded.
    #[error("invalid v2 extra in the block")]
    Extra(#[source] ExtraProblem),
    /// The block is too soon after its parent for its round's parameters.
    #[error("invalid timestamp")]
    Timestamp,
    /// The round is not above the certified block's.
    #[error("invalid Round, it shall be bigger than QC round")]
    Round,
    /// The epoch of the certified block cannot be determined.
    #[error("fail to verify QC due to failure in getting epoch switch info")]
    CertificateEpoch(#[source] Box<V2Error>),
    /// Too few signers.
    #[error("invalid QC Signatures")]
    CertificateThreshold,
    /// A signer is not a masternode of the epoch.
    #[error("fail to verify QC due to signature mis-match")]
    CertificateSigner(Address),
    /// The gap number is not the epoch's.
    #[error("gap number mismatch QC Gap {found}, shouldBe {wanted}")]
    CertificateGap {
        /// The certificate's value.
        found: u64,
        /// The epoch's value.
        wanted: u64,
    },
    /// The certificate's block is not stored.
    #[error("[VerifyBlockInfo] header doesn't exist for the received blockInfo at hash: {0:#x}")]
    InfoUnknown(B256),
    /// The certificate is not for the parent.
    #[error("[VerifyBlockInfo] Provided blockheader does not match what's in the blockInfo")]
    InfoHash,
    /// The certificate has the wrong height of the block.
    #[error("[VerifyBlockInfo] chain header number does not match for the received blockInfo at hash: {0:#x}")]
    InfoNumber(B256),
    /// The certificate's round of the switch block is not 0.
    #[error("[VerifyBlockInfo] switch block round have to be 0")]
    InfoSwitchRound,
    /// The certificate has the wrong round of the block.
    #[error(
        "[VerifyBlockInfo] chain block's round does not match from blockInfo at hash: {hash:#x} and block round: \
         {round}, blockInfo Round: {found}"
    )]
    InfoRound {
        /// The block.
        hash: B256,
        /// Its round.
        round: u64,
        /// The certificate's value.
        found: u64,
    },
    /// The nonce is neither a vote to add nor one to drop.
    #[error("vote nonce not 0x00..0 or 0xff..f")]
    VoteNonce,
    /// The mix digest is not zero.
    #[error("non-zero mix digest")]
    MixDigest,
    /// The header has uncles.
    #[error("non empty uncle hash")]
    UncleHash,
    /// A base fee before its fork, or other than the constant (14.3).
    #[error("invalid baseFee: have {found}, want {wanted}")]
    BaseFee {
        /// The header's value.
        found: u64,
        /// The expected value.
        wanted: String,
    },
    /// The required base fee is missing (14.3).
    #[error("header is missing baseFee")]
    MissingBaseFee,
    /// The difficulty is not 1.
    #[error("invalid difficulty")]
    Difficulty,
    /// An epoch switch contains a vote.
    #[error("vote nonce in checkpoint block non-zero")]
    EpochSwitchVote,
    /// An epoch switch lists no masternodes.
    #[error("empty validators list on epoch switch block")]
    EmptyValidators,
    /// The length of a list is not a multiple of 20.
    #[error("invalid signer list on checkpoint block")]
    ValidatorsLength,
    /// The masternodes differ from the computed list.
    #[error("validators does not match what's stored in snapshot minus its penalty")]
    Validators,
    /// The penalties differ from the computed list.
    #[error("penalties does not match")]
    Penalties,
    /// A block that opens no epoch has lists.
    #[error("invalid field exist in a non-epoch swtich block")]
    ListsOutsideEpochSwitch,
    /// No signer can be recovered from a signature.
    #[error("error while verifying message: {0}")]
    Signature(SignatureProblem),
    /// A signature has a high S.
    #[error("invalid signature")]
    HighS,
    /// The epoch has no masternodes.
    #[error("empty masternode list detected when verifying message signatures")]
    NoMasternodes,
    /// The proposer is not a masternode.
    #[error("validator address is not in the master node list")]
    NotMasternode,
    /// The proposer is not the block's beneficiary.
    #[error("validator and coinbase address in header does not match")]
    Coinbase,
    /// The round belongs to another masternode.
    #[error("not validator's turn to mine this block")]
    NotItsTurn,
    /// The body has uncles.
    #[error("uncles not allowed in XDPoS_v2")]
    Uncles,
    /// A block on the way to the epoch switch is not stored.
    #[error("hook penalty fail to get parent header at number: {number}, hash: {hash:#x}")]
    PenaltyAncestor {
        /// Its height.
        number: u64,
        /// Its hash.
        hash: B256,
    },
    /// The gap block of an epoch is not canonical.
    #[error("getSnapshot fail to get header by number: {0}")]
    NoGapBlock(u64),
    /// The state of a gap block has no candidates.
    #[error("no masternode found")]
    NoCandidates,
    /// The switch block is not canonical.
    #[error("masternodes are empty v2 switch number: {0}")]
    NoSwitchBlock(u64),
    /// A block between a block and its epoch switch is not stored.
    #[error("block not found, number: {number}, hash: {hash:#x}")]
    MissingBlock {
        /// Its height.
        number: u64,
        /// Its hash.
        hash: B256,
    },
    /// There is no epoch switch within the maximum length of an epoch.
    #[error("no epoch switch among the {0} blocks before it")]
    NoEpochSwitch(u64),
    /// The timeout certificate has no list of signatures.
    #[error("invalid TC Signatures")]
    TimeoutThreshold,
    /// The certificate's gap number has no snapshot.
    #[error("[verifyTC] Unable to get snapshot, {0}")]
    TimeoutSnapshot(#[source] Box<V2Error>),
    /// A signer is not a candidate.
    #[error("fail to verify TC due to signature mis-match")]
    TimeoutSigner(Address),
    /// The branch would undo a committed block.
    #[error("stop reorg, blockchain is under forking attack. OldCommitted num {number}, hash {hash:#x}")]
    UndoesCommitted {
        /// Height of the committed block.
        number: u64,
        /// Its hash.
        hash: B256,
    },
    /// The snapshot is missing or has no candidates.
    #[error("empty master node lists from snapshot")]
    NoSnapshot,
    /// The lock's block is not among the stored ancestors.
    #[error(
        "could not find its parent block when checking whether currentBlock {number} with hash {hash:#x} is extending \
         from the ancestorBlock {ancestor}"
    )]
    MissingAncestor {
        /// Height of the proposed block.
        number: u64,
        /// Its hash.
        hash: B256,
        /// Height of the locked block.
        ancestor: u64,
    },
    /// The block to build on has no certificate.
    #[error("not ready to propose, QC is not ready")]
    NotReady,
    /// Another masternode leads the round.
    #[error("not ready to mine, it's not your turn")]
    NotLeader,
    /// The beneficiary is not the key's address; the spelling is the reference's.
    #[error("block Coinbase address does not match its wallte address")]
    WalletAddress,
    /// The chain could not be read, so the rule could not be checked.
    #[error("chain not readable: {0}")]
    Store(#[from] StoreError),
}

impl From<SignatureProblem> for V2Error {
    fn from(problem: SignatureProblem) -> Self {
        match problem {
            SignatureProblem::HighS => Self::HighS,
            problem => Self::Signature(problem),
        }
    }
}
