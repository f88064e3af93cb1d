//! Numbers that depend on the fork schedule: fees, blob gas, intrinsic gas.

use alloy_primitives::{Address, B256, Bytes, U256, b256};
use tenon_api::{AccessListItem, Header, SignedAuthorization, Transaction, TransactionPayload, TransactionSignature};
use tenon_chain::spec::{INITIAL_BASE_FEE, fake_exponential};
use tenon_chain::{
    Activation, BlobParameters, ChainSpec, EMPTY_REQUESTS_HASH, Fork, floor_data_gas, intrinsic_gas, requests_hash,
};

fn parent(gas_used: u64, gas_limit: u64, base_fee: Option<u64>) -> Header {
    Header { number: 9, gas_used, gas_limit, base_fee_per_gas: base_fee, ..Header::default() }
}

#[test]
fn the_base_fee_follows_the_gas_of_the_parent() {
    let spec = ChainSpec::ethereum(1, [(Fork::London, Activation::Block(5))]);
    // Base fee, gas limit, gas used, wanted: the values that clients share for EIP-1559.
    let cases = [
        (1_000_000_000, 20_000_000, 10_000_000, 1_000_000_000),
        (1_000_000_000, 20_000_000, 9_000_000, 987_500_000),
        (1_000_000_000, 20_000_000, 11_000_000, 1_012_500_000),
        (7, 20_000_000, 20_000_000, 8),
        (7, 20_000_000, 0, 7),
        (u64::MAX, 20_000_000, 20_000_000, u64::MAX),
        (5, 0, 0, 5),
    ];
    for (base_fee, limit, used, wanted) in cases {
        assert_eq!(spec.next_base_fee(&parent(used, limit, Some(base_fee))), Some(wanted), "{base_fee} {limit} {used}");
    }
}

#[test]
fn the_base_fee_begins_with_london_and_the_gas_limit_may_double_there() {
    let spec = ChainSpec::ethereum(1, [(Fork::London, Activation::Block(10))]);
    let before = Header { number: 8, ..parent(0, 100, None) };
    let last = parent(0, 100, None);
    let first = Header { number: 10, ..parent(50, 100, Some(INITIAL_BASE_FEE)) };

    assert_eq!((spec.next_base_fee(&before), spec.gas_limit_baseline(&before)), (None, 100));
    assert_eq!((spec.next_base_fee(&last), spec.gas_limit_baseline(&last)), (Some(INITIAL_BASE_FEE), 200));
    assert_eq!((spec.next_base_fee(&first), spec.gas_limit_baseline(&first)), (Some(INITIAL_BASE_FEE), 100));
}

#[test]
fn the_approximated_exponential_has_the_shared_values() {
    let cases: [(u64, u64, u64, u64); 10] = [
        (1, 0, 1, 1),
        (38_493, 0, 1000, 38_493),
        (0, 1234, 2345, 0),
        (1, 2, 1, 6),
        (1, 4, 2, 6),
        (1, 3, 1, 16),
        (1, 6, 2, 18),
        (1, 8, 2, 50),
        (10, 8, 2, 542),
        (1, 50_000_000, 2_225_652, 5_709_098_764),
    ];
    for (factor, numerator, denominator, wanted) in cases {
        let found = fake_exponential(U256::from(factor), U256::from(numerator), U256::from(denominator));
        assert_eq!(found, U256::from(wanted), "{factor} {numerator} {denominator}");
    }
    assert_eq!(fake_exponential(U256::from(1), U256::from(u64::MAX), U256::from(3_338_477)), U256::MAX);
    assert_eq!(fake_exponential(U256::from(1), U256::from(1), U256::ZERO), U256::ZERO);
}

#[test]
fn excess_blob_gas_follows_the_target_and_from_osaka_on_the_reserve_price() {
    const BLOB: u64 = 131_072;
    let spec = ChainSpec::ethereum_at(1, Fork::Cancun);
    let with = |excess, used, base_fee| Header {
        excess_blob_gas: Some(excess),
        blob_gas_used: Some(used),
        base_fee_per_gas: Some(base_fee),
        ..Header::default()
    };
    assert_eq!(spec.next_excess_blob_gas(&with(0, 3 * BLOB, 7), 0), Some(0));
    assert_eq!(spec.next_excess_blob_gas(&with(0, 4 * BLOB, 7), 0), Some(BLOB));
    assert_eq!(spec.next_excess_blob_gas(&with(BLOB, BLOB, 7), 0), Some(0));
    assert_eq!(spec.next_excess_blob_gas(&Header::default(), 0), Some(0), "the first block with blobs");
    assert_eq!(ChainSpec::ethereum_at(1, Fork::Shanghai).next_excess_blob_gas(&Header::default(), 0), None);

    let osaka = ChainSpec::ethereum_at(1, Fork::Osaka);
    // Blob gas costs 1 wei; with a base fee above 16 wei execution dominates the blob's cost: used * (9 - 6) / 9 is
    // added.
    assert_eq!(osaka.next_excess_blob_gas(&with(6 * BLOB, 3 * BLOB, 16), 0), Some(3 * BLOB));
    assert_eq!(osaka.next_excess_blob_gas(&with(6 * BLOB, 3 * BLOB, 17), 0), Some(7 * BLOB));
}

