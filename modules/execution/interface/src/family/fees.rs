//! The payer and the receiver of a transaction's fees, where a family differs from Ethereum.

use alloy_primitives::{Address, U256};
use revm::context::{Transaction as _, TxEnv};
use tenon_api::TransactionType;

/// The fees of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fees {
    /// The contract that pays; `None` if the sender pays.
    pub sponsor: Option<Address>,
    /// Whether the price may be below the base fee.
    pub is_exempt_from_base_fee: bool,
    /// Receiver and its share per gas, wei; `None` if the fee is burned.
    pub receiver: Option<(Address, U256)>,
    /// Price of sponsored gas, wei.
    pub price: u64,
    /// The sender's own prices, at their full width; `None` for those of the EVM's transaction.
    pub own: Option<OwnPrices>,
}

/// The prices of a sender, wei per gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnPrices {
    /// The price that the sender must be able to pay.
    pub cap: U256,
    /// The price that the sender pays.
    pub effective: U256,
}

/// The price that the sender of a transaction pays, wei per gas, at full width: the EVM's own numbers may be too small
/// for it.
pub fn effective_price(fees: Option<&Fees>, transaction: &TxEnv, base_fee: u64) -> U256 {
    let in_the_evm = || U256::from(transaction.effective_gas_price(u128::from(base_fee)));
    fees.filter(|fees| fees.sponsor.is_none()).and_then(|fees| fees.own).map_or_else(in_the_evm, |own| own.effective)
}

impl Fees {
    /// The sender pays and the fee is burned.
    pub const BURNED: Self = Self { sponsor: None, is_exempt_from_base_fee: true, receiver: None, price: 0, own: None };

    /// The cost of this much gas to the sponsor, wei.
    pub fn sponsored_cost(&self, gas: u64) -> U256 {
        U256::from(gas) * U256::from(self.price)
    }

    /// Whether the price exceeds the EVM's numbers (`docs/spec/chain.md` 8.1).
    pub fn exceeds_evm_price(&self) -> bool {
        self.own.is_some_and(|own| own.cap > U256::from(u128::MAX))
    }

    /// The transaction with the price of sponsored gas.
    pub fn priced(&self, mut env: TxEnv) -> TxEnv {
        if self.sponsor.is_some() {
            env.gas_price = u128::from(self.price);
            // A set-code transaction keeps its type, because of its authorizations. Without a tip it pays the lower of
            // this price and the base fee; the base fee equals this price from `gas50x` on and is above it before.
            env.gas_priority_fee = None;
            if env.tx_type == TransactionType::DynamicFee as u8 {
                // The same transaction with a single price.
                env.tx_type = TransactionType::AccessList as u8;
            }
        }
        env
    }
}
