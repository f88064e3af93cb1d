//! Makes a new block from pending transactions.

use std::sync::Arc;

use alloy_primitives::{Address, map::AddressSet};
use tenon_api::{
    Block, BlockNumber, BlockProductionError, EMPTY_OMMERS_HASH, Header, Receipt, RecoveredBlock, RecoveredTransaction,
    RoundBuilder, SealAttributes, SealedHeader, SignError, StateReader, StoreError, Transaction, Unlimited, Withdrawal,
};
use tenon_execution_block::{BlockExecution, StateChanges, assemble};
use tenon_execution_interface::{BlockOrigin, ExecutionError};

use super::importer::Importer;
use crate::ImportError;

/// Gas of the cheapest transaction: with less gas left, no other fits.
const MIN_TRANSACTION_GAS: u64 = 21_000;

/// Space for a block's header and list headers in addition to its transactions, bytes. Generous, because every node
/// refuses a block that is too large.
const SIZE_RESERVE: u64 = 64 * 1024;

/// A new block before its seal, with the results of its execution.
struct Unsealed {
    header: Header,
    transactions: Vec<Arc<Transaction>>,
    withdrawals: Option<Vec<Withdrawal>>,
    senders: Vec<Address>,
    receipts: Vec<Receipt>,
    changes: StateChanges,
}

impl RoundBuilder for Importer {
    fn build(
        &self,
        parent: &SealedHeader,
        draft: Header,
        transactions: Vec<RecoveredTransaction>,
        seal: &dyn Fn(Header) -> Result<SealedHeader, SignError>,
    ) -> Result<Block, BlockProductionError> {
        let made = self.build_on(parent, draft, transactions).map_err(BlockProductionError::new)?;
        let header = seal(made.header).map_err(BlockProductionError::new)?;
        Ok(tenon_chain::assemble_block(header, made.transactions, Vec::new(), made.withdrawals))
    }
}

/// The transactions included in a new block.
#[derive(Default)]
struct IncludedTransactions {
    transactions: Vec<Arc<Transaction>>,
    senders: Vec<Address>,
}

impl Importer {
    /// Builds a block on the head from as many of these transactions as fit and are valid, commits it and publishes it.
    ///
    /// # Errors
    /// [`ImportError`] if no block could be made; nothing was changed, as far as this node can read its database: see
    /// [`StoreError::WriterStopped`].
    pub fn produce(
        &self,
        attributes: &SealAttributes,
        transactions: Vec<RecoveredTransaction>,
    ) -> Result<Arc<RecoveredBlock>, ImportError> {
        let _writing = self.lock_writing();
        let parent = Arc::clone(&self.chain.head().header);
        let draft = self.draft(&parent, attributes)?;

        let execution = self.executor.begin(&*self.chain, &*self.engine, &draft, &parent, BlockOrigin::Header)?;
        let made = self.fill(execution, &parent, draft, transactions)?;
        let header = self.engine.seal(made.header)?;
        self.engine.verify_header(&header, &parent, &*self.chain)?;
        let block = tenon_chain::assemble_block(header, made.transactions, Vec::new(), made.withdrawals);
        let block = Arc::new(RecoveredBlock { block, senders: made.senders });
        let commit = assemble(&*self.chain, Arc::clone(&block), &parent, made.receipts, made.changes)?;
        self.commit(&Arc::new(commit))?;
        Ok(block)
    }

