//! Compares a call over the bus with a direct function call.
#![allow(missing_docs, clippy::unwrap_used, reason = "a measurement: a failure ends it")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use futures_util::FutureExt;
use tenon_api::{Request, codec, messages::GetSyncStatus};
use tenon_bus::{Bus, CallContext};

fn call(criterion: &mut Criterion) {
    let bus = Bus::new();
    bus.handle_read(|_: GetSyncStatus, _: &CallContext| Ok(black_box(None))).unwrap();
    let context = CallContext::new();
    let frame = codec::encode(&GetSyncStatus).unwrap();

    criterion.bench_function("typed read", |bencher| {
        bencher.iter(|| bus.call(GetSyncStatus, &context).now_or_never().unwrap());
    });
    criterion.bench_function("framed read", |bencher| {
        bencher.iter(|| bus.try_read_frame(GetSyncStatus::TOPIC, 1, &frame, &context).unwrap());
    });
}

criterion_group!(benches, call);
criterion_main!(benches);
