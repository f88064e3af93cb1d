//! Plain data: blocks, transactions, receipts, accounts. No rules, and no codecs except serde.
//!
//! The consensus encodings (RLP, tries, hashes) of these types are in `modules/chain`.

mod account;
mod block;
mod block_id;
mod commit;
mod decode_problem;
mod header;
mod log;
mod receipt;
mod secret;
mod transaction;
mod wire_balance;

pub use account::{
    Account, AccountProof, EMPTY_CODE_HASH, EMPTY_ROOT_HASH, StorageProof, WholeBalance, join_balance, split_balance,
};
pub use block::{Block, Head, RecoveredBlock, Withdrawal};
pub use block_id::{BlockId, BlockNumber, BlockTag};
pub use commit::{AccountChange, BlockCommit, SlotChange, TrieNodeWrite, TriePosition};
pub use decode_problem::DecodeProblem;
pub use header::{EMPTY_OMMERS_HASH, Header, NativeSeal, SealedHeader};
pub use log::{LocatedLog, Log, LogFilter};
pub use receipt::{Receipt, ReceiptOutcome};
pub use secret::SecretText;
pub use transaction::{
    AccessListItem, RecoveredTransaction, SignedAuthorization, Transaction, TransactionPayload, TransactionSignature,
    TransactionType,
};

pub use alloy_primitives::{Address, B64, B256, Bloom, Bytes, U256};
