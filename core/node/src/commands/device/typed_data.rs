//! Typed data as JSON (EIP-712), for devices that show its structure and for those that show its hashes.

use std::collections::BTreeMap;

use alloy_dyn_abi::{DynSolValue, TypedData as Parsed};
use alloy_primitives::U256;
use serde_json::Value as Json;
use tenon_device_session::{Member, MemberType, TypedData, Value};

/// The structure of a domain.
const DOMAIN: &str = "EIP712Domain";

/// Reads typed data.
pub(super) fn read(text: &str) -> Result<TypedData, String> {
    let json: Json = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let parsed: Parsed = serde_json::from_value(json.clone()).map_err(|error| error.to_string())?;
    let mut structures = structures(&json["types"])?;
    let (members, domain) = domain(&parsed)?;
    structures.insert(DOMAIN.into(), members);
    let is_domain_alone = parsed.primary_type == DOMAIN;
    let (message, message_hash) = if is_domain_alone {
        (domain.clone(), None)
    } else {
        let coerced = parsed.coerce().map_err(|error| error.to_string())?;
        (value(&coerced)?, Some(parsed.hash_struct().map_err(|error| error.to_string())?))
    };
    Ok(TypedData {
        structures,
        domain,
        message,
        domain_separator: parsed.domain.separator(),
        message_hash,
        primary_type: parsed.primary_type,
    })
}

/// The members that the domain has, in the standard's order, with their values.
fn domain(parsed: &Parsed) -> Result<(Vec<Member>, Value), String> {
    let domain = &parsed.domain;
    let mut members = Vec::new();
    let mut values = Vec::new();
    let mut add = |name: &str, kind, bytes: Option<Vec<u8>>| {
        if let Some(bytes) = bytes {
            members.push(Member { name: name.into(), kind });
            values.push(Value::Plain(bytes));
        }
    };
    add("name", MemberType::Text, domain.name.as_ref().map(|name| name.as_bytes().to_vec()));
    add("version", MemberType::Text, domain.version.as_ref().map(|version| version.as_bytes().to_vec()));
    let word = |number: U256| number.to_be_bytes::<32>().to_vec();
    add("chainId", MemberType::Unsigned(32), domain.chain_id.map(word));
    add("verifyingContract", MemberType::Address, domain.verifying_contract.map(|address| address.to_vec()));
    add("salt", MemberType::Bytes(Some(32)), domain.salt.map(|salt| salt.to_vec()));
    Ok((members, Value::Parts(values)))
}

fn structures(types: &Json) -> Result<BTreeMap<String, Vec<Member>>, String> {
    let types = types.as_object().ok_or("types is no object")?;
    let mut structures = BTreeMap::new();
    for (name, members) in types {
        let member = |member: &Json| {
            let text = |key: &str| member[key].as_str().ok_or_else(|| format!("a member of {name} has no {key}"));
            let (kind, name) = (text("type")?, text("name")?);
            let kind = member_type(kind, types).ok_or_else(|| format!("{kind} is no type"))?;
            Ok::<_, String>(Member { name: name.to_owned(), kind })
        };
        let members = members.as_array().ok_or_else(|| format!("the members of {name} are no list"))?;
        let members: Result<Vec<_>, _> = members.iter().map(member).collect();
        structures.insert(name.clone(), members?);
    }
    Ok(structures)
}

/// Longest name of a type: its brackets are read one inside the other.
const MAX_TYPE_NAME: usize = 256;

