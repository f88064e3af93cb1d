//! Balances of 2^256 wei and more, which native chains may have (`docs/spec/chain.md` 8.1), for an EVM with 256-bit
//! balances.
//!
//! Between transactions, the state contains the low 256 bits of a balance, and this type the bits above them. During a
//! transaction, the EVM sees one part of a balance and this type holds the hidden rest; their sum is the balance.
//! Before the EVM moves a value that its part does not cover, or that would overflow the receiver's part, the balance
//! is divided differently. So the EVM never computes with more than 256 bits, and its checks have the same results as
//! the reference's. The visible part of a nonzero balance is never zero, so that the account does not seem empty.
//!
//! Not used on chains on which no account has 2^192 wei: a block would need 2^64 such accounts to reach 2^256.

use alloy_primitives::{Address, U256, map::AddressMap};
use revm::state::EvmState;
use tenon_api::{WholeBalance, join_balance, split_balance};

/// Whether a balance is so large that values could exceed the EVM's range.
pub const fn could_overflow_u256(low: U256, high: u64) -> bool {
    low.as_limbs()[3] != 0 || high != 0
}

/// The parts of balances that the EVM does not see.
#[derive(Clone, Debug, Default)]
pub struct WholeBalances {
    /// Between transactions: units of 2^256 wei by account; absent if zero.
    highs: AddressMap<u64>,
    /// During a transaction: hidden balances of the accounts that it has read.
    hidden: AddressMap<WholeBalance>,
    /// Changes of `hidden` in the open frames, in order.
    undo: Vec<Undo>,
    /// Position in `undo` at which each open frame begins.
    frames: Vec<usize>,
    /// The transaction's gas price, if it exceeds the EVM's 128 bits.
    price: Option<U256>,
}

#[derive(Clone, Copy, Debug)]
struct Undo {
    address: Address,
    hidden: WholeBalance,
    /// Amount to add to the EVM's part, modulo 2^256.
    shift: U256,
}

impl WholeBalances {
    /// The bits of an account's balance above 256, between transactions.
    pub fn high(&self, address: Address) -> u64 {
        self.highs.get(&address).copied().unwrap_or_default()
    }

    /// Sets the bits of an account's balance above 256.
    pub fn set_high(&mut self, address: Address, high: u64) {
        match high {
            0 => self.highs.remove(&address),
            _ => self.highs.insert(address, high),
        };
    }

    /// Splits the balance of an account that the EVM reads: returns the visible part, and keeps the hidden rest.
    pub fn load(&mut self, address: Address, low: U256) -> U256 {
        let high = self.high(address);
        // An account with a visible balance of zero could look empty.
        let seen = if high != 0 && low.is_zero() { U256::ONE } else { low };
        self.set_hidden(address, join_balance(low, high) - widen(seen));
        seen
    }

    /// The part of an account's balance that the EVM does not see.
    pub fn hidden(&self, address: Address) -> WholeBalance {
        self.hidden.get(&address).copied().unwrap_or_default()
    }

    /// The low 256 bits of an account's hidden balance.
    pub fn hidden_low(&self, address: Address) -> U256 {
        split_balance(self.hidden(address)).0
    }

    /// An account's balance, of which the EVM sees `seen`.
    pub fn whole(&self, address: Address, seen: U256) -> WholeBalance {
        self.hidden(address) + widen(seen)
    }

    /// Sets an account's balance outside of frames; returns the part for the EVM.
    pub fn set_whole(&mut self, address: Address, whole: WholeBalance) -> U256 {
        let (low, _) = split_balance(whole);
        let seen = if low.is_zero() && !whole.is_zero() { U256::ONE } else { low };
        self.set_hidden(address, whole - widen(seen));
        seen
    }

    /// Ends a transaction for an account of which the EVM sees `seen`: returns the low 256 bits of the balance, and
    /// keeps the high ones.
    pub fn settle(&mut self, address: Address, seen: U256) -> U256 {
        let (low, high) = split_balance(self.whole(address, seen));
        self.hidden.remove(&address);
        self.set_high(address, high);
        low
    }

    /// A transaction begins.
    pub fn begin_transaction(&mut self) {
        self.undo.clear();
        self.frames.clear();
    }

    /// The transaction's gas price, if it exceeds the EVM's 128 bits.
    pub const fn price(&self) -> Option<U256> {
        self.price
    }

    /// Sets the gas price of [`WholeBalances::price`].
    pub const fn set_price(&mut self, price: Option<U256>) {
        self.price = price;
    }

    /// A frame begins: later changes are undone with it.
    pub fn begin_frame(&mut self) {
        self.frames.push(self.undo.len());
    }

