//! The public suite's files (`tests/data/execution-apis`): each request against a node that is built from the recorded
//! answer, compared as the suite compares (`docs/spec/conformance.md` 2.3). This tests parameters, defaults, error
//! codes and shapes; the node's computations are tested elsewhere.

use std::{fs, path::Path};

use serde_json::{Value, json};
use tenon_sdk::{prelude::*, testing::FakeHost};

use super::{call_method, head, host, recorded, stored_header, with_block};

/// Head of the recorded chain.
const HEAD: u64 = 0x36;

struct Exchange {
    name: String,
    method: String,
    params: String,
    answer: Value,
}

fn exchanges() -> Vec<Exchange> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/execution-apis");
    let folders = fs::read_dir(folder).expect("the data folder").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = folders
        .filter(|path| path.is_dir() && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("eth_")))
        .flat_map(|path| fs::read_dir(path).expect("a method's folder"))
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    files.iter().map(|path| exchange(path)).collect()
}

fn exchange(path: &Path) -> Exchange {
    let text = fs::read_to_string(path).expect("a readable file");
    let line = |mark: &str| text.lines().find_map(|line| line.strip_prefix(mark)).expect("a request and an answer");
    let request: Value = serde_json::from_str(line(">> ")).expect("JSON");
    Exchange {
        name: path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        method: request["method"].as_str().unwrap_or_default().to_owned(),
        params: request.get("params").map(Value::to_string).unwrap_or_default(),
        answer: serde_json::from_str(line("<< ")).expect("JSON"),
    }
}

/// A node whose replies come from the recorded answer.
fn node_of(exchange: &Exchange) -> FakeHost {
    let answer = exchange.answer.clone();
    let result = answer["result"].clone();
    let failure = answer.get("error").map(|error| Failure {
        code: FailureCode(error["code"].as_i64().unwrap_or_default() as i32),
        message: error["message"].as_str().unwrap_or_default().to_owned(),
        data: error.get("data").map(Value::to_string),
    });
    let with_state = answers_about_state(host(Profile::Ethereum), &result);
    answers_of_evm(answers_about_blocks(with_state, &result), &result, failure)
}

/// Reads `result`; `None` if it is null.
fn found<T>(result: &Value, read: impl Fn(&Value) -> T) -> Option<T> {
    (!result.is_null()).then(|| read(result))
}

fn answers_about_blocks(host: FakeHost, result: &Value) -> FakeHost {
    let [blocks, receipts, transactions, receipt, logs] = [(); 5].map(|()| result.clone());
    let block_of = |result: &Value| match result.as_str() {
        // A transaction count is recorded: the genesis block has no transactions.
        Some(_) => recorded::block(&genesis_json()),
        None if result.get("transactions").is_some() => recorded::block(result),
        None => block_with(recorded::located(result)),
    };
    with_block(host, move || found(&blocks, block_of))
        .answer(|_: GetHead| Ok(head(HEAD)))
        .answer(|_: GetHeadNumber| Ok(BlockNumber(HEAD)))
        .answer(|_: GetHeader| Ok(Some(stored_header(4, true))))
        .answer(move |_: GetBlockReceipts| {
            Ok(found(&receipts, |result| recorded::block_receipts(result.as_array().expect("a list"))))
        })
        .answer(move |_: GetTransaction| Ok(found(&transactions, recorded::located)))
        .answer(|_: GetPoolTransaction| Ok(None))
        .answer(move |_: GetReceipt| Ok(found(&receipt, recorded::receipt)))
        .answer(move |_: GetLogs| Ok(logs.as_array().expect("a list").iter().map(recorded::log).collect()))
}

fn genesis_json() -> Value {
    let text = include_str!("../../tests/data/execution-apis/eth_getBlockByNumber/get-genesis.io");
    let line = text.lines().find_map(|line| line.strip_prefix("<< ")).expect("an answer");
    serde_json::from_str::<Value>(line).expect("JSON")["result"].clone()
}

