//! Chains for tests: blocks with real roots, and a simple model of every state to compare with.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use tempfile::TempDir;
use tenon_api::{
    Account, AccountChange, Block, BlockCommit, BlockNumber, ChainReader, ChainWriter as _, EMPTY_OMMERS_HASH,
    EMPTY_ROOT_HASH, Header, Log, Receipt, ReceiptOutcome, RecoveredBlock, SlotChange, StateReader, StoreError,
    Transaction, TransactionPayload, TransactionSignature, TransactionType,
};
use tenon_chain::update_state_trie;
use tenon_storage::{Durability, Mode, Store, StoreOptions};

/// The chain id of test chains.
pub(crate) const CHAIN_ID: u64 = 31_337;

/// A small random generator whose seed failing tests print and `TENON_SEED` sets.
pub(crate) struct Random(u64);

impl Random {
    /// The seed of this run.
    pub(crate) fn new() -> Self {
        let seed = std::env::var("TENON_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(1, |now| now.as_nanos() as u64)
        });
        println!("TENON_SEED={seed}");
        Self(seed)
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// splitmix64.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The state after a block, as plain maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) accounts: BTreeMap<Address, Account>,
    pub(crate) slots: BTreeMap<(Address, B256), U256>,
}

pub(crate) fn address(index: u64) -> Address {
    Address::from_slice(&keccak256(index.to_be_bytes())[12..])
}

pub(crate) fn word(index: u64) -> B256 {
    B256::from(U256::from(index))
}

/// A change that sets a balance and some slots.
pub(crate) fn change(account: u64, balance: u64, slots: &[(u64, u64)]) -> AccountChange {
    AccountChange {
        address: address(account),
        account: Some(Account { nonce: 1, balance: U256::from(balance), ..Account::default() }),
        storage_wiped: false,
        slots: slots.iter().map(|(slot, value)| SlotChange { slot: word(*slot), value: U256::from(*value) }).collect(),
    }
}

pub(crate) fn log(contract: u64, topics: &[u64], data: &[u8]) -> Log {
    Log {
        address: address(contract),
        topics: topics.iter().map(|topic| word(*topic)).collect(),
        data: Bytes::copy_from_slice(data),
    }
}

/// Options for tests: little memory.
pub(crate) fn options(mode: Mode) -> StoreOptions {
    StoreOptions {
        mode,
        durability: Durability::OnFlush,
        trie_cache_bytes: 1 << 20,
        state_cache_bytes: 48 << 20,
        block_cache_bytes: 1 << 20,
        // The blocks of tests are old.
        old_trie_window: u64::MAX,
        old_group_blocks: 1,
        background_threads: 2,
        ..StoreOptions::with_cache(8 << 20)
    }
}

pub(crate) fn open(path: &Path, mode: Mode) -> Arc<Store> {
    Store::open(path, options(mode)).unwrap()
}

/// Changes of a store's chain, each by a writer that is taken for it alone.
pub(crate) trait Writes {
    fn commit(&self, commit: &BlockCommit) -> Result<(), StoreError>;
    fn commit_first(&self, commits: &[Arc<BlockCommit>]) -> Result<usize, StoreError>;
    fn insert_side_block(&self, block: &Arc<RecoveredBlock>, total_difficulty: U256) -> Result<(), StoreError>;
    fn keep_side_state(&self, commit: &BlockCommit) -> Result<(), StoreError>;
    fn unwind(&self, number: BlockNumber) -> Result<(), StoreError>;
    fn reorganise(&self, ancestor: BlockNumber, branch: &[Arc<BlockCommit>]) -> Result<(), StoreError>;
    fn set_finality(&self, finalized: Option<BlockNumber>, safe: Option<BlockNumber>) -> Result<(), StoreError>;
}

impl Writes for Arc<Store> {
    fn commit(&self, commit: &BlockCommit) -> Result<(), StoreError> {
        self.take_writer()?.commit(&Arc::new(commit.clone()))
    }

    fn commit_first(&self, commits: &[Arc<BlockCommit>]) -> Result<usize, StoreError> {
        self.take_writer()?.commit_first(commits)
    }

    fn insert_side_block(&self, block: &Arc<RecoveredBlock>, total_difficulty: U256) -> Result<(), StoreError> {
        self.take_writer()?.insert_side_block(block, total_difficulty)
    }

