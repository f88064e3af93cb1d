//! Proofs of misbehaviour (`docs/spec/consensus.md` 9): two certificates on conflicting branches, and two votes that no
//! honest masternode casts both.
//!
//! The reference contains these detectors, switched off, and reports nothing. This node reports nothing by default
//! either: a proof is returned, and the owner of the [`Replica`](crate::Replica) decides whether to report it.

use std::collections::{BTreeMap, btree_map::Entry};

use tenon_api::{Address, B256, Bytes, ChainReader};
use tenon_native_consensus::v2::{V2Engine, V2Error, extra_of, stored_header};
use tenon_native_consensus::{BlockInfo, QuorumCertificate, Vote, vote_digest};

/// Maximum number of blocks that one search walks back on each branch: more than ten epochs of mainnet.
const MAX_STEPS: u64 = 10_000;
/// Maximum number of signers whose votes are recorded; far above two rounds of a network with 500 candidates.
const MAX_WATCHED: usize = 4_096;

/// Why a search for misbehaviour failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForensicsError {
    /// A block is missing or malformed, or a signer cannot be recovered.
    #[error("forensics: {0}")]
    Chain(#[from] V2Error),
    /// The branches fork too far back.
    #[error("forensics: no common ancestor within {MAX_STEPS} blocks of {0:#x}")]
    TooDeep(B256),
}

/// A proof of misbehaviour: two certificates or two votes, of which `smaller` does not have the higher round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForensicProof {
    /// Two certificates on diverging branches.
    Certificates(CertificateConflict),
    /// Two votes of one signer.
    Votes(VoteConflict),
}

impl ForensicProof {
    /// The reference's name of the proof: `<diverging hash>:<lower round's hash>:<higher round's hash>`, or `<signer
    /// without prefix>:<round>:<round>`.
    pub fn id(&self) -> String {
        match self {
            Self::Certificates(CertificateConflict { diverging, smaller, larger, .. }) => {
                let (smaller, larger) = (smaller.certificate.block.hash, larger.certificate.block.hash);
                format!("{:#x}:{smaller:#x}:{larger:#x}", diverging.1)
            }
            Self::Votes(VoteConflict { smaller, larger, signer }) => {
                let signer = alloy_primitives::hex::encode(signer);
                format!("{signer}:{}:{}", smaller.block.round, larger.block.round)
            }
        }
    }
}

/// Two certificates on diverging branches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateConflict {
    /// Height and hash of the last common block.
    pub diverging: (u64, B256),
    /// Whether the certified blocks are in different epochs.
    pub is_across_epochs: bool,
    /// The certificate of the lower round.
    pub smaller: BranchEvidence,
    /// The other one.
    pub larger: BranchEvidence,
}

/// A certificate and the branch that it certifies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchEvidence {
    /// Hashes from the last common block to the certified one, both included.
    pub path: Vec<B256>,
    /// The certificate.
    pub certificate: QuorumCertificate,
    /// Its signers, in the order of the signatures.
    pub signers: Vec<Address>,
}

/// Two votes of one signer that no honest signer casts both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoteConflict {
    /// The vote of the lower round.
    pub smaller: Vote,
    /// The other one.
    pub larger: Vote,
    /// The signer of both.
    pub signer: Address,
}

/// Three certificates of one branch, each for the parent of the next one's block: the basis of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateChain([QuorumCertificate; 3]);

impl CertificateChain {
    /// The given certificate, before it the one inside its block, and the one inside that block's parent.
    ///
    /// # Errors
    /// [`V2Error::MissingBlock`]; [`V2Error::Extra`] within two blocks of the switch block, which holds none.
    pub fn ending_with(last: QuorumCertificate, chain: &dyn ChainReader) -> Result<Self, V2Error> {
        let middle = inner_certificate(&last.block, chain)?;
        let first = inner_certificate(&middle.block, chain)?;
        Ok(Self([first, middle, last]))
    }

    /// Oldest first.
    pub const fn certificates(&self) -> &[QuorumCertificate; 3] {
        &self.0
    }

    const fn first(&self) -> &QuorumCertificate {
        &self.0[0]
    }

    const fn last(&self) -> &QuorumCertificate {
        &self.0[2]
    }
}

/// The certificate that a certified block carries.
fn inner_certificate(block: &BlockInfo, chain: &dyn ChainReader) -> Result<QuorumCertificate, V2Error> {
    Ok(extra_of(&*stored_header(chain, block.hash, block.number)?)?.quorum)
}

/// The common ancestor of two branches, and the hashes from there to either block, both ends included.
struct Divergence {
    ancestor: BlockInfo,
    to_first: Vec<B256>,
    to_second: Vec<B256>,
}