    /// The innermost frame ends; its changes are undone if it was reverted. The EVM undoes its own changes by adding
    /// and subtracting modulo 2^256, so it does not matter which are undone first.
    pub fn end_frame(&mut self, is_undone: bool, state: &mut EvmState) {
        // A frame that began before the balances were tracked encloses all changes.
        let begin = self.frames.pop().unwrap_or_default();
        while is_undone && self.undo.len() > begin {
            let Some(Undo { address, hidden, shift }) = self.undo.pop() else { break };
            self.set_hidden(address, hidden);
            if let Some(account) = state.get_mut(&address) {
                account.info.balance = account.info.balance.wrapping_add(shift);
            }
        }
    }

    /// Divides the balances of two accounts that the EVM has read so that it can move a value between them, if the
    /// payer has it.
    pub fn prepare_transfer(&mut self, from: Address, to: Option<Address>, value: U256, state: &mut EvmState) {
        let Some(payer) = state.get(&from).map(|account| account.info.balance) else { return };
        if self.whole(from, payer) < widen(value) {
            return;
        }
        if payer < value {
            self.cut(from, U256::MAX, state);
        }
        let Some(to) = to.filter(|to| *to != from) else { return };
        let room = U256::MAX - value;
        if state.get(&to).is_some_and(|account| account.info.balance > room) {
            self.cut(to, room, state);
        }
    }

    /// Makes the visible part of a nonzero balance nonzero.
    pub fn keep_visible_part_nonzero(&mut self, address: Address, state: &mut EvmState) {
        if state.get(&address).is_some_and(|account| account.info.balance.is_zero()) {
            self.cut(address, U256::ONE, state);
        }
    }

    /// Moves the hidden balance of a contract that destroyed itself. `moved` is the visible part, which the EVM has
    /// moved.
    pub fn after_destruction(&mut self, contract: Address, heir: Address, moved: U256, state: &mut EvmState) {
        let left = state.get(&contract).map(|account| account.info.balance).unwrap_or_default();
        if contract == heir {
            // Burned, unless it stays as it is (EIP-6780).
            if left.is_zero() {
                self.change(contract, WholeBalance::ZERO, U256::ZERO);
            }
            return;
        }
        let received = state.get(&heir).map(|account| account.info.balance).unwrap_or_default();
        let carried = if received < moved { join_balance(U256::ZERO, 1) } else { WholeBalance::ZERO };
        let inherited = self.hidden(contract) + carried;
        self.change(contract, WholeBalance::ZERO, U256::ZERO);
        self.change(heir, self.hidden(heir) + inherited, U256::ZERO);
        self.keep_visible_part_nonzero(heir, state);
    }

    /// Sets the EVM's part of a balance to `max`, or to the whole balance if that is less.
    fn cut(&mut self, address: Address, max: U256, state: &mut EvmState) {
        let Some(account) = state.get_mut(&address) else { return };
        let (before, whole) = (account.info.balance, self.whole(address, account.info.balance));
        let (seen, _) = split_balance(whole.min(widen(max)));
        account.info.balance = seen;
        self.change(address, whole - widen(seen), before.wrapping_sub(seen));
    }

    fn change(&mut self, address: Address, hidden: WholeBalance, shift: U256) {
        let before = self.hidden(address);
        if before != hidden || !shift.is_zero() {
            self.undo.push(Undo { address, hidden: before, shift });
            self.set_hidden(address, hidden);
        }
    }

    fn set_hidden(&mut self, address: Address, hidden: WholeBalance) {
        if hidden.is_zero() {
            self.hidden.remove(&address);
        } else {
            self.hidden.insert(address, hidden);
        }
    }
}

/// A number of 256 bits as a balance.
pub fn widen(number: U256) -> WholeBalance {
    join_balance(number, 0)
}

/// A balance as a number of 256 bits, the highest if it has more.
pub fn saturated(whole: WholeBalance) -> U256 {
    let (low, high) = split_balance(whole);
    if high == 0 { low } else { U256::MAX }
}

#[cfg(test)]
mod tests {
    use revm::state::{Account as EvmAccount, AccountInfo};

    use super::*;

    const PAYER: Address = Address::with_last_byte(1);
    const RECEIVER: Address = Address::with_last_byte(2);

    /// Two accounts as the EVM reads them.
    fn state(balances: &mut WholeBalances, accounts: &[(Address, U256, u64)]) -> EvmState {
        let mut state = EvmState::default();
        for (address, low, high) in accounts {
            balances.set_high(*address, *high);
            let balance = balances.load(*address, *low);
            state.insert(*address, EvmAccount::from(AccountInfo { balance, ..AccountInfo::default() }));
        }
        state
    }

    fn whole(balances: &WholeBalances, state: &EvmState, address: Address) -> WholeBalance {
        balances.whole(address, state[&address].info.balance)
    }

    /// Does what the EVM does: an exact transfer in 256 bits, or nothing.
    fn transfer(state: &mut EvmState, from: Address, to: Address, value: U256) -> bool {
        let (payer, receiver) = (state[&from].info.balance, state[&to].info.balance);
        let (Some(left), Some(sum)) = (payer.checked_sub(value), receiver.checked_add(value)) else { return false };
        state.get_mut(&from).unwrap().info.balance = left;
        state.get_mut(&to).unwrap().info.balance = sum;
        true
    }

