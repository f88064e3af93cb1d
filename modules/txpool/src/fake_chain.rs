//! A chain in memory and signed transactions for the tests of this crate.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use alloy_primitives::keccak256;
use secp256k1::{Message, PublicKey, SECP256K1, SecretKey};
use tenon_api::{
    Account, AccountChange, Address, B256, Block, BlockCommit, BlockNumber, Bytes, ChainReader, Head, Header,
    LocatedLog, LogFilter, Receipt, RecoveredBlock, SealedHeader, StateReader, StoreError, Transaction,
    TransactionPayload, TransactionSignature, TrieReader, U256,
};

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

struct Contents {
    head: Arc<Head>,
    accounts: HashMap<Address, Account>,
}

/// A head and a state.
pub(crate) struct FakeChain {
    contents: Mutex<Contents>,
}

impl FakeChain {
    /// Height 0, ten rich accounts, a gas limit of 30 million, no base fee to speak of.
    pub(crate) fn new() -> Arc<Self> {
        let header = tenon_chain::seal(Header {
            gas_limit: 30_000_000,
            base_fee_per_gas: Some(1),
            blob_gas_used: Some(0),
            excess_blob_gas: Some(0),
            ..Header::default()
        });
        let rich = Account { balance: U256::from(10).pow(U256::from(20)), ..Account::default() };
        let accounts = (0..10).map(|index| (address(index), rich)).collect();
        Arc::new(Self { contents: Mutex::new(Contents { head: head(header), accounts }) })
    }

    pub(crate) fn set_account(&self, address: Address, change: impl FnOnce(&mut Account)) {
        change(self.contents.lock().unwrap().accounts.entry(address).or_default());
    }

    /// A child of the head with these accounts changed; makes it the head.
    pub(crate) fn advance(&self, transactions: &[Transaction], changes: &[(Address, Account)]) -> BlockCommit {
        let parent = self.head().header.clone();
        self.advance_on(&parent, transactions, changes)
    }

    /// A child of any block; makes it the head.
    pub(crate) fn advance_on(
        &self,
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
        let mut contents = self.contents.lock().unwrap();
        contents.accounts.extend(changes.iter().copied());
        contents.head = head(header.clone());
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

    /// Moves the head without telling anybody.
    pub(crate) fn set_head(&self, header: SealedHeader) {
        self.contents.lock().unwrap().head = head(header);
    }
}

fn head(header: SealedHeader) -> Arc<Head> {
    Arc::new(Head { header: Arc::new(header), total_difficulty: U256::ZERO, finalized: None, safe: None })
}

impl ChainReader for FakeChain {
    fn head(&self) -> Arc<Head> {
        Arc::clone(&self.contents.lock().unwrap().head)
    }

    fn canonical_hash(&self, _: BlockNumber) -> Result<Option<B256>, StoreError> {
        Ok(None)
    }

    fn header(&self, _: B256) -> Result<Option<Arc<SealedHeader>>, StoreError> {
        Ok(None)
    }

    fn block(&self, _: B256) -> Result<Option<Arc<RecoveredBlock>>, StoreError> {
        Ok(None)
    }

    fn receipts(&self, _: B256) -> Result<Option<Arc<Vec<Receipt>>>, StoreError> {
        Ok(None)
    }

    fn total_difficulty(&self, _: B256) -> Result<Option<U256>, StoreError> {
        Ok(None)
    }

    fn transaction_location(&self, _: B256) -> Result<Option<(B256, u64)>, StoreError> {
        Ok(None)
    }

    fn state_at(&self, _: BlockNumber) -> Result<Arc<dyn StateReader>, StoreError> {
        Ok(Arc::new(FakeState(self.contents.lock().unwrap().accounts.clone())))
    }

    fn trie(&self) -> Arc<dyn TrieReader> {
        Arc::new(NoTrie)
    }

    fn logs(
        &self,
        _: BlockNumber,
        _: BlockNumber,
        _: &LogFilter,
        _: usize,
        _: &dyn Fn() -> bool,
    ) -> Result<Vec<LocatedLog>, StoreError> {
        Ok(Vec::new())
    }
}

struct FakeState(HashMap<Address, Account>);

impl StateReader for FakeState {
    fn account(&self, address: Address) -> Result<Option<Account>, StoreError> {
        Ok(self.0.get(&address).copied())
    }

    fn storage(&self, _: Address, _: B256) -> Result<U256, StoreError> {
        Ok(U256::ZERO)
    }

    fn code(&self, _: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(None)
    }

    fn block_hash(&self, _: BlockNumber) -> Result<Option<B256>, StoreError> {
        Ok(None)
    }
}

struct NoTrie;

impl TrieReader for NoTrie {
    fn node(&self, _: Option<B256>, _: &[u8], _: B256) -> Result<Option<Bytes>, StoreError> {
        Ok(None)
    }
}
