//! The store's handlers on the bus.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use alloy_primitives::{B256, U256};
use tenon_api::{
    Account, BlockId, BlockNumber, BlockTag, BusError, ChainReader, LogFilter, Request, RequestError, UnresolvedBlock,
    codec,
    messages::{
        BlockOutline, ChainInfo, CompactDatabase, CountTransactions, DumpAccounts, GetAccount, GetAccountRange,
        GetBlock, GetBlockOutline, GetBlockReceipts, GetChainChanges, GetChainInfo, GetCode, GetDatabaseStatistics,
        GetHead, GetHeader, GetLogs, GetModifiedAccounts, GetPreimage, GetProof, GetRaw, GetReceipt, GetStorage,
        GetTransaction, GetTransactionInBlock, GetTransactionProof, LogRange, Profile, StoredBlock,
    },
};
use tenon_bus::{Bus, CallContext, ClientId, Origin, WorkPool};
use tenon_chain::{ChainSpec, Fork};
use tenon_storage::{Mode, Store, StoreLimits, register};

use crate::support::{CHAIN_ID, Maker, Writes as _, address, change, fill, log, open, word};

pub(crate) const LIMITS: StoreLimits = StoreLimits::new(20_000, u64::MAX);

/// A bus over this store, with a limit of three logs per answer.
fn bus(store: &Arc<Store>) -> Bus {
    bus_within(store, StoreLimits { log_results: 3, proof_slots: 2, ..LIMITS })
}

pub(crate) fn bus_within(store: &Arc<Store>, limits: StoreLimits) -> Bus {
    let bus = Bus::new();
    let info = ChainInfo {
        chain_id: CHAIN_ID,
        network_id: CHAIN_ID,
        genesis_hash: store.canonical_hash(BlockNumber(0)).unwrap().unwrap(),
        profile: Profile::Ethereum,
    };
    let spec = Arc::new(ChainSpec::ethereum_at(CHAIN_ID, Fork::Berlin));
    let pool = WorkPool::new("storage", 1, 8);
    register(&bus, Arc::clone(store), spec, Arc::new(info), &pool, limits).unwrap();
    bus
}

/// Genesis and three blocks; block 2 has two transactions with two logs each.
fn chain() -> Maker {
    let mut maker = Maker::new();
    maker.add(vec![change(1, 5, &[(1, 7), (2, 8)])], &[vec![log(1, &[1], b"a")]]);
    let logs = [vec![log(1, &[1], b"b"), log(2, &[2], b"c")], vec![log(1, &[2], b"d"), log(2, &[1], b"e")]];
    maker.add(vec![change(1, 6, &[(1, 0)])], &logs);
    maker.add(vec![change(9, 1, &[])], &[]);
    maker
}

/// [`chain`], which answers on a bus.
fn answering_chain() -> (Maker, Bus) {
    let maker = chain();
    let bus = bus(&maker.store);
    (maker, bus)
}

pub(crate) async fn ask<R: Request>(bus: &Bus, request: R) -> Result<R::Reply, BusError> {
    bus.call(request, &CallContext::new()).await
}

/// A separate client for each attempt: on a busy machine one attempt may use up a client's time for attempts.
fn another_client() -> ClientId {
    static ASKED: AtomicU64 = AtomicU64::new(1);
    ClientId::from_number(ASKED.fetch_add(1, Ordering::Relaxed))
}

/// The answer if it needs no pool thread.
pub(crate) fn immediately<R: Request>(bus: &Bus, question: &R) -> Option<R::Reply> {
    let frame = codec::encode(question).unwrap();
    let context = CallContext::new().with_origin(Origin { client: another_client(), ..Origin::default() });
    let answer = bus.try_read_frame(R::TOPIC, R::SCHEMA, &frame, &context)?;
    Some(codec::decode(&answer.unwrap()).unwrap())
}