    fn keep_side_state(&self, commit: &BlockCommit) -> Result<(), StoreError> {
        self.take_writer()?.keep_side_state(&Arc::new(commit.clone()))
    }

    fn unwind(&self, number: BlockNumber) -> Result<(), StoreError> {
        self.take_writer()?.unwind(number)
    }

    fn reorganise(&self, ancestor: BlockNumber, branch: &[Arc<BlockCommit>]) -> Result<(), StoreError> {
        self.take_writer()?.reorganise(ancestor, branch)
    }

    fn set_finality(&self, finalized: Option<BlockNumber>, safe: Option<BlockNumber>) -> Result<(), StoreError> {
        self.take_writer()?.set_finality(finalized, safe)
    }
}

/// Makes a chain block by block in a store of its own, and records every commit and state.
pub(crate) struct Maker {
    pub(crate) store: Arc<Store>,
    pub(crate) commits: Vec<BlockCommit>,
    pub(crate) states: Vec<Model>,
    /// Distinguishes the transactions, and so the blocks, that follow.
    pub(crate) mark: u64,
    /// Distinguishes the headers of one branch, so that branches differ even with equal transactions.
    pub(crate) seal: u64,
    /// Time of the genesis block, seconds.
    pub(crate) began: u64,
    /// Number of the block whose transactions the next blocks repeat.
    pub(crate) repeats: Option<u64>,
    _folder: TempDir,
}

impl Maker {
    /// A chain with a genesis block of three accounts.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = open(folder.path(), Mode::Archive);
        let mut maker = Self {
            store,
            commits: Vec::new(),
            states: Vec::new(),
            mark: 0,
            seal: 0,
            began: 0,
            repeats: None,
            _folder: folder,
        };
        let accounts = vec![change(0, 1_000, &[]), change(1, 1_000, &[(1, 1), (2, 2)]), change(2, 7, &[])];
        let genesis = maker.prepare(accounts, &[]);
        maker.store.initialise(&genesis, CHAIN_ID).unwrap();
        maker.remember(genesis);
        maker
    }

    /// A chain with this many random blocks above the genesis block.
    pub(crate) fn random(random: &mut Random, blocks: u64) -> Self {
        let mut maker = Self::new();
        for _ in 0..blocks {
            maker.add_random(random);
        }
        maker
    }

    /// Adds a block with these changes, and one transaction for each list of logs.
    pub(crate) fn add(&mut self, accounts: Vec<AccountChange>, logs: &[Vec<Log>]) -> &BlockCommit {
        let commit = self.prepare(accounts, logs);
        self.store.commit(&commit).unwrap();
        self.remember(commit);
        self.commits.last().unwrap()
    }

    /// Adds a block of random changes to a few accounts, with random logs.
    pub(crate) fn add_random(&mut self, random: &mut Random) -> &BlockCommit {
        let chosen: BTreeSet<u64> = (0..1 + random.below(5)).map(|_| random.below(12)).collect();
        let state = self.states.last().unwrap().clone();
        let accounts = chosen.into_iter().map(|index| random_change(random, &state, index)).collect();
        let transactions = random.below(4);
        let logs: Vec<Vec<Log>> =
            (0..transactions).map(|_| (0..random.below(4)).map(|_| random_log(random)).collect()).collect();
        self.add(accounts, &logs)
    }

    /// Removes blocks.
    pub(crate) fn unwind(&mut self, number: u64) {
        self.store.unwind(BlockNumber(number)).unwrap();
        self.commits.truncate(number as usize + 1);
        self.states.truncate(number as usize + 1);
    }

    fn remember(&mut self, commit: BlockCommit) {
        let mut state = self.states.last().cloned().unwrap_or_default();
        apply(&mut state, &commit);
        self.states.push(state);
        self.commits.push(commit);
    }

    fn prepare(&self, mut accounts: Vec<AccountChange>, logs: &[Vec<Log>]) -> BlockCommit {
        let parent = self.commits.last().map(|commit| &commit.block.header);
        let number = parent.map_or(0, |parent| parent.number + 1);
        let parent_root = parent.map_or(EMPTY_ROOT_HASH, |parent| parent.state_root);
        let state = self.states.last().cloned().unwrap_or_default();
        let previous = |address: Address| Ok(state.accounts.get(&address).copied());
        let update = update_state_trie(&*self.store.trie(), parent_root, &mut accounts, &previous).unwrap();
        let transactions: Vec<_> = (0..logs.len() as u64)
            .map(|index| Arc::new(transaction(self.mark, self.repeats.unwrap_or(number), index)))
            .collect();
        let receipts = receipts(logs);
        let header = Header {
            parent_hash: parent.map_or(B256::ZERO, |parent| parent.hash()),
            ommers_hash: EMPTY_OMMERS_HASH,
            state_root: update.root,
            transactions_root: tenon_chain::transactions_root(&transactions),
            receipts_root: tenon_chain::receipts_root(&receipts),
            difficulty: U256::from(2),
            number,
            gas_limit: 30_000_000,
            gas_used: receipts.last().map_or(0, |receipt| receipt.cumulative_gas_used),
            timestamp: self.began + number * 12,
            extra_data: Bytes::from([self.mark.to_be_bytes(), self.seal.to_be_bytes()].concat()),
            ..Header::default()
        };
        let senders = vec![address(0); transactions.len()];
        let block =
            Block { header: tenon_chain::seal(header), transactions, ommers: Vec::new(), withdrawals: None, size: 0 };
        // Decoding sets the block's size.
        let block = tenon_chain::decode_block(&mut tenon_chain::encode_block(&block).as_slice()).unwrap();
        BlockCommit {
            block: Arc::new(RecoveredBlock { block, senders }),
            total_difficulty: U256::from(2 * (number + 1)),
            receipts: Arc::new(receipts),
            codes: codes(&accounts),
            accounts,
            trie_nodes: update.writes,
            superseded_trie_nodes: update.superseded,
        }
    }
}

