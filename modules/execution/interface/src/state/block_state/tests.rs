//! Changes to the state that blocks make without a transaction.

use tenon_memory_chain::FixedState;

use super::*;

const RECORD: Address = Address::with_last_byte(0x9a);

fn slot(number: u8) -> B256 {
    B256::with_last_byte(number)
}

/// `docs/spec/upgrades.md` 4: nonce and slots are written, a balance stays, a value of zero leaves no slot.
#[test]
fn a_record_is_kept_beside_a_balance() {
    let mut parent = FixedState::default();
    parent.slots.insert((RECORD, slot(3)), U256::from(9));
    parent.accounts.insert(RECORD, Account { nonce: 1, ..Account::default() });
    let record = AccountRecord {
        account: RECORD,
        nonce: 2,
        slots: vec![(slot(1), U256::from(5)), (slot(2), U256::ZERO), (slot(3), U256::ZERO)],
    };
    let mut state = BlockState::new(Arc::new(parent), CodeCache::default());
    state.track_empty_accounts(true);
    state.credit(RECORD, U256::from(7), true).unwrap();

    state.write_record(&record).unwrap();

    let changes = state.changes();
    let [change] = &changes[..] else { panic!("{changes:?}") };
    let account = change.account.unwrap();
    assert_eq!((account.nonce, account.balance, account.code_hash), (2, U256::from(7), EMPTY_CODE_HASH));
    let mut slots: Vec<_> = change.slots.iter().map(|change| (change.slot, change.value)).collect();
    slots.sort_unstable();
    assert_eq!(slots, [(slot(1), U256::from(5)), (slot(3), U256::ZERO)]);
}

/// Testnet's reward of block 1,800 (`docs/spec/chain.md` 8.1).
#[test]
fn a_reward_takes_a_balance_over_256_bits() {
    const OWNER: Address = Address::with_last_byte(0xc5);
    let mut parent = FixedState::default();
    let balance = U256::MAX - U256::from(382_532_626);
    parent.accounts.insert(OWNER, Account { balance, ..Account::default() });
    let mut state = BlockState::new(Arc::new(parent), CodeCache::default());
    state.track_empty_accounts(true);

    state.credit(OWNER, U256::from(4_500) * U256::from(10).pow(U256::from(18)), true).unwrap();

    let account = state.changes()[0].account.unwrap();
    let wanted = "0x10000000000000000000000000000000000000000000000f3f20b8dfa530303ed";
    assert_eq!(format!("{:#x}", account.whole_balance()), wanted);
    assert_eq!(state.balance(OWNER).unwrap(), U256::MAX);
}

/// A balance of exactly 2^256 is not empty, and is read back unchanged.
#[test]
fn an_account_with_nothing_in_its_low_256_bits_is_not_empty() {
    const ABOVE_256_BITS: Address = Address::with_last_byte(0xc6);
    let mut parent = FixedState::default();
    parent.accounts.insert(ABOVE_256_BITS, Account { balance_high: 1, ..Account::default() });
    let mut state = BlockState::new(Arc::new(parent), CodeCache::default());
    state.track_empty_accounts(true);

    state.credit(ABOVE_256_BITS, U256::ZERO, true).unwrap();
    assert!(state.changes().is_empty());
    assert!(!state.basic(ABOVE_256_BITS).unwrap().unwrap().is_empty());

    state.set_balance(ABOVE_256_BITS, WholeBalance::ZERO).unwrap();
    assert_eq!(state.changes()[0].account, None);
}
