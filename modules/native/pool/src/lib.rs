//! The pool's rules of native chains (`docs/spec/chain.md` 9): minimum prices, refusals, transactions of
//! masternodes, and tokens that pay for their holders.
//!
//! It owns [`NativePolicy`], which decides what the pool of `tenon-txpool` accepts and at what cost, and caches of
//! masternodes and tokens read from a head's state.
//!
//! Invariants: a check reads the chain and changes nothing; a refusal is one that the reference has.

#![forbid(unsafe_code)]

mod masternodes;
mod refusal;
mod tokens;

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tenon_api::{
    Address, B256, ChainReader, Head, Header, StateReader, StoreError, Transaction, TransactionPayload,
    TransactionType, U256,
    messages::{NativePoolRefusal, PoolRefusal},
};
use tenon_chain::{ChainSpec, HighS, SignerRules, floor_gas};
use tenon_native_spec::{NativeSettings, native_intrinsic_gas};
use tenon_txpool_interface::{Candidate, CostAndPriority, CostOf, PoolError, PoolPolicy, PoolView, Senders};

use masternodes::Masternodes;
use refusal::native_refusal;

/// Maximum size of a transaction, canonical bytes.
const MAX_TRANSACTION_BYTES: u64 = 64 * 1024;
/// Maximum distance of a nonce above the next pending one.
const NONCE_AHEAD: u64 = 10;

/// Returns whether a transaction goes to the block signer or the randomize contract: masternodes send those for free.
fn is_special(transaction: &Transaction) -> bool {
    let special = [Address::with_last_byte(0x89), Address::with_last_byte(0x90)];
    transaction.to.is_some_and(|receiver| special.contains(&receiver))
}

/// The amount that each token can pay, wei.
type Capacities = Arc<BTreeMap<Address, U256>>;

/// The rules of one native chain.
#[derive(derive_more::Debug)]
#[debug("NativePolicy(chain {})", spec.chain_id)]
pub struct NativePolicy {
    spec: Arc<ChainSpec>,
    settings: NativeSettings,
    masternodes: Masternodes,
    /// The amounts that tokens can pay after the block with this hash. Locked for a look-up or an insertion only.
    capacities: Mutex<Option<(B256, Capacities)>>,
}

impl PoolPolicy for NativePolicy {
    fn check_submission(&self, transaction: &Transaction) -> Result<(), PoolError> {
        if is_special(transaction) { Err(NativePoolRefusal::SpecialByInterface.into()) } else { Ok(()) }
    }

    /// The checks of `docs/spec/chain.md` 9.2, in its order, except those of replacements.
    fn check(&self, candidate: &Candidate<'_>, view: &PoolView<'_>) -> Result<(Address, CostAndPriority), PoolError> {
        let Candidate { transaction, size, source, min_tip, .. } = *candidate;
        let PoolView { chain, senders, next_nonce } = *view;
        let head = chain.head();
        self.check_form(transaction, size, &head.header, senders)?;
        let sender = senders.sender(&self.permissive(), transaction).map_err(|_| NativePoolRefusal::Sender)?;
        // The pool is read before the chain because it follows the chain: a transaction that leaves the pool for a
        // block between the two reads is then counted by the account's nonce. In the other order neither would count
        // it, and the nonce would seem too high.
        let waiting = next_nonce(sender).unwrap_or_default();
        let head = chain.head();
        let state = chain.state_at(head.number())?;
        let is_special = is_special(transaction);
        let is_privileged = is_special && self.masternodes.contains(sender, &head.header, chain)?;
        // For transactions from an interface the reference checks prices last, starting with its minimum price.
        if !source.is_interface() && !is_privileged {
            self.check_price(transaction, &head.header, min_tip)?;
        }
        let account = state.account(sender)?.unwrap_or_default();
        if transaction.nonce < account.nonce {
            return Err(NativePoolRefusal::NonceTooLow.into());
        }
        if transaction.nonce > waiting.max(account.nonce).saturating_add(NONCE_AHEAD) {
            return Err(NativePoolRefusal::NonceTooHigh.into());
        }
        let cost_and_priority =
            self.cost_and_priority(transaction, sender, is_special, is_privileged, &head, &*state)?;
        if cost_and_priority.cost > account.spendable() {
            return Err(NativePoolRefusal::Funds.into());
        }
        if !is_special {
            self.check_gas(transaction, &head.header)?;
        }
        if source.is_interface() && !is_privileged {
            self.check_price(transaction, &head.header, min_tip)?;
        }
        Ok((sender, cost_and_priority))
    }

