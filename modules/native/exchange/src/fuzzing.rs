//! The decoders of orders and records, and a market, for the fuzz targets (`fuzz/`) only.
#![allow(clippy::expect_used, reason = "a broken rule is reported by a panic, which is what the fuzzer looks for")]

use std::collections::BTreeMap;

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_rlp::Encodable as _;
use tenon_api::EMPTY_ROOT_HASH;
use tenon_chain::{element_slot, mapping_slot};

use super::{
    amounts::{COIN, Wide, list_of, low_word, put_number},
    batch,
    ledger::{
        BASE_TOKENS, DEPOSIT, FEE_RATE, Ledger, NATIVE, OWNER, QUOTE_TOKENS, RELAYER_COINBASES, RELAYER_COUNT,
        holding_slot, record_slot,
    },
    matching::Market,
    memory::{Memory, Nodes},
    order::{Order, Side, are_signed},
    state::{self, TradingState, verify_trading_state},
};

/// The orders in the input of a transaction to the exchange; `None` if it does not have the form written by miners.
pub fn orders_in(input: &[u8]) -> Option<Vec<Bytes>> {
    let orders = batch::orders_in(input).ok()?;
    assert!(orders.is_empty() || batch::may_hold_orders(input), "orders in a batch that cannot contain any");
    Some(orders)
}

/// The RLP of an order decoded from these bytes; `None` if they are not an order. Calls every method that needs no
/// market.
pub fn order(bytes: &[u8]) -> Option<Vec<u8>> {
    let order = Order::decode(bytes).ok()?;
    assert!(!(order.is_new() && order.is_cancellation()));
    assert!(!(order.is_market() && order.is_limit()));
    let _ = (order.side().map(Side::opposite), order.book(), are_signed(std::slice::from_ref(&order)));
    Some(order.encode())
}

/// Decodes a record of the trading state from these bytes and encodes it again: a book (`kind` 0), a price level (1) or
/// an amount (2).
pub fn kept(kind: u8, bytes: &[u8]) -> Option<Vec<u8>> {
    state::fuzzing::again(kind, bytes)
}

const REGISTRATION: Address = Address::repeat_byte(0x99);
const RELAYERS: [Address; 2] = [Address::repeat_byte(0x51), Address::repeat_byte(0x52)];
const OWNERS: [Address; 2] = [Address::repeat_byte(0x61), Address::repeat_byte(0x62)];
const TOKENS: [Address; 2] = [Address::repeat_byte(0xa1), Address::repeat_byte(0xa2)];
/// Pairs listed by every relayer: base and quote.
const PAIRS: [(Address, Address); 4] =
    [(TOKENS[0], NATIVE), (TOKENS[1], NATIVE), (TOKENS[0], TOKENS[1]), (NATIVE, TOKENS[1])];
/// An invalid signature recovers the zero address, so orders of this user need none.
const USER: Address = Address::ZERO;
/// Bytes of a step.
const STEP: usize = 8;

/// Runs a market: six bytes of initial values, then steps of eight bytes, each of which is an order, the end of a block
/// or the end of an epoch. After each block its trading state must be complete and reachable from the root, and no
/// tokens may have been created or lost.
///
/// # Panics
/// If one of these conditions does not hold.
pub fn market(input: &[u8]) {
    let Some((begin, steps)) = input.split_first_chunk::<6>() else { return };
    let (nodes, mut memory) = (Nodes::default(), beginning(begin));
    let held: Vec<Wide> = TOKENS.iter().map(|token| held_of(&memory, *token)).collect();
    let (mut root, mut nonce) = (EMPTY_ROOT_HASH, 0);
    for block in steps.as_chunks::<STEP>().0.chunk_by(|step, _| step[0] >> 5 != 7) {
        let mut market = Market {
            trading: TradingState::new(&nodes, root),
            ledger: Ledger::new(&mut memory, REGISTRATION, Address::repeat_byte(0xaa)),
            has_cancellation_fee: begin[5] & 1 == 1,
        };
        for step in block {
            if *step == [0xff; STEP] {
                market.switch_epoch().expect("lists of one length");
                continue;
            }
            let order = Order::decode(&order_of(step, nonce)).expect("an order");
            nonce += 1;
            // An unsupported order makes its block invalid, so the run ends.
            let [is_signed] = are_signed(std::slice::from_ref(&order))[..] else { return };
            if market.apply(order, is_signed).is_err() {
                return;
            }
        }
        let update = market.trading.finish().expect("a complete state");
        root = update.root;
        assert!(nodes.apply(update), "a superseded node is missing");
        let report = verify_trading_state(&nodes, root, &mut |_| true).expect("a complete state");
        assert_eq!(report.nodes, nodes.count() as u64, "a stored node is not reachable from the root");
        let now: Vec<Wide> = TOKENS.iter().map(|token| held_of(&memory, *token)).collect();
        assert_eq!(now, held, "tokens were created or lost");
    }
}

