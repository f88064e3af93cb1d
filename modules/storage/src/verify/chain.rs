//! Checks blocks: each follows its parent and matches its header.

use alloy_primitives::{B256, U256};
use tenon_api::{Receipt, RecoveredBlock, SealedHeader};

use super::{Check, Stop, VerifyStage, damage};
use crate::{
    format::{columns::Column, keys, records},
    write::commit::log_prefixes,
};

impl Check<'_> {
    /// Walks the canonical chain upwards.
    pub(super) fn chain(&mut self) -> Result<(), Stop> {
        self.start(VerifyStage::Chain, self.head.0 + 1)?;
        let mut parent: Option<(B256, U256)> = None;
        for number in 0..=self.head.0 {
            parent = Some(self.block(number, parent)?);
            self.report.blocks += 1;
            self.step(VerifyStage::Chain, number + 1, self.head.0 + 1)?;
        }
        let head = self.store.shared.head.load();
        if parent != Some((head.header.hash(), head.total_difficulty)) {
            return Err(damage("head", format!("is not the canonical block {}", self.head)));
        }
        Ok(())
    }

    /// Checks one block, given hash and total difficulty of its parent; returns its own.
    fn block(&mut self, number: u64, parent: Option<(B256, U256)>) -> Result<(B256, U256), Stop> {
        let shared = &self.store.shared;
        let (hash, timestamp) =
            shared.canonical(number)?.ok_or_else(|| damage(format!("canonical block {number}"), "is missing"))?;
        let what = format!("header of block {number} ({hash})");
        if shared.number(hash)? != Some(number) {
            return Err(damage(format!("height of block {hash}"), format!("is not {number}")));
        }
        let (header, total_difficulty) =
            shared.read_header(number, hash)?.ok_or_else(|| damage(what.as_str(), "is missing"))?;
        let computed = tenon_chain::seal(header.header().clone()).hash();
        if computed != hash || header.number != number || header.timestamp != timestamp {
            return Err(damage(what, format!("hashes to {computed} at height {}", header.number)));
        }
        if let Some((parent_hash, parent_difficulty)) = parent {
            if header.parent_hash != parent_hash {
                return Err(damage(what, format!("follows {}, canonical is {parent_hash}", header.parent_hash)));
            }
            // The genesis block, and blocks after the merge, add nothing; all others their difficulty.
            if total_difficulty != parent_difficulty.saturating_add(header.difficulty) {
                return Err(damage(what, "has a total difficulty other than its parent's plus its own difficulty"));
            }
        }
        self.body(&header)?;
        Ok((hash, total_difficulty))
    }

    fn body(&mut self, header: &SealedHeader) -> Result<(), Stop> {
        let shared = &self.store.shared;
        let (number, hash) = (header.number, header.hash());
        let what = format!("body of block {number} ({hash})");
        let block = shared.read_block(number, hash)?.ok_or_else(|| damage(what.as_str(), "is missing"))?;
        let withdrawals_root = block.withdrawals.as_deref().map(tenon_chain::withdrawals_root);
        let roots = [
            ("transactions", Some(tenon_chain::transactions_root(&block.transactions)), Some(header.transactions_root)),
            ("uncles", Some(tenon_chain::ommers_hash(&block.ommers)), Some(header.ommers_hash)),
            ("withdrawals", withdrawals_root, header.withdrawals_root),
        ];
        for (list, computed, expected) in roots {
            if computed != expected {
                return Err(damage(what, format!("{list} hash to {computed:?}, the header says {expected:?}")));
            }
        }
        for (index, transaction) in (0_u32..).zip(&block.transactions) {
            self.place(transaction.hash, (number, index))?;
        }
        self.receipts(&block)
    }

    /// The transaction is found at its position, or, if its hash occurs again, at the later one.
    fn place(&self, hash: B256, here: (u64, u32)) -> Result<(), Stop> {
        let shared = &self.store.shared;
        let place = shared.transaction(hash)?;
        let is_there = match place {
            Some(place) if place == here => true,
            Some((number, index)) if (number, index) > here => {
                let later = shared.canonical(number)?.map(|(block, _)| shared.read_block(number, block)).transpose()?;
                let later = later.flatten();
                let found = later.as_ref().and_then(|block| block.transactions.get(usize::try_from(index).ok()?));
                found.is_some_and(|transaction| transaction.hash == hash)
            }
            Some(_) | None => false,
        };
        if is_there {
            return Ok(());
        }
        Err(damage(format!("place of transaction {hash}"), format!("is {place:?}, should be {here:?}")))
    }

    fn receipts(&mut self, block: &RecoveredBlock) -> Result<(), Stop> {
        let shared = &self.store.shared;
        let (number, hash) = (block.header.number, block.hash());
        let what = format!("receipts of block {number} ({hash})");
        let receipts = shared.read_receipts(number, hash)?.ok_or_else(|| damage(what.as_str(), "are missing"))?;
        let computed = tenon_chain::receipts_root(&receipts);
        if computed != block.header.receipts_root {
            let expected = block.header.receipts_root;
            return Err(damage(what, format!("hash to {computed}, the header says {expected}")));
        }
        self.logs_are_indexed(number, &receipts)
    }

    /// Every log is in the index under each of its values, and there are no other logs.
    fn logs_are_indexed(&mut self, number: u64, receipts: &[Receipt]) -> Result<(), Stop> {
        let shared = &self.store.shared;
        let mut position = 0_u32;
        for log in receipts.iter().flat_map(|receipt| &receipt.logs) {
            for prefix in log_prefixes(log) {
                let record = shared.database.get(Column::LogIndex, &keys::log_index(&prefix, number))?;
                let positions = record.as_deref().and_then(records::decode_positions).unwrap_or_default();
                if positions.binary_search(&position).is_err() {
                    return Err(damage(format!("log index of block {number}"), format!("lacks log {position}")));
                }
            }
            position += 1;
        }
        if shared.database.get(Column::Logs, &keys::log(number, position))?.is_some() {
            return Err(damage(format!("log {position} of block {number}"), "belongs to no receipt"));
        }
        self.report.logs += u64::from(position);
        Ok(())
    }
}
