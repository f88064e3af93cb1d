//! Random markets of the historic exchange as chains (`tests/data/native/README.md`).

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256, address};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tenon_api::{
    Block, BlockCommit, ChainReader, ChainWriter, EMPTY_ROOT_HASH, Header, Log, NativeSeal, Receipt, ReceiptOutcome,
    RecoveredBlock, Transaction, TransactionPayload, TransactionSignature, TransactionType,
};
use tenon_chain::{ChainSpec, receipts_root_and_bloom};
use tenon_execution_block::Executor;
use tenon_execution_interface::ExecutionError;
use tenon_native_exchange::trading_root;
use tenon_native_spec::{NativeSettings, read_genesis};

use tenon_test_node::{MemoryChain, sealess::SealessEngine, test_data};

use crate::rules_of_blocks;

/// Batches of orders.
pub const TRADING: Address = address!("0000000000000000000000000000000000000091");
/// Roots.
pub const ROOTS: Address = address!("0000000000000000000000000000000000000092");
pub const STRANGER: Address = Address::repeat_byte(0xbb);
/// The first block in which the exchange is active.
pub const FIRST: u64 = 901;

/// A chain up to the block before the first, with a scenario's initial state.
pub struct Market<C> {
    pub scenario: Value,
    pub author: Address,
    pub chain: Arc<C>,
    pub writer: Arc<dyn ChainWriter>,
    pub spec: Arc<ChainSpec>,
    pub executor: Executor,
    pub engine: Arc<SealessEngine>,
}

/// A transaction of a scenario.
#[derive(Clone)]
pub struct Sent {
    /// None for a creation.
    pub to: Option<Address>,
    pub from: Address,
    pub input: Bytes,
    /// `None` if the nonce is irrelevant.
    pub nonce: Option<u64>,
    pub gas_limit: u64,
    pub gas_price: u64,
}

impl Sent {
    /// A transaction in the form of the exchange's.
    pub fn to_exchange(to: Address, from: Address, input: impl Into<Bytes>) -> Self {
        Self { to: Some(to), from, input: input.into(), nonce: None, gas_limit: 40_000_000, gas_price: 0 }
    }

    fn recorded(transaction: &Value) -> Self {
        let text = |name: &str| text_of(transaction, name);
        Self {
            to: (!text("To").is_empty()).then(|| text("To").parse().unwrap()),
            from: text("From").parse().unwrap(),
            input: text("Data").parse().unwrap(),
            nonce: transaction["Nonce"].as_u64(),
            gas_limit: number_of(transaction, "Gas"),
            gas_price: number_of(transaction, "GasPrice"),
        }
    }
}

impl Market<MemoryChain> {
    pub fn open(scenario: &Value) -> Self {
        Self::on(scenario, |genesis, _| {
            let chain = Arc::new(MemoryChain::new(genesis));
            (Arc::clone(&chain), chain)
        })
    }
}

impl<C: ChainReader> Market<C> {
    pub fn on(scenario: &Value, open: impl FnOnce(&BlockCommit, u64) -> (Arc<C>, Arc<dyn ChainWriter>)) -> Self {
        let (spec, genesis) = genesis_of(scenario);
        let (chain, writer) = open(&genesis, spec.chain_id);
        while chain.head().header.number < FIRST - 1 {
            let mut commit = genesis.clone();
            let header = header_on(&*chain, genesis.block.header.state_root, &[]);
            commit.total_difficulty = chain.head().total_difficulty + header.difficulty;
            commit.block = block_of(header, Vec::new());
            (commit.accounts, commit.codes, commit.trie_nodes) = (Vec::new(), Vec::new(), Vec::new());
            writer.commit(&Arc::new(commit)).unwrap();
        }
        let blocks = list_of(scenario, "Blocks");
        let epochs = (FIRST..).zip(blocks).filter(|(_, block)| block["Epoch"] == true).map(|(number, _)| number);
        let engine = Arc::new(SealessEngine { epochs: epochs.collect() });
        let author = text_of(scenario, "Author").parse().unwrap();
        let executor = Executor::new(rules_of_blocks(&spec));
        Self { scenario: scenario.clone(), author, chain, writer, spec, executor, engine }
    }

