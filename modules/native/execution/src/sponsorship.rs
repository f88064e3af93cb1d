//! Transactions to tokens that pay for the gas (`docs/spec/chain.md` 3.5).

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, U256};
use revm::{
    Database,
    state::{Account as EvmAccount, EvmState, EvmStorageSlot},
};
use tenon_api::{StoreError, split_balance};
use tenon_chain::{address_in, element_slot, mapping_slot};

use tenon_execution_interface::{BlockContext, BlockState, StateError, widen};

/// `tokens` of the issuer.
const TOKENS: U256 = U256::from_limbs([1, 0, 0, 0]);
/// `tokensState` of the issuer: the rest of a token's deposit.
const TOKENS_STATE: U256 = U256::from_limbs([2, 0, 0, 0]);
/// `balances` of a token.
const BALANCES: U256 = U256::ZERO;
/// `minFee` of a token.
const MIN_FEE: U256 = U256::from_limbs([1, 0, 0, 0]);
/// `issuer` of a token.
const ISSUER: U256 = U256::from_limbs([2, 0, 0, 0]);
/// Maximum number of tokens that are read: each costs a deposit, and the list is read for every block.
const MAX_TOKENS: u64 = 1 << 20;

/// Deposits available in one block, and the amounts spent.
pub(super) struct Sponsorship {
    issuer: Address,
    capacities: BTreeMap<Address, U256>,
    used: BTreeSet<Address>,
    total: U256,
    failure_charge: Vec<ChargedSlot>,
}

/// A slot of a token that was changed because the previous transaction failed.
///
/// The reference changes it after finalising that transaction. So the next one sees the new value, but its SSTORE still
/// treats the old one as the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChargedSlot {
    token: Address,
    slot: U256,
    original: U256,
    present: U256,
}

/// Slot of the rest of a token's deposit at the issuer.
fn deposit_slot(token: Address) -> U256 {
    mapping_slot(token.into_word(), TOKENS_STATE).into()
}

/// Slot of a holder's balance in a token.
pub(super) fn balance_slot(holder: Address) -> U256 {
    mapping_slot(holder.into_word(), BALANCES).into()
}

/// The amount that a token's deposit can pay, wei; `None` if the receiver is not a registered token.
///
/// # Errors
/// The database failed.
pub fn capacity_of(
    receiver: Option<Address>,
    issuer: Address,
    state: &mut BlockState,
) -> Result<Option<U256>, StoreError> {
    Ok(Sponsorship::read(issuer, state)?.capacity(receiver))
}

impl Sponsorship {
    /// Reads the deposits of all registered tokens, once before the first transaction of a block.
    pub(super) fn read(issuer: Address, state: &mut BlockState) -> Result<Self, StoreError> {
        let count = state.read_slot(issuer, TOKENS)?.as_limbs()[0].min(MAX_TOKENS);
        let mut capacities = BTreeMap::new();
        for index in 0..count {
            let entry = state.read_slot(issuer, element_slot(TOKENS.into(), index).into())?;
            if !entry.is_zero() {
                let token = address_in(entry);
                capacities.insert(token, state.read_slot(issuer, deposit_slot(token))?);
            }
        }
        Ok(Self { issuer, capacities, used: BTreeSet::new(), total: U256::ZERO, failure_charge: Vec::new() })
    }

    /// The remaining sponsorship of transactions to this receiver; `None` if they pay for themselves.
    pub(super) fn capacity(&self, receiver: Option<Address>) -> Option<U256> {
        self.capacities.get(&receiver?).copied()
    }

    /// Deducts the cost of a transaction from its token's deposit.
    pub(super) fn spend(&mut self, token: Address, cost: U256) {
        if let Some(capacity) = self.capacities.get_mut(&token) {
            // The whole gas limit was checked against the deposit before, so this cannot underflow.
            *capacity = capacity.saturating_sub(cost);
            self.used.insert(token);
            self.total = self.total.saturating_add(cost);
        }
    }