/// The code of the accounts that have some; all share the same.
fn codes(accounts: &[AccountChange]) -> Vec<(B256, Bytes)> {
    let has_code = accounts.iter().filter_map(|change| change.account).filter(Account::has_code);
    has_code.map(|account| (account.code_hash, Bytes::from_static(CODE))).collect()
}

const CODE: &[u8] = &[0x60, 0x00, 0x60, 0x00, 0xfd];

fn random_change(random: &mut Random, state: &Model, index: u64) -> AccountChange {
    let exists = state.accounts.contains_key(&address(index));
    if exists && random.chance(10) {
        return AccountChange { address: address(index), account: None, storage_wiped: true, slots: Vec::new() };
    }
    let mut change = change(index, random.below(1_000), &[]);
    change.storage_wiped = exists && random.chance(10);
    let slots: BTreeSet<u64> = (0..random.below(6)).map(|_| random.below(10)).collect();
    for slot in slots {
        let value = U256::from(if random.chance(30) { 0 } else { random.below(1_000) });
        change.slots.push(SlotChange { slot: word(slot), value });
    }
    if let Some(account) = change.account.as_mut().filter(|_| index.is_multiple_of(3)) {
        account.code_hash = keccak256(CODE);
    }
    change
}

fn random_log(random: &mut Random) -> Log {
    let topics: Vec<u64> = (0..random.below(5)).map(|_| random.below(3)).collect();
    let data = random.next().to_be_bytes();
    log(random.below(3), &topics, &data[..random.below(8) as usize])
}

fn transaction(mark: u64, number: u64, index: u64) -> Transaction {
    let mut transaction = Transaction {
        hash: B256::ZERO,
        chain_id: None,
        nonce: number * 1_000 + index,
        gas_limit: 21_000,
        to: Some(address(1)),
        value: U256::from(mark),
        input: Bytes::new(),
        payload: TransactionPayload::Legacy { gas_price: U256::from(1) },
        signature: TransactionSignature { v: 27, r: U256::from(1), s: U256::from(1) },
    };
    transaction.hash = tenon_chain::transaction_hash(&transaction);
    transaction
}

fn receipts(logs: &[Vec<Log>]) -> Vec<Receipt> {
    (1_u64..)
        .zip(logs)
        .map(|(count, logs)| Receipt {
            transaction_type: TransactionType::Legacy,
            outcome: ReceiptOutcome::Status(true),
            cumulative_gas_used: 21_000 * count,
            gas_used: 21_000,
            logs: logs.clone(),
        })
        .collect()
}

fn apply(state: &mut Model, commit: &BlockCommit) {
    for change in &commit.accounts {
        match change.account {
            Some(account) => drop(state.accounts.insert(change.address, account)),
            None => drop(state.accounts.remove(&change.address)),
        }
        if change.storage_wiped {
            state.slots.retain(|(address, _), _| *address != change.address);
        }
        for slot in &change.slots {
            let key = (change.address, slot.slot);
            if slot.value.is_zero() {
                state.slots.remove(&key);
            } else {
                state.slots.insert(key, slot.value);
            }
        }
    }
}

