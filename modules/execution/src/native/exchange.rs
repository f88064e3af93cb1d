//! The historic on-chain exchange (`spec/chain.md` 6), as far as this node follows it: as long as it stands empty.
//!
//! The specification only outlines lending, and one cannot be had without the other, since both write into the same
//! balances. So the first block in which anything happens there is refused by name. Nothing has happened as long as
//! no batch has come, no root differs from the empty one, and no relayer is registered whose pairs an epoch switch
//! would write down.

use alloy_primitives::U256;
use tenon_api::{EMPTY_ROOT_HASH, Header, Transaction};
use tenon_chain::NativeSettings;

use super::{
    addresses::EXCHANGE_ROOTS,
    interception::{is_exchange_address, is_exchange_received},
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

/// Refuses a transaction that only the exchange could judge.
pub(super) fn check_transaction(
    native: &NativeSettings,
    number: u64,
    transaction: &Transaction,
) -> Result<(), TransactionRejection> {
    let Some(receiver) = transaction.to.filter(|_| is_exchange_received(&native.heights, number)) else {
        return Ok(());
    };
    if receiver == EXCHANGE_ROOTS {
        return check_roots(&transaction.input);
    }
    if is_exchange_address(receiver) {
        return Err(TransactionRejection::Unsupported("orders of the historic exchange (spec/chain.md 6)"));
    }
    Ok(())
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
    Err(TransactionRejection::Unsupported("a state of the historic exchange that is not empty (spec/chain.md 6)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_roots_of_empty_tries_are_passed() {
        let (empty, other) = (EMPTY_ROOT_HASH.to_vec(), vec![7; 32]);
        for passed in [vec![], vec![1; 31], empty.clone(), [empty.clone(), empty.clone()].concat()] {
            assert_eq!(check_roots(&passed), Ok(()));
        }
        for refused in [other.clone(), [empty.clone(), other.clone()].concat(), [other, empty].concat()] {
            assert!(matches!(check_roots(&refused), Err(TransactionRejection::Unsupported(_))));
        }
    }
}
