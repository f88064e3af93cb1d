//! The historic exchange in blocks (`spec/chain.md` 6): random markets, with the trading roots and state roots that the
//! reference came to, and what is refused.
#![allow(missing_docs, clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use alloy_primitives::{Address, B256, Bytes, U256, address};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use support::{MemoryChain, sealess::SealessEngine, test_data};
use tenon_api::{
    Block, BlockCommit, BlockNumber, ChainReader, ChainWriter, EMPTY_ROOT_HASH, Header, Log, NativeSeal, Receipt,
    ReceiptOutcome, RecoveredBlock, StoreError, Transaction, TransactionPayload, TransactionSignature, TransactionType,
    TrieReader,
};
use tenon_chain::{ChainSpec, Genesis, receipts_root_and_bloom};
use tenon_execution::{Executor, TradingProblem, TradingReport, trading_root, verify_trading_state};
use tenon_storage::{Mode, Store, StoreOptions};

/// Batches of orders.
const TRADING: Address = address!("0000000000000000000000000000000000000091");
/// Roots.
const ROOTS: Address = address!("0000000000000000000000000000000000000092");
/// Batches of loans.
const LENDING: Address = address!("0000000000000000000000000000000000000093");
const STRANGER: Address = Address::repeat_byte(0xbb);
/// The first block that the exchange looks at.
const FIRST: u64 = 901;

/// A chain up to the block before the first, on the state with which a scenario begins.
struct Market<C> {
    scenario: Value,
    author: Address,
    chain: Arc<C>,
    spec: Arc<ChainSpec>,
    executor: Executor,
    engine: SealessEngine,
}

impl Market<MemoryChain> {
    fn open(scenario: &Value) -> Self {
        Self::on(scenario, |genesis, _| Arc::new(MemoryChain::new(genesis)))
    }
}

impl<C: ChainReader + ChainWriter> Market<C> {
    fn on(scenario: &Value, open: impl FnOnce(&BlockCommit, u64) -> Arc<C>) -> Self {
        let (spec, genesis) = genesis_of(scenario);
        let chain = open(&genesis, spec.chain_id);
        while chain.head().header.number < FIRST - 1 {
            let mut commit = genesis.clone();
            let header = header_on(&*chain, genesis.block.header.state_root, &[]);
            commit.total_difficulty = chain.head().total_difficulty + header.difficulty;
            commit.block = block_of(header, Vec::new());
            (commit.accounts, commit.codes, commit.trie_nodes) = (Vec::new(), Vec::new(), Vec::new());
            chain.commit(&commit).unwrap();
        }
        let blocks = scenario["Blocks"].as_array().unwrap();
        let epochs = (FIRST..).zip(blocks).filter(|(_, block)| block["Epoch"] == true).map(|(number, _)| number);
        let engine = SealessEngine { epochs: epochs.collect() };
        let author = scenario["Author"].as_str().unwrap().parse().unwrap();
        let executor = Executor::new(Arc::clone(&spec));
        Self { scenario: scenario.clone(), author, chain, spec, executor, engine }
    }

    fn blocks(&self) -> usize {
        self.scenario["Blocks"].as_array().unwrap().len()
    }

    /// Executes and commits from the head on, up to and including this block of the scenario. Execution compares the
    /// state root and the trading root with those of the reference.
    fn run_to(&self, last: usize) {
        let head = self.chain.head().header.number;
        for index in usize::try_from(head + 1 - FIRST).unwrap()..=last {
            let commit = self.execute(index, &self.transactions(index));
            let commit = commit.unwrap_or_else(|error| panic!("seed {}, {error}", self.scenario["Seed"]));
            self.chain.commit(&commit).unwrap();
        }
    }

    /// The trading root that the head says.
    fn trading_root(&self) -> B256 {
        trading_root(&self.spec, &*self.chain, &self.engine).unwrap().unwrap()
    }

