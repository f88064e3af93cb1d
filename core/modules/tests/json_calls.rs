//! Calls by plugins of methods of other namespaces, in this process and from processes of their own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure fails the test")]

mod support;

use support::{TestModules, c_plugin, cpp_plugin, rust_plugin, text};
use tenon_api::{
    Account, B256, BlockNumber, Capability, U256,
    messages::{ChainInfo, GetAccount, GetChainInfo, GetHeadNumber, Profile},
};
use tenon_bus::CallContext;
use tenon_host::{Caller, Exposure};
use tenon_isolation::{Isolation, IsolationOptions};
use tenon_modules::PluginPlan;
use tenon_sdk::{Failure, FailureCode};

const BOTH: [Isolation; 2] = [Isolation::InProcess, Isolation::Process];

/// A host with `web3` and the plugin that calls, with these grants.
fn host(isolation: Isolation, grants: &[Capability]) -> TestModules {
    let test = host_with_processes();
    test.answer_version();
    let library = c_plugin(test.folder.path(), "tests/plugins/caller.c", &[]);
    let caller = PluginPlan {
        isolation: Some(isolation),
        capabilities: Some(grants.to_vec()),
        ..PluginPlan::new("caller", library)
    };
    let modules = test.modules.start(&[PluginPlan::new("web3", rust_plugin("tenon-plugin-web3")), caller]).unwrap();
    assert!(modules.iter().all(|module| module.reason.is_none()), "{modules:?}");
    test
}

