//! A search by index finds the same as a full scan.

use std::{
    cell::Cell,
    path::Path,
    sync::{Arc, OnceLock},
};

use proptest::prelude::*;
use tenon_api::{
    BlockCommit, BlockNumber, BusError, ChainReader, LocatedLog, LogFilter,
    messages::{GetLogs, LogRange},
};
use tenon_storage::{Mode, Store, StoreLimits, StoreOptions};

use crate::{
    handlers::{LIMITS, ask, bus_within, immediately},
    support::{Maker, Random, address, assert_whole, change, fill, log, open, options, word},
};

const BLOCKS: u64 = 80;

/// The chain for all cases.
fn chain() -> &'static Maker {
    static CHAIN: OnceLock<Maker> = OnceLock::new();
    CHAIN.get_or_init(|| {
        let mut random = Random::seeded(7);
        let mut maker = Maker::new();
        for _ in 0..BLOCKS {
            maker.add_random(&mut random);
        }
        maker
    })
}

/// The answer from reading every receipt.
fn scan(commits: &[BlockCommit], from: u64, to: u64, filter: &LogFilter) -> Vec<LocatedLog> {
    let mut found = Vec::new();
    for commit in commits.iter().filter(|commit| (from..=to).contains(&commit.block.header.number)) {
        let mut log_index = 0;
        for (transaction_index, (transaction, receipt)) in
            (0..).zip(commit.block.transactions.iter().zip(commit.receipts.iter()))
        {
            for log in &receipt.logs {
                if filter.matches(log) {
                    found.push(LocatedLog {
                        log: log.clone(),
                        block_number: commit.block.number(),
                        block_hash: commit.block.hash(),
                        block_timestamp: commit.block.header.timestamp,
                        transaction_hash: transaction.hash,
                        transaction_index,
                        log_index,
                        removed: false,
                    });
                }
                log_index += 1;
            }
        }
    }
    found
}

fn filter() -> impl Strategy<Value = LogFilter> {
    let addresses = prop::collection::vec((0..5_u64).prop_map(address), 0..3);
    let topics = prop::collection::vec(prop::collection::vec((0..5_u64).prop_map(word), 0..3), 0..5);
    (addresses, topics).prop_map(|(addresses, topics)| LogFilter { addresses, topics })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_index_finds_the_same_as_a_full_scan(
        filter in filter(),
        from in 0..BLOCKS + 5,
        length in 0..BLOCKS + 5,
        limit in prop_oneof![Just(usize::MAX - 1), 0..20_usize],
    ) {
        let maker = chain();
        let to = from + length;
        let mut expected = scan(&maker.commits, from, to, &filter);
        expected.truncate(limit + 1);

        let found = maker.store.logs(BlockNumber(from), BlockNumber(to), &filter, limit, &|| false).unwrap();

        prop_assert_eq!(found, expected);
    }
}

#[test]
fn values_beyond_the_number_of_cursors_are_still_matched() {
    let maker = chain();
    let mut filter = LogFilter { addresses: (1..400).map(address).collect(), topics: vec![vec![word(1)]] };

    for _ in 0..2 {
        let found = maker.store.logs(BlockNumber(0), BlockNumber(BLOCKS), &filter, 10_000, &|| false).unwrap();
        assert_eq!(found, scan(&maker.commits, 0, BLOCKS, &filter));
        assert!(!found.is_empty());
        filter.topics.clear();
    }
}

#[test]
fn a_cancelled_search_stops_at_the_next_block() {
    let maker = chain();
    let filters = [LogFilter::default(), LogFilter { addresses: vec![address(1)], topics: Vec::new() }];
    for filter in filters {
        let asked = Cell::new(0);
        let is_cancelled = || {
            asked.set(asked.get() + 1);
            asked.get() > 3
        };

        let found = maker.store.logs(BlockNumber(0), BlockNumber(BLOCKS), &filter, 10_000, &is_cancelled).unwrap();

        assert_eq!(asked.get(), 4);
        assert!(found.len() < scan(&maker.commits, 0, BLOCKS, &filter).len());
    }
}

