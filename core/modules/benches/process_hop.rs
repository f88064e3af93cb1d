//! What does a call into a plugin in a process of its own cost?
//!
//! Alone: one caller on a worker of the node's runtime waits for every answer. Multiplexed: 64 callers at a time
//! on two workers over the one socket of the plugin. The aims are 60 microseconds and 150,000 calls a second.

#![allow(clippy::expect_used, reason = "a failed setup ends the measurement")]
#![allow(missing_docs, reason = "the macros of criterion write undocumented items")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use support::{TestModules, rust_plugin};
use tenon_host::{Caller, Router};
use tenon_isolation::{Isolation, IsolationOptions};
use tenon_modules::{ModuleOptions, PluginPlan};
use tokio::{runtime::Runtime, task::JoinSet};

const CALLERS: u64 = 64;

fn in_processes(options: &mut ModuleOptions) {
    options.processes = Some(IsolationOptions::of_program::<String>(env!("CARGO_BIN_EXE_tenon-plugin-child"), []));
}

async fn call_repeatedly(router: Router, method: &'static str, params: &'static str, times: u64) {
    let caller = Caller::local();
    for _ in 0..times {
        black_box(router.call_method(method, Some(params), &caller).await.expect("it answers"));
    }
}

/// The time of `times` calls by one caller.
fn alone(runtime: &Runtime, router: &Router, method: &'static str, params: &'static str, times: u64) -> Duration {
    let router = router.clone();
    let measured = runtime.spawn(async move {
        let begun = Instant::now();
        call_repeatedly(router, method, params, times).await;
        begun.elapsed()
    });
    runtime.block_on(measured).expect("it ends")
}

/// The time of `rounds` calls by each of the callers.
fn multiplexed(
    runtime: &Runtime,
    router: &Router,
    method: &'static str,
    params: &'static str,
    rounds: u64,
) -> Duration {
    runtime.block_on(async {
        let begun = Instant::now();
        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            callers.spawn(call_repeatedly(router.clone(), method, params, rounds));
        }
        callers.join_all().await;
        begun.elapsed()
    })
}

fn hops(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let test = TestModules::with_options(in_processes);
    test.answer_version();
    let plans = ["tenon-plugin-net", "tenon-plugin-web3"].map(|name| {
        let mut plan = PluginPlan::new(name, rust_plugin(name));
        plan.isolation = Some(Isolation::Process);
        plan.is_required = true;
        plan
    });
    runtime.block_on(async { test.modules.start(&plans) }).expect("they start");
    let router = test.modules.router();
    let address = "[\"0x00000000000000000000000000000000deadbeef\"]";

    for (name, method, params) in [
        ("without parameters or bus", "net_listening", "[]"),
        ("with a parameter", "web3_sha3", address),
        ("with a bus read", "web3_clientVersion", "[]"),
    ] {
        let mut group = criterion.benchmark_group(format!("process hop {name}"));
        group.bench_function("alone", |bencher| {
            bencher.iter_custom(|times| alone(&runtime, &router, method, params, times));
        });
        group.throughput(Throughput::Elements(CALLERS));
        group.bench_function("64 callers", |bencher| {
            bencher.iter_custom(|rounds| multiplexed(&runtime, &router, method, params, rounds));
        });
        group.finish();
    }
    runtime.block_on(test.modules.shutdown(Duration::from_secs(1)));
}

criterion_group!(benches, hops);
criterion_main!(benches);
