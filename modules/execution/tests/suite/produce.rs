//! Making blocks, and switching between branches.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes};
use tenon_api::{
    BlockProducer, ChainReader, InsertOutcome, RecoveredBlock, RecoveredTransaction, SealAttributes,
    messages::{BlocksUnwound, LogsChanged, NewHead},
};
use tenon_bus::Delivery;
use tenon_execution::Importer;
use tenon_test_node::{LIMITS, TestNode, conformance_blocks, rules_of_blocks};

fn attributes(node: &TestNode, tag: u8) -> SealAttributes {
    let head = node.chain.head();
    SealAttributes {
        timestamp: head.header.timestamp + 10 + u64::from(tag),
        beneficiary: Address::with_last_byte(tag),
        gas_limit: head.header.gas_limit,
        extra_data: Bytes::from(vec![tag]),
        mix_hash: B256::with_last_byte(tag),
    }
}

/// The recorded transactions of block 54 with their senders.
fn candidates() -> Vec<RecoveredTransaction> {
    let block = tenon_chain::recover_senders(conformance_blocks().remove(53)).unwrap();
    let pairs = block.block.transactions.iter().zip(&block.senders);
    pairs
        .map(|(transaction, sender)| RecoveredTransaction { transaction: Arc::clone(transaction), sender: *sender })
        .collect()
}

#[test]
fn a_produced_block_is_accepted_by_another_node() {
    let maker = TestNode::with_conformance_chain(53);
    let other = TestNode::with_conformance_chain(53);

    let block: Arc<RecoveredBlock> = maker.importer.produce(&attributes(&maker, 1), candidates()).unwrap();
    let outcome = other.importer.insert(block.block.clone()).unwrap();

    assert_eq!(block.transactions.len(), candidates().len());
    assert_eq!(outcome, InsertOutcome::Head { reorganised: vec![] });
    assert_eq!(other.chain.head().header, maker.chain.head().header);
}

#[test]
fn invalid_transactions_and_those_that_do_not_fit_are_left_out() {
    let node = TestNode::with_conformance_chain(53);
    let mut transactions = candidates();
    // Already executed, then one whose nonce leaves a gap.
    let old = tenon_chain::recover_senders(conformance_blocks().remove(52)).unwrap();
    let stale = RecoveredTransaction { transaction: Arc::clone(&old.block.transactions[0]), sender: old.senders[0] };
    transactions.insert(0, stale);

    let block = node.importer.produce(&attributes(&node, 1), transactions).unwrap();

    assert!(block.transactions.len() <= candidates().len());
    assert!(!block.transactions.iter().any(|each| each.hash == old.block.transactions[0].hash));
}

#[test]
fn empty_blocks_of_every_fork_can_be_produced() {
    for height in [0, 5, 11, 26, 38, 41, 44, 47, 54] {
        let node = TestNode::with_conformance_chain(height);
        let block = node.importer.produce(&attributes(&node, 0), vec![]);

        let number = block.unwrap_or_else(|error| panic!("on block {height}: {error}")).header.number;
        assert_eq!(number, height + 1);
    }
}

#[tokio::test]
async fn a_longer_branch_wins_and_is_published() {
    let node = TestNode::with_conformance_chain(50);
    let other = TestNode::with_conformance_chain(50);
    let own: Vec<_> = (0..2).map(|_| node.importer.produce(&attributes(&node, 1), vec![]).unwrap()).collect();
    let theirs: Vec<_> = (0..3).map(|_| other.importer.produce(&attributes(&other, 2), vec![]).unwrap()).collect();
    let mut heads = node.bus.subscribe::<NewHead>();
    let mut unwound = node.bus.subscribe::<BlocksUnwound>();

    let outcomes: Vec<_> = theirs.iter().map(|block| node.importer.insert(block.block.clone()).unwrap()).collect();

    let reorganised = vec![own[1].hash(), own[0].hash()];
    assert_eq!(outcomes[0], InsertOutcome::SideBranch { is_executed: true });
    assert_eq!(outcomes[1], InsertOutcome::SideBranch { is_executed: false });
    assert_eq!(outcomes[2], InsertOutcome::Head { reorganised: reorganised.clone() });
    assert_eq!(node.chain.head().header, other.chain.head().header);
    let Some(Delivery::Event(event)) = unwound.next().await else { panic!("no event") };
    assert_eq!(event.blocks.iter().map(|block| block.hash()).collect::<Vec<_>>(), reorganised);
    for expected in &theirs {
        let Some(Delivery::Event(event)) = heads.next().await else { panic!("no event") };
        assert_eq!(event.header.hash(), expected.hash());
    }
}

