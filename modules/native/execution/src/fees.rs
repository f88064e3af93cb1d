//! Gas price, payer and receiver of fees (`docs/spec/chain.md` 2.4, 2.5, 4.2).

use alloy_primitives::{Address, U256};
use tenon_api::{Transaction, TransactionPayload};
use tenon_native_spec::NativeHeights;

use super::addresses::is_exempt_receiver;
use tenon_execution_interface::{Fees, OwnPrices, TransactionRejection};

/// Price of sponsored gas from `gas50x` on, wei.
const SPONSORED_PRICE_50X: u64 = 12_500_000_000;
/// Price of sponsored gas after `tipTRC21Fee`, wei.
const SPONSORED_PRICE: u64 = 250_000_000;
/// Price of sponsored gas before, wei.
const SPONSORED_PRICE_BEFORE: u64 = 2_500;

/// The heights and addresses of a block on which fees depend.
pub(super) struct FeeRules<'a> {
    pub(super) heights: &'a NativeHeights,
    pub(super) number: u64,
    pub(super) base_fee: Option<u64>,
    pub(super) author: Address,
    /// Owner of the author, in the state before the first transaction; zero if there is none.
    pub(super) owner: Address,
}

impl FeeRules<'_> {
    /// The fees of a transaction; `capacity` is the rest of its receiver's sponsorship.
    ///
    /// # Errors
    /// Fee caps forbidden by EIP-1559, or an insufficient sponsorship; with the reference's texts.
    pub(super) fn fees(&self, transaction: &Transaction, capacity: Option<U256>) -> Result<Fees, TransactionRejection> {
        let price = sponsored_price(self.heights, self.number);
        let mut is_exempt_from_base_fee = is_exempt_receiver(transaction.to);
        if let Some(capacity) = capacity {
            self.check_fee_caps(transaction)?;
            if capacity < U256::from(transaction.gas_limit) * U256::from(price) {
                return Err(TransactionRejection::InsufficientFunds("insufficient funds for gas * price + value"));
            }
            // Its own caps have been checked; it is executed with another price.
            is_exempt_from_base_fee = true;
        }
        let paid = if capacity.is_some() { U256::from(price) } else { self.own_price(transaction) };
        Ok(Fees {
            sponsor: transaction.to.filter(|_| capacity.is_some()),
            is_exempt_from_base_fee,
            receiver: self.receiver(transaction, paid),
            price,
            own: capacity.is_none().then(|| OwnPrices { cap: transaction.max_fee_per_gas(), effective: paid }),
        })
    }

    /// The checks that the EVM makes for other transactions.
    fn check_fee_caps(&self, transaction: &Transaction) -> Result<(), TransactionRejection> {
        let Some(base_fee) = self.base_fee else { return Ok(()) };
        let (cap, tip) = (transaction.max_fee_per_gas(), tip_cap(transaction));
        let text = if tip > cap {
            "max priority fee per gas higher than max fee per gas"
        } else if cap < U256::from(base_fee) {
            "max fee per gas less than block base fee"
        } else {
            return Ok(());
        };
        Err(TransactionRejection::Rule(text.to_owned()))
    }

    fn own_price(&self, transaction: &Transaction) -> U256 {
        let cap = transaction.max_fee_per_gas();
        self.base_fee.map_or(cap, |base_fee| cap.min(tip_cap(transaction).saturating_add(U256::from(base_fee))))
    }

    /// After `tipTRC21Fee` the author's owner gets the full price. Until then the author gets the price, minus the base
    /// fee if there is one.
    fn receiver(&self, transaction: &Transaction, paid: U256) -> Option<(Address, U256)> {
        if is_exempt_receiver(transaction.to) {
            return None;
        }
        if self.number > self.heights.tip_trc21_fee {
            return (!self.owner.is_zero()).then_some((self.owner, paid));
        }
        let amount = match self.base_fee {
            Some(base_fee) => {
                tip_cap(transaction).min(transaction.max_fee_per_gas().saturating_sub(U256::from(base_fee)))
            }
            None => paid,
        };
        Some((self.author, amount))
    }
}

/// Price of sponsored gas at a height, wei (`docs/spec/chain.md` 2.5).
const fn sponsored_price(heights: &NativeHeights, number: u64) -> u64 {
    if number >= heights.gas50x {
        SPONSORED_PRICE_50X
    } else if number > heights.tip_trc21_fee {
        SPONSORED_PRICE
    } else {
        SPONSORED_PRICE_BEFORE
    }
}

