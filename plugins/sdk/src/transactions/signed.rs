//! The JSON object that shows a signed transaction to the caller that requested the signature: `docs/spec/rpc-eth.md`
//! 6.4, 12.4.

use crate::Failure;
use alloy_primitives::{B256, U256, keccak256};
use tenon_api::{
    AccessListItem,
    messages::{CallRequest, SignedTransactionReply},
};

use crate::{
    rlp::{Decodable as _, Encodable as _, list_items, write_list},
    shapes::{JsonWriter, write_access_list},
};

/// RLP of an empty string, and of the number 0.
const EMPTY_STRING: u8 = 0x80;

/// Type and signature of a transaction in canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Signature {
    transaction_type: u8,
    v: U256,
    r: U256,
    s: U256,
}

impl Signature {
    /// Reads canonical bytes: the signature is the last three items of every type. `None` if they are not canonical.
    fn read(raw: &[u8]) -> Option<Self> {
        let (transaction_type, list) = match raw.first()? {
            0xc0.. => (0, raw),
            transaction_type => (*transaction_type, &raw[1..]),
        };
        let fields = list_items(list)?;
        let [.., v, r, s] = fields.as_slice() else { return None };
        let number = |mut field: &[u8]| U256::decode(&mut field).ok();
        Some(Self { transaction_type, v: number(v)?, r: number(r)?, s: number(s)? })
    }
}

/// `{raw, tx}`: the canonical bytes and the signed transaction. The reference shows the unsigned one, which is a
/// defect.
///
/// # Errors
/// `-32000` if the bytes are not a canonical transaction.
pub fn signed_json(request: &CallRequest, signed: &SignedTransactionReply) -> Result<JsonWriter, Failure> {
    let signature = Signature::read(&signed.raw)
        .ok_or_else(|| Failure::server("the signed transaction has a form that this node does not know"))?;
    Ok(answer(request, &signed.raw, signature, signed.hash))
}

/// `{raw, tx}` of an unsigned transaction: its signature is all zeroes.
pub fn unsigned_json(request: &CallRequest) -> JsonWriter {
    let raw = unsigned_bytes(request);
    let signature = Signature { transaction_type: unsigned_type(request), v: U256::ZERO, r: U256::ZERO, s: U256::ZERO };
    answer(request, &raw, signature, keccak256(&raw))
}

/// The reference's hash of an unsigned filled transaction (`docs/spec/rpc-eth.md` 12.5).
pub fn unsigned_hash(request: &CallRequest) -> B256 {
    keccak256(unsigned_bytes(request))
}

/// The type that the members of a completed transaction imply (`docs/spec/rpc-eth.md` 12.2).
fn unsigned_type(request: &CallRequest) -> u8 {
    match request {
        CallRequest { max_fee_per_gas: Some(_), .. } => 2,
        CallRequest { access_list: Some(_), .. } => 1,
        CallRequest { .. } => 0,
    }
}

/// Canonical bytes with an empty signature.
fn unsigned_bytes(request: &CallRequest) -> Vec<u8> {
    let transaction_type = unsigned_type(request);
    let mut fields = Vec::with_capacity(request.input.len() + 200);
    let number = |fields: &mut Vec<u8>, value: Option<U256>| value.unwrap_or_default().encode(fields);
    if transaction_type > 0 {
        number(&mut fields, request.chain_id.map(U256::from));
    }
    number(&mut fields, request.nonce.map(U256::from));
    if transaction_type == 2 {
        number(&mut fields, request.max_priority_fee_per_gas);
        number(&mut fields, request.max_fee_per_gas);
    } else {
        number(&mut fields, request.gas_price);
    }
    number(&mut fields, request.gas.map(U256::from));
    request.to.as_ref().map_or(&[][..], |to| to.as_slice()).encode(&mut fields);
    number(&mut fields, request.value);
    request.input.encode(&mut fields);
    if transaction_type > 0 {
        write_access_list_bytes(&mut fields, request.access_list.as_deref().unwrap_or_default());
    }
    // v, r, s.
    fields.extend([EMPTY_STRING; 3]);
    let mut bytes = if transaction_type > 0 { vec![transaction_type] } else { Vec::new() };
    write_list(&mut bytes, &fields);
    bytes
}

