//! The decisions of a chain family about execution: the rules of a block, the steps that open and close it, the
//! treatment of each transaction, and the payer and receiver of its fees.
//!
//! The steps of a block (`modules/execution/block/src/execution.rs`) are the same for every family. They ask the
//! [`ChainFamily`], which is chosen once for a chain, and the [`FamilyBlock`] that it opens for each block. Both are
//! trait objects: a block costs one allocation and a transaction a few indirect calls, which is little compared to the
//! microseconds of execution. Transactions without [`Fees`] of their own run in the EVM directly.

mod ethereum;
mod fees;

use std::{marker::PhantomData, sync::Arc};

use alloy_primitives::Address;
use revm::{
    Inspector,
    context::{
        BlockEnv, ContextSetters, ContextTr, TxEnv,
        result::{ExecResultAndState, ExecutionResult, HaltReason},
    },
    handler::{Handler, pre_execution::apply_eip7702_auth_list},
    interpreter::{GasTracker, interpreter::EthInterpreter},
    state::EvmState,
};
use tenon_api::{ChainReader, ConsensusEngine, Header, Log, RecoveredBlock, SealedHeader, Transaction};
use tenon_chain::{ChainSpec, TrieUpdate};

use crate::{
    AnyEvm, BlockContext, BlockEvm, BlockRules, BlockState, EvmFailure, ExecutionError, StateError,
    TransactionRejection, transaction_env,
};

pub use ethereum::EthereumFamily;
pub use fees::{Fees, OwnPrices, effective_price};

/// The EVM's result of a transaction.
pub type Outcome = ExecResultAndState<ExecutionResult, EvmState>;

/// The rules of one chain in which families differ.
pub trait ChainFamily: Send + Sync {
    /// The chain's forks and constants.
    fn spec(&self) -> &Arc<ChainSpec>;

    /// The rules of a block with this header.
    ///
    /// # Errors
    /// The header lacks an item of its fork, or the schedule mixes rules in a way that is not supported.
    fn rules(&self, header: &Header) -> Result<BlockRules, ExecutionError>;

    /// The block environment that instructions read.
    fn block_env(&self, rules: &BlockRules, header: &Header, author: Address) -> BlockEnv;

    /// Opens a block: everything that comes before its first transaction and is not a call of a system contract.
    ///
    /// # Errors
    /// The block is invalid, needs a rule that is not supported, or the database failed.
    fn open(&self, block: &Opening<'_>, evm: &mut AnyEvm<'_>) -> Result<Box<dyn FamilyBlock>, ExecutionError>;

    /// Converts a signed transaction for the EVM.
    ///
    /// # Errors
    /// [`TransactionRejection`]: the rule that it breaks for any state.
    fn transaction_env(&self, transaction: &Transaction, sender: Address) -> Result<TxEnv, TransactionRejection> {
        transaction_env(transaction, sender)
    }

    /// Runs a transaction that pays these fees. The provided method is for families without fees of their own: it runs the
    /// transaction like Ethereum.
    ///
    /// # Errors
    /// It is not valid, the run was interrupted, or the state could not be read.
    fn transact(&self, evm: &mut AnyEvm<'_>, transaction: TxEnv, _fees: &Fees) -> Result<Outcome, EvmFailure> {
        run_like_ethereum(evm, transaction)
    }

    /// Adds the items that the fork requires to the header of a new block.
    fn complete_draft(&self, _header: &mut Header, _parent: &SealedHeader) {}

    /// How the blocks of a new canonical branch are announced.
    fn branch_announcement(&self) -> BranchAnnouncement {
        BranchAnnouncement::BlockByBlock
    }
}

/// How the blocks of a new canonical branch are announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchAnnouncement {
    /// Every block is a new head; removed logs are published block by block, from the newest on.
    BlockByBlock,
    /// Only the newest block is a new head. Its logs are published twice: with those of the branch, and with the head.
    /// Removed logs are published together, from the oldest on (`docs/spec/rpc-eth.md` 14.3).
    NewestOnly,
}

/// A block to be opened.
pub struct Opening<'a> {
    /// Its header.
    pub header: &'a Header,
    /// Receiver of its rewards.
    pub author: Address,
    /// Its origin.
    pub origin: BlockOrigin<'a>,
}

/// The origin of a block that is opened.
#[derive(Clone, Copy)]
pub enum BlockOrigin<'a> {
    /// A whole block over its parent: every opening step is executed.
    Whole {
        /// The chain below.
        chain: &'a dyn ChainReader,
        /// Its engine.
        engine: &'a dyn ConsensusEngine,
        /// The block.
        block: &'a RecoveredBlock,
        /// Its parent.
        parent: &'a SealedHeader,
    },
    /// A header alone, of a new block or of a single transaction. Steps that depend on the block's transactions are not
    /// executed; a block that needs such a step is refused.
    Header,
    /// A block that is replayed for a trace. Steps that depend on the block's transactions are skipped, as by the
    /// reference, and nothing is refused.
    Replayed {
        /// The chain below.
        chain: &'a Arc<dyn ChainReader>,
        /// Its engine.
        engine: &'a Arc<dyn ConsensusEngine>,
        /// The block's parent.
        parent: &'a SealedHeader,
    },
    /// A simulated block. Steps that depend on the block's transactions are skipped, and nothing is refused.
    Simulated,
}

/// Whether the EVM runs a transaction, and with which fees.
pub enum ExecutionDecision {
    /// It is not executed in the EVM, but by [`FamilyBlock::apply_intercepted`].
    Intercepted,
    /// It runs in the EVM, with these fees; as on Ethereum if `None`.
    Executed(Option<Fees>),
}

