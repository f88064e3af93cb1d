//! Blocks whose exchange step is not executed: a block that would need the step is refused with an error that names the
//! missing rule; a block in which the step would have no effect passes.

use std::sync::Arc;

use alloy_primitives::{B256, Bytes, U256};
use tenon_api::{Account, EMPTY_ROOT_HASH, NativeSeal, TransactionPayload, TransactionSignature};
use tenon_chain::ChainSpec;
use tenon_memory_chain::FixedState;
use tenon_native_exchange::{EXCHANGE_ROOTS, LENDING, LENDING_FINALIZED, RELAYER_COUNT, TRADING};
use tenon_native_spec::{NativeSettings, read_genesis};

use super::*;
use tenon_execution_block::{BlockExecution, Executor};
use tenon_execution_interface::{BlockOrigin, Interrupt};

const AUTHOR: Address = Address::repeat_byte(0xaa);
const STRANGER: Address = Address::repeat_byte(0xbb);
/// First block at which the exchange is active in these tests.
const FIRST: u64 = 1_000;
/// First block at which it is no longer active.
const END: u64 = 5_000;

fn spec() -> Arc<ChainSpec> {
    let text = r#"{"config":{"chainId":4711,"XDPoS":{"period":2,"epoch":900,"gap":450}},"difficulty":"0x1",
        "gasLimit":"0x47b760","alloc":{}}"#;
    let mut spec = read_genesis(text.as_bytes()).unwrap().spec;
    let native = NativeSettings::of_mut(Arc::make_mut(&mut spec)).unwrap();
    (native.heights.tip_xdcx, native.heights.tip_xdcx_receiver_disable) = (FIRST, END);
    spec
}

/// The verdict on a block of this height, with this many relayers and these transactions: each a receiver, a sender and
/// data.
fn verdict(number: u64, relayers: u64, transactions: &[(Address, Address, &[u8])]) -> Result<usize, String> {
    let spec = spec();
    let header =
        Header { number, gas_limit: 500_000_000, native_seal: Some(NativeSeal::default()), ..Header::default() };
    let executor = Executor::new(crate::family_of(&spec).unwrap());
    let registration = NativeSettings::of(&spec).unwrap().contracts.relayer_registration;
    let slots = [((registration, B256::from(RELAYER_COUNT)), U256::from(relayers))].into();
    let accounts = [AUTHOR, STRANGER, registration].map(|one| (one, Account { nonce: 1, ..Account::default() })).into();
    let state = FixedState { accounts, slots, ..FixedState::default() };
    let state = executor.state_over(Arc::new(state));
    let mut execution =
        BlockExecution::watched(executor.family(), &header, AUTHOR, state, Interrupt::never(), (), BlockOrigin::Header)
            .map_err(|error| error.to_string())?;
    for (to, sender, input) in transactions {
        let transaction = Transaction {
            hash: B256::ZERO,
            chain_id: None,
            nonce: 1,
            gas_limit: 40_000_000,
            to: Some(*to),
            value: U256::ZERO,
            input: Bytes::copy_from_slice(input),
            payload: TransactionPayload::Legacy { gas_price: U256::ZERO },
            signature: TransactionSignature { v: 27, r: U256::ONE, s: U256::ONE },
        };
        execution.run_transaction(&transaction, *sender).map_err(|error| error.to_string())?;
    }
    assert!(execution.receipts().iter().all(|receipt| receipt.gas_used == 0 && receipt.logs.len() == 1));
    Ok(execution.receipts().len())
}

const ORDER: &[u8] = br#"{"Data":[{"Order":"wA=="}],"Timestamp":1,"TxHash":"0x00"}"#;

