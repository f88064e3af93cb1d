//! Tests of the token test with small contracts.

use std::{collections::HashMap, sync::Arc};

use alloy_primitives::{B256, hex};
use tenon_api::{EMPTY_ROOT_HASH, Header, NativeSeal, TransactionPayload, TransactionSignature};
use tenon_chain::ChainSpec;
use tenon_memory_chain::FixedState;
use tenon_native_exchange::{BookPrices, Wide};
use tenon_native_spec::{NativeSettings, read_genesis};

use super::*;
use crate::{Prices, precompiles::PriceRecords};
use tenon_execution_block::{BlockExecution, Executor};
use tenon_execution_interface::{BlockOrigin, Interrupt};

const TOKEN: Address = Address::repeat_byte(0x70);

/// A token: answers `balanceOf`, `minFee` and `decimals` with the given code, and reverts otherwise.
fn token(balance_of: &str, min_fee: &str, decimals: &str) -> Bytes {
    // The selector on the stack; for each method DUP1 PUSH4 selector EQ PUSH2 target JUMPI; the bodies follow a REVERT.
    let methods = HashMap::from([(BALANCE_OF, balance_of), (MIN_FEE_OF, min_fee), (DECIMALS, decimals)]);
    let head = hex::decode(format!("7c01{}60003504", "00".repeat(28))).unwrap();
    let mut bodies = Vec::new();
    let mut table = Vec::new();
    let first = head.len() + methods.len() * 11 + 4;
    for (selector, body) in &methods {
        let place = u16::try_from(first + bodies.len()).unwrap();
        table.extend([&[0x80, 0x63][..], selector, &[0x14, 0x61], &place.to_be_bytes(), &[0x57]].concat());
        bodies.push(0x5b);
        bodies.extend(hex::decode(body).unwrap());
    }
    // RETURNDATASIZE pushes zero.
    [head, table, hex::decode("3d3dfd00").unwrap(), bodies].concat().into()
}

/// The balance of the address in the first argument, in a mapping at slot 0.
const BALANCE_AT_0: &str = "600435600052600060205260406000205460005260206000f3";
const BALANCE_AT_2: &str = "600435600052600260205260406000205460005260206000f3";
const SLOT_1: &str = "60015460005260206000f3";
const SLOT_3: &str = "60035460005260206000f3";
const EIGHTEEN: &str = "601260005260206000f3";
const THREE_HUNDRED: &str = "61012c60005260206000f3";
const NOTHING: &str = "00";
const HALF_WORD: &str = "60106000f3";
const REVERTS: &str = "60206000fd";

fn spec() -> Arc<ChainSpec> {
    let text = r#"{"config":{"chainId":4711,"homesteadBlock":0,"eip150Block":0,"eip155Block":0,"eip158Block":0,
        "byzantiumBlock":0,"XDPoS":{"period":2,"epoch":900,"gap":450}},"difficulty":"0x1","gasLimit":"0x47b760","alloc":{}}"#;
    let mut spec = read_genesis(text.as_bytes()).unwrap().spec;
    let native = NativeSettings::of_mut(Arc::make_mut(&mut spec)).unwrap();
    (native.heights.tip_xdcx, native.heights.tip_xdcx_receiver_disable) = (100, 200);
    spec
}

fn apply(to: Address) -> Transaction {
    Transaction {
        hash: B256::ZERO,
        chain_id: None,
        nonce: 0,
        gas_limit: 100_000,
        to: Some(to),
        value: U256::ZERO,
        input: [&APPLY_SELECTOR[..], TOKEN.into_word().as_slice()].concat().into(),
        payload: TransactionPayload::Legacy { gas_price: U256::ZERO },
        signature: TransactionSignature { v: 27, r: U256::ONE, s: U256::ONE },
    }
}

/// Block 150, begun over a state of one contract.
fn block_150(spec: &Arc<ChainSpec>, code: Bytes) -> BlockExecution<()> {
    let header =
        Header { number: 150, gas_limit: 500_000, native_seal: Some(NativeSeal::default()), ..Header::default() };
    let executor = Executor::new(crate::family_of(spec).unwrap());
    let state = executor.state_over(Arc::new(FixedState::default().with(TOKEN, 0, U256::ZERO, &code)));
    let origin = BlockOrigin::Header;
    BlockExecution::watched(executor.family(), &header, Address::ZERO, state, Interrupt::never(), (), origin).unwrap()
}

/// The result of the test at block 150, requested through contract `to`.
fn verdict(code: Bytes, to: impl Fn(&NativeSettings) -> Address) -> Result<(), String> {
    let spec = spec();
    let native = NativeSettings::of(&spec).unwrap();
    let mut execution = block_150(&spec, code);
    let candidate = candidate(native, 150, &apply(to(native))).unwrap();

    let verdict = candidate.try_out(&mut AnyEvm::plain(execution.evm_mut()));

    let state = execution.into_state().unwrap();
    assert!(state.changes().is_empty(), "nothing stays");
    verdict.map_err(|error| error.to_string())
}

