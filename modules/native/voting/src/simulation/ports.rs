//! The ports of a simulated node: a chain in memory, records that survive restarts, a pool, a clock, and an outbox.
//! Nothing is executed: a block's roots are those of empty tries.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use parking_lot::Mutex;
use tenon_api::{
    BatchObserver, Block, BlockNumber, BlockPort, BlockProductionError, BlockSigner, BlockVerdict, ChainReader,
    ConsensusEngine, ConsensusError, FailedBlock, Header, PeerTransactions, PendingTransactions, RecoveredBlock,
    RecoveredTransaction, RefusalCause, RoundBuilder, RoundMessage, RoundNetwork, SealedHeader, SignError,
    SignerMessage, StoreError, SubmitError,
};
use tenon_memory_chain::MemoryChain;
use tenon_native_consensus::v2::MasternodeKey;
use tenon_native_consensus::{MasternodeSource, NativeEngine};
use tenon_network_sync::{LocalChain, LocalHead};

use crate::actor::Input;
use crate::timing::Timing;

/// An output of the actor.
pub(super) enum ActorOutput {
    Round(RoundMessage),
    /// Send to all peers, including those that have it.
    Again(RoundMessage),
    Block(Arc<Block>, U256),
    Transaction(Bytes),
    /// Send to the actor itself after a delay.
    Later(Duration, Input),
}

/// Outputs of the actor that the world has not processed yet, in order.
#[derive(Clone, Default)]
pub(super) struct Outbox(Arc<Mutex<Vec<ActorOutput>>>);

impl Outbox {
    fn push(&self, said: ActorOutput) {
        self.0.lock().push(said);
    }