#[test]
fn blob_parameters_change_with_time_and_keep_the_last_ones() {
    let later = BlobParameters { target: 10, max: 15, update_fraction: 8_346_193 };
    let spec = ChainSpec::ethereum(
        1,
        [
            (Fork::London, Activation::Block(0)),
            (Fork::Cancun, Activation::Time(100)),
            (Fork::Prague, Activation::Time(200)),
            (Fork::Osaka, Activation::Time(300)),
            (Fork::Bpo1, Activation::Time(400)),
            (Fork::Bpo2, Activation::Time(500)),
        ],
    )
    .with_blob_schedule([(Fork::Bpo1, later)]);
    let target = |timestamp| spec.blob_parameters(timestamp).map(|parameters| parameters.target);

    assert_eq!([99, 100, 200, 399, 400, 500].map(target), [None, Some(3), Some(6), Some(6), Some(10), Some(10)]);
    assert_eq!(later.max_gas(), 15 * 131_072);
}

fn transaction(payload: TransactionPayload, to: Option<Address>, input: &[u8]) -> Transaction {
    Transaction {
        hash: B256::ZERO,
        chain_id: Some(1),
        nonce: 0,
        gas_limit: 0,
        to,
        value: U256::ZERO,
        input: Bytes::copy_from_slice(input),
        payload,
        signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
    }
}

#[test]
fn gas_before_execution_follows_the_fork() {
    let legacy = || TransactionPayload::Legacy { gas_price: U256::ZERO };
    let access_list = vec![AccessListItem { address: Address::ZERO, storage_keys: vec![B256::ZERO; 3] }];
    let authorization = SignedAuthorization {
        chain_id: U256::ZERO,
        address: Address::ZERO,
        nonce: 0,
        y_parity: 0,
        r: U256::ZERO,
        s: U256::ZERO,
    };
    let set_code = TransactionPayload::SetCode {
        max_fee_per_gas: U256::ZERO,
        max_priority_fee_per_gas: U256::ZERO,
        access_list: access_list.clone(),
        authorization_list: vec![authorization; 2],
    };
    let listed = TransactionPayload::AccessList { gas_price: U256::ZERO, access_list };
    let call = Some(Address::ZERO);
    let code = [1; 33];
    let cases = [
        (transaction(legacy(), call, &[0, 0, 1]), Fork::Frontier, 21_000 + 8 + 68),
        (transaction(legacy(), call, &[0, 0, 1]), Fork::Istanbul, 21_000 + 8 + 16),
        (transaction(legacy(), None, &code), Fork::Frontier, 21_000 + 33 * 68),
        (transaction(legacy(), None, &code), Fork::Homestead, 53_000 + 33 * 68),
        (transaction(legacy(), None, &code), Fork::Shanghai, 53_000 + 33 * 16 + 4),
        (transaction(listed, call, &[]), Fork::Berlin, 21_000 + 2_400 + 3 * 1_900),
        (transaction(set_code, call, &[]), Fork::Prague, 21_000 + 2_400 + 3 * 1_900 + 50_000),
    ];
    for (transaction, fork, wanted) in cases {
        assert_eq!(intrinsic_gas(&transaction, fork), wanted, "{fork}");
    }
    let data = transaction(legacy(), call, &[0, 0, 1]);
    assert_eq!(floor_data_gas(&data, Fork::Cancun), 0);
    assert_eq!(floor_data_gas(&data, Fork::Prague), 21_000 + 60);
}

#[test]
fn requests_without_data_do_not_change_the_hash() {
    assert_eq!(requests_hash(Vec::<Vec<u8>>::new()), EMPTY_REQUESTS_HASH);
    assert_eq!(requests_hash([vec![0], vec![1], vec![2]]), EMPTY_REQUESTS_HASH);
    // SHA-256 of the SHA-256 of 0x01aa, computed with another program.
    assert_eq!(
        requests_hash([vec![0], vec![1, 0xaa]]),
        b256!("5718d61e4ad0bf7361f89a3d32dd9b29967017c96043bed3e6f7f0a29912f49e")
    );
}

#[test]
fn a_merged_chain_derives_its_forks_from_the_difficulty() {
    let spec = ChainSpec::ethereum(
        1,
        [
            (Fork::London, Activation::Block(0)),
            (Fork::GrayGlacier, Activation::Block(0)),
            (Fork::Paris, Activation::TotalDifficulty(U256::from(1000))),
            (Fork::Shanghai, Activation::Time(500)),
        ],
    );
    let with = |difficulty: u64, timestamp| Header {
        number: 7,
        difficulty: U256::from(difficulty),
        timestamp,
        ..Header::default()
    };

    assert_eq!(spec.fork_of(&with(131_072, 10)), Fork::GrayGlacier);
    assert_eq!(spec.fork_of(&with(0, 10)), Fork::Paris);
    assert_eq!(spec.fork_of(&with(0, 500)), Fork::Shanghai);
    assert_eq!(spec.terminal_total_difficulty(), Some(U256::from(1000)));
}

#[test]
fn a_chain_merged_from_genesis_has_earlier_rules_only_at_nonzero_difficulty() {
    let spec = ChainSpec::ethereum_at(1, Fork::Paris);

    assert_eq!(spec.fork_at(0, 0), Fork::Paris);
    assert_eq!(spec.fork_of(&Header { difficulty: U256::from(1), ..Header::default() }), Fork::GrayGlacier);
    assert_eq!(Fork::from_name("Merge"), Some(Fork::Paris));
    assert!(Fork::ALL.iter().all(|fork| Fork::from_name(fork.name()) == Some(*fork)));
}
