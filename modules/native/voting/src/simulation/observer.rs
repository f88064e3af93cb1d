//! Observes all sent messages and commits, and checks the safety properties.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use alloy_primitives::{Address, B256};
use alloy_rlp::Decodable;
use tenon_api::{Block, ChainReader, RoundMessageKind};
use tenon_memory_chain::MemoryChain;
use tenon_native_consensus::{ExtraFields, SignerCache, SyncInfo, Timeout, Vote, timeout_digest, vote_digest};

use super::links::SentMessage;

/// The kinds of messages that a masternode signs only once in a round. A second timeout is valid if the head has reached
/// another gap number meanwhile (`docs/spec/consensus.md` 5.7); no seed that was run comes to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Vote,
    Timeout,
    Block,
}

/// All signatures of honest masternodes, and all committed blocks.
pub(super) struct Observer {
    honest: HashSet<Address>,
    signers: Arc<SignerCache>,
    signed: HashMap<(Address, Kind, u64), B256>,
    seen: HashSet<usize>,
    committed: BTreeMap<u64, B256>,
}

impl Observer {
    pub(super) fn new(honest: HashSet<Address>, signers: Arc<SignerCache>) -> Self {
        let (signed, seen, committed) = (HashMap::new(), HashSet::new(), BTreeMap::new());
        Self { honest, signers, signed, seen, committed }
    }

    fn note(&mut self, signer: Address, kind: Kind, round: u64, digest: B256) {
        if self.honest.contains(&signer) {
            let first = *self.signed.entry((signer, kind, round)).or_insert(digest);
            assert_eq!(first, digest, "{signer} signed two {kind:?}s of round {round}");
        }
    }

    fn note_vote(&mut self, vote: &Vote) {
        let digest = vote_digest(&vote.block, vote.gap_number);
        if let Ok(signer) = self.signers.recover_low_s(digest, &vote.signature) {
            self.note(signer, Kind::Vote, vote.block.round, digest);
        }
    }

    fn note_timeout(&mut self, timeout: &Timeout) {
        let digest = timeout_digest(timeout.round, timeout.gap_number);
        if let Ok(signer) = self.signers.recover_low_s(digest, &timeout.signature) {
            self.note(signer, Kind::Timeout, timeout.round, digest);
        }
    }

    /// Records a message that leaves a node.
    pub(super) fn sent(&mut self, sent: &SentMessage) {
        if !self.seen.insert(sent.number) {
            return;
        }
        let message = &sent.message;
        let mut payload = &message.payload[..];
        match message.kind {
            RoundMessageKind::Vote => self.note_vote(&Vote::decode(&mut payload).unwrap()),
            RoundMessageKind::Timeout => self.note_timeout(&Timeout::decode(&mut payload).unwrap()),
            RoundMessageKind::SyncInfo => {
                let SyncInfo { quorum, timeout } = SyncInfo::decode(&mut payload).unwrap();
                for signature in quorum.signatures {
                    self.note_vote(&Vote { block: quorum.block, signature, gap_number: quorum.gap_number });
                }
                for signature in timeout.signatures {
                    let (round, gap_number) = (timeout.round, timeout.gap_number);
                    self.note_timeout(&Timeout { round, signature, gap_number });
                }
            }
        }
    }

    /// Records a block that a node has made.
    pub(super) fn made(&mut self, block: &Block) {
        self.note(block.header.beneficiary, Kind::Block, round_of(block), block.hash());
    }

    /// Records that a node has committed a block, and its ancestors with it.
    pub(super) fn commits(&mut self, chain: &MemoryChain, block: B256) {
        let mut hash = block;
        while let Some(header) = chain.header(hash).unwrap() {
            match self.committed.insert(header.number, hash) {
                Some(known) if known == hash => return,
                Some(known) => panic!("two blocks committed at {}: {known} and {hash}", header.number),
                None => hash = header.parent_hash,
            }
        }
    }

    /// The last committed block.
    pub(super) fn last_committed(&self) -> Option<B256> {
        self.committed.last_key_value().map(|(_, hash)| *hash)
    }

    /// The height of the last committed block.
    pub(super) fn height(&self) -> u64 {
        self.committed.last_key_value().map_or(0, |(number, _)| *number)
    }

    /// Number of signatures.
    pub(super) fn signatures(&self) -> usize {
        self.signed.len()
    }
}

/// The round of a block after the genesis block.
pub(super) fn round_of(block: &Block) -> u64 {
    ExtraFields::decode(&block.header.extra_data).map_or(0, |extra| extra.round)
}
