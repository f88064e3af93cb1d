//! Chains in memory for the tests of this crate.

use std::sync::Arc;

use tenon_api::{
    Account, AccountChange, Address, Block, BlockCommit, ChainReader, Header, RecoveredBlock, SealedHeader,
    Transaction, U256,
};
use tenon_memory_chain::MemoryChain;
pub(crate) use tenon_memory_chain::transactions::{CHAIN_ID, KeysOf, address, sign, signed, transfer};

/// Height 0, ten rich accounts, a gas limit of 30 million, a negligible base fee.
pub(crate) fn chain() -> Arc<MemoryChain> {
    let rich = Account { balance: U256::from(10).pow(U256::from(20)), ..Account::default() };
    let chain = MemoryChain::with_accounts((0..10).map(|index| (address(index), rich)));
    chain.push_header(tenon_chain::seal(Header {
        gas_limit: 30_000_000,
        base_fee_per_gas: Some(1),
        blob_gas_used: Some(0),
        excess_blob_gas: Some(0),
        ..Header::default()
    }));
    Arc::new(chain)
}

/// Adds a child of the head with these accounts changed, as the new head.
pub(crate) fn advance(
    chain: &MemoryChain,
    transactions: &[Transaction],
    changes: &[(Address, Account)],
) -> BlockCommit {
    advance_on(chain, &chain.head().header, transactions, changes)
}

/// Adds a child of any block, as the new head.
pub(crate) fn advance_on(
    chain: &MemoryChain,
    parent: &SealedHeader,
    transactions: &[Transaction],
    changes: &[(Address, Account)],
) -> BlockCommit {
    let header = tenon_chain::seal(Header {
        number: parent.number + 1,
        parent_hash: parent.hash(),
        timestamp: parent.timestamp + 1,
        gas_used: transactions.len() as u64,
        ..parent.header().clone()
    });
    for (address, account) in changes {
        chain.change_account(*address, |before| *before = *account);
    }
    chain.push_header(header.clone());
    let transactions = transactions.iter().cloned().map(Arc::new).collect();
    let block = Block { header, transactions, ommers: Vec::new(), withdrawals: None, size: 0 };
    let change = |(address, account): &(Address, Account)| AccountChange {
        address: *address,
        account: Some(*account),
        storage_wiped: false,
        slots: Vec::new(),
    };
    BlockCommit {
        block: Arc::new(RecoveredBlock { block, senders: Vec::new() }),
        total_difficulty: U256::ZERO,
        receipts: Arc::default(),
        accounts: changes.iter().map(change).collect(),
        codes: Vec::new(),
        trie_nodes: Vec::new(),
        superseded_trie_nodes: Vec::new(),
    }
}
