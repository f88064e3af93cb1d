use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use rayon::prelude::*;
use tenon_api::{
    Address, B256, Block, BlockNumber, BlockSigner, Bytes, ChainReader, ConsensusEngine, ConsensusError, EngineRecords,
    Head, Header, RecoveredBlock, SealAttributes, SealedHeader, StoreError, U256,
};
use tenon_chain::{ChainSpec, NativeConsensus, NativeSettings, ommers_hash, transactions_root};

use super::{
    candidates::{ContractCandidates, MasternodeSource},
    extra::SEAL_BYTES,
    messages::BlockInfo,
    records::{KeptCandidates, keep_voting_state, voting_state},
    rewards::{self, EpochRewards, RewardError},
    signers::SignerCache,
    signing::SigningIndex,
    v1::{V1Engine, V1Error},
    v2::{self, V2Engine, V2Error, VotingState},
};

/// Signatures that one thread recovers ahead together: enough to share the cost of a batch, few enough to hold the memory of
/// signers for microseconds.
const SIGNATURES_PER_BATCH: usize = 256;

/// Why the native engine refuses something: the rule of one engine, or one of both.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    /// Engine v1 refuses.
    #[error(transparent)]
    V1(#[from] V1Error),
    /// Engine v2 refuses.
    #[error(transparent)]
    V2(#[from] V2Error),
    /// Rewards could not be computed.
    #[error(transparent)]
    Reward(#[from] RewardError),
    /// The chain could not be read.
    #[error("chain not readable: {0}")]
    Store(#[from] StoreError),
    /// The uncle list is not the header's (`docs/spec/chain.md` 1.6).
    #[error("uncle root hash mismatch: have {found:x}, want {wanted:x}")]
    UnclesRoot {
        /// Of the body.
        found: B256,
        /// Of the header.
        wanted: B256,
    },
    /// The transactions are not the header's (`docs/spec/chain.md` 1.6).
    #[error("transaction root hash mismatch: have {found:x}, want {wanted:x}")]
    TransactionsRoot {
        /// Of the body.
        found: B256,
        /// Of the header.
        wanted: B256,
    },
    /// Native blocks know no withdrawals.
    #[error("withdrawals in a native block")]
    Withdrawals,
    /// The chain has no native rules.
    #[error("chain {0} has no native consensus")]
    NotNative(u64),
    /// Blocks can only be made with a masternode's key.
    #[error("not ready to mine: this node has no masternode key")]
    NoKey,
}

/// Unix time in seconds.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Knows no state: with it, lists that depend on candidates are taken from the headers as they are.
#[derive(Clone, Copy, Debug, Default)]
struct HeadersAlone;

impl MasternodeSource for HeadersAlone {
    fn candidates(&self, _: &SealedHeader, _: &dyn ChainReader) -> Result<Option<Arc<[Address]>>, StoreError> {
        Ok(None)
    }
}

/// The rules of native chains: v1 up to the switch block, v2 after it (`docs/spec/consensus.md` 1.1).
pub struct NativeEngine {
    settings: Arc<NativeSettings>,
    v1: V1Engine,
    v2: V2Engine,
    /// Shared by both.
    signers: Arc<SignerCache>,
    signing: Arc<SigningIndex>,
    clock: Clock,
    /// The block below which no reorganisation may go; none on a node that takes no part in the voting. Held for
    /// a copy only.
    protected: Mutex<Option<BlockInfo>>,
    /// Seals blocks; none on a node that only follows.
    signer: Option<Arc<dyn BlockSigner>>,
    /// What is kept over restarts; none where everything is computed anew.
    records: Option<Arc<dyn EngineRecords>>,
}

impl fmt::Debug for NativeEngine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("NativeEngine").field("switch_block", &self.consensus().switch_block).finish()
    }
}

impl NativeEngine {
    /// An engine for this chain that reads candidates from the state and the time from the host.
    ///
    /// # Errors
    /// [`NativeError::NotNative`].
    pub fn new(spec: &Arc<ChainSpec>) -> Result<Self, NativeError> {
        Self::with(spec, Arc::new(ContractCandidates), Arc::new(system_time))
    }

    /// An engine for headers without state (`tenon verify-headers`): everything is checked but the lists that
    /// follow from the voting contract.
    ///
    /// # Errors
    /// [`NativeError::NotNative`].
    pub fn for_headers_alone(spec: &Arc<ChainSpec>) -> Result<Self, NativeError> {
        Self::with(spec, Arc::new(HeadersAlone), Arc::new(system_time))
    }

    /// An engine with another source of candidates and another clock. Headers later than the clock are refused.
    ///
    /// # Errors
    /// [`NativeError::NotNative`].
    pub fn with(spec: &Arc<ChainSpec>, source: Arc<dyn MasternodeSource>, clock: Clock) -> Result<Self, NativeError> {
        let settings = Arc::new(spec.native.clone().ok_or(NativeError::NotNative(spec.chain_id))?);
        let (signers, signing) = (Arc::new(SignerCache::default()), Arc::new(SigningIndex::default()));
        let v1 = V1Engine::new(Arc::clone(&settings), Arc::clone(&signers), Arc::clone(&source), Arc::clone(&signing));
        let v2 =
            V2Engine::new(Arc::clone(spec), Arc::clone(&settings), Arc::clone(&signers), source, Arc::clone(&signing));
        Ok(Self { settings, v1, v2, signers, signing, clock, protected: Mutex::new(None), signer: None, records: None })
    }

    /// An engine that keeps over restarts what `docs/spec/consensus.md` 17 recommends: the candidates of gap blocks,
    /// also when their state is pruned by the time they are needed, and its part in the voting.
    ///
    /// # Errors
    /// [`NativeError::NotNative`]; [`NativeError::Store`] when what was kept cannot be read.
    pub fn keeping(spec: &Arc<ChainSpec>, records: Arc<dyn EngineRecords>) -> Result<Self, NativeError> {
        Self::keeping_with(spec, Arc::new(ContractCandidates), Arc::new(system_time), records)
    }

    /// As [`NativeEngine::keeping`], with another source of candidates and another clock.
    ///
    /// # Errors
    /// See [`NativeEngine::keeping`].
    pub fn keeping_with(
        spec: &Arc<ChainSpec>,
        source: Arc<dyn MasternodeSource>,
        clock: Clock,
        records: Arc<dyn EngineRecords>,
    ) -> Result<Self, NativeError> {
        let epoch = spec.native.as_ref().ok_or(NativeError::NotNative(spec.chain_id))?.consensus.epoch;
        let source = Arc::new(KeptCandidates::new(source, Arc::clone(&records), epoch));
        let engine = Self { records: Some(records), ..Self::with(spec, source, clock)? };
        if let Some(committed) = engine.voting_state()?.committed {
            engine.protect(committed);
        }
        Ok(engine)
    }

    /// An engine for questions about any block: it knows the candidates that another engine has kept, and keeps nothing.
    ///
    /// # Errors
    /// [`NativeError::NotNative`].
    pub fn reading(spec: &Arc<ChainSpec>, records: Arc<dyn EngineRecords>) -> Result<Self, NativeError> {
        let epoch = spec.native.as_ref().ok_or(NativeError::NotNative(spec.chain_id))?.consensus.epoch;
        let source = KeptCandidates::reading(Arc::new(ContractCandidates), records, epoch);
        Self::with(spec, Arc::new(source), Arc::new(system_time))
    }

    /// This node's part in the voting as it was kept last; that of a node that never voted when nothing was.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn voting_state(&self) -> Result<VotingState, StoreError> {
        self.records.as_ref().map_or_else(|| Ok(VotingState::default()), |records| voting_state(&**records))
    }

    /// Keeps this node's part in the voting. To be called before a vote or timeout that follows from the state leaves
    /// the node: only then does a restart never sign a second one for the round. The block that is committed in it
    /// is protected from now on.
    ///
    /// # Errors
    /// [`StoreError`]; what the state led to must then not be sent.
    pub fn keep_voting_state(&self, state: &VotingState) -> Result<(), StoreError> {
        if let Some(records) = &self.records {
            keep_voting_state(&**records, state)?;
        }
        if let Some(committed) = state.committed {
            self.protect(committed);
        }
        Ok(())
    }

    /// Seals with what this account signs. One account makes a quorum only where it is the only masternode, as on a
    /// development network; there every round has its block.
    #[must_use]
    pub fn sealing_with(mut self, signer: Arc<dyn BlockSigner>) -> Self {
        self.signer = Some(signer);
        self
    }

    /// Refuses from now on to undo this block, which the voting has committed ([`v2::Action::Committed`]).
    ///
    /// Only what a node has seen committed while it followed the voting is protected. A node that imports files
    /// accepts whichever branch is longer, as the reference does: what the certificates inside a branch commit is
    /// no reason to refuse the other (recorded chain `reorg`, whose longer branch forks below).
    pub fn protect(&self, committed: BlockInfo) {
        *self.protected.lock() = Some(committed);
    }

    /// The consensus parameters.
    pub fn consensus(&self) -> &NativeConsensus {
        &self.settings.consensus
    }

    /// The rules up to the switch block.
    pub const fn v1(&self) -> &V1Engine {
        &self.v1
    }

    /// The rules after the switch block.
    pub const fn v2(&self) -> &V2Engine {
        &self.v2
    }

    /// The signing transactions that this engine has read.
    pub(super) fn signing(&self) -> &SigningIndex {
        &self.signing
    }

    /// Whether the block of this height is one of engine v2.
    pub fn is_v2(&self, number: u64) -> bool {
        number > self.consensus().switch_block
    }

    /// The rewards that a block pays, in detail; none when it pays none (`docs/spec/consensus.md` 11). Reads the state
    /// after the parent, which must be canonical.
    ///
    /// # Errors
    /// [`NativeError::Reward`], [`NativeError::Store`].
    pub fn epoch_rewards(&self, header: &Header, chain: &dyn ChainReader) -> Result<Option<EpochRewards>, NativeError> {
        if !rewards::pays_rewards(&self.settings, header)? {
            return Ok(None);
        }
        let state = chain.state_at(BlockNumber(header.number.saturating_sub(1)))?;
        Ok(rewards::of_block(&self.settings, header, &*state, chain, &self.signing)?)
    }

    /// The clock's time, Unix seconds.
    pub(super) fn now(&self) -> u64 {
        (self.clock)()
    }

    /// [`ConsensusEngine::verify_header`] with an error that can be told apart.
    ///
    /// # Errors
    /// The [`NativeError`] of the first rule that is broken.
    pub fn check_header(
        &self,
        header: &SealedHeader,
        parent: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<(), NativeError> {
        let now = Some(self.now());
        if self.is_v2(header.number) {
            self.v2.verify_header(header, parent, chain, now)?;
        } else {
            self.v1.verify_header(header, parent, chain, now)?;
        }
        Ok(())
    }

    /// Whether the place of the author's signature is empty.
    fn is_unsealed(&self, header: &Header) -> bool {
        if self.is_v2(header.number) {
            return header.native_seal.as_ref().is_none_or(|seal| seal.validator.is_empty());
        }
        let start = header.extra_data.len().saturating_sub(SEAL_BYTES);
        header.extra_data[start..].iter().all(|byte| *byte == 0)
    }

    fn check_body(&self, block: &Block) -> Result<(), NativeError> {
        if !block.ommers.is_empty() {
            return Err(if self.is_v2(block.header.number) { V2Error::Uncles.into() } else { V1Error::Uncles.into() });
        }
        let (found, wanted) = (ommers_hash(&block.ommers), block.header.ommers_hash);
        if found != wanted {
            return Err(NativeError::UnclesRoot { found, wanted });
        }
        let (found, wanted) = (transactions_root(&block.transactions), block.header.transactions_root);
        if found != wanted {
            return Err(NativeError::TransactionsRoot { found, wanted });
        }
        if block.withdrawals.is_some() {
            return Err(NativeError::Withdrawals);
        }
        Ok(())
    }

    fn prepare_next_round(
        &self,
        parent: &SealedHeader,
        attributes: &SealAttributes,
        chain: &dyn ChainReader,
    ) -> Result<Header, NativeError> {
        let signer = self.signer.as_deref().ok_or(NativeError::NoKey)?;
        if !self.is_v2(parent.number.saturating_add(1)) {
            return Ok(self.v1.prepare(parent, signer.address(), attributes, chain)?);
        }
        if attributes.beneficiary != signer.address() {
            return Err(V2Error::WalletAddress.into());
        }
        let quorum = self.v2.certify(parent, signer, chain)?;
        let round = quorum.block.round.saturating_add(1);
        Ok(self.v2.prepare(parent, round, quorum, attributes, chain)?)
    }
}

fn system_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

/// Ties a refusal to its block.
fn of(header: &SealedHeader) -> impl FnOnce(NativeError) -> ConsensusError + '_ {
    |error| ConsensusError { number: BlockNumber(header.number), hash: header.hash(), reason: error.to_string() }
}

