//! Blocks, transactions, receipts.

use std::sync::Arc;

use alloy_primitives::{B256, U256};
use tenon_api::{
    BlockId, BlockNumber, ChainReader, Failure, Head, Receipt, RecoveredBlock, RecoveredTransaction, SealedHeader,
    StoreError,
    messages::{BlockReceipts, LocatedReceipt, LocatedTransaction, StoredBlock, StoredHeader, TransactionProof},
};
use tenon_chain::resolve_block;

use super::{Answers, again_after_reorganisation};

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
        // Those of a block lie elsewhere when it has left the chain, and may have been looked for in both places in vain.
        again_after_reorganisation(|| Ok(self.store.shared.generations.together(|| self.store.receipts(hash))?))
    }

    pub(super) fn transaction(&self, hash: B256) -> Result<Option<LocatedTransaction>, Failure> {
        let located = self.store.shared.generations.together(|| self.locate(hash))?;
        Ok(located.map(|(_, transaction)| transaction))
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
        // A transaction that both branches have is found on either; between the two look-ups it may have moved.
        self.store.shared.generations.together(|| self.receipt_once(hash))
    }

    fn receipt_once(&self, hash: B256) -> Result<Option<LocatedReceipt>, Failure> {
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
}
