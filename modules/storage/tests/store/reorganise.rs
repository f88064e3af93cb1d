//! Replacing a branch in one step: the result, refused branches, and what readers see meanwhile.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use alloy_primitives::B256;
use tenon_api::{BlockCommit, BlockNumber, ChainReader, LogFilter, StateReader, StoreError};
use tenon_storage::{Mode, Store};

use crate::support::{
    Maker, Model, Random, Writes as _, address, assert_state, assert_whole, change, dump, fill, open,
};

/// Two chains with the blocks up to `fork` in common.
pub(crate) struct Branches {
    pub(crate) commits: [Vec<BlockCommit>; 2],
    pub(crate) states: [Vec<Model>; 2],
    pub(crate) fork: u64,
}

impl Branches {
    /// Random blocks; some transactions are on both branches, some occur twice on one.
    pub(crate) fn random(random: &mut Random, fork: u64, length: u64) -> Self {
        let mut maker = Maker::new();
        for _ in 0..fork {
            maker.add_random(random);
        }
        let mut commits = [Vec::new(), Vec::new()];
        let mut states = [Vec::new(), Vec::new()];
        for branch in 0..2 {
            maker.unwind(fork);
            for _ in 0..length {
                let number = maker.commits.len() as u64;
                // The transactions of a block encode their branch and height, unless they repeat others.
                let is_shared = random.chance(20);
                maker.mark = if is_shared { 0 } else { branch as u64 + 1 };
                maker.repeats = random.chance(20).then(|| number - random.below(3));
                maker.seal = branch as u64;
                maker.add_random(random);
            }
            commits[branch] = maker.commits.clone();
            states[branch] = maker.states.clone();
        }
        Self { commits, states, fork }
    }

    /// The oldest `count` blocks of a branch above the fork.
    pub(crate) fn above(&self, branch: usize, count: u64) -> Vec<Arc<BlockCommit>> {
        let fork = self.fork as usize;
        self.commits[branch][fork + 1..=fork + count as usize].iter().cloned().map(Arc::new).collect()
    }

    pub(crate) fn hash(&self, branch: usize, number: u64) -> B256 {
        self.commits[branch][number as usize].block.hash()
    }
}

#[test]
fn replacing_a_branch_leaves_the_same_bytes_as_unwinding_and_committing() {
    let mut random = Random::new();
    for round in 0..6 {
        let (fork, length) = (1 + random.below(4), 1 + random.below(12));
        let branches = Branches::random(&mut random, fork, length);
        let (old, new) = (1 + random.below(length), 1 + random.below(length));
        let (at_once, by_steps) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (folder, is_at_once) in [(&at_once, true), (&by_steps, false)] {
            let store = open(folder.path(), Mode::Archive);
            fill(&store, &branches.commits[0][..=(fork + old) as usize]);
            for (branch, count) in [(1, new), (0, old), (1, new)] {
                let blocks = branches.above(branch, count);
                if is_at_once {
                    store.reorganise(BlockNumber(fork), &blocks).unwrap();
                } else {
                    store.unwind(BlockNumber(fork)).unwrap();
                    blocks.iter().for_each(|commit| store.commit(commit).unwrap());
                }
                assert_eq!(store.head().header.hash(), branches.hash(branch, fork + count));
                (0..=fork + count).for_each(|number| assert_state(&store, number, &branches.states[branch]));
                assert_whole(&store);
            }
        }

        let (at_once, by_steps) = (dump(at_once.path()), dump(by_steps.path()));

        for (column, records) in &by_steps {
            assert!(&at_once[column] == records, "{column} of round {round}: {old} blocks replaced by {new}");
        }
    }
}

#[test]
fn a_branch_with_a_gap_changes_nothing() {
    let mut random = Random::new();
    let branches = Branches::random(&mut random, 3, 5);
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Archive);
    fill(&store, &branches.commits[0]);
    let [first, second] = [0, 1].map(|branch| branches.above(branch, 5));
    let mixed = [Arc::clone(&second[0]), Arc::clone(&first[1])];

    let not_next = |number, head| Err(StoreError::NotNext { number: BlockNumber(number), head: BlockNumber(head) });
    assert_eq!(store.reorganise(BlockNumber(3), &mixed), not_next(5, 4));
    assert_eq!(store.reorganise(BlockNumber(2), &second), not_next(4, 2));
    assert_eq!(store.reorganise(BlockNumber(3), &second[1..]), not_next(5, 3));
    assert_eq!(store.reorganise(BlockNumber(9), &second), Err(StoreError::UnknownBlock { what: "9".into() }));
    assert_eq!(store.reorganise(BlockNumber(3), &[]), Ok(()));

    assert_eq!(store.head().header.hash(), branches.hash(0, 8));
    (0..=8).for_each(|number| assert_state(&store, number, &branches.states[0]));
    assert_whole(&store);
}

