//! The database's writer panics, before or after it has made a change: what has changed is published.

use std::{convert::Infallible, sync::Arc, time::Duration};

use alloy_primitives::{Address, B256, Bytes, U256};
use delegate::delegate;
use parking_lot::Mutex;
use tenon_api::{
    BlockCommit, BlockNumber, ChainReader, ChainWriter, Event, Header, InsertOutcome, RecoveredBlock, SealAttributes,
    StoreError,
    messages::{BlockCommitted, BlocksUnwound, NewHead},
};
use tenon_bus::{Delivery, Subscription};
use tenon_execution::{ImportError, Importer};
use tenon_test_node::{MemoryChain, TestNode, conformance_blocks, rules_of_blocks};

/// What the next change does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Panic {
    #[default]
    Never,
    BeforeWrite,
    /// After the first batch: one block was removed.
    MidUnwind,
    AfterWrite,
}

/// Writes to a chain in memory. On order it answers as an actor that has panicked.
struct StoppingWriter {
    chain: MemoryChain,
    next: Mutex<Panic>,
}

impl StoppingWriter {
    fn write<T>(&self, write: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        match std::mem::take(&mut *self.next.lock()) {
            Panic::BeforeWrite => Err(StoreError::WriterStopped),
            Panic::Never => write(),
            Panic::MidUnwind | Panic::AfterWrite => write().and(Err(StoreError::WriterStopped)),
        }
    }
}

impl ChainWriter for StoppingWriter {
    fn commit(&self, commit: &Arc<BlockCommit>) -> Result<(), StoreError> {
        self.write(|| self.chain.commit(commit))
    }

    fn commit_first(&self, commits: &[Arc<BlockCommit>]) -> Result<usize, StoreError> {
        self.write(|| self.chain.commit_first(commits))
    }

    fn unwind(&self, number: BlockNumber) -> Result<(), StoreError> {
        let is_interrupted = *self.next.lock() == Panic::MidUnwind;
        let reached = if is_interrupted { BlockNumber(self.chain.head().header.number - 1) } else { number };
        self.write(|| self.chain.unwind(reached))
    }

    fn reorganise(&self, ancestor: BlockNumber, branch: &[Arc<BlockCommit>]) -> Result<(), StoreError> {
        self.write(|| self.chain.reorganise(ancestor, branch))
    }

    delegate! {
        to self.chain {
            fn group_size(&self, header: &Header) -> usize;
            fn insert_side_block(&self, block: &Arc<RecoveredBlock>, total_difficulty: U256) -> Result<(), StoreError>;
            fn keep_side_state(&self, commit: &Arc<BlockCommit>) -> Result<(), StoreError>;
            fn check_unwind(&self, number: BlockNumber) -> Result<(), StoreError>;
            fn set_finality(&self, finalized: Option<BlockNumber>, safe: Option<BlockNumber>) -> Result<(), StoreError>;
            fn flush(&self) -> Result<(), StoreError>;
        }
    }
}

/// A node at a height, with an importer that writes through a [`StoppingWriter`].
struct Fixture {
    node: TestNode,
    writer: Arc<StoppingWriter>,
    importer: Importer,
}

impl Fixture {
    fn at(height: u64) -> Self {
        let node = TestNode::with_conformance_chain(height);
        let writer = Arc::new(StoppingWriter { chain: node.chain.clone(), next: Mutex::default() });
        let (chain, engine) = (Arc::new(node.chain.clone()), Arc::clone(&node.engine));
        let rules = rules_of_blocks(&node.spec);
        let importer = Importer::new(rules, chain, Arc::clone(&writer) as _, engine, node.bus.clone());
        Self { node, writer, importer }
    }

    fn order(&self, panic: Panic) {
        *self.writer.next.lock() = panic;
    }

    fn head(&self) -> u64 {
        self.node.chain.head().header.number
    }
}

/// The next event, which must have been published.
async fn event<E: Event>(events: &mut Subscription<E>) -> E {
    let next = tokio::time::timeout(Duration::from_secs(10), events.next()).await;
    let Ok(Some(Delivery::Event(event))) = next else { panic!("no event") };
    event
}

fn is_stopped<T>(outcome: &Result<T, ImportError>) -> bool {
    matches!(outcome, Err(ImportError::Store(StoreError::WriterStopped)))
}

