//! Limits of decoding. Honest nodes stay far below the limits that are not part of the protocol.

/// Maximum size of a message, decompressed, in bytes (`docs/spec/p2p.md` 1).
pub const MAX_MESSAGE_BYTES: usize = 10_485_760;
/// Maximum number of headers in a request or an answer.
pub const MAX_HEADERS: usize = 192;
/// Maximum number of bodies in a request or an answer.
pub const MAX_BODIES: usize = 128;
/// Maximum number of receipt lists in a request or an answer.
pub const MAX_RECEIPTS: usize = 256;
/// Maximum number of state items in a request or an answer.
pub const MAX_NODE_DATA: usize = 384;
/// Maximum number of transactions in a request by hash or its answer.
pub const MAX_POOLED_TRANSACTIONS: usize = 256;
/// No item is added to an answer once it has this many bytes; the last item may exceed it.
pub const SOFT_ANSWER_BYTES: usize = 2_097_152;

/// Maximum number of items of an answer. Larger than any request, because unsolicited answers are decoded as well.
pub const MAX_ANSWER_ITEMS: usize = 1024;
/// Number of announced blocks of a message that are decoded; the rest is ignored. Blocks more than 32 above or 7 below the
/// head are not wanted (`docs/spec/p2p.md` 18), and honest peers announce one or few at a time.
pub const MAX_ANNOUNCED_BLOCKS: usize = 64;
/// Maximum number of orders or lendings in a message.
pub const MAX_ORDERS: usize = 4096;
/// Maximum number of transactions in a message, over all its blocks. A signed transaction has at least about 80 bytes.
pub const MAX_TRANSACTIONS: usize = MAX_MESSAGE_BYTES / 80;
/// Maximum number of transactions that are taken from a message of transactions; the rest is ignored. The reference sends
/// about 100 KiB of them at a time.
pub const MAX_GOSSIPED_TRANSACTIONS: usize = 4096;
/// Number of transactions that a message of any size may have.
const FREE_TRANSACTIONS: usize = 256;
/// Less than the size of any signed transaction, in bytes.
const MIN_TRANSACTION_BYTES: usize = 64;

/// Maximum number of transactions in a message of this size. Decoding one takes a microsecond even if it has only 14
/// bytes, and compression shrinks equal ones to almost nothing.
pub(crate) const fn max_transactions(message_bytes: usize) -> usize {
    FREE_TRANSACTIONS + message_bytes / MIN_TRANSACTION_BYTES
}
/// Maximum number of transaction hashes in a message.
pub const MAX_TRANSACTION_HASHES: usize = 32_768;
/// Maximum number of logs in a message, over all its receipts.
pub const MAX_LOGS: usize = MAX_MESSAGE_BYTES / 24;
/// Maximum size of a vote, timeout or sync info in bytes: enough for two certificates of more than 1,000 masternodes.
pub const MAX_CONSENSUS_BYTES: usize = 256 * 1024;
