//! Imports of whole chains: the public conformance chain, changed blocks, reorganisations, resuming.

use std::convert::Infallible;

use alloy_primitives::b256;
use tenon_api::{Block, BlockNumber, ChainReader, Header, InsertOutcome, messages::GetBadBlocks};
use tenon_execution::{ImportObserver, ImportSummary, ImportedBlock};
use tenon_test_node::{LIMITS, TestNode, conformance_blocks, conformance_genesis};

/// Stops after a number of blocks.
struct Watcher {
    seen: Vec<ImportedBlock>,
    stop_after: usize,
}

impl Watcher {
    fn new(stop_after: usize) -> Self {
        Self { seen: Vec::new(), stop_after }
    }
}

impl ImportObserver for Watcher {
    fn passed(&mut self, block: &ImportedBlock) {
        self.seen.push(*block);
    }

    fn is_cancelled(&self) -> bool {
        self.seen.len() >= self.stop_after
    }
}

fn import(node: &TestNode, watcher: &mut Watcher) -> ImportSummary {
    node.importer.import(conformance_blocks().into_iter().map(Ok::<_, Infallible>), watcher).unwrap()
}

#[test]
fn the_conformance_chain_ends_at_its_recorded_head() {
    let node = TestNode::new(&conformance_genesis());

    let summary = import(&node, &mut Watcher::new(usize::MAX));

    assert_eq!((summary.imported, summary.transactions), (54, 249));
    let head = b256!("d226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7");
    assert_eq!(node.chain.head().header.hash(), head);
}

#[test]
fn blocks_that_are_committed_in_groups_end_at_the_same_head_and_are_reported_in_order() {
    for group in [2, 5, 64] {
        let node = TestNode::new(&conformance_genesis());
        node.chain.take_groups_of(group);
        let mut watcher = Watcher::new(usize::MAX);

        let summary = import(&node, &mut watcher);

        assert_eq!((summary.imported, summary.transactions), (54, 249));
        let head = b256!("d226371d0b1551adb03fb52b71f08e3e11247fe9b1af994768af8cdaa8e7dcd7");
        assert_eq!(node.chain.head().header.hash(), head);
        assert!(watcher.seen.iter().map(|block| block.number.0).eq(1..=54), "{:?}", watcher.seen);
        // The turn of an import may end before a group is full.
        let longest = node.chain.longest_offer();
        assert!((2..=group).contains(&longest), "{longest} of {group}");
    }
}

#[test]
fn a_group_that_the_database_refuses_ends_an_import_at_the_head() {
    for refused in [1, 7, 54] {
        let node = TestNode::new(&conformance_genesis());
        node.chain.take_groups_of(5);
        node.chain.refuse_block(BlockNumber(refused));
        let mut watcher = Watcher::new(usize::MAX);

        let outcome = node.importer.import(conformance_blocks().into_iter().map(Ok::<_, Infallible>), &mut watcher);

        assert_eq!(outcome.unwrap_err().to_string(), "database: disk full");
        let head = node.chain.head().number().0;
        assert!((refused.saturating_sub(3)..refused).contains(&head), "{head}, block {refused} is refused");
        assert!(watcher.seen.iter().map(|block| block.number.0).eq(1..=head), "{:?}", watcher.seen);
    }
}

#[test]
fn a_stopped_import_resumes_at_its_end() {
    let node = TestNode::new(&conformance_genesis());

    let stopped = import(&node, &mut Watcher::new(20));
    let mut watcher = Watcher::new(usize::MAX);
    let resumed = import(&node, &mut watcher);

    assert!(stopped.was_cancelled);
    // Blocks in progress when the observer saw its last one are committed too.
    assert!((20..54).contains(&stopped.imported), "{stopped:?}");
    assert_eq!((resumed.known, resumed.imported), (stopped.imported, 54 - stopped.imported));
    assert_eq!(watcher.seen.last().map(|block| block.number), Some(BlockNumber(54)));
}

/// The block with a changed header, resealed.
fn with_header(block: &Block, change: impl FnOnce(&mut Header)) -> Block {
    let mut header = block.header.header().clone();
    change(&mut header);
    let (transactions, ommers) = (block.transactions.clone(), block.ommers.clone());
    tenon_chain::assemble_block(tenon_chain::seal(header), transactions, ommers, block.withdrawals.clone())
}

