//! Parts of a block, read without decoding the rest: the number of its transactions, one of them, their hashes.

use std::sync::Arc;

use alloy_primitives::{B256, keccak256};
use tenon_api::{RecoveredBlock, RecoveredTransaction, StoreError};

use super::{outline::Outline, shared::Shared};
use crate::{
    error::corrupt,
    format::{
        bodies::{self, Body},
        columns::Column,
        keys, records,
    },
};

impl Shared {
    /// The number of transactions in a block; `None` if there is no such block.
    pub(crate) fn transaction_count(&self, number: u64, hash: B256) -> Result<Option<u64>, StoreError> {
        if let Some(count) = self.blocks.read(&hash, |block| block.transactions.len() as u64) {
            return Ok(Some(count));
        }
        self.with_body(number, hash, |body| Some(body.count() as u64))
    }

    /// The transaction at a position of a block; `None` if there is no such block or position.
    pub(crate) fn transaction_at(
        &self,
        number: u64,
        hash: B256,
        position: usize,
    ) -> Result<Option<RecoveredTransaction>, StoreError> {
        let of_block = |block: &Arc<RecoveredBlock>| {
            let (transaction, sender) = (block.transactions.get(position)?, block.senders.get(position)?);
            Some(RecoveredTransaction { transaction: Arc::clone(transaction), sender: *sender })
        };
        if let Some(found) = self.blocks.read(&hash, of_block) {
            return Ok(found);
        }
        let found = self.with_body(number, hash, |body| {
            if position >= body.count() {
                return Some(None);
            }
            let transaction =
                tenon_chain::decode_list_transaction(&mut body.transactions().nth(position)?.item).ok()?;
            let sender = body.sender(position)?;
            Some(Some(RecoveredTransaction { transaction: Arc::new(transaction), sender }))
        });
        Ok(found?.flatten())
    }

    /// A block without its transactions; `None` if there is no such block.
    pub(crate) fn outline(&self, number: u64, hash: B256) -> Result<Option<Arc<Outline>>, StoreError> {
        if let Some(outline) = self.outlines.get(&hash) {
            return Ok(Some(outline));
        }
        let outline = match self.blocks.read(&hash, |block| Outline::of_block(block)) {
            Some(outline) => Some(outline),
            None => self.read_outline(number, hash)?,
        };
        let Some(outline) = outline.map(Arc::new) else { return Ok(None) };
        self.outlines.insert(hash, Arc::clone(&outline), outline.weight());
        Ok(Some(outline))
    }

    fn read_outline(&self, number: u64, hash: B256) -> Result<Option<Outline>, StoreError> {
        let Some(header) = self.database.get(Column::Headers, &keys::block(number, hash))? else { return Ok(None) };
        self.with_body(number, hash, |body| {
            let (_, header_rlp) = records::decode_header(&header)?;
            let transactions: Vec<B256> =
                body.transactions().map(|transaction| keccak256(transaction.canonical)).collect();
            if transactions.len() != body.count() {
                return None;
            }
            let payload = header_rlp.len() + body.length();
            let size = (payload + alloy_rlp::length_of_length(payload)) as u64;
            // The rest of the body is decoded like that of a block without transactions.
            let rest = tenon_chain::decode_block(&mut body.rest_as_block(header_rlp).as_slice()).ok()?;
            let transactions = Arc::new(transactions);
            Some(Outline { transactions, ommers: rest.ommers, withdrawals: rest.withdrawals, size })
        })
    }

    /// The result of `read` on a block's body; `None` if there is no such block. If `read` returns `None`, the body is
    /// corrupt.
    fn with_body<T>(
        &self,
        number: u64,
        hash: B256,
        read: impl FnOnce(&Body<'_>) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        let Some(record) = self.database.get(Column::Bodies, &keys::block(number, hash))? else { return Ok(None) };
        let found = bodies::split_body(&record).and_then(|body| read(&body));
        found.map(Some).ok_or_else(|| corrupt(format!("body of block {number} ({hash})")))
    }
}