/// A type by its name.
fn member_type(name: &str, types: &serde_json::Map<String, Json>) -> Option<MemberType> {
    if name.len() > MAX_TYPE_NAME {
        return None;
    }
    if let Some(entry) = name.strip_suffix(']') {
        let (entry, size) = entry.rsplit_once('[')?;
        let size = if size.is_empty() { None } else { Some(size.parse().ok()?) };
        return Some(MemberType::Array(Box::new(member_type(entry, types)?), size));
    }
    if types.contains_key(name) {
        return Some(MemberType::Structure(name.to_owned()));
    }
    let bytes_of = |bits: &str| match bits {
        "" => Some(32),
        bits => bits
            .parse()
            .ok()
            .filter(|bits: &u32| bits.is_multiple_of(8) && (8..=256).contains(bits))
            .map(|bits| bits / 8),
    };
    match name {
        "string" => Some(MemberType::Text),
        "bool" => Some(MemberType::Bool),
        "address" => Some(MemberType::Address),
        "bytes" => Some(MemberType::Bytes(None)),
        _ => {
            if let Some(bits) = name.strip_prefix("uint") {
                return bytes_of(bits).map(MemberType::Unsigned);
            }
            if let Some(bits) = name.strip_prefix("int") {
                return bytes_of(bits).map(MemberType::Signed);
            }
            let size: u32 = name.strip_prefix("bytes")?.parse().ok()?;
            (1..=32).contains(&size).then_some(MemberType::Bytes(Some(size)))
        }
    }
}

/// A value as devices take it.
fn value(of: &DynSolValue) -> Result<Value, String> {
    let parts = |values: &[DynSolValue]| values.iter().map(value).collect::<Result<Vec<_>, _>>().map(Value::Parts);
    let number = |bytes: [u8; 32], bits: usize| Value::Plain(bytes[32 - bits.min(256) / 8..].to_vec());
    Ok(match of {
        DynSolValue::Bool(is_true) => Value::Plain(vec![u8::from(*is_true)]),
        DynSolValue::Int(number_of, bits) => number(number_of.to_be_bytes(), *bits),
        DynSolValue::Uint(number_of, bits) => number(number_of.to_be_bytes(), *bits),
        DynSolValue::FixedBytes(word, size) => Value::Plain(word[..(*size).min(32)].to_vec()),
        DynSolValue::Address(address) => Value::Plain(address.to_vec()),
        DynSolValue::Bytes(bytes) => Value::Plain(bytes.clone()),
        DynSolValue::String(text) => Value::Plain(text.as_bytes().to_vec()),
        DynSolValue::Array(values) | DynSolValue::FixedArray(values) => parts(values)?,
        DynSolValue::CustomStruct { tuple, .. } => parts(tuple)?,
        DynSolValue::Tuple(_) | DynSolValue::Function(_) => return Err("a value has a type that EIP-712 lacks".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIL: &str = r#"{
        "types": {
            "EIP712Domain": [{"name": "name", "type": "string"}, {"name": "chainId", "type": "uint256"}],
            "Person": [{"name": "name", "type": "string"}, {"name": "wallets", "type": "address[]"}],
            "Mail": [{"name": "to", "type": "Person[2]"}, {"name": "score", "type": "int8"}, {"name": "tag", "type": "bytes4"}]
        },
        "primaryType": "Mail",
        "domain": {"name": "Ether Mail", "chainId": 1},
        "message": {
            "to": [{"name": "Cow", "wallets": ["0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"]}, {"name": "Bob", "wallets": []}],
            "score": -1, "tag": "0x61626364"
        }
    }"#;

    #[test]
    fn reads_structures_and_values_in_their_order() {
        let data = read(MAIL).unwrap();

        let names = |name: &str| data.structures[name].iter().map(|member| member.name.clone()).collect::<Vec<_>>();
        assert_eq!(names("EIP712Domain"), ["name", "chainId"]);
        assert_eq!(names("Mail"), ["to", "score", "tag"]);
        let person = MemberType::Array(Box::new(MemberType::Structure("Person".into())), Some(2));
        assert_eq!(data.structures["Mail"][0].kind, person);
        let Value::Parts(message) = &data.message else { panic!("{:?}", data.message) };
        assert_eq!(message[1..], [Value::Plain(vec![0xff]), Value::Plain(b"abcd".to_vec())]);
        assert!(data.message_hash.is_some());
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, expected) in [
            ("{", "EOF"),
            (&MAIL.replace("int8", "int7"), "int7"),
            (&MAIL.replace("\"bytes4\"", "\"bytes33\""), "bytes33"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