#[tokio::test]
async fn receipts_of_a_block_with_much_gas_are_read_on_the_pool() {
    let mut maker = Maker::new();
    let logs: Vec<_> = (0..30).map(|number| vec![log(1, &[number], b"a")]).collect();
    maker.add(vec![], &logs);
    maker.add(vec![], &logs[..2]);
    let folder = tempfile::tempdir().unwrap();
    fill(&open(folder.path(), Mode::Archive), &maker.commits);
    // Opened again, so that no cache has the blocks.
    let bus = bus(&open(folder.path(), Mode::Archive));
    let receipts = |number| GetBlockReceipts { block: BlockId::number(number) };
    let receipt = |block: usize| GetReceipt { hash: maker.commits[block].block.transactions[1].hash };
    let raw = |number| GetRaw::Receipts(BlockId::number(number));

    assert_eq!(immediately(&bus, &receipts(1)), None);
    assert_eq!(immediately(&bus, &receipt(1)), None);
    assert_eq!(immediately(&bus, &raw(1)), None);
    assert!(immediately(&bus, &GetRaw::Header(BlockId::number(1))).is_some());

    assert_eq!(immediately(&bus, &receipts(2)), Some(ask(&bus, receipts(2)).await.unwrap()));
    assert_eq!(immediately(&bus, &receipt(2)), Some(ask(&bus, receipt(2)).await.unwrap()));
    assert_eq!(immediately(&bus, &raw(2)), Some(ask(&bus, raw(2)).await.unwrap()));

    let of_pool = ask(&bus, receipt(1)).await.unwrap();
    ask(&bus, receipts(1)).await.unwrap();
    assert_eq!(immediately(&bus, &receipt(1)), Some(of_pool), "the block is in memory, and the transaction is short");
}

#[tokio::test]
async fn blocks_are_found_by_every_kind_of_id() {
    let maker = chain();
    maker.store.set_finality(Some(BlockNumber(1)), Some(BlockNumber(2))).unwrap();
    let bus = bus(&maker.store);
    let hash = |number: usize| maker.commits[number].block.hash();

    assert_eq!(ask(&bus, GetHead).await.unwrap().number(), BlockNumber(3));
    assert_eq!(ask(&bus, GetChainInfo).await.unwrap().genesis_hash, hash(0));
    for (block, number) in [
        (BlockId::LATEST, 3),
        (BlockId::Tag(BlockTag::Pending), 3),
        (BlockId::Tag(BlockTag::Earliest), 0),
        (BlockId::Tag(BlockTag::Finalized), 1),
        (BlockId::Tag(BlockTag::Safe), 2),
        (BlockId::number(2), 2),
        (BlockId::hash(hash(1)), 1),
        (BlockId::Hash { hash: hash(1), require_canonical: true }, 1),
    ] {
        let found = ask(&bus, GetHeader { block }).await.unwrap().unwrap();
        assert_eq!((found.header.hash(), found.is_canonical), (hash(number), true), "{block:?}");
        assert_eq!(found.total_difficulty, maker.commits[number].total_difficulty);
        let found = ask(&bus, GetBlock { block }).await.unwrap().unwrap();
        assert_eq!(*found.block, *maker.commits[number].block);
    }
    assert_eq!(ask(&bus, GetBlock { block: BlockId::number(4) }).await, Ok(None));
    assert_eq!(ask(&bus, GetHeader { block: BlockId::hash(B256::ZERO) }).await, Ok(None));
}

#[tokio::test]
async fn transactions_and_receipts_have_their_position() {
    let folder = tempfile::tempdir().unwrap();
    let maker = chain();
    fill(&open(folder.path(), Mode::Archive), &maker.commits);
    // Reopened to bypass the caches.
    let store = open(folder.path(), Mode::Archive);
    let bus = bus(&store);
    let commit = &maker.commits[2];
    let hash = commit.block.transactions[1].hash;

    for _ in 0..2 {
        let found = ask(&bus, GetReceipt { hash }).await.unwrap().unwrap();
        assert_eq!((found.receipt, found.first_log_index), (commit.receipts[1].clone(), 2));
        assert_eq!(found.transaction.header.hash(), commit.block.hash());
        assert_eq!(found.transaction.index, 1);
        assert_eq!(found.blob_gas_price, None);
        // The second time the cache answers.
        let all = ask(&bus, GetBlockReceipts { block: BlockId::number(2) }).await.unwrap().unwrap();
        assert_eq!((all.block, all.receipts), (commit.block.clone(), commit.receipts.clone()));
    }
    let found = ask(&bus, GetTransaction { hash }).await.unwrap().unwrap();
    assert_eq!(found.transaction.transaction.hash, hash);
    assert_eq!(found.transaction.sender, commit.block.senders[1]);
    assert_eq!(ask(&bus, GetTransaction { hash: B256::ZERO }).await, Ok(None));
    assert_eq!(ask(&bus, GetReceipt { hash: B256::ZERO }).await, Ok(None));
}