#[test]
fn a_reorganisation_below_the_kept_states_is_refused_with_their_height() {
    let mut random = Random::new();
    let branches = Branches::random(&mut random, 2, 30);
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Pruned(5));
    fill(&store, &branches.commits[0]);

    let refused = store.reorganise(BlockNumber(2), &branches.above(1, 30));

    let oldest = BlockNumber(store.oldest_state());
    assert!(oldest > BlockNumber(2));
    assert_eq!(refused, Err(StoreError::Pruned { number: BlockNumber(2), oldest }));
    assert_eq!(store.head().header.hash(), branches.hash(0, 32));
}

/// Two branches in which every block sets one account's balance to a value that encodes its height and branch, and logs
/// the same value.
fn branches_with_marked_balances(length: u64) -> Branches {
    let mut maker = Maker::new();
    let mut branches = Branches { commits: Default::default(), states: Default::default(), fork: 1 };
    maker.add(vec![change(9, 0, &[])], &[]);
    for branch in 0..2 {
        maker.unwind(1);
        maker.seal = branch as u64;
        for number in 2..length + 2 {
            // The same transaction on both branches, at another height.
            maker.repeats = Some(number + branch as u64);
            let balance = balance_of(branch, number);
            maker.add(vec![change(9, balance, &[(1, balance)])], &[vec![crate::support::log(9, &[balance], b"")]]);
        }
        branches.commits[branch] = maker.commits.clone();
        branches.states[branch] = maker.states.clone();
    }
    branches
}

fn balance_of(branch: usize, number: u64) -> u64 {
    number * 2 + branch as u64
}

/// Reads everything that one reader can see of the chain, and fails if it matches neither of the two heads.
fn check_reads(store: &Store, heads: &[(B256, u64, usize); 2], shared_transaction: B256) -> usize {
    let head = store.head();
    let seen = heads.iter().position(|(hash, ..)| *hash == head.header.hash());
    let seen = seen.unwrap_or_else(|| panic!("the head is {}, of neither branch", head.number()));

    // The heights at which the branches differ have a block of one of them, never none.
    let shorter = heads.iter().map(|(_, number, _)| *number).min().unwrap();
    assert!(store.canonical_hash(BlockNumber(shorter)).unwrap().is_some(), "no block at {shorter}");
    // A transaction that is on both branches is always found.
    assert!(store.transaction_location(shared_transaction).unwrap().is_some(), "a transaction was lost");
    let logs = store.logs(BlockNumber(2), BlockNumber(u64::MAX), &LogFilter::default(), 1_000, &|| false);
    if let Ok(logs) = logs {
        let last = logs.last().unwrap();
        let ends = heads.iter().any(|(hash, ..)| last.block_hash == *hash);
        assert!(ends && logs.len() as u64 == last.block_number.0 - 1, "logs up to block {}", last.block_number);
    }
    seen
}

/// Reads the state of the head, like a request for `latest`. `begun` is the number of reorganisations that have begun.
fn check_state(store: &Store, heads: &[(B256, u64, usize); 2], begun: &AtomicU64) {
    let balance = loop {
        let begun_before = begun.load(Ordering::SeqCst);
        let head = store.head();
        let read = store.state_at(head.number()).and_then(|state: Arc<dyn StateReader>| {
            let balance = state.account(address(9))?.unwrap().balance;
            // Still the head's, or that of another block at its height.
            Ok((store.canonical_hash(head.number())? == Some(head.header.hash())).then_some(balance))
        });
        match read {
            // If another reorganisation has begun, the head may be canonical again after the read of the other branch.
            Ok(Some(_)) if begun.load(Ordering::SeqCst) != begun_before => {}
            Ok(Some(balance)) => break balance,
            Ok(None) | Err(StoreError::Reorganised { .. } | StoreError::UnknownBlock { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    let wanted = heads.map(|(_, number, branch)| alloy_primitives::U256::from(balance_of(branch, number)));
    assert!(wanted.contains(&balance), "balance {balance}, wanted one of {wanted:?}");
}

#[test]
fn readers_see_the_old_chain_or_the_new_one() {
    let branches = branches_with_marked_balances(40);
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Archive);
    fill(&store, &branches.commits[0][..=21]);
    let (old, new) = (branches.above(0, 20), branches.above(1, 27));
    let heads = [(branches.hash(0, 21), 21, 0), (branches.hash(1, 28), 28, 1)];
    let shared: BTreeSet<B256> = old.iter().map(|commit| commit.block.transactions[0].hash).collect();
    let mut on_both = new.iter().map(|commit| commit.block.transactions[0].hash);
    let shared_transaction = on_both.find(|hash| shared.contains(hash)).unwrap();
    let is_over = AtomicBool::new(false);
    let begun = AtomicU64::new(0);
    let checks = [const { AtomicU64::new(0) }; 2];

    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    checks[check_reads(&store, &heads, shared_transaction)].fetch_add(1, Ordering::Relaxed);
                    check_state(&store, &heads, &begun);
                }
            });
        }
        for _ in 0..60 {
            for branch in [&new, &old] {
                begun.fetch_add(1, Ordering::SeqCst);
                store.reorganise(BlockNumber(1), branch).unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });

    assert!(checks.iter().all(|checks| checks.load(Ordering::Relaxed) > 0), "{checks:?}");
    assert_whole(&store);
}
