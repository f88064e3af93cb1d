use tenon_api::{Address, B256, CannotSign, StoreError};

use crate::native::{extra::ExtraProblem, signers::SignatureProblem};

/// Why engine v2 refuses a header, certificate or message. The texts are the reference's, spellings included
/// (`docs/spec/consensus.md` 5.4 to 5.6, 6, 14.1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum V2Error {
    /// This node's account can't sign.
    #[error(transparent)]
    Signer(#[from] CannotSign),
    /// A header without the three native items.
    #[error("not a native header: no validators, validator and penalties")]
    NotNative,
    /// A v1 block where a v2 block was wanted.
    #[error("not supported in the v1 consensus")]
    V1Block,
    /// No proposer's signature.
    #[error("no validator in v2 header")]
    NoValidator,
    /// A proposer's signature of a wrong length.
    #[error("invalid validator signature length {0}, want 65")]
    ValidatorLength(usize),
    /// Later than the clock that was handed in.
    #[error("block in the future")]
    FutureBlock,
    /// The parent is not known or is not the block before.
    #[error("unknown ancestor")]
    UnknownAncestor,
    /// The gas limit moved too far.
    #[error("invalid gas limit: have {found}, want {parent} +-= {bound}")]
    GasLimitStep {
        /// The header's.
        found: u64,
        /// The parent's.
        parent: u64,
        /// The largest step.
        bound: u64,
    },
    /// The gas limit is below 5000.
    #[error("invalid gas limit below 5000")]
    GasLimitTooLow,
    /// More gas used than there was.
    #[error("gas used exceeded gaslimit, gas used: {used}, gas limit: {limit}")]
    GasUsed {
        /// Gas used.
        used: u64,
        /// Gas limit.
        limit: u64,
    },
    /// The extra data cannot be read.
    #[error("invalid v2 extra in the block")]
    Extra(#[source] ExtraProblem),
    /// Earlier than the parent's time and the round's least distance.
    #[error("invalid timestamp")]
    Timestamp,
    /// A round that is not above the certified block's.
    #[error("invalid Round, it shall be bigger than QC round")]
    Round,
    /// The epoch of the certified block is not known.
    #[error("fail to verify QC due to failure in getting epoch switch info")]
    CertificateEpoch(#[source] Box<V2Error>),
    /// Too few signers.
    #[error("invalid QC Signatures")]
    CertificateThreshold,
    /// A signer that is no masternode of the epoch.
    #[error("fail to verify QC due to signature mis-match")]
    CertificateSigner(Address),
    /// Another gap block than the epoch's.
    #[error("gap number mismatch QC Gap {found}, shouldBe {wanted}")]
    CertificateGap {
        /// The certificate's.
        found: u64,
        /// The epoch's.
        wanted: u64,
    },
    /// The certificate names a block that is not stored.
    #[error("[VerifyBlockInfo] header doesn't exist for the received blockInfo at hash: {0:#x}")]
    InfoUnknown(B256),
    /// The certificate names another block than the parent.
    #[error("[VerifyBlockInfo] Provided blockheader does not match what's in the blockInfo")]
    InfoHash,
    /// The certificate names the block with a wrong height.
    #[error("[VerifyBlockInfo] chain header number does not match for the received blockInfo at hash: {0:#x}")]
    InfoNumber(B256),
    /// The switch block has round 0.
    #[error("[VerifyBlockInfo] switch block round have to be 0")]
    InfoSwitchRound,
    /// The certificate names the block with a wrong round.
    #[error(
        "[VerifyBlockInfo] chain block's round does not match from blockInfo at hash: {hash:#x} and block round: \
         {round}, blockInfo Round: {found}"
    )]
    InfoRound {
        /// The block.
        hash: B256,
        /// Its round.
        round: u64,
        /// The certificate's.
        found: u64,
    },
    /// Neither a vote to add nor one to drop.
    #[error("vote nonce not 0x00..0 or 0xff..f")]
    VoteNonce,
    /// The mix digest has no use here.
    #[error("non-zero mix digest")]
    MixDigest,
    /// There are no uncles.
    #[error("non empty uncle hash")]
    UncleHash,
    /// A base fee where none may be, or another one than the constant (14.3).
    #[error("invalid baseFee: have {found}, want {wanted}")]
    BaseFee {
        /// What the header has.
        found: u64,
        /// What it should have.
        wanted: String,
    },
    /// No base fee where one must be (14.3).
    #[error("header is missing baseFee")]
    MissingBaseFee,
    /// Difficulty is always 1.
    #[error("invalid difficulty")]
    Difficulty,
    /// Epoch switches vote for nobody.
    #[error("vote nonce in checkpoint block non-zero")]
    EpochSwitchVote,
    /// An epoch switch lists its masternodes.
    #[error("empty validators list on epoch switch block")]
    EmptyValidators,
    /// A list that is no sequence of addresses.
    #[error("invalid signer list on checkpoint block")]
    ValidatorsLength,
    /// Other masternodes than the computed ones.
    #[error("validators does not match what's stored in snapshot minus its penalty")]
    Validators,
    /// Other penalties than the computed ones.
    #[error("penalties does not match")]
    Penalties,
    /// Lists in a block that opens no epoch.
    #[error("invalid field exist in a non-epoch swtich block")]
    ListsOutsideEpochSwitch,
    /// A signature that names nobody.
    #[error("error while verifying message: {0}")]
    Signature(SignatureProblem),
    /// A signature with a high S.
    #[error("invalid signature")]
    HighS,
    /// Nobody could have signed.
    #[error("empty masternode list detected when verifying message signatures")]
    NoMasternodes,
    /// The proposer is no masternode.
    #[error("validator address is not in the master node list")]
    NotMasternode,
    /// The proposer is not the block's beneficiary.
    #[error("validator and coinbase address in header does not match")]
    Coinbase,
    /// Another masternode's round.
    #[error("not validator's turn to mine this block")]
    NotItsTurn,
    /// Uncles in a body.
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
    /// The gap block of an epoch is not on the chain.
    #[error("getSnapshot fail to get header by number: {0}")]
    NoGapBlock(u64),
    /// There are no candidates in the state of a gap block.
    #[error("no masternode found")]
    NoCandidates,
    /// The switch block is not on the chain.
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
    /// No epoch switch within the blocks that an epoch can have.
    #[error("no epoch switch among the {0} blocks before it")]
    NoEpochSwitch(u64),
    /// A timeout certificate without signatures list.
    #[error("invalid TC Signatures")]
    TimeoutThreshold,
    /// No snapshot for the certificate's gap number.
    #[error("[verifyTC] Unable to get snapshot, {0}")]
    TimeoutSnapshot(#[source] Box<V2Error>),
    /// A signer that is no candidate.
    #[error("fail to verify TC due to signature mis-match")]
    TimeoutSigner(Address),
    /// Undoing a committed block.
    #[error("stop reorg, blockchain is under forking attack. OldCommitted num {number}, hash {hash:#x}")]
    UndoesCommitted {
        /// Height of the committed block.
        number: u64,
        /// Its hash.
        hash: B256,
    },
    /// A vote of another round than this or the next.
    #[error("vote message round number: {found} is too far away from currentRound: {current}")]
    VoteRound {
        /// The vote's.
        found: u64,
        /// This node's.
        current: u64,
    },
    /// A vote for a block that is not known yet. It stays in the pool.
    #[error("vote proposed block is not found hash: {hash:#x}, block number: {number}, error: {error}")]
    VoteBlock {
        /// The block.
        hash: B256,
        /// Its height.
        number: u64,
        /// Why its epoch is not known.
        #[source]
        error: Box<V2Error>,
    },
    /// A timeout of another round than this one.
    #[error("timeout message round number: {found} does not match currentRound: {current}")]
    TimeoutRound {
        /// The timeout's.
        found: u64,
        /// This node's.
        current: u64,
    },
    /// A snapshot without candidates, or none at all.
    #[error("empty master node lists from snapshot")]
    NoSnapshot,
    /// More messages of one kind wait than any network has.
    #[error("message pool is full")]
    PoolFull,
    /// The block of a lock is not among the ancestors that are stored.
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
    /// There is no certificate of the block to build on.
    #[error("not ready to propose, QC is not ready")]
    NotReady,
    /// Another masternode leads the round.
    #[error("not ready to mine, it's not your turn")]
    NotLeader,
    /// The beneficiary is not the key's address; the spelling is the reference's.
    #[error("block Coinbase address does not match its wallte address")]
    WalletAddress,
    /// The chain could not be read, so that the rule could not be checked.
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