impl ConsensusEngine for NativeEngine {
    fn name(&self) -> &'static str {
        "native"
    }

    /// The least distance of two blocks, which is what they have while no round fails. Of engine v2 the latest parameters
    /// count, so that a node far behind is measured by what the network does now.
    fn pace(&self, head: &SealedHeader) -> Option<Duration> {
        let consensus = self.consensus();
        let is_v2 = self.is_v2(head.number.saturating_add(1));
        let seconds = if is_v2 { consensus.at_round(u64::MAX).mine_period } else { consensus.period };
        Some(Duration::from_secs(seconds.max(1)))
    }

    fn verify_header(
        &self,
        header: &SealedHeader,
        parent: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<(), ConsensusError> {
        self.check_header(header, parent, chain).map_err(of(header))
    }

    /// Recovers the seals and, in v2, the up to hundred signatures of each certificate, which are nearly all that
    /// verifying costs, in one batch. What is found is remembered by digest and signature, so that a wrong header gains
    /// nothing.
    fn recover_ahead(&self, headers: &[&SealedHeader]) {
        let signed_in = |header: &&SealedHeader| {
            if self.is_v2(header.number) { V2Engine::signed_in(header) } else { V1Engine::signed_in(header) }
        };
        let signed: Vec<(B256, Bytes)> = headers.iter().flat_map(signed_in).collect();
        let signed: Vec<(B256, &[u8])> = signed.iter().map(|(digest, signature)| (*digest, &signature[..])).collect();
        // A signature without a signer is refused where its header is verified.
        signed.par_chunks(SIGNATURES_PER_BATCH).for_each(|signed| drop(self.signers.recover_each(signed)));
    }

    fn verify_body(&self, block: &Block, _chain: &dyn ChainReader) -> Result<(), ConsensusError> {
        self.check_body(block).map_err(of(&block.header))
    }

    /// The greater total difficulty wins, and among equals the greater height (`docs/spec/consensus.md` 8.3). In v2,
    /// where every block adds 1, that is the longest chain, the first seen among equals.
    fn is_better(&self, candidate: &SealedHeader, candidate_total_difficulty: U256, head: &Head) -> bool {
        (candidate_total_difficulty, candidate.number) > (head.total_difficulty, head.header.number)
    }

    /// A block that the voting committed is never undone (`docs/spec/consensus.md` 8.3).
    fn verify_reorganisation(
        &self,
        common_ancestor: BlockNumber,
        head: &Head,
        _chain: &dyn ChainReader,
    ) -> Result<(), ConsensusError> {
        let protected = *self.protected.lock();
        match protected {
            Some(BlockInfo { number, hash, .. }) if number > common_ancestor.0 => {
                Err(of(&head.header)(V2Error::UndoesCommitted { number, hash }.into()))
            }
            _ => Ok(()),
        }
    }

    /// Who signed the block; the genesis has nobody, which counts as the zero address (`docs/spec/chain.md` 1.2). A
    /// block without a seal is one that this node is making, and has the author that it will be sealed by.
    fn author(&self, header: &SealedHeader) -> Result<Address, ConsensusError> {
        if header.number == 0 {
            return Ok(Address::ZERO);
        }
        if let Some(signer) = self.signer.as_ref().filter(|_| self.is_unsealed(header)) {
            return Ok(signer.address());
        }
        let author = if self.is_v2(header.number) {
            self.v2.author(header).map_err(NativeError::from)
        } else {
            self.v1.author(header).map_err(NativeError::from)
        };
        author.map_err(of(header))
    }

    fn opens_epoch(&self, header: &SealedHeader) -> Result<bool, ConsensusError> {
        if !self.is_v2(header.number) {
            return Ok(header.number.is_multiple_of(self.settings.consensus.epoch.max(1)));
        }
        v2::is_epoch_switch(&self.settings.consensus, header).map_err(|error| of(header)(error.into()))
    }

    fn rewards(&self, block: &Block, chain: &dyn ChainReader) -> Result<Vec<(Address, U256)>, ConsensusError> {
        let rewards = self.epoch_rewards(&block.header, chain).map_err(of(&block.header))?;
        Ok(rewards.map(|rewards| rewards.credits()).unwrap_or_default())
    }

    fn prepare(
        &self,
        parent: &SealedHeader,
        attributes: &SealAttributes,
        chain: &dyn ChainReader,
    ) -> Result<Header, ConsensusError> {
        self.prepare_next_round(parent, attributes, chain).map_err(of(parent))
    }

    fn seal(&self, header: Header) -> Result<SealedHeader, ConsensusError> {
        let sealed = match self.signer.as_deref() {
            Some(signer) if self.is_v2(header.number) => {
                v2::seal(header.clone(), signer).map_err(|error| V2Error::from(error).into())
            }
            Some(signer) => self.v1.seal(header.clone(), signer).map_err(NativeError::from),
            None => Err(NativeError::NoKey),
        };
        sealed.map_err(|error| of(&tenon_chain::seal(header))(error))
    }

    fn observe(&self, block: &RecoveredBlock) {
        self.signing.observe(block);
    }

    /// The committed block (`docs/spec/consensus.md` 8.1, 8.2); nothing is final in v1. Also where the candidates of a
    /// gap block are read, because its state is the newest one now and may be pruned when they are needed.
    fn finality(&self, head: &SealedHeader, chain: &dyn ChainReader) -> (Option<BlockNumber>, Option<BlockNumber>) {
        let remembered = if self.is_v2(head.number) {
            self.v2.remember_candidates(head, chain).map_err(NativeError::from)
        } else {
            self.v1.remember_candidates(head, chain).map_err(NativeError::from)
        };
        if let Err(error) = remembered {
            tracing::warn!(number = head.number, hash = %head.hash(), %error, "candidates of the gap block not read");
        }
        if !self.is_v2(head.number) {
            return (None, None);
        }
        match self.v2.committed(head, chain) {
            Ok(committed) => (committed, committed),
            Err(error) => {
                tracing::warn!(number = head.number, hash = %head.hash(), %error, "committed block not known");
                (None, None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::{recorded_chain::RecordedChain, recorded_state::ModelledChain};

    fn engine(chain: &RecordedChain) -> NativeEngine {
        NativeEngine::with(&chain.spec, Arc::new(HeadersAlone), Arc::new(|| u64::MAX)).unwrap()
    }

    #[test]
    fn every_block_of_the_local_chain_passes_through_the_port() {
        let chain = RecordedChain::local();
        let engine = engine(&chain);
        for pair in chain.blocks.windows(2) {
            let (parent, block) = (&pair[0], &pair[1]);
            engine.verify_header(&block.header, &parent.header, &*chain).unwrap();
            engine.verify_body(block, &*chain).unwrap();
            assert_eq!(engine.author(&block.header).unwrap(), block.header.beneficiary);
        }
        assert_eq!(engine.author(chain.at(0)).unwrap(), Address::ZERO);
        assert_eq!(engine.finality(chain.at(673), &*chain), (Some(BlockNumber(670)), Some(BlockNumber(670))));
    }

    #[test]
    fn epochs_open_at_multiples_in_v1_and_by_rounds_in_v2() {
        let opens = |name| {
            let chain = RecordedChain::read(name, &format!("chain/native-genesis-{name}.json.gz"));
            let engine = engine(&chain);
            let headers = chain.blocks[1..].iter().map(|block| &block.header);
            let opening: Vec<u64> =
                headers.filter(|header| engine.opens_epoch(header).unwrap()).map(|header| header.number).collect();
            (opening, chain.settings().consensus.clone())
        };
        let (local, _) = opens("local");
        assert_eq!(local, [1, 60, 120, 168, 228, 288, 348, 407, 461, 520, 580, 640]);
        let (switched, rules) = opens("v1switch");
        let in_v1: Vec<u64> = (1..=rules.switch_block).filter(|number| number % rules.epoch == 0).collect();
        assert!(!in_v1.is_empty() && switched.starts_with(&in_v1), "{switched:?}");
        assert_eq!(switched[in_v1.len()], rules.switch_block + 1);
    }

    /// Whole chains, both engines, with the candidates of every gap block, the revelations and the owners read
    /// from a model of the contracts' state: every list is computed and compared.
    #[test]
    fn every_block_of_the_recorded_chains_passes_with_the_contracts_state() {
        for (name, blocks, committed) in [("local", 673, 670), ("staged", 1149, 1146), ("v1switch", 2738, 2735)] {
            let chain = ModelledChain::read(name);
            let spec = &chain.chain.spec;
            let engine = NativeEngine::with(spec, Arc::new(ContractCandidates), Arc::new(|| u64::MAX)).unwrap();
            for pair in chain.chain.blocks.windows(2) {
                let (parent, block) = (&pair[0], &pair[1]);
                let verdict = engine.verify_header(&block.header, &parent.header, &chain);
                assert!(verdict.is_ok(), "{name}: {}", verdict.unwrap_err());
                engine.verify_body(block, &chain).unwrap();
                engine.author(&block.header).unwrap();
            }
            let head = chain.head().header.clone();
            assert_eq!(head.number, blocks);
            assert_eq!(engine.finality(&head, &chain).0, Some(BlockNumber(committed)), "{name}");
        }
    }

    #[test]
    fn a_body_must_be_the_headers_and_without_uncles() {
        let chain = RecordedChain::local();
        let engine = engine(&chain);
        let with_transactions = chain.blocks.iter().find(|block| block.transactions.len() > 3).unwrap();
        let refusal = |change: fn(&mut Block)| {
            let mut block = with_transactions.block.clone();
            change(&mut block);
            engine.verify_body(&block, &*chain).unwrap_err().reason
        };

        assert_eq!(refusal(|block| block.ommers.push(block.header.header().clone())), "uncles not allowed in XDPoS_v2");
        assert!(refusal(|block| block.transactions.swap(0, 1)).starts_with("transaction root hash mismatch: have "));
        assert!(refusal(|block| drop(block.transactions.pop())).starts_with("transaction root hash mismatch: have "));
        assert_eq!(refusal(|block| block.withdrawals = Some(Vec::new())), "withdrawals in a native block");
    }

    #[test]
    fn the_longest_chain_wins_and_the_first_among_equals() {
        let chain = RecordedChain::local();
        let engine = engine(&chain);
        let head = Head { total_difficulty: U256::from(100), ..(*chain.head()).clone() };
        let head = Head { header: Arc::new(chain.at(99).clone()), ..head };

        assert!(engine.is_better(chain.at(100), U256::from(101), &head));
        assert!(!engine.is_better(chain.at(99), U256::from(100), &head));
        assert!(engine.is_better(chain.at(100), U256::from(100), &head));
        assert!(!engine.is_better(chain.at(100), U256::from(99), &head));
    }

    #[test]
    fn a_block_that_the_voting_committed_is_not_undone() {
        let chain = RecordedChain::local();
        let engine = engine(&chain);
        let head = chain.head();

        assert!(engine.verify_reorganisation(BlockNumber(1), &head, &*chain).is_ok());
        engine.protect(BlockInfo { hash: chain.at(670).hash(), round: 690, number: 670 });
        assert!(engine.verify_reorganisation(BlockNumber(670), &head, &*chain).is_ok());
        let error = engine.verify_reorganisation(BlockNumber(669), &head, &*chain).unwrap_err();
        assert_eq!(
            error.reason,
            format!(
                "stop reorg, blockchain is under forking attack. OldCommitted num 670, hash {:#x}",
                chain.at(670).hash()
            )
        );
    }

    #[test]
    fn a_header_from_the_future_is_refused_until_its_time_has_come() {
        let chain = RecordedChain::local();
        let time = chain.at(100).timestamp;
        for (now, accepted) in [(time - 1, false), (time, true)] {
            let engine = NativeEngine::with(&chain.spec, Arc::new(HeadersAlone), Arc::new(move || now)).unwrap();
            assert_eq!(engine.verify_header(chain.at(100), chain.at(99), &*chain).is_ok(), accepted);
        }
    }

    /// Certificates that were recovered ahead are not recovered again: an engine that has nothing else to do then
    /// judges as one that recovers in its turn.
    #[test]
    fn a_header_whose_signers_were_recovered_ahead_is_judged_alike() {
        let chain = RecordedChain::local();
        let (ahead, in_turn) = (engine(&chain), engine(&chain));
        let mut spoilt = chain.at(100).header().clone();
        let seal = spoilt.native_seal.as_mut().unwrap();
        seal.validator = vec![0xff; 65].into();
        for (header, parent) in
            [(chain.at(100).clone(), 99), (chain.at(101).clone(), 100), (tenon_chain::seal(spoilt), 99)]
        {
            ahead.recover_ahead(&[&header]);
            let verdicts = [&ahead, &in_turn].map(|engine| engine.verify_header(&header, chain.at(parent), &*chain));
            assert_eq!(verdicts[0], verdicts[1]);
        }
    }
}