    /// The costs that tokens pay for (`docs/spec/chain.md` 9.4).
    fn sponsored_costs(&self, head: &Head, chain: &dyn ChainReader) -> Result<CostOf, StoreError> {
        let capacities = self.capacities(head.header.hash(), &*chain.state_at(head.number())?)?;
        let price = self.gas_price(head.header.number);
        Ok(Box::new(move |transaction, cost_and_priority| cost(transaction, cost_and_priority, price, &capacities)))
    }

    fn refusal(&self, refusal: PoolRefusal) -> PoolRefusal {
        native_refusal(refusal)
    }
}

impl NativePolicy {
    /// The rules of a native chain with these settings.
    pub fn new(spec: &Arc<ChainSpec>, settings: NativeSettings) -> Self {
        let masternodes = Masternodes::new(&settings.consensus);
        Self { spec: Arc::clone(spec), settings, masternodes, capacities: Mutex::new(None) }
    }

    /// The minimum price per gas, which is also the price that a token pays per gas, as of a head.
    fn gas_price(&self, head: u64) -> U256 {
        U256::from(self.settings.heights.min_price(head))
    }

    /// Checks 1 to 6.
    fn check_form(
        &self,
        transaction: &Transaction,
        size: u64,
        head: &Header,
        senders: &Senders,
    ) -> Result<(), NativePoolRefusal> {
        let next = self.spec.signer_rules(head.number.saturating_add(1), head.timestamp);
        if !next.is_active(transaction.transaction_type()) {
            let is_early =
                transaction.transaction_type() == TransactionType::SetCode && self.settings.heights.prague.is_some();
            return Err(if is_early { NativePoolRefusal::TypeBeforePrague } else { NativePoolRefusal::Type });
        }
        if matches!(&transaction.payload, TransactionPayload::SetCode { authorization_list, .. } if authorization_list.is_empty())
        {
            return Err(NativePoolRefusal::NoAuthorizations);
        }
        if size > MAX_TRANSACTION_BYTES {
            return Err(NativePoolRefusal::Oversized);
        }
        if let Ok(sender) = senders.sender(&self.own_signer(transaction), transaction)
            && self.settings.is_denied(&sender, head.number)
        {
            return Err(NativePoolRefusal::DeniedSender(sender));
        }
        if let Some(receiver) = transaction.to.filter(|to| self.settings.is_denied(to, head.number)) {
            return Err(NativePoolRefusal::DeniedReceiver(receiver));
        }
        if transaction.gas_limit > head.gas_limit {
            return Err(NativePoolRefusal::BlockGasLimit);
        }
        if transaction.max_priority_fee_per_gas() > transaction.max_fee_per_gas() {
            return Err(NativePoolRefusal::TipAboveFeeCap);
        }
        Ok(())
    }

    /// The signer rules that accept this chain's id or none, regardless of the block's rules.
    fn permissive(&self) -> SignerRules {
        SignerRules {
            chain_id: self.spec.chain_id,
            high_s: HighS::Refused,
            replay_protection: true,
            highest_type: TransactionType::SetCode,
            allows_blobs: false,
        }
    }

