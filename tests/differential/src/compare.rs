//! Comparisons of two ways to compute the same answer.

use alloy_primitives::{Address, B256, U256};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};
use tenon_api::{
    BlockId, BlockNumber, ChainReader as _, LogFilter, Receipt, ReceiptOutcome,
    messages::{CallTracerOptions, StructLogOptions, Trace, TraceOptions, TraceTarget, Tracer},
};

use crate::{Dice, Node};

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
        let receipts = |node: &Node| node.store.receipts(hash.unwrap()).unwrap().unwrap();
        assert_eq!(receipts(one), receipts(other), "receipts of block {number}");
    }
}

/// Checks that searches in the log index find the same as a scan of all receipts. Returns the numbers of searches and
/// logs.
///
/// # Panics
/// At the first difference.
pub fn log_index_and_scan(node: &Node, dice: &mut Dice, searches: u64) -> (u64, u64) {
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
        let filter = random_filter(dice, &emitters, &values);
        let from = dice.below(height + 1);
        let to = from + dice.below(height + 1 - from);
        let indexed = node.store.logs(from.into(), to.into(), &filter, usize::MAX - 1, &|| false).unwrap();
        let scanned: Vec<_> = (from..=to).flat_map(|number| scan(node, number, &filter)).collect();
        let places = indexed.iter().map(|log| (log.block_number.0, log.transaction_index, log.log_index));
        assert!(places.eq(scanned.iter().copied()), "{filter:?} from {from} to {to}: {indexed:?}, scanned {scanned:?}");
        found += indexed.len() as u64;
    }
    (searches, found)
}

pub(crate) fn receipts_of(node: &Node, number: u64) -> Vec<Receipt> {
    let hash = node.store.canonical_hash(number.into()).unwrap().unwrap();
    node.store.receipts(hash).unwrap().unwrap().to_vec()
}

fn random_filter(dice: &mut Dice, emitters: &[Address], values: &[B256]) -> LogFilter {
    LogFilter {
        addresses: (0..dice.below(3)).map(|_| *dice.one_of(emitters)).collect(),
        topics: (0..dice.below(4)).map(|_| (0..dice.below(3)).map(|_| *dice.one_of(values)).collect()).collect(),
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
        for (index, receipt) in receipts.iter().enumerate() {
            let place = format!("transaction {index} of block {number}");
            let step: Value = serde_json::from_str(steps[index].result.get()).unwrap();
            let call = Call::read(&calls[index].result);
            let gas: U256 = call.gas_used.parse().unwrap();
            assert_eq!(gas, U256::from(receipt.gas_used), "{place}");
            assert_eq!(step["gas"], receipt.gas_used, "{place}");
            let has_failed = receipt.outcome == ReceiptOutcome::Status(false);
            assert_eq!(call.error.is_some(), has_failed, "{place}: {:?}", call.error);
            assert_eq!(step["failed"], has_failed, "{place}");
            if !has_failed {
                assert_eq!(call.logs_in_all(), receipt.logs.len(), "{place}");
            }
        }
        traced += receipts.len() as u64;
    }
    traced
}

/// One transaction in the trace of a block.
#[derive(Deserialize)]
struct Traced {
    result: Box<RawValue>,
}

/// A call with its inner calls, which are parsed one level at a time: random code calls itself deeper than a JSON
/// parser permits.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call {
    gas_used: String,
    error: Option<String>,
    #[serde(default)]
    logs: Vec<IgnoredAny>,
    #[serde(default)]
    calls: Vec<Box<RawValue>>,
}

impl Call {
    fn read(json: &RawValue) -> Self {
        serde_json::from_str(json.get()).unwrap_or_else(|error| panic!("{error}: {json}"))
    }

    /// Number of logs of the call and of its inner calls that did not fail.
    fn logs_in_all(&self) -> usize {
        if self.error.is_some() {
            return 0;
        }
        self.logs.len() + self.calls.iter().map(|call| Self::read(call).logs_in_all()).sum::<usize>()
    }
}

fn trace(node: &Node, number: u64, tracer: Tracer) -> Vec<Traced> {
    let target = TraceTarget::Block(BlockId::number(number));
    let reply = node.ask(Trace { target, options: TraceOptions { tracer, timeout: None } });
    let reply = reply.unwrap_or_else(|failure| panic!("block {number}: {failure:?}"));
    serde_json::from_str(&reply.json).unwrap()
}
