//! A development network's log: one line for each block, each of its transactions, and each `console.log` message of
//! contracts.
//!
//! Receipts contain neither the reason of a failure nor the contracts' messages, so the transaction is run again by a
//! trace. All text from contracts is limited in length and number, and shown without control characters.

mod abi;
mod console;
mod revert;

use std::time::Duration;

use serde::Deserialize;
use tenon_api::messages::{BlockCommitted, CallTracerOptions, Trace, TraceOptions, TraceTarget, Tracer};
use tenon_api::{Address, BlockCommit, Bytes, Receipt, Transaction};
use tenon_bus::{Bus, CallContext, Delivery};

use self::abi::selector;

/// Maximum number of a block's transactions that get a line.
const MAX_TRANSACTIONS: usize = 100;
/// Maximum number of a block's transactions that are run again.
const MAX_TRACED: usize = 50;
/// Maximum gas of a block whose transactions are run again. A run repeats the block's earlier transactions, so a full
/// block would cost many times its own execution.
const MAX_TRACED_BLOCK_GAS: u64 = 2_000_000;
/// Maximum number of lines of the contracts in one transaction.
const MAX_CONSOLE_LINES: usize = 32;
/// Time limit for running one transaction again.
const TRACE_TIMEOUT: Duration = Duration::from_secs(2);
/// Gas of a transaction that runs no code and has no data.
const PLAIN_GAS: u64 = 21_000;

/// Functions shown by their names; others are shown by their selectors.
const KNOWN_FUNCTIONS: [&str; 14] = [
    "transfer(address,uint256)",
    "approve(address,uint256)",
    "transferFrom(address,address,uint256)",
    "mint(address,uint256)",
    "mint(uint256)",
    "burn(uint256)",
    "deposit()",
    "withdraw(uint256)",
    "setApprovalForAll(address,bool)",
    "safeTransferFrom(address,address,uint256)",
    "transferOwnership(address)",
    "increment()",
    "setNumber(uint256)",
    "sign(uint256,bytes32)",
];

/// Writes the log until the bus is closed.
pub(crate) async fn write(bus: Bus) {
    let mut blocks = bus.subscribe::<BlockCommitted>();
    while let Some(delivery) = blocks.next().await {
        match delivery {
            Delivery::Event(BlockCommitted { commit }) => {
                crate::node::log_block(&commit);
                write_transactions(&bus, &commit).await;
            }
            Delivery::Missed(count) => tracing::info!(count, "blocks were not logged"),
        }
    }
}

async fn write_transactions(bus: &Bus, commit: &BlockCommit) {
    let block = &commit.block;
    let is_small = block.header.gas_used <= MAX_TRACED_BLOCK_GAS;
    let mut traced = 0;
    let transactions = block.transactions.iter().zip(&block.senders).zip(commit.receipts.iter());
    for ((transaction, sender), receipt) in transactions.take(MAX_TRANSACTIONS) {
        let mut trace = None;
        if is_small && may_have_run_code(transaction, receipt) && traced < MAX_TRACED {
            traced += 1;
            trace = run_again(bus, transaction).await;
        }
        for line in trace.iter().flat_map(console_messages) {
            tracing::info!(tx = %transaction.hash, "console.log: {line}");
        }
        write_transaction(transaction, *sender, receipt, trace.as_ref());
    }
    let left_out = block.transactions.len().saturating_sub(MAX_TRANSACTIONS);
    if left_out > 0 {
        tracing::info!(left_out, "further transactions of the block are not logged");
    }
}

fn may_have_run_code(transaction: &Transaction, receipt: &Receipt) -> bool {
    receipt.succeeded() == Some(false) || transaction.to.is_none() || receipt.gas_used > PLAIN_GAS
}

async fn run_again(bus: &Bus, transaction: &Transaction) -> Option<Frame> {
    let tracer = Tracer::Calls(CallTracerOptions::default());
    let options = TraceOptions { tracer, timeout: Some(TRACE_TIMEOUT) };
    let trace = Trace { target: TraceTarget::Transaction(transaction.hash), options };
    let reply = bus.call(trace, &CallContext::new()).await.ok()?;
    serde_json::from_str(&reply.json).ok()
}

fn write_transaction(transaction: &Transaction, sender: Address, receipt: &Receipt, trace: Option<&Frame>) {
    let (method, from, gas, hash) = (method(transaction), sender, receipt.gas_used, transaction.hash);
    // A creation has no receiver; its method is shown as `create`.
    let to = transaction.to.map(|to| to.to_string()).unwrap_or_else(|| "-".to_owned());
    if receipt.succeeded() == Some(false) {
        let reason = trace.map_or_else(|| "unknown".to_owned(), reason);
        tracing::warn!(%method, %from, %to, status = "failed", gas, reason, tx = %hash, "transaction");
    } else {
        tracing::info!(%method, %from, %to, status = "ok", gas, tx = %hash, "transaction");
    }
}