    /// The signer rules of the chain id in the transaction, which may be another one (`docs/spec/chain.md` 2.3).
    fn own_signer(&self, transaction: &Transaction) -> SignerRules {
        SignerRules {
            chain_id: transaction.chain_id.unwrap_or(self.spec.chain_id),
            high_s: HighS::Refused,
            replay_protection: true,
            highest_type: TransactionType::SetCode,
            allows_blobs: false,
        }
    }

    /// Check 8, which the reference skips for transactions from its interfaces.
    fn check_price(&self, transaction: &Transaction, head: &Header, min_tip: U256) -> Result<(), NativePoolRefusal> {
        let is_underpriced = match self.spec.next_base_fee(head) {
            Some(base_fee) => transaction.max_fee_per_gas() < U256::from(base_fee),
            None => transaction.max_priority_fee_per_gas() < min_tip,
        };
        if is_underpriced { Err(NativePoolRefusal::Underpriced) } else { Ok(()) }
    }

    /// Checks 11 and 12: who pays, and how much.
    fn cost_and_priority(
        &self,
        transaction: &Transaction,
        sender: Address,
        is_special: bool,
        is_privileged: bool,
        head: &Head,
        state: &dyn StateReader,
    ) -> Result<CostAndPriority, PoolError> {
        let capacities = self.capacities(head.header.hash(), state)?;
        let sponsor = transaction.to.filter(|receiver| capacities.contains_key(receiver));
        if let Some(token) = sponsor
            && !tokens::can_pay_fee(sender, token, state)?
        {
            return Err(NativePoolRefusal::Funds.into());
        }
        let mut cost_and_priority = CostAndPriority { cost: U256::ZERO, sponsor, is_special, is_privileged };
        cost_and_priority.cost = cost(transaction, &cost_and_priority, self.gas_price(head.header.number), &capacities);
        Ok(cost_and_priority)
    }

    /// The amount that every registered token can pay after a block.
    fn capacities(&self, head: B256, state: &dyn StateReader) -> Result<Capacities, StoreError> {
        if let Some((_, capacities)) = self.capacities.lock().as_ref().filter(|(hash, _)| *hash == head) {
            return Ok(Arc::clone(capacities));
        }
        let capacities = Arc::new(tokens::capacities(self.settings.contracts.trc21_issuer, state)?);
        *self.capacities.lock() = Some((head, Arc::clone(&capacities)));
        Ok(capacities)
    }

    /// Checks 13 to 15.
    fn check_gas(&self, transaction: &Transaction, head: &Header) -> Result<(), NativePoolRefusal> {
        let has_lists = self.spec.has_base_fee(head.number.saturating_add(1));
        if transaction.gas_limit < native_intrinsic_gas(transaction, has_lists) {
            return Err(NativePoolRefusal::IntrinsicGas);
        }
        if self.settings.heights.is_prague(head.number.saturating_add(1)) {
            let (have, want) = (transaction.gas_limit, floor_gas(&transaction.input));
            if have < want {
                return Err(NativePoolRefusal::FloorGas { have, want });
            }
        }
        let price = transaction.max_fee_per_gas();
        if price.is_zero() {
            return Err(NativePoolRefusal::ZeroGasPrice);
        }
        if price < self.gas_price(head.number) {
            return Err(NativePoolRefusal::MinGasPrice);
        }
        Ok(())
    }
}

/// Maximum cost of a transaction to its sender, wei: the part that its token, which pays `price` per gas, does not
/// cover.
fn cost(
    transaction: &Transaction,
    cost_and_priority: &CostAndPriority,
    price: U256,
    capacities: &BTreeMap<Address, U256>,
) -> U256 {
    let gas = U256::from(transaction.gas_limit);
    match cost_and_priority.sponsor {
        None => gas.saturating_mul(transaction.max_fee_per_gas()).saturating_add(transaction.value),
        Some(token) => {
            let whole = gas.saturating_mul(price).saturating_add(transaction.value);
            whole.saturating_sub(capacities.get(&token).copied().unwrap_or_default())
        }
    }
}

#[cfg(test)]
mod tests;
