//! Consensus encodings.

use alloy_primitives::Bytes;
use tenon_api::messages::GetRaw;
use tenon_chain::resolve_block;

use super::{Answers, error::AnswerError};

impl Answers {
    /// Answers on the caller's task, except for the receipts of a block with much gas. `None` leaves the request to the
    /// work pool.
    pub(super) fn attempt_raw(&self, request: &GetRaw) -> Option<Result<Option<Vec<Bytes>>, AnswerError>> {
        match *request {
            GetRaw::Receipts(block) if !self.has_short_receipts(block) => None,
            _ => Some(self.raw(request)),
        }
    }

    pub(super) fn raw(&self, request: &GetRaw) -> Result<Option<Vec<Bytes>>, AnswerError> {
        let one = |bytes: Vec<u8>| Some(vec![Bytes::from(bytes)]);
        match *request {
            GetRaw::Header(block) => {
                let Some(header) = resolve_block(&*self.store, block)? else { return Ok(None) };
                let mut encoded = Vec::with_capacity(700);
                tenon_chain::encode_header(header.header(), &mut encoded);
                Ok(one(encoded))
            }
            GetRaw::Block(block) => {
                let Some(found) = self.block(block)? else { return Ok(None) };
                Ok(one(tenon_chain::encode_block(&found.block)))
            }
            GetRaw::Receipts(block) => {
                let Some(header) = resolve_block(&*self.store, block)? else { return Ok(None) };
                let Some(receipts) = self.receipts_of(header.hash())? else { return Ok(None) };
                Ok(Some(receipts.iter().map(|receipt| tenon_chain::encode_receipt(receipt).into()).collect()))
            }
            GetRaw::Transaction(hash) => {
                let Some(located) = self.locate(hash)? else { return Ok(None) };
                Ok(one(tenon_chain::encode_transaction(&located.transaction.transaction)))
            }
            GetRaw::TransactionInBlock { block, index } => {
                let Some(found) = self.transaction_in_block(block, index)? else { return Ok(None) };
                Ok(one(tenon_chain::encode_transaction(&found.transaction.transaction)))
            }
        }
    }
}
