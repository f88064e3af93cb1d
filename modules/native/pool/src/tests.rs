//! Tests of native chains' rules: error texts, prices, masternodes, tokens.

use std::{collections::HashMap, time::Duration};

use tenon_api::{Account, Bytes, Header, NativeSeal, TransactionPayload};
use tenon_bus::Bus;
use tenon_memory_chain::transactions::{KeysOf, address, sign, signed, transfer};
use tenon_memory_chain::{FixedState, MemoryChain};
use tenon_native_spec::{NativeSettings, read_genesis};
use tenon_txpool::{Pool, PoolOptions};
use tenon_txpool_interface::Source;

use tenon_sdk::error_texts::Refusal as _;

use super::*;

const CHAIN: u64 = 5151;
/// The minimum price from `gas50x` on.
const PRICE: u64 = 12_500_000_000;

/// Rules of this network id; 5151 has every fork at block 0.
fn spec(chain_id: u64) -> Arc<ChainSpec> {
    spec_with(chain_id, "")
}

/// Rules of this network id, with these members in `config`.
fn spec_with(chain_id: u64, members: &str) -> Arc<ChainSpec> {
    let text = format!(
        r#"{{"config":{{"chainId":{chain_id},"homesteadBlock":0,"eip155Block":0,{members}"XDPoS":{{"period":2,"epoch":30,"gap":15,
        "v2":{{"switchBlock":0,"allConfigs":{{"0":{{"maxMasternodes":4,"minePeriod":1,"certificateThreshold":0.667}}}}}}}}}},
        "difficulty":"0x1","gasLimit":"0x1c9c380","alloc":{{}}}}"#
    );
    read_genesis(text.as_bytes()).unwrap().spec
}

/// Ten rich accounts; account 7 is the masternode of an epoch that block 1 opened.
fn chain() -> Arc<MemoryChain> {
    let rich = Account { balance: U256::from(10).pow(U256::from(20)), ..Account::default() };
    let chain = MemoryChain::with_accounts((0..10).map(|index| (address(index), rich)));
    let genesis = tenon_chain::seal(Header {
        gas_limit: 30_000_000,
        base_fee_per_gas: Some(PRICE),
        native_seal: Some(NativeSeal::default()),
        ..Header::default()
    });
    chain.push_header(genesis.clone());
    chain.push_header(tenon_chain::seal(Header {
        number: 1,
        parent_hash: genesis.hash(),
        native_seal: Some(NativeSeal { validators: address(7).to_vec().into(), ..NativeSeal::default() }),
        ..genesis.header().clone()
    }));
    Arc::new(chain)
}

fn policy_of(spec: &Arc<ChainSpec>) -> NativePolicy {
    NativePolicy::new(spec, NativeSettings::of(spec).cloned().unwrap())
}

fn rules_of(chain_id: u64) -> NativePolicy {
    policy_of(&spec(chain_id))
}

fn open(chain: &Arc<MemoryChain>) -> Pool {
    let options = PoolOptions {
        min_tip: U256::ONE,
        price_bump: 10,
        global_slots: 10_240,
        account_slots: 80,
        local_slots: 2_560,
        lifetime: Duration::from_secs(3 * 60 * 60),
        fee_cap: U256::from(1_000_000_000_000_000_000_u64),
        allows_unprotected: true,
        journal: None,
    };
    let policy = Box::new(rules_of(CHAIN));
    Pool::open(spec(CHAIN), policy, Arc::clone(chain) as _, Arc::new(KeysOf(6)), Bus::new(), options).unwrap()
}

fn legacy(nonce: u64, price: u64) -> Transaction {
    Transaction {
        chain_id: Some(CHAIN),
        payload: TransactionPayload::Legacy { gas_price: U256::from(price) },
        ..transfer(nonce, 1, 1)
    }
}

/// A signing transaction as masternodes send it.
fn signing(nonce: u64, price: u64) -> Transaction {
    let input = [&[0xe3, 0x41, 0xea, 0xa4][..], &[1; 64]].concat();
    let to = Some(Address::with_last_byte(0x89));
    Transaction { to, input: input.into(), gas_limit: 200_000, ..legacy(nonce, price) }
}

/// The text that a client receives.
fn text_of(error: PoolError) -> String {
    match error {
        PoolError::Refused(refusal) => refusal.into_failure().message,
        PoolError::Store(error) => error.to_string(),
    }
}

