//! Random markets, block by block, compared with the reference: trading roots, balances and slots. For their origin see
//! `tests/data/native/README.md`.

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::Deserialize;
use tenon_api::{EMPTY_ROOT_HASH, WholeBalance};

use super::{
    ledger::Ledger,
    matching::Market,
    memory::{Memory, Nodes},
    order::{Order, are_signed},
    state::TradingState,
};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Scenario {
    seed: u64,
    author: Address,
    registration: Address,
    decimals: BTreeMap<Address, u8>,
    cancel_fee_at: u64,
    balances: Vec<Balance>,
    slots: Vec<Slot>,
    blocks: Vec<Block>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Balance {
    address: Address,
    #[serde(deserialize_with = "decimal")]
    balance: U256,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Slot {
    address: Address,
    slot: B256,
    value: B256,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Block {
    number: u64,
    epoch: bool,
    orders: Option<Vec<Bytes>>,
    root: B256,
    balances: Vec<Balance>,
    slots: Option<Vec<Slot>>,
}

fn decimal<'de, D: serde::Deserializer<'de>>(input: D) -> Result<U256, D::Error> {
    let text = String::deserialize(input)?;
    U256::from_str_radix(&text, 10).map_err(serde::de::Error::custom)
}

fn scenarios() -> Vec<Scenario> {
    tenon_test_data::json("native/exchange.json.gz")
}

#[test]
fn random_markets_match_the_reference() {
    let (mut orders, mut rejected) = (0, 0);
    for scenario in scenarios() {
        let nodes = Nodes::default();
        let mut memory = Memory { decimals: scenario.decimals, ..Memory::default() };
        memory.balances.extend(scenario.balances.iter().map(|entry| (entry.address, entry.balance.to())));
        let slots = |slots: &[Slot]| -> Vec<_> {
            slots.iter().map(|slot| ((slot.address, slot.slot.into()), slot.value.into())).collect()
        };
        memory.slots.extend(slots(&scenario.slots));
        let mut expected = memory.slots.clone();
        let mut root = EMPTY_ROOT_HASH;
        for block in scenario.blocks {
            let place = format!("seed {}, block {}", scenario.seed, block.number);
            let mut market = Market {
                trading: TradingState::new(&nodes, root),
                ledger: Ledger::new(&mut memory, scenario.registration, scenario.author),
                has_cancellation_fee: block.number >= scenario.cancel_fee_at,
            };
            if block.epoch {
                market.switch_epoch().unwrap();
            }
            for bytes in block.orders.unwrap_or_default() {
                let order = Order::decode(&bytes).unwrap();
                assert_eq!(order.encode(), bytes, "{place}");
                orders += 1;
                let is_signed = are_signed(std::slice::from_ref(&order))[0];
                rejected += usize::from(market.apply(order, is_signed).unwrap().is_err());
            }
            let update = market.trading.finish().unwrap();
            root = update.root;
            assert!(nodes.apply(update), "{place}: a superseded node is missing");
            for balance in block.balances {
                let found = memory.balances.get(&balance.address).copied().unwrap_or_default();
                assert_eq!(found, WholeBalance::from(balance.balance), "{place}: balance of {}", balance.address);
            }
            expected.extend(slots(&block.slots.unwrap_or_default()));
            for (slot, value) in &expected {
                assert_eq!(memory.slots.get(slot), Some(value), "{place}: {slot:?}");
            }
            assert_eq!(root, block.root, "{place}: trading root");
        }
    }
    assert_eq!((orders > 4_000, rejected > 1_000), (true, true), "{orders} orders, {rejected} rejected");
}
