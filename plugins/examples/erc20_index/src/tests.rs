//! The index on a chain in memory, compared with a plain scan.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tenon_sdk::{
    FailureCode,
    api::SpaceLimits,
    testing::{Chain, Started, TestBlock},
};

use super::*;

const TOKEN: Address = Address::repeat_byte(0x70);
const OTHER: Address = Address::repeat_byte(0x71);
const ZERO: Address = Address::ZERO;

fn holder(number: u64) -> Address {
    Address::with_last_byte(u8::try_from(number + 1).unwrap())
}

fn settings(tokens: &[Address], from: u64) -> String {
    json!({ "tokens": tokens, "from": from }).to_string()
}

fn transfer(block: TestBlock, token: Address, from: Address, to: Address, value: u64) -> TestBlock {
    let data = U256::from(value).to_be_bytes::<32>();
    block.log(token, &[transfer::topic(), from.into_word(), to.into_word()], &data)
}

fn start(chain: &Chain) -> Started<Erc20Index> {
    chain.start(&settings(&[TOKEN, OTHER], 0)).unwrap()
}

fn ask(index: &Started<Erc20Index>, method: &str, params: &Value) -> Value {
    let answer = index.call_method(method, &params.to_string()).unwrap();
    serde_json::from_str(&answer).unwrap()
}

fn balance(index: &Started<Erc20Index>, account: Address) -> Value {
    ask(index, "token_balanceOf", &json!([TOKEN, account]))
}

/// All entries of a list, in pages of this size.
fn all(index: &Started<Erc20Index>, method: &str, holder: Option<Address>, limit: u64) -> Vec<Value> {
    let (mut entries, mut after) = (Vec::new(), Value::Null);
    loop {
        let mut page = json!({ "limit": limit, "after": after });
        if let Some(holder) = holder {
            page["holder"] = json!(holder);
        }
        let found = ask(index, method, &json!([TOKEN, page]));
        let part = found["entries"].as_array().unwrap();
        assert!(part.len() as u64 <= limit);
        entries.extend(part.clone());
        after = found["next"].clone();
        if after.is_null() {
            return entries;
        }
    }
}

/// Compares the whole index with a new count of all logs of the chain.
fn assert_matches_plain_scan(chain: &Chain, index: &Started<Erc20Index>) {
    let head = chain.head();
    let filter = LogFilter { addresses: vec![TOKEN], topics: vec![vec![transfer::topic()]] };
    let logs_of = |number| chain.run(chain.host().logs(number, number, filter.clone())).unwrap();
    let logs = (0..=head.number).flat_map(logs_of);
    let transfers: Vec<_> = logs.filter_map(|log| transfer::Transfer::of_log(&log)).collect();
    let mut balances: BTreeMap<Address, U256> = BTreeMap::new();
    for transfer in &transfers {
        for (account, sign) in [(transfer.from, false), (transfer.to, true)] {
            let balance = balances.entry(account).or_default();
            let value = transfer.value;
            *balance = if sign { balance.wrapping_add(value) } else { balance.wrapping_sub(value) };
        }
    }
    balances.retain(|account, balance| !account.is_zero() && !balance.is_zero());
    let mut ranking: Vec<_> = balances.iter().map(|(account, balance)| (*balance, *account)).collect();
    ranking.sort_by(|left, right| right.0.cmp(&left.0).then(left.1.cmp(&right.1)));

    let status = ask(index, "token_status", &json!([]));
    assert_eq!(status["indexed"]["hash"], json!(head.hash()), "{status}");
    assert_eq!(status["isCaughtUp"], true);
    assert_eq!(status["tokens"][0]["holders"], balances.len());
    assert_eq!(status["tokens"][0]["transfers"], transfers.len());
    let holders = all(index, "token_holders", None, 2);
    let expected: Vec<_> =
        ranking.iter().map(|(balance, account)| json!({ "address": account, "balance": balance })).collect();
    assert_eq!(holders, expected);
    let positions = |entries: &[Value]| -> Vec<(Value, Value)> {
        entries.iter().map(|entry| (entry["blockNumber"].clone(), entry["logIndex"].clone())).collect()
    };
    let mut newest_first: Vec<_> = transfers.clone();
    newest_first.reverse();
    let position = |transfer: &transfer::Transfer| {
        (json!(Quantity(transfer.position.block)), json!(Quantity(transfer.position.log)))
    };
    let expected: Vec<_> = newest_first.iter().map(position).collect();
    assert_eq!(positions(&all(index, "token_transfers", None, 3)), expected);
    for account in (0..4).map(holder) {
        let of_holder = newest_first.iter().filter(|transfer| transfer.from == account || transfer.to == account);
        let expected: Vec<_> = of_holder.map(position).collect();
        assert_eq!(positions(&all(index, "token_transfers", Some(account), 2)), expected, "of {account}");
    }
}