    /// The transactions of a block of the scenario, with the trading root that the reference came to.
    fn transactions(&self, index: usize) -> Vec<(Address, Address, Bytes)> {
        let block = &self.scenario["Blocks"][index];
        let orders: Vec<Bytes> = serde_json::from_value(block["Orders"].clone()).unwrap_or_default();
        let (first, second) = orders.split_at(orders.len() / 2);
        vec![
            (TRADING, STRANGER, batch(first)),
            (TRADING, self.author, batch(second)),
            (ROOTS, STRANGER, Bytes::from(vec![7; 64])),
            (ROOTS, self.author, roots(block["Root"].as_str().unwrap().parse().unwrap(), EMPTY_ROOT_HASH)),
        ]
    }

    /// Executes the next block, which has these transactions: receiver, sender, data.
    fn execute(&self, index: usize, transactions: &[(Address, Address, Bytes)]) -> Result<BlockCommit, String> {
        let state_root = self.scenario["Blocks"][index]["State"].as_str().unwrap().parse().unwrap();
        let mut header = header_on(&*self.chain, state_root, transactions);
        header.beneficiary = self.author;
        let parent = self.chain.head().header.clone();
        let block = block_of(header, transactions.to_vec());
        self.executor.execute(&*self.chain, &self.engine, block, &parent).map_err(|error| error.to_string())
    }
}

fn scenarios() -> Vec<Value> {
    serde_json::from_slice(&test_data("native/exchange.json.gz")).unwrap()
}

fn genesis_of(scenario: &Value) -> (Arc<ChainSpec>, BlockCommit) {
    let mut alloc = json!({});
    for entry in scenario["Balances"].as_array().unwrap() {
        let balance = U256::from_str_radix(entry["Balance"].as_str().unwrap(), 10).unwrap();
        if !balance.is_zero() {
            alloc[entry["Address"].as_str().unwrap()]["balance"] = json!(balance);
        }
    }
    for entry in scenario["Slots"].as_array().unwrap() {
        if entry["Value"] != json!(B256::ZERO) {
            alloc[entry["Address"].as_str().unwrap()]["storage"][entry["Slot"].as_str().unwrap()] =
                entry["Value"].clone();
        }
    }
    for (token, decimals) in scenario["Decimals"].as_object().unwrap() {
        // Answers every question with its decimals.
        let decimals = u8::try_from(decimals.as_u64().unwrap()).unwrap();
        alloc[token]["code"] = json!(Bytes::from(vec![0x60, decimals, 0x60, 0, 0x52, 0x60, 0x20, 0x60, 0, 0xf3]));
    }
    for account in alloc.as_object_mut().unwrap().values_mut() {
        if account["balance"].is_null() {
            account["balance"] = json!("0x0");
        }
    }
    // The voting contract.
    alloc["0x0000000000000000000000000000000000000088"]["balance"] = json!("0x1");
    let text = json!({
        "config": {
            "chainId": 4711, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0, "byzantiumBlock": 0,
            "XDPoS": {"period": 2, "epoch": 900, "gap": 450},
        },
        "difficulty": "0x1", "gasLimit": "0x47b760", "alloc": alloc,
    });
    let genesis = Genesis::from_json(text.to_string().as_bytes()).unwrap();
    let commit = genesis.commit().unwrap();
    let mut spec = genesis.spec;
    let native = Arc::make_mut(&mut spec).native.as_mut().unwrap();
    let first = scenario["Blocks"][0]["Number"].as_u64().unwrap();
    (native.heights.tip_xdcx, native.heights.tip_xdcx_receiver_disable) = (FIRST, 5_000);
    native.heights.tip_xdcx_cancellation_fee = scenario["CancelFeeAt"].as_u64().unwrap() - first + FIRST;
    native.contracts.relayer_registration = scenario["Registration"].as_str().unwrap().parse().unwrap();
    (spec, commit)
}

