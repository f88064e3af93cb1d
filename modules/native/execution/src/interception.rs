//! Transactions that bypass the EVM: signing transactions and those of the exchange (`docs/spec/chain.md` 3.2 to 3.4).

use alloy_primitives::{Address, Bytes};
use tenon_api::{Log, Transaction};
use tenon_native_exchange::{EXCHANGE_ROOTS, LENDING, LENDING_FINALIZED, TRADING};
use tenon_native_spec::NativeHeights;

use super::addresses::BLOCK_SIGNERS;
use tenon_execution_interface::{BlockState, TransactionRejection};

/// A transaction that is not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interception {
    /// To 0x89: raises the sender's nonce, nothing else.
    Signing,
    /// To 0x91 … 0x94 while the exchange is active: does nothing here.
    Exchange,
}

impl Interception {
    /// Whether, and how, a transaction in a block of this height is intercepted.
    pub(super) fn of(transaction: &Transaction, heights: &NativeHeights, number: u64) -> Option<Self> {
        let receiver = transaction.to?;
        if receiver == BLOCK_SIGNERS && number >= heights.tip_signing {
            return Some(Self::Signing);
        }
        (heights.has_exchange(number) && is_exchange_address(receiver)).then_some(Self::Exchange)
    }

    /// Applies it.
    ///
    /// # Errors
    /// A wrong nonce, with the reference's text.
    pub(super) fn apply(
        self,
        transaction: &Transaction,
        sender: Address,
        state: &mut BlockState,
    ) -> Result<(), TransactionRejection> {
        if self == Self::Exchange {
            return Ok(());
        }
        let nonce = state.nonce(sender)?;
        let text = match transaction.nonce.cmp(&nonce) {
            std::cmp::Ordering::Greater => "nonce too high",
            std::cmp::Ordering::Less => "nonce too low",
            std::cmp::Ordering::Equal => {
                state.update(sender, |info| info.nonce = nonce.wrapping_add(1))?;
                return Ok(());
            }
        };
        Err(TransactionRejection::Rule(text.to_owned()))
    }
}

/// The only log of an intercepted transaction's receipt, with just the receiver's address.
pub(super) fn log_of(transaction: &Transaction) -> Log {
    Log { address: transaction.to.unwrap_or_default(), topics: Vec::new(), data: Bytes::new() }
}

/// Returns whether traces of a block skip this transaction: one to the exchange, at any height (`docs/spec/rpc-node.md`
/// 4.2).
pub fn is_skipped_by_traces(transaction: &Transaction) -> bool {
    transaction.to.is_some_and(is_exchange_address)
}

/// Returns whether the address receives the exchange's transactions.
pub(super) fn is_exchange_address(receiver: Address) -> bool {
    [TRADING, EXCHANGE_ROOTS, LENDING, LENDING_FINALIZED].contains(&receiver)
}