#[test]
fn a_cancelled_search_stops_inside_a_block_of_many_logs() {
    let mut maker = Maker::new();
    maker.add(vec![change(1, 1, &[])], &[vec![log(1, &[5], b""); 1_000]]);
    for filter in [LogFilter::default(), LogFilter { addresses: vec![address(1)], topics: Vec::new() }] {
        let asked = Cell::new(0);
        let is_cancelled = || {
            asked.set(asked.get() + 1);
            asked.get() > 3
        };

        let found = maker.store.logs(BlockNumber(0), BlockNumber(1), &filter, 10_000, &is_cancelled).unwrap();

        assert!((1..500).contains(&found.len()), "{}", found.len());
    }
}

#[test]
fn neighbouring_values_and_heights_are_kept_apart() {
    let mut maker = Maker::new();
    for number in 1..300_u64 {
        let logs = if number % 100 == 0 { vec![vec![log(1, &[5], b"")]] } else { vec![vec![log(2, &[6], b"")]] };
        maker.add(vec![change(1, number, &[])], &logs);
    }
    let filter = LogFilter { addresses: vec![address(1)], topics: vec![vec![word(5)]] };

    let found = maker.store.logs(BlockNumber(0), BlockNumber(299), &filter, 10, &|| false).unwrap();

    assert_eq!(found.iter().map(|log| log.block_number.0).collect::<Vec<_>>(), [100, 200]);
    assert_whole(&maker.store);
}

fn question(from: u64, to: u64, filter: &LogFilter) -> GetLogs {
    GetLogs { range: LogRange::Numbers { from: BlockNumber(from), to: BlockNumber(to) }, filter: filter.clone() }
}

/// A store that keeps these blocks in memory.
fn in_memory(folder: &Path, commits: &[BlockCommit]) -> Arc<Store> {
    let roomy = StoreOptions { block_cache_bytes: 64 << 20, ..options(Mode::Archive) };
    let store = Store::open(folder, roomy).unwrap();
    fill(&store, commits);
    store
}

#[tokio::test]
async fn an_answer_is_the_same_from_memory_from_the_index_and_by_the_pool() {
    let maker = chain();
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let warm = bus_within(&in_memory(folder.path(), &maker.commits), LIMITS);
    fill(&open(other.path(), Mode::Archive), &maker.commits);
    // Reopened, so that nothing is in memory.
    let cold = bus_within(&open(other.path(), Mode::Archive), LIMITS);
    let of = |addresses: &[u64], topics: &[&[u64]]| LogFilter {
        addresses: addresses.iter().copied().map(address).collect(),
        topics: topics.iter().map(|values| values.iter().copied().map(word).collect()).collect(),
    };
    for filter in [of(&[], &[]), of(&[1], &[]), of(&[2, 3], &[&[1]]), of(&[], &[&[], &[2, 3]]), of(&[77], &[])] {
        for from in 0..BLOCKS + 2 {
            for to in [from, from + 1, from + 7, from + 8, BLOCKS + 10] {
                let question = question(from, to, &filter);
                let expected = scan(&maker.commits, from, to, &filter);

                assert_eq!(ask(&warm, question.clone()).await.unwrap(), expected, "in memory: {question:?}");
                assert_eq!(ask(&cold, question.clone()).await.unwrap(), expected, "at first: {question:?}");
                assert_eq!(ask(&cold, question.clone()).await.unwrap(), expected, "again: {question:?}");
                if to < from + 8 {
                    assert_eq!(immediately(&warm, &question), Some(expected), "{question:?}");
                }
            }
            if let Some(commit) = maker.commits.get(from as usize) {
                let question = GetLogs { range: LogRange::Block(commit.block.hash()), filter: filter.clone() };
                let expected = scan(&maker.commits, from, from, &filter);
                assert_eq!(immediately(&warm, &question), Some(expected.clone()));
                assert_eq!(ask(&cold, question).await.unwrap(), expected);
            }
        }
    }
}

