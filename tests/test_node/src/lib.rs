//! Execution and simulation of a node over a chain in memory, for the tests of both. `tests/native_test_node` adds native
//! chains.
//!
//! It owns [`MemoryChain`], which keeps blocks, receipts, trie nodes and the state of every height; [`TestNode`], with the
//! public conformance chain; and [`sealess::SealessEngine`], which checks less than a real engine.
//!
//! Invariants: it checks nothing that the code under test may have to refuse, and needs no native crate.

#![forbid(unsafe_code)]
#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failure fails the test"
)]

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use alloy_primitives::{Address, B256, Bytes, U256};
use parking_lot::RwLock;
use serde_json::Value;
use tenon_api::{
    Account, Block, BlockCommit, BlockNumber, ChainReader, ChainWriter, ConsensusEngine, EMPTY_CODE_HASH, Head, Header,
    LocatedLog, LogFilter, Receipt, RecoveredBlock, SealedHeader, StateReader, StoreError, TrieReader,
};
use tenon_api::{
    Request,
    messages::{CallRequest, TraceReply},
};
use tenon_bus::{Bus, CallContext, MemoryBudget, WorkPool};
use tenon_chain::{ChainSpec, Genesis};
use tenon_consensus::EthereumEngine;
use tenon_execution::{ChainActor, ChainHandle, Importer};
use tenon_execution_block::Executor;
use tenon_execution_interface::{ChainFamily, EthereumFamily};
use tenon_sdk::Failure;
use tenon_sdk::shapes::TraceText;
use tenon_simulation::{CallLimits, CallResources, EthereumSimulation, EthereumTracers, Families, ScriptOptions};
use tenon_supervisor::{ActorOptions, Supervisor};
pub use tenon_test_data::unpacked as test_data;

/// A trace as the plugin shows it.
pub fn json_of_trace(reply: TraceReply) -> Value {
    serde_json::from_str(&text_of_trace(reply)).unwrap()
}

/// The same as text.
pub fn text_of_trace(reply: TraceReply) -> String {
    let mut text = TraceText::new(reply);
    while !text.write_some().unwrap() {}
    text.finish().into_string()
}

pub mod sealess;
pub mod simulations;
pub mod witness;

type State = BTreeMap<Address, Arc<(Account, BTreeMap<B256, U256>)>>;

/// The data in maps; each block keeps the whole state, sharing unchanged accounts.
#[derive(Default)]
struct Tables {
    headers: HashMap<B256, (Arc<SealedHeader>, U256)>,
    blocks: HashMap<B256, Arc<RecoveredBlock>>,
    receipts: HashMap<B256, Arc<Vec<Receipt>>>,
    canonical: Vec<B256>,
    states: Vec<Arc<State>>,
    codes: HashMap<B256, Bytes>,
    nodes: HashMap<(Option<B256>, Vec<u8>, B256), Bytes>,
    finality: (Option<BlockNumber>, Option<BlockNumber>),
    refused: Option<BlockNumber>,
    unreadable: Option<Address>,
    group: usize,
    longest_offer: usize,
}

#[derive(Clone, Default)]
pub struct MemoryChain {
    tables: Arc<RwLock<Tables>>,
}

impl MemoryChain {
    pub fn new(genesis: &BlockCommit) -> Self {
        let chain = Self::default();
        chain.apply(genesis);
        chain
    }

    /// Removes every trie node, like a corrupt database.
    pub fn delete_trie_nodes(&self) {
        self.tables.write().nodes.clear();
    }

    /// Fails like a full disk when this block is committed.
    pub fn refuse_block(&self, number: BlockNumber) {
        self.tables.write().refused = Some(number);
    }

    /// Reading this account fails from now on, as with a damaged disk; with `None`, all can be read again.
    pub fn set_unreadable(&self, account: Option<Address>) {
        self.tables.write().unreadable = account;
    }

    /// Accepts this many blocks of an import in one call, and commits up to three of them together.
    pub fn take_groups_of(&self, blocks: usize) {
        self.tables.write().group = blocks;
    }

