//! Polling filters and subscriptions over a chain that grows and reorganises.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tenon_sdk::{prelude::*, testing::FakeHost};

use super::{call_on, hash_of, head, host, plugin, sealed, stored_header};
use crate::{Eth, registry::IDLE_LIMIT, table::table};

fn log_of(number: u64, removed: bool) -> LocatedLog {
    LocatedLog {
        log: Log { address: Address::repeat_byte(1), topics: vec![B256::repeat_byte(2)], data: Bytes::new() },
        block_number: BlockNumber(number),
        block_hash: hash_of(number),
        block_timestamp: number * 10,
        transaction_hash: B256::repeat_byte(3),
        transaction_index: 0,
        log_index: 0,
        removed,
    }
}

fn place(number: u64) -> (BlockNumber, B256) {
    (BlockNumber(number), hash_of(number))
}

/// A node with one log per block and the head at 10. The test prepares its next answers about changes, and it records
/// the block from which each request started.
struct Chain {
    node: FakeHost,
    changes: Arc<Mutex<Vec<ChainChanges>>>,
    asked: Arc<Mutex<Vec<B256>>>,
}

fn chain() -> Chain {
    let changes = Arc::new(Mutex::new(Vec::<ChainChanges>::new()));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (prepared, noted) = (changes.clone(), asked.clone());
    let number_of = |hash: B256| u64::from_be_bytes(hash[8..16].try_into().expect("eight bytes")) - 1;
    let node = host(Profile::Ethereum)
        .answer(|_: GetHead| Ok(head(10)))
        .answer(move |request: GetChainChanges| {
            noted.lock().expect("a lock").push(request.since);
            let mut prepared = prepared.lock().expect("a lock");
            Ok(if prepared.is_empty() { ChainChanges::default() } else { prepared.remove(0) })
        })
        .answer(move |request: GetHeader| match request.block {
            BlockId::Hash { hash, .. } => Ok(Some(stored_header(number_of(hash), true))),
            _ => Ok(None),
        })
        .answer(move |request: GetLogs| {
            let numbers = match request.range {
                LogRange::Block(hash) => number_of(hash)..=number_of(hash),
                LogRange::Numbers { from, to } => from.0..=to.0,
            };
            Ok(numbers.map(|number| log_of(number, false)).collect())
        });
    Chain { node, changes, asked }
}

impl Chain {
    fn prepare(&self, removed: &[u64], added: &[u64]) {
        let changes = ChainChanges {
            removed: removed.iter().map(|number| place(*number)).collect(),
            added: added.iter().map(|number| place(*number)).collect(),
        };
        self.changes.lock().expect("a lock").push(changes);
    }

    fn asked(&self) -> Vec<B256> {
        self.asked.lock().expect("a lock").clone()
    }
}

fn numbers_and_removed(logs: &Value) -> Vec<(String, bool)> {
    let logs = logs.as_array().expect("a list");
    let pair =
        |log: &Value| (log["blockNumber"].as_str().unwrap_or_default().to_owned(), log["removed"] == json!(true));
    logs.iter().map(pair).collect()
}

#[test]
fn idle_filters_are_removed_while_no_client_uses_filters() {
    let chain = tenon_sdk::testing::Chain::new();
    let started = chain.start::<Eth>("{}").expect("a start");
    started.call_method("eth_newBlockFilter", "[]").expect("an id");
    let wait = |duration| {
        chain.advance(duration);
        started.settle();
        chain.held(0)
    };

    assert!(wait(IDLE_LIMIT) > 0);
    assert_eq!(wait(Duration::from_mins(1)), 0, "its memory is released");
}

