//! Bounds on what is read. No honest node comes near those that the protocol itself does not have.

/// Maximum size of a message, decompressed, in bytes (`docs/spec/p2p.md` 1).
pub const MAX_MESSAGE_BYTES: usize = 10_485_760;
/// Headers that are asked for and served at most.
pub const MAX_HEADERS: usize = 192;
/// Bodies that are asked for and served at most.
pub const MAX_BODIES: usize = 128;
/// Lists of receipts that are asked for and served at most.
pub const MAX_RECEIPTS: usize = 256;
/// Items of state that are asked for and served at most.
pub const MAX_NODE_DATA: usize = 384;
/// Transactions that are asked for and served by hash at most.
pub const MAX_POOLED_TRANSACTIONS: usize = 256;
/// An answer stops once it has so many bytes; the last item may go beyond it.
pub const SOFT_ANSWER_BYTES: usize = 2_097_152;

/// Maximum number of items of an answer: more than anybody asks for, since answers that nobody asked for are read as well.
pub const MAX_ANSWER_ITEMS: usize = 1024;
/// Maximum number of announced blocks, orders or lendings of a message.
pub const MAX_ANNOUNCED: usize = 4096;
/// Maximum number of transactions of a message, over all its blocks. A signed transaction has some 80 bytes at least.
pub const MAX_TRANSACTIONS: usize = MAX_MESSAGE_BYTES / 80;
/// Maximum number of hashes of transactions of a message.
pub const MAX_TRANSACTION_HASHES: usize = 32_768;
/// Maximum number of logs of a message, over all its receipts.
pub const MAX_LOGS: usize = MAX_MESSAGE_BYTES / 24;
/// Maximum size of a vote, timeout or sync info in bytes: two certificates of 1,000 masternodes and more.
pub const MAX_CONSENSUS_BYTES: usize = 256 * 1024;