fn answer(pool: &Pool, raw: &[u8], source: Source) -> String {
    pool.submit(raw, source).map_or_else(text_of, |_| "taken".to_owned())
}

#[test]
fn a_block_that_arrives_during_a_nonce_check_does_not_make_the_nonce_too_high() {
    let chain = chain();
    let rules = rules_of(CHAIN);
    // The sender's sixteen transactions move from the pool into a block at this moment.
    let next_nonce = |sender| {
        chain.change_account(sender, |account| account.nonce = 16);
        None
    };

    let transaction = sign(0, legacy(16, PRICE));
    let candidate = Candidate {
        transaction: &transaction,
        size: 120,
        sidecar: Some(None),
        source: Source::Operator,
        min_tip: U256::ONE,
    };
    let view = PoolView { chain: &*chain, senders: &Senders::default(), next_nonce: &next_nonce };
    let outcome = rules.check(&candidate, &view);

    assert!(outcome.is_ok());
}

#[test]
fn refuses_with_the_references_error_texts() {
    let chain = chain();
    chain.change_account(address(1), |account| account.nonce = 5);
    chain.change_account(address(2), |account| account.balance = U256::from(21_000) * U256::from(PRICE) - U256::ONE);
    let with = |edit: fn(&mut Transaction)| {
        let mut transaction = legacy(0, PRICE);
        edit(&mut transaction);
        transaction
    };
    let dynamic = |fee: u64, tip: u64| Transaction { chain_id: Some(CHAIN), ..transfer(0, fee, tip) };
    let cases = [
        (signed(1, legacy(4, PRICE)), "nonce too low"),
        (signed(0, legacy(11, PRICE)), "nonce too high"),
        (signed(1, legacy(16, PRICE)), "nonce too high"),
        (signed(2, legacy(0, PRICE)), "insufficient funds for gas * price + value"),
        (signed(0, with(|tx| tx.gas_limit = 20_999)), "intrinsic gas too low"),
        // The data costs 68 gas for a byte that is not zero and 4 for one that is.
        (signed(0, with(|tx| (tx.input, tx.gas_limit) = (vec![1, 0].into(), 21_071))), "intrinsic gas too low"),
        // 53,000 for a creation, and 2 for one word of code.
        (
            signed(0, with(|tx| (tx.to, tx.input, tx.gas_limit) = (None, vec![0].into(), 53_005))),
            "intrinsic gas too low",
        ),
        (signed(0, with(|tx| tx.gas_limit = 30_000_001)), "exceeds block gas limit"),
        (signed(0, legacy(0, 0)), "zero gas price"),
        (signed(0, legacy(0, PRICE - 1)), "under min gas price"),
        (signed(0, dynamic(PRICE - 1, 1)), "under min gas price"),
        (signed(0, dynamic(PRICE, PRICE + 1)), "max priority fee per gas higher than max fee per gas"),
        (signed(0, with(|tx| tx.chain_id = Some(1))), "invalid sender"),
        (signed(0, with(|tx| (tx.input, tx.gas_limit) = (vec![0; 65_536].into(), 9_000_000))), "oversized data"),
        (
            signed(7, signing(0, PRICE)),
            "don't allow transaction sent to BlockSigners & RandomizeSMC smart contract via API",
        ),
    ];
    let pool = open(&chain);
    for (raw, wanted) in cases {
        assert_eq!(answer(&pool, &raw, Source::Operator), wanted);
    }
    for taken in [
        signed(0, with(|tx| (tx.input, tx.gas_limit) = (vec![1, 0].into(), 21_072))),
        signed(0, legacy(10, PRICE)),
        signed(1, legacy(15, PRICE)),
        signed(3, with(|tx| (tx.to, tx.input, tx.gas_limit) = (None, vec![0].into(), 53_006))),
        signed(4, dynamic(PRICE, 0)),
        signed(5, Transaction { chain_id: None, ..legacy(0, PRICE) }),
    ] {
        assert_eq!(answer(&pool, &taken, Source::Operator), "taken");
    }
    // From others, a price below the base fee is refused before the nonce and the minimum price are checked.
    assert_eq!(answer(&pool, &signed(1, legacy(4, PRICE - 1)), Source::Peer), "transaction underpriced");
    assert_eq!(answer(&pool, &signed(0, legacy(0, PRICE)), Source::Peer), "replacement transaction underpriced");
}

