//! A node that cannot read its database blames neither a block nor a transaction for it.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, address};
use tenon_api::{BlockPort, BlockVerdict, ChainReader, RecoveredTransaction, SealAttributes, messages::GetBadBlocks};
use tenon_test_node::{LIMITS, TestNode, conformance_blocks};

/// Contracts that every block since Prague calls: before its transactions, and after them.
const OPENING: [Address; 2] =
    [address!("000f3df6d732807ef1319fb7b8bb8522d0beac02"), address!("0000f90827f1c53a10cb7a02335b175320002935")];
const CLOSING: [Address; 2] =
    [address!("00000961ef480eb55e80d19ad83579a64c007002"), address!("0000bbddc7ce488642fb579f8b00f3a590007251")];

#[tokio::test]
async fn a_block_whose_system_contracts_cannot_be_read_is_not_refused() {
    let (node, _served) = TestNode::serving(53, LIMITS);
    let next = || conformance_blocks().remove(53);

    for contract in OPENING.into_iter().chain(CLOSING) {
        node.chain.set_unreadable(Some(contract));
        let verdict = BlockPort::insert(&*node.importer, next());
        assert!(matches!(verdict, BlockVerdict::OwnFailure { .. }), "{contract}: {verdict:?}");
    }

    assert!(node.ask(GetBadBlocks).await.unwrap().is_empty());
    node.chain.set_unreadable(None);
    assert_eq!(BlockPort::insert(&*node.importer, next()), BlockVerdict::Head);
}

#[test]
fn no_block_is_made_without_the_transactions_of_an_unreadable_sender() {
    let node = TestNode::with_conformance_chain(53);
    let block = tenon_chain::recover_senders(conformance_blocks().remove(53)).unwrap();
    let head = node.chain.head().header.clone();
    let pending = || -> Vec<RecoveredTransaction> {
        let pairs = block.block.transactions.iter().zip(&block.senders);
        pairs
            .map(|(transaction, sender)| RecoveredTransaction { transaction: Arc::clone(transaction), sender: *sender })
            .collect()
    };
    let attributes = SealAttributes {
        timestamp: head.timestamp + 10,
        beneficiary: Address::with_last_byte(1),
        gas_limit: head.gas_limit,
        extra_data: Bytes::new(),
        mix_hash: B256::ZERO,
    };

    node.chain.set_unreadable(Some(block.senders[0]));
    let error = node.importer.produce(&attributes, pending()).unwrap_err();
    assert_eq!(error.to_string(), "database: input/output error");
    assert_eq!(node.chain.head().header.hash(), head.hash());

    node.chain.set_unreadable(None);
    assert_eq!(
        node.importer.produce(&attributes, pending()).unwrap().transactions.len(),
        block.block.transactions.len()
    );
}