/// Two relayers with these fee rates, tokens with these decimals, and a user who holds both tokens and coins.
fn beginning(&[first_rate, second_rate, first_decimals, second_decimals, balance_bits, _]: &[u8; 6]) -> Memory {
    let mut memory = Memory::default();
    let mut members = BTreeMap::new();
    for (index, relayer) in RELAYERS.into_iter().enumerate() {
        let rate = if index == 0 { first_rate } else { second_rate };
        // Most rates are a few parts in 10,000; some exceed the whole.
        let rate = U256::from(rate) << if rate > 240 { 8 } else { 0 };
        let slots = [
            (DEPOSIT, low_word(COIN * Wide::from(20_001_u64))),
            (FEE_RATE, rate),
            (BASE_TOKENS, U256::from(PAIRS.len())),
            (QUOTE_TOKENS, U256::from(PAIRS.len())),
            (OWNER, U256::from_be_bytes(OWNERS[index].into_word().0)),
        ];
        members.extend(slots.map(|(member, value)| (record_slot(relayer, member), value)));
        for (position, (base, quote)) in (0..).zip(PAIRS) {
            for (list, token) in [(BASE_TOKENS, base), (QUOTE_TOKENS, quote)] {
                let slot = element_slot(B256::from(record_slot(relayer, list)), position);
                members.insert(slot.into(), token.into_word().into());
            }
        }
        let by_number = mapping_slot(U256::from(index).into(), RELAYER_COINBASES);
        members.insert(by_number.into(), relayer.into_word().into());
    }
    members.insert(RELAYER_COUNT, U256::from(RELAYERS.len()));
    memory.slots.extend(members.into_iter().map(|(slot, value)| ((REGISTRATION, slot), value)));
    memory.decimals.extend(TOKENS.into_iter().zip([first_decimals, second_decimals]));
    let balance = U256::from(1) << u32::from(balance_bits % 192);
    let deposits = low_word(COIN * Wide::from(40_002_u64));
    memory.balances.extend([(USER, balance), (REGISTRATION, deposits)].map(|(account, wei)| (account, wei.to())));
    memory.slots.extend(TOKENS.map(|token| ((token, holding_slot(USER)), balance)));
    memory
}

fn held_of(memory: &Memory, token: Address) -> Wide {
    let held = memory.slots.iter().filter(|((contract, _), _)| *contract == token);
    held.fold(Wide::ZERO, |sum, (_, amount)| sum + Wide::from(*amount))
}

/// The RLP of the order of a step.
fn order_of(&[kind, pair, price, price_shift, quantity, quantity_shift, id, _]: &[u8; STEP], nonce: u64) -> Vec<u8> {
    let bit = |position: u8| kind >> position & 1 == 1;
    let (base, quote) = PAIRS[usize::from(pair) % PAIRS.len()];
    let number = |digits: u8, shift: u8| Wide::from(digits) << usize::from(shift);
    let mut items = Vec::new();
    put_number(number(quantity, quantity_shift), &mut items);
    put_number(number(price, price_shift), &mut items);
    for address in [RELAYERS[usize::from(bit(0))], USER, base, quote] {
        address.encode(&mut items);
    }
    let texts: [&[u8]; 3] = [
        if bit(1) && bit(2) { b"CANCELLED" } else { b"NEW" },
        if bit(3) { b"BUY" } else { b"SELL" },
        if bit(1) && !bit(2) { b"MO" } else { b"LO" },
    ];
    texts.iter().for_each(|text| text.encode(&mut items));
    // The order's own hash, and its transaction's.
    B256::with_last_byte(id).encode(&mut items);
    B256::ZERO.encode(&mut items);
    let mut signature = Vec::new();
    0_u8.encode(&mut signature);
    [B256::ZERO, B256::ZERO].iter().for_each(|part| part.encode(&mut signature));
    items.extend_from_slice(&list_of(&signature));
    Bytes::new().encode(&mut items);
    put_number(Wide::from(nonce), &mut items);
    items.extend_from_slice(&[0xc0, 0xc0]);
    u64::from(id).encode(&mut items);
    Bytes::new().encode(&mut items);
    list_of(&items)
}