/// Puts the genesis block and some commits into a store.
pub(crate) fn fill(store: &Arc<Store>, commits: &[BlockCommit]) {
    store.initialise(&commits[0], CHAIN_ID).unwrap();
    for commit in &commits[1..] {
        store.commit(commit).unwrap();
    }
}

/// Compares every account and slot of any state with the store's answers at this height.
pub(crate) fn assert_state(store: &Store, number: u64, states: &[Model]) {
    assert_same_state(&*store.state_at(BlockNumber(number)).unwrap(), number, states);
}

/// Compares every account and slot of any state with this one's.
pub(crate) fn assert_same_state(state: &dyn StateReader, number: u64, states: &[Model]) {
    let expected = &states[number as usize];
    for address in states.iter().flat_map(|state| state.accounts.keys()).collect::<BTreeSet<_>>() {
        let account = state.account(*address).unwrap();
        assert_eq!(account.as_ref(), expected.accounts.get(address), "account {address} at block {number}");
    }
    for key in states.iter().flat_map(|state| state.slots.keys()).collect::<BTreeSet<_>>() {
        let value = state.storage(key.0, key.1).unwrap();
        assert_eq!(value, expected.slots.get(key).copied().unwrap_or_default(), "slot {key:?} at block {number}");
    }
}

/// Fails with the inconsistency if the store has one.
pub(crate) fn assert_whole(store: &Store) {
    let report = store.verify(&mut |_| {}, &|| false).unwrap();
    assert_eq!(report.damage, None);
    assert_eq!(report.blocks, store.head().number().0 + 1);
}

/// RocksDB 11 dereferences a null pointer if options without log tracking open a list that tracks logs read-only.
fn engine_options() -> rocksdb::Options {
    let mut options = rocksdb::Options::default();
    options.set_track_and_verify_wals_in_manifest(true);
    options
}

/// Every record of a closed database, by column.
pub(crate) fn dump(path: &Path) -> BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>> {
    let options = engine_options();
    let names = rocksdb::DB::list_cf(&options, path).unwrap();
    let database = rocksdb::DB::open_cf_for_read_only(&options, path, &names, false).unwrap();
    let records = |name: &String| {
        let column = database.cf_handle(name).unwrap();
        let records = database.iterator_cf(&column, rocksdb::IteratorMode::Start);
        records.map(|record| record.map(|(key, value)| (key.into_vec(), value.into_vec())).unwrap()).collect()
    };
    names.iter().map(|name| (name.clone(), records(name))).collect()
}

/// Deletes trie nodes of a closed database, wherever they are kept.
pub(crate) fn remove_nodes<'a>(path: &Path, keys: impl IntoIterator<Item = &'a Vec<u8>>) {
    let options = engine_options();
    let names = rocksdb::DB::list_cf(&options, path).unwrap();
    let database = rocksdb::DB::open_cf(&options, path, &names).unwrap();
    let columns = ["trie", "trie_checkpoints"].map(|name| database.cf_handle(name).unwrap());
    for key in keys {
        columns.iter().for_each(|column| database.delete_cf(column, key).unwrap());
    }
}

/// The table files of a column of a closed database.
pub(crate) fn tables_of(path: &Path, column: &str) -> Vec<PathBuf> {
    let options = engine_options();
    let names = rocksdb::DB::list_cf(&options, path).unwrap();
    let database = rocksdb::DB::open_cf_for_read_only(&options, path, &names, false).unwrap();
    let files = database.live_files().unwrap().into_iter().filter(|file| file.column_family_name == column);
    files.map(|file| path.join(file.name.trim_start_matches('/'))).collect()
}

/// Overwrites a record of a closed database; `None` deletes it.
pub(crate) fn overwrite(path: &Path, column: &str, key: &[u8], value: Option<&[u8]>) {
    let options = engine_options();
    let names = rocksdb::DB::list_cf(&options, path).unwrap();
    let database = rocksdb::DB::open_cf(&options, path, &names).unwrap();
    let column = database.cf_handle(column).unwrap();
    match value {
        Some(value) => database.put_cf(&column, key, value).unwrap(),
        None => database.delete_cf(&column, key).unwrap(),
    }
}
