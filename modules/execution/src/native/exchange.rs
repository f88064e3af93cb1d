//! The historic on-chain exchange (`spec/chain.md` 6), as far as this node follows it: as long as it stands empty.
//!
//! The specification only outlines lending, and one cannot be had without the other, since both write into the same
//! balances. So the first block in which anything happens there is refused by name. Nothing has happened as long as
//! no batch has come, no root differs from the empty one, and no relayer is registered whose pairs an epoch switch
//! would write down.

use alloy_primitives::{Address, U256};
use serde_json::{Map, Value};
use tenon_api::{EMPTY_ROOT_HASH, Header, Transaction};
use tenon_chain::NativeSettings;

use super::{
    addresses::{EXCHANGE_ROOTS, LENDING, TRADING},
    interception::is_exchange_received,
};
use crate::{ExecutionError, block::BlockState, error::TransactionRejection};

/// The exchange does nothing in blocks up to this one.
const QUIET_UNTIL: u64 = 900;
/// `RelayerCount` of the relayer registration (`spec/chain.md` 10.5).
const RELAYER_COUNT_SLOT: U256 = U256::from_limbs([7, 0, 0, 0]);

/// Refuses a block whose opening step would change the exchange's state.
pub(super) fn check_block(
    native: &NativeSettings,
    header: &Header,
    state: &mut BlockState,
) -> Result<(), ExecutionError> {
    let number = header.number;
    if !is_exchange_received(&native.heights, number) || number <= QUIET_UNTIL {
        return Ok(());
    }
    // In v2 an epoch may begin at any height.
    let may_update_prices = number.is_multiple_of(native.consensus.epoch) || number > native.consensus.switch_block;
    if may_update_prices && !state.read_slot(native.contracts.relayer_registration, RELAYER_COUNT_SLOT)?.is_zero() {
        return Err(ExecutionError::Unsupported {
            number: number.into(),
            what: "the prices of the historic exchange at the end of an epoch (spec/chain.md 6.1)".to_owned(),
        });
    }
    Ok(())
}

/// Refuses a transaction that only the exchange could judge. Of roots those of the block's author count; batches are
/// taken from anybody, and finalized lending trades are for information only.
pub(super) fn check_transaction(
    native: &NativeSettings,
    number: u64,
    author: Address,
    transaction: &Transaction,
    sender: Address,
) -> Result<(), TransactionRejection> {
    let Some(receiver) = transaction.to.filter(|_| is_exchange_received(&native.heights, number)) else {
        return Ok(());
    };
    match receiver {
        EXCHANGE_ROOTS if sender == author => check_roots(&transaction.input),
        TRADING if may_hold_orders(&transaction.input) => {
            Err(TransactionRejection::Unsupported("orders of the historic exchange (spec/chain.md 6.4)"))
        }
        LENDING if may_hold_orders(&transaction.input) => {
            Err(TransactionRejection::Unsupported("lending on the historic exchange (spec/chain.md 6.5)"))
        }
        _ => Ok(()),
    }
}

/// The roots must be those of empty tries: then nothing has been traded or lent yet.
fn check_roots(input: &[u8]) -> Result<(), TransactionRejection> {
    let is_empty = |root: &[u8]| root == EMPTY_ROOT_HASH.as_slice();
    let is_untouched = match input.len() {
        0..=31 => true,
        32..=63 => is_empty(&input[..32]),
        length => is_empty(&input[..32]) && is_empty(&input[length - 32..]),
    };
    if is_untouched {
        return Ok(());
    }
    Err(TransactionRejection::Unsupported("a state of the historic exchange that is not empty (spec/chain.md 6.3)"))
}

/// Whether a batch may hold anything. The reference skips what it cannot decode; whether it can is only said here of
/// what is no JSON object at all, and of objects without a list or with an empty one.
fn may_hold_orders(input: &[u8]) -> bool {
    if input.trim_ascii_start().first() != Some(&b'{') {
        return false;
    }
    let Ok(batch) = serde_json::from_slice::<Map<String, Value>>(input) else { return true };
    batch.iter().filter(|(name, _)| name.eq_ignore_ascii_case("data")).any(|(_, list)| match list {
        Value::Null => false,
        Value::Array(orders) => !orders.is_empty(),
        _ => true,
    })
}

#[cfg(test)]
mod tests;
