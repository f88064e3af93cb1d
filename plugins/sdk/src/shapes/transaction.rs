//! Transactions (`docs/spec/rpc-eth.md` 6.3, `docs/spec/conformance.md` 3.2).

use alloy_primitives::{Address, B256};
use tenon_api::{
    AccessListItem, SealedHeader, SignedAuthorization, Transaction, TransactionPayload, TransactionType,
    messages::Profile,
};

use super::{JsonWriter, family_members::FamilyMembers};

/// Position of a mined transaction.
#[derive(Clone, Copy, Debug)]
pub struct TransactionPlace {
    /// Hash of its block.
    pub block_hash: B256,
    /// Height of its block.
    pub block_number: u64,
    /// Unix time of its block, seconds.
    pub block_timestamp: u64,
    /// Base fee of its block, wei per gas.
    pub base_fee_per_gas: Option<u64>,
    /// Its position in the block.
    pub index: u64,
}

impl TransactionPlace {
    /// Position `index` of the block with this header.
    pub fn in_block(header: &SealedHeader, index: u64) -> Self {
        Self {
            block_hash: header.hash(),
            block_number: header.number,
            block_timestamp: header.timestamp,
            base_fee_per_gas: header.base_fee_per_gas,
            index,
        }
    }
}

/// A transaction; without a place it is in the pool.
pub fn write_transaction(
    json: &mut JsonWriter,
    profile: Profile,
    transaction: &Transaction,
    sender: Address,
    place: Option<&TransactionPlace>,
) {
    json.begin_object();
    write_block_of(json, profile, place);
    json.key("from").data(sender);
    json.key("gas").quantity(transaction.gas_limit);
    write_prices(json, transaction, place);
    json.key("hash").data(transaction.hash);
    json.key("input").data(&transaction.input);
    json.key("nonce").quantity(transaction.nonce);
    json.key("to").optional_data(transaction.to);
    match place {
        Some(place) => json.key("transactionIndex").quantity(place.index),
        None => json.key("transactionIndex").null(),
    }
    json.key("value").quantity_256(transaction.value);
    json.key("type").quantity(transaction.transaction_type() as u64);
    write_typed_members(json, profile, transaction);
    write_signature(json, profile, transaction);
    json.end_object();
}

fn write_block_of(json: &mut JsonWriter, profile: Profile, place: Option<&TransactionPlace>) {
    let has_timestamp = FamilyMembers::of(profile).has_block_timestamp;
    match place {
        Some(place) => {
            json.key("blockHash").data(place.block_hash);
            json.key("blockNumber").quantity(place.block_number);
            if has_timestamp {
                json.key("blockTimestamp").quantity(place.block_timestamp);
            }
        }
        None => {
            json.key("blockHash").null();
            json.key("blockNumber").null();
            if has_timestamp {
                json.key("blockTimestamp").null();
            }
        }
    }
}

/// `gasPrice` is the price paid once the block is known, and the fee cap before that.
fn write_prices(json: &mut JsonWriter, transaction: &Transaction, place: Option<&TransactionPlace>) {
    let price = match place {
        Some(place) => transaction.effective_gas_price(place.base_fee_per_gas),
        None => transaction.max_fee_per_gas(),
    };
    json.key("gasPrice").quantity_256(price);
    if transaction.transaction_type() >= TransactionType::DynamicFee {
        json.key("maxFeePerGas").quantity_256(transaction.max_fee_per_gas());
        json.key("maxPriorityFeePerGas").quantity_256(transaction.max_priority_fee_per_gas());
    }
    if let TransactionPayload::Blob { max_fee_per_blob_gas, .. } = &transaction.payload {
        json.key("maxFeePerBlobGas").quantity_256(*max_fee_per_blob_gas);
    }
}

/// The access list, the chain id, blobs and authorisations. The native profile omits the chain id of a protected
/// transaction of type 0.
fn write_typed_members(json: &mut JsonWriter, profile: Profile, transaction: &Transaction) {
    let is_legacy = transaction.transaction_type() == TransactionType::Legacy;
    if !is_legacy {
        json.key("accessList");
        write_access_list(json, transaction.access_list());
    }
    match transaction.chain_id {
        Some(chain_id) if !is_legacy || FamilyMembers::of(profile).legacy_has_chain_id => {
            json.key("chainId").quantity(chain_id)
        }
        _ => {}
    }
    match &transaction.payload {
        TransactionPayload::Blob { blob_versioned_hashes, .. } => {
            json.key("blobVersionedHashes");
            json.begin_list();
            for hash in blob_versioned_hashes {
                json.data(hash);
            }
            json.end_list();
        }
        TransactionPayload::SetCode { authorization_list, .. } => {
            json.key("authorizationList");
            json.begin_list();
            for authorization in authorization_list {
                write_authorization(json, authorization);
            }
            json.end_list();
        }
        _ => {}
    }
}

fn write_signature(json: &mut JsonWriter, profile: Profile, transaction: &Transaction) {
    json.key("v").quantity(transaction.signature.v);
    json.key("r").quantity_256(transaction.signature.r);
    json.key("s").quantity_256(transaction.signature.s);
    if FamilyMembers::of(profile).has_y_parity && transaction.transaction_type() != TransactionType::Legacy {
        json.key("yParity").quantity(transaction.signature.v);
    }
}

/// An access list, also in the form of `eth_createAccessList`.
pub fn write_access_list(json: &mut JsonWriter, items: &[AccessListItem]) {
    json.begin_list();
    for item in items {
        json.begin_object();
        json.key("address").data(item.address);
        json.key("storageKeys");
        json.begin_list();
        for key in &item.storage_keys {
            json.data(key);
        }
        json.end_list();
        json.end_object();
    }
    json.end_list();
}

fn write_authorization(json: &mut JsonWriter, authorization: &SignedAuthorization) {
    json.begin_object();
    json.key("chainId").quantity_256(authorization.chain_id);
    json.key("address").data(authorization.address);
    json.key("nonce").quantity(authorization.nonce);
    json.key("yParity").quantity(u64::from(authorization.y_parity));
    json.key("r").quantity_256(authorization.r);
    json.key("s").quantity_256(authorization.s);
    json.end_object();
}
