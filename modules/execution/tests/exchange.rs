//! The historic exchange in blocks (`spec/chain.md` 6): random markets, with the trading roots and state roots that the
//! reference came to, and what is refused.
#![allow(missing_docs, clippy::unwrap_used, reason = "a failure fails the test")]

mod support;

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256, address};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use support::{MemoryChain, sealess::SealessEngine, test_data};
use tenon_api::{
    Block, BlockCommit, ChainReader, ChainWriter, EMPTY_ROOT_HASH, Header, Log, NativeSeal, Receipt, ReceiptOutcome,
    RecoveredBlock, Transaction, TransactionPayload, TransactionSignature, TransactionType,
};
use tenon_chain::{ChainSpec, Genesis, receipts_root_and_bloom};
use tenon_execution::Executor;

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
struct Market {
    scenario: Value,
    author: Address,
    chain: MemoryChain,
    executor: Executor,
    engine: SealessEngine,
}

impl Market {
    fn open(scenario: &Value) -> Self {
        let (spec, genesis) = genesis_of(scenario);
        let chain = MemoryChain::new(&genesis);
        while chain.head().header.number < FIRST - 1 {
            let mut commit = genesis.clone();
            let header = header_on(&chain, genesis.block.header.state_root, &[]);
            commit.block = block_of(header, Vec::new());
            (commit.accounts, commit.codes, commit.trie_nodes) = (Vec::new(), Vec::new(), Vec::new());
            chain.commit(&commit).unwrap();
        }
        let blocks = scenario["Blocks"].as_array().unwrap();
        let epochs = (FIRST..).zip(blocks).filter(|(_, block)| block["Epoch"] == true).map(|(number, _)| number);
        let engine = SealessEngine { epochs: epochs.collect() };
        let author = scenario["Author"].as_str().unwrap().parse().unwrap();
        Self { scenario: scenario.clone(), author, chain, executor: Executor::new(spec), engine }
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
        let mut header = header_on(&self.chain, state_root, transactions);
        header.beneficiary = self.author;
        let parent = self.chain.head().header.clone();
        let block = block_of(header, transactions.to_vec());
        self.executor.execute(&self.chain, &self.engine, block, &parent).map_err(|error| error.to_string())
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

fn header_on(chain: &MemoryChain, state_root: B256, transactions: &[(Address, Address, Bytes)]) -> Header {
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
        receipts_root,
        logs_bloom,
        native_seal: Some(NativeSeal::default()),
        ..Header::default()
    }
}

fn block_of(header: Header, transactions: Vec<(Address, Address, Bytes)>) -> Arc<RecoveredBlock> {
    let senders = transactions.iter().map(|(_, sender, _)| *sender).collect();
    let transactions = transactions.into_iter().map(|(to, _, input)| {
        Arc::new(Transaction {
            hash: B256::ZERO,
            chain_id: None,
            nonce: 0,
            gas_limit: 40_000_000,
            to: Some(to),
            value: U256::ZERO,
            input,
            payload: TransactionPayload::Legacy { gas_price: U256::ZERO },
            signature: TransactionSignature { v: 27, r: U256::ONE, s: U256::ONE },
        })
    });
    let (header, transactions) = (tenon_chain::seal(header), transactions.collect());
    let block = Block { header, transactions, ommers: Vec::new(), withdrawals: None, size: 1_000 };
    Arc::new(RecoveredBlock { block, senders })
}

#[test]
fn blocks_with_orders_come_to_the_trading_roots_and_state_roots_of_the_reference() {
    for scenario in scenarios() {
        let market = Market::open(&scenario);
        for index in 0..scenario["Blocks"].as_array().unwrap().len() {
            let commit = market.execute(index, &market.transactions(index));
            let commit = commit.unwrap_or_else(|error| panic!("seed {}, {error}", scenario["Seed"]));
            market.chain.commit(&commit).unwrap();
        }
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
