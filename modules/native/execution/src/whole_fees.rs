//! Fees of transactions whose sender's balance or prices exceed the EVM's 256-bit numbers (`docs/spec/chain.md` 8.1):
//! compared, deducted and paid at full width.

use alloy_primitives::{Address, U256};
use revm::{
    context::{
        Cfg, ContextTr, JournalTr, Transaction, journaled_state::account::JournaledAccountTr, result::EVMError,
        result::InvalidTransaction,
    },
    handler::pre_execution,
    interpreter::Gas,
};
use tenon_api::WholeBalance;

use tenon_execution_interface::{AnyEvm, EvmFailure, Fees, OwnPrices, saturated, widen};

/// Checks the sender, deducts the price of all gas, and increments the sender's nonce.
///
/// # Errors
/// The transaction is not valid, or the database failed.
pub(super) fn validate_and_deduct(fees: &Fees, evm: &mut AnyEvm<'_>) -> Result<(), EvmFailure> {
    let prices = prices(fees, evm);
    let (_, transaction, cfg, journal, ..) = evm.context().all_mut();
    let (sender, value) = (transaction.caller, transaction.value);
    let seen = {
        let loaded = journal.load_account_with_code_mut(sender)?.data;
        let info = &loaded.account().info;
        pre_execution::validate_account_nonce_and_code(
            info,
            transaction.nonce,
            cfg.is_eip3607_disabled(),
            cfg.is_nonce_check_disabled(),
        )?;
        info.balance
    };
    let gas = widen(U256::from(transaction.gas_limit));
    let is_free = cfg.is_fee_charge_disabled() || fees.sponsor.is_some();
    let is_unchecked = cfg.is_fee_charge_disabled() && fees.sponsor.is_none() || cfg.is_balance_check_disabled();
    let keeps_value = cfg.is_balance_check_disabled();
    let is_call = transaction.kind().is_call();
    let (cap, price) = if is_free { (U256::ZERO, U256::ZERO) } else { (prices.cap, prices.effective) };
    let has = evm.context().db_mut().track_whole_balances().whole(sender, seen);
    let needed = (gas * widen(cap)).saturating_add(widen(value));
    if has < needed && !is_unchecked {
        let (fee, balance) = (Box::new(saturated(needed)), Box::new(saturated(has)));
        return Err(EVMError::Transaction(InvalidTransaction::LackOfFundForMaxFee { fee, balance }));
    }
    let mut left = has.saturating_sub(gas * widen(price));
    if keeps_value {
        left = left.max(widen(value));
    }
    set_balance(evm, sender, left)?;
    if prices.effective > U256::from(u128::MAX) {
        evm.context().db_mut().track_whole_balances().set_price(Some(prices.effective));
    }
    if is_call {
        evm.context().journal_mut().load_account_mut(sender)?.bump_nonce();
    }
    Ok(())
}

/// Pays back the price of the gas that was not used.
///
/// # Errors
/// The database failed.
pub(super) fn reimburse(fees: &Fees, evm: &mut AnyEvm<'_>, gas: &Gas) -> Result<(), EvmFailure> {
    if evm.context().cfg.is_fee_charge_disabled() {
        return Ok(());
    }
    let unused = gas.remaining().saturating_add(gas.refunded().unsigned_abs());
    let (sender, price) = (evm.context().tx.caller, prices(fees, evm).effective);
    credit(evm, sender, widen(price) * widen(U256::from(unused)))
}

/// Adds to a balance, and touches the account.
///
/// # Errors
/// The database failed.
pub(super) fn credit(evm: &mut AnyEvm<'_>, address: Address, amount: WholeBalance) -> Result<(), EvmFailure> {
    let seen = *evm.context().journal_mut().load_account_mut(address)?.balance();
    let whole = evm.context().db_mut().track_whole_balances().whole(address, seen);
    set_balance(evm, address, whole.saturating_add(amount))
}

fn set_balance(evm: &mut AnyEvm<'_>, address: Address, whole: WholeBalance) -> Result<(), EvmFailure> {
    let seen = evm.context().db_mut().track_whole_balances().set_whole(address, whole);
    evm.context().journal_mut().load_account_mut(address)?.set_balance(seen);
    Ok(())
}

fn prices(fees: &Fees, evm: &mut AnyEvm<'_>) -> OwnPrices {
    let in_the_evm = || {
        let base_fee = u128::from(evm.context().block.basefee);
        OwnPrices {
            cap: U256::from(evm.context().tx.max_fee_per_gas()),
            effective: U256::from(evm.context().tx.effective_gas_price(base_fee)),
        }
    };
    fees.own.unwrap_or_else(in_the_evm)
}

#[cfg(test)]
mod tests {
    use tenon_api::{Transaction, TransactionPayload};
    use tenon_execution_block::Executor;
    use tenon_memory_chain::FixedState;

    use super::*;
    use crate::prague_tests::{PRAGUE, SENDER, open, spec, transaction};

    /// `docs/spec/chain.md` 2.4, 8.1: the sender's balance must cover the whole gas limit at the fee cap, although it
    /// pays less. 2^130 is a cap that an account of less than 2^192 wei can afford; 2^200 is not.
    #[test]
    fn a_cap_beyond_the_evms_numbers_must_be_covered() {
        let executor = Executor::new(crate::family_of(&spec()).unwrap());
        for cap in [U256::ONE << 130, U256::ONE << 200] {
            let transaction = Transaction {
                chain_id: Some(5151),
                payload: TransactionPayload::DynamicFee {
                    max_fee_per_gas: cap,
                    max_priority_fee_per_gas: U256::ZERO,
                    access_list: Vec::new(),
                },
                ..transaction(0, Some(Address::repeat_byte(0x7a)), &[])
            };
            let cost = cap * U256::from(transaction.gas_limit);
            let outcome = |balance| {
                let state = FixedState::default().with(SENDER, 0, balance, &[]);
                let mut block = open(&executor, PRAGUE, &state).unwrap();
                block.run_transaction(&transaction, SENDER).map(drop).map_err(|error| error.to_string())
            };

            assert_eq!(outcome(cost), Ok(()), "{cap}");
            assert!(outcome(cost - U256::ONE).unwrap_err().contains("lack of funds"), "{cap}");
        }
    }
}