#[tokio::test]
async fn only_short_searches_are_answered_immediately() {
    let mut maker = Maker::new();
    let busy = vec![vec![log(1, &[5], b""); 20]; 3];
    for number in 1..=40_u64 {
        let logs = if number == 7 { busy.clone() } else { vec![vec![log(2, &[6], b"")]] };
        maker.add(vec![change(1, number, &[])], &logs);
    }
    let folder = tempfile::tempdir().unwrap();
    fill(&open(folder.path(), Mode::Archive), &maker.commits);
    let store = open(folder.path(), Mode::Archive);
    let bus = bus_within(&store, LIMITS);
    let (everything, rare) = (LogFilter::default(), LogFilter { addresses: vec![address(77)], topics: Vec::new() });
    let often = LogFilter { addresses: vec![address(2)], topics: Vec::new() };
    let many = LogFilter { addresses: vec![address(1)], topics: Vec::new() };

    assert_eq!(immediately(&bus, &question(0, 40, &rare)), Some(Vec::new()), "the index knows of none");
    assert_eq!(immediately(&bus, &question(1, 10, &often)).map(|logs| logs.len()), Some(9), "it knows of few");
    assert_eq!(immediately(&bus, &question(0, 40, &often)), None, "more blocks than are looked into");
    assert_eq!(immediately(&bus, &question(0, 40, &many)), None, "more logs than are found in an attempt");
    assert_eq!(immediately(&bus, &question(7, 7, &everything)), None, "nothing that the index could be asked for");
    for is_in_memory in [false, false, true] {
        let found = immediately(&bus, &question(7, 7, &many));
        assert_eq!(found.map(|logs| logs.len()), is_in_memory.then_some(60), "what is asked for again is kept");
        assert_eq!(ask(&bus, question(7, 7, &many)).await.unwrap().len(), 60);
    }
    let narrow = bus_within(&store, StoreLimits { log_results: 59, ..LIMITS });
    assert_eq!(immediately(&narrow, &question(7, 7, &many)), None, "the pool refuses what is too much");
    let refusal = BusError::limit_reached("query returned more than 59 results; request fewer addresses or topics");
    assert_eq!(ask(&narrow, question(7, 7, &many)).await, Err(refusal));
}

#[tokio::test]
async fn searches_without_a_common_block_check_their_limit_at_every_leap_and_go_to_the_pool() {
    let mut maker = Maker::new();
    for number in 1..=200_u64 {
        let other = if number % 2 == 0 { log(1, &[6], b"") } else { log(2, &[5], b"") };
        maker.add(vec![change(1, number, &[])], &[vec![other]]);
    }
    let filter = LogFilter { addresses: vec![address(1)], topics: vec![vec![word(5)]] };
    let search = |max: u64| {
        let asked = Cell::new(0_u64);
        let is_over = || {
            asked.set(asked.get() + 1);
            asked.get() > max
        };
        let found = maker.store.logs(BlockNumber(0), BlockNumber(200), &filter, 10, &is_over).unwrap();
        (found.len(), asked.get())
    };

    let (found, asked) = search(u64::MAX);
    assert_eq!(found, 0);
    assert!(asked >= 100, "a step moves each list once: {asked} questions");
    assert_eq!(search(16), (0, 17), "it stops when it is told to");

    let bus = bus_within(&maker.store, LIMITS);
    assert_eq!(immediately(&bus, &question(0, 200, &filter)), None);
    assert_eq!(ask(&bus, question(0, 200, &filter)).await, Ok(Vec::new()));
}

#[tokio::test]
async fn a_block_with_many_logs_goes_to_the_pool() {
    let mut maker = Maker::new();
    maker.add(vec![change(1, 1, &[])], &[vec![log(1, &[5], b""); 512]]);
    maker.add(vec![change(1, 2, &[])], &[vec![log(1, &[5], b""); 513]]);
    let folder = tempfile::tempdir().unwrap();
    let bus = bus_within(&in_memory(folder.path(), &maker.commits), LIMITS);
    let any = LogFilter::default();

    for (number, count, is_short) in [(1, 512, true), (2, 513, false)] {
        let found = immediately(&bus, &question(number, number, &any));
        assert_eq!(found.map(|logs| logs.len()), is_short.then_some(count));
        assert_eq!(ask(&bus, question(number, number, &any)).await.unwrap().len(), count);
    }
}