#[test]
fn takes_ten_nonces_above_the_pending_one() {
    let pool = open(&chain());
    assert_eq!(answer(&pool, &signed(0, legacy(11, PRICE)), Source::Operator), "nonce too high");
    assert_eq!(answer(&pool, &signed(0, legacy(0, PRICE)), Source::Operator), "taken");
    assert_eq!(answer(&pool, &signed(0, legacy(11, PRICE)), Source::Operator), "taken");
    assert_eq!((pool.status().pending, pool.status().queued), (1, 1));
}

#[test]
fn checks_the_balance_against_all_pending_transactions_together() {
    let chain = chain();
    let one = U256::from(21_000 * PRICE);
    chain.change_account(address(2), |account| account.balance = one * U256::from(5) / U256::from(2));
    for source in [Source::Operator, Source::Client, Source::Peer] {
        let pool = open(&chain);
        for nonce in 0..2 {
            assert_eq!(answer(&pool, &signed(2, legacy(nonce, PRICE)), source), "taken");
        }
        // The transaction could be paid if it were the only one.
        assert_eq!(answer(&pool, &signed(2, legacy(2, PRICE)), source), "insufficient funds for gas * price + value");
        assert_eq!((pool.status().pending, pool.status().queued), (2, 0));
    }
}

/// `docs/spec/chain.md` 8.1.
#[test]
fn an_account_with_nothing_in_its_low_256_bits_pays() {
    let chain = chain();
    chain.change_account(address(2), |account| (account.balance, account.balance_high) = (U256::ZERO, 1));
    assert_eq!(answer(&open(&chain), &signed(2, legacy(0, PRICE)), Source::Operator), "taken");
}

#[test]
fn a_masternodes_transactions_cost_nothing_and_are_never_replaced() {
    let pool = open(&chain());
    // Other accounts cannot send them for free.
    assert_eq!(answer(&pool, &signed(0, signing(0, 0)), Source::Peer), "transaction underpriced");
    assert_eq!(answer(&pool, &signed(0, signing(0, PRICE)), Source::Peer), "taken");
    assert_eq!(answer(&pool, &signed(7, signing(0, 0)), Source::Peer), "taken");
    assert_eq!(answer(&pool, &signed(7, signing(0, 1)), Source::Peer), "duplicate a special transaction");
    assert_eq!(answer(&pool, &signed(7, legacy(0, 9 * PRICE)), Source::Peer), "replacement transaction underpriced");
    // It replaces an ordinary transaction regardless of that one's price.
    assert_eq!(answer(&pool, &signed(7, legacy(1, 9 * PRICE)), Source::Peer), "taken");
    assert_eq!(answer(&pool, &signed(7, signing(1, 0)), Source::Peer), "taken");

    let best = tenon_api::PendingTransactions::best(&pool, Some(PRICE));

    let from: Vec<_> = best.iter().map(|recovered| (recovered.sender, recovered.transaction.nonce)).collect();
    assert!(from.contains(&(address(7), 0)) && from.contains(&(address(7), 1)), "{from:?}");
    assert_eq!(best.len(), 3);
}

#[test]
fn the_masternodes_are_those_of_the_heads_epoch() {
    let chain = chain();
    for _ in 0..5 {
        advance_empty(&chain, &[]);
    }
    let pool = open(&chain);
    assert_eq!(answer(&pool, &signed(7, signing(0, 0)), Source::Peer), "taken");
    // The next epoch has another masternode.
    advance_empty(&chain, &address(8)[..]);
    assert_eq!(answer(&pool, &signed(7, signing(1, 0)), Source::Peer), "transaction underpriced");
    assert_eq!(answer(&pool, &signed(8, signing(0, 0)), Source::Peer), "taken");
}

/// A child of the head that lists these masternodes.
fn advance_empty(chain: &MemoryChain, validators: &[u8]) {
    let head = chain.head();
    chain.push_header(tenon_chain::seal(Header {
        number: head.header.number + 1,
        parent_hash: head.header.hash(),
        native_seal: Some(NativeSeal { validators: Bytes::copy_from_slice(validators), ..NativeSeal::default() }),
        ..head.header.header().clone()
    }));
}