    #[test]
    fn a_value_moves_and_comes_back_at_full_width() {
        let amounts = [U256::ONE, U256::ONE << 255, U256::MAX];
        let lows = [U256::ZERO, U256::ONE, U256::ONE << 255, U256::MAX];
        for value in amounts {
            for (payer, receiver) in lows.iter().flat_map(|a| lows.iter().map(move |b| (*a, *b))) {
                for (payer_high, receiver_high) in [(0, 0), (1, 0), (0, 2), (3, 5)] {
                    let mut balances = WholeBalances::default();
                    let accounts = [(PAYER, payer, payer_high), (RECEIVER, receiver, receiver_high)];
                    let mut state = state(&mut balances, &accounts);
                    let (before, other) = (join_balance(payer, payer_high), join_balance(receiver, receiver_high));
                    balances.prepare_transfer(PAYER, Some(RECEIVER), value, &mut state);
                    let has_moved = transfer(&mut state, PAYER, RECEIVER, value);
                    assert_eq!(has_moved, before >= widen(value), "{payer} {payer_high} {value}");
                    if !has_moved {
                        continue;
                    }
                    balances.begin_frame();
                    balances.keep_visible_part_nonzero(PAYER, &mut state);
                    balances.keep_visible_part_nonzero(RECEIVER, &mut state);
                    assert_eq!(whole(&balances, &state, PAYER), before - widen(value));
                    assert_eq!(whole(&balances, &state, RECEIVER), other + widen(value));
                    // A transfer back inside, then all of it is undone.
                    balances.prepare_transfer(RECEIVER, Some(PAYER), U256::MAX, &mut state);
                    let came_back = transfer(&mut state, RECEIVER, PAYER, U256::MAX);
                    let undo = |state: &mut EvmState, from, to, value: U256| {
                        let (a, b): (U256, U256) = (state[&from].info.balance, state[&to].info.balance);
                        state.get_mut(&from).unwrap().info.balance = a.wrapping_add(value);
                        state.get_mut(&to).unwrap().info.balance = b.wrapping_sub(value);
                    };
                    if came_back {
                        undo(&mut state, RECEIVER, PAYER, U256::MAX);
                    }
                    undo(&mut state, PAYER, RECEIVER, value);
                    balances.end_frame(true, &mut state);
                    assert_eq!(whole(&balances, &state, PAYER), before);
                    assert_eq!(whole(&balances, &state, RECEIVER), other);
                    let low = balances.settle(PAYER, state[&PAYER].info.balance);
                    assert_eq!(join_balance(low, balances.high(PAYER)), before);
                }
            }
        }
    }

    #[test]
    fn an_account_that_has_something_never_seems_empty() {
        let mut balances = WholeBalances::default();
        let mut state = state(&mut balances, &[(PAYER, U256::ZERO, 1), (RECEIVER, U256::MAX, 0)]);
        assert!(!state[&PAYER].info.balance.is_zero());
        balances.prepare_transfer(PAYER, Some(RECEIVER), U256::MAX, &mut state);
        assert!(transfer(&mut state, PAYER, RECEIVER, U256::MAX));
        balances.keep_visible_part_nonzero(PAYER, &mut state);
        assert_eq!(state[&PAYER].info.balance, U256::ONE);
        assert_eq!(whole(&balances, &state, PAYER), WholeBalance::ONE);
        assert_eq!(whole(&balances, &state, RECEIVER), (WholeBalance::ONE << 257) - WholeBalance::from(2));
    }

    #[test]
    fn the_heir_of_a_contract_gets_all_that_it_had() {
        let mut balances = WholeBalances::default();
        let mut state = state(&mut balances, &[(PAYER, U256::from(5), 2), (RECEIVER, U256::MAX, 1)]);
        balances.begin_frame();
        let moved = state[&PAYER].info.balance;
        // Like the EVM, which does not check for an overflow here.
        let heir = state[&RECEIVER].info.balance.wrapping_add(moved);
        state.get_mut(&RECEIVER).unwrap().info.balance = heir;
        state.get_mut(&PAYER).unwrap().info.balance = U256::ZERO;
        balances.after_destruction(PAYER, RECEIVER, moved, &mut state);
        assert_eq!(whole(&balances, &state, PAYER), WholeBalance::ZERO);
        assert_eq!(whole(&balances, &state, RECEIVER), join_balance(U256::from(4), 4));
        state.get_mut(&RECEIVER).unwrap().info.balance = heir.wrapping_sub(moved);
        state.get_mut(&PAYER).unwrap().info.balance = moved;
        balances.end_frame(true, &mut state);
        assert_eq!(whole(&balances, &state, PAYER), join_balance(U256::from(5), 2));
        assert_eq!(whole(&balances, &state, RECEIVER), join_balance(U256::MAX, 1));
    }
}
