//! Requests for blocks, transactions and receipts.

use std::sync::Arc;

use alloy_primitives::{B256, U256};
use tenon_api::{
    BlockId, BlockNumber, ChainReader, Head, Receipt, RecoveredBlock, RecoveredTransaction, SealedHeader, StoreError,
    messages::{
        Availability, BlockOutline, BlockReceipts, GetBlockReceipts, GetReceipt, LocatedReceipt, LocatedTransaction,
        StoredBlock, StoredHeader, TransactionProof,
    },
};
use tenon_chain::{ListTrie, TrieError, resolve_block};

use super::{Answers, error::AnswerError, repeat_after_reorganisation};
use crate::options::Mode;

/// Receipts of a block with at most this much gas, or of a transaction with at most this gas limit, are read on the
/// caller's task. They have at most 1,333 logs or 62 KB of data.
const ATTEMPT_GAS: u64 = 500_000;

impl Answers {
    pub(super) fn head(&self) -> Arc<Head> {
        self.store.head()
    }

    pub(super) fn availability(&self) -> Availability {
        let head = self.store.head();
        let state_window = match self.store.mode {
            Mode::Archive => None,
            Mode::Pruned(window) => Some(window.max(1)),
        };
        let head = (head.number(), head.header.hash());
        Availability { head, oldest_state: BlockNumber(self.store.oldest_state()), state_window }
    }

    pub(super) fn header(&self, block: BlockId) -> Result<Option<StoredHeader>, AnswerError> {
        let Some(header) = resolve_block(&*self.store, block)? else { return Ok(None) };
        let (total_difficulty, is_canonical) = self.standing(&header)?;
        Ok(Some(StoredHeader { header, total_difficulty, is_canonical }))
    }

    pub(super) fn block(&self, block: BlockId) -> Result<Option<StoredBlock>, AnswerError> {
        let Some(header) = resolve_block(&*self.store, block)? else { return Ok(None) };
        let Some(block) = self.store.block(header.hash())? else { return Ok(None) };
        let (total_difficulty, is_canonical) = self.standing(&header)?;
        Ok(Some(StoredBlock { block, total_difficulty, is_canonical }))
    }

    /// Returns the total difficulty, and whether the block is canonical. Reads nothing if it is the head.
    fn standing(&self, header: &SealedHeader) -> Result<(U256, bool), StoreError> {
        let head = self.store.head();
        if head.header.hash() == header.hash() {
            return Ok((head.total_difficulty, true));
        }
        let total_difficulty = self.store.total_difficulty(header.hash())?.unwrap_or_default();
        let canonical = self.store.canonical_hash(BlockNumber(header.number))?;
        Ok((total_difficulty, canonical == Some(header.hash())))
    }

    pub(super) fn block_receipts(&self, block: BlockId) -> Result<Option<BlockReceipts>, AnswerError> {
        let Some(header) = resolve_block(&*self.store, block)? else { return Ok(None) };
        let Some(block) = self.store.block(header.hash())? else { return Ok(None) };
        let Some(receipts) = self.receipts_of(header.hash())? else { return Ok(None) };
        let blob_gas_price = self.spec.blob_base_fee(header.header());
        Ok(Some(BlockReceipts { block, receipts, blob_gas_price }))
    }

    /// Answers on the caller's task, unless the block used much gas. `None` leaves the request to the work pool.
    pub(super) fn attempt_block_receipts(
        &self,
        request: &GetBlockReceipts,
    ) -> Option<Result<Option<BlockReceipts>, AnswerError>> {
        self.has_short_receipts(request.block).then(|| self.block_receipts(request.block))
    }

    /// Whether all receipts of a block together are short. True for an unknown block.
    pub(super) fn has_short_receipts(&self, block: BlockId) -> bool {
        match resolve_block(&*self.store, block) {
            Ok(Some(header)) => header.gas_used <= ATTEMPT_GAS,
            _ => true,
        }
    }

    /// Receipts of an executed block of any branch.
    pub(super) fn receipts_of(&self, hash: B256) -> Result<Option<Arc<Vec<Receipt>>>, AnswerError> {
        // The receipts move when the block leaves the chain, so the read may have missed them in both places.
        repeat_after_reorganisation(|| Ok(self.store.shared.generations.together(|| self.store.receipts(hash))?))
    }

    pub(super) fn transaction(&self, hash: B256) -> Result<Option<LocatedTransaction>, AnswerError> {
        Ok(self.locate(hash)?)
    }

    /// A transaction of the canonical chain, without the rest of its block.
    pub(super) fn locate(&self, hash: B256) -> Result<Option<LocatedTransaction>, StoreError> {
        self.store.shared.generations.together(|| {
            let Some((block_hash, index)) = self.store.transaction_location(hash)? else { return Ok(None) };
            let Some(header) = self.store.header(block_hash)? else { return Ok(None) };
            let found = self.transaction_of(&header, index)?;
            // The block at this height may have been replaced since the index was read.
            Ok(found.filter(|located| located.transaction.transaction.hash == hash))
        })
    }

    /// The transaction at a position of a block.
    fn transaction_of(&self, header: &Arc<SealedHeader>, index: u64) -> Result<Option<LocatedTransaction>, StoreError> {
        let position = usize::try_from(index).unwrap_or(usize::MAX);
        let found = self.store.shared.transaction_at(header.number, header.hash(), position)?;
        Ok(found.map(|transaction| LocatedTransaction { transaction, header: Arc::clone(header), index }))
    }

    pub(super) fn transaction_in_block(
        &self,
        block: BlockId,
        index: u64,
    ) -> Result<Option<LocatedTransaction>, AnswerError> {
        let Some(header) = resolve_block(&*self.store, block)? else { return Ok(None) };
        Ok(self.transaction_of(&header, index)?)
    }

