//! What does a call into a plugin cost?
//!
//! Measures the path of every request behind a front-end: route look-up, the call into the shared library, decoding of JSON
//! parameters, a read over the bus, the result as JSON bytes. The aim is a microsecond.

#![allow(clippy::expect_used, reason = "a failed setup ends the measurement")]
#![allow(missing_docs, reason = "the macros of criterion write undocumented items")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::{hint::black_box, sync::Arc, task::Context};

use criterion::{Criterion, criterion_group, criterion_main};
use support::{TestModules, rust_plugin};
use tenon_api::{
    B256,
    messages::{ChainInfo, GetChainInfo, GetClientVersion, Profile},
};
use tenon_bus::CallContext;
use tenon_host::{Caller, Exposure, Router};

/// Every method here answers on its first poll, so no runtime is measured.
fn call_method(router: &Router, method: &str, params: &str, caller: &Caller) -> usize {
    let mut future = std::pin::pin!(router.call_method(method, Some(params), caller));
    match future.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(Ok(json)) => json.as_ref().len(),
        other => panic!("{method} answers at once: {other:?}"),
    }
}

fn hops(criterion: &mut Criterion) {
    let test = TestModules::new();
    for plugin in ["tenon-plugin-net", "tenon-plugin-web3"] {
        test.modules.load(&rust_plugin(plugin), "").expect("it loads");
    }
    let info = ChainInfo { chain_id: 50, network_id: 50, genesis_hash: B256::ZERO, profile: Profile::Ethereum };
    let info = Arc::new(info);
    test.bus.handle_read(move |_: GetChainInfo, _: &CallContext| Ok(info.clone())).expect("free");
    test.answer_version();
    let router = test.modules.router();
    let (local, listed) = (Caller::local(), Caller::new(Exposure::of(["eth", "net", "web3"]), CallContext::new()));
    let address = "[\"0x00000000000000000000000000000000deadbeef\"]";
    let context = CallContext::new();

    criterion.bench_function("the bus read alone", |bencher| {
        bencher.iter(|| black_box(test.bus.try_read(GetClientVersion, &context)));
    });
    criterion.bench_function("hop without parameters or bus", |bencher| {
        bencher.iter(|| call_method(&router, black_box("net_listening"), "[]", &local));
    });
    criterion.bench_function("hop with a parameter", |bencher| {
        bencher.iter(|| call_method(&router, black_box("web3_sha3"), address, &local));
    });
    criterion.bench_function("hop with a bus read", |bencher| {
        bencher.iter(|| call_method(&router, black_box("net_version"), "[]", &local));
    });
    criterion.bench_function("hop with a bus read, namespaces listed", |bencher| {
        bencher.iter(|| call_method(&router, black_box("net_version"), "[]", &listed));
    });
    // As in a node with the module `metrics`.
    router.time_calls(true);
    criterion.bench_function("hop without parameters or bus, timed", |bencher| {
        bencher.iter(|| call_method(&router, black_box("net_listening"), "[]", &local));
    });
    criterion.bench_function("hop with a bus read, timed", |bencher| {
        bencher.iter(|| call_method(&router, black_box("net_version"), "[]", &local));
    });
}

criterion_group!(benches, hops);
criterion_main!(benches);
