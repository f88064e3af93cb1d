//! Blocks, transactions, receipts and logs. Topics `0x0100..`.

use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::request;
use crate::{
    BlockId, BlockNumber, Head, Header, LocatedLog, LogFilter, Receipt, RecoveredBlock, RecoveredTransaction,
    SealedHeader, Withdrawal,
};

/// The head of the canonical chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetHead;
request!(GetHead => Arc<Head>, topic 0x0100, ReadChain);

/// Only the height of the head. For a plugin, [`GetHead`] costs as much as the rest of a call, because its answer is a
/// whole header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetHeadNumber;
request!(GetHeadNumber => BlockNumber, topic 0x010f, ReadChain);

/// A header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetHeader {
    /// Which block.
    pub block: BlockId,
}
request!(GetHeader => Option<StoredHeader>, topic 0x0101, ReadChain);

/// A header with what the database stores about its block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredHeader {
    /// The header.
    pub header: Arc<SealedHeader>,
    /// Sum of difficulties up to and including this block.
    pub total_difficulty: U256,
    /// Whether it is on the canonical chain.
    pub is_canonical: bool,
}

/// A block with its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetBlock {
    /// Which block.
    pub block: BlockId,
}
request!(GetBlock => Option<StoredBlock>, topic 0x0102, ReadChain);

/// A block with what the database stores about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredBlock {
    /// The block.
    pub block: Arc<RecoveredBlock>,
    /// Sum of difficulties up to and including this block.
    pub total_difficulty: U256,
    /// Whether it is on the canonical chain.
    pub is_canonical: bool,
}

/// A block with its receipts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetBlockReceipts {
    /// Which block.
    pub block: BlockId,
}
request!(GetBlockReceipts => Option<BlockReceipts>, topic 0x0103, ReadChain);

/// A block with its receipts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockReceipts {
    /// The block.
    pub block: Arc<RecoveredBlock>,
    /// One per transaction.
    pub receipts: Arc<Vec<Receipt>>,
    /// Price of one blob gas in the block, wei; `None` before Cancun.
    pub blob_gas_price: Option<U256>,
}

/// A transaction of the canonical chain, by hash. For the pool's transactions see [`super::GetPoolTransaction`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetTransaction {
    /// Transaction hash.
    pub hash: B256,
}
request!(GetTransaction => Option<LocatedTransaction>, topic 0x0104, ReadChain);

/// A transaction with its position in the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocatedTransaction {
    /// The transaction.
    pub transaction: RecoveredTransaction,
    /// The header of its block.
    pub header: Arc<SealedHeader>,
    /// Its position in the block.
    pub index: u64,
}

/// The receipt of a transaction of the canonical chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetReceipt {
    /// Transaction hash.
    pub hash: B256,
}
request!(GetReceipt => Option<LocatedReceipt>, topic 0x0105, ReadChain);

/// A receipt with its transaction and position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocatedReceipt {
    /// The transaction and its position.
    pub transaction: LocatedTransaction,
    /// The receipt.
    pub receipt: Receipt,
    /// Position in the block of the receipt's first log.
    pub first_log_index: u64,
    /// Price of one blob gas in the block, wei; `None` before Cancun.
    pub blob_gas_price: Option<U256>,
}

/// Logs of a range of canonical blocks, or of one block of any branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetLogs {
    /// The blocks to search.
    pub range: LogRange,
    /// The filter.
    pub filter: LogFilter,
}
request!(GetLogs => Vec<LocatedLog>, topic 0x0106, ReadChain);

/// The blocks to search for logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogRange {
    /// Canonical blocks, both ends included.
    Numbers {
        /// First block.
        from: BlockNumber,
        /// Last block; if above the head, the head.
        to: BlockNumber,
    },
    /// One block.
    Block(B256),
}

/// The number of transactions in a block, without reading them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountTransactions {
    /// Which block.
    pub block: BlockId,
}
request!(CountTransactions => Option<u64>, topic 0x0111, ReadChain);