    pub(super) fn count_transactions(&self, block: BlockId) -> Result<Option<u64>, AnswerError> {
        let Some(header) = resolve_block(&*self.store, block)? else { return Ok(None) };
        Ok(self.store.shared.transaction_count(header.number, header.hash())?)
    }

    pub(super) fn outline(&self, block: BlockId) -> Result<Option<BlockOutline>, AnswerError> {
        let Some(header) = resolve_block(&*self.store, block)? else { return Ok(None) };
        let Some(outline) = self.store.shared.outline(header.number, header.hash())? else { return Ok(None) };
        let (total_difficulty, is_canonical) = self.standing(&header)?;
        Ok(Some(BlockOutline {
            header,
            transactions: Arc::clone(&outline.transactions),
            ommers: outline.ommers.clone(),
            withdrawals: outline.withdrawals.clone(),
            size: outline.size,
            total_difficulty,
            is_canonical,
        }))
    }

    /// A transaction of the canonical chain, with its block.
    fn locate_with_block(&self, hash: B256) -> Result<Option<(Arc<RecoveredBlock>, LocatedTransaction)>, StoreError> {
        let Some((block_hash, index)) = self.store.transaction_location(hash)? else { return Ok(None) };
        let Some(block) = self.store.block(block_hash)? else { return Ok(None) };
        let Some(header) = self.store.header(block_hash)? else { return Ok(None) };
        let position = usize::try_from(index).unwrap_or(usize::MAX);
        // The block at this height may have been replaced since the index was read.
        let transaction = block.transactions.get(position).filter(|transaction| transaction.hash == hash);
        let (Some(transaction), Some(sender)) = (transaction, block.senders.get(position)) else { return Ok(None) };
        let transaction = RecoveredTransaction { transaction: Arc::clone(transaction), sender: *sender };
        let located = LocatedTransaction { transaction, header, index };
        Ok(Some((block, located)))
    }

    /// Answers on the caller's task, unless reading the receipt may take long. `None` leaves the request to the work
    /// pool.
    pub(super) fn attempt_receipt(&self, request: &GetReceipt) -> Option<Result<Option<LocatedReceipt>, AnswerError>> {
        match self.store.transaction_location(request.hash) {
            Ok(Some((block, index))) if !self.has_short_receipt(block, index) => None,
            _ => Some(self.receipt(request.hash)),
        }
    }

    /// Whether this transaction's receipt is short, and its block takes little time to read.
    fn has_short_receipt(&self, block: B256, index: u64) -> bool {
        let position = usize::try_from(index).unwrap_or(usize::MAX);
        let of_transaction = |block: &Arc<RecoveredBlock>| {
            block.transactions.get(position).is_some_and(|transaction| transaction.gas_limit <= ATTEMPT_GAS)
        };
        self.store
            .shared
            .blocks
            .read(&block, of_transaction)
            .unwrap_or_else(|| self.has_short_receipts(BlockId::Hash { hash: block, require_canonical: false }))
    }

    pub(super) fn receipt(&self, hash: B256) -> Result<Option<LocatedReceipt>, AnswerError> {
        // If a reorganisation between the two look-ups moves a transaction that is on both branches, `together` reads
        // again.
        self.store.shared.generations.together(|| self.receipt_once(hash))
    }

    fn receipt_once(&self, hash: B256) -> Result<Option<LocatedReceipt>, AnswerError> {
        let Some((block, transaction)) = self.locate_with_block(hash)? else { return Ok(None) };
        let found = repeat_after_reorganisation(|| Ok(self.receipt_at(&block, transaction.index)?))?;
        let Some((receipt, first_log_index)) = found else { return Ok(None) };
        let blob_gas_price = self.spec.blob_base_fee(block.header.header());
        Ok(Some(LocatedReceipt { transaction, receipt, first_log_index, blob_gas_price }))
    }

    /// Proves a transaction and its receipt against the roots of their block; `None` if it is not on the chain.
    pub(super) fn transaction_proof(&self, hash: B256) -> Result<Option<TransactionProof>, AnswerError> {
        let Some((block, located)) = self.locate_with_block(hash)? else { return Ok(None) };
        let Some(receipts) = self.store.receipts(block.hash())? else { return Ok(None) };
        let position = usize::try_from(located.index).unwrap_or(usize::MAX);
        if position >= receipts.len() {
            return Ok(None);
        }
        let tries = self.list_tries(&block, &receipts)?;
        let [transactions, receipts] = &*tries;
        let (Some(transaction), Some(receipt)) = (transactions.prove(position)?, receipts.prove(position)?) else {
            return Ok(None);
        };
        Ok(Some(TransactionProof {
            block_hash: block.hash(),
            transactions_root: transaction.root,
            receipts_root: receipt.root,
            key: transaction.key,
            transaction_nodes: transaction.nodes,
            receipt_nodes: receipt.nodes,
        }))
    }

    /// The tries of a block's lists, cached: building them is nearly all of the work, and a client often requests
    /// several proofs from one block.
    fn list_tries(&self, block: &RecoveredBlock, receipts: &[Receipt]) -> Result<Arc<[ListTrie; 2]>, TrieError> {
        let (cache, hash) = (&self.store.shared.list_tries, block.hash());
        if let Some(tries) = cache.get(&hash) {
            return Ok(tries);
        }
        let tries = [ListTrie::of_transactions(&block.transactions)?, ListTrie::of_receipts(receipts)?];
        let bytes = tries.iter().map(ListTrie::bytes).sum();
        let tries = Arc::new(tries);
        cache.insert(hash, Arc::clone(&tries), bytes);
        Ok(tries)
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
}
