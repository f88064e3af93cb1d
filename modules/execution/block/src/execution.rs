//! The steps of a block, in order, over a state owned by the block.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bloom, Bytes, U256};
use revm::{
    DatabaseCommit,
    context::{ContextTr, TxEnv, result::ExecutionResult},
};
use tenon_api::{
    AccountChange, Block, BlockNumber, BlockRewards, Header, Log, Receipt, ReceiptOutcome, Transaction,
    TransactionType, TrieReader,
};
use tenon_chain::TrieUpdate;
use tenon_execution_interface::{
    AnyEvm, BlockEvm, BlockOrigin, BlockRules, BlockState, ChainFamily, EvmFailure, Executed, ExecutionDecision,
    ExecutionError, FamilyBlock, Fees, Interrupt, Opening, Outcome, OwnFailure, RequestRules, StateError,
    TransactionRejection, build_evm, system_call, transact,
};

use crate::{dao_fork, requests::Requests};

/// A block being executed. Used to execute blocks of the chain, to build new ones, and to restore the state before a
/// traced transaction.
pub struct BlockExecution<I = ()> {
    rules: BlockRules,
    number: BlockNumber,
    evm: BlockEvm<I>,
    receipts: Vec<Receipt>,
    gas_used: u64,
    blob_gas_used: u64,
    family: Arc<dyn ChainFamily>,
    /// The steps of the chain's family, and the state that it keeps in this block.
    steps: Box<dyn FamilyBlock>,
    /// Source of state roots after single transactions, for receipts before Byzantium.
    trie: Option<(Arc<dyn TrieReader>, B256)>,
}

/// A transaction that has been checked and may run.
#[allow(clippy::large_enum_variant, reason = "taken apart where it is made; a box would cost an allocation each")]
pub enum Prepared {
    /// It is handled without the EVM.
    Intercepted,
    /// It runs in the EVM.
    Executed {
        /// The EVM's transaction.
        env: TxEnv,
        /// How fees are paid, if not as on Ethereum.
        fees: Option<Fees>,
        /// Its blob gas.
        blob_gas: u64,
    },
}

/// The result of a complete block.
pub struct BlockOutcome {
    /// The receipts of its transactions.
    pub receipts: Vec<Receipt>,
    /// Gas that all transactions used.
    pub gas_used: u64,
    /// Blob gas of all transactions.
    pub blob_gas_used: u64,
    /// Hash of the requests to the consensus layer (EIP-7685); `None` before its fork.
    pub requests_hash: Option<B256>,
    /// The state after the block.
    pub state: BlockState,
    /// Changes of an additional trie of the chain's family.
    pub extra_trie: Option<TrieUpdate>,
}

/// The header's values that depend on receipts.
pub struct BlockResults {
    /// Root of the receipts' trie.
    pub receipts_root: B256,
    /// Bloom filter of all logs.
    pub logs_bloom: Bloom,
}

impl BlockOutcome {
    /// The expected header values for this block's receipts.
    pub fn results(&self) -> BlockResults {
        let (receipts_root, logs_bloom) = tenon_chain::receipts_root_and_bloom(&self.receipts);
        BlockResults { receipts_root, logs_bloom }
    }
}

impl BlockExecution<()> {
    /// Begins a block with the steps before its first transaction.
    ///
    /// # Errors
    /// [`ExecutionError`] if a system call fails, or the state cannot be read.
    pub fn begin(
        family: &Arc<dyn ChainFamily>,
        header: &Header,
        author: Address,
        state: BlockState,
        trie: (Arc<dyn TrieReader>, B256),
        origin: BlockOrigin<'_>,
    ) -> Result<Self, ExecutionError> {
        let mut execution = Self::watched(family, header, author, state, Interrupt::never(), (), origin)?;
        execution.set_receipt_root_base(trie.0, trie.1);
        execution.run_opening_calls()?;
        Ok(execution)
    }
}

impl<I> BlockExecution<I> {
    /// Begins a block with an inspector. The system contracts are not called yet; see [`Self::run_opening_calls`].
    pub fn watched(
        family: &Arc<dyn ChainFamily>,
        header: &Header,
        author: Address,
        mut state: BlockState,
        interrupt: Interrupt,
        inspector: I,
        origin: BlockOrigin<'_>,
    ) -> Result<Self, ExecutionError> {
        let rules = family.rules(header)?;
        let block = family.block_env(&rules, header, author);
        if rules.moves_dao_balances {
            dao_fork::move_balances(&mut state)?;
        }
        if rules.tracks_empty_accounts {
            state.track_empty_accounts(rules.clears_empty_accounts);
        }
        let mut evm = build_evm(&rules, block, state, interrupt, inspector);
        let steps = family.open(&Opening { header, author, origin }, &mut AnyEvm::plain(&mut evm))?;
        let (family, number) = (Arc::clone(family), BlockNumber(header.number));
        Ok(Self { rules, number, evm, receipts: Vec::new(), gas_used: 0, blob_gas_used: 0, family, steps, trie: None })
    }

