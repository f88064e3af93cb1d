//! Measures the cost of a step to a script, sent alone or together with others, and the cost of a process.

#![allow(missing_docs, clippy::unwrap_used, reason = "a bench")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Duration;

use alloy_primitives::U256;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use support::{OneAccount, events, host, start};
use tenon_javascript::{Event, ScriptInterface, StepFacts};

const COUNT: &str =
    "{count: 0, step: function(log, db) { this.count++; }, fault: function() {}, result: function() {}}";
const CHECK_PERIOD: &str = "{a: {}, step: function(log, db) { var op = log.op.toString(); this.a[op] = (this.a[op] || 0) + log.getCost(); \
    if (op == 'SLOAD') log.stack.peek(0); }, fault: function() {}, result: function() {}}";
const STATE: &str = "{step: function(log, db) { db.getNonce(log.contract.getAddress()); }, fault: function() {}, result: function() {}}";

/// Typical steps: ten values on the stack, one of which changes.
fn steps(count: usize) -> Vec<Event> {
    let step = |index: usize| StepFacts {
        pc: index as u64,
        opcode: 1,
        name: "ADD".to_owned(),
        gas: 1_000_000,
        cost: 3,
        depth: 1,
        kept: if index == 0 { 0 } else { 9 },
        pushed: vec![U256::from(index); if index == 0 { 10 } else { 1 }],
        ..StepFacts::default()
    };
    (0..count).map(|index| Event::Step(step(index))).collect()
}

fn shown(criterion: &mut Criterion) {
    let host = host();
    let call = events().into_iter().next().unwrap();
    let mut group = criterion.benchmark_group("steps");
    for (name, source) in [("count", COUNT), ("look", CHECK_PERIOD), ("state", STATE)] {
        for size in [1, 16, 256, 4096] {
            group.throughput(Throughput::Elements(size as u64));
            let mut script = start(&host, source, ScriptInterface::ETHEREUM, Duration::from_secs(3600)).unwrap();
            script.handle(vec![call.clone()], &mut OneAccount).unwrap();
            let batch = steps(size);
            group.bench_function(BenchmarkId::new(name, size), |bencher| {
                bencher.iter(|| script.handle(batch.clone(), &mut OneAccount).unwrap());
            });
        }
    }
}

fn started(criterion: &mut Criterion) {
    let host = host();
    let source = "{fault: function() {}, result: function() { return bigInt(1); }}";
    criterion.bench_function("process", |bencher| {
        bencher.iter(|| support::result_of(&host, source, ScriptInterface::ETHEREUM).unwrap());
    });
}

criterion_group!(benches, shown, started);
criterion_main!(benches);
