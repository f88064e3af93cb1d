//! The price of gas, and who pays and receives it (`spec/chain.md` 2.4, 2.5, 4.2).

use alloy_primitives::{Address, U256};
use revm::context::TxEnv;
use tenon_api::{Transaction, TransactionPayload, TransactionType};
use tenon_chain::NativeHeights;

use super::addresses::is_exempt_receiver;
use crate::error::TransactionRejection;

/// Price of sponsored gas from `gas50x` on, wei.
const SPONSORED_PRICE_50X: u64 = 12_500_000_000;
/// Price of sponsored gas after `tipTRC21Fee`, wei.
const SPONSORED_PRICE: u64 = 250_000_000;
/// Price of sponsored gas before, wei.
const SPONSORED_PRICE_BEFORE: u64 = 2_500;

/// How one transaction is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fees {
    /// The token whose sponsorship pays; none when the sender pays.
    pub(crate) sponsor: Option<Address>,
    /// The base fee is no floor for the price.
    pub(crate) is_exempt_from_base_fee: bool,
    /// Who receives how much a unit of gas, wei; nobody when the fee is burned.
    pub(crate) receiver: Option<(Address, U256)>,
    /// Price of sponsored gas, wei.
    price: u64,
}

/// The heights and addresses of a block that fees depend on.
pub(super) struct FeeRules<'a> {
    pub(super) heights: &'a NativeHeights,
    pub(super) number: u64,
    pub(super) base_fee: Option<u64>,
    pub(super) author: Address,
    /// Who owns the author, in the state before the first transaction; zero when nobody does.
    pub(super) owner: Address,
}

impl FeeRules<'_> {
    /// How a transaction is paid for; `capacity` is what its receiver's sponsorship has left.
    ///
    /// # Errors
    /// Fee caps that EIP-1559 forbids, or a sponsorship that does not suffice; in the reference's words.
    pub(super) fn fees(&self, transaction: &Transaction, capacity: Option<U256>) -> Result<Fees, TransactionRejection> {
        let price = sponsored_price(self.heights, self.number);
        let mut is_exempt_from_base_fee = is_exempt_receiver(transaction.to);
        if let Some(capacity) = capacity {
            self.check_fee_caps(transaction)?;
            if capacity < U256::from(transaction.gas_limit) * U256::from(price) {
                let text = "insufficient funds for gas * price + value";
                return Err(TransactionRejection::Rule(text.to_owned()));
            }
            // Its own caps have been looked at; the price that it is executed with has nothing to do with them.
            is_exempt_from_base_fee = true;
        }
        let paid = if capacity.is_some() { U256::from(price) } else { self.own_price(transaction) };
        Ok(Fees {
            sponsor: transaction.to.filter(|_| capacity.is_some()),
            is_exempt_from_base_fee,
            receiver: self.receiver(transaction, paid),
            price,
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

    /// After `tipTRC21Fee` the author's owner gets the whole price. Up to it the author gets the price, less the
    /// base fee where there is one.
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

impl Fees {
    /// The sender pays and nobody receives.
    pub(crate) const NOBODY_IS_PAID: Self =
        Self { sponsor: None, is_exempt_from_base_fee: true, receiver: None, price: 0 };

    /// What this much gas costs the sponsor, wei.
    pub(crate) fn sponsored_cost(&self, gas: u64) -> U256 {
        U256::from(gas) * U256::from(self.price)
    }

    /// The transaction with the price that sponsored gas has.
    pub(crate) fn priced(&self, mut env: TxEnv) -> TxEnv {
        if self.sponsor.is_some() {
            env.gas_price = u128::from(self.price);
            env.gas_priority_fee = None;
            if env.tx_type == TransactionType::DynamicFee as u8 {
                // The same transaction with one price.
                env.tx_type = TransactionType::AccessList as u8;
            }
        }
        env
    }
}

/// Price of sponsored gas at a height, wei (`spec/chain.md` 2.5).
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
        TransactionPayload::DynamicFee { max_priority_fee_per_gas, .. } => *max_priority_fee_per_gas,
        _ => transaction.max_fee_per_gas(),
    }
}