/// A transaction's action, in one word.
fn method(transaction: &Transaction) -> String {
    if transaction.to.is_none() {
        return "create".to_owned();
    }
    let Some(called) = transaction.input.first_chunk::<4>() else {
        return if transaction.input.is_empty() { "transfer".to_owned() } else { "data".to_owned() };
    };
    let known = KNOWN_FUNCTIONS.iter().find(|signature| selector(signature) == *called);
    known.map_or_else(|| alloy_primitives::hex::encode_prefixed(called), |signature| (*signature).to_owned())
}

/// A call and its nested calls, as in a call trace.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Frame {
    to: Option<Address>,
    input: Bytes,
    output: Option<Bytes>,
    error: Option<String>,
    revert_reason: Option<String>,
    calls: Vec<Frame>,
}

/// The contracts' messages, in order.
fn console_messages(frame: &Frame) -> Vec<String> {
    let mut lines = Vec::new();
    collect(frame, &mut lines);
    if lines.len() > MAX_CONSOLE_LINES {
        lines.truncate(MAX_CONSOLE_LINES);
        lines.push("… and more, which is left out".to_owned());
    }
    lines
}

/// The depth is limited by that of calls, and further by the JSON parser.
fn collect(frame: &Frame, lines: &mut Vec<String>) {
    if lines.len() > MAX_CONSOLE_LINES {
        return;
    }
    if frame.to == Some(console::ADDRESS) {
        lines.extend(console::decode(&frame.input));
    }
    frame.calls.iter().for_each(|call| collect(call, lines));
}

fn reason(frame: &Frame) -> String {
    let output = frame.output.as_ref().map_or(&[][..], |output| output.as_ref());
    let error = frame.revert_reason.as_deref().or(frame.error.as_deref()).unwrap_or("failed");
    revert::reason(output).unwrap_or_else(|| abi::shown(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_called_function_of_a_transaction() {
        let transaction =
            |to: Option<Address>, input: &str| Transaction { to, input: input.parse().unwrap(), ..empty_transaction() };
        let to = Some(Address::repeat_byte(7));

        let told = [
            method(&transaction(None, "0x6000")),
            method(&transaction(to, "0x")),
            method(&transaction(to, "0xa9059cbb00")),
            method(&transaction(to, "0x12345678")),
            method(&transaction(to, "0x12")),
        ];

        assert_eq!(told, ["create", "transfer", "transfer(address,uint256)", "0x12345678", "data"]);
    }

    fn empty_transaction() -> Transaction {
        use tenon_api::{B256, TransactionPayload, TransactionSignature, U256};
        Transaction {
            hash: B256::ZERO,
            chain_id: None,
            nonce: 0,
            gas_limit: 0,
            to: None,
            value: U256::ZERO,
            input: Bytes::new(),
            payload: TransactionPayload::Legacy { gas_price: U256::ZERO },
            signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
        }
    }

    fn frame(json: serde_json::Value) -> Frame {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn finds_messages_of_contracts_at_any_depth_in_order_and_limits_their_number() {
        let log = |word: &str| {
            let mut input = selector("log(string)").to_vec();
            input.extend(tenon_api::U256::from(32).to_be_bytes::<32>());
            input.extend(tenon_api::U256::from(word.len()).to_be_bytes::<32>());
            input.extend(word.as_bytes());
            serde_json::json!({ "to": console::ADDRESS, "input": Bytes::from(input) })
        };
        let inner = serde_json::json!({ "to": Address::ZERO, "input": "0x", "calls": [log("second")] });
        let outer = frame(serde_json::json!({ "to": Address::ZERO, "calls": [log("first"), inner, log("third")] }));
        assert_eq!(console_messages(&outer), ["first", "second", "third"]);

        let many = frame(serde_json::json!({ "calls": (0..100).map(|_| log("x")).collect::<Vec<_>>() }));
        assert_eq!(console_messages(&many).len(), MAX_CONSOLE_LINES + 1);
    }

    #[test]
    fn shows_why_a_transaction_failed() {
        let failed = |output: &str| frame(serde_json::json!({ "error": "execution reverted", "output": output }));

        assert_eq!(reason(&failed("0x")), "execution reverted");
        assert_eq!(reason(&failed("0xdeadbeef")), "custom error 0xdeadbeef");
        assert_eq!(reason(&frame(serde_json::json!({ "error": "out of gas" }))), "out of gas");
    }
}