/// One transaction of a block by its position; `None` if there is no such block or position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetTransactionInBlock {
    /// Which block.
    pub block: BlockId,
    /// Position in it.
    pub index: u64,
}
request!(GetTransactionInBlock => Option<LocatedTransaction>, topic 0x0112, ReadChain);

/// A block with the hashes of its transactions instead of its transactions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetBlockOutline {
    /// Which block.
    pub block: BlockId,
}
request!(GetBlockOutline => Option<BlockOutline>, topic 0x0113, ReadChain);

/// A block without its transactions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockOutline {
    /// The header.
    pub header: Arc<SealedHeader>,
    /// Hashes of the transactions, in order.
    pub transactions: Arc<Vec<B256>>,
    /// Headers of uncles.
    pub ommers: Vec<Header>,
    /// Withdrawals; `None` before Shanghai.
    pub withdrawals: Option<Vec<Withdrawal>>,
    /// Length of the block's RLP in bytes.
    pub size: u64,
    /// Sum of difficulties up to and including this block.
    pub total_difficulty: U256,
    /// Whether it is on the canonical chain.
    pub is_canonical: bool,
}

impl From<&StoredBlock> for BlockOutline {
    fn from(stored: &StoredBlock) -> Self {
        let block = &stored.block;
        Self {
            header: Arc::new(block.header.clone()),
            transactions: Arc::new(block.transactions.iter().map(|transaction| transaction.hash).collect()),
            ommers: block.ommers.clone(),
            withdrawals: block.withdrawals.clone(),
            size: block.size,
            total_difficulty: stored.total_difficulty,
            is_canonical: stored.is_canonical,
        }
    }
}

/// The chain's forks that are activated by time (`eth_config`, EIP-7910).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetForkSchedule;
request!(GetForkSchedule => ForkSchedule, topic 0x0115, ReadChain);

/// The chain's forks that are activated by time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkSchedule {
    /// Chain id of EIP-155.
    pub chain_id: u64,
    /// The rules of the head.
    pub current: ForkRules,
    /// The next fork's rules; `None` if no fork is known.
    pub next: Option<ForkRules>,
    /// The rules of the last known fork; `None` if there is no next one.
    pub last: Option<ForkRules>,
}

/// The rules from a fork on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkRules {
    /// Unix time of activation; 0 for a fork activated by height.
    pub activation: u64,
    /// The checksum of EIP-2124 over genesis and forks up to this one.
    pub fork_id: [u8; 4],
    /// The newest fork that changed precompiled or system contracts.
    pub contracts: ContractLevel,
    /// Blobs of a block: target, maximum, and the update fraction of the price; `None` before Cancun.
    pub blobs: Option<(u64, u64, u64)>,
    /// The deposit contract, from Prague on.
    pub deposit_contract: Option<Address>,
}

/// The set of precompiled and system contracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ContractLevel {
    /// The first four precompiled contracts.
    Frontier,
    /// Adds those of EIP-196, EIP-197, EIP-198.
    Byzantium,
    /// Adds that of EIP-152.
    Istanbul,
    /// Adds those of EIP-4788, EIP-4844.
    Cancun,
    /// Adds those of EIP-2537, EIP-2935, EIP-6110, EIP-7002, EIP-7251.
    Prague,
    /// Adds that of EIP-7951.
    Osaka,
}

/// The range of blocks whose state is available (`eth_capabilities`). The node has blocks, transactions, receipts and
/// logs of the whole chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAvailability;
request!(GetAvailability => Availability, topic 0x0114, ReadChain);

/// For which blocks this node has state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Availability {
    /// The head.
    pub head: (BlockNumber, B256),
    /// The oldest block whose state can be read and proved.
    pub oldest_state: BlockNumber,
    /// How many blocks before the head keep their state; `None` if all do.
    pub state_window: Option<u64>,
}