#[test]
fn refuses_addresses_on_the_denylist() {
    // Every id but 5151 has the list; here its rules begin with block 38,383,838.
    let spec = spec(4243);
    let denied = NativeSettings::of(&spec).unwrap().denylist[0];
    let rules = policy_of(&spec);
    let head = |number| Header { number, gas_limit: 30_000_000, ..Header::default() };
    let to_denied = sign(0, Transaction { to: Some(denied), chain_id: Some(4243), ..legacy(0, PRICE) });
    assert_eq!(rules.check_form(&to_denied, 100, &head(38_383_837), &Senders::default()), Ok(()));

    let refusal = rules.check_form(&to_denied, 100, &head(38_383_838), &Senders::default()).unwrap_err();

    assert_eq!(refusal, NativePoolRefusal::DeniedReceiver(denied));
    let mut settings = NativeSettings::of(&spec).cloned().unwrap();
    settings.denylist = vec![address(0)];
    let rules = NativePolicy { settings, ..rules };
    let from_denied = sign(0, Transaction { chain_id: Some(4243), ..legacy(0, PRICE) });
    let refusal = rules.check_form(&from_denied, 100, &head(40_000_000), &Senders::default()).unwrap_err();
    assert_eq!(refusal, NativePoolRefusal::DeniedSender(address(0)));
}

#[test]
fn types_and_prices_come_with_their_forks() {
    let rules = rules_of(4243);
    let head = |number| Header { number, gas_limit: 30_000_000, ..Header::default() };
    let typed = sign(0, Transaction { chain_id: Some(4243), ..transfer(0, PRICE, 1) });
    assert_eq!(rules.check_form(&typed, 100, &head(98_800_198), &Senders::default()), Err(NativePoolRefusal::Type));
    assert_eq!(rules.check_form(&typed, 100, &head(98_800_199), &Senders::default()), Ok(()));

    let cheap = sign(0, legacy(0, 250_000_000));
    assert_eq!(rules.check_gas(&cheap, &head(80_369_999)), Ok(()));
    assert_eq!(rules.check_gas(&cheap, &head(80_370_000)), Err(NativePoolRefusal::MinGasPrice));
    let cheaper = sign(0, legacy(0, 249_999_999));
    assert_eq!(rules.check_gas(&cheaper, &head(1)), Err(NativePoolRefusal::MinGasPrice));
    // Before there is a base fee, a remote transaction must pay the pool's minimum tip.
    let min_tip = U256::from(7);
    assert_eq!(rules.check_price(&sign(0, legacy(0, 6)), &head(1), min_tip), Err(NativePoolRefusal::Underpriced));
    assert_eq!(rules.check_price(&sign(0, legacy(0, 7)), &head(1), min_tip), Ok(()));
}

/// The rules are those of the block after the head (`docs/spec/upgrades.md` 7.2, 7.4).
#[test]
fn type_4_and_the_floor_come_with_prague() {
    let rules = policy_of(&spec_with(CHAIN, "\"pragueBlock\":10,"));
    let head = |number| Header { number, gas_limit: 30_000_000, ..Header::default() };
    let data = |gas_limit| sign(0, Transaction { input: vec![0; 100].into(), gas_limit, ..legacy(0, PRICE) });
    assert_eq!(rules.check_gas(&data(21_999), &head(8)), Ok(()));
    let refusal = rules.check_gas(&data(21_999), &head(9)).unwrap_err();
    assert_eq!(refusal, NativePoolRefusal::FloorGas { have: 21_999, want: 22_000 });
    assert_eq!(rules.check_gas(&data(22_000), &head(9)), Ok(()));

    let set_code = |authorization_list| {
        let (max_fee_per_gas, max_priority_fee_per_gas) = (U256::from(PRICE), U256::ZERO);
        let payload = TransactionPayload::SetCode {
            max_fee_per_gas,
            max_priority_fee_per_gas,
            access_list: Vec::new(),
            authorization_list,
        };
        sign(0, Transaction { payload, ..legacy(0, PRICE) })
    };
    let one = tenon_api::SignedAuthorization {
        chain_id: U256::from(CHAIN),
        address: address(1),
        nonce: 0,
        y_parity: 0,
        r: U256::ONE,
        s: U256::ONE,
    };
    let form =
        |transaction: &Transaction, number| rules.check_form(transaction, 100, &head(number), &Senders::default());
    let early = NativePoolRefusal::TypeBeforePrague;
    assert_eq!(form(&set_code(vec![one.clone()]), 8), Err(early));
    assert_eq!(form(&set_code(vec![one]), 9), Ok(()));
    assert!(form(&set_code(Vec::new()), 9).is_err());
}

