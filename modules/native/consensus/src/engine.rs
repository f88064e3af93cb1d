//! The native engine's implementation of the engine port.

use std::{
    error::Error,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use rayon::prelude::*;
use tenon_api::{
    Address, B256, Block, BlockNumber, BlockRewards, BlockSigner, Bytes, ChainReader, ConsensusEngine, ConsensusError,
    EngineRecords, Head, Header, RecoveredBlock, RefusalCause, SealAttributes, SealedHeader, StateReader, StoreError,
    U256,
};
use tenon_chain::{ChainSpec, ommers_hash, transactions_root};
use tenon_native_spec::{NativeConsensus, NativeSettings};

use super::{
    ancestry::{required, state_after},
    candidates::{ContractCandidates, MasternodeSource},
    extra::SEAL_BYTES,
    messages::BlockInfo,
    records::{RecordedCandidates, VotingState, voting_signer, voting_state, write_voting_signer, write_voting_state},
    rewards::{self, EpochRewards, RewardError},
    signers::SignerCache,
    signing::SigningIndex,
    v1::{V1Engine, V1Error},
    v2::{self, V2Engine, V2Error, sampling::BoundHeaders},
};

/// Signatures that one thread recovers ahead in one batch: enough to amortise a batch, few enough to lock the cache of
/// signers for microseconds only.
const SIGNATURES_PER_BATCH: usize = 256;

/// Why the native engine refuses a block.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    /// A rule of engine v1.
    #[error(transparent)]
    V1(#[from] V1Error),
    /// A rule of engine v2.
    #[error(transparent)]
    V2(#[from] V2Error),
    /// Rewards could not be computed.
    #[error(transparent)]
    Reward(#[from] RewardError),
    /// The chain could not be read.
    #[error("chain not readable: {0}")]
    Store(#[from] StoreError),
    /// The uncles do not match the header (`docs/spec/chain.md` 1.6).
    #[error("uncle root hash mismatch: have {found:x}, want {wanted:x}")]
    UnclesRoot {
        /// Computed from the body.
        found: B256,
        /// Stated in the header.
        wanted: B256,
    },
    /// The transactions do not match the header (`docs/spec/chain.md` 1.6).
    #[error("transaction root hash mismatch: have {found:x}, want {wanted:x}")]
    TransactionsRoot {
        /// Computed from the body.
        found: B256,
        /// Stated in the header.
        wanted: B256,
    },
    /// Native blocks have no withdrawals.
    #[error("withdrawals in a native block")]
    Withdrawals,
    /// The chain has no native rules.
    #[error("chain {0} has no native consensus")]
    NotNative(u64),
    /// Making blocks needs a masternode's key.
    #[error("not ready to mine: this node has no masternode key")]
    NoKey,
}

impl NativeError {
    /// Whether the block is invalid, is not due yet, or could not be checked: a missing snapshot or an unreadable chain
    /// does not make it invalid.
    fn cause(&self) -> RefusalCause {
        match self {
            Self::V1(V1Error::FutureBlock) | Self::V2(V2Error::FutureBlock) => RefusalCause::NotYetDue,
            Self::V2(V2Error::NoSnapshot) | Self::Reward(_) | Self::NotNative(_) | Self::NoKey => {
                RefusalCause::OwnFailure
            }
            _ if self.is_missing_ancestor() || store_error(self).is_some() => RefusalCause::OwnFailure,
            _ => RefusalCause::BrokenRule,
        }
    }
}

/// The database's error that caused an error; `None` if it has another cause.
pub(super) fn store_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a StoreError> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(found) = cause.downcast_ref() {
            return Some(found);
        }
        next = cause.source();
    }
    None
}

/// The state before a block, on its own branch.
fn state_before(header: &Header, chain: &dyn ChainReader) -> Result<Arc<dyn StateReader>, StoreError> {
    let parent = required(chain, header.parent_hash)?;
    let unknown = || StoreError::UnknownBlock { what: format!("{} ({})", parent.number, parent.hash()) };
    state_after(chain, &parent)?.ok_or_else(unknown)
}

/// Unix time in seconds.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// A source without state: lists that depend on candidates are taken from the headers without a check.
#[derive(Clone, Copy, Debug, Default)]
struct HeadersAlone;

impl MasternodeSource for HeadersAlone {
    fn candidates(&self, _: &SealedHeader, _: &dyn ChainReader) -> Result<Option<Arc<[Address]>>, StoreError> {
        Ok(None)
    }
}

/// The rules of native chains: v1 up to the switch block, v2 after it (`docs/spec/consensus.md` 1.1).
#[derive(derive_more::Debug)]
#[debug("NativeEngine(switch_block: {:?})", self.consensus().switch_block)]
pub struct NativeEngine {
    settings: Arc<NativeSettings>,
    v1: V1Engine,
    v2: Arc<V2Engine>,
    /// Shared by both engines.
    signers: Arc<SignerCache>,
    signing: Arc<SigningIndex>,
    clock: Clock,
    /// The block below which no reorganisation may go; `None` on a node that does not vote. Locked only to copy the
    /// value.
    protected: Mutex<Option<BlockInfo>>,
    /// The headers of an import whose certificates are bound to later ones; `None` if every certificate is verified.
    bound: Option<BoundHeaders>,
    /// Seals blocks; `None` on a node that only follows.
    signer: Option<Arc<dyn BlockSigner>>,
    /// Records kept across restarts; `None` if everything is recomputed.
    records: Option<Arc<dyn EngineRecords>>,
}

impl NativeEngine {
    /// An engine for this chain with candidates from the state and the system clock.
    ///
    /// # Errors
    /// [`NativeError::NotNative`].
    pub fn new(spec: &Arc<ChainSpec>) -> Result<Self, NativeError> {
        Self::with(spec, Arc::new(ContractCandidates), Arc::new(system_time))
    }

    /// An engine for headers without state (`tenon verify-headers`): it checks everything except lists that depend on
    /// the voting contract.
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
        Self::with_signers(spec, source, clock, Arc::default())
    }

    fn with_signers(
        spec: &Arc<ChainSpec>,
        source: Arc<dyn MasternodeSource>,
        clock: Clock,
        signers: Arc<SignerCache>,
    ) -> Result<Self, NativeError> {
        let settings = Arc::new(NativeSettings::of(spec).cloned().ok_or(NativeError::NotNative(spec.chain_id))?);
        let signing = Arc::new(SigningIndex::default());
        let v1 = V1Engine::new(Arc::clone(&settings), Arc::clone(&signers), Arc::clone(&source), Arc::clone(&signing));
        let v2 =
            V2Engine::new(Arc::clone(spec), Arc::clone(&settings), Arc::clone(&signers), source, Arc::clone(&signing));
        let v2 = Arc::new(v2);
        let protected = Mutex::new(None);
        Ok(Self { settings, v1, v2, signers, signing, clock, protected, bound: None, signer: None, records: None })
    }

    /// Creates an engine that keeps records across restarts (`docs/spec/consensus.md` 17): the candidates of gap blocks,
    /// whose state may be pruned before they are needed, and this node's voting state.
    ///
    /// # Errors
    /// [`NativeError::NotNative`]; [`NativeError::Store`] if the records cannot be read.
    pub fn keeping(spec: &Arc<ChainSpec>, records: Arc<dyn EngineRecords>) -> Result<Self, NativeError> {
        Self::with_records_and_source(spec, Arc::new(ContractCandidates), Arc::new(system_time), records)
    }

    /// Like [`NativeEngine::keeping`], with another source of candidates and another clock.
    ///
    /// # Errors
    /// See [`NativeEngine::keeping`].
    pub fn with_records_and_source(
        spec: &Arc<ChainSpec>,
        source: Arc<dyn MasternodeSource>,
        clock: Clock,
        records: Arc<dyn EngineRecords>,
    ) -> Result<Self, NativeError> {
        Self::with_records_source_and_signers(spec, source, clock, records, Arc::default())
    }

    /// Like [`NativeEngine::with_records_and_source`], with a cache of signers that several engines of a process share: each
    /// signature is recovered once for all simulated nodes of a network.
    ///
    /// # Errors
    /// See [`NativeEngine::keeping`].
    pub fn with_records_source_and_signers(
        spec: &Arc<ChainSpec>,
        source: Arc<dyn MasternodeSource>,
        clock: Clock,
        records: Arc<dyn EngineRecords>,
        signers: Arc<SignerCache>,
    ) -> Result<Self, NativeError> {
        let epoch = NativeSettings::of(spec).ok_or(NativeError::NotNative(spec.chain_id))?.consensus.epoch;
        let source = Arc::new(RecordedCandidates::new(source, Arc::clone(&records), epoch));
        let engine = Self { records: Some(records), ..Self::with_signers(spec, source, clock, signers)? };
        if let Some(committed) = engine.voting_state()?.committed {
            engine.protect(committed);
        }
        Ok(engine)
    }

    /// An engine for queries on any block: it reads the candidates that another engine has recorded, and records
    /// nothing.
    ///
    /// # Errors
    /// [`NativeError::NotNative`].
    pub fn reading(spec: &Arc<ChainSpec>, records: Arc<dyn EngineRecords>) -> Result<Self, NativeError> {
        let epoch = NativeSettings::of(spec).ok_or(NativeError::NotNative(spec.chain_id))?.consensus.epoch;
        let source = RecordedCandidates::reading(Arc::new(ContractCandidates), records, epoch);
        Self::with(spec, Arc::new(source), Arc::new(system_time))
    }

    /// Returns this node's recorded voting state, or the default if there is no record because the node never voted.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn voting_state(&self) -> Result<VotingState, StoreError> {
        self.records.as_ref().map_or_else(|| Ok(VotingState::default()), |records| voting_state(&**records))
    }

    /// Records this node's voting state. Call it before a vote or timeout derived from the state leaves the node: this
    /// guarantees that the node does not sign a second one for the round after a restart. Also protects the block that
    /// is committed in the state.
    ///
    /// # Errors
    /// [`StoreError`]; the messages derived from the state must then not be sent.
    pub fn write_voting_state(&self, state: &VotingState) -> Result<(), StoreError> {
        if let Some(records) = &self.records {
            write_voting_state(&**records, state)?;
        }
        if let Some(committed) = state.committed {
            self.protect(committed);
        }
        Ok(())
    }

    /// The masternode that has signed last on this node. `None` if none has, or if its key was seen to be used by another
    /// node.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn voting_signer(&self) -> Result<Option<Address>, StoreError> {
        self.records.as_ref().map_or(Ok(None), |records| voting_signer(&**records))
    }

    /// Records which masternode signs on this node. Call it before the masternode's first signature.
    ///
    /// # Errors
    /// [`StoreError`]; nothing must then be signed.
    pub fn write_voting_signer(&self, signer: Option<Address>) -> Result<(), StoreError> {
        self.records.as_ref().map_or(Ok(()), |records| write_voting_signer(&**records, signer))
    }

    /// Seals blocks with this account. One account is a quorum only if it is the only masternode, as on a development
    /// network; there every round has a block.
    #[must_use]
    pub fn sealing_with(mut self, signer: Arc<dyn BlockSigner>) -> Self {
        self.signer = Some(signer);
        self
    }

    /// With `is_sampled`, a certificate of an imported block is verified without its signatures if a later block of the
    /// epoch binds it by hash. Exceptions are those of epoch switches, of every hundredth block
    /// ([`v2::VERIFIED_EVERY`]) and of the last day ([`v2::VERIFIED_AGE`]). Without `is_sampled`, every certificate is
    /// verified in full.
    #[must_use]
    pub fn sampling_certificates(self, is_sampled: bool) -> Self {
        Self { bound: is_sampled.then(BoundHeaders::default), ..self }
    }

    /// Refuses from now on to undo this block, which the voting has committed.
    ///
    /// Protects only blocks that the node saw committed while it followed the voting. A node that imports files accepts
    /// the longer branch, like the reference: blocks committed by certificates inside one branch are no reason to
    /// refuse another branch (recorded chain `reorg`, whose longer branch forks below them).
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
    pub const fn v2(&self) -> &Arc<V2Engine> {
        &self.v2
    }

    /// The cache of signing transactions.
    pub(super) fn signing(&self) -> &SigningIndex {
        &self.signing
    }

    /// Returns whether the block of this height is one of engine v2.
    pub fn is_v2(&self, number: u64) -> bool {
        number > self.consensus().switch_block
    }

    /// The rewards paid by a block, in detail; `None` if it pays none (`docs/spec/consensus.md` 11). Reads the state
    /// after the parent, on the block's own branch.
    ///
    /// # Errors
    /// [`NativeError::Reward`], [`NativeError::Store`].
    pub fn epoch_rewards(&self, header: &Header, chain: &dyn ChainReader) -> Result<Option<EpochRewards>, NativeError> {
        if !rewards::pays_rewards(&self.settings, header)? {
            return Ok(None);
        }
        let state = state_before(header, chain)?;
        Ok(rewards::of_block(&self.settings, header, &*state, chain, &self.signing)?)
    }

    /// The clock's time, Unix seconds.
    pub(super) fn now(&self) -> u64 {
        (self.clock)()
    }

    /// [`ConsensusEngine::verify_header`] with a typed error.
    ///
    /// # Errors
    /// The [`NativeError`] of the first broken rule.
    pub fn check_header(
        &self,
        header: &SealedHeader,
        parent: &SealedHeader,
        chain: &dyn ChainReader,
    ) -> Result<(), NativeError> {
        let now = Some(self.now());
        if self.is_v2(header.number) {
            let anchor = self.bound.as_ref().and_then(|bound| bound.take(header.hash()));
            self.v2.verify_header_bound(header, parent, chain, now, anchor.as_deref())?;
        } else {
            self.v1.verify_header(header, parent, chain, now)?;
        }
        Ok(())
    }

    /// Returns whether the author's signature is missing.
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

