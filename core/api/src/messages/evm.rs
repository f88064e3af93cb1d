//! Execution without making a block: calls, estimates, access lists. Topics `0x0300..`.

use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

use super::{CallFailure, request};
use crate::{AccessListItem, BlockId, SignedAuthorization};

/// A transaction that need not be signed or complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRequest {
    /// Sender; the zero address when absent.
    pub from: Option<Address>,
    /// Receiver; absent creates a contract.
    pub to: Option<Address>,
    /// Gas limit; absent means the node's cap.
    pub gas: Option<u64>,
    /// Price in wei per gas, types 0 and 1.
    pub gas_price: Option<U256>,
    /// Fee cap in wei per gas.
    pub max_fee_per_gas: Option<U256>,
    /// Tip cap in wei per gas.
    pub max_priority_fee_per_gas: Option<U256>,
    /// Wei to move.
    pub value: Option<U256>,
    /// The sender's nonce; absent means the state's.
    pub nonce: Option<u64>,
    /// Call data or creation code.
    pub input: Bytes,
    /// Must be the chain's own if present.
    pub chain_id: Option<u64>,
    /// Announced accesses.
    pub access_list: Option<Vec<AccessListItem>>,
    /// Fee cap in wei per blob gas.
    pub max_fee_per_blob_gas: Option<U256>,
    /// Versioned hashes of blobs.
    pub blob_versioned_hashes: Option<Vec<B256>>,
    /// Delegations to install first.
    pub authorization_list: Option<Vec<SignedAuthorization>>,
}

/// Overrides of one account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountOverride {
    /// Nonce.
    pub nonce: Option<u64>,
    /// Code.
    pub code: Option<Bytes>,
    /// Balance in wei.
    pub balance: Option<U256>,
    /// Replaces all of the account's storage.
    pub state: Option<Vec<(B256, B256)>>,
    /// Replaces some of the account's slots.
    pub state_diff: Option<Vec<(B256, B256)>>,
    /// New address of the precompile at this address.
    pub move_precompile_to: Option<Address>,
}

/// Overrides of the block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockOverrides {
    /// Height.
    pub number: Option<U256>,
    /// Difficulty.
    pub difficulty: Option<U256>,
    /// Unix time in seconds.
    pub time: Option<u64>,
    /// Gas limit.
    pub gas_limit: Option<u64>,
    /// Coinbase.
    pub fee_recipient: Option<Address>,
    /// PREVRANDAO.
    pub prev_randao: Option<B256>,
    /// Base fee in wei per gas.
    pub base_fee_per_gas: Option<U256>,
    /// Blob base fee in wei.
    pub blob_base_fee: Option<U256>,
}

/// Runs a call on a block's state (`eth_call`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The call.
    pub request: CallRequest,
    /// The block after which it runs.
    pub block: BlockId,
    /// Overrides of accounts.
    pub state_overrides: Vec<(Address, AccountOverride)>,
    /// Overrides of the block.
    pub block_overrides: BlockOverrides,
}
request!(Call => Result<Bytes, CallFailure>, topic 0x0300, schema 3, CallEvm);

/// The smallest gas limit with which a call succeeds (`eth_estimateGas`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EstimateGas {
    /// The call.
    pub request: CallRequest,
    /// The block after which it runs.
    pub block: BlockId,
    /// Overrides of accounts.
    pub state_overrides: Vec<(Address, AccountOverride)>,
    /// Overrides of the block.
    pub block_overrides: BlockOverrides,
    /// Whether the member `data` was absent or empty, regardless of `input`: on native chains it decides what counts as
    /// a plain transfer (`docs/spec/rpc-eth.md` 10.3).
    pub has_no_data: bool,
}
request!(EstimateGas => Result<u64, CallFailure>, topic 0x0301, schema 4, CallEvm);

/// The accesses that a call makes (`eth_createAccessList`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateAccessList {
    /// The call.
    pub request: CallRequest,
    /// The block after which it runs.
    pub block: BlockId,
    /// Overrides of accounts.
    pub state_overrides: Vec<(Address, AccountOverride)>,
}
request!(CreateAccessList => Result<AccessListReply, CallFailure>, topic 0x0302, schema 3, CallEvm);

/// The accesses that a call makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessListReply {
    /// Accounts and slots, without sender, precompiles and the receiver's bare address.
    pub access_list: Vec<AccessListItem>,
    /// Gas that the call uses with this list.
    pub gas_used: u64,
    /// Why the call with this list failed, if it did.
    pub failure: Option<CallFailure>,
}
