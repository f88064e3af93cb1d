//! Block headers.

use alloy_primitives::{Address, B64, B256, Bloom, Bytes, U256, b256};
use serde::{Deserialize, Serialize};

/// keccak256 of the RLP of an empty list: the uncle hash of a block without uncles.
pub const EMPTY_OMMERS_HASH: B256 = b256!("1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347");

/// The three items that a native header carries between `nonce` and `base_fee_per_gas` (`docs/spec/chain.md` 1.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeSeal {
    /// v1 checkpoint: second signers; v2 epoch switch: masternodes, 20 bytes each; otherwise empty.
    pub validators: Bytes,
    /// v1: signature of the second signer; v2: signature of the block's creator; 65 bytes or empty.
    pub validator: Bytes,
    /// Penalised masternodes, 20 bytes each, at checkpoints and epoch switches.
    pub penalties: Bytes,
}

/// A block header of either profile: native (18 or 19 items, `native_seal` present) or Ethereum (15 to 21).
///
/// The optional items after `nonce` are positional in RLP: one may be present only if all before it are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Hash of the parent block.
    pub parent_hash: B256,
    /// keccak256 of the RLP of the uncle list.
    pub ommers_hash: B256,
    /// Receiver of fees; on native v1 chains the vote target.
    pub beneficiary: Address,
    /// Root of the state trie after this block.
    pub state_root: B256,
    /// Root of the trie of transactions.
    pub transactions_root: B256,
    /// Root of the trie of receipts.
    pub receipts_root: B256,
    /// Union of the receipts' blooms.
    pub logs_bloom: Bloom,
    /// Difficulty; its meaning depends on the consensus engine.
    pub difficulty: U256,
    /// Height.
    pub number: u64,
    /// Maximum gas of the block.
    pub gas_limit: u64,
    /// Gas that the block used.
    pub gas_used: u64,
    /// Unix time in seconds.
    pub timestamp: u64,
    /// Arbitrary bytes; on native chains vanity, votes and certificates.
    pub extra_data: Bytes,
    /// Seal digest, or after the merge the random value of the beacon chain.
    pub mix_hash: B256,
    /// Seal nonce.
    pub nonce: B64,
    /// The native profile's three items; `None` on the Ethereum profile.
    pub native_seal: Option<NativeSeal>,
    /// Base fee in wei per gas (EIP-1559).
    pub base_fee_per_gas: Option<u64>,
    /// Root of the trie of withdrawals (EIP-4895).
    pub withdrawals_root: Option<B256>,
    /// Blob gas used (EIP-4844).
    pub blob_gas_used: Option<u64>,
    /// Running excess of blob gas (EIP-4844).
    pub excess_blob_gas: Option<u64>,
    /// Root of the parent beacon block (EIP-4788).
    pub parent_beacon_block_root: Option<B256>,
    /// SHA-256 commitment to the execution requests (EIP-7685).
    pub requests_hash: Option<B256>,
}

/// A header together with the hash computed from its fields.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Deref, Serialize, Deserialize)]
pub struct SealedHeader {
    hash: B256,
    #[deref]
    header: Header,
}

impl SealedHeader {
    /// Joins a header and its hash without checking. Only for `modules/chain`, which computes hashes.
    pub const fn new_unchecked(header: Header, hash: B256) -> Self {
        Self { hash, header }
    }

    /// The block hash.
    pub const fn hash(&self) -> B256 {
        self.hash
    }

    /// The fields.
    pub const fn header(&self) -> &Header {
        &self.header
    }
}