    pub fn blocks(&self) -> usize {
        list_of(&self.scenario, "Blocks").len()
    }

    /// Executes and commits from the head up to and including this block of the scenario. Execution compares the state
    /// root and the trading root with the reference's.
    pub fn run_to(&self, last: usize) {
        let head = self.chain.head().header.number;
        for index in usize::try_from(head + 1 - FIRST).unwrap()..=last {
            let commit = self.execute(index, &self.transactions(index));
            let commit = commit.unwrap_or_else(|error| panic!("seed {}, {error}", self.scenario["Seed"]));
            self.writer.commit(&Arc::new(commit)).unwrap();
        }
    }

    /// The trading root stated by the head.
    pub fn trading_root(&self) -> B256 {
        trading_root(&self.spec, &*self.chain, &*self.engine).unwrap().expect("the exchange is active at the head")
    }

    /// The transactions of a block of the scenario, including the reference's trading root.
    pub fn transactions(&self, index: usize) -> Vec<Sent> {
        let block = &self.scenario["Blocks"][index];
        if let Some(transactions) = block["Transactions"].as_array() {
            return transactions.iter().map(Sent::recorded).collect();
        }
        let orders: Vec<Bytes> = serde_json::from_value(block["Orders"].clone()).unwrap_or_default();
        let (first, second) = orders.split_at(orders.len() / 2);
        vec![
            Sent::to_exchange(TRADING, STRANGER, batch(first)),
            Sent::to_exchange(TRADING, self.author, batch(second)),
            Sent::to_exchange(ROOTS, STRANGER, vec![7; 64]),
            Sent::to_exchange(ROOTS, self.author, roots(text_of(block, "Root").parse().unwrap(), EMPTY_ROOT_HASH)),
        ]
    }

    /// Executes the next block, with these transactions.
    pub fn execute(&self, index: usize, transactions: &[Sent]) -> Result<BlockCommit, ExecutionError> {
        let recorded = &self.scenario["Blocks"][index];
        let text = |name: &str| text_of(recorded, name);
        let mut header = header_on(&*self.chain, text("State").parse().unwrap(), transactions);
        header.beneficiary = self.author;
        if let Some(gas_used) = recorded["GasUsed"].as_u64() {
            header.gas_used = gas_used;
            header.receipts_root = text("Receipts").parse().unwrap();
            header.logs_bloom = text("Bloom").parse().unwrap();
        }
        self.execute_with(header, transactions)
    }

    /// Executes the next block, with this header.
    pub fn execute_with(&self, header: Header, transactions: &[Sent]) -> Result<BlockCommit, ExecutionError> {
        let parent = self.chain.head().header.clone();
        let block = block_of(header, transactions.to_vec());
        self.executor.execute(&*self.chain, &*self.engine, block, &parent)
    }
}

/// Random markets.
pub fn scenarios() -> Vec<Value> {
    tenon_test_data::json("native/exchange.json.gz")
}

/// Random markets whose contracts request prices; those of the file `TENON_MARKETS` instead, if set.
pub fn scenarios_with_prices() -> Vec<Value> {
    let recorded = match std::env::var_os("TENON_MARKETS") {
        Some(file) => std::fs::read(file).unwrap(),
        None => test_data("native/exchange-prices.json.gz"),
    };
    serde_json::from_slice(&recorded).unwrap()
}

fn text_of<'a>(recorded: &'a Value, member: &str) -> &'a str {
    recorded[member].as_str().unwrap_or_else(|| panic!("{member} is {}, not a text", recorded[member]))
}

fn number_of(recorded: &Value, member: &str) -> u64 {
    recorded[member].as_u64().unwrap_or_else(|| panic!("{member} is {}, not a number", recorded[member]))
}

fn list_of<'a>(recorded: &'a Value, member: &str) -> &'a [Value] {
    recorded[member].as_array().unwrap_or_else(|| panic!("{member} is {}, not a list", recorded[member]))
}