/// The consensus encoding of something (`debug_getRaw*`, raw transactions).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GetRaw {
    /// RLP of a header.
    Header(BlockId),
    /// RLP of a block.
    Block(BlockId),
    /// Canonical bytes of every receipt of a block.
    Receipts(BlockId),
    /// Canonical bytes of a transaction of the chain or the pool.
    Transaction(B256),
    /// Canonical bytes of one transaction of a block.
    TransactionInBlock {
        /// Which block.
        block: BlockId,
        /// Position in it.
        index: u64,
    },
}
request!(GetRaw => Option<Vec<Bytes>>, topic 0x0107, ReadChain);

/// Changes of the canonical chain since a block that the caller saw last: what filters and indexers poll.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetChainChanges {
    /// The block that the caller saw last.
    pub since: B256,
    /// Maximum number of added blocks to return.
    pub limit: u64,
}
request!(GetChainChanges => ChainChanges, topic 0x0108, ReadChain);

/// Blocks that left and joined the canonical chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainChanges {
    /// Blocks that left, newest first.
    pub removed: Vec<(BlockNumber, B256)>,
    /// Blocks that joined, oldest first.
    pub added: Vec<(BlockNumber, B256)>,
}

/// Facts about the chain that never change while the node runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetChainInfo;
request!(GetChainInfo => Arc<ChainInfo>, topic 0x0109, ReadChain);

/// Facts about the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainInfo {
    /// Chain id of EIP-155.
    pub chain_id: u64,
    /// The number that `net_version` returns.
    pub network_id: u64,
    /// Hash of block 0.
    pub genesis_hash: B256,
    /// Header shape and rules.
    pub profile: Profile,
}

/// The two families of rules that one code base serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Profile {
    /// Plain headers and Ethereum's fork rules.
    Ethereum,
    /// Headers with the three native items, the native engines and rules.
    Native,
}

/// Proofs that a transaction of the canonical chain and its receipt are part of its block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetTransactionProof {
    /// Transaction hash.
    pub hash: B256,
}
request!(GetTransactionProof => Option<TransactionProof>, topic 0x010b, ReadChain);

/// Merkle proofs of a transaction and its receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionProof {
    /// Hash of the block.
    pub block_hash: B256,
    /// Root of its transactions.
    pub transactions_root: B256,
    /// Root of its receipts.
    pub receipts_root: B256,
    /// The key in both tries: RLP of the transaction's position.
    pub key: Bytes,
    /// RLP of the trie nodes from the root to the transaction; nodes embedded in their parent are left out.
    pub transaction_nodes: Vec<Bytes>,
    /// RLP of the trie nodes from the root to the receipt, likewise.
    pub receipt_nodes: Vec<Bytes>,
}

/// Writes canonical blocks to a file on this machine as concatenated RLP (`admin_exportChain`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportChain {
    /// The file; compressed when its name ends in `.gz`.
    pub path: String,
    /// The first block; by default block 0.
    pub first: Option<BlockNumber>,
    /// The last block; by default the head.
    pub last: Option<BlockNumber>,
}
request!(ExportChain => (), topic 0x010d, Administer);

/// The `config` object of the node's genesis (`admin_nodeInfo`). JSON text in one line, not a typed value: clients get
/// the object as the genesis file has it, with its order, its spelling of numbers, and members that the node does not
/// know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetChainConfig;
request!(GetChainConfig => String, topic 0x010e, ReadChain);

/// Imports the blocks of a file on this machine, concatenated RLP (`admin_importChain`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportChain {
    /// The file.
    pub path: String,
}
request!(ImportChain => (), topic 0x010c, Administer);

/// Copies the database into a folder of the data folder, replacing the previous copy, and returns its path
/// (`admin_makeCheckpoint`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeCheckpoint;
request!(MakeCheckpoint => String, topic 0x0110, Administer);

/// Moves the head back to a canonical block (`debug_setHead`); destructive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetHead {
    /// The new head's height.
    pub number: BlockNumber,
}
request!(SetHead => (), topic 0x010a, Administer);