    /// The largest number of blocks that were offered in one call.
    pub fn longest_offer(&self) -> usize {
        self.tables.read().longest_offer
    }

    fn apply(&self, commit: &BlockCommit) {
        let tables = &mut *self.tables.write();
        let hash = commit.block.hash();
        let mut state = tables.states.last().map_or_else(State::new, |state| (**state).clone());
        for change in &commit.accounts {
            let Some(account) = change.account else {
                state.remove(&change.address);
                continue;
            };
            let entry = Arc::make_mut(state.entry(change.address).or_default());
            entry.0 = account;
            if change.storage_wiped {
                entry.1.clear();
            }
            for slot in &change.slots {
                if slot.value.is_zero() {
                    entry.1.remove(&slot.slot);
                } else {
                    entry.1.insert(slot.slot, slot.value);
                }
            }
        }
        tables.states.push(Arc::new(state));
        tables.codes.extend(commit.codes.iter().cloned());
        for node in &commit.trie_nodes {
            let key = (node.position.owner, node.position.path.clone(), node.hash);
            tables.nodes.insert(key, node.rlp.clone());
        }
        let header = Arc::new(commit.block.header.clone());
        tables.headers.insert(hash, (header, commit.total_difficulty));
        tables.blocks.insert(hash, Arc::clone(&commit.block));
        tables.receipts.insert(hash, Arc::clone(&commit.receipts));
        tables.canonical.push(hash);
    }
}

struct MemoryState {
    tables: Arc<RwLock<Tables>>,
    state: Arc<State>,
}

impl StateReader for MemoryState {
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError> {
        if self.tables.read().unreadable == Some(address) {
            return Err(StoreError::Engine("input/output error".to_owned()));
        }
        Ok(self.state.get(&address).map(|account| account.0))
    }

    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError> {
        Ok(self.state.get(&address).and_then(|account| account.1.get(&slot).copied()).unwrap_or_default())
    }

    fn code(&self, code_hash: B256) -> Result<Option<Bytes>, StoreError> {
        if code_hash == EMPTY_CODE_HASH {
            return Ok(Some(Bytes::new()));
        }
        Ok(self.tables.read().codes.get(&code_hash).cloned())
    }

    fn block_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        Ok(self.tables.read().canonical.get(number.0 as usize).copied())
    }
}

struct MemoryTrie(Arc<RwLock<Tables>>);

impl TrieReader for MemoryTrie {
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(self.0.read().nodes.get(&(owner, path.to_vec(), hash)).cloned())
    }
}

impl ChainReader for MemoryChain {
    fn head(&self) -> Arc<Head> {
        let tables = self.tables.read();
        let (header, total_difficulty) = &tables.headers[tables.canonical.last().expect("a chain has a genesis block")];
        let (finalized, safe) = tables.finality;
        Arc::new(Head { header: Arc::clone(header), total_difficulty: *total_difficulty, finalized, safe })
    }