fn issuer(native: &NativeSettings) -> Address {
    native.contracts.trc21_issuer
}

fn listing(native: &NativeSettings) -> Address {
    native.contracts.xdcx_listing
}

#[test]
fn a_token_is_registered_only_with_the_expected_layout() {
    let name = as_text(TOKEN);
    let empty = "abi: attempting to unmarshal an empty string while arguments are expected";
    let cases: [(&str, &str, Result<(), String>); 7] = [
        (BALANCE_AT_0, SLOT_1, Ok(())),
        (BALANCE_AT_2, SLOT_1, Err(format!("invalid balance slot. Token: {name}"))),
        (BALANCE_AT_0, SLOT_3, Err(format!("invalid minFee slot. Token: {name}"))),
        (NOTHING, SLOT_1, Err(format!("cannot get balance at slot 0 . Token: {name} . Err: {empty}"))),
        (REVERTS, SLOT_1, Err(format!("cannot get balance at slot 0 . Token: {name} . Err: {empty}"))),
        (BALANCE_AT_0, NOTHING, Err(format!("cannot get minFee at slot 1 . Token: {name}. Err: {empty}"))),
        (
            BALANCE_AT_0,
            HALF_WORD,
            Err(format!("cannot get minFee at slot 1 . Token: {name}. Err: abi: improperly formatted output")),
        ),
    ];
    for (balance_of, min_fee, wanted) in cases {
        assert_eq!(verdict(token(balance_of, min_fee, REVERTS), issuer), wanted, "{balance_of} {min_fee}");
    }
}

#[test]
fn a_token_is_listed_for_trading_only_with_decimals() {
    let name = as_text(TOKEN);
    assert_eq!(verdict(token(BALANCE_AT_0, REVERTS, EIGHTEEN), listing), Ok(()));
    for (decimals, problem) in [
        (REVERTS, "abi: attempting to unmarshal an empty string while arguments are expected"),
        (THREE_HUNDRED, "abi: improperly encoded uint8 value"),
    ] {
        let wanted = format!("cannot get token decimal. Token: {name} . Err: {problem}");
        assert_eq!(verdict(token(BALANCE_AT_0, SLOT_1, decimals), listing), Err(wanted));
    }
    assert_eq!(
        verdict(token(BALANCE_AT_2, SLOT_1, EIGHTEEN), listing),
        Err(format!("invalid balance slot. Token: {name}"))
    );
}

#[test]
fn only_plain_applications_in_the_exchanges_time_are_tested() {
    let spec = spec();
    let native = NativeSettings::of(&spec).unwrap();
    let application = apply(native.contracts.trc21_issuer);
    let wanted = Candidate { token: TOKEN, is_for_sponsoring: true };

    for (number, found) in [(99, None), (100, Some(wanted)), (199, Some(wanted)), (200, None)] {
        assert_eq!(candidate(native, number, &application), found, "{number}");
    }
    let other = apply(Address::repeat_byte(3));
    assert_eq!(candidate(native, 150, &other), None);
    let mut longer = application.clone();
    longer.input = [&longer.input[..], &[0]].concat().into();
    assert_eq!(candidate(native, 150, &longer), None);
    let mut another = application;
    another.input = [&[0; 4][..], &another.input[4..]].concat().into();
    assert_eq!(candidate(native, 150, &another), None);
}

/// Calls 0x29 for the price of the pair (0, 0), and returns it.
const LAST_PRICE_OF_NOTHING: &str = "602060006040600060295afa5060206000f3";

#[test]
fn a_tested_token_gets_no_prices() {
    let spec = spec();
    let native = NativeSettings::of(&spec).unwrap();
    let mut execution = block_150(&spec, token(BALANCE_AT_0, REVERTS, LAST_PRICE_OF_NOTHING));
    // 300 does not fit into the 8 bits of decimals: the test would fail if the token got this price.
    let told = BookPrices { last: Wide::from(300_u64), ..BookPrices::default() };
    let prices = Prices::of_books(&[(Address::ZERO, Address::ZERO, told)], EMPTY_ROOT_HASH);
    execution.evm_mut().precompiles.set_records(Some(Arc::new(PriceRecords(prices))));

    let verdict =
        candidate(native, 150, &apply(listing(native))).unwrap().try_out(&mut AnyEvm::plain(execution.evm_mut()));

    assert_eq!(verdict, Ok(()));
    assert!(execution.evm_mut().precompiles.set_records(None).is_some(), "transactions still get the records");
}
