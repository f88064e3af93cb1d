//! What the pool of a native chain asks of a transaction beyond what Ethereum's does (`spec/rpc-eth.md` 12.3).

use alloy_primitives::address;
use tenon_api::{Address, Header, Transaction, U256};
use tenon_chain::NativeHeights;

use crate::PoolError;

/// The longest transaction, canonical bytes.
pub(crate) const MAX_TRANSACTION_BYTES: u64 = 64 * 1024;
/// How far a nonce may be ahead of the sender's next one.
pub(crate) const MOST_NONCES_AHEAD: u64 = 10;
/// Block signers: signing transactions go there, made by masternodes themselves.
const BLOCK_SIGNERS: Address = address!("0000000000000000000000000000000000000089");
/// Randomize contract.
const RANDOMIZE: Address = address!("0000000000000000000000000000000000000090");
/// The least price of gas, wei (`spec/chain.md` 2.5).
const LEAST_PRICE: U256 = U256::from_limbs([250_000_000, 0, 0, 0]);
/// The same from `gas50x` on.
const LEAST_PRICE_50X: U256 = U256::from_limbs([12_500_000_000, 0, 0, 0]);

/// Whether a transaction is one of those that masternodes make, which pay no fee.
pub(crate) fn is_special(transaction: &Transaction) -> bool {
    transaction.to == Some(BLOCK_SIGNERS) || transaction.to == Some(RANDOMIZE)
}

/// The least price that the pool takes after a head, wei per gas.
pub(crate) fn least_price(heights: &NativeHeights, head: &Header) -> U256 {
    if head.number >= heights.gas50x { LEAST_PRICE_50X } else { LEAST_PRICE }
}

/// Refuses a price that no block takes.
///
/// # Errors
/// [`PoolError::ZeroPrice`], [`PoolError::BelowLeastPrice`].
pub(crate) fn check_price(transaction: &Transaction, least: U256) -> Result<(), PoolError> {
    if is_special(transaction) {
        return Ok(());
    }
    let price = transaction.max_fee_per_gas();
    if price.is_zero() {
        return Err(PoolError::ZeroPrice);
    }
    if price < least { Err(PoolError::BelowLeastPrice) } else { Ok(()) }
}

/// A refusal in the reference's words, which say less than go-ethereum's today.
pub(crate) fn words(error: &PoolError) -> String {
    let words = match error {
        PoolError::NonceTooLow { .. } => "nonce too low",
        PoolError::IntrinsicGas { .. } => "intrinsic gas too low",
        PoolError::InsufficientFunds { .. } => "insufficient funds for gas * price + value",
        PoolError::TipAboveFeeCap { .. } => "max priority fee per gas higher than max fee per gas",
        PoolError::Oversized { .. } => "oversized data",
        PoolError::InvalidSender(_) => "invalid sender",
        PoolError::Underpriced { .. } => "transaction underpriced",
        PoolError::TypeNotActive(_) => "transaction type not supported",
        PoolError::Full => "txpool is full",
        other => return other.to_string(),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use tenon_api::{B256, Bytes, TransactionPayload, TransactionSignature};

    use super::*;

    fn transaction(to: Address, price: u64) -> Transaction {
        Transaction {
            hash: B256::ZERO,
            chain_id: Some(50),
            nonce: 0,
            gas_limit: 21_000,
            to: Some(to),
            value: U256::ZERO,
            input: Bytes::new(),
            payload: TransactionPayload::Legacy { gas_price: U256::from(price) },
            signature: TransactionSignature { v: 27, r: U256::ONE, s: U256::ONE },
        }
    }

    #[test]
    fn the_price_must_reach_the_least_of_the_height() {
        let heights = NativeHeights { gas50x: 100, ..NativeHeights::default() };
        let at = |number: u64, price: u64| {
            let head = Header { number, ..Header::default() };
            check_price(&transaction(Address::ZERO, price), least_price(&heights, &head))
        };

        assert_eq!(at(99, 0), Err(PoolError::ZeroPrice));
        assert_eq!(at(99, 249_999_999), Err(PoolError::BelowLeastPrice));
        assert_eq!(at(99, 250_000_000), Ok(()));
        assert_eq!(at(100, 12_499_999_999), Err(PoolError::BelowLeastPrice));
        assert_eq!(at(100, 12_500_000_000), Ok(()));
        assert_eq!(check_price(&transaction(RANDOMIZE, 0), LEAST_PRICE), Ok(()));
    }

    #[test]
    fn refusals_have_the_words_of_the_reference() {
        let cases = [
            (PoolError::NonceTooLow { next: 3, found: 1 }, "nonce too low"),
            (PoolError::NonceTooHigh, "nonce too high"),
            (PoolError::Oversized { size: 70_000, limit: MAX_TRANSACTION_BYTES }, "oversized data"),
            (PoolError::ReplacementUnderpriced, "replacement transaction underpriced"),
        ];
        for (error, expected) in cases {
            assert_eq!(words(&error), expected);
        }
    }
}
