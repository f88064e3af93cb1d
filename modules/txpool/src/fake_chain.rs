//! A chain in memory and signed transactions for the tests of this crate.

use std::sync::Arc;

use alloy_primitives::keccak256;
use secp256k1::{Message, PublicKey, SECP256K1, SecretKey};
use tenon_api::{
    Account, AccountChange, Address, B256, Block, BlockCommit, Bytes, ChainReader, Header, OwnAccounts, RecoveredBlock,
    SealedHeader, Transaction, TransactionPayload, TransactionSignature, U256,
};
use tenon_memory_chain::MemoryChain;

pub(crate) const CHAIN_ID: u64 = 31337;

/// The secret key of test account `index`.
fn secret(index: u8) -> SecretKey {
    SecretKey::from_byte_array([index + 1; 32]).unwrap()
}

/// The address of test account `index`.
pub(crate) fn address(index: u8) -> Address {
    let public = PublicKey::from_secret_key_global(&secret(index)).serialize_uncompressed();
    Address::from_slice(&keccak256(&public[1..])[12..])
}

/// A node with the key of one test account.
pub(crate) struct KeysOf(pub(crate) u8);

impl OwnAccounts for KeysOf {
    fn has_key(&self, wanted: Address) -> bool {
        address(self.0) == wanted
    }
}

/// A transfer with a tip cap of `tip` and a fee cap of `fee`, to be changed before it is signed.
pub(crate) fn transfer(nonce: u64, fee: u64, tip: u64) -> Transaction {
    Transaction {
        hash: B256::ZERO,
        chain_id: Some(CHAIN_ID),
        nonce,
        gas_limit: 21_000,
        to: Some(Address::repeat_byte(9)),
        value: U256::ZERO,
        input: Bytes::new(),
        payload: TransactionPayload::DynamicFee {
            max_fee_per_gas: U256::from(fee),
            max_priority_fee_per_gas: U256::from(tip),
            access_list: Vec::new(),
        },
        signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
    }
}

/// Signs with the key of test account `index`.
pub(crate) fn sign(index: u8, mut transaction: Transaction) -> Transaction {
    let hash = tenon_chain::signing_hash(&transaction);
    let signature = SECP256K1.sign_ecdsa_recoverable(Message::from_digest(hash.0), &secret(index));
    let (recovery, bytes) = signature.serialize_compact();
    let parity = u64::try_from(i32::from(recovery)).unwrap();
    let v = match (&transaction.payload, transaction.chain_id) {
        (TransactionPayload::Legacy { .. }, Some(chain_id)) => 35 + 2 * chain_id + parity,
        (TransactionPayload::Legacy { .. }, None) => 27 + parity,
        _ => parity,
    };
    let (r, s) = (U256::from_be_slice(&bytes[..32]), U256::from_be_slice(&bytes[32..]));
    transaction.signature = TransactionSignature { v, r, s };
    transaction.hash = tenon_chain::transaction_hash(&transaction);
    transaction
}

/// Canonical bytes, signed by test account `index`.
pub(crate) fn signed(index: u8, transaction: Transaction) -> Vec<u8> {
    tenon_chain::encode_transaction(&sign(index, transaction))
}

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