    /// Charges the sender of a failed transaction the token's minimum fee, paid to the token's issuer. A smaller
    /// balance is lost without a receiver, as in the reference.
    pub(super) fn charge_failure(
        &mut self,
        token: Address,
        sender: Address,
        state: &mut BlockState,
    ) -> Result<(), StoreError> {
        let sender_slot = balance_slot(sender);
        let balance = state.read_slot(token, sender_slot)?;
        if balance.is_zero() {
            return Ok(());
        }
        let issuer = address_in(state.read_slot(token, ISSUER)?);
        let least_fee = state.read_slot(token, MIN_FEE)?;
        let issuer_slot = balance_slot(issuer);
        let (rest, received) =
            if balance < least_fee { (U256::ZERO, U256::ZERO) } else { (balance - least_fee, least_fee) };
        let charged = |slot, original, present| ChargedSlot { token, slot, original, present };
        if issuer_slot == sender_slot {
            let back = rest.wrapping_add(received);
            self.failure_charge = vec![charged(sender_slot, balance, back)];
            return Ok(());
        }
        let held = state.read_slot(token, issuer_slot)?;
        self.failure_charge =
            vec![charged(sender_slot, balance, rest), charged(issuer_slot, held, held.wrapping_add(received))];
        Ok(())
    }

    /// Makes the next transaction see the changes after the previous one's failure.
    pub(super) fn show_failure_charge(&self, context: &mut BlockContext) -> Result<(), StateError> {
        for charge in &self.failure_charge {
            let info = context.journaled_state.database.basic(charge.token)?.unwrap_or_default();
            let journal = &mut context.journaled_state.inner;
            let transaction_id = journal.transaction_id;
            let account = journal.state.entry(charge.token).or_insert_with(|| {
                let mut account = EvmAccount::from(info);
                account.transaction_id = transaction_id;
                account.mark_cold();
                account
            });
            let mut slot = EvmStorageSlot::new_changed(charge.original, charge.present, transaction_id);
            slot.mark_cold();
            account.storage.insert(charge.slot, slot);
        }
        Ok(())
    }

    /// Takes over the final values of the changed slots from the transaction that saw them. Called before its state is
    /// committed, which writes a slot only if it differs from its original value.
    pub(super) fn settle_failure_charge(&mut self, after: &EvmState, state: &mut BlockState) -> Result<(), StoreError> {
        for charge in std::mem::take(&mut self.failure_charge) {
            let seen = after.get(&charge.token).and_then(|account| account.storage.get(&charge.slot));
            let value = seen.map_or(charge.present, |slot| slot.present_value);
            state.write_slot(charge.token, charge.slot, value)?;
        }
        Ok(())
    }

    /// Writes the changes after a failure, if no executed transaction follows directly.
    pub(super) fn finalise(&mut self, state: &mut BlockState) -> Result<(), StoreError> {
        self.settle_failure_charge(&EvmState::default(), state)
    }

    /// After the last transaction: writes the remaining deposits, overwriting any changes by contracts in this block,
    /// and deducts the coins spent from the issuer.
    ///
    /// # Errors
    /// The missing amount, if the issuer holds less than it has paid.
    pub(super) fn write_back(&mut self, state: &mut BlockState) -> Result<Result<(), U256>, StoreError> {
        self.finalise(state)?;
        if self.used.is_empty() {
            return Ok(Ok(()));
        }
        for token in &self.used {
            let left = self.capacities.get(token).copied().unwrap_or_default();
            state.write_slot(self.issuer, deposit_slot(*token), left)?;
        }
        let (held, total) = (state.whole_balance(self.issuer)?, widen(self.total));
        match held.checked_sub(total) {
            Some(left) => state.write_balance(self.issuer, left)?,
            // The balance is less than the total, which has 256 bits.
            None => return Ok(Err(split_balance(total - held).0)),
        }
        Ok(Ok(()))
    }
}
