//! Contracts that request prices from the historic exchange (`docs/spec/chain.md` 5.4): in blocks, compared with the
//! reference's roots and receipts, in calls, and in replays of blocks.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256, address};
use serde_json::Value;
use tenon_api::{
    BlockId, BusError, ChainReader, EMPTY_ROOT_HASH, Request,
    messages::{
        BlockOverrides, Call, CallRequest, CreateAccessList, EstimateGas, GetStorageRange, Trace, TraceOptions,
        TraceTarget,
    },
};
use tenon_bus::{Bus, CallContext};
use tenon_native_test_node::{
    answer_calls,
    market::{FIRST, Market, ROOTS, Sent, header_on, roots, scenarios_with_prices},
};
use tenon_sdk::Failure;
use tenon_sdk::error_texts::{RefusableAnswer as _, Refusal};
use tenon_test_node::{LIMITS, MemoryChain, json_of_trace};

const LAST_PRICE: Address = address!("0000000000000000000000000000000000000029");
const EPOCH_PRICE: Address = address!("000000000000000000000000000000000000002a");
/// End of the exchange's time.
const END: u64 = 5_000;

#[test]
fn blocks_whose_contracts_request_prices_have_the_references_roots_and_receipts() {
    for scenario in scenarios_with_prices() {
        let market = Market::open(&scenario);
        market.run_to(market.blocks() - 1);
    }
}

/// A market with all its blocks, behind the handlers of this crate.
struct Node {
    market: Market<MemoryChain>,
    bus: Bus,
}

impl Node {
    fn new(scenario: &Value) -> Self {
        let market = Market::open(scenario);
        market.run_to(market.blocks() - 1);
        let (spec, chain, engine) = (Arc::clone(&market.spec), Arc::clone(&market.chain), Arc::clone(&market.engine));
        let bus = Bus::new();
        answer_calls(&bus, &spec, chain, engine, LIMITS);
        Self { market, bus }
    }

    async fn ask<R: Request>(&self, request: R) -> Result<R::Reply, BusError> {
        self.bus.call(request, &CallContext::new()).await
    }

    /// The reply to a request that may be refused.
    async fn answer<R, T, E: Refusal>(&self, request: R) -> Result<T, Failure>
    where
        R: Request<Reply = Result<T, E>>,
    {
        self.ask(request).await.map_err(Failure::from).or_failure()
    }

    async fn call(&self, request: CallRequest, number: u64) -> Result<Bytes, Failure> {
        self.answer(call(request, number)).await
    }

    async fn trace(&self, target: TraceTarget) -> Value {
        let trace = Trace { target, options: TraceOptions::default() };
        json_of_trace(self.ask(trace).await.unwrap().unwrap())
    }

    /// Value of a contract's slot before a transaction.
    async fn slot_before(&self, priced: &PricedTransaction, index: usize) -> U256 {
        let request = GetStorageRange {
            block: self.block_hash(priced.number),
            transaction_index: i64::try_from(index).unwrap(),
            contract: priced.asking.to.unwrap(),
            start: Bytes::new(),
            limit: i64::MAX,
        };
        let range = self.ask(request).await.unwrap().unwrap();
        let slot = B256::from_slice(&priced.asking.input[64..96]);
        range.slots.iter().find(|found| found.slot == slot).map(|found| found.value).unwrap_or_default()
    }

    fn block_hash(&self, number: u64) -> B256 {
        self.market.chain.canonical_hash(number.into()).unwrap().unwrap()
    }

    fn transaction_hash(&self, number: u64, index: usize) -> B256 {
        self.market.chain.block(self.block_hash(number)).unwrap().unwrap().transactions[index].hash
    }
}

fn call(request: CallRequest, number: u64) -> Call {
    let block = BlockId::Number(number.into());
    Call { request, block, state_overrides: vec![], block_overrides: BlockOverrides::default() }
}

fn price_request(contract: Address, base: Address, quote: Address) -> CallRequest {
    let input = [base.into_word(), quote.into_word()].concat().into();
    CallRequest { to: Some(contract), input, ..CallRequest::default() }
}

/// Prices that the reference's EVM returned at a block: the pair, and the answers of both contracts.
struct RecordedPrices {
    number: u64,
    pair: [Address; 2],
    last: Bytes,
    epoch: Bytes,
}

fn recorded_prices(scenario: &Value) -> Vec<RecordedPrices> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let blocks = (FIRST..).zip(scenario["Blocks"].as_array().unwrap());
    let told = blocks.flat_map(|(number, block)| {
        block["Prices"].as_array().unwrap().iter().map(move |prices| RecordedPrices {
            number,
            pair: [text(&prices["Base"]).parse().unwrap(), text(&prices["Quote"]).parse().unwrap()],
            last: text(&prices["Last"]).parse().unwrap(),
            epoch: text(&prices["Epoch"]).parse().unwrap(),
        })
    });
    told.collect()
}

fn is_price(answer: &Bytes) -> bool {
    !U256::from_be_slice(answer).is_zero()
}