    /// Calls the system contracts at the start of a block. A failed call changes nothing and does not invalidate the
    /// block (EIP-4788, EIP-2935).
    ///
    /// # Errors
    /// [`ExecutionError::Store`]: the state cannot be read. [`ExecutionError::Unsupported`]: this node has no result.
    pub fn run_opening_calls(&mut self) -> Result<(), ExecutionError> {
        for (contract, input) in self.rules.opening_calls.clone() {
            match system_call(&mut AnyEvm::plain(&mut self.evm), contract, input) {
                Ok(_) => {}
                Err(failure) => {
                    let failure = self.unless_own(failure)?;
                    tracing::debug!(number = %self.number, %contract, %failure, "opening system call failed");
                }
            }
        }
        Ok(())
    }

    /// Executes the next transaction and adds its receipt.
    ///
    /// # Errors
    /// [`TransactionRejection`]: the transaction is not valid here, and nothing has changed. After
    /// [`TransactionRejection::Store`] and [`TransactionRejection::Trie`] its validity is unknown, and the caller must
    /// drop the execution: the transaction may have changed the state without getting a receipt.
    pub fn run_transaction(&mut self, transaction: &Transaction, sender: Address) -> Result<(), TransactionRejection> {
        match self.prepare(transaction, sender)? {
            Prepared::Intercepted => self.intercept(transaction, sender),
            Prepared::Executed { env, fees, blob_gas } => {
                let outcome = transact(&*self.family, &mut self.evm, env, fees.as_ref())
                    .map_err(|failure| rejection(failure, &self.evm.ctx.chain))?;
                self.complete(transaction, sender, fees.as_ref(), blob_gas, outcome)
            }
        }
    }

    /// Does the checks before execution, and returns how to run the next transaction. The caller must pass the result
    /// to [`BlockExecution::complete`].
    ///
    /// # Errors
    /// See [`BlockExecution::run_transaction`].
    pub fn prepare(&mut self, transaction: &Transaction, sender: Address) -> Result<Prepared, TransactionRejection> {
        let fees = match self.steps.decide_execution(transaction, sender, &mut AnyEvm::plain(&mut self.evm))? {
            ExecutionDecision::Intercepted => return Ok(Prepared::Intercepted),
            ExecutionDecision::Executed(fees) => fees,
        };
        let blob_gas = self.check_room(transaction)?;
        let env = self.env_of(transaction, sender)?;
        let env = match &fees {
            Some(fees) => fees.priced(env),
            None => env,
        };
        self.steps.before_execution(&mut self.evm.ctx).map_err(|StateError(error)| error)?;
        Ok(Prepared::Executed { env, fees, blob_gas })
    }

    /// Prepares the next transaction as a message, even if the block would handle it without the EVM. The reference
    /// traces transactions in this way ([`FamilyBlock::message_fees`]).
    ///
    /// # Errors
    /// See [`BlockExecution::run_transaction`].
    pub fn prepare_message(
        &mut self,
        transaction: &Transaction,
        sender: Address,
    ) -> Result<(TxEnv, Option<Fees>), TransactionRejection> {
        let fees = self.steps.message_fees(transaction)?;
        let env = self.env_of(transaction, sender)?;
        self.steps.before_execution(&mut self.evm.ctx).map_err(|StateError(error)| error)?;
        Ok((fees.as_ref().map_or_else(|| env.clone(), |fees| fees.priced(env.clone())), fees))
    }

    /// Applies the outcome of a message that [`BlockExecution::prepare_message`] prepared, without a receipt.
    ///
    /// # Errors
    /// The database failed.
    pub fn apply_message(&mut self, outcome: Outcome) -> Result<(), StateError> {
        self.steps.before_commit(&outcome.state, self.evm.ctx.db_mut())?;
        self.evm.ctx.db_mut().commit(outcome.state);
        Ok(())
    }

    fn env_of(&self, transaction: &Transaction, sender: Address) -> Result<TxEnv, TransactionRejection> {
        self.family.transaction_env(transaction, sender)
    }

