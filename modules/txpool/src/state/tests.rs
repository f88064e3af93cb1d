//! Tests of the pool's contents under random operations, and of replacement, eviction and order by example.

use std::{sync::Arc, time::Duration};

use proptest::prelude::*;
use tenon_api::{Transaction, TransactionPayload};

use super::*;
use crate::fake_chain::transfer;

const LOCAL: bool = true;
const FOREIGN: bool = false;
const PLENTY: U256 = U256::from_limbs([0, 1, 0, 0]);

fn options() -> PoolOptions {
    PoolOptions { global_slots: 12, account_slots: 6, local_slots: 8, ..PoolOptions::for_tests() }
}

fn empty() -> PoolState {
    let head = PoolHead { number: 0, hash: B256::ZERO, gas_limit: 30_000_000, prices: BlockPrices::default() };
    PoolState::new(head)
}

fn account(nonce: u64, balance: U256) -> AccountView {
    AccountView { nonce, balance, is_delegated: false, as_of: 0 }
}

/// Not signed: the state never checks signatures. The hash is derived from all fields that differ.
fn entry(sender: u8, transaction: Transaction, slots: u64, is_local: bool) -> Entry {
    let mut transaction = transaction;
    transaction.input = vec![sender].into();
    transaction.hash = tenon_chain::transaction_hash(&transaction);
    let recovered = RecoveredTransaction { transaction: Arc::new(transaction), sender: Address::repeat_byte(sender) };
    Entry::new(recovered, slots * 32 * 1024, is_local, Instant::now())
}

fn insert(state: &mut PoolState, entry: Entry, account: AccountView) -> Result<Changes, PoolRefusal> {
    let mut changes = Changes::default();
    let outcome = state.insert(entry, account, &options(), &mut changes);
    state.check();
    outcome.map(|_| changes)
}

