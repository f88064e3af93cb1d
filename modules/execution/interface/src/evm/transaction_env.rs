//! Converts signed transactions for the EVM.

use alloy_primitives::{Address, U256};
use revm::{
    context::{
        TxEnv,
        either::Either,
        transaction::{
            AccessList, AccessListItem, Authorization, RecoveredAuthority, RecoveredAuthorization,
            SignedAuthorization as EvmAuthorization,
        },
    },
    primitives::TxKind,
};
use tenon_api::{SignedAuthorization, Transaction, TransactionPayload, messages::CallContradiction};

use crate::TransactionRejection;

/// Converts a signed transaction for the EVM.
///
/// # Errors
/// [`TransactionRejection`]: the rule that it breaks for any state.
pub fn transaction_env(transaction: &Transaction, sender: Address) -> Result<TxEnv, TransactionRejection> {
    check_tip(transaction)?;
    check_price(transaction)?;
    convert(transaction, sender, price)
}

/// Like [`transaction_env`], for chains on which prices have no limit. A price beyond the EVM's 128 bits is replaced by
/// the highest one: the family's handler charges the real one (`docs/spec/chain.md` 8.1).
///
/// # Errors
/// [`TransactionRejection`]: the rule that it breaks for any state.
pub fn transaction_env_at_any_price(transaction: &Transaction, sender: Address) -> Result<TxEnv, TransactionRejection> {
    check_tip(transaction)?;
    convert(transaction, sender, |wei| Ok(wei.saturating_to()))
}

fn convert(
    transaction: &Transaction,
    sender: Address,
    price: fn(U256) -> Result<u128, PriceTooHigh>,
) -> Result<TxEnv, TransactionRejection> {
    let mut env = TxEnv {
        tx_type: transaction.transaction_type() as u8,
        caller: sender,
        gas_limit: transaction.gas_limit,
        gas_price: price(transaction.max_fee_per_gas())?,
        kind: transaction.to.map_or(TxKind::Create, TxKind::Call),
        value: transaction.value,
        data: transaction.input.clone(),
        nonce: transaction.nonce,
        chain_id: transaction.chain_id,
        access_list: access_list(transaction.access_list()),
        ..TxEnv::default()
    };
    match &transaction.payload {
        TransactionPayload::Legacy { .. } | TransactionPayload::AccessList { .. } => {}
        TransactionPayload::DynamicFee { max_priority_fee_per_gas, .. } => {
            env.gas_priority_fee = Some(price(*max_priority_fee_per_gas)?);
        }
        TransactionPayload::Blob { max_priority_fee_per_gas, max_fee_per_blob_gas, blob_versioned_hashes, .. } => {
            env.gas_priority_fee = Some(price(*max_priority_fee_per_gas)?);
            env.max_fee_per_blob_gas = price(*max_fee_per_blob_gas)?;
            env.blob_hashes.clone_from(blob_versioned_hashes);
            if transaction.to.is_none() {
                return broken("a blob transaction cannot create a contract");
            }
        }
        TransactionPayload::SetCode { max_priority_fee_per_gas, authorization_list, .. } => {
            env.gas_priority_fee = Some(price(*max_priority_fee_per_gas)?);
            env.authorization_list = authorizations(authorization_list);
            if transaction.to.is_none() {
                return broken("a set-code transaction cannot create a contract");
            }
        }
    }
    Ok(env)
}

/// Checks the tip, which may be too large for the EVM's own check.
fn check_tip(transaction: &Transaction) -> Result<(), TransactionRejection> {
    if transaction.max_priority_fee_per_gas() > transaction.max_fee_per_gas() {
        return broken("priority fee is greater than max fee");
    }
    Ok(())
}

/// Checks a price that is too large for the EVM's own check.
fn check_price(transaction: &Transaction) -> Result<(), TransactionRejection> {
    match transaction.max_fee_per_gas().checked_mul(U256::from(transaction.gas_limit)) {
        Some(_) => Ok(()),
        None => broken("overflow payment in transaction"),
    }
}

fn broken<T>(rule: &str) -> Result<T, TransactionRejection> {
    Err(TransactionRejection::Rule(rule.to_owned()))
}

/// Converts authorizations for the EVM, with their signers. One with an invalid signature stays in the list: it is
/// skipped, but its gas is charged.
pub fn authorizations(list: &[SignedAuthorization]) -> Vec<Either<EvmAuthorization, RecoveredAuthorization>> {
    let evm_form = |(signed, authority): (&SignedAuthorization, Result<Address, _>)| {
        let inner = Authorization { chain_id: signed.chain_id, address: signed.address, nonce: signed.nonce };
        let authority = authority.map_or(RecoveredAuthority::Invalid, RecoveredAuthority::Valid);
        Either::Right(RecoveredAuthorization::new_unchecked(inner, authority))
    };
    list.iter().zip(tenon_chain::recover_authorities(list)).map(evm_form).collect()
}

/// Converts an access list for the EVM.
pub fn access_list(items: &[tenon_api::AccessListItem]) -> AccessList {
    let item = |item: &tenon_api::AccessListItem| AccessListItem {
        address: item.address,
        storage_keys: item.storage_keys.clone(),
    };
    AccessList(items.iter().map(item).collect())
}

/// Text of [`PriceTooHigh`].
const PRICE_TOO_HIGH: &str = "insufficient funds: the price of gas is above 2^128 - 1 wei";

/// A gas price has more than 128 bits. It cannot be paid, because fewer than 2^128 wei exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{PRICE_TOO_HIGH}")]
pub struct PriceTooHigh;

impl From<PriceTooHigh> for TransactionRejection {
    fn from(_: PriceTooHigh) -> Self {
        Self::InsufficientFunds(PRICE_TOO_HIGH)
    }
}

impl From<PriceTooHigh> for CallContradiction {
    fn from(_: PriceTooHigh) -> Self {
        Self::PriceTooHigh
    }
}

/// Converts a gas price for the EVM, which has 128 bits for it.
///
/// # Errors
/// [`PriceTooHigh`].
pub fn price(wei: U256) -> Result<u128, PriceTooHigh> {
    u128::try_from(wei).map_err(|_| PriceTooHigh)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{B256, Bytes};
    use tenon_api::TransactionSignature;

    use super::*;

    fn transaction(gas_price: U256) -> Transaction {
        Transaction {
            hash: B256::ZERO,
            chain_id: None,
            nonce: 0,
            gas_limit: 21_000,
            to: Some(Address::ZERO),
            value: U256::ZERO,
            input: Bytes::new(),
            payload: TransactionPayload::Legacy { gas_price },
            signature: TransactionSignature { v: 27, r: U256::ONE, s: U256::ONE },
        }
    }

    #[test]
    fn a_price_above_128_bits_cannot_be_paid_unless_prices_have_no_limit() {
        let above = U256::from(u128::MAX) + U256::ONE;
        let converted = |price| transaction_env(&transaction(price), Address::ZERO).map(|env| env.gas_price);
        let unlimited = transaction_env_at_any_price(&transaction(U256::MAX), Address::ZERO);

        assert_eq!(converted(above - U256::ONE), Ok(u128::MAX));
        assert_eq!(converted(above), Err(TransactionRejection::InsufficientFunds(PRICE_TOO_HIGH)));
        assert_eq!(converted(U256::MAX), broken("overflow payment in transaction"));
        assert_eq!(unlimited.map(|env| env.gas_price), Ok(u128::MAX));
    }
}
