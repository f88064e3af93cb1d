//! The data that a block's execution reads: enough to execute it again without the database (`debug_executionWitness`).
//!
//! The block is executed over a state that records which accounts, slots, code and block hashes are read. Their proofs
//! are read from the tries afterwards, and the state root is computed, which also reads the nodes that deletions need.
//! Every trie node that is read is part of the witness.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use alloy_primitives::{Address, B256, Bytes, U256};
use parking_lot::Mutex;
use tenon_api::{
    Account, BlockNumber, EMPTY_CODE_HASH, EMPTY_ROOT_HASH, RecoveredBlock, SealedHeader, StateReader, StoreError,
    TrieReader,
    messages::{ExecutionWitness, GetExecutionWitness},
};
use tenon_bus::CallContext;
use tenon_simulation_interface::CallError;
use tenon_traces::{TraceError, TraceShare};

use crate::call::Calls;

/// Maximum memory of a kept item in addition to its bytes.
const ITEM_BYTES: usize = 128;

/// The data that was read. Shared by the state and the tries of one request.
struct Reads {
    inner: Mutex<ReadsInner>,
    /// Maximum length of all code and nodes, bytes.
    max: usize,
}

struct ReadsInner {
    /// Accounts with the slots that were read.
    accounts: BTreeMap<Address, BTreeSet<B256>>,
    codes: BTreeMap<B256, Bytes>,
    nodes: BTreeMap<B256, Bytes>,
    /// Lowest height whose hash was read.
    lowest_hash: Option<u64>,
    /// Length of code and nodes, bytes.
    bytes: usize,
    /// Items of all kinds.
    items: usize,
    memory: TraceShare,
    /// Why nothing more may be read. Stored here, because the EVM and system calls do not preserve the kind of error.
    refused: Option<String>,
}

impl ReadsInner {
    /// Counts an item of this length.
    fn count(&mut self, bytes: usize, max: usize) -> Result<(), StoreError> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.items = self.items.saturating_add(1);
        let held = self.bytes.saturating_add(self.items.saturating_mul(ITEM_BYTES));
        let reason = if self.bytes > max {
            format!("the witness is longer than {max} bytes")
        } else if self.memory.hold(held as u64) {
            return Ok(());
        } else {
            "out of memory: the node has no memory left for this witness; try again later".to_owned()
        };
        self.refused = Some(reason.clone());
        Err(StoreError::OutOfMemory { reason })
    }
}

/// A state that records what is read from it.
struct WatchedState {
    state: Arc<dyn StateReader>,
    reads: Arc<Reads>,
}

impl StateReader for WatchedState {
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError> {
        {
            let reads = &mut *self.reads.inner.lock();
            if !reads.accounts.contains_key(&address) {
                reads.count(0, self.reads.max)?;
                reads.accounts.insert(address, BTreeSet::new());
            }
        }
        self.state.account(address)
    }

    fn storage(&self, address: Address, slot: B256) -> Result<U256, StoreError> {
        {
            let reads = &mut *self.reads.inner.lock();
            if reads.accounts.entry(address).or_default().insert(slot) {
                reads.count(0, self.reads.max)?;
            }
        }
        self.state.storage(address, slot)
    }

    fn code(&self, code_hash: B256) -> Result<Option<Bytes>, StoreError> {
        let code = self.state.code(code_hash)?;
        if let Some(code) = code.as_ref().filter(|_| code_hash != EMPTY_CODE_HASH) {
            let reads = &mut *self.reads.inner.lock();
            if !reads.codes.contains_key(&code_hash) {
                reads.count(code.len(), self.reads.max)?;
                reads.codes.insert(code_hash, code.clone());
            }
        }
        Ok(code)
    }

    fn block_hash(&self, number: BlockNumber) -> Result<Option<B256>, StoreError> {
        {
            let reads = &mut *self.reads.inner.lock();
            reads.lowest_hash = Some(reads.lowest_hash.map_or(number.0, |lowest| lowest.min(number.0)));
        }
        self.state.block_hash(number)
    }
}

/// Tries that record which nodes are read.
struct WatchedNodes {
    nodes: Arc<dyn TrieReader>,
    reads: Arc<Reads>,
}

impl TrieReader for WatchedNodes {
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        let node = self.nodes.node(owner, path, hash)?;
        if let Some(node) = &node {
            let reads = &mut *self.reads.inner.lock();
            if !reads.nodes.contains_key(&hash) {
                reads.count(node.len(), self.reads.max)?;
                reads.nodes.insert(hash, node.clone());
            }
        }
        Ok(node)
    }
}