/// One side of a search for the common ancestor.
struct SearchSide {
    hash: B256,
    number: u64,
    passed: Vec<B256>,
}

impl SearchSide {
    fn at(block: &BlockInfo) -> Self {
        Self { hash: block.hash, number: block.number, passed: vec![block.hash] }
    }

    fn climb(&mut self, chain: &dyn ChainReader) -> Result<(), ForensicsError> {
        if u64::try_from(self.passed.len()).unwrap_or(u64::MAX) > MAX_STEPS || self.number == 0 {
            return Err(ForensicsError::TooDeep(self.passed.first().copied().unwrap_or_default()));
        }
        self.hash = stored_header(chain, self.hash, self.number)?.parent_hash;
        self.number -= 1;
        self.passed.push(self.hash);
        Ok(())
    }

    fn path(mut self) -> Vec<B256> {
        self.passed.reverse();
        self.passed
    }
}

fn divergence(first: &BlockInfo, second: &BlockInfo, chain: &dyn ChainReader) -> Result<Divergence, ForensicsError> {
    let (mut left, mut right) = (SearchSide::at(first), SearchSide::at(second));
    while left.hash != right.hash {
        let (left_number, right_number) = (left.number, right.number);
        if left_number >= right_number {
            left.climb(chain)?;
        }
        if right_number >= left_number {
            right.climb(chain)?;
        }
    }
    let ancestor = BlockInfo { hash: left.hash, round: 0, number: left.number };
    Ok(Divergence { ancestor, to_first: left.path(), to_second: right.path() })
}

/// Returns whether the older of the two chains' first blocks is an ancestor of the other's, or the same.
fn are_on_one_branch(
    one: &CertificateChain,
    other: &CertificateChain,
    chain: &dyn ChainReader,
) -> Result<bool, ForensicsError> {
    let (mut higher, mut lower) = (one.first().block, other.first().block);
    if higher.number < lower.number {
        (higher, lower) = (lower, higher);
    }
    let origin = higher.hash;
    for step in 0..higher.number - lower.number {
        if step >= MAX_STEPS {
            return Err(ForensicsError::TooDeep(origin));
        }
        higher = inner_certificate(&higher, chain)?.block;
    }
    Ok(higher == lower)
}

/// The two certificates that best prove the conflict of two chains: two of the same round, if both chains have one.
/// Otherwise:
///
/// - the last certificate of the chain that starts in the lower round;
/// - of the other chain's first certificate and those before it, the earliest one whose round is not lower than that of the
///   certificate above; the first certificate of that chain if its own round is lower.
fn conflicting_pair(
    committed: &CertificateChain,
    incoming: &CertificateChain,
    chain: &dyn ChainReader,
) -> Result<(QuorumCertificate, QuorumCertificate), ForensicsError> {
    for known in committed.certificates() {
        if let Some(same) = incoming.certificates().iter().find(|other| other.block.round == known.block.round) {
            return Ok((known.clone(), same.clone()));
        }
    }
    let is_below = incoming.first().block.round < committed.first().block.round;
    let (lower, higher) = if is_below { (incoming, committed) } else { (committed, incoming) };
    let limit = lower.last().block.round;
    let mut found = higher.first().clone();
    for _ in 0..MAX_STEPS {
        if found.block.round < limit {
            return Ok((lower.last().clone(), found));
        }
        let inner = inner_certificate(&found.block, chain)?;
        if inner.block.round < limit {
            return Ok((lower.last().clone(), found));
        }
        found = inner;
    }
    Err(ForensicsError::TooDeep(higher.first().block.hash))
}

/// The proof that a verified certificate is on another branch than the last committed ones; `None` if there is no
/// conflict. Only a third of the masternodes or more can cause one. As in the reference, a branch is detected once
/// it is long enough to contain the certificate's second ancestor.
///
/// # Errors
/// [`ForensicsError`].
pub fn certificate_conflict(
    engine: &V2Engine,
    committed: &CertificateChain,
    incoming: QuorumCertificate,
    chain: &dyn ChainReader,
) -> Result<Option<ForensicProof>, ForensicsError> {
    let incoming = CertificateChain::ending_with(incoming, chain)?;
    if are_on_one_branch(committed, &incoming, chain)? {
        return Ok(None);
    }
    let (one, other) = conflicting_pair(committed, &incoming, chain)?;
    let (smaller, larger) = if other.block.round < one.block.round { (other, one) } else { (one, other) };
    certificate_proof(engine, &smaller, &larger, chain).map(Some)
}