impl PoolState {
    /// Checks all invariants between two operations.
    fn check(&self) {
        let (mut pending, mut queued, mut slots, mut local, mut entries) = (0, 0, 0, 0, 0);
        for (address, sender) in &self.senders {
            assert!(sender.len() > 0, "an empty sender stays");
            let account = sender.account();
            let mut cost = U256::ZERO;
            for (offset, entry) in sender.pending().enumerate() {
                assert_eq!(entry.nonce(), account.nonce + offset as u64, "a gap in the pending run");
                cost += entry.cost;
            }
            assert!(cost <= account.balance, "pending transactions cost more than the balance");
            assert_eq!(sender.pending().count() as u64, sender.ready());
            if let Some(next) = sender.queued().next() {
                let could_be_pending = next.nonce() == sender.next_nonce() && cost + next.cost <= account.balance;
                assert!(!could_be_pending, "an executable transaction is queued");
            }
            for entry in sender.entries() {
                assert!(entry.nonce() >= account.nonce, "a used nonce stays");
                assert!(entry.cost <= account.balance, "an unaffordable transaction stays");
                assert_eq!(self.by_hash.get(&entry.hash()), Some(&(*address, entry.nonce())));
                let is_pending = entry.nonce() < sender.next_nonce();
                assert_eq!(self.by_price.contains(&price_key(entry, is_pending)), !entry.is_local);
            }
            pending += sender.ready();
            queued += sender.len() - sender.ready();
            slots += sender.entries().map(|entry| entry.slots).sum::<u64>();
            entries += sender.entries().filter(|entry| !entry.is_local).count();
            local += sender.entries().filter(|entry| entry.is_local).map(|entry| entry.slots).sum::<u64>();
        }
        assert_eq!((self.pending, self.queued, self.slots, self.local_slots), (pending, queued, slots, local));
        assert!(local <= options().local_slots, "local transactions exceed their share");
        assert_eq!(self.by_hash.len() as u64, pending + queued);
        assert_eq!(self.by_price.len(), entries);
        assert!(self.slots <= options().global_slots, "the pool exceeds its limit");
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Insert { sender: u8, nonce: u64, fee: u64, tip: u64, value: u64, slots: u64, is_local: bool },
    Account { sender: u8, nonce: u64, balance: u64 },
    GasLimit(u64),
    Expire,
    Reprice(u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    let insertion = (0..4_u8, 0..8_u64, 1..40_u64, 1..40_u64, 0..900_000_u64, 1..3_u64, any::<bool>()).prop_map(
        |(sender, nonce, fee, tip, value, slots, is_local)| Operation::Insert {
            sender,
            nonce,
            fee: fee.max(tip),
            tip,
            value,
            slots,
            is_local,
        },
    );
    let account = (0..4_u8, 0..6_u64, 0..4_000_000_u64).prop_map(|(sender, nonce, balance)| Operation::Account {
        sender,
        nonce,
        balance,
    });
    prop_oneof![
        12 => insertion,
        3 => account,
        1 => (20_000..40_000_u64).prop_map(Operation::GasLimit),
        1 => Just(Operation::Expire),
        1 => (0..40_u64).prop_map(Operation::Reprice),
    ]
}

proptest! {
    #[test]
    fn random_operations_keep_all_invariants(
        operations in proptest::collection::vec(operation(), 1..120),
    ) {
        let mut state = empty();
        let mut accounts = [account(0, U256::from(3_000_000)); 4];
        let mut number = 0;
        for operation in operations {
            let mut changes = Changes::default();
            let now = Instant::now();
            match operation {
                Operation::Insert { sender, nonce, fee, tip, value, slots, is_local } => {
                    let mut transaction = transfer(nonce, fee, tip);
                    transaction.value = U256::from(value);
                    let entry = entry(sender, transaction, slots, is_local);
                    let hash = entry.hash();
                    let known = state.contains(hash);
                    let account = accounts[usize::from(sender)];
                    match state.insert(entry, account, &options(), &mut changes) {
                        Ok(counts_as_local) => {
                            prop_assert!(state.contains(hash) && !known && (is_local || !counts_as_local));
                        }
                        Err(_) => prop_assert_eq!(state.contains(hash), known),
                    }
                }
                Operation::Account { sender, nonce, balance } => {
                    number += 1;
                    let view = AccountView { as_of: number, ..account(nonce, U256::from(balance)) };
                    accounts[usize::from(sender)] = view;
                    let head = PoolHead { number, ..state.head() };
                    state.resync(head, &[(Address::repeat_byte(sender), view)], now, &mut changes);
                }
                Operation::GasLimit(gas_limit) => {
                    state.resync(PoolHead { gas_limit, ..state.head() }, &[], now, &mut changes);
                }
                Operation::Expire => state.expire(Duration::ZERO, now, &mut changes),
                Operation::Reprice(base_fee) => {
                    let prices = BlockPrices { base_fee: U256::from(base_fee), ..BlockPrices::default() };
                    state.resync(PoolHead { prices, ..state.head() }, &[], now, &mut changes);
                }
            }
            state.check();
            for recovered in &changes.became_pending {
                // A later step of the same operation may have removed it again, but it was inserted once.
                prop_assert!(recovered.transaction.nonce < 8);
            }
            let best = state.best(U256::ZERO).transactions;
            prop_assert!(best.len() as u64 <= state.status().pending);
            let mut next: HashMap<Address, u64> = HashMap::new();
            for recovered in &best {
                let start = state.senders[&recovered.sender].account().nonce;
                let wanted = next.entry(recovered.sender).or_insert(start);
                prop_assert_eq!(recovered.transaction.nonce, *wanted);
                *wanted += 1;
            }
        }

        let (by_hash, by_price, status) = (state.by_hash.clone(), state.by_price.clone(), state.status());
        let mut changes = Changes::default();
        state.by_hash.clear();
        state.by_price.pop_first();
        (state.slots, state.pending) = (0, 99);
        state.rebuild_indices(Instant::now(), &mut changes);
        state.check();
        prop_assert_eq!((&state.by_hash, &state.by_price, state.status()), (&by_hash, &by_price, status));
        prop_assert!(changes.became_pending.is_empty() && changes.dropped == 0);
    }
}

#[test]
fn closing_a_gap_makes_all_later_nonces_pending_in_order() {
    let mut state = empty();
    let rich = account(0, PLENTY);
    for nonce in [2, 1] {
        let changes = insert(&mut state, entry(1, transfer(nonce, 9, 1), 1, LOCAL), rich).unwrap();
        assert!(changes.became_pending.is_empty());
    }
    assert_eq!(state.status(), PoolStatus { pending: 0, queued: 2 });

    let changes = insert(&mut state, entry(1, transfer(0, 9, 1), 1, LOCAL), rich).unwrap();

    let nonces: Vec<_> = changes.became_pending.iter().map(|recovered| recovered.transaction.nonce).collect();
    assert_eq!(nonces, [0, 1, 2]);
    assert_eq!(state.status(), PoolStatus { pending: 3, queued: 0 });
    assert_eq!(state.next_nonce(Address::repeat_byte(1)), Some(3));
}

#[test]
fn a_replacement_must_raise_both_prices_by_a_tenth() {
    let cases =
        [((109, 110), false), ((110, 109), false), ((110, 110), true), ((200, 100), false), ((100, 100), false)];
    for ((fee, tip), is_taken) in cases {
        let mut state = empty();
        insert(&mut state, entry(1, transfer(0, 100, 100), 1, LOCAL), account(0, PLENTY)).unwrap();

        let mut new = transfer(0, fee.max(tip), tip);
        if let TransactionPayload::DynamicFee { max_fee_per_gas, .. } = &mut new.payload {
            *max_fee_per_gas = U256::from(fee);
        }
        new.value = U256::from(1);
        let outcome = insert(&mut state, entry(1, new, 1, LOCAL), account(0, PLENTY));

        assert_eq!(outcome.is_ok(), is_taken, "{fee} {tip}");
        if let Err(error) = outcome {
            assert_eq!(error, PoolRefusal::ReplacementUnderpriced);
        }
        assert_eq!(state.status(), PoolStatus { pending: 1, queued: 0 });
    }
}

#[test]
fn a_full_pool_evicts_its_cheapest_transaction_but_never_a_local_one() {
    let mut state = empty();
    for sender in 0..6_u8 {
        let price = 10 + u64::from(sender);
        insert(&mut state, entry(sender, transfer(0, price, price), 2, sender == 0), account(0, PLENTY)).unwrap();
    }

    let cheap = insert(&mut state, entry(9, transfer(0, 11, 11), 1, FOREIGN), account(0, PLENTY));
    assert_eq!(cheap.unwrap_err(), PoolRefusal::Underpriced { tip: U256::from(11), needed: U256::from(12) });
    insert(&mut state, entry(9, transfer(0, 12, 12), 1, FOREIGN), account(0, PLENTY)).unwrap();

    assert_eq!(state.next_nonce(Address::repeat_byte(0)), Some(1), "the local one stays");
    assert_eq!(state.next_nonce(Address::repeat_byte(1)), None, "the cheapest remote one was evicted");
}

#[test]
fn local_transactions_beyond_their_share_are_treated_like_others() {
    let mut state = empty();
    for nonce in 0..8 {
        insert(&mut state, entry(1, transfer(nonce, 9, 9), 1, LOCAL), account(0, PLENTY)).unwrap();
    }
    let mut insert_local = |sender, price| {
        let mut changes = Changes::default();
        let entry = entry(sender, transfer(0, price, price), 1, LOCAL);
        state.insert(entry, account(0, PLENTY), &options(), &mut changes)
    };

    // Accepted, but not as local: the cheapest of them is evicted when the pool is full.
    for sender in 2..6 {
        assert_eq!(insert_local(sender, 9 + u64::from(sender)), Ok(false));
    }
    assert_eq!(insert_local(6, 11), Err(PoolRefusal::Underpriced { tip: U256::from(11), needed: U256::from(12) }));
    assert_eq!(insert_local(6, 12), Ok(false));
    assert_eq!(state.next_nonce(Address::repeat_byte(2)), None);

    // A replacement takes the slot of the one that it replaces.
    let dearer = insert(&mut state, entry(1, transfer(7, 19, 19), 1, LOCAL), account(0, PLENTY));
    assert!(dearer.is_ok());
    assert_eq!(state.local().len(), 8);
}

#[test]
fn queued_transactions_are_evicted_for_executable_ones_and_never_the_reverse() {
    let mut state = empty();
    let expensive = |nonce| transfer(nonce, 900, 900);
    for sender in 1..=2 {
        for nonce in 1..=6 {
            insert(&mut state, entry(sender, expensive(nonce), 1, FOREIGN), account(0, PLENTY)).unwrap();
        }
    }
    assert_eq!(state.status(), PoolStatus { pending: 0, queued: 12 });

    for sender in 3..=14 {
        insert(&mut state, entry(sender, transfer(0, 1, 1), 1, FOREIGN), account(0, PLENTY)).unwrap();
    }
    assert_eq!(state.status(), PoolStatus { pending: 12, queued: 0 });
    let gapped = insert(&mut state, entry(15, expensive(1), 1, FOREIGN), account(0, PLENTY));
    assert_eq!(gapped.unwrap_err(), PoolRefusal::Full);
    insert(&mut state, entry(15, transfer(0, 2, 2), 1, FOREIGN), account(0, PLENTY)).unwrap();
}

#[test]
fn a_masternodes_special_transaction_enters_a_full_pool_and_stays() {
    let mut state = empty();
    let privileged =
        |sender| Entry { is_special: true, is_privileged: true, ..entry(sender, transfer(0, 0, 0), 1, FOREIGN) };
    for sender in 1..=12 {
        insert(&mut state, entry(sender, transfer(0, 9, 9), 1, FOREIGN), account(0, PLENTY)).unwrap();
    }

    insert(&mut state, privileged(13), account(0, U256::ZERO)).unwrap();

    for sender in 14..=20 {
        insert(&mut state, entry(sender, transfer(0, 99, 99), 1, FOREIGN), account(0, PLENTY)).unwrap();
    }
    assert_eq!(state.next_nonce(Address::repeat_byte(13)), Some(1));
}

/// A token pays, so any number of them costs their senders nothing.
#[test]
fn at_equal_price_a_sponsored_transaction_is_evicted_for_one_whose_sender_pays() {
    let mut state = empty();
    let sponsored = |sender| Entry {
        sponsor: Some(Address::repeat_byte(0x77)),
        cost: U256::ZERO,
        ..entry(sender, transfer(0, 9, 9), 1, FOREIGN)
    };
    for sender in 1..=12 {
        insert(&mut state, sponsored(sender), account(0, U256::ZERO)).unwrap();
    }

    let another = insert(&mut state, sponsored(13), account(0, U256::ZERO));
    assert_eq!(another.unwrap_err(), PoolRefusal::Underpriced { tip: U256::from(9), needed: U256::from(10) });
    insert(&mut state, entry(13, transfer(0, 9, 9), 1, FOREIGN), account(0, PLENTY)).unwrap();
    assert_eq!(state.next_nonce(Address::repeat_byte(13)), Some(1));
}

#[test]
fn one_remote_sender_cannot_fill_the_pool() {
    let mut state = empty();
    for nonce in 0..6 {
        insert(&mut state, entry(1, transfer(nonce, 9, 9), 1, FOREIGN), account(0, PLENTY)).unwrap();
    }

    let refused = insert(&mut state, entry(1, transfer(6, 9, 9), 1, FOREIGN), account(0, PLENTY));

    assert_eq!(refused.unwrap_err(), PoolRefusal::AccountLimit { sender: Address::repeat_byte(1), limit: 6 });
    insert(&mut state, entry(1, transfer(6, 9, 9), 1, LOCAL), account(0, PLENTY)).unwrap();
}

#[test]
fn refuses_transactions_beyond_the_balance_and_drops_those_that_become_unaffordable() {
    let mut state = empty();
    let cost = U256::from(21_000 * 9);
    let twice = account(0, cost * U256::from(2));
    insert(&mut state, entry(1, transfer(0, 9, 9), 1, LOCAL), twice).unwrap();
    insert(&mut state, entry(1, transfer(1, 9, 9), 1, LOCAL), twice).unwrap();

    let third = insert(&mut state, entry(1, transfer(2, 9, 9), 1, LOCAL), twice).unwrap_err();
    assert_eq!(third, PoolRefusal::InsufficientFunds { balance: twice.balance, queued: twice.balance, cost });

    let mut changes = Changes::default();
    let poorer = [(Address::repeat_byte(1), account(0, cost))];
    state.resync(state.head(), &poorer, Instant::now(), &mut changes);
    state.check();
    assert_eq!(state.status(), PoolStatus { pending: 1, queued: 1 });
    let poor = [(Address::repeat_byte(1), account(0, cost - U256::from(1)))];
    state.resync(state.head(), &poor, Instant::now(), &mut changes);
    state.check();
    assert_eq!(state.status(), PoolStatus::default());
}

#[test]
fn a_delegated_account_has_one_transaction_in_flight() {
    let mut state = empty();
    let delegated = AccountView { is_delegated: true, ..account(0, PLENTY) };

    let gapped = insert(&mut state, entry(1, transfer(1, 9, 9), 1, LOCAL), delegated);
    assert_eq!(gapped.unwrap_err(), PoolRefusal::DelegatedGap);
    insert(&mut state, entry(1, transfer(0, 9, 9), 1, LOCAL), delegated).unwrap();
    let second = insert(&mut state, entry(1, transfer(1, 9, 9), 1, LOCAL), delegated);
    assert_eq!(second.unwrap_err(), PoolRefusal::DelegatedInFlight);
    insert(&mut state, entry(1, transfer(0, 19, 19), 1, LOCAL), delegated).unwrap();
}

#[test]
fn the_best_come_first_and_the_nonces_of_one_sender_stay_in_order() {
    let mut state = empty();
    // Sender 1: a low tip blocks a high one. Sender 2: medium. Sender 3: below the base fee.
    for (sender, nonce, fee, tip) in [(1, 0, 30, 2), (1, 1, 90, 50), (2, 0, 20, 5), (3, 0, 9, 9), (3, 1, 99, 99)] {
        insert(&mut state, entry(sender, transfer(nonce, fee, tip), 1, LOCAL), account(0, PLENTY)).unwrap();
    }

    let order: Vec<_> = state
        .best(U256::from(10))
        .transactions
        .iter()
        .map(|recovered| (recovered.sender.0[0], recovered.transaction.nonce))
        .collect();

    assert_eq!(order, [(2, 0), (1, 0), (1, 1)]);
}

#[test]
fn transactions_behind_a_gap_expire() {
    let mut state = empty();
    insert(&mut state, entry(1, transfer(0, 9, 9), 1, LOCAL), account(0, PLENTY)).unwrap();
    insert(&mut state, entry(1, transfer(5, 9, 9), 1, LOCAL), account(0, PLENTY)).unwrap();
    let mut changes = Changes::default();

    state.expire(LIFETIME, Instant::now() + LIFETIME * 2, &mut changes);

    state.check();
    assert_eq!((state.status(), changes.dropped), (PoolStatus { pending: 1, queued: 0 }, 1));
}

const LIFETIME: Duration = Duration::from_secs(3 * 3600);

#[test]
fn transactions_too_cheap_for_any_block_expire_with_those_behind_them() {
    let mut state = empty();
    for (sender, nonce, price) in [(1, 0, 20), (1, 1, 9), (1, 2, 20), (2, 0, 20)] {
        insert(&mut state, entry(sender, transfer(nonce, price, price), 1, LOCAL), account(0, PLENTY)).unwrap();
    }
    let begun = Instant::now();
    let mut check = |base_fee: u64, now| {
        let prices = BlockPrices { base_fee: U256::from(base_fee), ..BlockPrices::default() };
        let mut changes = Changes::default();
        state.resync(PoolHead { prices, ..state.head() }, &[], now, &mut changes);
        state.expire(LIFETIME, now, &mut changes);
        state.check();
        (state.status().pending, state.status().queued)
    };

    assert_eq!(check(10, begun), (4, 0));
    assert_eq!(check(10, begun + LIFETIME), (4, 0));
    // It was payable in between, so its time restarts.
    assert_eq!(check(9, begun + LIFETIME), (4, 0));
    assert_eq!(check(10, begun + LIFETIME * 2), (4, 0));
    assert_eq!(check(10, begun + LIFETIME * 3), (4, 0));
    assert_eq!(check(10, begun + LIFETIME * 3 + Duration::from_secs(1)), (2, 0));
}

/// Costs that a contract no longer covers fall to the sender; the transaction leaves the pool when the sender cannot
/// pay.
#[test]
fn sponsored_transactions_leave_when_neither_contract_nor_sender_can_pay() {
    let mut state = empty();
    let sponsored = |sender| Entry {
        cost: U256::ZERO,
        sponsor: Some(Address::repeat_byte(0x77)),
        ..entry(sender, transfer(0, 0, 0), 1, FOREIGN)
    };
    for sender in [1, 2] {
        insert(&mut state, sponsored(sender), account(0, U256::from(7))).unwrap();
    }
    assert!(state.has_sponsored());
    let poor = Address::repeat_byte(2);
    let cost = |entry: &Entry| U256::from(if entry.transaction.sender == poor { 8 } else { 7 });
    let mut changes = Changes::default();

    state.update_sponsored_costs(cost, Instant::now(), &mut changes);

    assert_eq!((state.status().pending, changes.dropped), (1, 1));
    assert!(state.content(Some(poor)).pending.is_empty());
    state.check();
}