#[tokio::test]
async fn parts_of_a_block_are_those_of_the_whole_block_without_reading_it() {
    let folder = tempfile::tempdir().unwrap();
    let maker = chain();
    fill(&open(folder.path(), Mode::Archive), &maker.commits);
    for reads_whole_blocks_first in [false, true] {
        // Reopened to bypass the caches.
        let store = open(folder.path(), Mode::Archive);
        let bus = bus(&store);
        for number in 0..maker.commits.len() as u64 {
            let (block, commit) = (BlockId::number(number), &maker.commits[number as usize]);
            let stored = StoredBlock {
                block: commit.block.clone(),
                total_difficulty: commit.total_difficulty,
                is_canonical: true,
            };
            if reads_whole_blocks_first {
                assert_eq!(ask(&bus, GetBlock { block }).await.unwrap().unwrap(), stored);
            }

            let count = ask(&bus, CountTransactions { block }).await.unwrap();
            let outline = ask(&bus, GetBlockOutline { block }).await.unwrap().unwrap();

            assert_eq!(count, Some(commit.block.transactions.len() as u64));
            // The second time the cache answers.
            assert_eq!(ask(&bus, GetBlockOutline { block }).await.unwrap().as_ref(), Some(&outline));
            assert_eq!(outline, BlockOutline::from(&stored));
            for index in 0..=count.unwrap() {
                let found = ask(&bus, GetTransactionInBlock { block, index }).await.unwrap();
                let position = index as usize;
                let wanted = commit.block.transactions.get(position).zip(commit.block.senders.get(position));
                let pair = found.as_ref().map(|found| (&found.transaction.transaction, &found.transaction.sender));
                assert_eq!(pair, wanted);
                assert!(found.is_none_or(|found| (found.index, found.header.hash()) == (index, commit.block.hash())));
            }
        }
        let beyond = BlockId::number(9);
        assert_eq!(ask(&bus, CountTransactions { block: beyond }).await, Ok(None));
        assert_eq!(ask(&bus, GetBlockOutline { block: beyond }).await, Ok(None));
        assert_eq!(ask(&bus, GetTransactionInBlock { block: beyond, index: 0 }).await, Ok(None));
    }
}

#[tokio::test]
async fn a_transaction_and_its_receipt_are_proved_the_same_way_each_time() {
    let (maker, bus) = answering_chain();
    let block = &maker.commits[2].block;
    for transaction in block.transactions.iter().chain(&block.transactions) {
        let proof = ask(&bus, GetTransactionProof { hash: transaction.hash }).await.unwrap().unwrap();

        let keccak = |node: &alloy_primitives::Bytes| alloy_primitives::keccak256(node);
        assert_eq!(proof.block_hash, block.hash());
        assert_eq!(proof.transaction_nodes.first().map(keccak), Some(proof.transactions_root));
        assert_eq!(proof.receipt_nodes.first().map(keccak), Some(proof.receipts_root));
        assert_eq!(proof.transactions_root, tenon_chain::transactions_root(&block.transactions));
        assert_eq!(proof.receipts_root, tenon_chain::receipts_root(&maker.commits[2].receipts));
    }
    assert_eq!(ask(&bus, GetTransactionProof { hash: B256::ZERO }).await, Ok(None));
}

