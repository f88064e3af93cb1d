//! Logs and log filters.

use alloy_primitives::{Address, B256, Bytes};
use serde::{Deserialize, Serialize};

use super::{Block, BlockNumber, Receipt};

/// A log emitted by a contract.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Log {
    /// The contract.
    pub address: Address,
    /// Up to four indexed values.
    pub topics: Vec<B256>,
    /// The data that is not indexed.
    pub data: Bytes,
}

/// A log with its position in the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocatedLog {
    /// The log.
    pub log: Log,
    /// Height of its block.
    pub block_number: BlockNumber,
    /// Hash of its block.
    pub block_hash: B256,
    /// Unix time of its block, seconds.
    pub block_timestamp: u64,
    /// Hash of its transaction.
    pub transaction_hash: B256,
    /// Position of the transaction in the block.
    pub transaction_index: u64,
    /// Position of the log in the block.
    pub log_index: u64,
    /// Whether a reorganisation removed the block from the canonical chain.
    pub removed: bool,
}

impl LocatedLog {
    /// The logs of a block that pass the filter, in order, none marked as removed. `receipts` must be those of the
    /// whole block, because a log's position is counted over all of them.
    pub fn of_block<'a>(
        block: &'a Block,
        receipts: &'a [Receipt],
        filter: &'a LogFilter,
    ) -> impl Iterator<Item = Self> + 'a {
        let transactions = (0..).zip(&block.transactions).zip(receipts);
        let logs = transactions.flat_map(|((transaction_index, transaction), receipt)| {
            receipt.logs.iter().map(move |log| (log, transaction.hash, transaction_index))
        });
        logs.zip(0..).filter(|((log, ..), _)| filter.matches(log)).map(
            |((log, transaction_hash, transaction_index), log_index)| Self {
                log: log.clone(),
                block_number: block.number(),
                block_hash: block.hash(),
                block_timestamp: block.header.timestamp,
                transaction_hash,
                transaction_index,
                log_index,
                removed: false,
            },
        )
    }
}

/// A filter for logs in a range of canonical blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFilter {
    /// Any of these contracts; empty means every contract.
    pub addresses: Vec<Address>,
    /// By position: any of these values; an empty list matches any value, but the log must have that topic.
    pub topics: Vec<Vec<B256>>,
}

impl LogFilter {
    /// Returns whether the log passes.
    pub fn matches(&self, log: &Log) -> bool {
        (self.addresses.is_empty() || self.addresses.contains(&log.address))
            && self.topics.len() <= log.topics.len()
            && self.topics.iter().zip(&log.topics).all(|(wanted, topic)| wanted.is_empty() || wanted.contains(topic))
    }
}