#[tokio::test]
async fn calls_at_a_block_get_the_prices_after_it() {
    let (mut prices, mut differing) = (0, 0);
    for scenario in scenarios_with_prices() {
        let node = Node::new(&scenario);
        for told in recorded_prices(&scenario) {
            let [base, quote] = told.pair;
            let last = node.call(price_request(LAST_PRICE, base, quote), told.number).await.unwrap();
            let epoch = node.call(price_request(EPOCH_PRICE, base, quote), told.number).await.unwrap();
            assert_eq!((&last, &epoch), (&told.last, &told.epoch), "seed {}, {}", scenario["Seed"], told.number);
            prices += usize::from(is_price(&last));
            differing += usize::from(last != epoch);
        }
    }
    assert!(prices > 100 && differing > 50, "{prices} prices, {differing} of them not the epoch's");
}

/// The contract with which the scenarios call others by STATICCALL, and its input for a given target.
fn through_reader(scenario: &Value, target: Address, pair: [Address; 2]) -> CallRequest {
    let reader = scenario["Code"].as_object().unwrap().iter().find(|(_, code)| {
        let code = code.as_str().unwrap();
        code.contains("602035fa61") && !code.contains("fd5b")
    });
    let gas = B256::from(U256::from(50_000));
    let input = [target.into_word(), gas, B256::ZERO, pair[0].into_word(), pair[1].into_word()].concat().into();
    CallRequest { to: Some(reader.unwrap().0.parse().unwrap()), input, ..CallRequest::default() }
}

#[tokio::test]
async fn estimates_and_access_lists_get_the_same_prices() {
    let scenario = &scenarios_with_prices()[0];
    let node = Node::new(scenario);
    let told = recorded_prices(scenario).into_iter().rfind(|told| is_price(&told.last)).unwrap();
    let estimate = |target, pair| EstimateGas {
        request: through_reader(scenario, target, pair),
        block: BlockId::Number(told.number.into()),
        state_overrides: vec![],
        block_overrides: BlockOverrides::default(),
        has_no_data: false,
    };
    let list = |target, pair| CreateAccessList {
        request: CallRequest { gas: Some(300_000), ..through_reader(scenario, target, pair) },
        block: BlockId::Number(told.number.into()),
        state_overrides: vec![],
    };
    let unknown = [Address::repeat_byte(1), Address::repeat_byte(2)];
    // Storing a price uses a slot, storing zero does not.
    let with = node.answer(estimate(LAST_PRICE, told.pair)).await.unwrap();
    let without = node.answer(estimate(LAST_PRICE, unknown)).await.unwrap();
    assert!(with > without + 10_000, "{with} {without}");
    let with = node.answer(list(LAST_PRICE, told.pair)).await.unwrap();
    let without = node.answer(list(LAST_PRICE, unknown)).await.unwrap();
    assert_eq!((&with.failure, &without.failure), (&None, &None));
    assert!(with.gas_used > without.gas_used + 10_000, "{with:?} {without:?}");
}

#[tokio::test]
async fn outside_the_exchanges_time_there_are_no_prices() {
    let scenario = &scenarios_with_prices()[0];
    let node = Node::new(scenario);
    let told = recorded_prices(scenario).into_iter().rfind(|told| is_price(&told.last)).unwrap();
    for (number, is_told) in [(FIRST - 1, false), (FIRST, true), (END - 1, true), (END, false)] {
        let mut call = call(price_request(LAST_PRICE, told.pair[0], told.pair[1]), told.number);
        call.block_overrides.number = Some(U256::from(number));
        let answer = node.answer(call).await.unwrap();
        assert_eq!((answer.len(), is_price(&answer)), (32, is_told), "in a block {number}");
    }
}

#[tokio::test]
async fn a_price_that_cannot_be_read_fails_the_call_and_refuses_the_block() {
    let scenario = &scenarios_with_prices()[0];
    let node = Node::new(scenario);
    let told = recorded_prices(scenario).into_iter().rfind(|told| is_price(&told.last)).unwrap();
    let market = &node.market;
    let root = market.trading_root();
    market.chain.delete_trie_nodes();
    let missing = format!(
        "database record damaged: the trading state of the historic exchange: the database does not have the trie node \
         {root} at path 0x; run `tenon db verify`"
    );

    let head = market.chain.head().header.number;
    let direct = node.call(price_request(LAST_PRICE, told.pair[0], told.pair[1]), head).await.unwrap_err();
    assert_eq!(direct.to_string(), missing);
    let inner = node.call(through_reader(scenario, EPOCH_PRICE, told.pair), head).await.unwrap_err();
    assert_eq!(inner.to_string(), missing);

    // A block without orders does not read the trading state itself.
    let request = through_reader(scenario, LAST_PRICE, told.pair);
    let sent = [
        Sent::to_exchange(ROOTS, market.author, roots(root, EMPTY_ROOT_HASH)),
        Sent {
            nonce: Some(0),
            gas_limit: 300_000,
            ..Sent::to_exchange(request.to.unwrap(), market.author, request.input)
        },
    ];
    let header = header_on(&*market.chain, B256::ZERO, &sent);
    let header = tenon_api::Header { beneficiary: market.author, ..header };
    assert_eq!(market.execute_with(header, &sent).unwrap_err().to_string(), missing);
}

