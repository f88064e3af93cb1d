//! Traces of native transactions compared with their receipts.
//!
//! A native trace runs the transaction as an ordinary message (`docs/spec/rpc-node.md` 4.2), so it matches the receipt,
//! except for transactions that the block does not execute: signing transactions (`docs/spec/chain.md` 3.3) and those
//! of the exchange (3.4). Their receipts have a fixed form, which is checked instead.

use alloy_primitives::{Address, B256, U256, address};
use tenon_api::{
    Receipt, ReceiptOutcome, Transaction,
    messages::{
        CallFrame, CallTracerOptions, FrameKind, StructLog, StructLogOptions, Trace, TraceOptions, TraceResult,
        TraceResults, TraceTarget, Tracer,
    },
};
use tenon_sdk::{FailureCode, error_texts::RefusableAnswer as _};

use crate::{Node, SplitMix64, compare::receipts_of};

/// Receivers of transactions that may be intercepted: the block signer contract (`docs/spec/chain.md` 3.3), then the
/// exchange (3.4).
const INTERCEPTED: [Address; 5] = [
    address!("0000000000000000000000000000000000000089"),
    address!("0000000000000000000000000000000000000091"),
    address!("0000000000000000000000000000000000000092"),
    address!("0000000000000000000000000000000000000093"),
    address!("0000000000000000000000000000000000000094"),
];

/// Opcodes of the instructions that are looked for.
const LOG0: u8 = 0xa0;
const LOG4: u8 = 0xa4;
const CALL: u8 = 0xf1;
const CALLCODE: u8 = 0xf2;
const DELEGATECALL: u8 = 0xf4;
const STATICCALL: u8 = 0xfa;

/// The steps show the inner calls, which may be a thousand deep.
const OUTERMOST_CALL: Tracer = Tracer::Calls(CallTracerOptions { only_top_call: true, with_logs: false });

/// Numbers of compared transactions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Compared {
    /// Traced, and equal to their receipts.
    pub traced: u64,
    /// Of these, failed ones.
    pub failed: u64,
    /// Of these, contract creations.
    pub created: u64,
    /// Logs in their receipts, each found in the trace.
    pub logs: u64,
    /// Of these, with receipts from before Byzantium, without status.
    pub without_status: u64,
    /// Not executed by the block: their receipts have the required form.
    pub intercepted: u64,
    /// Too many steps for an answer: only their calls were compared.
    pub too_long: u64,
}

/// The log entries of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Logged {
    address: Option<Address>,
    topics: Vec<B256>,
    length: U256,
}

/// A frame reconstructed from steps.
struct Frame {
    depth: u64,
    /// Unknown inside a creation until it ends.
    contract: Option<Address>,
    logs: Vec<Logged>,
}

/// Traces this percentage of blocks, each transaction separately.
///
/// # Panics
/// At the first transaction whose trace differs from its receipt.
pub fn compare(node: &Node, random: &mut SplitMix64, percent: u64) -> Compared {
    let mut compared = Compared::default();
    for number in 1..=node.height() {
        let block = node.block(number);
        if block.transactions.is_empty() || !random.chance(percent) {
            continue;
        }
        for (index, (transaction, receipt)) in block.transactions.iter().zip(&receipts_of(node, number)).enumerate() {
            let place = format!("transaction {index} of block {number} ({})", transaction.hash);
            if receipt.gas_used == 0 {
                is_intercepted(transaction, receipt, &place);
                compared.intercepted += 1;
            } else {
                agrees(node, transaction, receipt, &place, &mut compared);
            }
        }
    }
    compared
}

/// Checks for success, without gas, with one log that has only the receiver's address.
fn is_intercepted(transaction: &Transaction, receipt: &Receipt, place: &str) {
    let receiver = transaction.to.filter(|receiver| INTERCEPTED.contains(receiver));
    assert!(receiver.is_some(), "{place} used no gas and goes to {:?}", transaction.to);
    assert_ne!(receipt.outcome, ReceiptOutcome::Status(false), "{place}");
    let logs: Vec<_> = receipt.logs.iter().map(|log| (Some(log.address), log.topics.len(), log.data.len())).collect();
    assert_eq!(logs, [(receiver, 0, 0)], "{place}");
}

fn traced_by(tracer: Tracer) -> TraceOptions {
    TraceOptions { tracer, timeout: None }
}

