//! A development network's log: one line for each block, each of its transactions, and each `console.log` message of
//! contracts.
//!
//! Receipts contain neither the reason of a failure nor the contracts' messages, so the transaction is run again by a
//! trace. All text from contracts is limited in length and number, and shown without control characters.

mod abi;
mod console;
mod revert;

use std::time::Duration;

use tenon_api::messages::{
    BlockCommitted, CallFrame, CallTracerOptions, Trace, TraceOptions, TraceResult, TraceResults, TraceTarget, Tracer,
};
use tenon_api::{Address, BlockCommit, Receipt, Transaction};
use tenon_bus::{Bus, CallContext, Delivery};

use crate::block_log;

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
                block_log::log_block(&commit);
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
        for line in trace.iter().flat_map(|frames| console_messages(frames)) {
            tracing::info!(tx = %transaction.hash, "console.log: {line}");
        }
        write_transaction(transaction, *sender, receipt, trace.as_deref());
    }
    let left_out = block.transactions.len().saturating_sub(MAX_TRANSACTIONS);
    if left_out > 0 {
        tracing::info!(left_out, "further transactions of the block are not logged");
    }
}

fn may_have_run_code(transaction: &Transaction, receipt: &Receipt) -> bool {
    receipt.succeeded() == Some(false) || transaction.to.is_none() || receipt.gas_used > PLAIN_GAS
}

async fn run_again(bus: &Bus, transaction: &Transaction) -> Option<Vec<CallFrame>> {
    let tracer = Tracer::Calls(CallTracerOptions::default());
    let options = TraceOptions { tracer, timeout: Some(TRACE_TIMEOUT) };
    let trace = Trace { target: TraceTarget::Transaction(transaction.hash), options };
    match bus.call(trace, &CallContext::new()).await.ok()?.ok()?.results {
        TraceResults::Single(TraceResult::Calls(frames)) => Some(frames),
        _ => None,
    }
}

fn write_transaction(transaction: &Transaction, sender: Address, receipt: &Receipt, trace: Option<&[CallFrame]>) {
    let (method, from, gas, hash) = (method(transaction), sender, receipt.gas_used, transaction.hash);
    // A creation has no receiver; its method is shown as `create`.
    let to = transaction.to.map(|to| to.to_string()).unwrap_or_else(|| "-".to_owned());
    if receipt.succeeded() == Some(false) {
        let reason = trace.and_then(<[_]>::first).map_or_else(|| "unknown".to_owned(), reason);
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

/// The contracts' messages, in order.
fn console_messages(frames: &[CallFrame]) -> Vec<String> {
    let mut lines = Vec::new();
    for frame in frames.iter().filter(|frame| frame.to == Some(console::ADDRESS)) {
        if lines.len() > MAX_CONSOLE_LINES {
            break;
        }
        lines.extend(console::decode(&frame.input));
    }
    if lines.len() > MAX_CONSOLE_LINES {
        lines.truncate(MAX_CONSOLE_LINES);
        lines.push("… and more, which is left out".to_owned());
    }
    lines
}

fn reason(frame: &CallFrame) -> String {
    let output = frame.output.as_ref().map_or(&[][..], |output| output.as_ref());
    let error = frame.revert_reason.as_deref().or(frame.error.as_deref()).unwrap_or("failed");
    revert::reason(output).unwrap_or_else(|| abi::shown(error))
}

#[cfg(test)]
mod tests {
    use tenon_api::{Bytes, messages::FrameKind};

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

    fn frame(depth: u32, to: Address, input: Vec<u8>) -> CallFrame {
        CallFrame {
            depth,
            kind: FrameKind::Call,
            from: Address::ZERO,
            to: Some(to),
            value: None,
            gas: 0,
            gas_used: 0,
            gas_by_kind: None,
            input: input.into(),
            output: None,
            error: None,
            revert_reason: None,
            logs: Vec::new(),
        }
    }

    #[test]
    fn finds_messages_of_contracts_at_any_depth_in_order_and_limits_their_number() {
        let log = |depth: u32, word: &str| {
            let mut input = selector("log(string)").to_vec();
            input.extend(tenon_api::U256::from(32).to_be_bytes::<32>());
            input.extend(tenon_api::U256::from(word.len()).to_be_bytes::<32>());
            input.extend(word.as_bytes());
            frame(depth, console::ADDRESS, input)
        };
        let call = |depth| frame(depth, Address::ZERO, Vec::new());
        let frames = [call(0), log(1, "first"), call(1), log(2, "second"), log(1, "third")];
        assert_eq!(console_messages(&frames), ["first", "second", "third"]);

        let many: Vec<CallFrame> = (0..100).map(|_| log(1, "x")).collect();
        assert_eq!(console_messages(&many).len(), MAX_CONSOLE_LINES + 1);
    }

    #[test]
    fn shows_why_a_transaction_failed() {
        let failed = |error: &str, output: &[u8]| {
            let (error, output) = (Some(error.to_owned()), Some(output.to_vec().into()));
            CallFrame { error, output, ..frame(0, Address::ZERO, Vec::new()) }
        };

        assert_eq!(reason(&failed("execution reverted", &[])), "execution reverted");
        assert_eq!(reason(&failed("execution reverted", &[0xde, 0xad, 0xbe, 0xef])), "custom error 0xdeadbeef");
        assert_eq!(reason(&failed("out of gas", &[])), "out of gas");
    }
}
