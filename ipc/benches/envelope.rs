//! What does one envelope cost, from the bytes of a request to the bytes of its answer, with a constant method?
//! Excludes the transport, which `examples/constant_server.rs` measures.

mod constant;

use std::hint::black_box;

use constant::{Constant, LIMITS};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use futures_util::FutureExt as _;
use tenon_ipc::{Caller, Dispatcher};

/// The members that a general parser reads from the same request, for comparison.
#[derive(serde::Deserialize)]
struct General<'a> {
    #[serde(borrow)]
    id: Option<&'a serde_json::value::RawValue>,
    method: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a serde_json::value::RawValue>,
}

fn envelope(criterion: &mut Criterion) {
    let dispatcher = Dispatcher::new(Constant, LIMITS);
    let caller = Caller::local();
    let small = r#"{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}"#.to_owned();
    let balance = r#"{"jsonrpc":"2.0","id":42,"method":"eth_getBalance","params":["0x0000000000000000000000000000000000000088","latest"]}"#;
    let raw = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransaction","params":["0x{}"]}}"#,
        "ab".repeat(60_000)
    );
    let batch = format!("[{}]", vec![balance; 100].join(","));
    let mut group = criterion.benchmark_group("envelope");
    for (name, text) in [
        ("eth_blockNumber", &small),
        ("eth_getBalance", &balance.to_owned()),
        ("120 kB transaction", &raw),
        ("batch of 100", &batch),
    ] {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| dispatcher.answer_text(black_box(text.as_bytes()), &caller).now_or_never());
        });
    }
    group.throughput(Throughput::Bytes(small.len() as u64));
    group.bench_function("serde_json parses eth_blockNumber", |bencher| {
        bencher.iter(|| {
            let request: Result<General<'_>, _> = serde_json::from_str(black_box(&small));
            request.map(|request| (request.id.is_some(), request.method.len(), request.params.is_some()))
        });
    });
    group.finish();
}

criterion_group!(benches, envelope);
criterion_main!(benches);