#[test]
fn it_catches_up_and_then_follows() {
    let chain = Chain::new();
    chain.add(transfer(TestBlock::new(), TOKEN, ZERO, holder(0), 100));
    chain.add(transfer(TestBlock::new(), TOKEN, holder(0), holder(1), 30));
    let index = start(&chain);
    assert_matches_plain_scan(&chain, &index);

    chain.add(transfer(transfer(TestBlock::new(), TOKEN, holder(1), holder(2), 30), OTHER, ZERO, holder(1), 5));

    assert_eq!([0, 1, 2].map(|account| balance(&index, holder(account))), ["0x46", "0x0", "0x1e"]);
    assert_eq!(ask(&index, "token_balanceOf", &json!([OTHER, holder(1)])), "0x5");
    assert_matches_plain_scan(&chain, &index);
}

#[test]
fn a_reorganisation_undoes_removed_transfers_and_notifies_subscribers() {
    let chain = Chain::new();
    chain.add(transfer(TestBlock::new(), TOKEN, ZERO, holder(0), 100));
    let index = start(&chain);
    let mut subscription = index.subscribe("transfers", &json!([TOKEN]).to_string()).unwrap();
    assert_eq!(subscription.items(), [Ok(String::new())]);
    chain.add(transfer(TestBlock::new(), TOKEN, holder(0), holder(1), 60));
    index.settle();

    chain.reorganise(1, vec![transfer(TestBlock::new(), TOKEN, holder(0), holder(2), 1), TestBlock::new()]);

    assert_eq!([0, 1, 2].map(|account| balance(&index, holder(account))), ["0x63", "0x0", "0x1"]);
    assert_matches_plain_scan(&chain, &index);
    let told: Vec<(Value, Value)> = subscription
        .items()
        .into_iter()
        .map(|item| {
            let item: Value = serde_json::from_str(&item.unwrap()).unwrap();
            (item["value"].clone(), item["removed"].clone())
        })
        .collect();
    assert_eq!(told, [(json!("0x3c"), json!(false)), (json!("0x3c"), json!(true)), (json!("0x1"), json!(false))]);
}

#[test]
fn missed_events_and_failing_services_lose_nothing() {
    let chain = Chain::new();
    let index = start(&chain);
    chain.add(transfer(TestBlock::new(), TOKEN, ZERO, holder(0), 1));
    chain.miss(7);
    chain.fail::<GetLogs>(Failure::server("disk on fire"));
    index.settle();
    assert_eq!(index.failures(), [Failure::server("disk on fire")]);
    assert_eq!(ask_problem(&index), json!("disk on fire"));

    chain.add(transfer(TestBlock::new(), TOKEN, ZERO, holder(0), 2));

    assert_matches_plain_scan(&chain, &index);
    assert_eq!(ask_problem(&index), Value::Null);
}

/// Read without running the index's background work.
fn ask_problem(index: &Started<Erc20Index>) -> Value {
    json!(index.plugin().problem().clone())
}

#[test]
fn random_chains_with_reorganisations_crashes_and_replacements_give_the_index_of_a_plain_scan() {
    let seed = std::env::var("TENON_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_261_121_u64);
    println!("TENON_SEED={seed}");
    let mut state = seed;
    // SplitMix64 is good enough for a test.
    let mut below = move |bound: u64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) >> 8) % bound
    };
    let chain = Chain::new().max_logs(6);
    let mut index = start(&chain);
    for round in 0..120 {
        let mut blocks = Vec::new();
        for _ in 0..=below(3) {
            let mut block = TestBlock::new();
            for _ in 0..below(5) {
                let from = if below(3) == 0 { ZERO } else { holder(below(4)) };
                block = transfer(block, TOKEN, from, holder(below(4)), below(50));
            }
            blocks.push(block);
        }
        match below(3) {
            0 => chain.reorganise(chain.head().number.saturating_sub(below(6)), blocks),
            1 => chain.unwind(chain.head().number.saturating_sub(below(3))),
            _ => blocks.into_iter().for_each(|block| {
                chain.add(block);
            }),
        }
        match below(6) {
            0 => index.crash(),
            1 => drop(index.stop()),
            // Two builds at a time, as during a replacement.
            2 => {
                let next = start(&chain);
                index.settle();
                drop(index);
                next.settle();
                index = next;
                continue;
            }
            _ => {
                if round % 4 == 0 {
                    assert_matches_plain_scan(&chain, &index);
                }
                continue;
            }
        }
        index = start(&chain);
    }
    assert_matches_plain_scan(&chain, &index);
}