    /// Applies the outcome of an executed transaction, and adds its receipt.
    pub fn complete(
        &mut self,
        transaction: &Transaction,
        sender: Address,
        fees: Option<&Fees>,
        blob_gas: u64,
        outcome: Outcome,
    ) -> Result<(), TransactionRejection> {
        let (gas_used, has_succeeded) = (outcome.result.tx_gas_used(), outcome.result.is_success());
        let lost = |StateError(error)| TransactionRejection::Store(error);
        self.steps.before_commit(&outcome.state, self.evm.ctx.db_mut()).map_err(lost)?;
        self.evm.ctx.db_mut().commit(outcome.state);
        self.keep_receipt(transaction.transaction_type(), outcome.result, blob_gas)?;
        if let Some(fees) = fees {
            let done = Executed { fees, sender, gas_used, has_succeeded };
            self.steps.after_execution(&done, self.evm.ctx.db_mut()).map_err(lost)?;
        }
        Ok(())
    }

    /// Executes an intercepted transaction. Its receipt has no type, even if the transaction has one
    /// (`docs/spec/chain.md` 2.6).
    fn intercept(&mut self, transaction: &Transaction, sender: Address) -> Result<(), TransactionRejection> {
        self.steps.finalise(self.evm.ctx.db_mut()).map_err(|StateError(error)| error)?;
        let outcome = self.outcome(true)?;
        let logs = self.steps.apply_intercepted(transaction, sender, self.evm.ctx.db_mut())?;
        self.receipts.push(Receipt {
            transaction_type: TransactionType::Legacy,
            outcome,
            cumulative_gas_used: self.gas_used,
            gas_used: 0,
            logs,
        });
        Ok(())
    }

    /// Sets the trie and root from which state roots in receipts before Byzantium are computed.
    pub fn set_receipt_root_base(&mut self, trie: Arc<dyn TrieReader>, parent_root: B256) {
        self.trie = Some((trie, parent_root));
    }

    /// The EVM between two transactions.
    pub const fn evm_mut(&mut self) -> &mut BlockEvm<I> {
        &mut self.evm
    }

    /// The state after the transactions so far.
    pub fn into_state(mut self) -> Result<BlockState, StateError> {
        self.steps.finalise(self.evm.ctx.db_mut())?;
        Ok(self.evm.ctx.journaled_state.database)
    }

    /// The newest receipt, and the state after its transaction.
    pub(crate) fn into_last_receipt_and_state(mut self) -> Result<(Option<Receipt>, BlockState), StateError> {
        Ok((self.receipts.pop(), self.into_state()?))
    }

    /// The receipts so far.
    pub fn receipts(&self) -> &[Receipt] {
        &self.receipts
    }

    /// Remaining gas of the block.
    pub fn gas_left(&self) -> u64 {
        self.evm.ctx.block.gas_limit.saturating_sub(self.gas_used)
    }

    /// Returns whether touched empty accounts are deleted.
    pub const fn clears_empty_accounts(&self) -> bool {
        self.rules.clears_empty_accounts
    }

    /// Maximum RLP size of the block, bytes.
    pub const fn max_block_bytes(&self) -> u64 {
        self.rules.max_block_bytes
    }

    fn check_room(&self, transaction: &Transaction) -> Result<u64, TransactionRejection> {
        if transaction.gas_limit > self.gas_left() {
            let available = self.gas_left();
            return Err(TransactionRejection::BlockGas { gas_limit: transaction.gas_limit, available });
        }
        let blob_gas = tenon_chain::blob_gas_used(transaction);
        let available = self.rules.max_blob_gas.saturating_sub(self.blob_gas_used);
        if blob_gas > available {
            return Err(TransactionRejection::BlockBlobGas { blob_gas, available });
        }
        Ok(blob_gas)
    }

    fn keep_receipt(
        &mut self,
        transaction_type: TransactionType,
        result: ExecutionResult,
        blob_gas: u64,
    ) -> Result<(), TransactionRejection> {
        let gas_used = result.tx_gas_used();
        self.gas_used += gas_used;
        self.blob_gas_used += blob_gas;
        let outcome = self.outcome(result.is_success())?;
        let logs = if result.is_success() { result.into_logs().into_iter().map(log).collect() } else { Vec::new() };
        let cumulative_gas_used = self.gas_used;
        self.receipts.push(Receipt { transaction_type, outcome, cumulative_gas_used, gas_used, logs });
        Ok(())
    }

