//! Looking behind the chain: whole states, raw ranges, the database's own figures, the node's own logs and memory.
//! Topics `0x0900..`.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::request;
use crate::{Account, BlockId, BlockNumber, SealedHeader};

/// Accounts of a state with all that they have, ascending by address (`debug_dumpBlock`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DumpAccounts {
    /// After which block.
    pub block: BlockId,
    /// The first address.
    pub from: Address,
    /// Give at most this many accounts and slots, and a whole account at least.
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
    /// Where to go on; none when this was the last.
    pub next: Option<Address>,
}

/// An account with all that it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DumpedAccount {
    /// Whose.
    pub address: Address,
    /// The account.
    pub account: Account,
    /// Its code.
    pub code: Bytes,
    /// Its slots with their values, ascending by slot.
    pub slots: Vec<(B256, U256)>,
}

/// Accounts that differ between the states after two canonical blocks, without those that are gone, in the order of
/// the state trie (`debug_getModifiedAccountsBy*`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetModifiedAccounts {
    /// After which block the older state is.
    pub from: BlockNumber,
    /// After which block the newer state is.
    pub to: BlockNumber,
}
request!(GetModifiedAccounts => Vec<Address>, topic 0x0901, ReadChain);

/// The address, slot or code whose keccak256 this is (`debug_preimage`); none when none is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetPreimage {
    /// The hash.
    pub hash: B256,
}
request!(GetPreimage => Option<Bytes>, topic 0x0902, ReadChain);

/// Slots of a contract in the middle of a block, by the order of their hashes (`debug_storageRangeAt`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetStorageRange {
    /// In which block.
    pub block: B256,
    /// Before which of its transactions.
    pub transaction_index: i64,
    /// Whose slots.
    pub contract: Address,
    /// The least hash, or the beginning of it.
    pub start: Bytes,
    /// Give at most this many.
    pub limit: i64,
}
request!(GetStorageRange => StorageRange, topic 0x0903, CallEvm);

/// Some slots of a contract.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StorageRange {
    /// The slots, ascending by the hash of their keys.
    pub slots: Vec<StorageRangeSlot>,
    /// Hash of the next slot's key; none when this was the last.
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

/// A figure of the database, by the name that the reference's database has for it (`debug_chaindbProperty`); none for
/// a name that means nothing here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetDatabaseProperty {
    /// Without the prefix `leveldb.`.
    pub name: String,
}
request!(GetDatabaseProperty => Option<String>, topic 0x0904, ReadNode);

/// Rewrites the whole database without what is deleted or overwritten (`debug_chaindbCompact`); takes its time.
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
    /// Of that, what no file holds: what the program has allocated and used.
    pub anonymous: u64,
    /// In all mappings.
    pub mapped: u64,
    /// The most that was in physical memory so far.
    pub peak: u64,
}

/// The node's threads (`debug_stacks`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListThreads;
request!(ListThreads => Vec<ThreadInfo>, topic 0x0908, ReadNode);

/// A thread of the node's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadInfo {
    /// The system's number for it.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// What it is doing, as the system says it: `R (running)`, `S (sleeping)`.
    pub state: String,
    /// What it waits for inside the system, if that is told.
    pub waits_in: Option<String>,
    /// Time that it ran, milliseconds.
    pub cpu_milliseconds: u64,
}

/// How much the node logs from now on (`debug_verbosity`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetLogLevel {
    /// 0 nothing, 1 errors, 2 warnings, 3 information, 4 debugging, 5 everything.
    pub level: u8,
}
request!(SetLogLevel => (), topic 0x0909, Administer);

/// Which parts of the program log more than the rest from now on (`debug_vmodule`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetLogModules {
    /// Beginning of a module's path, such as `tenon_storage::write`, and the level as of [`SetLogLevel`].
    pub modules: Vec<(String, u8)>,
}
request!(SetLogModules => (), topic 0x090a, Administer);