#[tokio::test]
async fn raw_encodings_match_their_hashes() {
    let (maker, bus) = answering_chain();
    let commit = &maker.commits[2];
    let transaction = &commit.block.transactions[1];
    let keccak = |bytes: &[u8]| alloy_primitives::keccak256(bytes);

    let header = ask(&bus, GetRaw::Header(BlockId::number(2))).await.unwrap().unwrap();
    assert_eq!(keccak(&header[0]), commit.block.hash());
    let block = ask(&bus, GetRaw::Block(BlockId::number(2))).await.unwrap().unwrap();
    assert_eq!(tenon_chain::decode_block(&mut block[0].as_ref()).unwrap(), commit.block.block);
    let by_hash = ask(&bus, GetRaw::Transaction(transaction.hash)).await.unwrap().unwrap();
    assert_eq!(keccak(&by_hash[0]), transaction.hash);
    let in_block = |index| GetRaw::TransactionInBlock { block: BlockId::number(2), index };
    assert_eq!(ask(&bus, in_block(1)).await.unwrap().unwrap(), by_hash);
    assert_eq!(ask(&bus, in_block(2)).await, Ok(None));
    let receipts = ask(&bus, GetRaw::Receipts(BlockId::number(2))).await.unwrap().unwrap();
    assert_eq!(receipts.len(), 2);
    assert_eq!(ask(&bus, GetRaw::Block(BlockId::number(9))).await, Ok(None));
}

#[tokio::test]
async fn state_is_read_after_the_named_block() {
    let (_maker, bus) = answering_chain();
    let account = |block| GetAccount { address: address(1), block };

    let before = ask(&bus, account(BlockId::number(1))).await.unwrap();
    let after = ask(&bus, account(BlockId::LATEST)).await.unwrap();

    assert_eq!((before.balance, after.balance), (U256::from(5), U256::from(6)));
    let unknown = GetAccount { address: address(77), block: BlockId::LATEST };
    assert_eq!(ask(&bus, unknown).await, Ok(Account::default()));
    let slot = |number| GetStorage { address: address(1), slot: word(1), block: BlockId::number(number) };
    assert_eq!(ask(&bus, slot(1)).await, Ok(U256::from(7)));
    assert_eq!(ask(&bus, slot(2)).await, Ok(U256::ZERO));
    let code = GetCode { address: address(1), block: BlockId::LATEST };
    assert_eq!(ask(&bus, code).await, Ok(Default::default()));
    let unknown = ask(&bus, account(BlockId::number(4))).await;
    assert_eq!(unknown, Err(RequestError::Block(UnresolvedBlock::UnknownNumber).into()));
    let unknown = ask(&bus, account(BlockId::hash(B256::ZERO))).await;
    assert_eq!(unknown, Err(RequestError::Block(UnresolvedBlock::UnknownHash).into()));
}

#[tokio::test]
async fn the_latest_state_follows_the_head_down_and_up_again() {
    let mut maker = chain();
    let bus = bus(&maker.store);
    let balances = async |head: u64| {
        let mut balances = Vec::new();
        for block in [BlockId::LATEST, BlockId::Tag(BlockTag::Pending), BlockId::number(head)] {
            // Twice, so that cached values are read as well.
            for _ in 0..2 {
                let account = ask(&bus, GetAccount { address: address(1), block }).await.unwrap();
                let slot = ask(&bus, GetStorage { address: address(1), slot: word(1), block }).await.unwrap();
                balances.push((account.balance.to::<u64>(), slot.to::<u64>()));
            }
        }
        balances
    };

    assert_eq!(balances(3).await, [(6, 0); 6]);
    maker.unwind(1);
    assert_eq!(balances(1).await, [(5, 7); 6]);
    maker.mark = 1;
    maker.add(vec![change(1, 8, &[(1, 3)])], &[]);
    assert_eq!(balances(2).await, [(8, 3); 6]);
}

