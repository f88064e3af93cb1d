//! Records of blocks outside the canonical chain: those that were removed from it, and those that were executed beside
//! it.

use alloy_primitives::B256;
use tenon_api::{BlockCommit, StoreError};

use crate::{
    database::Batch,
    error::corrupt,
    format::{
        columns::Column,
        keys,
        records::{self, Changes, StoredLog},
        side_block,
    },
    read::shared::Shared,
    store::Store,
    write::missing_nodes::put_missing,
};

impl Store {
    /// Stores the state of an executed side block as trie nodes, and its receipts. Changes none of the records that
    /// follow the canonical chain.
    ///
    /// Pruning never removes these nodes: it removes nodes that a canonical block supersedes, and no canonical block
    /// supersedes these. Removing them would need reference counts, because another block may need the same node: the
    /// canonical block of the same height, or a later side block. Keeping them costs only disk space, and few side
    /// blocks are executed.
    pub(crate) fn write_side_state(&self, commit: &BlockCommit) -> Result<(), StoreError> {
        let mut writer = self.writer.lock();
        let shared = &self.shared;
        let (number, hash) = (commit.block.number().0, commit.block.hash());
        if shared.canonical(number)?.is_some_and(|(canonical, _)| canonical == hash) {
            return Ok(());
        }
        writer.created_nodes.forget();
        let mut batch = shared.database.batch();
        for (hash, code) in &commit.codes {
            batch.put(Column::Codes, hash, code)?;
        }
        for node in &commit.trie_nodes {
            // A node of the canonical chain keeps its height, by which pruning knows when it was created.
            put_missing(shared, &mut batch, node, number)?;
        }
        let record = side_block::encode(&records::encode_receipts(&commit.receipts), &logs(commit), &changes(commit));
        batch.put(Column::Receipts, keys::side_block(number, hash), record)?;
        batch.write(false)
    }
}

fn logs(commit: &BlockCommit) -> Vec<StoredLog> {
    let transactions = (0_u64..).zip(&commit.block.transactions).zip(commit.receipts.iter());
    let logs = transactions.flat_map(|((transaction_index, transaction), receipt)| {
        let transaction_hash = transaction.hash;
        receipt.logs.iter().map(move |log| StoredLog { transaction_index, transaction_hash, log: log.clone() })
    });
    logs.collect()
}

fn changes(commit: &BlockCommit) -> Changes {
    let slots = commit.accounts.iter().filter(|change| !change.slots.is_empty());
    Changes {
        accounts: commit.accounts.iter().map(|change| change.address).collect(),
        slots: slots.map(|change| (change.address, change.slots.iter().map(|slot| slot.slot).collect())).collect(),
        superseded: Vec::new(),
    }
}

/// Stores what can be queried about a block after its removal from the chain.
pub(crate) fn write_removed_block(
    shared: &Shared,
    batch: &mut Batch<'_>,
    number: u64,
    hash: B256,
) -> Result<(), StoreError> {
    let missing = || corrupt(format!("receipts of block {number} ({hash})"));
    let receipts = shared.database.get(Column::Receipts, &keys::block(number, hash))?.ok_or_else(missing)?;
    let summaries = records::decode_receipts(&receipts).ok_or_else(missing)?;
    let logs = shared.logs_of_block(number, 0, summaries.iter().map(|summary| summary.log_count).sum())?;
    let changes = shared.changes(number)?.ok_or_else(|| corrupt(format!("changes of block {number}")))?;
    batch.put(Column::Receipts, keys::side_block(number, hash), side_block::encode(&receipts, &logs, &changes))
}