fn slot(number: u64) -> B256 {
    B256::from(U256::from(number))
}

fn entry_slot(address: Address, mapping: u64) -> B256 {
    alloy_primitives::keccak256([address.into_word().0, slot(mapping).0].concat())
}

/// A token with these fee and balance of account 0, registered with this deposit.
fn registered(fee: u64, balance: u64, deposit: U256) -> (FixedState, Address) {
    let (issuer, token) =
        (NativeSettings::of(&spec(CHAIN)).unwrap().contracts.trc21_issuer, Address::repeat_byte(0x77));
    let first = alloy_primitives::keccak256(slot(1));
    let slots = HashMap::from([
        ((issuer, slot(1)), U256::from(1)),
        ((issuer, first), U256::from_be_bytes(token.into_word().0)),
        ((issuer, entry_slot(token, 2)), deposit),
        ((token, slot(1)), U256::from(fee)),
        ((token, entry_slot(address(0), 0)), U256::from(balance)),
    ]);
    (FixedState { slots, ..FixedState::default() }, token)
}

fn call_of(token: Address, selector: [u8; 4], amount: u64, length: usize) -> Transaction {
    let mut input = vec![0; length];
    input[..4].copy_from_slice(&selector);
    input[length - 32..].copy_from_slice(&U256::from(amount).to_be_bytes::<32>());
    Transaction { to: Some(token), input: input.into(), gas_limit: 200_000, ..legacy(0, PRICE) }
}

#[test]
fn a_token_pays_for_its_holders() {
    let whole = U256::from(200_000 * PRICE);
    for (deposit, wanted) in [(whole, U256::ZERO), (whole - U256::from(5), U256::from(5)), (U256::ZERO, whole)] {
        let (state, token) = registered(10, 1000, deposit);
        let rules = rules_of(CHAIN);
        let head = chain().head();
        let call = call_of(token, [0xa9, 0x05, 0x9c, 0xbb], 990, 68);
        let cost_and_priority = rules.cost_and_priority(&call, address(0), false, false, &head, &state).unwrap();
        assert_eq!((cost_and_priority.cost, cost_and_priority.sponsor), (wanted, Some(token)));
        // The sponsored price counts, not the transaction's own.
        let expensive =
            Transaction { payload: TransactionPayload::Legacy { gas_price: U256::from(9 * PRICE) }, ..call };
        assert_eq!(rules.cost_and_priority(&expensive, address(0), false, false, &head, &state).unwrap().cost, wanted);
    }
}

#[test]
fn a_holder_must_have_the_tokens_fee_and_no_more() {
    for (balance, wanted) in [(0, true), (9, false), (10, true)] {
        let (state, token) = registered(10, balance, U256::from(u64::MAX));
        assert_eq!(tokens::can_pay_fee(address(0), token, &state).unwrap(), wanted, "{balance}");
        // A sender without any of the token passes: its call fails and it is charged nothing (3.5).
        assert!(tokens::can_pay_fee(address(1), token, &state).unwrap());
    }
    // The amount transferred is ignored, as is data too short for a selector.
    let (state, token) = registered(10, 10, U256::from(u64::MAX));
    let rules = rules_of(CHAIN);
    let head = chain().head();
    let mut call = call_of(token, [0xa9, 0x05, 0x9c, 0xbb], 5000, 68);
    assert!(rules.cost_and_priority(&call, address(0), false, false, &head, &state).is_ok());
    call.input = vec![1, 2].into();
    assert!(rules.cost_and_priority(&call, address(0), false, false, &head, &state).is_ok());
    let (state, token) = registered(10, 9, U256::from(u64::MAX));
    let call = call_of(token, [0xa9, 0x05, 0x9c, 0xbb], 1, 68);
    let refusal = rules.cost_and_priority(&call, address(0), false, false, &head, &state).unwrap_err();
    assert_eq!(refusal, NativePoolRefusal::Funds.into());
}