#[tokio::test]
async fn an_unavailable_state_is_reported_with_its_root() {
    let maker = chain();
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Pruned(1));
    fill(&store, &maker.commits);
    let mut other = Maker::new();
    other.mark = 1;
    other.add(vec![change(3, 5, &[])], &[]);
    let side = &other.commits[1].block;
    store.insert_side_block(side, U256::ZERO).unwrap();
    let bus = bus(&store);

    for (block, root) in [
        (BlockId::number(1), maker.commits[1].block.header.state_root),
        (BlockId::hash(side.hash()), side.header.state_root),
    ] {
        let unavailable = || BusError::from(RequestError::StateUnavailable { state_root: root });
        let account = ask(&bus, GetAccount { address: address(1), block }).await;
        assert_eq!(account, Err(unavailable()));
        let proof = ask(&bus, GetProof { address: address(1), slots: Vec::new(), block }).await;
        assert_eq!(proof, Err(unavailable()));
    }
}

#[tokio::test]
async fn proofs_are_those_of_the_trie_and_bounded() {
    let (_maker, bus) = answering_chain();
    let proof = |count: u64| GetProof {
        address: address(1),
        slots: (1..=count).map(word).collect(),
        block: BlockId::number(1),
    };

    let found = ask(&bus, proof(2)).await.unwrap();

    assert_eq!(found.account.balance, U256::from(5));
    assert_eq!(found.storage.iter().map(|slot| slot.value).collect::<Vec<_>>(), [7, 8].map(U256::from));
    assert!(!found.proof.is_empty() && found.storage.iter().all(|slot| !slot.proof.is_empty()));
    let too_many = BusError::limit_reached("a proof of 3 slots was requested, and at most 2 are allowed");
    assert_eq!(ask(&bus, proof(3)).await, Err(too_many));
}

#[tokio::test]
async fn logs_are_found_by_range_and_by_block_up_to_the_limit() {
    let maker = chain();
    let mut other = Maker::new();
    other.mark = 1;
    other.add(vec![], &[vec![log(1, &[], b"")]]);
    maker.store.insert_side_block(&other.commits[1].block, U256::ZERO).unwrap();
    let bus = bus(&maker.store);
    let numbers = |from, to| LogRange::Numbers { from: BlockNumber(from), to: BlockNumber(to) };
    let logs = |range, filter: &LogFilter| GetLogs { range, filter: filter.clone() };
    let first = LogFilter { addresses: vec![address(1)], topics: Vec::new() };
    let any = LogFilter::default();

    let found = ask(&bus, logs(numbers(0, 99), &first)).await.unwrap();
    assert_eq!(found.iter().map(|log| log.log.data[0]).collect::<Vec<_>>(), *b"abd");
    let found = ask(&bus, logs(LogRange::Block(maker.commits[1].block.hash()), &any)).await.unwrap();
    assert_eq!(found.iter().map(|log| log.log.data[0]).collect::<Vec<_>>(), *b"a");
    assert_eq!(ask(&bus, logs(LogRange::Block(other.commits[1].block.hash()), &any)).await, Ok(Vec::new()));
    assert_eq!(ask(&bus, logs(numbers(3, 1), &any)).await, Ok(Vec::new()));
    let unknown = ask(&bus, logs(LogRange::Block(B256::ZERO), &any)).await;
    assert_eq!(unknown, Err(RequestError::Block(UnresolvedBlock::Unknown).into()));
    let too_many = BusError::limit_reached("query returned more than 3 results; request blocks 0 to 1 first");
    assert_eq!(ask(&bus, logs(numbers(0, 3), &any)).await, Err(too_many));
}

#[tokio::test]
async fn changes_since_a_block_cross_a_reorganisation() {
    let mut maker = chain();
    let old: Vec<B256> = maker.commits.iter().map(|commit| commit.block.hash()).collect();
    maker.unwind(1);
    maker.mark = 1;
    for _ in 0..4 {
        maker.add(vec![], &[]);
    }
    let bus = bus(&maker.store);
    let at = |number: usize| (BlockNumber(number as u64), maker.commits[number].block.hash());
    let since = |since, limit| GetChainChanges { since, limit };

    let all = ask(&bus, since(old[3], 100)).await.unwrap();
    assert_eq!(all.removed, [(BlockNumber(3), old[3]), (BlockNumber(2), old[2])]);
    assert_eq!(all.added, [at(2), at(3), at(4), at(5)]);
    let some = ask(&bus, since(old[0], 2)).await.unwrap();
    assert_eq!((some.removed.len(), some.added), (0, vec![at(1), at(2)]));
    let none = ask(&bus, since(at(5).1, 2)).await.unwrap();
    assert!(none.removed.is_empty() && none.added.is_empty());
    assert_eq!(ask(&bus, since(B256::ZERO, 2)).await, Err(RequestError::Block(UnresolvedBlock::Unknown).into()));
}

