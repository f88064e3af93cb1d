//! Formats of the account-based chain: encodings of headers, blocks, transactions and receipts, their hashes and roots,
//! the state trie, chain specifications and genesis files. Pure data without I/O.
//!
//! It owns every consensus encoding, sender recovery, the fork schedule and the numbers that depend on it (base fee,
//! blob gas, difficulty, intrinsic gas), and the incremental Merkle-Patricia trie over storage's
//! [`TrieReader`](tenon_api::TrieReader). The rules are Ethereum's. Another family of chains brings its own:
//! [`SpecFamily`](spec::SpecFamily) for the schedule, [`GenesisFamily`](genesis::GenesisFamily) for genesis files.
//!
//! Invariants:
//!
//! - every object has exactly one accepted encoding, so a hash of the input bytes equals the hash of the fields;
//! - no input from outside makes it panic or allocate more than a small multiple of its length;
//! - it knows no database, executes nothing and makes no decision of a consensus engine.
//!
//! ```
//! use tenon_chain::{decode_block, encode_block};
//!
//! # fn read(bytes: &[u8]) -> Result<(), tenon_chain::DecodeError> {
//! let block = decode_block(&mut &bytes[..])?;
//! assert_eq!(encode_block(&block), bytes);
//! println!("block {} has hash {}", block.number(), block.hash());
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod codec;
mod contract_slots;
pub mod genesis;
mod resolve;
mod roots;
pub mod round_messages;
mod sender;
pub mod spec;
pub mod trie;

pub use codec::{
    BlobSidecar, BlockStream, DecodeError, DecodeProblem, OtherHeaderForm, StreamError, assemble_block,
    authorization_signing_hash, decode_block, decode_header, decode_list_transaction, decode_pooled_transaction,
    decode_receipt, decode_sealed_header, decode_transaction, encode_block, encode_header, encode_items_before_extra,
    encode_list_transaction, encode_pooled_transaction, encode_receipt, encode_transaction, logs_bloom,
    require_ethereum_header, require_native_header, seal, signing_hash, transaction_hash,
};
pub use contract_slots::{
    VALIDATOR_CONTRACT, address_in, candidate_record, element_slot, mapping_slot, masternode_owner, variable_slot,
};
pub use genesis::{EMPTY_REQUESTS_HASH, Genesis, GenesisAccount, GenesisError};
pub use resolve::{ResolveError, StateUnavailable, require_block, resolve_block};
pub use roots::{
    ListTrie, PositionProof, encoded_transactions_root, ommers_hash, receipts_root, receipts_root_and_bloom,
    requests_hash, transactions_root, withdrawals_root,
};
pub use sender::{
    HighS, RecoverError, SignedHash, SignerRules, recover_authorities, recover_sender, recover_sender_with,
    recover_senders, recover_senders_of, recover_senders_under, signed_hash, signed_hash_of,
};
pub use spec::{
    Activation, BlobParameters, BlockPlace, ChainSpec, Fork, ForkId, RuleChange, Rules, RulesError, blob_gas_used,
    floor_data_gas, floor_gas, intrinsic_gas, stepped_gas_limit,
};
pub use trie::{TrieError, TrieUpdate, prove, read_account, read_slot, update_state_trie};