    fn outcome(&mut self, has_succeeded: bool) -> Result<ReceiptOutcome, TransactionRejection> {
        if self.rules.receipts_have_status {
            return Ok(ReceiptOutcome::Status(has_succeeded));
        }
        Ok(ReceiptOutcome::StateRoot(self.root_so_far()?))
    }

    /// The state root after the transactions so far, as a receipt before Byzantium has it. Computed from the parent's
    /// root each time, because only those receipts need it.
    ///
    /// # Errors
    /// [`TransactionRejection::Store`] or [`TransactionRejection::Trie`] if the trie of the parent's state cannot be
    /// read.
    pub fn root_so_far(&mut self) -> Result<B256, TransactionRejection> {
        let Some((trie, parent_root)) = &self.trie else { return Ok(B256::ZERO) };
        let state = self.evm.ctx.db_mut();
        let mut changes: Vec<AccountChange> = state.changes();
        let update = tenon_chain::update_state_trie(&**trie, *parent_root, &mut changes, &|address| {
            state.account_before(address)
        })?;
        Ok(update.root)
    }

    /// Ends the block with the steps after its last transaction.
    ///
    /// # Errors
    /// [`ExecutionError`] if a system contract or a deposit log makes the block invalid.
    pub fn finish(mut self, block: &Block, rewards: &BlockRewards) -> Result<BlockOutcome, ExecutionError> {
        let requests_hash = match self.rules.requests.take() {
            Some(rules) => Some(self.collect_requests(&rules)?.hash()),
            None => None,
        };
        let clears_empty = self.rules.clears_empty_accounts;
        let mut state = self.evm.ctx.journaled_state.database;
        let extra_trie = self.steps.close(&mut state)?;
        for withdrawal in block.withdrawals.iter().flatten() {
            let wei = U256::from(withdrawal.amount) * U256::from(1_000_000_000u64);
            state.credit(withdrawal.address, wei, clears_empty)?;
        }
        for (address, amount) in &rewards.credits {
            state.credit(*address, *amount, clears_empty)?;
        }
        if let Some(record) = &rewards.record {
            state.write_record(record)?;
        }
        let (receipts, gas_used, blob_gas_used) = (self.receipts, self.gas_used, self.blob_gas_used);
        Ok(BlockOutcome { receipts, gas_used, blob_gas_used, requests_hash, state, extra_trie })
    }

    fn collect_requests(&mut self, rules: &RequestRules) -> Result<Requests, ExecutionError> {
        let number = self.number;
        let mut requests = Requests::from_deposits(rules, &self.receipts)
            .map_err(|reason| ExecutionError::DepositLog { number, reason })?;
        for (request_type, contract) in rules.queues {
            let failed = |reason: String| ExecutionError::SystemCall { number, contract, reason };
            if !self.has_code(contract)? {
                return Err(failed("there is no contract".to_owned()));
            }
            match system_call(&mut AnyEvm::plain(&mut self.evm), contract, Bytes::new()) {
                Ok(ExecutionResult::Success { output, .. }) => requests.push(request_type, output.data()),
                Ok(ExecutionResult::Revert { .. }) => return Err(failed("execution reverted".to_owned())),
                Ok(ExecutionResult::Halt { reason, .. }) => return Err(failed(reason.to_string())),
                Err(failure) => return Err(failed(self.unless_own(failure)?.to_string())),
            }
        }
        Ok(requests)
    }

    /// Returns the failure of a system call if the call itself has caused it.
    fn unless_own(&self, failure: EvmFailure) -> Result<EvmFailure, ExecutionError> {
        match OwnFailure::of(failure, &self.evm.ctx.chain) {
            Ok(own) => Err(own.in_block(self.number)),
            Err(failure) => Ok(failure),
        }
    }

    fn has_code(&mut self, address: Address) -> Result<bool, ExecutionError> {
        use revm::Database;
        let account = self.evm.ctx.db_mut().basic(address).map_err(|StateError(error)| error)?;
        Ok(account.is_some_and(|account| !account.is_empty_code_hash()))
    }
}

/// Converts the failure of a run into the rejection of its transaction.
fn rejection(failure: EvmFailure, interrupt: &Interrupt) -> TransactionRejection {
    match OwnFailure::of(failure, interrupt) {
        Ok(own) => own.into(),
        Err(failure) => TransactionRejection::Rule(failure.to_string()),
    }
}

fn log(log: revm::primitives::Log) -> Log {
    let (topics, data) = log.data.split();
    Log { address: log.address, topics, data }
}
