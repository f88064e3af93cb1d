//! Diagnostics: whole states, raw ranges, figures of the database, the node's logs and memory. Topics `0x0900..`.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::request;
use crate::{Account, BlockId, BlockNumber, SealedHeader};

/// Complete accounts of a state, ascending by address (`debug_dumpBlock`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DumpAccounts {
    /// The block whose state is read.
    pub block: BlockId,
    /// The first address.
    pub from: Address,
    /// Maximum number of accounts and slots, but at least one whole account.
    pub limit: u64,
}
request!(DumpAccounts => AccountDump, topic 0x0900, ReadChain);

/// Some accounts of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountDump {
    /// The state's root.
    pub root: B256,
    /// The accounts, ascending by address.
    pub accounts: Vec<DumpedAccount>,
    /// Where to continue; `None` after the last account.
    pub next: Option<Address>,
}

/// A complete account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DumpedAccount {
    /// Its address.
    pub address: Address,
    /// The account.
    pub account: Account,
    /// Its code.
    pub code: Bytes,
    /// Its slots with their values, ascending by slot.
    pub slots: Vec<(B256, U256)>,
}

/// Accounts that differ between the states after two canonical blocks, without deleted ones, in the order of the state
/// trie (`debug_getModifiedAccountsBy*`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetModifiedAccounts {
    /// The block of the older state.
    pub from: BlockNumber,
    /// The block of the newer state.
    pub to: BlockNumber,
}
request!(GetModifiedAccounts => Vec<Address>, topic 0x0901, ReadChain);

/// The address, slot or code with this keccak256 hash (`debug_preimage`); `None` if unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetPreimage {
    /// The hash.
    pub hash: B256,
}
request!(GetPreimage => Option<Bytes>, topic 0x0902, ReadChain);

/// Slots of a contract in the middle of a block, in the order of their hashes (`debug_storageRangeAt`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetStorageRange {
    /// The block.
    pub block: B256,
    /// Position of the transaction before which the state is read.
    pub transaction_index: i64,
    /// The contract.
    pub contract: Address,
    /// The first hash, or a prefix of it.
    pub start: Bytes,
    /// Maximum number of slots.
    pub limit: i64,
}
request!(GetStorageRange => StorageRange, topic 0x0903, CallEvm);

/// Some slots of a contract.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageRange {
    /// The slots, ascending by the hash of their keys.
    pub slots: Vec<StorageRangeSlot>,
    /// Hash of the next slot's key; `None` after the last slot.
    pub next: Option<B256>,
}

/// A slot with the hash that its key has in the storage trie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageRangeSlot {
    /// keccak256 of the key.
    pub hash: B256,
    /// The key.
    pub slot: B256,
    /// The value.
    pub value: U256,
}

/// A figure of the database, by the name in the reference's database (`debug_chaindbProperty`); `None` for a name
/// without equivalent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetDatabaseProperty {
    /// The name, without the prefix `leveldb.`.
    pub name: String,
}
request!(GetDatabaseProperty => Option<String>, topic 0x0904, ReadNode);

/// Rewrites the whole database without deleted and overwritten records (`debug_chaindbCompact`); takes long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactDatabase;
request!(CompactDatabase => (), topic 0x0905, Administer);

/// The newest blocks that were refused since the node started, oldest first (`debug_getBadBlocks`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetBadBlocks;
request!(GetBadBlocks => Vec<Arc<SealedHeader>>, topic 0x0906, ReadChain);

/// Memory of the node's process (`debug_memStats`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetMemoryStatistics;
request!(GetMemoryStatistics => MemoryStatistics, topic 0x0907, ReadNode);

/// Memory of the node's process, bytes, as the system counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryStatistics {
    /// In physical memory.
    pub resident: u64,
    /// The part of it that no file backs: memory allocated and used by the program.
    pub anonymous: u64,
    /// In all mappings.
    pub mapped: u64,
    /// Maximum of `resident` so far.
    pub peak: u64,
}

/// The node's threads (`debug_stacks`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListThreads;
request!(ListThreads => Vec<ThreadInfo>, topic 0x0908, ReadNode);

/// A thread of the node's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadInfo {
    /// The system's thread id.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its state as the system reports it: `R (running)`, `S (sleeping)`.
    pub state: String,
    /// The kernel function it waits in, if the system reports it.
    pub waits_in: Option<String>,
    /// Processor time, milliseconds.
    pub cpu_milliseconds: u64,
}

/// Sets the log level (`debug_verbosity`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetLogLevel {
    /// 0 nothing, 1 errors, 2 warnings, 3 information, 4 debugging, 5 everything.
    pub level: u8,
}
request!(SetLogLevel => (), topic 0x0909, Administer);

/// Sets higher log levels for some parts of the program (`debug_vmodule`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetLogModules {
    /// Prefix of a module's path, such as `tenon_storage::write`, and the level as in [`SetLogLevel`].
    pub modules: Vec<(String, u8)>,
}
request!(SetLogModules => (), topic 0x090a, Administer);