    /// Executes as many of the transactions as fit, and completes the header except the seal.
    fn fill(
        &self,
        mut execution: BlockExecution,
        parent: &SealedHeader,
        draft: SealedHeader,
        transactions: Vec<RecoveredTransaction>,
    ) -> Result<Unsealed, ImportError> {
        let taken = take_transactions(&mut execution, draft.number.into(), transactions)?;
        let withdrawals = draft.withdrawals_root.map(|_| Vec::new());
        let block = tenon_chain::assemble_block(draft, taken.transactions, Vec::new(), withdrawals);
        let rewards = self.engine.rewards(&block, &*self.chain)?;
        let outcome = execution.finish(&block, &rewards)?;
        let changes = self.executor.state_changes(&*self.chain, parent, &outcome.state)?;

        let results = outcome.results();
        let header = Header {
            transactions_root: tenon_chain::transactions_root(&block.transactions),
            state_root: changes.root,
            receipts_root: results.receipts_root,
            logs_bloom: results.logs_bloom,
            gas_used: outcome.gas_used,
            blob_gas_used: block.header.blob_gas_used.map(|_| outcome.blob_gas_used),
            requests_hash: outcome.requests_hash,
            ..block.header.header().clone()
        };
        let Block { transactions, withdrawals, .. } = block;
        Ok(Unsealed { header, transactions, withdrawals, senders: taken.senders, receipts: outcome.receipts, changes })
    }

    /// The state after a stored block, canonical or on a branch that was executed.
    fn state_after_any(&self, block: &SealedHeader) -> Result<Arc<dyn StateReader>, ImportError> {
        let number = BlockNumber(block.number);
        if self.chain.canonical_hash(number)? == Some(block.hash()) {
            return Ok(self.chain.state_at(number)?);
        }
        let unknown = || StoreError::UnknownBlock { what: format!("{} ({})", number, block.hash()) };
        Ok(self.chain.state_of_branch(block)?.ok_or_else(unknown)?)
    }

    /// Builds a block on any executed block, without storing it.
    fn build_on(
        &self,
        parent: &SealedHeader,
        draft: Header,
        transactions: Vec<RecoveredTransaction>,
    ) -> Result<Unsealed, ImportError> {
        let draft = tenon_chain::seal(draft);
        let state = self.executor.state_over(self.state_after_any(parent)?);
        let trie = (self.chain.trie_of(parent, Arc::new(Unlimited))?, parent.state_root);
        let (family, author) = (self.executor.family(), draft.beneficiary);
        let execution = BlockExecution::begin(family, &draft, author, state, trie, BlockOrigin::Header)?;
        self.fill(execution, parent, draft, transactions)
    }

    /// The header of the new block as known before execution.
    fn draft(&self, parent: &SealedHeader, attributes: &SealAttributes) -> Result<SealedHeader, ImportError> {
        let mut header = self.engine.prepare(parent, attributes, &*self.chain)?;
        header.ommers_hash = EMPTY_OMMERS_HASH;
        header.base_fee_per_gas = header.base_fee_per_gas.or_else(|| self.executor.spec().next_base_fee(parent));
        self.executor.family().complete_draft(&mut header, parent);
        Ok(tenon_chain::seal(header))
    }
}

/// Executes the transactions that fit in block `number`. Once a sender's transaction is left out, its later ones would
/// leave a gap and are left out too.
///
/// # Errors
/// [`ExecutionError`] if this node cannot read the state or its trie: it cannot decide which transactions are valid.
fn take_transactions(
    execution: &mut BlockExecution,
    number: BlockNumber,
    candidates: Vec<RecoveredTransaction>,
) -> Result<IncludedTransactions, ExecutionError> {
    let mut taken = IncludedTransactions::default();
    let mut left_out = AddressSet::default();
    let mut bytes_left = execution.max_block_bytes().saturating_sub(SIZE_RESERVE);
    for RecoveredTransaction { transaction, sender } in candidates {
        if execution.gas_left() < MIN_TRANSACTION_GAS {
            break;
        }
        if left_out.contains(&sender) {
            continue;
        }
        let size = tenon_chain::encode_transaction(&transaction).len() as u64;
        if size > bytes_left {
            left_out.insert(sender);
            continue;
        }
        match execution.run_transaction(&transaction, sender) {
            Ok(()) => {
                bytes_left -= size;
                taken.transactions.push(transaction);
                taken.senders.push(sender);
            }
            Err(rejection) => {
                let reason = rejection.unless_unreadable(number)?;
                if !reason.is_out_of_block_gas() {
                    tracing::debug!(hash = %transaction.hash, %sender, %reason, "transaction not included in the \
                        block");
                }
                left_out.insert(sender);
            }
        }
    }
    Ok(taken)
}
