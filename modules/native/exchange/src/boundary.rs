//! Checks that a block does not need the exchange, for blocks whose exchange step is not executed.

use alloy_primitives::Address;
use tenon_api::{EMPTY_ROOT_HASH, Header, StoreError, Transaction};
use tenon_native_spec::NativeSettings;

use crate::{EXCHANGE_ROOTS, LAST_INACTIVE_BLOCK, LENDING, MainState, RELAYER_COUNT, TRADING, batch::may_hold_orders};

/// A rule of the exchange that a block or transaction requires, but that is not applied here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(pub &'static str);

/// Checks that the opening step of a block would not change the exchange's state.
///
/// # Errors
/// The main state cannot be read. The inner error means that the step would change the exchange's state.
pub fn check_block(
    native: &NativeSettings,
    header: &Header,
    state: &mut dyn MainState,
) -> Result<Result<(), Unsupported>, StoreError> {
    let number = header.number;
    if !native.heights.has_exchange(number) || number <= LAST_INACTIVE_BLOCK {
        return Ok(Ok(()));
    }
    // An epoch of engine v2 may begin at any height.
    let may_update_prices = number.is_multiple_of(native.consensus.epoch) || number > native.consensus.switch_block;
    if may_update_prices && !state.slot(native.contracts.relayer_registration, RELAYER_COUNT)?.is_zero() {
        let what = "the prices of the historic exchange at the end of an epoch (docs/spec/chain.md 6.1)";
        return Ok(Err(Unsupported(what)));
    }
    Ok(Ok(()))
}

/// Checks a transaction that only the exchange could process. Roots count only if the block's author sent them, batches
/// from any sender; finalized lending trades are only informational.
///
/// # Errors
/// [`Unsupported`].
pub fn check_transaction(
    native: &NativeSettings,
    number: u64,
    author: Address,
    transaction: &Transaction,
    sender: Address,
) -> Result<(), Unsupported> {
    let Some(receiver) = transaction.to.filter(|_| native.heights.has_exchange(number)) else {
        return Ok(());
    };
    match receiver {
        EXCHANGE_ROOTS if sender == author => check_roots(&transaction.input),
        TRADING if may_hold_orders(&transaction.input) => {
            Err(Unsupported("orders of the historic exchange (docs/spec/chain.md 6.4)"))
        }
        LENDING if may_hold_orders(&transaction.input) => {
            Err(Unsupported("lending on the historic exchange (docs/spec/chain.md 6.5)"))
        }
        _ => Ok(()),
    }
}

/// The roots must be those of empty tries: nothing has been traded or lent yet.
fn check_roots(input: &[u8]) -> Result<(), Unsupported> {
    let is_empty = |root: &[u8]| root == EMPTY_ROOT_HASH.as_slice();
    let is_untouched = match input.len() {
        0..=31 => true,
        32..=63 => is_empty(&input[..32]),
        length => is_empty(&input[..32]) && is_empty(&input[length - 32..]),
    };
    if is_untouched {
        return Ok(());
    }
    Err(Unsupported("a state of the historic exchange that is not empty (docs/spec/chain.md 6.3)"))
}