#[tokio::test]
async fn a_past_state_is_dumped_in_pages() {
    let (maker, bus) = answering_chain();
    let dump = async |block: u64| {
        let (mut accounts, mut from) = (Vec::new(), Some(alloy_primitives::Address::ZERO));
        while let Some(first) = from {
            let request = DumpAccounts { block: BlockId::number(block), from: first, limit: 1 };
            let page = ask(&bus, request).await.unwrap();
            assert_eq!(page.root, maker.commits[block as usize].block.header.state_root);
            accounts.extend(page.accounts);
            from = page.next;
        }
        accounts
    };

    let (before, after) = (dump(1).await, dump(3).await);

    let slots = |accounts: &[tenon_api::messages::DumpedAccount]| {
        accounts.iter().find(|account| account.address == address(1)).unwrap().slots.clone()
    };
    assert_eq!(slots(&before), [(word(1), U256::from(7)), (word(2), U256::from(8))]);
    assert_eq!(slots(&after), [(word(2), U256::from(8))], "a slot that was set to zero is gone");
    assert!(before.iter().all(|account| account.address != address(9)), "an account of later");
    assert!(after.iter().any(|account| account.address == address(9)));
    assert!(after.windows(2).all(|pair| pair[0].address < pair[1].address));
}

#[tokio::test]
async fn a_range_of_accounts_follows_the_order_of_the_state_trie() {
    let (_maker, bus) = answering_chain();
    let range = async |block: u64, start: Vec<u8>, limit: u64, parts: bool| {
        let (block, start) = (BlockId::number(block), start.into());
        let request = GetAccountRange { block, start, limit, with_code: parts, with_storage: parts };
        ask(&bus, request).await.unwrap()
    };
    let mut dumped =
        ask(&bus, DumpAccounts { block: BlockId::number(3), from: alloy_primitives::Address::ZERO, limit: 1000 })
            .await
            .unwrap();
    dumped.accounts.sort_by_cached_key(|account| alloy_primitives::keccak256(account.address));

    let whole = range(3, vec![], 1000, true).await;
    assert_eq!((whole.root, whole.next), (dumped.root, None));
    assert_eq!(whole.accounts, dumped.accounts);
    assert!(whole.accounts.len() > 1);

    let (mut paged, mut start) = (Vec::new(), Some(vec![]));
    while let Some(first) = start {
        let page = range(3, first, 1, true).await;
        assert_eq!(page.accounts.len(), 1);
        paged.extend(page.accounts);
        start = page.next.map(|next| next.to_vec());
    }
    assert_eq!(paged, whole.accounts);

    let second = alloy_primitives::keccak256(whole.accounts[1].address);
    let prefix = range(3, second[..2].to_vec(), 1, false).await;
    assert_eq!(prefix.accounts[0].address, whole.accounts[1].address);
    let bare = range(3, vec![], 1000, false).await;
    assert!(bare.accounts.iter().all(|account| account.code.is_empty() && account.slots.is_empty()));
    let before = range(1, vec![], 1000, false).await;
    assert!(before.accounts.iter().all(|account| account.address != address(9)), "an account of later");
    assert_eq!(range(3, vec![0xff; 32], 1000, false).await.accounts, []);
}