#[test]
fn other_tokens_start_a_new_index() {
    let chain = Chain::new();
    chain.add(transfer(TestBlock::new(), TOKEN, ZERO, holder(0), 100));
    chain.add(transfer(TestBlock::new(), OTHER, ZERO, holder(0), 7));
    chain.start::<Erc20Index>(&settings(&[TOKEN], 0)).unwrap().stop();

    let other = chain.start::<Erc20Index>(&settings(&[OTHER], 1)).unwrap();

    let refused = other.call_method("token_balanceOf", &json!([TOKEN, holder(0)]).to_string()).unwrap_err();
    assert_eq!(refused.code, FailureCode::INVALID_PARAMS);
    assert!(refused.message.contains("is not indexed; these are:"), "{refused}");
    assert_eq!(ask(&other, "token_balanceOf", &json!([OTHER, holder(0)])), "0x7");
    let of_token: Vec<_> =
        chain.records().into_iter().filter(|(key, _)| key.get(1..21) == Some(TOKEN.as_slice())).collect();
    assert!(of_token.is_empty(), "nothing is left of the other token");
}

#[test]
fn blocks_before_the_first_are_not_indexed_even_if_the_head_moves_below_it() {
    let chain = Chain::new();
    (0..3).for_each(|_| {
        chain.add(transfer(TestBlock::new(), TOKEN, ZERO, holder(0), 1));
    });
    let index = chain.start::<Erc20Index>(&settings(&[TOKEN], 2)).unwrap();
    assert_eq!(balance(&index, holder(0)), "0x1");

    let again = || transfer(TestBlock::new(), TOKEN, ZERO, holder(0), 16);
    chain.reorganise(0, vec![again(), again(), again(), again()]);

    assert_eq!(balance(&index, holder(0)), "0x20");
}

#[test]
fn a_full_space_is_reported_and_the_index_continues_once_there_is_room() {
    let chain = Chain::new().storage_limits(SpaceLimits { records: 8, bytes: 10_000 });
    let index = start(&chain);
    let mint = |to| transfer(TestBlock::new(), TOKEN, ZERO, holder(to), 1);
    (0..3).for_each(|to| {
        chain.add(mint(to));
        index.settle();
    });

    let status = ask(&index, "token_status", &json!([]));
    assert!(index.failures()[0].message.contains("is full"), "{:?}", index.failures());
    assert_eq!((status["isCaughtUp"].clone(), status["indexed"]["number"].clone()), (json!(false), json!("0x1")));

    let chain = chain.storage_limits(SpaceLimits::default());
    index.settle();
    assert_matches_plain_scan(&chain, &index);
}

#[test]
fn invalid_settings_are_refused() {
    let cases = [
        ("{}", "missing field `tokens`"),
        ("{\"tokens\":[]}", "tokens has 0 addresses, expected 1 to 64"),
        ("{\"tokens\":[],\"form\":1}", "unknown field `form`"),
    ];
    for (settings, words) in cases {
        let error = Chain::new().start::<Erc20Index>(settings).err().unwrap();
        assert!(error.message.contains(words), "{settings}: {error}");
    }
}

#[test]
fn logs_other_than_erc20_transfers_are_ignored() {
    let chain = Chain::new();
    let topics = [transfer::topic(), ZERO.into_word(), holder(0).into_word(), B256::ZERO];
    chain.add(TestBlock::new().log(TOKEN, &topics, &[]).log(TOKEN, &topics[..3], &[1]).log(
        TOKEN,
        &topics[..2],
        &[0; 32],
    ));

    let index = start(&chain);

    assert_matches_plain_scan(&chain, &index);
    assert_eq!(ask(&index, "token_status", &json!([]))["tokens"][0]["transfers"], 0);
}