fn write_access_list_bytes(out: &mut Vec<u8>, items: &[AccessListItem]) {
    let mut list = Vec::new();
    for item in items {
        let (mut keys, mut pair) = (Vec::new(), Vec::new());
        item.storage_keys.iter().for_each(|key| key.encode(&mut keys));
        item.address.encode(&mut pair);
        write_list(&mut pair, &keys);
        write_list(&mut list, &pair);
    }
    write_list(out, &list);
}

fn answer(request: &CallRequest, raw: &[u8], signature: Signature, hash: B256) -> JsonWriter {
    let mut json = JsonWriter::with_capacity(raw.len() * 2 + request.input.len() * 2 + 900);
    json.begin_object();
    json.key("raw").data(raw);
    json.key("tx");
    json.begin_object();
    json.key("type").quantity(u64::from(signature.transaction_type));
    if signature.transaction_type > 0 {
        optional_quantity(&mut json, "chainId", request.chain_id.map(U256::from));
    }
    optional_quantity(&mut json, "nonce", request.nonce.map(U256::from));
    json.key("to").optional_data(request.to);
    optional_quantity(&mut json, "gas", request.gas.map(U256::from));
    optional_quantity(&mut json, "gasPrice", request.gas_price);
    optional_quantity(&mut json, "maxPriorityFeePerGas", request.max_priority_fee_per_gas);
    optional_quantity(&mut json, "maxFeePerGas", request.max_fee_per_gas);
    json.key("value").quantity_256(request.value.unwrap_or_default());
    json.key("input").data(&request.input);
    if signature.transaction_type > 0 {
        json.key("accessList");
        write_access_list(&mut json, request.access_list.as_deref().unwrap_or_default());
    }
    json.key("v").quantity_256(signature.v);
    json.key("r").quantity_256(signature.r);
    json.key("s").quantity_256(signature.s);
    json.key("hash").data(hash);
    json.end_object();
    json.end_object();
    json
}

fn optional_quantity(json: &mut JsonWriter, name: &str, value: Option<U256>) {
    match value {
        Some(value) => json.key(name).quantity_256(value),
        None => json.key(name).null(),
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Bytes;

    use super::*;

    /// From tests/eth_sendRawTransaction of execution-apis (CC0): types 1, 2 and 0.
    const RECORDED: [(&str, u8, &str); 3] = [
        (
            "01f8cc870c72dd9d5e883e028401a2158b83015f90947dcd17433742f4c0ca53122ab541d0ba67fc27df8083010203f85bf859947dcd17433742f4c0ca53122ab541d0ba67fc27dff842a00000000000000000000000000000000000000000000000000000000000000000a0010000000000000000000000000000000000000000000000000000000000000080a077c7fff2b3316a4a0b112a12eed09f6f10d31f3f4600a882301970ecb8451644a02e2136e1c2c3244ad1dfd367c11de1c288faba87991a8866b3fbbbda6033fa0b",
            1,
            "0x0",
        ),
        (
            "02f892870c72dd9d5e883e018201f48401a2158b82ea60802ab73d602d80600a3d3981f3363d3d373d3d3d363d734d11c446473105a02b5c1ab9ebe9b03f33902a295af43d82803e903d91602b57fd5bf3c080a09e9f032e932e6536bc8de35b5939814d5fe2c1bcb76f06e399583c8c745ea95fa04fae7d7df659a70471ddfed6dba493a4f044a074a0bba6198bb6e2be0977b299",
            2,
            "0x0",
        ),
        (
            "f86c808401a213988261a894aa000000000000000000000000000000000000000a8255448718e5bb3abd109fa073fbe7ff7e74339e7cc61fb3cb3f7630cd3f1d5fef653d7297654b2d22894daea042a188d30f35f19408c73c803bc1e9e17ce129c457e31fd2a368b54507af2f4c",
            0,
            "0x18e5bb3abd109f",
        ),
    ];

    #[test]
    fn signatures_are_found_in_every_form() {
        for (hex, transaction_type, v) in RECORDED {
            let raw: Bytes = hex.parse().expect("hex");

            let signature = Signature::read(&raw).expect("canonical bytes");

            assert_eq!(signature.transaction_type, transaction_type);
            assert_eq!(format!("{:#x}", signature.v), v);
            assert!(!signature.r.is_zero() && !signature.s.is_zero());
        }
        for malformed in ["", "05c0", "02c0", "c20102", "02", "c3010203ff", "c401018101", "c501018200ff"] {
            let raw: Bytes = malformed.parse().expect("hex");
            assert_eq!(Signature::read(&raw), None, "{malformed}");
        }
    }
}
