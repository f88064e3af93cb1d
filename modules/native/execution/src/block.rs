//! The native steps of a block, in order (`docs/spec/chain.md` 4.1).

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use revm::state::EvmState;
use tenon_api::{BlockNumber, Log, Transaction};
use tenon_chain::{ChainSpec, TrieUpdate};
use tenon_native_spec::NativeSettings;

use super::{
    addresses::{BLOCK_SIGNERS, as_text},
    exchange::{self, Prices},
    fees::FeeRules,
    history,
    interception::{Interception, log_of},
    precompiles::PriceRecords,
    sponsorship::Sponsorship,
    token_test,
};
use tenon_execution_interface::{
    AnyEvm, BlockContext, BlockOrigin, BlockState, Executed, ExecutionDecision, ExecutionError, FamilyBlock, Fees,
    Opening, StateError, TransactionRejection,
};

/// State kept between a block's transactions.
pub(super) struct NativeBlock {
    settings: Arc<NativeSettings>,
    number: u64,
    base_fee: Option<u64>,
    author: Address,
    owner: Address,
    sponsorship: Sponsorship,
    /// Whether the exchange's step was executed or deliberately skipped, so that the block's transactions need no check
    /// by the exchange.
    needs_no_exchange_check: bool,
    /// Changes of that step to the trading state.
    trading: Option<TrieUpdate>,
}

impl NativeBlock {
    /// Opens a block: the exchange, the sponsorships, the removal of the block signers' contract, the receiver of fees,
    /// the history contract.
    pub(super) fn open(
        spec: &ChainSpec,
        settings: &Arc<NativeSettings>,
        block: &Opening<'_>,
        evm: &mut AnyEvm<'_>,
    ) -> Result<Self, ExecutionError> {
        let (native, header, author) = (&**settings, block.header, block.author);
        let (needs_no_exchange_check, trading) = open_exchange(spec, native, block, evm)?;
        let state = &mut evm.context().journaled_state.database;
        let sponsorship = Sponsorship::read(native.contracts.trc21_issuer, state)?;
        if header.number == native.heights.tip_signing {
            state.remove_account(BLOCK_SIGNERS)?;
        }
        let owner = tenon_chain::masternode_owner(author, |contract, slot| state.read_slot(contract, slot.into()))?;
        if native.heights.is_prague(header.number) && header.number > 0 {
            history::store_parent_hash(evm, header)?;
        }
        Ok(Self {
            settings: Arc::clone(settings),
            number: header.number,
            base_fee: header.base_fee_per_gas,
            author,
            owner,
            sponsorship,
            needs_no_exchange_check,
            trading,
        })
    }

    /// Reads the author's owner again before each transaction, on chains where the later program does so
    /// (`docs/spec/upgrades.md` 9.1). v2.7.0 reads it once per block, so a registration in the block does not affect
    /// later fees of that block.
    fn refresh_owner(&mut self, state: &mut BlockState) -> Result<(), StateError> {
        if self.settings.heights.is_later_program(self.number) {
            self.owner =
                tenon_chain::masternode_owner(self.author, |contract, slot| state.read_slot(contract, slot.into()))?;
        }
        Ok(())
    }

    fn fee_rules(&self, owner: Address) -> FeeRules<'_> {
        let Self { number, base_fee, author, .. } = *self;
        FeeRules { heights: &self.settings.heights, number, base_fee, author, owner }
    }

    /// `docs/spec/chain.md` 3.7.
    fn check_denylist(&self, transaction: &Transaction, sender: Address) -> Result<(), TransactionRejection> {
        let refused = |role: &str, address| {
            let text = format!("block contains transaction with {role} in black-list: {}", as_text(address));
            Err(TransactionRejection::Rule(text))
        };
        let native = &*self.settings;
        if native.is_denied(&sender, self.number) {
            return refused("sender", sender);
        }
        match transaction.to.filter(|receiver| native.is_denied(receiver, self.number)) {
            Some(receiver) => refused("receiver", receiver),
            None => Ok(()),
        }
    }
}