#[test]
fn a_batch_with_orders_is_refused_by_name_from_any_sender() {
    let cases = [
        (TRADING, "orders of the historic exchange (docs/spec/chain.md 6.4)"),
        (LENDING, "lending on the historic exchange (docs/spec/chain.md 6.5)"),
    ];
    for (to, what) in cases {
        for sender in [AUTHOR, STRANGER] {
            let found = verdict(FIRST, 0, &[(to, sender, ORDER)]).unwrap_err();
            assert!(found.contains(what), "{found}");
        }
        let other_spellings: [&[u8]; 4] = [
            br#"{"dATA":[1]}"#,
            br#" {"Data":{"Order":"wA=="}}"#,
            br#"{"Data":[],"data":[{}]}"#,
            br#"{"Data":[{"Order":"wA=="}"#,
        ];
        for batch in other_spellings {
            assert!(verdict(FIRST, 0, &[(to, STRANGER, batch)]).is_err(), "{}", String::from_utf8_lossy(batch));
        }
    }
}

#[test]
fn undecodable_and_empty_batches_have_no_effect() {
    let batches: [&[u8]; 7] = [
        b"",
        b"\x00\x01",
        b"[]",
        b"\"Data\"",
        br#"{"Data":[],"Timestamp":1}"#,
        br#"{"data":null}"#,
        br#"{"Orders":[1]}"#,
    ];
    for batch in batches {
        for to in [TRADING, LENDING] {
            assert_eq!(verdict(FIRST, 0, &[(to, STRANGER, batch)]), Ok(1), "{}", String::from_utf8_lossy(batch));
        }
    }
    assert_eq!(verdict(FIRST, 0, &[(LENDING_FINALIZED, AUTHOR, br#"{"Liquidated":["0x01"]}"#)]), Ok(1));
}

#[test]
fn only_the_authors_roots_count_and_must_be_empty() {
    let (empty, other) = (EMPTY_ROOT_HASH.to_vec(), vec![7; 32]);
    for passed in [vec![], vec![1; 31], empty.clone(), [empty.clone(), empty.clone()].concat()] {
        assert_eq!(verdict(FIRST, 0, &[(EXCHANGE_ROOTS, AUTHOR, &passed)]), Ok(1));
    }
    for refused in [other.clone(), [empty.clone(), other.clone()].concat(), [other, empty].concat()] {
        let found = verdict(FIRST, 0, &[(EXCHANGE_ROOTS, AUTHOR, &refused)]).unwrap_err();
        assert!(
            found.contains("a state of the historic exchange that is not empty (docs/spec/chain.md 6.3)"),
            "{found}"
        );
        assert_eq!(verdict(FIRST, 0, &[(EXCHANGE_ROOTS, STRANGER, &refused)]), Ok(1));
    }
}

#[test]
fn an_epoch_that_would_record_prices_is_refused_by_name() {
    let text = "the prices of the historic exchange at the end of an epoch (docs/spec/chain.md 6.1)";
    let found = verdict(1_800, 1, &[]).unwrap_err();
    assert!(found.contains(text), "{found}");
    for (number, relayers) in [(1_800, 0), (1_801, 1), (END, 1), (900, 1)] {
        assert_eq!(verdict(number, relayers, &[]), Ok(0), "block {number} with {relayers} relayers");
    }
}

#[test]
fn the_exchange_has_no_effect_at_heights_at_which_it_is_not_active() {
    // The transactions are ordinary ones there, and use gas.
    let spec = spec();
    let native = NativeSettings::of(&spec).unwrap();
    let transaction = |to| Transaction {
        hash: B256::ZERO,
        chain_id: None,
        nonce: 0,
        gas_limit: 21_000,
        to: Some(to),
        value: U256::ZERO,
        input: Bytes::from_static(ORDER),
        payload: TransactionPayload::Legacy { gas_price: U256::ZERO },
        signature: TransactionSignature { v: 27, r: U256::ONE, s: U256::ONE },
    };
    for (number, is_judged) in [(FIRST - 1, false), (FIRST, true), (END - 1, true), (END, false)] {
        let verdict = check_transaction(native, number, AUTHOR, &transaction(TRADING), STRANGER);
        assert_eq!(verdict.is_err(), is_judged, "block {number}");
    }
}