fn batch(orders: &[Bytes]) -> Bytes {
    let orders: Vec<Value> = orders.iter().map(|order| json!({"Order": STANDARD.encode(order)})).collect();
    json!({"Data": orders, "Timestamp": 1, "TxHash": B256::ZERO}).to_string().into_bytes().into()
}

fn roots(trading: B256, lending: B256) -> Bytes {
    [trading, lending].concat().into()
}

fn header_on(chain: &dyn ChainReader, state_root: B256, transactions: &[(Address, Address, Bytes)]) -> Header {
    let parent = chain.head().header.clone();
    let receipts: Vec<Receipt> = transactions
        .iter()
        .map(|(to, ..)| Receipt {
            transaction_type: TransactionType::Legacy,
            outcome: ReceiptOutcome::Status(true),
            cumulative_gas_used: 0,
            gas_used: 0,
            logs: vec![Log { address: *to, topics: Vec::new(), data: Bytes::new() }],
        })
        .collect();
    let (receipts_root, logs_bloom) = receipts_root_and_bloom(&receipts);
    Header {
        parent_hash: parent.hash(),
        number: parent.number + 1,
        gas_limit: 500_000_000,
        difficulty: U256::ONE,
        timestamp: parent.timestamp + 2,
        state_root,
        transactions_root: tenon_chain::transactions_root(&transactions_of(parent.number + 1, transactions.to_vec())),
        ommers_hash: tenon_chain::ommers_hash(&[]),
        receipts_root,
        logs_bloom,
        native_seal: Some(NativeSeal::default()),
        ..Header::default()
    }
}

fn transactions_of(block: u64, transactions: Vec<(Address, Address, Bytes)>) -> Vec<Arc<Transaction>> {
    // No two transactions of a chain are the same.
    let transactions = (block * 10..).zip(transactions).map(|(nonce, (to, _, input))| {
        let mut transaction = Transaction {
            hash: B256::ZERO,
            chain_id: None,
            nonce,
            gas_limit: 40_000_000,
            to: Some(to),
            value: U256::ZERO,
            input,
            payload: TransactionPayload::Legacy { gas_price: U256::ZERO },
            signature: TransactionSignature { v: 27, r: U256::ONE, s: U256::ONE },
        };
        transaction.hash = tenon_chain::transaction_hash(&transaction);
        Arc::new(transaction)
    });
    transactions.collect()
}

fn block_of(header: Header, transactions: Vec<(Address, Address, Bytes)>) -> Arc<RecoveredBlock> {
    let senders = transactions.iter().map(|(_, sender, _)| *sender).collect();
    let (header, transactions) = (tenon_chain::seal(header.clone()), transactions_of(header.number, transactions));
    let block = Block { header, transactions, ommers: Vec::new(), withdrawals: None, size: 1_000 };
    Arc::new(RecoveredBlock { block, senders })
}

#[test]
fn blocks_with_orders_come_to_the_trading_roots_and_state_roots_of_the_reference() {
    for scenario in scenarios() {
        let market = Market::open(&scenario);
        market.run_to(market.blocks() - 1);
    }
}

#[test]
fn a_block_that_says_another_trading_root_is_refused_in_the_references_words() {
    let scenario = &scenarios()[0];
    let market = Market::open(scenario);
    let mut transactions = market.transactions(0);
    let (right, wrong) = (scenario["Blocks"][0]["Root"].as_str().unwrap(), B256::repeat_byte(7));
    transactions[3].2 = roots(wrong, EMPTY_ROOT_HASH);
    let text = format!(
        "block {FIRST}: invalid XDCx trading state merke trie got : {right} , expect : {wrong} ,parent : {EMPTY_ROOT_HASH}"
    );
    assert_eq!(market.execute(0, &transactions).unwrap_err(), text);
    transactions.pop();
    let found = market.execute(0, &transactions).unwrap_err();
    assert!(found.contains(&format!("expect : {EMPTY_ROOT_HASH} ")), "{found}");
}