fn agrees(node: &Node, transaction: &Transaction, receipt: &Receipt, place: &str, compared: &mut Compared) {
    let target = || TraceTarget::Transaction(transaction.hash);
    let calls = Trace { target: target(), options: traced_by(OUTERMOST_CALL) };
    let calls = node.ask(calls).or_failure().unwrap_or_else(|failure| panic!("{place}: {failure:?}"));
    let TraceResults::Single(TraceResult::Calls(frames)) = calls.results else { panic!("{place}: {calls:?}") };
    let call = &frames[0];
    let has_failed = call.error.is_some();
    is_gas_of_frame(transaction, receipt, call, place);
    match receipt.outcome {
        ReceiptOutcome::Status(succeeded) => assert_eq!(has_failed, !succeeded, "{place}: {:?}", call.error),
        ReceiptOutcome::StateRoot(_) => compared.without_status += 1,
    }
    let sender = tenon_chain::recover_sender(transaction).unwrap();
    let contract = transaction.to.unwrap_or_else(|| sender.create(transaction.nonce));
    assert_eq!(call.kind, if transaction.to.is_some() { FrameKind::Call } else { FrameKind::Create }, "{place}");
    assert_eq!(call.to, Some(contract), "{place}");
    compared.traced += 1;
    compared.failed += u64::from(has_failed);
    compared.created += u64::from(transaction.to.is_none() && !has_failed);

    let without_storage = StructLogOptions { with_storage: false, ..StructLogOptions::default() };
    let steps = Trace { target: target(), options: traced_by(Tracer::StructLogger(without_storage)) };
    let steps = match node.ask(steps).or_failure() {
        Ok(steps) => steps.results,
        Err(failure) if failure.code == FailureCode::LIMIT_EXCEEDED => return compared.too_long += 1,
        Err(failure) => panic!("{place}: {failure:?}"),
    };
    let TraceResults::Single(TraceResult::StructLog(steps)) = steps else { panic!("{place}: {steps:?}") };
    assert_eq!(steps.gas, receipt.gas_used, "{place}");
    assert_eq!(steps.has_failed, has_failed, "{place}");
    let logged = if has_failed { Vec::new() } else { logs_of(&steps, contract) };
    let expected: Vec<Logged> = receipt.logs.iter().map(of_receipt).collect();
    assert_eq!(logged, expected, "{place}");
    compared.logs += expected.len() as u64;
}

/// The reference's `callTracer` shows the outermost frame's gas: without the intrinsic gas, and before refunds, which
/// are at most half of the total (a fifth since London) and zero after a failure.
fn is_gas_of_frame(transaction: &Transaction, receipt: &Receipt, call: &CallFrame, place: &str) {
    let before = transaction.gas_limit - call.gas;
    let used = before + call.gas_used;
    let paid = receipt.gas_used;
    let max_refunded = if call.error.is_none() { used / 2 } else { 0 };
    assert!(paid <= used && paid >= used - max_refunded, "{place} paid {paid} for {used} of its frame");
}

fn of_receipt(log: &tenon_api::Log) -> Logged {
    Logged { address: Some(log.address), topics: log.topics.clone(), length: U256::from(log.data.len()) }
}

/// The logs of the frames that did not fail, in order.
///
/// The word that an inner frame leaves on its caller's stack shows whether it failed: zero for a failed call or
/// creation, one for a call, the address for a creation.
fn logs_of(log: &StructLog, contract: Address) -> Vec<Logged> {
    let outermost = Frame { depth: 1, contract: Some(contract), logs: Vec::new() };
    let (mut frames, mut before) = (vec![outermost], None);
    let mut steps = log.steps.read();
    while let Some(step) = steps.next_step().unwrap() {
        let (opcode, depth, stack) = (step.opcode, step.depth, step.stack.unwrap().collect::<Vec<_>>());
        while frames.last().is_some_and(|frame| frame.depth > depth) {
            let ended = frames.pop().expect("a frame was found to be open");
            // Of frames that end together only the last one's caller has this stack; the others' callers failed.
            let left = if ended.depth == depth + 1 {
                stack.last().copied().expect("an ended call leaves its outcome on the stack")
            } else {
                U256::ZERO
            };
            let caller = frames.last_mut().expect("the outermost frame does not end");
            let created = Address::from_word(B256::from(left));
            if !left.is_zero() {
                let named = |log: Logged| Logged { address: log.address.or(Some(created)), ..log };
                caller.logs.extend(ended.logs.into_iter().map(named));
            }
        }
        if frames.last().is_some_and(|frame| frame.depth < depth) {
            let contract = before.and_then(|(opcode, stack)| contract_of(opcode, stack, frames.last()?.contract));
            frames.push(Frame { depth, contract, logs: Vec::new() });
        }
        let frame = frames.last_mut().expect("the outermost frame does not end");
        if (LOG0..=LOG4).contains(&opcode) {
            let mut items = stack.iter().rev().skip(1);
            let length = *items.next().expect("LOG has two operands before its topics");
            let topics = items.take(usize::from(opcode - LOG0)).map(|topic| B256::from(*topic)).collect();
            frame.logs.push(Logged { address: frame.contract, topics, length });
        }
        before = Some((opcode, stack));
    }
    assert_eq!(frames.len(), 1, "a trace ends where it began");
    frames.remove(0).logs
}

/// The contract whose logs are written by the frame that this step begins; none for a creation.
fn contract_of(opcode: u8, stack: Vec<U256>, caller: Option<Address>) -> Option<Address> {
    match opcode {
        CALL | STATICCALL => Some(Address::from_word(B256::from(stack[stack.len() - 2]))),
        DELEGATECALL | CALLCODE => caller,
        _ => None,
    }
}