#[test]
fn a_changed_block_is_refused_with_the_difference() {
    let blocks = conformance_blocks();
    type Tamper = fn(&mut Header);
    let cases: [(u64, Tamper, &str); 6] = [
        (2, |header| header.state_root.0[0] ^= 1, "block 2: state root is 0x"),
        (5, |header| header.receipts_root.0[0] ^= 1, "block 5: receipts root is 0x"),
        (5, |header| header.gas_used += 1, "block 5: gas used is"),
        (5, |header| header.logs_bloom.0[0] ^= 1, "block 5: logs bloom is 0x"),
        (45, |header| header.requests_hash = Some(Default::default()), "block 45: requests hash is 0x"),
        (40, |header| header.state_root.0[31] ^= 1, "block 40: state root is 0x"),
    ];
    for (number, tamper, expected) in cases {
        let node = TestNode::with_conformance_chain(number - 1);
        let block = with_header(&blocks[number as usize - 1], tamper);

        let error = node.importer.insert(block).unwrap_err().to_string();

        assert!(error.starts_with(expected), "{error}");
        assert!(error.contains("the header says"), "{error}");
        assert_eq!(node.chain.head().number(), BlockNumber(number - 1));
    }
}

/// The blocks after it were read, recovered and queued; none of them may be committed.
#[test]
fn an_import_ends_before_the_block_that_fails_and_keeps_all_before_it() {
    for (failing, group) in [(1, 1), (2, 1), (33, 1), (54, 1), (1, 5), (33, 5)] {
        let node = TestNode::new(&conformance_genesis());
        node.chain.take_groups_of(group);
        let mut blocks = conformance_blocks();
        blocks[failing - 1] = with_header(&blocks[failing - 1], |header| header.state_root.0[0] ^= 1);
        let mut watcher = Watcher::new(usize::MAX);

        let outcome = node.importer.import(blocks.into_iter().map(Ok::<_, Infallible>), &mut watcher);

        let error = outcome.unwrap_err().to_string();
        assert!(error.starts_with(&format!("block {failing}: state root is 0x")), "{error}");
        assert_eq!(node.chain.head().number(), BlockNumber(failing as u64 - 1));
        assert_eq!(watcher.seen.len(), failing - 1);
    }
}

#[test]
fn a_truncated_source_keeps_the_blocks_before() {
    let node = TestNode::new(&conformance_genesis());
    let whole = conformance_blocks().into_iter().take(20).map(Ok);
    let broken = whole.chain([Err("the file ends in the middle of a block".to_owned())]);

    let error = node.importer.import(broken, &mut Watcher::new(usize::MAX)).unwrap_err().to_string();

    assert_eq!(error, "after block 20: the file ends in the middle of a block");
    assert_eq!(node.chain.head().number(), BlockNumber(20));
}

#[test]
fn a_block_that_the_database_refuses_ends_an_import_at_the_block_before() {
    for refused in [1, 7, 54] {
        let node = TestNode::new(&conformance_genesis());
        node.chain.refuse_block(BlockNumber(refused));
        let mut watcher = Watcher::new(usize::MAX);

        let outcome = node.importer.import(conformance_blocks().into_iter().map(Ok::<_, Infallible>), &mut watcher);

        assert_eq!(outcome.unwrap_err().to_string(), "database: disk full");
        assert_eq!(node.chain.head().number(), BlockNumber(refused - 1));
        assert_eq!(watcher.seen.last().map_or(0, |block| block.number.0), refused - 1);
    }
}

#[test]
fn a_block_without_known_parent_names_it() {
    let node = TestNode::new(&conformance_genesis());
    let block = conformance_blocks().remove(3);
    let parent = block.header.parent_hash;

    let error = node.importer.insert(block).unwrap_err().to_string();

    assert!(error.ends_with(&format!("its parent {parent} is not known")), "{error}");
}

#[test]
fn after_set_head_the_blocks_can_be_imported_again() {
    let node = TestNode::with_conformance_chain(54);
    let blocks = conformance_blocks();

    node.importer.set_head(BlockNumber(50)).unwrap();
    let back = node.chain.head().number();
    let outcome = node.importer.insert(blocks[50].clone()).unwrap();

    assert_eq!(back, BlockNumber(50));
    assert_eq!(outcome, InsertOutcome::Head { reorganised: vec![] });
    assert_eq!(node.importer.insert(blocks[50].clone()).unwrap(), InsertOutcome::Known);
}

#[tokio::test]
async fn the_newest_refused_blocks_are_listed_once_each() {
    let (node, _served) = TestNode::serving(3, LIMITS);
    let next = &conformance_blocks()[3];
    let refused: Vec<Block> = (1..=12).map(|gas| with_header(next, |header| header.gas_used += gas)).collect();

    for block in refused.iter().chain(refused.last()) {
        node.importer.insert(block.clone()).unwrap_err();
    }

    let listed = node.ask(GetBadBlocks).await.unwrap();
    let hashes: Vec<_> = listed.iter().map(|header| header.hash()).collect();
    let expected: Vec<_> = refused[2..].iter().map(Block::hash).collect();
    assert_eq!(hashes, expected, "the newest ten, oldest first");
}
