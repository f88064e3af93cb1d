//! The native steps of a block, in order (`docs/spec/chain.md` 4.1).

use std::sync::Arc;

use alloy_primitives::{Address, U256};
use revm::state::EvmState;
use tenon_api::{BlockNumber, Header, Transaction};
use tenon_chain::{ChainSpec, NativeSettings, TrieUpdate};

use super::{
    Candidate, Fees, Interception,
    addresses::{BLOCK_SIGNERS, as_text},
    exchange,
    fees::FeeRules,
    history,
    sponsorship::Sponsorship,
    token_test,
};
use crate::{
    ExecutionError,
    block::{BlockContext, BlockEvm, BlockState, StateError},
    error::TransactionRejection,
};

/// State kept between a block's transactions.
pub(crate) struct NativeBlock {
    settings: Arc<ChainSpec>,
    number: u64,
    base_fee: Option<u64>,
    author: Address,
    owner: Address,
    sponsorship: Sponsorship,
    /// Whether the exchange's step was executed or deliberately skipped, so that its transactions need no check.
    needs_no_judgement: bool,
    /// Changes of that step to the trading state.
    trading: Option<TrieUpdate>,
}

/// Treatment of a transaction.
pub(crate) enum Treatment {
    /// Not executed.
    Intercepted(Interception),
    /// Executed, with these fees; as on Ethereum if `None`.
    Executed(Option<Fees>),
}

impl NativeBlock {
    /// Opens a block of a native chain: the exchange, the sponsorships, the removal of the block signers' contract, the
    /// receiver of fees, the history contract. `None` on other chains.
    pub(crate) fn open<I>(
        spec: &Arc<ChainSpec>,
        header: &Header,
        author: Address,
        evm: &mut BlockEvm<I>,
        exchange: exchange::Step,
    ) -> Result<Option<Self>, ExecutionError> {
        let Some(native) = &spec.native else { return Ok(None) };
        let (needs_no_judgement, trading) = match exchange {
            exchange::Step::Taken(Some(opening)) => {
                let mut opened = exchange::OpenedBlock(evm);
                let applied = opening.apply(native, header, author, &mut opened);
                let (trading, prices) = applied.map_err(|error| exchange::in_block(header.number.into(), error))?;
                evm.precompiles.set_prices(Some(prices));
                (true, Some(trading))
            }
            exchange::Step::Taken(None) => {
                exchange::check_block(native, header, evm)?;
                (false, None)
            }
            exchange::Step::Skipped => (true, None),
        };
        let state = &mut evm.ctx.journaled_state.database;
        let sponsorship = Sponsorship::read(native.contracts.trc21_issuer, state)?;
        if header.number == native.heights.tip_signing {
            state.remove_account(BLOCK_SIGNERS)?;
        }
        let owner = tenon_chain::masternode_owner(author, |contract, slot| state.read_slot(contract, slot.into()))?;
        if native.heights.is_prague(header.number) && header.number > 0 {
            history::store_parent_hash(evm, header)?;
        }
        Ok(Some(Self {
            settings: Arc::clone(spec),
            number: header.number,
            base_fee: header.base_fee_per_gas,
            author,
            owner,
            sponsorship,
            needs_no_judgement,
            trading,
        }))
    }

    /// Reads the author's owner again, before each transaction, where the later program does (`docs/spec/upgrades.md` 9.1).
    /// v2.7.0 reads it once: then a registration in the block has no effect on its later fees.
    pub(crate) fn refresh_owner(&mut self, state: &mut BlockState) -> Result<(), StateError> {
        let is_read_again =
            self.settings.native.as_ref().is_some_and(|native| native.heights.is_later_program(self.number));
        if is_read_again {
            self.owner =
                tenon_chain::masternode_owner(self.author, |contract, slot| state.read_slot(contract, slot.into()))?;
        }
        Ok(())
    }

