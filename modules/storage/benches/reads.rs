//! Measures a state read at the head and in history.
//!
//! There are 100 000 accounts with one slot each, and ten versions of each over 100 blocks. Keys are hashes. One thread
//! reads uniformly, from the database and from the state cache; everything is in the page cache. `cargo bench -p
//! tenon-storage --bench reads`.

#![allow(clippy::expect_used, reason = "a failed setup ends the bench")]

use std::{hint::black_box, sync::Arc};

use alloy_primitives::{Address, B256, U256, keccak256};
use criterion::{Criterion, criterion_group, criterion_main};
use tenon_api::{
    Account, AccountChange, Block, BlockCommit, BlockNumber, ChainReader, ChainWriter, Header, RecoveredBlock,
    SlotChange,
};
use tenon_storage::{Durability, Store, StoreOptions};

const ACCOUNTS: u64 = 100_000;
const BLOCKS: u64 = 100;
/// Each block changes every tenth account.
const STEP: u64 = 10;

fn address(index: u64) -> Address {
    Address::from_slice(&keccak256(index.to_be_bytes())[12..])
}

fn change(index: u64, number: u64) -> AccountChange {
    AccountChange {
        address: address(index),
        account: Some(Account { nonce: number, balance: U256::from(index << 40 | number), ..Account::default() }),
        storage_wiped: false,
        slots: vec![SlotChange { slot: B256::ZERO, value: U256::from(number + 1) }],
    }
}

/// A block without transactions that changes accounts; roots are not checked here.
fn commit(number: u64, parent_hash: B256, accounts: Vec<AccountChange>) -> BlockCommit {
    let header = tenon_chain::seal(Header { number, parent_hash, ..Header::default() });
    let block = Block { header, transactions: Vec::new(), ommers: Vec::new(), withdrawals: None, size: 0 };
    BlockCommit {
        block: Arc::new(RecoveredBlock { block, senders: Vec::new() }),
        total_difficulty: U256::ZERO,
        receipts: Arc::default(),
        accounts,
        codes: Vec::new(),
        trie_nodes: Vec::new(),
        superseded_trie_nodes: Vec::new(),
    }
}

/// Opens the store with a state cache of this many bytes.
fn open(folder: &std::path::Path, state_cache_bytes: usize) -> Arc<Store> {
    let options =
        StoreOptions { durability: Durability::OnFlush, state_cache_bytes, ..StoreOptions::with_cache(512 << 20) };
    Store::open(folder, options).expect("a folder that can be written")
}

fn filled(folder: &std::path::Path) -> Arc<Store> {
    let store = open(folder, 0);
    let genesis = commit(0, B256::ZERO, Vec::new());
    store.initialise(&genesis, 1).expect("a new database");
    let writer = store.take_writer().expect("the only writer");
    let started = std::time::Instant::now();
    let mut parent = genesis.block.hash();
    for number in 1..=BLOCKS {
        let accounts = (number % STEP..ACCOUNTS).step_by(STEP as usize).map(|index| change(index, number)).collect();
        let block = Arc::new(commit(number, parent, accounts));
        writer.commit(&block).expect("a block that follows");
        parent = block.block.hash();
    }
    let changes = BLOCKS * ACCOUNTS / STEP;
    let rate = changes as f64 * 2.0 / started.elapsed().as_secs_f64();
    eprintln!("{BLOCKS} blocks committed, {rate:.0} accounts and slots a second");
    store.flush().expect("a flush");
    store
}

/// Account numbers in an order that defeats caches.
fn scattered() -> impl FnMut() -> u64 {
    let mut state = 1_u64;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % ACCOUNTS
    }
}

fn reads(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    reads_of(criterion, "state read", &filled(folder.path()));
    // Large enough for all accounts. The warm-up reads each once; the second reads are measured.
    reads_of(criterion, "state read again", &open(folder.path(), 256 << 20));
}

fn reads_of(criterion: &mut Criterion, group: &str, store: &Arc<Store>) {
    let at = |number| store.state_at(BlockNumber(number)).expect("a state that is there");
    let (head, middle) = (at(BLOCKS), at(BLOCKS / 2));
    let mut group = criterion.benchmark_group(group);
    let mut next = scattered();
    for (name, state, offset) in [
        ("account at the head", &head, 0),
        ("account in history", &middle, 0),
        ("account that does not exist", &head, ACCOUNTS),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(state.account(address(next() + offset)).expect("a read")));
        });
    }
    for (name, state) in [("slot at the head", &head), ("slot in history", &middle)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(state.storage(address(next()), B256::ZERO).expect("a read")));
        });
    }
    group.bench_function("making the key alone", |bencher| bencher.iter(|| black_box(address(next()))));
    group.bench_function("state_at", |bencher| bencher.iter(|| black_box(at(BLOCKS / 2))));
    group.finish();
}

criterion_group!(benches, reads);
criterion_main!(benches);