fn tip_cap(transaction: &Transaction) -> U256 {
    match &transaction.payload {
        TransactionPayload::DynamicFee { max_priority_fee_per_gas, .. }
        | TransactionPayload::SetCode { max_priority_fee_per_gas, .. } => *max_priority_fee_per_gas,
        _ => transaction.max_fee_per_gas(),
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Bytes, address};
    use revm::context::TxEnv;
    use tenon_api::{TransactionSignature, TransactionType};

    use super::*;

    const AUTHOR: Address = address!("00000000000000000000000000000000000000aa");
    const OWNER: Address = address!("00000000000000000000000000000000000000bb");
    const TOKEN: Address = address!("00000000000000000000000000000000000000cc");

    fn heights() -> NativeHeights {
        NativeHeights { tip_trc21_fee: 100, gas50x: 200, eip1559: 300, ..NativeHeights::default() }
    }

    fn transaction(to: Address, cap: u64, tip: Option<u64>) -> Transaction {
        let payload = match tip {
            None => TransactionPayload::Legacy { gas_price: U256::from(cap) },
            Some(tip) => TransactionPayload::DynamicFee {
                max_fee_per_gas: U256::from(cap),
                max_priority_fee_per_gas: U256::from(tip),
                access_list: Vec::new(),
            },
        };
        Transaction {
            hash: alloy_primitives::B256::ZERO,
            chain_id: Some(50),
            nonce: 0,
            gas_limit: 100_000,
            to: Some(to),
            value: U256::ZERO,
            input: Bytes::new(),
            payload,
            signature: TransactionSignature { v: 27, r: U256::ONE, s: U256::ONE },
        }
    }

    fn fees(
        number: u64,
        base_fee: Option<u64>,
        transaction: &Transaction,
        capacity: Option<U256>,
    ) -> Result<Fees, TransactionRejection> {
        let heights = heights();
        let rules = FeeRules { heights: &heights, number, base_fee, author: AUTHOR, owner: OWNER };
        rules.fees(transaction, capacity)
    }

    #[test]
    fn the_price_of_a_set_code_transaction_is_its_tip_above_the_base_fee() {
        let base_fee = 12_500_000_000;
        let mut set_code = transaction(TOKEN, base_fee + 9, Some(2));
        set_code.payload = TransactionPayload::SetCode {
            max_fee_per_gas: U256::from(base_fee + 9),
            max_priority_fee_per_gas: U256::from(2),
            access_list: Vec::new(),
            authorization_list: Vec::new(),
        };
        let fees = fees(300, Some(base_fee), &set_code, None).unwrap();
        assert_eq!(fees.receiver, Some((OWNER, U256::from(base_fee + 2))));
    }

    // `docs/spec/chain.md` 2.5, 4.2: the first comparison is strict, the others are not.
    #[test]
    fn receiver_and_share_depend_on_the_height() {
        let base_fee = 12_500_000_000;
        let old = transaction(TOKEN, 30, None);
        assert_eq!(fees(100, None, &old, None).unwrap().receiver, Some((AUTHOR, U256::from(30))));
        assert_eq!(fees(101, None, &old, None).unwrap().receiver, Some((OWNER, U256::from(30))));
        let new = transaction(TOKEN, base_fee + 9, Some(2));
        let whole = U256::from(base_fee + 2);
        assert_eq!(fees(300, Some(base_fee), &new, None).unwrap().receiver, Some((OWNER, whole)));
        assert_eq!(fees(99, Some(base_fee), &new, None).unwrap().receiver, Some((AUTHOR, U256::from(2))));
    }

    #[test]
    fn the_price_of_sponsored_gas_depends_on_the_height() {
        for (number, price) in [(100, 2_500), (101, 250_000_000), (199, 250_000_000), (200, 12_500_000_000_u64)] {
            let sponsored = fees(number, None, &transaction(TOKEN, 1, None), Some(U256::MAX)).unwrap();
            assert_eq!(sponsored.sponsor, Some(TOKEN));
            assert_eq!(sponsored.sponsored_cost(1), U256::from(price), "block {number}");
        }
    }

    #[test]
    fn a_sponsorship_must_cover_the_whole_gas_limit() {
        let enough = U256::from(100_000) * U256::from(250_000_000);
        assert!(fees(150, None, &transaction(TOKEN, 1, None), Some(enough)).is_ok());
        let lacking = fees(150, None, &transaction(TOKEN, 1, None), Some(enough - U256::ONE));
        let text = "insufficient funds for gas * price + value";
        assert_eq!(lacking, Err(TransactionRejection::InsufficientFunds(text)));
        assert!(fees(150, None, &transaction(TOKEN, 1, None), Some(U256::ZERO)).is_err());
    }

    /// A set-code transaction whose token pays keeps its type, and so its authorizations (`docs/spec/upgrades.md` 7.2).
    #[test]
    fn a_sponsored_transaction_has_one_price_and_a_set_code_transaction_keeps_its_type() {
        let sponsored = fees(300, Some(12_500_000_000), &transaction(TOKEN, 20_000_000_000, Some(5)), Some(U256::MAX));
        let sponsored = sponsored.unwrap();
        for (before, after) in [
            (TransactionType::DynamicFee, TransactionType::AccessList),
            (TransactionType::SetCode, TransactionType::SetCode),
        ] {
            let env = TxEnv { tx_type: before as u8, gas_priority_fee: Some(5), gas_price: 99, ..TxEnv::default() };
            let priced = sponsored.priced(env);
            assert_eq!(
                (priced.tx_type, priced.gas_price, priced.gas_priority_fee),
                (after as u8, 12_500_000_000, None)
            );
        }
    }

    #[test]
    fn the_fee_of_a_randomize_transaction_is_burned() {
        let randomize = transaction(address!("0000000000000000000000000000000000000090"), 5, None);
        let burned = fees(300, Some(12_500_000_000), &randomize, None).unwrap();
        assert_eq!((burned.receiver, burned.is_exempt_from_base_fee), (None, true));
    }
}