#[test]
fn a_block_filter_gives_each_block_once() {
    let chain = chain();
    let eth = plugin(&chain.node);
    let id = call_on(&chain.node, &eth, "eth_newBlockFilter", "[]").expect("an id");
    let poll = || call_on(&chain.node, &eth, "eth_getFilterChanges", &format!("[{id}]"));
    chain.prepare(&[], &[11, 12]);

    assert_eq!(poll(), Ok(json!([hash_of(11), hash_of(12)])));
    assert_eq!(poll(), Ok(json!([])));

    assert_eq!(chain.asked(), [hash_of(10), hash_of(12)]);
    let logs = call_on(&chain.node, &eth, "eth_getFilterLogs", &format!("[{id}]"));
    assert_eq!(logs, Err(Failure::server("filter not found")));
}

#[test]
fn a_log_filter_reports_logs_removed_by_a_reorganisation() {
    let chain = chain();
    let eth = plugin(&chain.node);
    let id = call_on(&chain.node, &eth, "eth_newFilter", r#"[{"fromBlock":"0x9"}]"#).expect("an id");
    let poll = || call_on(&chain.node, &eth, "eth_getFilterChanges", &format!("[{id}]")).expect("changes");
    chain.prepare(&[10, 9, 8], &[9, 10, 11]);
    chain.prepare(&[], &[12, 13, 14, 15, 16]);
    chain.prepare(&[16, 15], &[]);

    let reorganised = numbers_and_removed(&poll());
    let grown = numbers_and_removed(&poll());
    let shrunk = numbers_and_removed(&poll());
    poll();

    let pair = |number: &str, removed| (number.to_owned(), removed);
    let expected = [("0x9", true), ("0xa", true), ("0x9", false), ("0xa", false), ("0xb", false)];
    assert_eq!(reorganised, expected.map(|(number, removed)| pair(number, removed)), "block 8 is out of range");
    assert_eq!(grown.len(), 5);
    assert_eq!(shrunk, [pair("0xf", true), pair("0x10", true)]);
    assert_eq!(chain.asked(), [hash_of(10), hash_of(11), hash_of(16), hash_of(14)]);
}

#[test]
fn the_removal_of_delivered_logs_is_reported_even_if_the_node_has_dropped_them() {
    let chain = chain();
    let eth = plugin(&chain.node);
    let id = call_on(&chain.node, &eth, "eth_newFilter", "[{}]").expect("an id");
    chain.prepare(&[], &[11, 12]);
    chain.prepare(&[12, 11], &[]);
    let poll = |node: &FakeHost| {
        numbers_and_removed(&call_on(node, &eth, "eth_getFilterChanges", &format!("[{id}]")).expect("changes"))
    };

    let added = poll(&chain.node);
    let forgetful = chain.node.clone().answer(|_: GetLogs| Err(Failure::server("unknown block")));
    let removed = poll(&forgetful);

    assert_eq!(added, [("0xb".to_owned(), false), ("0xc".to_owned(), false)]);
    assert_eq!(removed, [("0xb".to_owned(), true), ("0xc".to_owned(), true)]);
}

#[test]
fn a_filter_whose_block_was_dropped_restarts_from_the_head() {
    let node = host(Profile::Ethereum)
        .answer(|_: GetHead| Ok(head(10)))
        .answer(|_: GetChainChanges| Err(Failure::server("unknown block")))
        .answer(|_: GetHeader| Ok(None));
    let eth = plugin(&node);
    let id = call_on(&node, &eth, "eth_newBlockFilter", "[]").expect("an id");

    let changes = call_on(&node, &eth, "eth_getFilterChanges", &format!("[{id}]"));
    let known = node.clone().answer(|_: GetHeader| Ok(Some(stored_header(10, true))));
    let failed = call_on(&known, &eth, "eth_getFilterChanges", &format!("[{id}]"));

    assert_eq!(changes, Ok(json!([])));
    assert_eq!(failed, Err(Failure::server("unknown block")), "another failure is not swallowed");
}

#[test]
fn filter_logs_are_evaluated_again() {
    let chain = chain();
    let eth = plugin(&chain.node);
    let id = call_on(&chain.node, &eth, "eth_newFilter", r#"[{"fromBlock":"0x8"}]"#).expect("an id");

    for _ in 0..2 {
        let logs = call_on(&chain.node, &eth, "eth_getFilterLogs", &format!("[{id}]")).expect("logs");
        assert_eq!(numbers_and_removed(&logs).len(), 3);
    }
    assert_eq!(call_on(&chain.node, &eth, "eth_uninstallFilter", &format!("[{id}]")), Ok(json!(true)));
    assert_eq!(call_on(&chain.node, &eth, "eth_uninstallFilter", &format!("[{id}]")), Ok(json!(false)));
}

#[test]
fn a_filter_of_pending_transactions_follows_the_pools_cursor() {
    let node = host(Profile::Ethereum).answer(|request: GetPendingSince| {
        Ok(match request.cursor {
            None => PendingSince { cursor: 5, hashes: Vec::new() },
            Some(5) => PendingSince { cursor: 6, hashes: vec![hash_of(1)] },
            Some(cursor) => PendingSince { cursor, hashes: Vec::new() },
        })
    });
    let eth = plugin(&node);
    let id = call_on(&node, &eth, "eth_newPendingTransactionFilter", "[]").expect("an id");
    let poll = || call_on(&node, &eth, "eth_getFilterChanges", &format!("[{id}]"));

    assert_eq!(poll(), Ok(json!([hash_of(1)])));
    assert_eq!(poll(), Ok(json!([])));
}

#[test]
fn idle_filters_are_removed() {
    let chain = chain();
    let eth = plugin(&chain.node);
    let id = call_on(&chain.node, &eth, "eth_newBlockFilter", "[]").expect("an id");

    chain.node.advance(crate::registry::IDLE_LIMIT * 2);

    let poll = call_on(&chain.node, &eth, "eth_getFilterChanges", &format!("[{id}]"));
    assert_eq!(poll, Err(Failure::server("filter not found")));
}

fn new_head(number: u64) -> NewHead {
    NewHead { header: sealed(number), total_difficulty: U256::ZERO, size: 0 }
}

/// The members called `name` of all items that a subscription sent after its acceptance.
fn sent(node: &FakeHost, kind: &str, params: &str, name: &str) -> Vec<Value> {
    let items = node.subscribe(&table(), &plugin(node), kind, params);
    let mut texts = items.into_iter().map(|item| item.expect("an item"));
    assert_eq!(texts.next().as_deref(), Some(""), "the acceptance comes first");
    let member = |text: String| serde_json::from_str::<Value>(&text).map(|item| item[name].clone()).expect("JSON");
    texts.map(member).collect()
}

#[test]
fn new_heads_announce_missed_blocks_and_repeat_none() {
    let chain = chain();
    chain.prepare(&[], &[12, 13, 14]);
    let node = chain.node.clone().announce(&new_head(11)).announce_missed::<NewHead>(2);
    let node = node.announce(&new_head(13)).announce(&new_head(14)).announce(&new_head(15)).announce(&new_head(14));

    let numbers = sent(&node, "newHeads", "[]", "number");

    assert_eq!(numbers, ["0xb", "0xc", "0xd", "0xe", "0xf", "0xe"]);
    assert_eq!(chain.asked(), [hash_of(11)]);
}

#[test]
fn each_matching_log_is_one_notification_and_missed_logs_follow() {
    let chain = chain();
    chain.prepare(&[12], &[12, 13]);
    let event = |logs: Vec<LocatedLog>| LogsChanged { logs: logs.into() };
    let foreign = LocatedLog { log: Log::default(), ..log_of(11, false) };
    let node = chain.node.clone().announce(&event(vec![log_of(11, false), foreign, log_of(11, false)]));
    let node = node.announce_missed::<LogsChanged>(1).announce(&event(vec![log_of(13, false)]));
    let node = node.announce(&event(vec![log_of(13, true)]));
    let criteria = format!(r#"[{{"address":"{}"}}]"#, Address::repeat_byte(1));

    let numbers = sent(&node, "logs", &criteria, "blockNumber");
    let refused = node.subscribe(&table(), &plugin(&node), "logs", r#"[{"toBlock":"0x1"}]"#);

    assert_eq!(numbers, ["0xb", "0xb", "0xc", "0xc", "0xd", "0xd"]);
    assert_eq!(refused, [Err(Failure::server("invalid from and to block combination: from > to"))]);
}

#[test]
fn pending_transactions_are_hashes_or_whole_transactions() {
    let transaction = Arc::new(super::recorded::plain_transaction());
    let event = TransactionPending { transaction: RecoveredTransaction { transaction, sender: Address::ZERO } };
    let node = || host(Profile::Ethereum).announce(&event);

    let hashes = sent(&node(), "newPendingTransactions", "[]", "hash");
    let whole = sent(&node(), "newPendingTransactions", "[true]", "hash");

    assert_eq!(hashes, [Value::Null], "a string has no members");
    assert_eq!(whole, [json!(B256::ZERO)]);
}

#[test]
fn syncing_announces_its_start_and_end() {
    let status = SyncStatus { starting: BlockNumber(1), current: BlockNumber(2), highest: BlockNumber(9) };
    let changed = |status| SyncChanged { status };
    let node = host(Profile::Native)
        .answer(|_: GetSyncStatus| Ok(None))
        .announce(&changed(None))
        .announce(&changed(Some(status)))
        .announce(&changed(Some(status)))
        .announce(&changed(None));

    let items = node.subscribe(&table(), &plugin(&node), "syncing", "[]");

    let texts: Vec<String> = items.into_iter().map(|item| item.expect("an item")).collect();
    let started = concat!(
        r#"{"syncing":true,"status":{"StartingBlock":1,"CurrentBlock":2,"HighestBlock":9,"#,
        r#""PulledStates":0,"KnownStates":0}}"#
    );
    assert_eq!(texts, ["", started, "false"]);
}

/// A pooled transaction of a sender.
fn waiting(sender: u8, nonce: u64, gas_limit: u64) -> RecoveredTransaction {
    let transaction = Transaction {
        hash: B256::repeat_byte(sender),
        chain_id: None,
        nonce,
        gas_limit,
        to: Some(Address::repeat_byte(1)),
        value: U256::ZERO,
        input: Bytes::new(),
        payload: TransactionPayload::Legacy { gas_price: U256::from(3) },
        signature: TransactionSignature { v: 27, r: U256::from(1), s: U256::from(2) },
    };
    RecoveredTransaction { transaction: Arc::new(transaction), sender: Address::repeat_byte(sender) }
}

/// A node whose block gas limit is 100, with these pooled transactions; each logs its sender. Those of the sender
/// `refused` are refused.
fn with_pool(waits: Vec<RecoveredTransaction>, refused: Option<u8>) -> FakeHost {
    let refused = refused.map(Address::repeat_byte);
    let summary: Vec<_> = waits.iter().map(PooledSummary::from).collect();
    let Chain { node, .. } = chain();
    node.answer(|_: GetHead| {
        let header = Header { gas_limit: 100, number: 10, ..Header::default() };
        let header = Arc::new(SealedHeader::new_unchecked(header, hash_of(10)));
        Ok(Arc::new(Head { header, total_difficulty: U256::ZERO, finalized: None, safe: None }))
    })
    .answer(move |_: GetPoolSummary| Ok(PoolSummary { pending: summary.clone(), queued: vec![] }))
    .answer(move |request: GetPoolContent| {
        let pending = waits.iter().filter(|waits| Some(waits.sender) == request.sender).cloned().collect();
        Ok(PoolContent { pending, queued: vec![] })
    })
    .answer(move |request: Simulate| {
        assert_eq!((request.base, request.validates), (BlockId::hash(hash_of(10)), false));
        if request.blocks[0].calls.iter().any(|call| refused.is_some() && call.from == refused) {
            return Err(Failure::server("insufficient funds"));
        }
        let calls = request.blocks[0].calls.iter().enumerate().map(|(index, call)| {
            assert!(call.gas_price.is_none());
            let sender = call.from.unwrap_or_default();
            let log = Log { address: sender, topics: vec![B256::repeat_byte(2)], data: Bytes::new() };
            let logs = vec![SimulatedLog { index: index as u64, log }];
            SimulatedCall { returned: Bytes::new(), logs, gas_used: 0, max_gas_used: 0, failure: None }
        });
        let block =
            Block { header: (*sealed(11)).clone(), transactions: vec![], ommers: vec![], withdrawals: None, size: 0 };
        let block = Arc::new(RecoveredBlock { block, senders: vec![] });
        let stored = StoredBlock { block, total_difficulty: U256::ZERO, is_canonical: false };
        Ok(Ok(vec![SimulatedBlock { stored, calls: calls.collect() }]))
    })
}

#[test]
fn a_range_that_ends_at_pending_has_the_pools_logs_without_places() {
    let node = with_pool(vec![waiting(5, 0, 40), waiting(5, 1, 40), waiting(6, 0, 40)], None);
    let eth = plugin(&node);
    let ask = |criteria: Value| call_on(&node, &eth, "eth_getLogs", &json!([criteria]).to_string()).expect("logs");

    let only = ask(json!({"fromBlock": "pending", "toBlock": "pending"}));
    let log = json!({
        "address": Address::repeat_byte(5),
        "topics": [B256::repeat_byte(2)],
        "data": "0x",
        "blockNumber": null,
        "transactionHash": null,
        "transactionIndex": null,
        "blockHash": null,
        "logIndex": null,
        "removed": false,
    });
    assert_eq!(only, json!([log, log]), "a block has no gas for the third");

    let both = ask(json!({"fromBlock": "0xa", "toBlock": "pending"}));
    assert_eq!((&both[0]["blockNumber"], &both[1]), (&json!("0xa"), &log));
    let filtered = ask(json!({"fromBlock": "pending", "toBlock": "pending", "topics": [B256::ZERO]}));
    assert_eq!(filtered, json!([]));
    let latest = ask(json!({"fromBlock": "0xa", "toBlock": "latest"}));
    assert_eq!(latest.as_array().map(Vec::len), Some(1));
    let id = call_on(&node, &eth, "eth_newFilter", r#"[{"fromBlock":"latest","toBlock":"pending"}]"#).expect("an id");
    let of_filter = call_on(&node, &eth, "eth_getFilterLogs", &json!([id]).to_string()).expect("logs");
    assert_eq!(of_filter[1], log);
}

#[test]
fn a_refused_transaction_removes_only_its_senders_logs() {
    let node = with_pool(vec![waiting(5, 0, 10), waiting(6, 0, 10), waiting(6, 1, 10), waiting(7, 0, 10)], Some(6));
    let criteria = r#"[{"fromBlock":"pending","toBlock":"pending"}]"#;

    let logs = call_on(&node, &plugin(&node), "eth_getLogs", criteria).expect("logs");

    let senders: Vec<&Value> = logs.as_array().into_iter().flatten().map(|log| &log["address"]).collect();
    assert_eq!(senders, [&json!(Address::repeat_byte(5)), &json!(Address::repeat_byte(7))]);
}

#[test]
fn a_range_to_pending_ends_at_the_head_if_the_pool_is_empty_or_cannot_be_simulated() {
    for node in [
        with_pool(vec![], None),
        with_pool(vec![waiting(5, 0, 40)], Some(5)),
        with_pool(vec![waiting(5, 0, 400)], None),
    ] {
        let logs = call_on(&node, &plugin(&node), "eth_getLogs", r#"[{"fromBlock":"0xa","toBlock":"pending"}]"#);
        let logs = logs.expect("logs");
        assert_eq!(logs.as_array().map(Vec::len), Some(1));
        assert_eq!(logs[0]["blockNumber"], "0xa");
    }
}