fn block_with(located: LocatedTransaction) -> StoredBlock {
    let block = Block {
        header: located.header.as_ref().clone(),
        transactions: vec![located.transaction.transaction],
        ommers: Vec::new(),
        withdrawals: None,
        size: 0,
    };
    let block = RecoveredBlock { block, senders: vec![located.transaction.sender] };
    StoredBlock { block: block.into(), total_difficulty: U256::ZERO, is_canonical: true }
}

fn answers_about_state(host: FakeHost, result: &Value) -> FakeHost {
    let [account, code, storage, proof, fees, history] = [(); 6].map(|()| result.clone());
    let latest_only = |block: BlockId| match block {
        BlockId::LATEST => Ok(()),
        other => Err(Failure::server(format!("asked for {other:?}"))),
    };
    host.answer(move |request: GetAccount| {
        latest_only(request.block)?;
        let number: U256 = serde_json::from_value(account.clone()).expect("a quantity");
        Ok(Account { balance: number, nonce: number.saturating_to(), ..Account::default() })
    })
    .answer(move |_: GetCode| Ok(serde_json::from_value(code.clone()).expect("data")))
    .answer(move |request: GetStorage| {
        latest_only(request.block)?;
        let value: B256 = serde_json::from_value(storage.clone()).expect("a word");
        Ok(value.into())
    })
    .answer(move |_: GetProof| Ok(recorded::proof(&proof)))
    .answer(|_: GetSyncStatus| Ok(None))
    .answer(move |_: GetNextBlockFees| {
        let blob_base_fee = serde_json::from_value(fees.clone()).expect("a quantity");
        Ok(NextBlockFees { base_fee_per_gas: None, blob_base_fee: Some(blob_base_fee) })
    })
    .answer(move |_: GetFeeHistory| Ok(Ok(recorded::fee_history(&history))))
}

fn answers_of_evm(host: FakeHost, result: &Value, failure: Option<Failure>) -> FakeHost {
    let [called, gas, access, hash] = [(); 4].map(|()| result.clone());
    let failures = [failure.clone(), failure];
    let [call_failure, gas_failure] = failures;
    host.answer(move |_: Call| match &call_failure {
        Some(failure) => Err(failure.clone()),
        None => Ok(Ok(serde_json::from_value(called.clone()).expect("data"))),
    })
    .answer(move |_: EstimateGas| match &gas_failure {
        Some(failure) => Err(failure.clone()),
        None => Ok(Ok(recorded::quantity(&gas))),
    })
    .answer(move |_: CreateAccessList| {
        let items = access["accessList"].as_array().expect("a list");
        Ok(Ok(AccessListReply {
            access_list: items.iter().map(recorded::access_list_item).collect(),
            gas_used: recorded::number(&access, "gasUsed"),
            failure: None,
        }))
    })
    .answer(move |_: SubmitTransaction| Ok(Ok(serde_json::from_value(hash.clone()).expect("a hash"))))
}

/// The answer without the error's message, which the suite does not compare.
fn comparable(answer: Result<Value, Failure>) -> Value {
    match answer {
        Ok(result) => json!({"result": result}),
        Err(failure) => {
            let data: Option<Value> = failure.data.map(|text| serde_json::from_str(&text).expect("JSON"));
            match data {
                Some(data) => json!({"error": {"code": failure.code.0, "data": data}}),
                None => json!({"error": {"code": failure.code.0}}),
            }
        }
    }
}

#[test]
fn every_recorded_request_gets_the_recorded_answer() {
    let exchanges = exchanges();

    for exchange in &exchanges {
        let node = node_of(exchange);

        let answer = comparable(call_method(&node, &exchange.method, &exchange.params));

        let mut expected = exchange.answer.clone();
        let members = expected.as_object_mut().expect("an object");
        members.retain(|name, _| name == "result" || name == "error");
        if let Some(error) = expected.get_mut("error").and_then(Value::as_object_mut) {
            error.remove("message");
        }
        assert_eq!(answer, expected, "{}/{}", exchange.method, exchange.name);
    }
    assert_eq!(exchanges.len(), 61, "a file is missing or new");
}
