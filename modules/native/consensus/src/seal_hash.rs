//! Digests signed by the seals of native headers (`docs/spec/consensus.md` 1.2).

use alloy_primitives::{B256, keccak256};
use alloy_rlp::{Encodable, Header as RlpHeader};
use tenon_api::{Header, NativeSeal};
use tenon_chain::encode_items_before_extra;

use super::extra::SEAL_BYTES;

/// The digest signed by the creator and the second signer of a v1 block: the items up to the nonce, the extra data
/// without its last 65 bytes, and the base fee if there is one. It does not cover the three native items.
///
/// Extra data of fewer than 65 bytes has no seal and is not cut.
pub fn v1_seal_hash(header: &Header) -> B256 {
    let extra = header
        .extra_data
        .len()
        .checked_sub(SEAL_BYTES)
        .map_or(&header.extra_data[..], |end| header.extra_data.get(..end).unwrap_or_default());
    let mut items = Vec::with_capacity(640);
    encode_items_before_extra(header, &mut items);
    extra.encode(&mut items);
    header.mix_hash.encode(&mut items);
    header.nonce.encode(&mut items);
    encode_base_fee(header, &mut items);
    hash_of_list(&items)
}

/// The digest signed by the proposer of a v2 block: every item except the signature itself.
pub fn v2_seal_hash(header: &Header) -> B256 {
    let nothing = NativeSeal::default();
    let seal = header.native_seal.as_ref().unwrap_or(&nothing);
    let mut items = items_to_validators(header, seal);
    seal.penalties.encode(&mut items);
    encode_base_fee(header, &mut items);
    hash_of_list(&items)
}

/// Key of a v1 block without its second signature: the block hash with that signature empty, and always without a base
/// fee.
pub fn hash_without_validator(header: &Header) -> B256 {
    let nothing = NativeSeal::default();
    let seal = header.native_seal.as_ref().unwrap_or(&nothing);
    let mut items = items_to_validators(header, seal);
    items.push(alloy_rlp::EMPTY_STRING_CODE);
    seal.penalties.encode(&mut items);
    hash_of_list(&items)
}

/// The items up to the list of validators, as in all digests except the v1 seal's.
fn items_to_validators(header: &Header, seal: &NativeSeal) -> Vec<u8> {
    let mut items = Vec::with_capacity(640 + header.extra_data.len() + seal.validators.len());
    encode_items_before_extra(header, &mut items);
    header.extra_data.encode(&mut items);
    header.mix_hash.encode(&mut items);
    header.nonce.encode(&mut items);
    seal.validators.encode(&mut items);
    items
}

fn encode_base_fee(header: &Header, out: &mut Vec<u8>) {
    if let Some(base_fee) = header.base_fee_per_gas {
        base_fee.encode(out);
    }
}

fn hash_of_list(items: &[u8]) -> B256 {
    let mut list = Vec::with_capacity(items.len() + 9);
    RlpHeader { list: true, payload_length: items.len() }.encode(&mut list);
    list.extend_from_slice(items);
    keccak256(list)
}
