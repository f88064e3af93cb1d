//! Searching by the index finds what reading everything finds.

use std::{cell::Cell, sync::OnceLock};

use proptest::prelude::*;
use tenon_api::{BlockCommit, BlockNumber, ChainReader, LocatedLog, LogFilter};

use crate::support::{Maker, Random, address, assert_whole, change, log, word};

const BLOCKS: u64 = 80;

/// A chain that all cases search.
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

/// The answer by reading every receipt.
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
    fn the_index_finds_what_a_plain_scan_finds(
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
fn a_list_that_is_too_long_for_cursors_is_still_honoured() {
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
fn neighbouring_values_and_heights_do_not_run_into_one_another() {
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
