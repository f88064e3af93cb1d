//! Properties that hold for any input. `PROPTEST_RNG_SEED` replays a run.

use std::cell::RefCell;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use alloy_primitives::{Address, U256};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use tenon_device_framing::Message;
use tenon_device_session::{DerivationPath, Exchange, Fees, NoPerson, SignTransaction, Step, Transaction, Version};
use tenon_device_simulator::Model;
use tenon_proto::{encode, ethereum::EthereumTxRequest};

use crate::support::{ACCOUNT, Held, legacy, never, settings};

/// Creates a test runner and prints its seed, so that a failure can be replayed.
fn runner(cases: u32) -> TestRunner {
    let mut config = Config { failure_persistence: None, cases, ..Config::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(RandomState::new().build_hasher().finish());
    }
    if let RngSeed::Fixed(seed) = config.rng_seed {
        println!("PROPTEST_RNG_SEED={seed}");
    }
    TestRunner::new(config)
}

#[test]
fn a_formatted_path_parses_to_itself() {
    runner(500)
        .run(&proptest::collection::vec(any::<u32>(), 1..=16), |elements| {
            let path = DerivationPath::from(elements);
            let written = path.to_string();
            prop_assert_eq!(written.parse::<DerivationPath>(), Ok(path));
            Ok(())
        })
        .unwrap();
}

#[test]
fn parsing_any_text_as_a_path_does_not_panic() {
    runner(2000)
        .run(&"[m0-9a-fxob'/ ]{0,40}", |text| {
            if let Ok(path) = text.parse::<DerivationPath>() {
                prop_assert_eq!(path.to_string().parse::<DerivationPath>(), Ok(path));
            }
            Ok(())
        })
        .unwrap();
}

fn info() -> tenon_device_session::DeviceInfo {
    tenon_device_session::DeviceInfo {
        version: Version(1, 12, 1),
        is_model_one: true,
        label: String::new(),
        device_id: String::new(),
        is_initialized: true,
        has_passphrase_entry: false,
        has_sessions: true,
    }
}

/// For every sequence of requests, a device receives the data once, in order, and nothing else.
#[test]
fn a_device_is_given_the_data_once_and_in_order() {
    runner(200)
        .run(&(0usize..5000, proptest::collection::vec(0u32..1500, 0..20)), |(length, wanted)| {
            let transaction = legacy(Some(50), length);
            let path = DerivationPath::account(0);
            let operation = SignTransaction::new(&info(), path, Address::ZERO, transaction.clone()).unwrap();
            let mut exchange = Exchange::new(operation, false);
            let request: tenon_proto::ethereum::EthereumSignTx =
                tenon_proto::decode(58, &exchange.begin().body).unwrap();
            let mut given = request.data_initial_chunk().to_vec();
            for data_length in wanted {
                let (id, body) = encode(&EthereumTxRequest { data_length: Some(data_length), ..Default::default() });
                let Ok(Step::Send(next, _)) = exchange.message(&Message { id, body }) else { break };
                let chunk: tenon_proto::ethereum::EthereumTxAck = tenon_proto::decode(next.id, &next.body).unwrap();
                prop_assert_eq!(chunk.data_chunk().len(), data_length as usize);
                given.extend_from_slice(chunk.data_chunk());
            }
            prop_assert!(transaction.data.starts_with(&given));
            Ok(())
        })
        .unwrap();
}

/// The simulator has its own encoding of transactions; a signature is accepted only if both compute the same hash.
#[test]
fn both_sides_compute_the_same_hash_of_any_transaction() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for model in [Model::One, Model::TLater] {
        let held = RefCell::new(runtime.block_on(Held::open(settings(model))));
        let numbers = (any::<u64>(), any::<u64>(), any::<u128>(), any::<[u8; 32]>(), 1..=u64::from(u32::MAX));
        let rest = (any::<Option<[u8; 20]>>(), proptest::collection::vec(any::<u8>(), 0..3000), any::<u128>());
        runner(60)
            .run(&(numbers, rest), |((nonce, gas_limit, price, value, chain_id), (to, data, priority))| {
                let fees = if model == Model::One {
                    Fees::Legacy { gas_price: U256::from(price) }
                } else {
                    let (max_fee, max_priority_fee) = (U256::from(price), U256::from(priority));
                    Fees::FeeMarket { max_fee, max_priority_fee, access_list: Vec::new() }
                };
                let transaction = Transaction {
                    chain_id: Some(chain_id),
                    nonce,
                    gas_limit,
                    to: to.map(Address::from),
                    value: U256::from_be_bytes(value),
                    data: data.into(),
                    fees,
                };
                let is_empty_creation = transaction.to.is_none() && transaction.data.is_empty();
                let (mut person, mut never, mut held) = (NoPerson, never(), held.borrow_mut());
                let signing = held.wallet.sign_transaction(ACCOUNT, transaction, &mut person, &mut never);
                let signed = runtime.block_on(signing);
                prop_assert!(signed.is_ok() || is_empty_creation, "{:?}", signed);
                Ok(())
            })
            .unwrap();
    }
}