impl Calls {
    /// `debug_executionWitness`.
    pub(crate) fn execution_witness(
        &self,
        request: &GetExecutionWitness,
        caller: &CallContext,
    ) -> Result<ExecutionWitness, TraceError> {
        let (block, parent) = self.block_and_parent(request.block)?;
        let reads = Arc::new(self.no_reads_yet(caller));
        let witness = self.read_witness(&block, &parent, &reads, caller);
        match reads.inner.lock().refused.take() {
            Some(reason) => Err(StoreError::OutOfMemory { reason }.into()),
            None => witness,
        }
    }

    fn read_witness(
        &self,
        block: &RecoveredBlock,
        parent: &Arc<SealedHeader>,
        reads: &Arc<Reads>,
        caller: &CallContext,
    ) -> Result<ExecutionWitness, TraceError> {
        let nodes: Arc<dyn TrieReader> =
            Arc::new(WatchedNodes { nodes: self.trie_of(parent, caller)?, reads: Arc::clone(reads) });
        let state = WatchedState { state: self.reader_for(parent, caller)?, reads: Arc::clone(reads) };
        let mut state = self.executor.state_with_empty_code_cache(Arc::new(state));
        state.count_in(self.run_memory(caller.origin()));
        let mut execution = self.open_again(block, parent, state, Arc::clone(&nodes), caller)?;
        self.run_again(&mut execution, block, caller)?;
        let rewards = self.engine.rewards(block, &*self.chain)?;
        let outcome = execution.finish(block, &rewards)?;
        prove_reads(reads, &*nodes, parent.state_root, caller)?;
        let mut changes = outcome.state.changes();
        let previous = |address| outcome.state.account_before(address);
        tenon_chain::update_state_trie(&*nodes, parent.state_root, &mut changes, &previous)?;
        let reads = reads.inner.lock();
        Ok(ExecutionWitness {
            headers: self.headers_down_to(parent, reads.lowest_hash)?,
            codes: sorted(&reads.codes),
            nodes: sorted(&reads.nodes),
        })
    }

    fn no_reads_yet(&self, caller: &CallContext) -> Reads {
        // In the answer, a byte takes two digits.
        let max = usize::try_from(self.limits.trace_answer_bytes / 2).unwrap_or(usize::MAX);
        let inner = ReadsInner {
            accounts: BTreeMap::new(),
            codes: BTreeMap::new(),
            nodes: BTreeMap::new(),
            lowest_hash: None,
            bytes: 0,
            items: 0,
            refused: None,
            memory: TraceShare::new(&self.recording_memory.of(caller.origin())),
        };
        Reads { inner: Mutex::new(inner), max }
    }

    /// The parent, and its ancestors down to a height, descending as in go-ethereum.
    fn headers_down_to(
        &self,
        parent: &Arc<SealedHeader>,
        lowest: Option<u64>,
    ) -> Result<Vec<Arc<SealedHeader>>, TraceError> {
        let mut headers = vec![Arc::clone(parent)];
        let mut oldest = Arc::clone(parent);
        while lowest.is_some_and(|lowest| lowest < oldest.number) {
            let unknown = || TraceError::unknown_parent(oldest.parent_hash);
            let header = self.chain.header(oldest.parent_hash)?.ok_or_else(unknown)?;
            headers.push(Arc::clone(&header));
            oldest = header;
        }
        Ok(headers)
    }
}

/// Reads the proof of everything that the execution read.
fn prove_reads(reads: &Reads, nodes: &dyn TrieReader, root: B256, caller: &CallContext) -> Result<(), TraceError> {
    // Taken out of the lock, because reading nodes locks it again.
    let accounts = std::mem::take(&mut reads.inner.lock().accounts);
    for (address, slots) in accounts {
        if caller.should_stop() {
            return Err(CallError::CallerGone.into());
        }
        let account = tenon_chain::read_account(nodes, root, address)?;
        let storage_root = account.map_or(EMPTY_ROOT_HASH, |account| account.storage_root);
        if storage_root == EMPTY_ROOT_HASH {
            continue;
        }
        for slot in slots {
            if caller.should_stop() {
                return Err(CallError::CallerGone.into());
            }
            tenon_chain::read_slot(nodes, storage_root, address, slot)?;
        }
    }
    Ok(())
}

/// Ascending by content, as in go-ethereum.
fn sorted(items: &BTreeMap<B256, Bytes>) -> Vec<Bytes> {
    let mut items: Vec<Bytes> = items.values().cloned().collect();
    items.sort_unstable();
    items
}
