//! Errors of engine v1.

use tenon_api::{Address, SignError, StoreError};

use crate::SignatureProblem;

/// Why engine v1 refuses a header. The texts are the reference's (`docs/spec/consensus.md` 2.3, 14.1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum V1Error {
    /// This node's account cannot sign.
    #[error(transparent)]
    Signer(#[from] SignError),
    /// A second signature is required from block 901 on.
    #[error("no validator in header")]
    NoSecondSignature,
    /// The block is later than the clock.
    #[error("block in the future")]
    FutureBlock,
    /// A checkpoint has a beneficiary, though it may not vote.
    #[error("beneficiary in checkpoint block non-zero")]
    CheckpointBeneficiary,
    /// The nonce is neither a vote to add nor one to drop.
    #[error("vote nonce not 0x00..0 or 0xff..f")]
    VoteNonce,
    /// A checkpoint contains a vote.
    #[error("vote nonce in checkpoint block non-zero")]
    CheckpointVote,
    /// The extra data is shorter than 32 bytes.
    #[error("extra-data 32 byte vanity prefix missing")]
    MissingVanity,
    /// The extra data is shorter than 97 bytes.
    #[error("extra-data 65 byte suffix signature missing")]
    MissingSeal,
    /// A block other than a checkpoint lists masternodes.
    #[error("non-checkpoint block contains extra signer list")]
    ExtraSigners,
    /// The list is malformed, or differs from the computed one.
    #[error("invalid signer list on checkpoint block")]
    CheckpointSigners,
    /// The mix digest is not zero.
    #[error("non-zero mix digest")]
    MixDigest,
    /// The header has uncles.
    #[error("non empty uncle hash")]
    UncleHash,
    /// The parent is unknown or not the previous block.
    #[error("unknown ancestor")]
    UnknownAncestor,
    /// The block is less than one period after its parent.
    #[error("invalid timestamp")]
    Timestamp,
    /// A base fee before its fork, or other than the constant (14.3).
    #[error("invalid baseFee: have {found}, want {wanted}")]
    BaseFee {
        /// The header's value.
        found: String,
        /// The expected value.
        wanted: String,
    },
    /// The required base fee is missing (14.3).
    #[error("header is missing baseFee")]
    MissingBaseFee,
    /// The penalties differ from the computed list.
    #[error("invalid penalty list on checkpoint block")]
    CheckpointPenalties,
    /// The numbers of second signers differ from the computed ones.
    #[error("invalid validators list on checkpoint block")]
    CheckpointValidators,
    /// The difficulty does not match the creator's distance from its turn.
    #[error("invalid difficulty")]
    Difficulty,
    /// The creator may not make this block.
    #[error("unauthorized")]
    Unauthorized,
    /// The second signature does not have 65 bytes.
    #[error("missing validator in header")]
    MissingValidator,
    /// The second signer is not the creator's partner.
    #[error("wrong pair of creator-validator in double validation")]
    WrongPair,
    /// No signer can be recovered from a signature.
    #[error(transparent)]
    Signature(#[from] SignatureProblem),
    /// The list of second signers' numbers has an incomplete entry.
    #[error("invalid byte array length {0} for validators")]
    ValidatorsLength(usize),
    /// One of the numbers is invalid.
    #[error("can not convert string {text} to integer: strconv.Atoi: parsing \"{text}\": invalid syntax")]
    ValidatorNumber {
        /// Its text.
        text: String,
    },
    /// The checkpoint has fewer numbers than masternodes.
    #[error("len(m2) is less than len(m1)")]
    TooFewPartners,
    /// The list of masternodes is empty.
    #[error("list M1 not found ")]
    NoMasternodes,
    /// The block that opened the epoch is not stored.
    #[error("couldn't find checkpoint header")]
    NoCheckpoint,
    /// There are no pairs, because the epoch is not a multiple of 900 (2.5).
    #[error("this block is not checkpoint block")]
    NotCheckpoint,
    /// The voting contract has no candidate at a gap block (4.2).
    #[error("no masternode found")]
    NoCandidates,
    /// The lists of a checkpoint depend on a state that is not stored: that of a block on another branch that was not
    /// executed, or whose state was pruned.
    #[error("the state after the parent of this checkpoint is not available")]
    NoParentState,
    /// The creator must wait, or may not make a block.
    #[error("not ready to mine, it's not your turn")]
    NotTurn,
    /// The second signer is another masternode, whose key this node does not have.
    #[error("the block needs a second signature of {partner}")]
    OtherPartner {
        /// The creator's partner at this height.
        partner: Address,
    },
    /// The body has uncles.
    #[error("uncles not allowed")]
    Uncles,
    /// The header lacks the three native items.
    #[error("not a native header: no validators, validator and penalties")]
    NotNative,
    /// The chain could not be read, so the rule could not be checked.
    #[error("chain not readable: {0}")]
    Store(#[from] StoreError),
}
