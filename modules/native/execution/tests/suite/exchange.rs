//! The historic exchange in blocks (`docs/spec/chain.md` 6): random markets with the reference's trading roots and
//! state roots, and refused blocks.

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

use alloy_primitives::{Address, B256, Bytes, address};
use serde_json::Value;
use tenon_api::{BlockNumber, ChainReader, ChainWriter, EMPTY_ROOT_HASH, StoreError, TrieReader};
use tenon_native_exchange::{TradingProblem, TradingReport, verify_trading_state};
use tenon_native_test_node::market::{FIRST, Market, STRANGER, Sent, TRADING, roots, scenarios};
use tenon_storage::{Mode, Store, StoreOptions};

/// Batches of loans.
const LENDING: Address = address!("0000000000000000000000000000000000000093");

#[test]
fn blocks_with_orders_have_the_references_trading_and_state_roots() {
    for scenario in scenarios() {
        let market = Market::open(&scenario);
        market.run_to(market.blocks() - 1);
    }
}

#[test]
fn a_block_with_another_trading_root_is_refused_with_the_references_text() {
    let scenario = &scenarios()[0];
    let market = Market::open(scenario);
    let mut transactions = market.transactions(0);
    let (right, wrong) = (scenario["Blocks"][0]["Root"].as_str().unwrap(), B256::repeat_byte(7));
    transactions[3].input = roots(wrong, EMPTY_ROOT_HASH);
    let text = format!(
        "block {FIRST}: invalid XDCx trading state merke trie got : {right} , expect : {wrong} ,parent : {EMPTY_ROOT_HASH}"
    );
    let error = market.execute(0, &transactions).unwrap_err();
    assert!(error.is_block_invalid());
    assert_eq!(error.to_string(), text);
    transactions.pop();
    let found = market.execute(0, &transactions).unwrap_err().to_string();
    assert!(found.contains(&format!("expect : {EMPTY_ROOT_HASH} ")), "{found}");
}

#[test]
fn an_order_with_a_wrong_nonce_makes_a_block_invalid() {
    let scenario = &scenarios()[0];
    let market = Market::open(scenario);
    let mut transactions = market.transactions(0);
    let twice = [transactions[0].clone(), transactions[0].clone()];
    transactions.splice(..1, twice);
    let error = market.execute(0, &transactions).unwrap_err();
    assert!(error.is_block_invalid());
    assert_eq!(error.to_string(), format!("block {FIRST}: nonce too low"));
}

#[test]
fn lending_and_unknown_forms_of_batches_are_refused_by_name() {
    let scenario = &scenarios()[0];
    let market = Market::open(scenario);
    let mut transactions = market.transactions(0);
    let root = scenario["Blocks"][0]["Root"].as_str().unwrap().parse().unwrap();
    transactions[3].input = roots(root, B256::repeat_byte(7));
    let found = market.execute(0, &transactions).unwrap_err().to_string();
    assert!(found.contains("a state of lending that is not empty (docs/spec/chain.md 6.5)"), "{found}");

    let mut transactions = market.transactions(0);
    transactions.push(Sent::to_exchange(LENDING, STRANGER, &br#"{"Data":[{}],"Timestamp":1}"#[..]));
    let found = market.execute(0, &transactions).unwrap_err().to_string();
    assert!(found.contains("lending on the historic exchange (docs/spec/chain.md 6.5)"), "{found}");

    let mut transactions = market.transactions(0);
    transactions.push(Sent::to_exchange(TRADING, STRANGER, &br#"{"data":[{"Order":"wA=="}]}"#[..]));
    let found = market.execute(0, &transactions).unwrap_err().to_string();
    assert!(found.contains("a batch of orders in a form that no miner wrote (docs/spec/chain.md 6.1)"), "{found}");
}

fn open_store(folder: &Path, mode: Mode) -> (Arc<Store>, Arc<dyn ChainWriter>) {
    let options = StoreOptions { mode, background_threads: 2, ..StoreOptions::with_cache(4 << 20) };
    let store = Store::open(folder, options).unwrap();
    let writer = Arc::new(store.take_writer().unwrap());
    (store, writer)
}

/// A market over the real database, whose folder is reopened repeatedly.
struct StoredMarket {
    market: Market<Store>,
    mode: Mode,
    folder: tempfile::TempDir,
}

impl StoredMarket {
    fn new(scenario: &Value, mode: Mode) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let market = Market::on(scenario, |genesis, chain_id| {
            let (store, writer) = open_store(folder.path(), mode);
            store.initialise(genesis, chain_id).unwrap();
            (store, writer)
        });
        Self { market, mode, folder }
    }

    /// Continues in a copy of the folder, as if the process had been killed at this moment.
    fn kill(mut self) -> Self {
        let folder = loop {
            let copy = tempfile::tempdir().unwrap();
            if copy_as_of_one_instant(self.folder.path(), copy.path()) {
                break copy;
            }
        };
        (self.market.chain, self.market.writer) = open_store(folder.path(), self.mode);
        self.folder = folder;
        self
    }

    /// Checks that the head is this block of the scenario, with all its data.
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

/// Copies a folder; false if the database removed or created files meanwhile.
fn copy_as_of_one_instant(from: &Path, to: &Path) -> bool {
    let listing = || -> BTreeMap<OsString, Option<u64>> {
        let files = fs::read_dir(from).unwrap().map(Result::unwrap);
        files.map(|file| (file.file_name(), file.metadata().ok().map(|found| found.len()))).collect()
    };
    let before = listing();
    before.keys().all(|name| fs::copy(from.join(name), to.join(name)).is_ok()) && listing() == before
}

/// A selection, because the reference's random markets are many and each chain has 900 blocks before its first order.
fn some_scenarios() -> Vec<Value> {
    scenarios().into_iter().step_by(8).collect()
}

#[test]
fn blocks_with_orders_can_be_unwound_and_repeated_in_the_real_database_despite_kills() {
    for scenario in some_scenarios() {
        let mut stored = StoredMarket::new(&scenario, Mode::Archive);
        let last = stored.market.blocks() - 1;
        stored.market.run_to(last);
        let at_the_end = stored.assert_stands_at(last);
        assert!(at_the_end.nodes > 0, "{at_the_end:?}");
        for target in [last - 1, last / 2, last / 4, 0] {
            stored.market.writer.unwind(BlockNumber(FIRST + target as u64)).unwrap();
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
fn pruning_keeps_the_trading_states_of_the_window_complete() {
    for scenario in some_scenarios() {
        let mut stored = StoredMarket::new(&scenario, Mode::Pruned(4));
        let last = stored.market.blocks() - 1;
        for index in 0..=last {
            stored.market.run_to(index);
            // Each block prunes eight heights, so the window is reached soon.
            assert!(stored.market.chain.oldest_state() >= FIRST.saturating_sub(5));
            if index % 5 == 4 {
                stored = stored.kill();
                let oldest = (FIRST + index as u64 - 4).max(FIRST);
                stored.market.writer.unwind(BlockNumber(oldest)).unwrap();
                stored.assert_stands_at(usize::try_from(oldest - FIRST).unwrap());
                stored.market.run_to(index);
            }
            stored.assert_stands_at(index);
        }
    }
}

/// The nodes of a store, one of which is missing or replaced by another.
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
fn every_missing_or_wrong_node_of_a_trading_state_is_found() {
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