#[tokio::test]
async fn modified_accounts_are_those_that_differ_in_the_newer_state() {
    let (_maker, bus) = answering_chain();
    let modified = async |from: u64, to: u64| {
        ask(&bus, GetModifiedAccounts { from: BlockNumber(from), to: BlockNumber(to) }).await
    };

    assert_eq!(modified(2, 3).await, Ok(vec![address(9)]));
    let mut both = vec![address(1), address(9)];
    both.sort_by_cached_key(|address| alloy_primitives::keccak256(address));
    assert_eq!(modified(0, 3).await, Ok(both));
    assert_eq!(modified(3, 3).await, Ok(Vec::new()));
    assert!(modified(3, 4).await.is_err(), "there is no block 4");
}

#[tokio::test]
async fn a_refusal_names_the_exceeded_limit() {
    let mut maker = chain();
    let old_head = maker.commits[3].block.hash();
    maker.unwind(1);
    maker.mark = 1;
    maker.add(vec![change(9, 1, &[])], &[]);
    let limits = StoreLimits { log_blocks: 2, chain_changes: 1, preimage_keys: 1, ..LIMITS };
    let bus = bus_within(&maker.store, limits.clone());
    let narrow = bus_within(&maker.store, StoreLimits { dump_records: 1, ..limits.clone() });
    let closed = bus_within(&maker.store, StoreLimits { dump_records: 0, ..limits });
    let (latest, first) = (BlockId::LATEST, address(1));

    let changes = ask(&bus, GetChainChanges { since: old_head, limit: 9 }).await.map(drop);
    let range = LogRange::Numbers { from: BlockNumber(0), to: BlockNumber(2) };
    let logs = ask(&bus, GetLogs { range, filter: LogFilter::default() }).await.map(drop);
    let accounts =
        GetAccountRange { block: latest, start: Default::default(), limit: 9, with_code: false, with_storage: false };
    let sorted = ask(&bus, accounts).await.map(drop);
    let modified = |from| GetModifiedAccounts { from: BlockNumber(from), to: BlockNumber(2) };
    let compared = ask(&bus, modified(0)).await.map(drop);
    let changed = ask(&closed, modified(1)).await.map(drop);
    let dumped = ask(&narrow, DumpAccounts { block: latest, from: first, limit: 1 }).await.map(drop);

    let dumped_text = format!("account {first:x} has more than 1 slots: its state is too large to dump");
    for (answer, text) in [
        (changes, "block is more than 1 blocks off the canonical chain"),
        (logs, "log query spans more than 2 blocks; narrow the range"),
        (sorted, "the database has more than 1 accounts, which are too many to sort by hash"),
        (compared, "the blocks are more than 1 apart"),
        (changed, "the blocks changed more than 0 accounts"),
        (dumped, &dumped_text),
    ] {
        assert_eq!(answer, Err(BusError::limit_reached(text)));
    }
}

#[tokio::test]
async fn preimages_are_found_among_accounts_and_slots() {
    let (_maker, bus) = answering_chain();
    let preimage = async |hash| ask(&bus, GetPreimage { hash }).await.unwrap();

    let account = preimage(alloy_primitives::keccak256(address(9))).await.unwrap();
    let slot = preimage(alloy_primitives::keccak256(word(2))).await.unwrap();

    assert_eq!((&account[..], &slot[..]), (address(9).as_slice(), word(2).as_slice()));
    assert_eq!(preimage(B256::ZERO).await, None);
}

#[tokio::test]
async fn the_engine_reports_statistics_and_compacts() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), Mode::Archive);
    fill(&store, &chain().commits);
    store.flush().unwrap();
    let bus = bus(&store);

    ask(&bus, CompactDatabase).await.unwrap();

    let statistics = ask(&bus, GetDatabaseStatistics).await.unwrap();
    assert_eq!((statistics.files_by_level.len(), statistics.files_by_level[0]), (7, 0), "all is compacted");
    assert_eq!(statistics.files_by_level.iter().sum::<u64>(), statistics.files.len() as u64);
    let file = statistics.files.iter().find(|file| file.column == "account_latest").unwrap();
    assert!(file.level > 0 && file.bytes > 0 && file.name.ends_with(".sst"), "{file:?}");
    assert!(statistics.cache_capacity > 0 && !statistics.is_write_stopped, "{statistics:?}");
    assert_eq!(ask(&bus, GetHead).await.unwrap().number(), BlockNumber(3));
}