    fn canonical_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        Ok(self.tables.read().canonical.get(number.0 as usize).copied())
    }

    fn header(&self, hash: B256) -> Result<Option<Arc<SealedHeader>>, StoreError> {
        Ok(self.tables.read().headers.get(&hash).map(|(header, _)| Arc::clone(header)))
    }

    fn block(&self, hash: B256) -> Result<Option<Arc<RecoveredBlock>>, StoreError> {
        Ok(self.tables.read().blocks.get(&hash).cloned())
    }

    fn receipts(&self, hash: B256) -> Result<Option<Arc<Vec<Receipt>>>, StoreError> {
        Ok(self.tables.read().receipts.get(&hash).cloned())
    }

    fn total_difficulty(&self, hash: B256) -> Result<Option<U256>, StoreError> {
        Ok(self.tables.read().headers.get(&hash).map(|(_, difficulty)| *difficulty))
    }

    fn transaction_location(&self, transaction_hash: B256) -> Result<Option<(B256, u64)>, StoreError> {
        let tables = self.tables.read();
        for hash in &tables.canonical {
            let position = tables.blocks[hash].transactions.iter().position(|each| each.hash == transaction_hash);
            if let Some(position) = position {
                return Ok(Some((*hash, position as u64)));
            }
        }
        Ok(None)
    }

    fn state_at(&self, number: BlockNumber) -> Result<Arc<dyn StateReader>, StoreError> {
        let state = self.tables.read().states.get(number.0 as usize).cloned();
        let state = state.ok_or(StoreError::UnknownBlock { what: number.to_string() })?;
        Ok(Arc::new(MemoryState { tables: Arc::clone(&self.tables), state }))
    }

    fn slots_of(&self, address: Address, max: usize) -> Result<Option<Vec<B256>>, StoreError> {
        let tables = self.tables.read();
        let accounts = tables.states.iter().filter_map(|state| state.get(&address));
        let slots: std::collections::BTreeSet<B256> = accounts.flat_map(|account| account.1.keys().copied()).collect();
        Ok((slots.len() <= max).then(|| slots.into_iter().collect()))
    }

    fn trie(&self) -> Arc<dyn TrieReader> {
        Arc::new(MemoryTrie(Arc::clone(&self.tables)))
    }

    fn logs(
        &self,
        _from: BlockNumber,
        _to: BlockNumber,
        _filter: &LogFilter,
        _limit: usize,
        _is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<LocatedLog>, StoreError> {
        Ok(Vec::new())
    }
}

impl ChainWriter for MemoryChain {
    fn commit(&self, commit: &Arc<BlockCommit>) -> Result<(), StoreError> {
        if self.tables.read().refused == Some(commit.block.number()) {
            return Err(StoreError::Engine("disk full".to_owned()));
        }
        let head = self.head();
        if commit.block.header.parent_hash != head.header.hash() {
            return Err(StoreError::NotNext { number: commit.block.number(), head: head.number() });
        }
        self.apply(commit);
        Ok(())
    }

    fn group_size(&self, _: &Header) -> usize {
        self.tables.read().group.max(1)
    }

    fn commit_first(&self, commits: &[Arc<BlockCommit>]) -> Result<usize, StoreError> {
        let count = commits.len().min(3);
        let refused = {
            let tables = &mut *self.tables.write();
            tables.longest_offer = tables.longest_offer.max(commits.len());
            tables.refused
        };
        if commits[..count].iter().any(|commit| refused == Some(commit.block.number())) {
            return Err(StoreError::Engine("disk full".to_owned()));
        }
        commits[..count].iter().try_for_each(|commit| self.commit(commit))?;
        Ok(count)
    }

    fn insert_side_block(&self, block: &Arc<RecoveredBlock>, total_difficulty: U256) -> Result<(), StoreError> {
        let tables = &mut *self.tables.write();
        tables.headers.insert(block.hash(), (Arc::new(block.header.clone()), total_difficulty));
        tables.blocks.insert(block.hash(), Arc::clone(block));
        Ok(())
    }

    /// Only states of canonical blocks are kept here.
    fn keep_side_state(&self, _: &Arc<BlockCommit>) -> Result<(), StoreError> {
        Ok(())
    }

    fn check_unwind(&self, number: BlockNumber) -> Result<(), StoreError> {
        let is_known = number.0 < self.tables.read().canonical.len() as u64;
        is_known.then_some(()).ok_or_else(|| StoreError::UnknownBlock { what: number.to_string() })
    }

    fn unwind(&self, number: BlockNumber) -> Result<(), StoreError> {
        let tables = &mut *self.tables.write();
        tables.canonical.truncate(number.0 as usize + 1);
        tables.states.truncate(number.0 as usize + 1);
        Ok(())
    }

    fn reorganise(&self, ancestor: BlockNumber, branch: &[Arc<BlockCommit>]) -> Result<(), StoreError> {
        let refused = self.tables.read().refused;
        if branch.iter().any(|commit| refused == Some(commit.block.number())) {
            return Err(StoreError::Engine("disk full".to_owned()));
        }
        self.unwind(ancestor)?;
        branch.iter().try_for_each(|commit| self.commit(commit))
    }