fn certificate_proof(
    engine: &V2Engine,
    smaller: &QuorumCertificate,
    larger: &QuorumCertificate,
    chain: &dyn ChainReader,
) -> Result<ForensicProof, ForensicsError> {
    let Divergence { ancestor, to_first, to_second } = divergence(&smaller.block, &larger.block, chain)?;
    let epoch_of = |block: &BlockInfo| -> Result<B256, V2Error> {
        let header = stored_header(chain, block.hash, block.number)?;
        Ok(engine.epoch_info(&header, chain)?.switch.hash)
    };
    Ok(ForensicProof::Certificates(CertificateConflict {
        diverging: (ancestor.number, ancestor.hash),
        is_across_epochs: epoch_of(&smaller.block)? != epoch_of(&larger.block)?,
        smaller: branch(engine, smaller, to_first)?,
        larger: branch(engine, larger, to_second)?,
    }))
}

fn branch(engine: &V2Engine, certificate: &QuorumCertificate, path: Vec<B256>) -> Result<BranchEvidence, V2Error> {
    let digest = certificate.digest();
    let signers = certificate.signatures.iter().map(|signature| engine.signers().recover(digest, signature));
    let signers = signers.map(|signer| signer.map_err(V2Error::from)).collect::<Result<_, _>>()?;
    Ok(BranchEvidence { path, certificate: certificate.clone(), signers })
}

/// Returns the proof that a vote contradicts the committed blocks. `None` if the vote's round is below that of the last
/// committed certificate, if its block descends from the block of the first committed certificate, or if its signer did
/// not sign the last one. If the certificate inside the voted block is itself in conflict, the proof is about the
/// certificates.
///
/// # Errors
/// [`ForensicsError`].
pub fn vote_conflict(
    engine: &V2Engine,
    committed: &CertificateChain,
    vote: &Vote,
    chain: &dyn ChainReader,
) -> Result<Option<ForensicProof>, ForensicsError> {
    let last = committed.last();
    if vote.block.round < last.block.round || descends(&vote.block, &committed.first().block, chain)? {
        return Ok(None);
    }
    let rests_on = inner_certificate(&vote.block, chain)?;
    if rests_on.block.round >= last.block.round {
        return certificate_conflict(engine, committed, rests_on, chain);
    }
    let recover = |digest, signature: &Bytes| engine.signers().recover(digest, signature).map_err(V2Error::from);
    let signer = recover(vote_digest(&vote.block, vote.gap_number), &vote.signature)?;
    for signature in &last.signatures {
        if recover(last.digest(), signature)? == signer {
            let counted = Vote { block: last.block, signature: signature.clone(), gap_number: last.gap_number };
            return Ok(Some(vote_proof(vote, &counted, signer)));
        }
    }
    Ok(None)
}

/// Returns whether a block is this ancestor or a descendant of it.
fn descends(block: &BlockInfo, ancestor: &BlockInfo, chain: &dyn ChainReader) -> Result<bool, ForensicsError> {
    let mut climber = SearchSide::at(block);
    while climber.number > ancestor.number {
        climber.climb(chain)?;
    }
    Ok(climber.hash == ancestor.hash)
}

/// The proof that one signer cast both votes. For votes of one round, the first argument comes first.
pub fn vote_proof(one: &Vote, other: &Vote, signer: Address) -> ForensicProof {
    let (smaller, larger) = if one.block.round > other.block.round { (other, one) } else { (one, other) };
    ForensicProof::Votes(VoteConflict { smaller: smaller.clone(), larger: larger.clone(), signer })
}

/// Detects signers that vote for two blocks in one round. Records only the first vote of each signer and round, so that
/// a flood of different votes costs one look-up each and yields one proof.
#[derive(Debug, Default)]
pub struct VoteWatch {
    /// By round and signer; `None` once a proof was returned for the signer.
    first: BTreeMap<(u64, Address), Option<Vote>>,
}

impl VoteWatch {
    /// Records a vote whose signer is known, and returns the proof if it is the signer's second one in the round, for
    /// another block. Records nothing new when it is full.
    pub fn observe(&mut self, vote: &Vote, signer: Address) -> Option<ForensicProof> {
        let is_full = self.first.len() >= MAX_WATCHED;
        match self.first.entry((vote.block.round, signer)) {
            Entry::Vacant(entry) if !is_full => {
                entry.insert(Some(vote.clone()));
                None
            }
            Entry::Vacant(_) => None,
            Entry::Occupied(mut entry) => match entry.get() {
                Some(first) if first.block.hash != vote.block.hash => {
                    let proof = vote_proof(vote, first, signer);
                    entry.insert(None);
                    Some(proof)
                }
                _ => None,
            },
        }
    }

    /// Removes the rounds before this one.
    pub fn forget_before(&mut self, round: u64) {
        self.first = self.first.split_off(&(round, Address::ZERO));
    }
}

#[cfg(test)]
mod tests;