async fn ask(test: &TestModules, method: &str, params: &str) -> String {
    // The exposure of the client's endpoint does not limit what plugins may call.
    let caller = Caller::new(Exposure::of(["caller"]), CallContext::new());
    let answer = test.modules.router().call_method(method, Some(params), &caller).await;
    answer.map_or_else(|failure| format!("{}: {}", failure.code.0, failure.message), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_calls_methods_of_other_namespaces() {
    for isolation in BOTH {
        let test = host(isolation, &[Capability::ReadNode]);

        assert_eq!(ask(&test, "caller_version", "[]").await, "\"Tenon/test\"", "{isolation:?}");
        assert_eq!(ask(&test, "caller_ownVersion", "[]").await, "\"Tenon/test\"", "{isolation:?}");
        let hash = "\"0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470\"";
        assert_eq!(ask(&test, "caller_hash", "[\"0x\"]").await, hash, "{isolation:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_called_method_has_only_the_capabilities_of_its_caller() {
    for isolation in BOTH {
        let test = host(isolation, &[]);
        let refused = "-32000: the calling plugin was not granted ReadNode, which GetClientVersion needs";

        for method in ["caller_version", "caller_ownVersion"] {
            assert_eq!(ask(&test, method, "[]").await, refused, "{method}, {isolation:?}");
        }
        // A method that sends no request to the node needs no grant.
        assert!(ask(&test, "caller_hash", "[\"0x\"]").await.starts_with("\"0xc5d2"), "{isolation:?}");
        // A client's direct call is not limited by the plugin's grants.
        let version = test.modules.router().call_method("web3_clientVersion", None, &Caller::local()).await.unwrap();
        assert_eq!(text(version), "\"Tenon/test\"");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_recursion_and_malformed_calls_are_refused() {
    for isolation in BOTH {
        let test = host(isolation, &[Capability::ReadNode]);
        let cases = [
            ("caller_again", "-32005: method calls of plugins are nested too deeply: at most 4 levels are allowed"),
            ("caller_ownAgain", "-32005: a plugin may have at most 32 concurrent method calls that serve no request"),
            ("caller_cut", "-32602: the parameters are not JSON: EOF while parsing a list at line 1 column 5"),
            ("caller_missing", "-32601: the method eth_noSuchMethod does not exist/is not available"),
            ("caller_binary", "-32602: the parameters are not JSON: invalid utf-8 sequence of 1 bytes from index 0"),
        ];
        for (method, expected) in cases {
            assert_eq!(ask(&test, method, "[]").await, expected, "{isolation:?}");
        }
        let long = format!("[\"0x{}\"]", "00".repeat(3 << 20));
        let refused = ask(&test, "caller_hash", &long).await;
        assert!(refused.starts_with("-32005: ") && refused.contains("5242880"), "{refused}");
        assert_eq!(ask(&test, "caller_version", "[]").await, "\"Tenon/test\"", "it goes on, {isolation:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_plugin_that_is_called_is_counted_there_only() {
    for isolation in BOTH {
        let test = host(isolation, &[]);
        let bad =
            PluginPlan { isolation: Some(isolation), ..PluginPlan::new("bad", rust_plugin("tenon-test-misbehaving")) };
        test.modules.start(&[bad]).unwrap();
        let panics = |name| test.modules.info(name).unwrap().faults.panics;

        let refused = test.modules.router().call_method("caller_panic", None, &Caller::local()).await.unwrap_err();

        assert_eq!(refused, Failure::crashed(FailureCode::CALLEE_CRASHED), "{isolation:?}");
        assert_eq!((panics("bad"), panics("caller")), (1, 0), "{isolation:?}");
    }
}

/// A host whose chain 551 has 16 blocks, and accounts of seven wei.
fn chain(library: std::path::PathBuf, test: TestModules, isolation: Isolation) -> TestModules {
    test.bus.handle_read(|_: GetHeadNumber, _: &CallContext| Ok(BlockNumber(16))).unwrap();
    let info = ChainInfo { chain_id: 551, network_id: 551, genesis_hash: B256::ZERO, profile: Profile::Ethereum };
    let info = std::sync::Arc::new(info);
    test.bus.handle_read(move |_: GetChainInfo, _: &CallContext| Ok(std::sync::Arc::clone(&info))).unwrap();
    let account = Account { balance: U256::from(7), ..Account::default() };
    test.bus.handle_read(move |_: GetAccount, _: &CallContext| Ok(account)).unwrap();
    let eth = PluginPlan::new("eth", rust_plugin("tenon-plugin-eth"));
    let example = PluginPlan {
        isolation: Some(isolation),
        capabilities: Some(vec![Capability::ReadChain]),
        ..PluginPlan::new("example", library)
    };
    let modules = test.modules.start(&[eth, example]).unwrap();
    assert!(modules.iter().all(|module| module.reason.is_none()), "{modules:?}");
    test
}

fn host_with_processes() -> TestModules {
    TestModules::with_options(|options| {
        let program = env!("CARGO_BIN_EXE_tenon-plugin-child");
        options.processes = Some(IsolationOptions::of_program(program, Vec::<String>::new()));
    })
}

async fn answer(test: &TestModules, method: &str, params: &str) -> String {
    let answer = test.modules.router().call_method(method, Some(params), &Caller::local()).await;
    answer.map_or_else(|failure| format!("{}: {}", failure.code.0, failure.message), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_in_c_answers_from_chain_data() {
    for isolation in BOTH {
        let test = host_with_processes();
        let library = c_plugin(test.folder.path(), "plugins/examples/c_hello/c_hello.c", &[]);
        let test = chain(library, test, isolation);

        assert_eq!(answer(&test, "chello_height", "[]").await, "\"0x10\"", "{isolation:?}");
        let params = format!("[\"0x{}\",\"latest\"]", "11".repeat(20));
        assert_eq!(answer(&test, "chello_balance", &params).await, "\"0x7\"", "{isolation:?}");
        let refused = answer(&test, "chello_balance", "[\"0x11\"]").await;
        assert!(refused.starts_with("-32602: "), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_in_cpp_answers_from_chain_data() {
    for isolation in BOTH {
        let test = host_with_processes();
        let Some(library) = cpp_plugin(test.folder.path(), "plugins/examples/cpp_chain/cpp_chain.cpp") else {
            println!("skipped: there is no compiler of C++");
            return;
        };
        let test = chain(library, test, isolation);

        let state = answer(&test, "cppchain_state", "[]").await;
        assert_eq!(state, r#"{"chainId":"0x227","height":"0x10"}"#, "{isolation:?}");
    }
}