/// A transaction of a block that requests and stores a price, and its pair's price.
struct PricedTransaction {
    number: u64,
    index: usize,
    asking: Sent,
    in_block: U256,
    in_parent: U256,
}

/// Transactions in which contracts request a price changed by a trade of the same block, each followed by one that
/// loads the stored value.
fn priced_transactions(node: &Node) -> Vec<PricedTransaction> {
    let scenario = &node.market.scenario;
    let told = recorded_prices(scenario);
    let price = |number: u64, target: Address, pair: [Address; 2]| {
        let found = told.iter().find(|told| told.number == number && told.pair == pair)?;
        Some(U256::from_be_slice(if target == LAST_PRICE { &found.last } else { &found.epoch }))
    };
    let mut priced_transactions = Vec::new();
    for (block, number) in (FIRST..FIRST + node.market.blocks() as u64).enumerate().skip(1) {
        let sent = node.market.transactions(block);
        for (index, asking) in sent.iter().enumerate() {
            let is_loaded = sent.get(index + 1).is_some_and(|next| next.to == asking.to && next.input.len() == 32);
            let has_succeeded = scenario["Blocks"][block]["Transactions"][index]["Status"] == 1;
            if !is_loaded || !has_succeeded || asking.input.len() != 160 {
                continue;
            }
            let token = |word: usize| Address::from_slice(&asking.input[32 * word + 12..32 * word + 32]);
            let (target, pair) = (token(0), [token(3), token(4)]);
            let (Some(in_block), Some(in_parent)) = (price(number, target, pair), price(number - 1, target, pair))
            else {
                continue;
            };
            if in_block != in_parent && U256::from_be_slice(&asking.input[32..64]) > U256::ONE {
                priced_transactions.push(PricedTransaction {
                    number,
                    index,
                    asking: asking.clone(),
                    in_block,
                    in_parent,
                });
            }
        }
    }
    priced_transactions
}

#[tokio::test]
async fn replayed_transactions_get_the_parents_prices_and_traced_ones_get_none() {
    let mut tried = 0;
    for scenario in scenarios_with_prices() {
        let node = Node::new(&scenario);
        for priced in priced_transactions(&node) {
            tried += 1;
            let (number, index) = (priced.number, priced.index);
            let text = format!("seed {}, block {number}, transaction {index}", scenario["Seed"]);
            assert_ne!(priced.in_block, priced.in_parent);
            assert_eq!(node.slot_before(&priced, index).await, U256::ZERO, "{text}");
            assert_eq!(node.slot_before(&priced, index + 1).await, priced.in_parent, "{text}");

            // The traced one stores the price that it gets: zero.
            let traced = node.trace(TraceTarget::Transaction(node.transaction_hash(number, index))).await;
            assert_eq!(written(&traced), Some(U256::ZERO), "{text}");
            let loaded = node.trace(TraceTarget::Transaction(node.transaction_hash(number, index + 1))).await;
            assert_eq!(returned(&loaded), priced.in_parent, "{text}");

            // In a trace of the whole block, the traced transaction gets no price either; the later ones follow an
            // untraced run of it.
            let whole = node.trace(TraceTarget::Block(BlockId::Number(number.into()))).await;
            assert_eq!(written(&whole[index]["result"]), Some(U256::ZERO), "{text}");
            assert_eq!(returned(&whole[index + 1]["result"]), priced.in_parent, "{text}");
        }
    }
    assert!(tried >= 5, "{tried} transactions tried");
}

fn returned(trace: &Value) -> U256 {
    U256::from_str_radix(trace["returnValue"].as_str().unwrap(), 16).unwrap()
}

/// The value written by the last SSTORE of a trace.
fn written(trace: &Value) -> Option<U256> {
    let steps = trace["structLogs"].as_array()?;
    let stack = steps.iter().rfind(|step| step["op"] == "SSTORE")?["stack"].as_array()?;
    U256::from_str_radix(stack[stack.len() - 2].as_str()?.trim_start_matches("0x"), 16).ok()
}

#[tokio::test]
async fn a_traced_call_gets_no_price() {
    let scenario = &scenarios_with_prices()[0];
    let node = Node::new(scenario);
    let told = recorded_prices(scenario).into_iter().rfind(|told| is_price(&told.last)).unwrap();
    // A traced call is paid for.
    let sent = (0..node.market.blocks()).flat_map(|block| node.market.transactions(block));
    let from = sent.into_iter().find(|sent| sent.gas_price > 0).map(|sent| sent.from);
    for transaction_index in [None, Some(1)] {
        let request = price_request(LAST_PRICE, told.pair[0], told.pair[1]);
        let target = TraceTarget::Call {
            request: Box::new(CallRequest { from, gas: Some(100_000), ..request }),
            block: BlockId::Number(told.number.into()),
            transaction_index,
            state_overrides: vec![],
            block_overrides: Box::default(),
        };
        let trace = node.trace(target).await;
        assert_eq!((trace["returnValue"].as_str().unwrap().len(), returned(&trace)), (64, U256::ZERO));
    }
}
