//! RLP of headers, blocks, transactions and receipts. Decoding is strict: one object has one encoding.
//!
//! `alloy-consensus` is not used: its gas prices have 128 bits, and it accepts a legacy transaction only with a `v` of
//! EIP-155 or of 27 or 28. Chains of the native family have transactions with higher prices (`docs/spec/chain.md` 2),
//! and the pool must answer for any `v`, so this crate would need a second codec anyway.

mod block;
mod error;
mod header;
mod item;
mod pooled;
mod receipt;
pub(crate) mod rlp;
mod stream;
mod transaction;

pub use block::{assemble_block, decode_block, encode_block, encode_withdrawal};
pub use error::{DecodeError, DecodeProblem};
pub use header::{
    OtherHeaderForm, decode_header, decode_sealed_header, encode_header, encode_items_before_extra,
    require_ethereum_header, require_native_header, seal,
};
pub use item::{RlpItem, decode_item, encode_item};
pub use pooled::{
    BLOB_BYTES, BlobSidecar, CELLS_PER_EXTENDED_BLOB, KzgPoint, VERSIONED_HASH_VERSION, decode_pooled_transaction,
    encode_pooled_transaction, versioned_hash,
};
pub use receipt::{decode_receipt, encode_receipt, encode_receipt_with_bloom, logs_bloom};
pub use stream::{BlockStream, DEFAULT_BLOCK_BOUND, StreamError};
pub use transaction::{
    authorization_signing_hash, decode_list_transaction, decode_transaction, encode_list_transaction,
    encode_transaction, signing_hash, transaction_hash,
};