    /// Decides the treatment of the next transaction (`docs/spec/chain.md` 3.2).
    ///
    /// # Errors
    /// [`TransactionRejection`]: the transaction would make the block invalid, or this node cannot check it.
    pub(crate) fn treat(&self, transaction: &Transaction, sender: Address) -> Result<Treatment, TransactionRejection> {
        let Some(native) = &self.settings.native else { return Ok(Treatment::Executed(None)) };
        self.check_denylist(native, transaction, sender)?;
        if !self.needs_no_judgement {
            exchange::check_transaction(native, self.number, self.author, transaction, sender)?;
        }
        if let Some(interception) = Interception::of(transaction, &native.heights, self.number) {
            return Ok(Treatment::Intercepted(interception));
        }
        let rules = self.fee_rules(native, self.owner);
        let fees = rules.fees(transaction, self.sponsorship.capacity(transaction.to))?;
        Ok(Treatment::Executed(Some(fees)))
    }

    /// The fees of the next transaction when traced as a message: the usual ones, but without an owner of the author.
    ///
    /// # Errors
    /// See [`NativeBlock::treat`].
    pub(crate) fn message_fees(&self, transaction: &Transaction) -> Result<Fees, TransactionRejection> {
        let Some(native) = &self.settings.native else { return Ok(Fees::BURNED) };
        let rules = self.fee_rules(native, Address::ZERO);
        rules.fees(transaction, self.sponsorship.capacity(transaction.to))
    }

    const fn fee_rules<'a>(&self, native: &'a NativeSettings, owner: Address) -> FeeRules<'a> {
        FeeRules { heights: &native.heights, number: self.number, base_fee: self.base_fee, author: self.author, owner }
    }

    /// The token to be tested before the next transaction; usually `None`.
    pub(crate) fn token_to_try(&self, transaction: &Transaction) -> Option<Candidate> {
        token_test::candidate(self.settings.native.as_ref()?, self.number, transaction)
    }

    /// `docs/spec/chain.md` 3.7.
    fn check_denylist(
        &self,
        native: &NativeSettings,
        transaction: &Transaction,
        sender: Address,
    ) -> Result<(), TransactionRejection> {
        let refused = |role: &str, address| {
            let text = format!("block contains transaction with {role} in black-list: {}", as_text(address));
            Err(TransactionRejection::Rule(text))
        };
        if native.is_denied(&sender, self.number) {
            return refused("sender", sender);
        }
        match transaction.to.filter(|receiver| native.is_denied(receiver, self.number)) {
            Some(receiver) => refused("receiver", receiver),
            None => Ok(()),
        }
    }

    /// Prepares the EVM's state for the next executed transaction.
    pub(crate) fn before_execution(&self, context: &mut BlockContext) -> Result<(), StateError> {
        self.sponsorship.show_failure_charge(context)
    }

    /// Completes what the previous transaction left open; called before the changes of this one are committed.
    pub(crate) fn before_commit(&mut self, after: &EvmState, state: &mut BlockState) -> Result<(), StateError> {
        Ok(self.sponsorship.settle_failure_charge(after, state)?)
    }

    /// Charges the fee of an executed transaction to its sponsor.
    pub(crate) fn after_execution(
        &mut self,
        fees: &Fees,
        sender: Address,
        gas_used: u64,
        has_succeeded: bool,
        state: &mut BlockState,
    ) -> Result<(), StateError> {
        let Some(token) = fees.sponsor else { return Ok(()) };
        self.sponsorship.spend(token, fees.sponsored_cost(gas_used));
        if !has_succeeded {
            self.sponsorship.charge_failure(token, sender, state)?;
        }
        Ok(())
    }

    /// Writes everything that is deferred to the next transaction.
    pub(crate) fn finalise(&mut self, state: &mut BlockState) -> Result<(), StateError> {
        Ok(self.sponsorship.finalise(state)?)
    }

    /// Ends the block, before rewards; returns the changes of the trading state.
    ///
    /// # Errors
    /// [`ExecutionError::Unsupported`] if the issuer paid more than it holds: the reference would give it a negative
    /// balance.
    pub(crate) fn close(mut self, state: &mut BlockState) -> Result<Option<TrieUpdate>, ExecutionError> {
        let number = BlockNumber(self.number);
        let unpaid = |lacking: U256| ExecutionError::Unsupported {
            number,
            what: format!("a sponsorship that paid {lacking} wei more than its contract holds (spec/chain.md 3.5)"),
        };
        self.sponsorship.write_back(state)?.map_err(unpaid)?;
        Ok(self.trading)
    }
}