/// Blocks on the head of a node.
fn produced(node: &TestNode, tag: u8, count: usize) -> Vec<Arc<RecoveredBlock>> {
    let make = || {
        let head = node.chain.head();
        let attributes = SealAttributes {
            timestamp: head.header.timestamp + 10 + u64::from(tag),
            beneficiary: Address::with_last_byte(tag),
            gas_limit: head.header.gas_limit,
            extra_data: Bytes::from(vec![tag]),
            mix_hash: B256::with_last_byte(tag),
        };
        node.importer.produce(&attributes, vec![]).unwrap()
    };
    (0..count).map(|_| make()).collect()
}

#[tokio::test]
async fn a_block_that_was_written_is_published_and_one_that_was_not_is_refused() {
    let fixture = Fixture::at(50);
    let (mut blocks, mut heads) =
        (fixture.node.bus.subscribe::<BlockCommitted>(), fixture.node.bus.subscribe::<NewHead>());
    let next = || conformance_blocks().remove(50);

    fixture.order(Panic::BeforeWrite);
    assert!(is_stopped(&fixture.importer.insert(next())));
    assert_eq!(fixture.head(), 50);

    fixture.order(Panic::AfterWrite);
    assert_eq!(fixture.importer.insert(next()).unwrap(), InsertOutcome::Head { reorganised: vec![] });
    assert_eq!(event(&mut blocks).await.commit.block.hash(), next().hash());
    assert_eq!(event(&mut heads).await.header.hash(), next().hash());
    assert_eq!(fixture.importer.insert(next()).unwrap(), InsertOutcome::Known);
}

/// The writer takes three of the blocks.
#[tokio::test]
async fn the_written_blocks_of_an_interrupted_group_are_published_and_the_import_continues() {
    let fixture = Fixture::at(40);
    fixture.node.chain.take_groups_of(5);
    let mut heads = fixture.node.bus.subscribe::<NewHead>();
    fixture.order(Panic::AfterWrite);

    let source = conformance_blocks().into_iter().map(Ok::<_, Infallible>);
    let summary = fixture.importer.import(source, &mut ()).unwrap();

    assert_eq!((summary.known, summary.imported, fixture.head()), (40, 14, 54));
    for number in 41..=54 {
        assert_eq!(event(&mut heads).await.header.number, number);
    }
}

#[tokio::test]
async fn a_branch_that_was_written_is_published_and_one_that_was_not_is_refused() {
    let fixture = Fixture::at(50);
    let own = produced(&fixture.node, 1, 1);
    let theirs = produced(&TestNode::with_conformance_chain(50), 2, 2);
    let (mut unwound, mut heads) =
        (fixture.node.bus.subscribe::<BlocksUnwound>(), fixture.node.bus.subscribe::<NewHead>());
    fixture.importer.insert(theirs[0].block.clone()).unwrap();

    fixture.order(Panic::BeforeWrite);
    assert!(is_stopped(&fixture.importer.insert(theirs[1].block.clone())));
    assert_eq!(fixture.node.chain.head().header.hash(), own[0].hash());

    fixture.order(Panic::AfterWrite);
    let outcome = fixture.importer.insert(theirs[1].block.clone()).unwrap();
    assert_eq!(outcome, InsertOutcome::Head { reorganised: vec![own[0].hash()] });
    assert_eq!(event(&mut unwound).await.blocks[0].hash(), own[0].hash());
    for block in &theirs {
        assert_eq!(event(&mut heads).await.header.hash(), block.hash());
    }
}

#[tokio::test]
async fn removed_blocks_are_published_wherever_the_removal_ends() {
    let fixture = Fixture::at(54);
    let mut unwound = fixture.node.bus.subscribe::<BlocksUnwound>();
    let numbers = |event: BlocksUnwound| event.blocks.iter().map(|block| block.header.number).collect::<Vec<_>>();

    fixture.order(Panic::BeforeWrite);
    assert!(is_stopped(&fixture.importer.set_head(BlockNumber(50))));
    fixture.order(Panic::MidUnwind);
    assert!(is_stopped(&fixture.importer.set_head(BlockNumber(50))));
    assert_eq!(numbers(event(&mut unwound).await), [54]);

    fixture.order(Panic::AfterWrite);
    fixture.importer.set_head(BlockNumber(50)).unwrap();
    assert_eq!(numbers(event(&mut unwound).await), [53, 52, 51]);
    assert_eq!(fixture.head(), 50);
}
