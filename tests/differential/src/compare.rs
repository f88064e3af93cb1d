//! Comparisons of two ways to compute the same answer.

use alloy_primitives::{Address, B256};
use tenon_api::{
    BlockId, BlockNumber, ChainReader as _, LogFilter, Receipt, ReceiptOutcome,
    messages::{
        CallFrame, CallTracerOptions, StructLogOptions, Trace, TraceOptions, TraceResult, TraceResults, TraceTarget,
        Tracer,
    },
};
use tenon_sdk::error_texts::RefusableAnswer as _;

use crate::{Node, SplitMix64};

/// Checks that the whole database matches the roots of its headers, and its indices its blocks.
///
/// # Panics
/// At the first inconsistent record.
pub fn is_whole(node: &Node) {
    let report = node.store.verify(&mut |_| {}, &|| false).unwrap();
    assert_eq!(report.damage, None);
    assert_eq!(report.blocks, node.height() + 1);
}

/// Checks that every block has the same hash and the same receipts on both nodes.
///
/// # Panics
/// At the first difference.
pub fn same_chain(one: &Node, other: &Node) {
    assert_eq!(one.height(), other.height());
    for number in (0..=one.height()).map(BlockNumber) {
        let hash = one.store.canonical_hash(number).unwrap();
        assert_eq!(hash, other.store.canonical_hash(number).unwrap(), "block {number}");
        assert_eq!(receipts_of(one, number), receipts_of(other, number), "receipts of block {number}");
    }
}

/// Checks that searches in the log index find the same as a scan of all receipts. Returns the numbers of searches and
/// logs.
///
/// # Panics
/// At the first difference.
pub fn log_index_and_scan(node: &Node, random: &mut SplitMix64, searches: u64) -> (u64, u64) {
    let height = node.height();
    let mut emitters = vec![Address::repeat_byte(0xee)];
    let mut values = vec![B256::repeat_byte(0xee)];
    for number in 1..=height {
        for log in receipts_of(node, number).iter().flat_map(|receipt| &receipt.logs) {
            emitters.push(log.address);
            values.extend(&log.topics);
        }
    }
    let mut found = 0;
    for _ in 0..searches {
        let filter = random_filter(random, &emitters, &values);
        let from = random.below(height + 1);
        let to = from + random.below(height + 1 - from);
        let indexed = node.store.logs(from.into(), to.into(), &filter, usize::MAX - 1, &|| false).unwrap();
        let scanned: Vec<_> = (from..=to).flat_map(|number| scan(node, number, &filter)).collect();
        let places = indexed.iter().map(|log| (log.block_number.0, log.transaction_index, log.log_index));
        assert!(places.eq(scanned.iter().copied()), "{filter:?} from {from} to {to}: {indexed:?}, scanned {scanned:?}");
        found += indexed.len() as u64;
    }
    (searches, found)
}

/// The receipts of a canonical block.
pub(crate) fn receipts_of(node: &Node, number: impl Into<BlockNumber>) -> Vec<Receipt> {
    let number = number.into();
    let hash = node.store.canonical_hash(number).unwrap().unwrap_or_else(|| panic!("there is no block {number}"));
    let receipts = node.store.receipts(hash).unwrap();
    receipts.unwrap_or_else(|| panic!("block {number}, {hash}, has no receipts")).to_vec()
}

fn random_filter(random: &mut SplitMix64, emitters: &[Address], values: &[B256]) -> LogFilter {
    LogFilter {
        addresses: (0..random.below(3)).map(|_| *random.one_of(emitters)).collect(),
        topics: (0..random.below(4)).map(|_| (0..random.below(3)).map(|_| *random.one_of(values)).collect()).collect(),
    }
}

/// Block, transaction and position of the matching logs.
fn scan(node: &Node, number: u64, filter: &LogFilter) -> Vec<(u64, u64, u64)> {
    let receipts = receipts_of(node, number);
    let logs = (0..).zip(&receipts).flat_map(|(index, receipt)| receipt.logs.iter().map(move |log| (index, log)));
    let placed = (0..).zip(logs).filter(|(_, (_, log))| filter.matches(log));
    placed.map(|(position, (index, _))| (number, index, position)).collect()
}

/// Checks that the trace of a block has the gas, the outcome and the logs of its receipts. Returns the number of
/// transactions traced.
///
/// # Panics
/// At the first difference.
pub fn traces_and_receipts(node: &Node, numbers: impl Iterator<Item = u64>) -> u64 {
    let mut traced = 0;
    for number in numbers {
        let receipts = receipts_of(node, number);
        let calls = trace(node, number, Tracer::Calls(CallTracerOptions { only_top_call: false, with_logs: true }));
        let few = StructLogOptions { with_stack: false, with_storage: false, ..StructLogOptions::default() };
        let steps = trace(node, number, Tracer::StructLogger(few));
        assert_eq!((calls.len(), steps.len()), (receipts.len(), receipts.len()), "block {number}");
        for (index, ((receipt, call), step)) in receipts.iter().zip(&calls).zip(&steps).enumerate() {
            let place = format!("transaction {index} of block {number}");
            let (TraceResult::Calls(frames), TraceResult::StructLog(log)) = (call, step) else {
                panic!("{place}: {call:?} {step:?}")
            };
            let call = &frames[0];
            assert_eq!((call.gas_used, log.gas), (receipt.gas_used, receipt.gas_used), "{place}");
            let has_failed = receipt.outcome == ReceiptOutcome::Status(false);
            assert_eq!(call.error.is_some(), has_failed, "{place}: {:?}", call.error);
            assert_eq!(log.has_failed, has_failed, "{place}");
            if !has_failed {
                assert_eq!(logs_in_all(frames), receipt.logs.len(), "{place}");
            }
        }
        traced += receipts.len() as u64;
    }
    traced
}

/// Number of logs of all calls that did not fail and were not made by one that failed.
fn logs_in_all(frames: &[CallFrame]) -> usize {
    let (mut logs, mut failed_at) = (0, None);
    for frame in frames {
        if failed_at.is_some_and(|depth| frame.depth <= depth) {
            failed_at = None;
        }
        if failed_at.is_some() {
            continue;
        }
        match frame.error {
            Some(_) => failed_at = Some(frame.depth),
            None => logs += frame.logs.len(),
        }
    }
    logs
}

fn trace(node: &Node, number: u64, tracer: Tracer) -> Vec<TraceResult> {
    let target = TraceTarget::Block(BlockId::number(number));
    let reply = node.ask(Trace { target, options: TraceOptions { tracer, timeout: None } });
    let reply = reply.or_failure().unwrap_or_else(|failure| panic!("block {number}: {failure:?}"));
    let TraceResults::Block(traces) = reply.results else { panic!("block {number}: {:?}", reply.results) };
    traces.into_iter().map(|trace| trace.result.unwrap_or_else(|error| panic!("block {number}: {error:?}"))).collect()
}