    fn set_finality(&self, finalized: Option<BlockNumber>, safe: Option<BlockNumber>) -> Result<(), StoreError> {
        self.tables.write().finality = (finalized, safe);
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

pub fn conformance_genesis() -> Genesis {
    Genesis::from_json(&test_data("chain/conformance-genesis.json.gz")).unwrap()
}

pub fn conformance_blocks() -> Vec<Block> {
    let bytes = test_data("chain/conformance-chain.rlp.gz");
    let mut rest = &bytes[..];
    let mut blocks = Vec::new();
    while !rest.is_empty() {
        blocks.push(tenon_chain::decode_block(&mut rest).unwrap());
    }
    blocks
}

/// The files of a packed archive by their path.
pub fn archive(name: &str) -> Vec<(String, Vec<u8>)> {
    let archive = test_data(name);
    let mut files = Vec::new();
    let mut rest = &archive[..];
    while rest.len() >= 512 && rest[0] != 0 {
        let text =
            |range: std::ops::Range<usize>| String::from_utf8_lossy(&rest[range]).trim_matches(['\0', ' ']).to_owned();
        let size = usize::from_str_radix(&text(124..136), 8).unwrap();
        let name = format!("{}/{}", text(345..500), text(0..100));
        files.push((name, rest[512..512 + size].to_vec()));
        rest = &rest[512 + size.next_multiple_of(512)..];
    }
    files
}

/// Every request and answer of the public case files below a path.
pub fn recorded_cases(prefix: &str) -> Vec<RecordedCase> {
    let wanted = |name: &str| name.contains(prefix) && name.ends_with(".io");
    let cases: Vec<_> = archive("execution-apis/cases.tar.gz")
        .into_iter()
        .filter(|(name, _)| wanted(name))
        .map(|(name, content)| RecordedCase::parse(name, &String::from_utf8_lossy(&content)))
        .collect();
    assert!(!cases.is_empty(), "no cases below {prefix}");
    cases
}

/// The first request of a case file and its answer.
pub struct RecordedCase {
    pub name: String,
    pub params: Vec<Value>,
    pub answer: Value,
}

impl RecordedCase {
    fn parse(name: String, content: &str) -> Self {
        let line = |mark: &str| {
            let line = content.lines().find_map(|line| line.strip_prefix(mark));
            let line = line.unwrap_or_else(|| panic!("{name} has no line with {mark}"));
            serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let params = line(">>")["params"].as_array().cloned().unwrap_or_default();
        let answer = line("<<");
        Self { name, params, answer }
    }
}

/// A call object in clients' form.
pub fn call_request(object: &Value) -> CallRequest {
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    let number = |name: &str| text(name).map(|text| text.parse::<U256>().unwrap());
    let hashes = object.get("blobVersionedHashes").and_then(Value::as_array);
    CallRequest {
        from: text("from").map(|text| text.parse().unwrap()),
        to: text("to").map(|text| text.parse().unwrap()),
        gas: number("gas").map(|gas| gas.to()),
        gas_price: number("gasPrice"),
        max_fee_per_gas: number("maxFeePerGas"),
        max_priority_fee_per_gas: number("maxPriorityFeePerGas"),
        max_fee_per_blob_gas: number("maxFeePerBlobGas"),
        value: number("value"),
        input: text("input").or(text("data")).map(|text| text.parse().unwrap()).unwrap_or_default(),
        blob_versioned_hashes: hashes.map(|list| {
            list.iter()
                .map(|hash| hash.as_str().unwrap_or_else(|| panic!("{hash} is not a text")).parse().unwrap())
                .collect()
        }),
        ..CallRequest::default()
    }
}

/// A node without network: chain, engine and importer.
pub struct TestNode {
    pub spec: Arc<ChainSpec>,
    pub chain: MemoryChain,
    pub engine: Arc<EthereumEngine>,
    pub bus: Bus,
    pub importer: Arc<Importer>,
}

impl TestNode {
    pub fn new(genesis: &Genesis) -> Self {
        let spec = Arc::clone(&genesis.spec);
        let chain = MemoryChain::new(&genesis.commit().unwrap());
        let engine = Arc::new(EthereumEngine::new(Arc::clone(&spec)));
        let bus = Bus::new();
        let importer = Arc::new(Importer::new(
            rules_of_blocks(&spec),
            Arc::new(chain.clone()),
            Arc::new(chain.clone()),
            Arc::clone(&engine) as _,
            bus.clone(),
        ));
        Self { spec, chain, engine, bus, importer }
    }

    /// A node with the conformance chain up to a height.
    pub fn with_conformance_chain(height: u64) -> Self {
        let node = Self::new(&conformance_genesis());
        for block in conformance_blocks().into_iter().take(height as usize) {
            node.importer.insert(block).unwrap();
        }
        node
    }

    /// The same, with the handlers on the bus. What it returns besides the node must outlive the queries.
    pub fn serving(height: u64, resources: impl Into<TestResources>) -> (Self, (Supervisor, ChainHandle)) {
        let node = Self::with_conformance_chain(height);
        let served = node.serve(resources);
        (node, served)
    }

    /// Registers the handlers on the bus. The supervisor must outlive the queries.
    pub fn serve(&self, resources: impl Into<TestResources>) -> (Supervisor, ChainHandle) {
        let supervisor = Supervisor::new().unwrap();
        let importer = Arc::clone(&self.importer);
        let make = move || Ok(ChainActor::new(Arc::clone(&importer)));
        let handle = ChainHandle::new(supervisor.spawn("chain", ActorOptions::default(), make).unwrap());
        let (chain, engine) = (Arc::new(self.chain.clone()), Arc::clone(&self.engine));
        let simulation = Arc::new(EthereumSimulation::new(Arc::clone(&self.spec)));
        let families = Families { simulation, tracers: Arc::new(EthereumTracers) };
        answer_calls(&self.bus, rules_of_blocks(&self.spec), families, chain, engine, resources);
        tenon_execution::register(&self.bus, handle.clone()).unwrap();
        (supervisor, handle)
    }

    pub async fn ask<R: Request>(&self, request: R) -> Result<R::Reply, Failure> {
        Ok(self.bus.call(request, &CallContext::new()).await?)
    }
}

/// Limits of calls and traces.
pub const LIMITS: CallLimits = CallLimits {
    call_gas_cap: 50_000_000,
    call_timeout: Duration::from_secs(5),
    attempt_time: CallLimits::ATTEMPT_TIME,
    trace_timeout: Duration::from_secs(5),
    trace_steps: 10_000_000,
    trace_bytes: 1 << 30,
    trace_answer_bytes: CallLimits::TRACE_ANSWER_BYTES,
    min_tip: U256::ZERO,
};

/// Resources without a limit on the memory of all requests together, and with scripts in threads.
pub fn resources(limits: CallLimits) -> CallResources {
    CallResources { limits, memory: MemoryBudget::unbounded(), scripts: ScriptOptions::in_threads(32 << 20, 4) }
}

/// Resources, or limits that are completed by [`resources`].
pub struct TestResources(CallResources);

impl From<CallResources> for TestResources {
    fn from(resources: CallResources) -> Self {
        Self(resources)
    }
}

impl From<CallLimits> for TestResources {
    fn from(limits: CallLimits) -> Self {
        Self(resources(limits))
    }
}

/// Registers the handlers of calls, simulations, traces and fees on the bus.
pub fn answer_calls(
    bus: &Bus,
    rules: Arc<dyn ChainFamily>,
    families: Families,
    chain: Arc<dyn ChainReader>,
    engine: Arc<dyn ConsensusEngine>,
    resources: impl Into<TestResources>,
) {
    let pool = WorkPool::new("execution", 2, 16);
    let executor = Executor::new(rules);
    tenon_simulation::register(bus, chain, executor, families, engine, &pool, resources.into().0).unwrap();
}

/// The rules of blocks of an Ethereum chain.
pub fn rules_of_blocks(spec: &Arc<ChainSpec>) -> Arc<dyn ChainFamily> {
    Arc::new(EthereumFamily::new(Arc::clone(spec)))
}