fn genesis_of(scenario: &Value) -> (Arc<ChainSpec>, BlockCommit) {
    let mut alloc = json!({});
    for entry in list_of(scenario, "Balances") {
        let balance = U256::from_str_radix(text_of(entry, "Balance"), 10).unwrap();
        if !balance.is_zero() {
            alloc[text_of(entry, "Address")]["balance"] = json!(balance);
        }
    }
    for entry in list_of(scenario, "Slots") {
        if entry["Value"] != json!(B256::ZERO) {
            alloc[text_of(entry, "Address")]["storage"][text_of(entry, "Slot")] = entry["Value"].clone();
        }
    }
    for (token, decimals) in scenario["Decimals"].as_object().expect("a market has the decimals of its tokens") {
        // A contract that answers every call with its decimals.
        let decimals =
            u8::try_from(decimals.as_u64().unwrap_or_else(|| panic!("the decimals of {token} are {decimals}")))
                .unwrap();
        alloc[token]["code"] = json!(Bytes::from(vec![0x60, decimals, 0x60, 0, 0x52, 0x60, 0x20, 0x60, 0, 0xf3]));
    }
    for (contract, code) in scenario["Code"].as_object().into_iter().flatten() {
        alloc[contract]["code"] = code.clone();
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
    let genesis = read_genesis(text.to_string().as_bytes()).unwrap();
    let commit = genesis.commit().unwrap();
    let mut spec = genesis.spec;
    let native = NativeSettings::of_mut(Arc::make_mut(&mut spec)).unwrap();
    let first = number_of(&scenario["Blocks"][0], "Number");
    (native.heights.tip_xdcx, native.heights.tip_xdcx_receiver_disable) = (FIRST, 5_000);
    native.heights.tip_xdcx_cancellation_fee = number_of(scenario, "CancelFeeAt") - first + FIRST;
    native.heights.petersburg = native.heights.tip_xdcx_cancellation_fee;
    native.heights.istanbul = native.heights.tip_xdcx_cancellation_fee;
    native.contracts.relayer_registration = text_of(scenario, "Registration").parse().unwrap();
    (spec, commit)
}

fn batch(orders: &[Bytes]) -> Bytes {
    let orders: Vec<Value> = orders.iter().map(|order| json!({"Order": STANDARD.encode(order)})).collect();
    json!({"Data": orders, "Timestamp": 1, "TxHash": B256::ZERO}).to_string().into_bytes().into()
}

pub fn roots(trading: B256, lending: B256) -> Bytes {
    [trading, lending].concat().into()
}

/// A header for the next block, all of whose transactions go to the exchange.
pub fn header_on(chain: &dyn ChainReader, state_root: B256, transactions: &[Sent]) -> Header {
    let parent = chain.head().header.clone();
    let receipts: Vec<Receipt> = transactions
        .iter()
        .map(|sent| Receipt {
            transaction_type: TransactionType::Legacy,
            outcome: ReceiptOutcome::Status(true),
            cumulative_gas_used: 0,
            gas_used: 0,
            logs: vec![Log { address: sent.to.unwrap_or_default(), topics: Vec::new(), data: Bytes::new() }],
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

fn transactions_of(block: u64, transactions: Vec<Sent>) -> Vec<Arc<Transaction>> {
    // Makes every transaction of a chain unique.
    let transactions = (block * 10..).zip(transactions).map(|(nonce, sent)| {
        let mut transaction = Transaction {
            hash: B256::ZERO,
            chain_id: None,
            nonce: sent.nonce.unwrap_or(nonce),
            gas_limit: sent.gas_limit,
            to: sent.to,
            value: U256::ZERO,
            input: sent.input,
            payload: TransactionPayload::Legacy { gas_price: U256::from(sent.gas_price) },
            signature: TransactionSignature { v: 27, r: U256::ONE, s: U256::ONE },
        };
        transaction.hash = tenon_chain::transaction_hash(&transaction);
        Arc::new(transaction)
    });
    transactions.collect()
}

fn block_of(header: Header, transactions: Vec<Sent>) -> Arc<RecoveredBlock> {
    let senders = transactions.iter().map(|sent| sent.from).collect();
    let (header, transactions) = (tenon_chain::seal(header.clone()), transactions_of(header.number, transactions));
    let block = Block { header, transactions, ommers: Vec::new(), withdrawals: None, size: 1_000 };
    Arc::new(RecoveredBlock { block, senders })
}