/// Converts an error into one that names the block.
fn of(header: &SealedHeader) -> impl FnOnce(NativeError) -> ConsensusError + '_ {
    |error| ConsensusError {
        number: BlockNumber(header.number),
        hash: header.hash(),
        cause: error.cause(),
        reason: error.to_string(),
    }
}

impl ConsensusEngine for NativeEngine {
    fn name(&self) -> &'static str {
        "native"
    }

    /// The minimum time between two blocks, which is also the actual time as long as no round fails. Engine v2 uses the
    /// latest parameters, so that a node far behind is measured by the network's current interval.
    fn min_block_interval(&self, head: &SealedHeader) -> Option<Duration> {
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

    /// Recovers, in one batch, the signers of the seals and, in v2, of the up to one hundred signatures of each
    /// certificate: nearly the whole cost of verification. Results are cached by digest and signature, so an invalid
    /// header cannot affect the verification of another one.
    fn recover_ahead(&self, headers: &[&SealedHeader]) {
        let bound = self.bound.as_ref().map(|bound| bound.note(headers, self.consensus(), self.now()));
        let is_bound = |header: &SealedHeader| bound.as_ref().is_some_and(|bound| bound.contains(&header.hash()));
        let signed_in = |header: &&SealedHeader| match self.is_v2(header.number) {
            true => V2Engine::signed_in(header, is_bound(header)),
            false => V1Engine::signed_in(header),
        };
        let signed: Vec<(B256, Bytes)> = headers.iter().flat_map(signed_in).collect();
        let signed: Vec<(B256, &[u8])> = signed.iter().map(|(digest, signature)| (*digest, &signature[..])).collect();
        // Ignores errors here: verification refuses a header with an unrecoverable signature.
        signed.par_chunks(SIGNATURES_PER_BATCH).for_each(|signed| drop(self.signers.recover_each(signed)));
    }

    fn verify_body(&self, block: &Block, _chain: &dyn ChainReader) -> Result<(), ConsensusError> {
        self.check_body(block).map_err(of(&block.header))
    }

    /// The greater total difficulty wins, and among equals the greater height (`docs/spec/consensus.md` 8.3). In v2,
    /// where every block adds 1, that is the longest chain, and the first seen among equals.
    fn is_better(&self, candidate: &SealedHeader, candidate_total_difficulty: U256, head: &Head) -> bool {
        (candidate_total_difficulty, candidate.number) > (head.total_difficulty, head.header.number)
    }

    /// A block committed by the voting is never undone (`docs/spec/consensus.md` 8.3).
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

    /// Returns the block's signer; the zero address for the genesis (`docs/spec/chain.md` 1.2). If the block has no
    /// seal, this node is making it, and its author is the account that will seal it.
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

    fn rewards(&self, block: &Block, chain: &dyn ChainReader) -> Result<BlockRewards, ConsensusError> {
        let rewards = self.epoch_rewards(&block.header, chain).map_err(of(&block.header))?;
        Ok(rewards.map(EpochRewards::into_block_rewards).unwrap_or_default())
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

    /// Records the candidates of a gap block, because its state is the newest one now and may be pruned before they are
    /// needed.
    fn observe_head(&self, head: &SealedHeader, chain: &dyn ChainReader) {
        let remembered = if self.is_v2(head.number) {
            self.v2.remember_candidates(head, chain).map_err(NativeError::from)
        } else {
            self.v1.remember_candidates(head, chain).map_err(NativeError::from)
        };
        if let Err(error) = remembered {
            tracing::warn!(number = head.number, hash = %head.hash(), %error, "could not read the candidates of the \
                gap block");
        }
    }

    /// Returns the committed block (`docs/spec/consensus.md` 8.1, 8.2); nothing is final in v1.
    fn finality(&self, head: &SealedHeader, chain: &dyn ChainReader) -> (Option<BlockNumber>, Option<BlockNumber>) {
        if !self.is_v2(head.number) {
            return (None, None);
        }
        match self.v2.committed(head, chain) {
            Ok(committed) => (committed, committed),
            Err(error) => {
                tracing::warn!(number = head.number, hash = %head.hash(), %error, "the last committed block cannot be \
                    determined");
                (None, None)
            }
        }
    }
}

#[cfg(test)]
mod tests;
