//! Blocks, transactions, receipts, logs.

use std::sync::Arc;

use alloy_primitives::{B256, U256};
use tenon_api::{
    BlockId, BlockNumber, ChainReader, Failure, Head, LocatedLog, Log, LogFilter, Receipt, RecoveredBlock,
    RecoveredTransaction, SealedHeader, StoreError,
    messages::{
        BlockReceipts, GetLogs, LocatedReceipt, LocatedTransaction, LogRange, StoredBlock, StoredHeader,
        TransactionProof,
    },
};
use tenon_bus::CallContext;
use tenon_chain::resolve_block;

use super::{Answers, again_after_reorganisation};
use crate::read::log_search::LogSearch;

impl Answers {
    pub(super) fn head(&self) -> Arc<Head> {
        self.store.head()
    }

    pub(super) fn header(&self, block: BlockId) -> Result<Option<StoredHeader>, Failure> {
        let Some(header) = resolve_block(&*self.store, block)? else { return Ok(None) };
        let (total_difficulty, is_canonical) = self.standing(&header)?;
        Ok(Some(StoredHeader { header, total_difficulty, is_canonical }))
    }

    pub(super) fn block(&self, block: BlockId) -> Result<Option<StoredBlock>, Failure> {
        let Some(header) = resolve_block(&*self.store, block)? else { return Ok(None) };
        let Some(block) = self.store.block(header.hash())? else { return Ok(None) };
        let (total_difficulty, is_canonical) = self.standing(&header)?;
        Ok(Some(StoredBlock { block, total_difficulty, is_canonical }))
    }

    /// Total difficulty, and whether the block is canonical. Free for the head.
    fn standing(&self, header: &SealedHeader) -> Result<(U256, bool), StoreError> {
        let head = self.store.head();
        if head.header.hash() == header.hash() {
            return Ok((head.total_difficulty, true));
        }
        let total_difficulty = self.store.total_difficulty(header.hash())?.unwrap_or_default();
        let canonical = self.store.canonical_hash(BlockNumber(header.number))?;
        Ok((total_difficulty, canonical == Some(header.hash())))
    }

    pub(super) fn block_receipts(&self, block: BlockId) -> Result<Option<BlockReceipts>, Failure> {
        let Some(header) = resolve_block(&*self.store, block)? else { return Ok(None) };
        let Some(block) = self.store.block(header.hash())? else { return Ok(None) };
        let Some(receipts) = self.receipts_of(header.hash())? else { return Ok(None) };
        let blob_gas_price = self.spec.blob_base_fee(header.header());
        Ok(Some(BlockReceipts { block, receipts, blob_gas_price }))
    }

    /// Receipts of a block that is or was canonical.
    pub(super) fn receipts_of(&self, hash: B256) -> Result<Option<Arc<Vec<Receipt>>>, Failure> {
        again_after_reorganisation(|| Ok(self.store.receipts(hash)?))
    }

    pub(super) fn transaction(&self, hash: B256) -> Result<Option<LocatedTransaction>, Failure> {
        Ok(self.locate(hash)?.map(|(_, transaction)| transaction))
    }

    /// A transaction of the canonical chain, with its block.
    pub(super) fn locate(&self, hash: B256) -> Result<Option<(Arc<RecoveredBlock>, LocatedTransaction)>, StoreError> {
        let Some((block_hash, index)) = self.store.transaction_location(hash)? else { return Ok(None) };
        let Some(block) = self.store.block(block_hash)? else { return Ok(None) };
        let Some(header) = self.store.header(block_hash)? else { return Ok(None) };
        let position = usize::try_from(index).unwrap_or(usize::MAX);
        // The block at this height may have been replaced since the index was read; then it holds another one.
        let transaction = block.transactions.get(position).filter(|transaction| transaction.hash == hash);
        let (Some(transaction), Some(sender)) = (transaction, block.senders.get(position)) else { return Ok(None) };
        let transaction = RecoveredTransaction { transaction: Arc::clone(transaction), sender: *sender };
        let located = LocatedTransaction { transaction, header, index };
        Ok(Some((block, located)))
    }

    pub(super) fn receipt(&self, hash: B256) -> Result<Option<LocatedReceipt>, Failure> {
        let Some((block, transaction)) = self.locate(hash)? else { return Ok(None) };
        let found = again_after_reorganisation(|| Ok(self.receipt_at(&block, transaction.index)?))?;
        let Some((receipt, first_log_index)) = found else { return Ok(None) };
        let blob_gas_price = self.spec.blob_base_fee(block.header.header());
        Ok(Some(LocatedReceipt { transaction, receipt, first_log_index, blob_gas_price }))
    }