    pub(super) fn take(&self) -> Vec<ActorOutput> {
        std::mem::take(&mut self.0.lock())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

impl RoundNetwork for Outbox {
    fn broadcast(&self, message: RoundMessage) {
        self.push(ActorOutput::Round(message));
    }

    fn repeat(&self, message: RoundMessage) {
        self.push(ActorOutput::Again(message));
    }

    fn announce(&self, block: Arc<Block>, total_difficulty: U256) {
        self.push(ActorOutput::Block(block, total_difficulty));
    }
}

/// A node's own clock: Unix time in milliseconds, including the clock's error.
#[derive(Clone, Default)]
pub(super) struct OwnClock(Arc<AtomicU64>);

impl OwnClock {
    pub(super) fn set(&self, milliseconds: u64) {
        self.0.store(milliseconds, Ordering::Relaxed);
    }

    pub(super) fn seconds(&self) -> u64 {
        self.0.load(Ordering::Relaxed) / 1_000
    }
}

/// The actor's [`Timing`] with that clock.
pub(super) struct VirtualTiming(pub(super) OwnClock, pub(super) Outbox);

impl Timing for VirtualTiming {
    fn unix(&self) -> Duration {
        Duration::from_millis(self.0.0.load(Ordering::Relaxed))
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn later(&self, wait: Duration, input: Input) {
        self.1.push(ActorOutput::Later(wait, input));
    }
}

/// A masternode's key in another process: a signature arrives some time after it was requested. While there are faults,
/// the process is unavailable at first for one in eight requests.
pub(super) struct DelayedSigner {
    key: MasternodeKey,
    clock: OwnClock,
    outbox: Outbox,
    has_faults: Arc<AtomicBool>,
    /// By digest: whether the process has accepted the request, when the current wait ends, and how long it takes, in
    /// milliseconds.
    asked: Mutex<BTreeMap<B256, (bool, u64, u64)>>,
}

impl DelayedSigner {
    pub(super) fn new(key: MasternodeKey, clock: OwnClock, outbox: Outbox, has_faults: Arc<AtomicBool>) -> Self {
        Self { key, clock, outbox, has_faults, asked: Mutex::default() }
    }
}

impl BlockSigner for DelayedSigner {
    fn address(&self) -> Address {
        self.key.address()
    }

    fn sign(&self, _: B256) -> Result<[u8; 65], SignError> {
        panic!("every caller says what it signs");
    }

    fn sign_message(&self, _: SignerMessage<'_>, digest: B256) -> Result<[u8; 65], SignError> {
        let now = self.clock.0.load(Ordering::Relaxed);
        let mut asked = self.asked.lock();
        let known = asked.get(&digest).copied();
        // Setting the clock back must not lengthen a wait.
        let is_over = known.is_some_and(|(_, due, wait)| now >= due || due - now > wait);
        let begin = match known {
            Some((true, ..)) if is_over => return Ok(self.key.sign(digest)),
            None if digest[1].is_multiple_of(8) && self.has_faults.load(Ordering::Relaxed) => Some((false, 1_500)),
            Some((false, ..)) if is_over => Some((true, u64::from(digest[0]))),
            None => Some((true, u64::from(digest[0]))),
            Some(_) => None,
        };
        if let Some((is_asked, wait)) = begin {
            asked.insert(digest, (is_asked, now + wait, wait));
            self.outbox.push(ActorOutput::Later(Duration::from_millis(wait), Input::SignerReady));
        }
        let is_pending = begin.or(known.map(|(is_asked, ..)| (is_asked, 0))).is_some_and(|(is_asked, _)| is_asked);
        Err(SignError { address: self.key.address(), reason: "not yet".to_owned(), is_pending })
    }
}

/// The same candidates at every gap block.
pub(super) struct FixedCandidates(pub(super) Arc<[Address]>);

impl MasternodeSource for FixedCandidates {
    fn candidates(&self, _: &SealedHeader, _: &dyn ChainReader) -> Result<Option<Arc<[Address]>>, StoreError> {
        Ok(Some(Arc::clone(&self.0)))
    }
}

/// Verifies and stores blocks by the engine's rules, without executing them.
pub(super) struct Blocks {
    pub(super) chain: Arc<MemoryChain>,
    pub(super) engine: Arc<NativeEngine>,
    pub(super) pool: Arc<Pool>,
}

impl Blocks {
    fn is_new_head(&self, header: &SealedHeader, total_difficulty: U256) -> Result<bool, ConsensusError> {
        let head = self.chain.head();
        if !self.engine.is_better(header, total_difficulty, &head) {
            return Ok(false);
        }
        let (mut number, mut hash) = (header.number.saturating_sub(1), header.parent_hash);
        while self.chain.canonical_hash(BlockNumber(number)).ok().flatten() != Some(hash) {
            let Ok(Some(ancestor)) = self.chain.header(hash) else { return Ok(false) };
            (number, hash) = (number.saturating_sub(1), ancestor.parent_hash);
        }
        if hash != head.header.hash() {
            self.engine.verify_reorganisation(BlockNumber(number), &head, &*self.chain)?;
        }
        Ok(true)
    }

    fn take(&self, block: Block) -> Result<BlockVerdict, BlockVerdict> {
        let header = &block.header;
        match self.verify_header(header) {
            BlockVerdict::Head => {}
            other => return Err(other),
        }
        self.engine.verify_body(&block, &*self.chain).map_err(|error| of_refusal(&error))?;
        let below = self.chain.total_difficulty(header.parent_hash).ok().flatten().unwrap_or_default();
        let is_new_head = self.is_new_head(header, below + header.difficulty).map_err(|error| of_refusal(&error))?;
        let wrong = |reason: String| BlockVerdict::Wrong { reason };
        let block = self.pool.recovered.block(block).map_err(|error| wrong(error.to_string()))?;
        let head = self.chain.head();
        self.pool.forget(&block);
        self.engine.observe(&block);
        self.chain.push(block);
        if !is_new_head {
            self.chain.set_head(head.header.hash());
            return Ok(BlockVerdict::ExecutedOnSideBranch);
        }
        let head = self.chain.head();
        self.engine.observe_head(&head.header, &*self.chain);
        let (finalized, safe) = self.engine.finality(&head.header, &*self.chain);
        self.chain.set_finality(finalized, safe);
        Ok(BlockVerdict::Head)
    }
}

fn of_refusal(error: &ConsensusError) -> BlockVerdict {
    let reason = error.reason.clone();
    match error.cause {
        RefusalCause::BrokenRule => BlockVerdict::Wrong { reason },
        RefusalCause::NotYetDue => BlockVerdict::NotYetDue,
        RefusalCause::OwnFailure => BlockVerdict::OwnFailure { reason },
    }
}

impl BlockPort for Blocks {
    fn verify_header(&self, header: &SealedHeader) -> BlockVerdict {
        if self.chain.header(header.hash()).is_ok_and(|known| known.is_some()) {
            return BlockVerdict::Known;
        }
        let Ok(Some(parent)) = self.chain.header(header.parent_hash) else { return BlockVerdict::ParentUnknown };
        match self.engine.verify_header(header, &parent, &*self.chain) {
            Ok(()) => BlockVerdict::Head,
            Err(error) => of_refusal(&error),
        }
    }

    fn insert(&self, block: Block) -> BlockVerdict {
        self.take(block).unwrap_or_else(|verdict| verdict)
    }

    fn import(
        &self,
        blocks: Box<dyn Iterator<Item = Block> + Send>,
        observer: &mut dyn BatchObserver,
    ) -> Result<(), FailedBlock> {
        for block in blocks {
            let (number, hash) = (BlockNumber(block.header.number), block.hash());
            match self.insert(block) {
                BlockVerdict::Head | BlockVerdict::ExecutedOnSideBranch | BlockVerdict::Known => {
                    observer.passed(number, hash);
                }
                verdict => return Err(FailedBlock { number: Some(number), hash: Some(hash), verdict }),
            }
        }
        Ok(())
    }
}

impl RoundBuilder for Blocks {
    fn build(
        &self,
        _parent: &SealedHeader,
        draft: Header,
        transactions: Vec<RecoveredTransaction>,
        seal: &dyn Fn(Header) -> Result<SealedHeader, SignError>,
    ) -> Result<Block, BlockProductionError> {
        let transactions: Vec<_> = transactions.into_iter().map(|recovered| recovered.transaction).collect();
        let transactions_root = tenon_chain::transactions_root(&transactions);
        let header = seal(Header { transactions_root, ..draft }).map_err(BlockProductionError::new)?;
        Ok(tenon_chain::assemble_block(header, transactions, Vec::new(), None))
    }
}

impl LocalChain for Blocks {
    fn head(&self) -> LocalHead {
        let head = self.chain.head();
        let (header, total_difficulty) = (&head.header, head.total_difficulty);
        LocalHead { number: header.number, hash: header.hash(), total_difficulty, timestamp: header.timestamp }
    }

    fn committed(&self) -> (u64, B256) {
        let number = self.chain.head().finalized.unwrap_or(BlockNumber::GENESIS).0;
        (number, self.canonical_hash(number).unwrap_or_default())
    }

    fn canonical_hash(&self, number: u64) -> Option<B256> {
        self.chain.canonical_hash(BlockNumber(number)).ok().flatten()
    }

    fn is_stored(&self, hash: &B256) -> bool {
        self.chain.header(*hash).is_ok_and(|header| header.is_some())
    }

    fn total_difficulty(&self, hash: &B256) -> Option<U256> {
        ChainReader::total_difficulty(&*self.chain, *hash).ok().flatten()
    }
}

/// The senders of transactions and blocks, recovered once for all nodes.
#[derive(Default)]
pub(super) struct Recovered {
    blocks: Mutex<HashMap<B256, Arc<RecoveredBlock>>>,
    /// By the hash of the encoded transaction; `None` for an invalid one.
    transactions: Mutex<HashMap<B256, Option<RecoveredTransaction>>>,
}

impl Recovered {
    /// Returns the block with its senders, recovered once for all nodes. The body must match the header.
    fn block(&self, block: Block) -> Result<Arc<RecoveredBlock>, tenon_chain::RecoverError> {
        let mut blocks = self.blocks.lock();
        if let Some(known) = blocks.get(&block.hash()) {
            return Ok(Arc::clone(known));
        }
        let recovered = Arc::new(tenon_chain::recover_senders(block)?);
        blocks.insert(recovered.hash(), Arc::clone(&recovered));
        Ok(recovered)
    }

    fn transaction(&self, raw: &[u8]) -> Option<RecoveredTransaction> {
        let recover = || {
            let transaction = tenon_chain::decode_transaction(raw).ok()?;
            let sender = tenon_chain::recover_sender(&transaction).ok()?;
            Some(RecoveredTransaction { transaction: Arc::new(transaction), sender })
        };
        self.transactions.lock().entry(keccak256(raw)).or_insert_with(recover).clone()
    }
}

/// Signing transactions that are not in a block yet.
#[derive(Default)]
pub(super) struct Pool {
    waiting: Mutex<BTreeMap<B256, RecoveredTransaction>>,
    own: AtomicU64,
    outbox: Outbox,
    recovered: Arc<Recovered>,
}

impl Pool {
    pub(super) fn new(outbox: Outbox, recovered: Arc<Recovered>) -> Self {
        Self { outbox, recovered, ..Self::default() }
    }

    /// Adds a transaction. Returns whether it is new.
    pub(super) fn add(&self, raw: &[u8]) -> bool {
        let Some(recovered) = self.recovered.transaction(raw) else { return false };
        self.waiting.lock().insert(recovered.transaction.hash, recovered).is_none()
    }

    fn forget(&self, block: &Block) {
        let mut waiting = self.waiting.lock();
        for transaction in &block.transactions {
            waiting.remove(&transaction.hash);
        }
    }
}

impl PendingTransactions for Pool {
    fn best(&self, _: Option<u64>) -> Vec<RecoveredTransaction> {
        self.waiting.lock().values().cloned().collect()
    }
}

impl PeerTransactions for Pool {
    fn offer(&self, raw: &[Bytes]) {
        for transaction in raw {
            self.add(transaction);
        }
    }

    fn pending(&self) -> Vec<RecoveredTransaction> {
        self.best(None)
    }

    fn submit_own(&self, raw: &[u8]) -> Result<(), SubmitError> {
        self.add(raw);
        self.own.fetch_add(1, Ordering::Relaxed);
        self.outbox.push(ActorOutput::Transaction(Bytes::copy_from_slice(raw)));
        Ok(())
    }

    fn next_nonce(&self, _: Address) -> Result<u64, StoreError> {
        Ok(self.own.load(Ordering::Relaxed))
    }
}