#[test]
fn an_order_with_a_wrong_nonce_makes_a_block_invalid() {
    let scenario = &scenarios()[0];
    let market = Market::open(scenario);
    let mut transactions = market.transactions(0);
    let twice = [transactions[0].clone(), transactions[0].clone()];
    transactions.splice(..1, twice);
    assert_eq!(market.execute(0, &transactions).unwrap_err(), format!("block {FIRST}: nonce too low"));
}

#[test]
fn lending_and_what_no_miner_wrote_are_refused_by_name() {
    let scenario = &scenarios()[0];
    let market = Market::open(scenario);
    let mut transactions = market.transactions(0);
    let root = scenario["Blocks"][0]["Root"].as_str().unwrap().parse().unwrap();
    transactions[3].2 = roots(root, B256::repeat_byte(7));
    let found = market.execute(0, &transactions).unwrap_err();
    assert!(found.contains("a state of lending that is not empty (spec/chain.md 6.5)"), "{found}");

    let mut transactions = market.transactions(0);
    transactions.push((LENDING, STRANGER, Bytes::from_static(br#"{"Data":[{}],"Timestamp":1}"#)));
    let found = market.execute(0, &transactions).unwrap_err();
    assert!(found.contains("lending on the historic exchange (spec/chain.md 6.5)"), "{found}");

    let mut transactions = market.transactions(0);
    transactions.push((TRADING, STRANGER, Bytes::from_static(br#"{"data":[{"Order":"wA=="}]}"#)));
    let found = market.execute(0, &transactions).unwrap_err();
    assert!(found.contains("a batch of orders in a form that no miner wrote (spec/chain.md 6.1)"), "{found}");
}

fn open_store(folder: &Path, mode: Mode) -> Arc<Store> {
    let options = StoreOptions { mode, background_threads: 2, ..StoreOptions::with_cache(4 << 20) };
    Store::open(folder, options).unwrap()
}

/// A market over the real database, whose folder is opened again and again.
struct StoredMarket {
    market: Market<Store>,
    mode: Mode,
    folder: tempfile::TempDir,
}

impl StoredMarket {
    fn new(scenario: &Value, mode: Mode) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let market = Market::on(scenario, |genesis, chain_id| {
            let store = open_store(folder.path(), mode);
            store.initialise(genesis, chain_id).unwrap();
            store
        });
        Self { market, mode, folder }
    }

    /// Goes on in a folder as a process leaves it that is killed now.
    fn kill(mut self) -> Self {
        let folder = loop {
            let copy = tempfile::tempdir().unwrap();
            if copy_as_of_one_instant(self.folder.path(), copy.path()) {
                break copy;
            }
        };
        self.market.chain = open_store(folder.path(), self.mode);
        self.folder = folder;
        self
    }

    /// The head is this block of the scenario, and everything that belongs to it is there.
    fn assert_stands_at(&self, index: usize) -> TradingReport {
        let market = &self.market;
        let block = &market.scenario["Blocks"][index];
        let header = Arc::clone(&market.chain.head().header);
        let wanted = |name: &str| block[name].as_str().unwrap().parse::<B256>().unwrap();
        assert_eq!(header.number, FIRST + index as u64);
        assert_eq!((header.state_root, market.trading_root()), (wanted("State"), wanted("Root")));
        let report = market.chain.verify(&mut |_| {}, &|| false).unwrap();
        assert_eq!(report.damage, None);
        verify_trading_state(&*market.chain.trie(), wanted("Root"), &mut |_| true).unwrap()
    }
}

/// Copies a folder; false when the database was removing or making files meanwhile.
fn copy_as_of_one_instant(from: &Path, to: &Path) -> bool {
    let listing = || -> BTreeMap<OsString, Option<u64>> {
        let files = fs::read_dir(from).unwrap().map(Result::unwrap);
        files.map(|file| (file.file_name(), file.metadata().ok().map(|found| found.len()))).collect()
    };
    let before = listing();
    before.keys().all(|name| fs::copy(from.join(name), to.join(name)).is_ok()) && listing() == before
}

/// Scenarios that differ: the reference's random markets are many, and each chain has 900 blocks before its first.
fn some_scenarios() -> Vec<Value> {
    scenarios().into_iter().step_by(8).collect()
}

#[test]
fn blocks_with_orders_are_taken_back_and_put_on_again_in_the_real_database_killed_in_between() {
    for scenario in some_scenarios() {
        let mut stored = StoredMarket::new(&scenario, Mode::Archive);
        let last = stored.market.blocks() - 1;
        stored.market.run_to(last);
        let at_the_end = stored.assert_stands_at(last);
        assert!(at_the_end.nodes > 0, "{at_the_end:?}");
        for target in [last - 1, last / 2, last / 4, 0] {
            stored.market.chain.unwind(BlockNumber(FIRST + target as u64)).unwrap();
            stored.assert_stands_at(target);
            stored = stored.kill();
            let then = stored.assert_stands_at(target);
            let half = target + (last - target) / 2;
            stored.market.run_to(half);
            stored.assert_stands_at(half);
            stored = stored.kill();
            stored.market.run_to(last);
            assert_eq!(stored.assert_stands_at(last), at_the_end, "after {then:?} at block {target}");
        }
        println!("seed {}: {} blocks with orders, {at_the_end:?}", scenario["Seed"], last + 1);
    }
}

#[test]
fn pruning_leaves_the_trading_state_of_the_head_and_of_its_window_whole() {
    for scenario in some_scenarios() {
        let mut stored = StoredMarket::new(&scenario, Mode::Pruned(4));
        let last = stored.market.blocks() - 1;
        for index in 0..=last {
            stored.market.run_to(index);
            // Eight heights are pruned with a block: the window is reached at once.
            assert!(stored.market.chain.oldest_state() >= FIRST.saturating_sub(5));
            if index % 5 == 4 {
                stored = stored.kill();
                let oldest = (FIRST + index as u64 - 4).max(FIRST);
                stored.market.chain.unwind(BlockNumber(oldest)).unwrap();
                stored.assert_stands_at(usize::try_from(oldest - FIRST).unwrap());
                stored.market.run_to(index);
            }
            stored.assert_stands_at(index);
        }
    }
}

/// The nodes of a store, of which one is missing or is another one's.
struct Damaged<'a> {
    nodes: &'a dyn TrieReader,
    read: AtomicU64,
    at: u64,
    instead: Option<&'a [u8]>,
}

impl TrieReader for Damaged<'_> {
    fn node(&self, owner: Option<B256>, path: &[u8], hash: B256) -> Result<Option<Bytes>, StoreError> {
        if self.read.fetch_add(1, Ordering::Relaxed) == self.at {
            return Ok(self.instead.map(Bytes::copy_from_slice));
        }
        self.nodes.node(owner, path, hash)
    }
}

#[test]
fn every_node_of_a_trading_state_that_is_missing_or_wrong_is_found() {
    let scenario = &scenarios()[0];
    let market = Market::open(scenario);
    market.run_to(market.blocks() - 1);
    let (trie, root) = (market.chain.trie(), market.trading_root());
    let whole = verify_trading_state(&*trie, root, &mut |_| true).unwrap();
    assert!(whole.nodes > 10 && whole.orders > 0 && whole.records > 0, "{whole:?}");

    for at in 0..whole.nodes {
        for instead in [None, Some(&[0xc2, 0x20, 0x01][..])] {
            let damaged = Damaged { nodes: &*trie, read: AtomicU64::new(0), at, instead };
            let found = verify_trading_state(&damaged, root, &mut |_| true);
            assert!(matches!(found, Err(TradingProblem::Damage { .. })), "node {at}: {found:?}");
        }
    }
    let stopped = verify_trading_state(&*trie, root, &mut |nodes| nodes < 3);
    assert_eq!(stopped, Err(TradingProblem::Stopped));
}