    /// Proves a transaction and its receipt against the roots of their block; none when it is not on the chain.
    pub(super) fn transaction_proof(&self, hash: B256) -> Result<Option<TransactionProof>, Failure> {
        let Some((block, located)) = self.locate(hash)? else { return Ok(None) };
        let Some(receipts) = self.store.receipts(block.hash())? else { return Ok(None) };
        let position = usize::try_from(located.index).unwrap_or(usize::MAX);
        if position >= receipts.len() {
            return Ok(None);
        }
        let transaction = tenon_chain::prove_transaction(&block.transactions, position);
        let receipt = tenon_chain::prove_receipt(&receipts, position);
        Ok(Some(TransactionProof {
            block_hash: block.hash(),
            transactions_root: transaction.root,
            receipts_root: receipt.root,
            key: transaction.key,
            transaction_nodes: transaction.nodes,
            receipt_nodes: receipt.nodes,
        }))
    }

    /// One receipt and the position of its first log, without reading the logs of the block's other receipts.
    fn receipt_at(&self, block: &RecoveredBlock, index: u64) -> Result<Option<(Receipt, u64)>, StoreError> {
        let shared = &self.store.shared;
        let (number, hash) = (block.header.number, block.hash());
        let position = usize::try_from(index).unwrap_or(usize::MAX);
        if let Some(receipts) = shared.receipts.get(&hash) {
            let first = receipts.iter().take(position).map(|receipt| receipt.logs.len() as u64).sum();
            return Ok(receipts.get(position).map(|receipt| (receipt.clone(), first)));
        }
        let token = shared.generations.observe(number)?;
        let Some(summaries) = shared.receipt_summaries(number, hash)? else { return Ok(None) };
        let Some(summary) = summaries.get(position).copied() else { return Ok(None) };
        let first = summaries.iter().take(position).map(|summary| summary.log_count).sum();
        let logs = shared.logs_of_block(number, first, summary.log_count);
        shared.generations.check(token, number)?;
        let logs = logs?.into_iter().map(|stored| stored.log).collect();
        Ok(Some((summary.with_logs(logs), first)))
    }

    pub(super) fn logs(&self, request: &GetLogs, context: &CallContext) -> Result<Vec<LocatedLog>, Failure> {
        let (from, to) = match request.range {
            LogRange::Numbers { from, to } => (from.0, to.0.min(self.store.head().header.number)),
            LogRange::Block(hash) => match self.canonical_height(hash)? {
                Some(number) => (number, number),
                // The index knows the canonical chain alone.
                None => return self.logs_of_branch(hash, &request.filter),
            },
        };
        let most = self.limits.log_blocks;
        if to.saturating_sub(from) >= most {
            return Err(Failure::limit(format!("log query spans more than {most} blocks; narrow the range")));
        }
        let limit = self.limits.log_results;
        let is_cancelled = || context.is_cancelled();
        let search = LogSearch { from, to, filter: &request.filter, limit, is_cancelled: &is_cancelled };
        let logs = again_after_reorganisation(|| Ok(search.run(&self.store.shared)?))?;
        if context.is_cancelled() {
            return Err(Failure::limit("request timed out"));
        }
        if logs.len() > limit {
            return Err(too_many(limit, from, logs.last().map_or(from, |log| log.block_number.0)));
        }
        if let LogRange::Block(hash) = request.range
            && logs.iter().any(|log| log.block_hash != hash)
        {
            // Replaced between the look-up and the search.
            return Ok(Vec::new());
        }
        Ok(logs)
    }

    /// Logs of a block that was taken off the chain; a side block that never was on it has not even been executed.
    fn logs_of_branch(&self, hash: B256, filter: &LogFilter) -> Result<Vec<LocatedLog>, Failure> {
        let (Some(block), Some(receipts)) = (self.store.block(hash)?, self.store.receipts(hash)?) else {
            return Ok(Vec::new());
        };
        let located = |((log, transaction_hash, transaction_index), log_index): ((&Log, B256, u64), u64)| LocatedLog {
            log: log.clone(),
            block_number: block.number(),
            block_hash: hash,
            block_timestamp: block.header.timestamp,
            transaction_hash,
            transaction_index,
            log_index,
            removed: false,
        };
        let transactions = (0_u64..).zip(&block.transactions).zip(receipts.iter());
        let logs = transactions.flat_map(|((index, transaction), receipt)| {
            receipt.logs.iter().map(move |log| (log, transaction.hash, index))
        });
        let logs: Vec<LocatedLog> = logs.zip(0..).filter(|((log, ..), _)| filter.matches(log)).map(located).collect();
        let limit = self.limits.log_results;
        let number = block.header.number;
        if logs.len() > limit { Err(too_many(limit, number, number)) } else { Ok(logs) }
    }

    /// Height of a block on the canonical chain; none for a block of another branch.
    fn canonical_height(&self, hash: B256) -> Result<Option<u64>, Failure> {
        let header = self.store.header(hash)?.ok_or_else(|| Failure::server("unknown block"))?;
        let canonical = self.store.canonical_hash(BlockNumber(header.number))?;
        Ok((canonical == Some(hash)).then_some(header.number))
    }
}

/// Says how far a query can go that meets the limit in block `reached`.
fn too_many(limit: usize, from: u64, reached: u64) -> Failure {
    let advice = if reached > from {
        format!("ask for blocks {from} to {} first", reached - 1)
    } else {
        "ask for fewer addresses or topics".into()
    };
    Failure::limit(format!("query returned more than {limit} results; {advice}"))
}
