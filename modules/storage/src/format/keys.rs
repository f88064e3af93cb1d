//! Encoding of keys. Numbers are big-endian, so that keys are ordered by height.

use alloy_primitives::{Address, B256};
use tenon_api::TriePosition;

/// Length of an account's key: its address.
pub(crate) const ACCOUNT_KEY_LENGTH: usize = 20;
/// Length of a slot's key: address and slot.
pub(crate) const SLOT_KEY_LENGTH: usize = 52;
/// Length of a log index key's prefix: kind and value.
pub(crate) const LOG_INDEX_PREFIX_LENGTH: usize = 33;

/// The key of a height.
pub(crate) fn number(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// The key of a block of any branch.
pub(crate) fn block(number: u64, hash: B256) -> [u8; 40] {
    let mut key = [0; 40];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key[8..].copy_from_slice(hash.as_slice());
    key
}

/// Key of the records of a side block: the block's key, one byte longer.
pub(crate) fn side_block(number: u64, hash: B256) -> [u8; 41] {
    let mut key = [1; 41];
    key[..40].copy_from_slice(&block(number, hash));
    key
}

/// The earlier position of a transaction that occurs again at this height: the transaction's key and the height.
pub(crate) fn earlier_place(transaction: B256, number: u64) -> [u8; 40] {
    let mut key = [0; 40];
    key[..32].copy_from_slice(transaction.as_slice());
    key[32..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The key of a log of a canonical block.
pub(crate) fn log(number: u64, position: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key[8..].copy_from_slice(&position.to_be_bytes());
    key
}

/// A log's position, from its key.
pub(crate) fn log_position(key: &[u8]) -> Option<(u64, u32)> {
    let (number, position) = key.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*number), u32::from_be_bytes(position.try_into().ok()?)))
}

/// The part of a log that an index entry refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LogKind {
    /// The emitting contract.
    Address,
    /// The topic at this position, 0 to 3.
    Topic(u8),
}

/// Kind and value of a log index entry. Addresses are padded, so that all prefixes have the same length.
pub(crate) type LogIndexPrefix = [u8; LOG_INDEX_PREFIX_LENGTH];

/// The prefix of all index entries of one contract.
pub(crate) fn log_address_prefix(address: Address) -> LogIndexPrefix {
    log_prefix(LogKind::Address, address.into_word())
}

/// The prefix of all index entries of one kind and value.
pub(crate) fn log_prefix(kind: LogKind, value: B256) -> LogIndexPrefix {
    let mut prefix = [0; LOG_INDEX_PREFIX_LENGTH];
    prefix[0] = match kind {
        LogKind::Address => 0,
        LogKind::Topic(position) => position.saturating_add(1),
    };
    prefix[1..].copy_from_slice(value.as_slice());
    prefix
}

/// The key of a log index entry.
pub(crate) fn log_index(prefix: &LogIndexPrefix, number: u64) -> [u8; LOG_INDEX_PREFIX_LENGTH + 8] {
    let mut key = [0; LOG_INDEX_PREFIX_LENGTH + 8];
    key[..LOG_INDEX_PREFIX_LENGTH].copy_from_slice(prefix);
    key[LOG_INDEX_PREFIX_LENGTH..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The key of a slot of an account.
pub(crate) fn slot(address: Address, slot: B256) -> [u8; SLOT_KEY_LENGTH] {
    let mut key = [0; SLOT_KEY_LENGTH];
    key[..20].copy_from_slice(address.as_slice());
    key[20..].copy_from_slice(slot.as_slice());
    key
}

/// The key of a key's version after a block. Newer versions come first, so that the value at a height is the first one
/// from there on: a forward seek is a seventh faster than a backward one (3.5 µs instead of 4.1).
pub(crate) fn version(key: &[u8], number: u64) -> Vec<u8> {
    let mut versioned = Vec::with_capacity(key.len() + 8);
    versioned.extend_from_slice(key);
    versioned.extend_from_slice(&(!number).to_be_bytes());
    versioned
}

/// The height of a version's key.
pub(crate) fn version_number(key: &[u8]) -> Option<u64> {
    key.last_chunk::<8>().map(|number| !u64::from_be_bytes(*number))
}

/// The key of a trie node. The owner of the state trie is zero, which no keccak256 of an address is; paths have one
/// nibble per byte, so that the nodes of a subtree are adjacent.
pub(crate) fn trie_node(owner: Option<B256>, path: &[u8], hash: B256) -> Vec<u8> {
    let mut key = Vec::with_capacity(64 + path.len());
    key.extend_from_slice(owner.unwrap_or_default().as_slice());
    key.extend_from_slice(path);
    key.extend_from_slice(hash.as_slice());
    key
}

/// The key of a trie node by its position.
pub(crate) fn trie_position(position: &TriePosition, hash: B256) -> Vec<u8> {
    trie_node(position.owner, &position.path, hash)
}