impl FamilyBlock for NativeBlock {
    /// `docs/spec/chain.md` 3.2.
    fn decide_execution(
        &mut self,
        transaction: &Transaction,
        sender: Address,
        evm: &mut AnyEvm<'_>,
    ) -> Result<ExecutionDecision, TransactionRejection> {
        let state = &mut evm.context().journaled_state.database;
        self.refresh_owner(state).map_err(|StateError(error)| error)?;
        self.check_denylist(transaction, sender)?;
        if !self.needs_no_exchange_check {
            exchange::check_transaction(&self.settings, self.number, self.author, transaction, sender)?;
        }
        if Interception::of(transaction, &self.settings.heights, self.number).is_some() {
            return Ok(ExecutionDecision::Intercepted);
        }
        let fees = self.fee_rules(self.owner).fees(transaction, self.sponsorship.capacity(transaction.to))?;
        if let Some(candidate) = token_test::candidate(&self.settings, self.number, transaction) {
            candidate.try_out(evm)?;
        }
        Ok(ExecutionDecision::Executed(Some(fees)))
    }

    /// The usual fees, but as if the author had no owner.
    fn message_fees(&self, transaction: &Transaction) -> Result<Option<Fees>, TransactionRejection> {
        self.fee_rules(Address::ZERO).fees(transaction, self.sponsorship.capacity(transaction.to)).map(Some)
    }

    fn before_execution(&self, context: &mut BlockContext) -> Result<(), StateError> {
        self.sponsorship.show_failure_charge(context)
    }

    fn before_commit(&mut self, after: &EvmState, state: &mut BlockState) -> Result<(), StateError> {
        Ok(self.sponsorship.settle_failure_charge(after, state)?)
    }

    /// Charges the fee of an executed transaction to its sponsor.
    fn after_execution(&mut self, done: &Executed<'_>, state: &mut BlockState) -> Result<(), StateError> {
        let Executed { fees, sender, gas_used, has_succeeded } = *done;
        let Some(token) = fees.sponsor else { return Ok(()) };
        self.sponsorship.spend(token, fees.sponsored_cost(gas_used));
        if !has_succeeded {
            self.sponsorship.charge_failure(token, sender, state)?;
        }
        Ok(())
    }

    fn apply_intercepted(
        &mut self,
        transaction: &Transaction,
        sender: Address,
        state: &mut BlockState,
    ) -> Result<Vec<Log>, TransactionRejection> {
        if let Some(interception) = Interception::of(transaction, &self.settings.heights, self.number) {
            interception.apply(transaction, sender, state)?;
        }
        Ok(vec![log_of(transaction)])
    }

    fn finalise(&mut self, state: &mut BlockState) -> Result<(), StateError> {
        Ok(self.sponsorship.finalise(state)?)
    }

    /// Returns the changes of the trading state.
    ///
    /// # Errors
    /// [`ExecutionError::Unsupported`] if the issuer paid more than it holds: the reference would give it a negative
    /// balance.
    fn close(mut self: Box<Self>, state: &mut BlockState) -> Result<Option<TrieUpdate>, ExecutionError> {
        let number = BlockNumber(self.number);
        let unpaid = |lacking: U256| ExecutionError::Unsupported {
            number,
            what: format!(
                "a sponsorship that paid {lacking} wei more than its contract holds (docs/spec/chain.md 3.5)"
            ),
        };
        self.sponsorship.write_back(state)?.map_err(unpaid)?;
        Ok(self.trading)
    }
}

/// Executes the exchange's step, or checks that the block needs none. Returns whether the exchange's checks of its
/// transactions can be skipped, and the changes of the trading state.
fn open_exchange(
    spec: &ChainSpec,
    native: &NativeSettings,
    block: &Opening<'_>,
    evm: &mut AnyEvm<'_>,
) -> Result<(bool, Option<TrieUpdate>), ExecutionError> {
    let Opening { header, author, origin } = *block;
    let in_block = |error| exchange::in_block(header.number.into(), error);
    let input = match origin {
        BlockOrigin::Simulated => return Ok((true, None)),
        BlockOrigin::Replayed { chain, engine, parent } => {
            let prices = Prices::of_replay(native, chain, engine, parent);
            evm.precompiled().set_records(prices.map(|prices| Arc::new(PriceRecords(prices)) as _));
            return Ok((true, None));
        }
        BlockOrigin::Header => None,
        BlockOrigin::Whole { chain, engine, block, parent } => {
            exchange::Opening::of(spec, chain, engine, block, author, parent).map_err(in_block)?
        }
    };
    let Some(input) = input else {
        exchange::check_block(native, header, evm)?;
        return Ok((false, None));
    };
    let applied = input.apply(native, header, author, &mut exchange::OpenedBlock(evm));
    let (trading, prices) = applied.map_err(in_block)?;
    evm.precompiled().set_records(Some(Arc::new(PriceRecords(prices))));
    Ok((true, Some(trading)))
}
