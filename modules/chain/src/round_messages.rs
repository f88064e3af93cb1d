//! Messages and certificates of engine v2 (`docs/spec/consensus.md` 3.1 to 3.3). Fields are in wire order.

use alloy_primitives::{B256, Bytes, keccak256};
use alloy_rlp::{RlpDecodable, RlpEncodable};

/// A block's identity in certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, RlpEncodable, RlpDecodable)]
pub struct BlockInfo {
    /// Hash of the block.
    pub hash: B256,
    /// Round in which it was proposed; 0 for the switch block.
    pub round: u64,
    /// Height.
    pub number: u64,
}

/// Proof that a quorum of an epoch's masternodes voted for a block.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct QuorumCertificate {
    /// The block.
    pub block: BlockInfo,
    /// Signatures over the vote digest, in any order; none for the switch block.
    pub signatures: Vec<Bytes>,
    /// Number of the gap block of the block's epoch.
    pub gap_number: u64,
}

impl QuorumCertificate {
    /// The signed digest.
    pub fn digest(&self) -> B256 {
        vote_digest(&self.block, self.gap_number)
    }
}

/// Proof that a quorum timed out in a round.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct TimeoutCertificate {
    /// The round.
    pub round: u64,
    /// Signatures over the timeout digest, in any order.
    pub signatures: Vec<Bytes>,
    /// Number of the gap block whose snapshot lists the signers.
    pub gap_number: u64,
}

impl TimeoutCertificate {
    /// The signed digest.
    pub fn digest(&self) -> B256 {
        timeout_digest(self.round, self.gap_number)
    }
}

/// One masternode's vote for a block. The signer is not sent but recovered.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Vote {
    /// The block.
    pub block: BlockInfo,
    /// Signature over the vote digest.
    pub signature: Bytes,
    /// Number of the gap block of the block's epoch.
    pub gap_number: u64,
}

impl Vote {
    /// The message's hash in gossip, signature included.
    pub fn hash(&self) -> B256 {
        keccak256(alloy_rlp::encode(self))
    }
}

/// One masternode's statement that a round failed. The signer is not sent but recovered.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct Timeout {
    /// The round.
    pub round: u64,
    /// Signature over the timeout digest.
    pub signature: Bytes,
    /// Number of the gap block whose snapshot lists the signers.
    pub gap_number: u64,
}

impl Timeout {
    /// The message's hash in gossip, signature included.
    pub fn hash(&self) -> B256 {
        keccak256(alloy_rlp::encode(self))
    }
}

/// The highest certificates that a node knows, sent to nodes that fell behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, RlpEncodable, RlpDecodable)]
pub struct SyncInfo {
    /// The highest quorum certificate.
    pub quorum: QuorumCertificate,
    /// The highest timeout certificate; initially round 0 without signatures.
    pub timeout: TimeoutCertificate,
}

impl SyncInfo {
    /// The message's hash in gossip.
    pub fn hash(&self) -> B256 {
        keccak256(alloy_rlp::encode(self))
    }
}

#[derive(RlpEncodable)]
struct VoteForSign {
    block: BlockInfo,
    gap_number: u64,
}

#[derive(RlpEncodable)]
struct TimeoutForSign {
    round: u64,
    gap_number: u64,
}

/// The digest of a vote: keccak256 of the RLP of `[block, gap number]` (3.3).
pub fn vote_digest(block: &BlockInfo, gap_number: u64) -> B256 {
    keccak256(alloy_rlp::encode(VoteForSign { block: *block, gap_number }))
}

/// The digest of a timeout: keccak256 of the RLP of `[round, gap number]` (3.3).
pub fn timeout_digest(round: u64, gap_number: u64) -> B256 {
    keccak256(alloy_rlp::encode(TimeoutForSign { round, gap_number }))
}