#[test]
fn a_branch_that_needs_too_much_memory_is_refused_with_advice_and_changes_nothing() {
    let node = TestNode::with_conformance_chain(50);
    let other = TestNode::with_conformance_chain(50);
    node.importer.produce(&attributes(&node, 1), vec![]).unwrap();
    let theirs: Vec<_> = (0..2).map(|_| other.importer.produce(&attributes(&other, 2), vec![]).unwrap()).collect();
    let (reader, writer) = (Arc::new(node.chain.clone()), Arc::new(node.chain.clone()));
    let engine = Arc::clone(&node.engine);
    let importer = Importer::new(rules_of_blocks(&node.spec), reader, writer, engine, node.bus.clone());
    let importer = importer.with_reorganisation_bytes(1);
    let before = node.chain.head().header.hash();
    importer.insert(theirs[0].block.clone()).unwrap();

    let refused = importer.insert(theirs[1].block.clone()).unwrap_err();

    let expected = "the better branch from block 50 on needs too much memory at block 51 to replace the blocks up to 51 in \
                    one step; stop the node, run `tenon db unwind 50` and import the branch";
    assert_eq!(refused.to_string(), expected);
    assert_eq!(node.chain.head().header.hash(), before);
    // With the ordinary limit the same branch wins.
    assert!(matches!(node.importer.insert(theirs[1].block.clone()), Ok(InsertOutcome::Head { .. })));
}

#[test]
fn an_invalid_branch_leaves_the_old_chain() {
    let node = TestNode::with_conformance_chain(50);
    let other = TestNode::with_conformance_chain(50);
    let own = node.importer.produce(&attributes(&node, 1), vec![]).unwrap();
    let theirs: Vec<_> = (0..2).map(|_| other.importer.produce(&attributes(&other, 2), vec![]).unwrap()).collect();
    let mut header = theirs[1].header.header().clone();
    header.state_root = B256::ZERO;
    let bad = tenon_chain::assemble_block(tenon_chain::seal(header), vec![], vec![], Some(vec![]));

    node.importer.insert(theirs[0].block.clone()).unwrap();
    let error = node.importer.insert(bad).unwrap_err();

    assert!(error.to_string().starts_with("block 52: state root is 0x"), "{error}");
    assert_eq!(node.chain.head().header.hash(), own.hash());
}

#[test]
fn an_invalid_side_block_is_refused_at_once_if_its_parents_state_is_stored() {
    let node = TestNode::with_conformance_chain(50);
    let other = TestNode::with_conformance_chain(50);
    let own: Vec<_> = (0..3).map(|_| node.importer.produce(&attributes(&node, 1), vec![]).unwrap()).collect();
    let theirs: Vec<_> = (0..2).map(|_| other.importer.produce(&attributes(&other, 2), vec![]).unwrap()).collect();
    let with_gas_used = |block: &RecoveredBlock| {
        let header = tenon_api::Header { gas_used: 1, ..block.header.header().clone() };
        tenon_chain::assemble_block(tenon_chain::seal(header), vec![], vec![], Some(vec![]))
    };
    let bad = with_gas_used(&theirs[0]);
    let hash = bad.hash();

    let error = node.importer.insert(bad).unwrap_err();
    let good = node.importer.insert(theirs[0].block.clone()).unwrap();
    // The chain of these tests does not keep states of other branches, which this block's parent is on.
    let unjudged = node.importer.insert(with_gas_used(&theirs[1])).unwrap();

    assert_eq!(error.to_string(), "block 51: gas used is 0, the header says 1");
    assert_eq!(node.chain.header(hash).unwrap(), None);
    assert_eq!(
        (good, unjudged),
        (InsertOutcome::SideBranch { is_executed: true }, InsertOutcome::SideBranch { is_executed: false })
    );
    assert_eq!(node.chain.head().header.hash(), own[2].hash());
}

#[tokio::test]
async fn logs_that_leave_the_chain_are_published_as_removed() {
    let node = TestNode::with_conformance_chain(54);
    let receipts_of = |number: u64| {
        let hash = node.chain.canonical_hash(number.into()).unwrap().unwrap();
        node.chain.receipts(hash).unwrap().unwrap()
    };
    let counts: Vec<usize> =
        (51..=54).rev().map(|number| receipts_of(number).iter().map(|each| each.logs.len()).sum()).collect();
    assert!(counts.iter().any(|count| *count > 0));
    let mut changes = node.bus.subscribe::<LogsChanged>();

    node.importer.set_head(50.into()).unwrap();

    for (expected, number) in counts.into_iter().zip([54, 53, 52, 51]).filter(|(expected, _)| *expected > 0) {
        let Some(Delivery::Event(event)) = changes.next().await else { panic!("no event") };
        assert_eq!(event.logs.len(), expected);
        assert!(event.logs.iter().all(|log| log.removed && log.block_number.0 == number));
        assert!(event.logs.iter().map(|log| log.log_index).eq(0..expected as u64));
    }
}

#[tokio::test]
async fn the_actor_produces_inserts_and_moves_the_head() {
    let node = TestNode::with_conformance_chain(53);
    let (supervisor, handle) = node.serve(LIMITS);
    let block = conformance_blocks().remove(53);

    let inserted = handle.insert(block).await.unwrap();
    let on_head = attributes(&node, 1);
    let producer = handle.clone();
    let produced = tokio::task::spawn_blocking(move || producer.produce(&on_head, vec![])).await.unwrap().unwrap();
    handle.set_head(53.into()).await.unwrap();
    let refused = handle.set_head(99.into()).await.unwrap_err();

    assert_eq!(inserted, InsertOutcome::Head { reorganised: vec![] });
    assert_eq!(produced.header.number, 55);
    assert_eq!(node.chain.head().header.number, 53);
    assert_eq!(refused.to_string(), "block 99 is not in the database");
    supervisor.stop(std::time::Duration::from_secs(5)).await;
}