/// State that a family keeps between the transactions of one block. The provided methods are Ethereum's and do nothing.
pub trait FamilyBlock: Send {
    /// Checks the next transaction by the family's rules, and decides how it is executed.
    ///
    /// # Errors
    /// [`TransactionRejection`]: the transaction would make the block invalid, or this node cannot check it.
    fn decide_execution(
        &mut self,
        _transaction: &Transaction,
        _sender: Address,
        _evm: &mut AnyEvm<'_>,
    ) -> Result<ExecutionDecision, TransactionRejection> {
        Ok(ExecutionDecision::Executed(None))
    }

    /// The fees of the next transaction when traced as a message.
    ///
    /// # Errors
    /// See [`FamilyBlock::decide_execution`].
    fn message_fees(&self, _transaction: &Transaction) -> Result<Option<Fees>, TransactionRejection> {
        Ok(None)
    }

    /// Prepares the EVM's state for the next executed transaction.
    ///
    /// # Errors
    /// The database failed.
    fn before_execution(&self, _context: &mut BlockContext) -> Result<(), StateError> {
        Ok(())
    }

    /// Applies what the previous transaction deferred. Called before the changes of this transaction are committed.
    ///
    /// # Errors
    /// The database failed.
    fn before_commit(&mut self, _after: &EvmState, _state: &mut BlockState) -> Result<(), StateError> {
        Ok(())
    }

    /// Charges what an executed transaction owes in addition to its gas; called after its changes are committed.
    ///
    /// # Errors
    /// The database failed.
    fn after_execution(&mut self, _done: &Executed<'_>, _state: &mut BlockState) -> Result<(), StateError> {
        Ok(())
    }

    /// Applies an intercepted transaction; returns the logs of its receipt.
    ///
    /// # Errors
    /// See [`FamilyBlock::decide_execution`].
    fn apply_intercepted(
        &mut self,
        _transaction: &Transaction,
        _sender: Address,
        _state: &mut BlockState,
    ) -> Result<Vec<Log>, TransactionRejection> {
        Ok(Vec::new())
    }

    /// Applies deferred changes without waiting for the next transaction.
    ///
    /// # Errors
    /// The database failed.
    fn finalise(&mut self, _state: &mut BlockState) -> Result<(), StateError> {
        Ok(())
    }

    /// Ends the block, before rewards; returns the changes of an additional trie.
    ///
    /// # Errors
    /// The block needs something that is not supported, or the database failed.
    fn close(self: Box<Self>, _state: &mut BlockState) -> Result<Option<TrieUpdate>, ExecutionError> {
        Ok(None)
    }
}

/// A transaction that was executed.
pub struct Executed<'a> {
    /// The fees that were paid.
    pub fees: &'a Fees,
    /// Its sender.
    pub sender: Address,
    /// Gas that it used.
    pub gas_used: u64,
    /// Whether its outermost frame succeeded.
    pub has_succeeded: bool,
}

/// Runs a message by Ethereum's rules.
pub fn run_like_ethereum(evm: &mut AnyEvm<'_>, message: TxEnv) -> Result<Outcome, EvmFailure> {
    run_with(EthereumHandler(PhantomData), evm, message)
}

/// Ethereum's rules.
struct EthereumHandler<'e>(PhantomData<AnyEvm<'e>>);

impl<'e> Handler for EthereumHandler<'e> {
    type Evm = AnyEvm<'e>;
    type Error = EvmFailure;
    type HaltReason = HaltReason;

    fn apply_eip7702_auth_list(&self, evm: &mut Self::Evm, gas: &mut GasTracker) -> Result<Option<u64>, EvmFailure> {
        apply_authorizations(evm, gas)
    }
}

/// Applies the authorizations of a set-code transaction, as the EVM does. Tracers see their refund from the first
/// instruction on, as in go-ethereum's `applyAuthorization`.
///
/// # Errors
/// The database failed.
pub fn apply_authorizations(evm: &mut AnyEvm<'_>, gas: &mut GasTracker) -> Result<Option<u64>, EvmFailure> {
    let refund = apply_eip7702_auth_list::<_, EvmFailure>(evm.context(), gas)?;
    evm.context().db_mut().set_first_refund(refund.unwrap_or_default());
    Ok(refund)
}

/// Runs a message by the rules of a handler.
///
/// # Errors
/// It is not valid, the run was interrupted, or the state could not be read.
pub fn run_with<'a, H>(mut handler: H, evm: &mut AnyEvm<'a>, message: TxEnv) -> Result<Outcome, EvmFailure>
where
    H: Handler<Evm = AnyEvm<'a>, Error = EvmFailure, HaltReason = HaltReason>,
{
    evm.context().set_tx(message);
    let result = handler.run(evm);
    // Taken after a failure too: the journal must not keep changes of this message for the next one.
    let state = evm.take_changes();
    Ok(ExecResultAndState::new(result?, state))
}

/// Runs a transaction with these fees; like Ethereum if `None`.
pub fn transact<I>(
    family: &dyn ChainFamily,
    evm: &mut BlockEvm<I>,
    transaction: TxEnv,
    fees: Option<&Fees>,
) -> Result<Outcome, EvmFailure> {
    use revm::ExecuteEvm;
    match fees {
        None => evm.transact(transaction),
        Some(fees) => family.transact(&mut AnyEvm::plain(evm), transaction, fees),
    }
}

/// Like [`transact`], with the EVM's inspector.
pub fn inspect<I: Inspector<BlockContext, EthInterpreter>>(
    family: &dyn ChainFamily,
    evm: &mut BlockEvm<I>,
    transaction: TxEnv,
    fees: Option<&Fees>,
) -> Result<Outcome, EvmFailure> {
    AnyEvm::with_inspected(evm, |evm| match fees {
        None => run_like_ethereum(evm, transaction),
        Some(fees) => family.transact(evm, transaction, fees),
    })
}
