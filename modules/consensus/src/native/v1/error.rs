use tenon_api::{Address, CannotSign, StoreError};

use crate::native::SignatureProblem;

/// Why engine v1 refuses a header. The texts are the reference's (`docs/spec/consensus.md` 2.3, 14.1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum V1Error {
    /// This node's account can't sign.
    #[error(transparent)]
    Signer(#[from] CannotSign),
    /// From block 901 on a second signature is needed.
    #[error("no validator in header")]
    NoSecondSignature,
    /// The block is later than the clock that was handed in.
    #[error("block in the future")]
    FutureBlock,
    /// Checkpoints vote for nobody.
    #[error("beneficiary in checkpoint block non-zero")]
    CheckpointBeneficiary,
    /// Neither a vote to add nor one to drop.
    #[error("vote nonce not 0x00..0 or 0xff..f")]
    VoteNonce,
    /// Checkpoints vote for nobody.
    #[error("vote nonce in checkpoint block non-zero")]
    CheckpointVote,
    /// Extra data of less than 32 bytes.
    #[error("extra-data 32 byte vanity prefix missing")]
    MissingVanity,
    /// Extra data of less than 97 bytes.
    #[error("extra-data 65 byte suffix signature missing")]
    MissingSeal,
    /// Only checkpoints list masternodes.
    #[error("non-checkpoint block contains extra signer list")]
    ExtraSigners,
    /// A list that is no sequence of addresses, or not the one that was computed.
    #[error("invalid signer list on checkpoint block")]
    CheckpointSigners,
    /// The mix digest has no use here.
    #[error("non-zero mix digest")]
    MixDigest,
    /// There are no uncles.
    #[error("non empty uncle hash")]
    UncleHash,
    /// The parent is not known or is not the block before.
    #[error("unknown ancestor")]
    UnknownAncestor,
    /// Earlier than the parent's time and one period.
    #[error("invalid timestamp")]
    Timestamp,
    /// A base fee where none may be, or another one than the constant (14.3).
    #[error("invalid baseFee: have {found}, want {wanted}")]
    BaseFee {
        /// What the header has.
        found: String,
        /// What it should have.
        wanted: String,
    },
    /// No base fee where one must be (14.3).
    #[error("header is missing baseFee")]
    MissingBaseFee,
    /// Another list of penalties than the computed one.
    #[error("invalid penalty list on checkpoint block")]
    CheckpointPenalties,
    /// Other numbers of second signers than the computed ones.
    #[error("invalid validators list on checkpoint block")]
    CheckpointValidators,
    /// Not the creator's distance from its turn.
    #[error("invalid difficulty")]
    Difficulty,
    /// The creator may not make this block.
    #[error("unauthorized")]
    Unauthorized,
    /// The second signature is not one of 65 bytes.
    #[error("missing validator in header")]
    MissingValidator,
    /// Somebody else than the creator's partner signed second.
    #[error("wrong pair of creator-validator in double validation")]
    WrongPair,
    /// A signature that tells no signer.
    #[error(transparent)]
    Signature(#[from] SignatureProblem),
    /// A list of numbers of second signers with a broken end.
    #[error("invalid byte array length {0} for validators")]
    ValidatorsLength(usize),
    /// One of the numbers is none.
    #[error("can not convert string {text} to integer: strconv.Atoi: parsing \"{text}\": invalid syntax")]
    ValidatorNumber {
        /// What stands there.
        text: String,
    },
    /// A checkpoint with more masternodes than numbers, or with none of both.
    #[error("len(m2) is less than len(m1)")]
    TooFewPartners,
    /// A list of no masternodes.
    #[error("list M1 not found ")]
    NoMasternodes,
    /// The block that opened the epoch is not known.
    #[error("couldn't find checkpoint header")]
    NoCheckpoint,
    /// With an epoch that is no multiple of 900 there are no pairs (2.5).
    #[error("this block is not checkpoint block")]
    NotCheckpoint,
    /// The voting contract has no candidate at a gap block (4.2).
    #[error("no masternode found")]
    NoCandidates,
    /// The lists of a checkpoint depend on a state that is not there: its parent is on another branch.
    #[error("the state after the parent of this checkpoint is not available")]
    NoParentState,
    /// The creator has to wait, or may not make a block at all.
    #[error("not ready to mine, it's not your turn")]
    NotTurn,
    /// One key can't sign for another masternode.
    #[error("the block needs a second signature of {partner}")]
    OtherPartner {
        /// The creator's partner at this height.
        partner: Address,
    },
    /// Uncles in a body.
    #[error("uncles not allowed")]
    Uncles,
    /// A header without the three native items.
    #[error("not a native header: no validators, validator and penalties")]
    NotNative,
    /// The chain could not be read, so that the rule could not be checked.
    #[error("chain not readable: {0}")]
    Store(#[from] StoreError),
}
