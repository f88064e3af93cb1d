//! Diagnostics: whole states, raw ranges, figures of the database, the node's logs and memory. Topics `0x0900..`.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::{TraceFailure, request};
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
request!(GetStorageRange => Result<StorageRange, TraceFailure>, topic 0x0903, schema 3, CallEvm);

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

/// Statistics of the database's engine (`debug_chaindbProperty`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetDatabaseStatistics;
request!(GetDatabaseStatistics => DatabaseStatistics, topic 0x0904, schema 2, ReadNode);

/// Statistics of the database's engine, all columns together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseStatistics {
    /// Number of table files at each level.
    pub files_by_level: Vec<u64>,
    /// The table files.
    pub files: Vec<TableFile>,
    /// Number of running compactions, summed over the columns: the engine reports all of them for each column.
    pub running_compactions: u64,
    /// Number of columns that wait for a compaction.
    pub pending_compactions: u64,
    /// Rate to which writes are slowed down, bytes a second, summed like the running compactions; 0 if they are not.
    pub delayed_write_rate: u64,
    /// Whether writes are stopped.
    pub is_write_stopped: bool,
    /// Bytes of the cache of blocks in use.
    pub cache_bytes: u64,
    /// Maximum size of this cache, bytes.
    pub cache_capacity: u64,
    /// Bytes of this cache that cannot be removed now.
    pub cache_pinned_bytes: u64,
    /// Number of snapshots that readers hold.
    pub snapshots: u64,
}

/// A file with sorted records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableFile {
    /// Name of its column.
    pub column: String,
    /// Its level: 0 for files that are not yet merged with others.
    pub level: u32,
    /// Its size.
    pub bytes: u64,
    /// Its name.
    pub name: String,
}

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

/// The state root after each transaction of a block (`debug_intermediateRoots`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetIntermediateRoots {
    /// The block, of any branch.
    pub block: B256,
}
request!(GetIntermediateRoots => Result<Vec<B256>, TraceFailure>, topic 0x090b, schema 3, CallEvm);

/// The data that a block's execution reads (`debug_executionWitness`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetExecutionWitness {
    /// The block.
    pub block: BlockId,
}
request!(GetExecutionWitness => Result<ExecutionWitness, TraceFailure>, topic 0x090c, schema 3, CallEvm);

/// The data that a block's execution reads: enough to execute the block without a database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionWitness {
    /// The parent's header, and those of older blocks whose hashes are read. Descending by height, without gaps.
    pub headers: Vec<Arc<SealedHeader>>,
    /// Code of the contracts that are executed or looked at, ascending by content.
    pub codes: Vec<Bytes>,
    /// RLP of trie nodes of the parent's state, accounts' and storage's together, ascending by content.
    pub nodes: Vec<Bytes>,
}

/// Accounts of a state in the order of the state trie, so ascending by the hash of their address
/// (`debug_accountRange`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAccountRange {
    /// The block after which the state is read.
    pub block: BlockId,
    /// The first hash, or a prefix of it.
    pub start: Bytes,
    /// Maximum number of accounts. Fewer are returned when their slots are many.
    pub limit: u64,
    /// Whether to return code.
    pub with_code: bool,
    /// Whether to return slots.
    pub with_storage: bool,
}
request!(GetAccountRange => AccountRange, topic 0x090d, ReadChain);

/// Some accounts of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountRange {
    /// The state's root.
    pub root: B256,
    /// The accounts, ascending by the hash of their address.
    pub accounts: Vec<DumpedAccount>,
    /// Hash of the next account's address; `None` after the last account.
    pub next: Option<B256>,
}

/// Content of a file in the folders for requests (setting `rpc.files`), unpacked if its name ends in `.gz`
/// (`debug_traceBlockFromFile`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRequestFile {
    /// Its name.
    pub name: String,
    /// Maximum length of the content, bytes; a longer file is an error.
    pub limit: u64,
}
request!(ReadRequestFile => Bytes, topic 0x090e, Administer);

/// Profiles the node's process, writing files into the first folder for requests (setting `rpc.files`). The timed steps
/// answer when the file is written, and stop when their caller leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordProfile {
    /// The step to execute.
    pub step: ProfileStep,
}
request!(RecordProfile => (), topic 0x090f, Administer);

/// A step of recording a profile. Files are named without a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProfileStep {
    /// Begins to sample what uses the processor (`debug_startCPUProfile`).
    StartCpu {
        /// The file.
        file: String,
    },
    /// Ends that and writes the file (`debug_stopCPUProfile`).
    StopCpu,
    /// Both, with a pause between (`debug_cpuProfile`).
    Cpu {
        /// The file.
        file: String,
        /// The pause.
        seconds: u64,
    },
    /// Writes which functions hold memory, if the allocator was started for it (`debug_writeMemProfile`).
    WriteHeap {
        /// The file.
        file: String,
    },
    /// Takes one sample per this many nanoseconds of waiting, on average; 0 or less ends sampling
    /// (`debug_setBlockProfileRate`).
    SetBlockingRate {
        /// The rate.
        nanoseconds: i64,
    },
    /// Writes the sampled waits (`debug_writeBlockProfile`).
    WriteBlocking {
        /// The file.
        file: String,
    },
    /// Samples all waits for a time, then writes (`debug_blockProfile`).
    Blocking {
        /// The file.
        file: String,
        /// The time.
        seconds: u64,
    },
    /// Samples one of this many waits for locks; 0 ends sampling, a negative number changes nothing
    /// (`debug_setMutexProfileFraction`).
    SetLockFraction {
        /// The fraction's denominator.
        fraction: i64,
    },
    /// Writes the sampled waits for locks (`debug_writeMutexProfile`).
    WriteLocks {
        /// The file.
        file: String,
    },
    /// Samples all waits for locks for a time, then writes (`debug_mutexProfile`).
    Locks {
        /// The file.
        file: String,
        /// The time.
        seconds: u64,
    },
    /// Begins to record spans (`debug_startGoTrace`).
    StartSpans {
        /// The file.
        file: String,
    },
    /// Ends that and writes the file (`debug_stopGoTrace`).
    StopSpans,
    /// Both, with a pause between (`debug_goTrace`).
    Spans {
        /// The file.
        file: String,
        /// The pause.
        seconds: u64,
    },
}
