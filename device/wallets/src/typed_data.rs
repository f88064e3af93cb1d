//! Converts typed data (EIP-712) from JSON into the structures and values that devices query.
//!
//! The hashes are computed elsewhere. If they do not match this data, the device signs another hash than the node
//! expects, and the signature is rejected.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, B256, I256, U256, hex};
use serde_json::{Map, Value as Json};
use tenon_device_session::{Member, MemberType, TypedData, Value};

/// Name of the domain's structure.
const DOMAIN: &str = "EIP712Domain";
/// Maximum length of the text, bytes.
const MAX_TEXT: usize = 1 << 20;
/// Maximum number of structures.
const MAX_STRUCTURES: usize = 256;
/// Maximum length of a type name, bytes. Bounds the recursion over its brackets.
const MAX_TYPE_NAME: usize = 256;
/// The members that a domain may have without declaring its type, in the standard's order.
const STANDARD_DOMAIN: [(&str, MemberType); 5] = [
    ("name", MemberType::Text),
    ("version", MemberType::Text),
    ("chainId", MemberType::Unsigned(32)),
    ("verifyingContract", MemberType::Address),
    ("salt", MemberType::Bytes(Some(32))),
];

/// What is wrong with typed data. The text names the member or type, but no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypedDataError {
    /// Its text is too long.
    #[error("typed data: {0} bytes; at most {max} are allowed", max = MAX_TEXT)]
    TooLong(usize),
    /// It is not JSON.
    #[error("typed data: {0}")]
    NotJson(String),
    /// It does not name the structure of its message.
    #[error("typed data: primaryType is missing")]
    NoPrimaryType,
    /// Its types are of another JSON type.
    #[error("typed data: types is not an object")]
    TypesNotObject,
    /// It declares too many structures.
    #[error("typed data: more than {} structures", MAX_STRUCTURES)]
    TooManyStructures,
    /// The members of this structure are of another JSON type.
    #[error("typed data: the members of {0} are not a list")]
    MembersNotList(String),
    /// A member is declared without a part.
    #[error("typed data: a member of {structure} has no {part}")]
    IncompleteMember {
        /// Name of the structure.
        structure: String,
        /// The missing part: `name` or `type`.
        part: &'static str,
    },
    /// This member, with its structure, has no valid type.
    #[error("typed data: the type of {0} is not valid")]
    InvalidType(String),
    /// Two members of this structure have one name.
    #[error("typed data: two members of {0} have the same name")]
    EqualNames(String),
    /// There is no structure of this name.
    #[error("typed data: there is no structure {0}")]
    NoStructure(String),
    /// The value of this member, with its structure, is not of its type.
    #[error("typed data: the value of {0} is not of its type")]
    WrongValue(String),
    /// This member, with its structure, has no value.
    #[error("typed data: {0} is missing")]
    NoValue(String),
}

/// Reads typed data with the members of `eth_signTypedData_v4`. The hashes are those that will be signed;
/// `message_hash` is `None` if only the domain is signed.
///
/// # Errors
/// [`TypedDataError`].
pub fn read_typed_data(
    text: &str,
    domain_separator: B256,
    message_hash: Option<B256>,
) -> Result<TypedData, TypedDataError> {
    if text.len() > MAX_TEXT {
        return Err(TypedDataError::TooLong(text.len()));
    }
    let json: Json = serde_json::from_str(text).map_err(|error| TypedDataError::NotJson(error.to_string()))?;
    let Some(primary_type) = json.get("primaryType").and_then(Json::as_str) else {
        return Err(TypedDataError::NoPrimaryType);
    };
    let mut structures = structures(json.get("types").unwrap_or(&Json::Null))?;
    let given = json.get("domain").unwrap_or(&Json::Null);
    if !structures.contains_key(DOMAIN) {
        let has = |name: &str| given.get(name).is_some_and(|value| !value.is_null());
        let members = STANDARD_DOMAIN.into_iter().filter(|(name, _)| has(name));
        let members = members.map(|(name, kind)| Member { name: name.to_owned(), kind }).collect();
        structures.insert(DOMAIN.to_owned(), members);
    }
    let domain = structure(DOMAIN, given, &structures)?;
    let message = match primary_type == DOMAIN {
        true => domain.clone(),
        false => structure(primary_type, json.get("message").unwrap_or(&Json::Null), &structures)?,
    };
    let primary_type = primary_type.to_owned();
    Ok(TypedData { structures, primary_type, domain, message, domain_separator, message_hash })
}

/// The structures by name.
type Structures = BTreeMap<String, Vec<Member>>;

fn structures(types: &Json) -> Result<Structures, TypedDataError> {
    let types = types.as_object().ok_or(TypedDataError::TypesNotObject)?;
    if types.len() > MAX_STRUCTURES {
        return Err(TypedDataError::TooManyStructures);
    }
    let mut structures = Structures::new();
    for (name, members) in types {
        let members = members.as_array().ok_or_else(|| TypedDataError::MembersNotList(name.clone()))?;
        let member = |member: &Json| {
            let text = |part| {
                let text = member.get(part).and_then(Json::as_str);
                text.ok_or_else(|| TypedDataError::IncompleteMember { structure: name.clone(), part })
            };
            let (kind, member) = (text("type")?, text("name")?);
            match member_type(kind, types) {
                Some(kind) => Ok(Member { name: member.to_owned(), kind }),
                None => Err(TypedDataError::InvalidType(format!("{name}.{member}"))),
            }
        };
        let members: Vec<Member> = members.iter().map(member).collect::<Result<_, _>>()?;
        let names: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
        if names.len() < members.len() {
            // One value would serve several members, so that few declarations could produce a large amount of data.
            return Err(TypedDataError::EqualNames(name.clone()));
        }
        structures.insert(name.clone(), members);
    }
    Ok(structures)
}

/// Parses a type name.
fn member_type(name: &str, types: &Map<String, Json>) -> Option<MemberType> {
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

/// The length in bytes of a number with this many bits.
fn bytes_of(bits: &str) -> Option<u32> {
    if bits.is_empty() {
        return Some(32);
    }
    let bits: u32 = bits.parse().ok()?;
    (bits.is_multiple_of(8) && (8..=256).contains(&bits)).then_some(bits / 8)
}

/// Reads the values of a structure, in the order of its members. The JSON parser limits the depth and every value is
/// read once, so the length of the text bounds depth and size.
fn structure(name: &str, json: &Json, structures: &Structures) -> Result<Value, TypedDataError> {
    let members = structures.get(name).ok_or_else(|| TypedDataError::NoStructure(name.to_owned()))?;
    let member = |member: &Member| match json.get(&member.name) {
        Some(json) => match value(&member.kind, json, structures) {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(TypedDataError::WrongValue(format!("{name}.{}", member.name))),
            Err(error) => Err(error),
        },
        None => Err(TypedDataError::NoValue(format!("{name}.{}", member.name))),
    };
    members.iter().map(member).collect::<Result<_, _>>().map(Value::Parts)
}

/// Reads a value; `None` if it does not match the type.
fn value(kind: &MemberType, json: &Json, structures: &Structures) -> Result<Option<Value>, TypedDataError> {
    Ok(match kind {
        MemberType::Structure(name) => Some(structure(name, json, structures)?),
        MemberType::Array(entry, size) => {
            let Some(items) = json.as_array().filter(|items| size.is_none_or(|size| items.len() == size as usize))
            else {
                return Ok(None);
            };
            let items =
                items.iter().map(|item| value(entry, item, structures)).collect::<Result<Option<Vec<_>>, _>>()?;
            items.map(Value::Parts)
        }
        plain => plain_value(plain, json).map(Value::Plain),
    })
}

/// Encodes a value that is neither an array nor a structure.
fn plain_value(kind: &MemberType, json: &Json) -> Option<Vec<u8>> {
    match kind {
        MemberType::Text => json.as_str().map(|text| text.as_bytes().to_vec()),
        MemberType::Bool => match json {
            Json::Bool(is_true) => Some(vec![u8::from(*is_true)]),
            Json::String(text) => text.parse::<bool>().ok().map(|is_true| vec![u8::from(is_true)]),
            _ => None,
        },
        MemberType::Address => json.as_str()?.parse::<Address>().ok().map(|address| address.to_vec()),
        MemberType::Bytes(size) => {
            let bytes = hex::decode(json.as_str()?).ok()?;
            size.is_none_or(|size| bytes.len() == size as usize).then_some(bytes)
        }
        MemberType::Unsigned(bytes) => {
            let number: U256 = number_text(json)?.parse().ok()?;
            low_bytes(number.to_be_bytes(), *bytes, 0)
        }
        MemberType::Signed(bytes) => {
            let text = number_text(json)?;
            let number = match text.strip_prefix("0x") {
                Some(digits) => I256::from_hex_str(digits).ok()?,
                None => I256::from_dec_str(&text).ok()?,
            };
            let sign = if number.is_negative() { 0xff } else { 0 };
            let low = low_bytes(number.to_be_bytes(), *bytes, sign)?;
            // The highest bit is the sign, at every length.
            (low.first().is_some_and(|first| first & 0x80 == sign & 0x80)).then_some(low)
        }
        MemberType::Array(..) | MemberType::Structure(_) => None,
    }
}

fn number_text(json: &Json) -> Option<String> {
    match json {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The last bytes of a number, if the bytes before them are only sign extension.
fn low_bytes(word: [u8; 32], bytes: u32, sign: u8) -> Option<Vec<u8>> {
    let (front, low) = word.split_at(32_usize.checked_sub(bytes as usize)?);
    front.iter().all(|byte| *byte == sign).then(|| low.to_vec())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

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

    fn read(text: &str) -> Result<TypedData, TypedDataError> {
        read_typed_data(text, B256::ZERO, Some(B256::ZERO))
    }

    #[test]
    fn reads_structures_and_values_in_their_order() {
        let data = read(MAIL).unwrap();

        let names = |name: &str| data.structures[name].iter().map(|member| member.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(DOMAIN), ["name", "chainId"]);
        assert_eq!(names("Mail"), ["to", "score", "tag"]);
        let person = MemberType::Array(Box::new(MemberType::Structure("Person".into())), Some(2));
        assert_eq!(data.structures["Mail"][0].kind, person);
        let Value::Parts(message) = &data.message else { panic!("{:?}", data.message) };
        assert_eq!(message[1..], [Value::Plain(vec![0xff]), Value::Plain(b"abcd".to_vec())]);
        let chain_id = U256::from(1).to_be_bytes::<32>().to_vec();
        assert_eq!(data.domain, Value::Parts(vec![Value::Plain(b"Ether Mail".to_vec()), Value::Plain(chain_id)]));
    }

    #[test]
    fn a_domain_without_declaration_has_the_standard_members_that_are_given() {
        let text = r#"{"types": {"T": []}, "primaryType": "T", "message": {},
            "domain": {"chainId": "0x33", "salt": null, "version": "1", "region": "north"}}"#;

        let data = read(text).unwrap();

        let names: Vec<_> = data.structures[DOMAIN].iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["version", "chainId"]);
        assert_eq!(data.message, Value::Parts(vec![]));
    }

    #[test]
    fn numbers_have_the_bytes_of_their_type() {
        let plain = |kind: &str, json: &str| {
            let kind = member_type(kind, &Map::new()).unwrap();
            plain_value(&kind, &serde_json::from_str(json).unwrap())
        };

        assert_eq!(plain("uint16", "258"), Some(vec![1, 2]));
        assert_eq!(plain("uint16", "\"0x102\""), Some(vec![1, 2]));
        assert_eq!(plain("int16", "-2"), Some(vec![0xff, 0xfe]));
        assert_eq!(plain("int8", "\"-128\""), Some(vec![0x80]));
        assert_eq!(plain("bool", "true"), Some(vec![1]));
        for (kind, json) in
            [("uint16", "65536"), ("uint16", "-1"), ("int8", "128"), ("int8", "-129"), ("uint8", "1.5"), ("bool", "1")]
        {
            assert_eq!(plain(kind, json), None, "{kind} {json}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, expected) in [
            ("{", "EOF"),
            ("{}", "primaryType is missing"),
            (&MAIL.replace("int8", "int7"), "the type of Mail.score is not valid"),
            (&MAIL.replace("\"bytes4\"", "\"bytes33\""), "the type of Mail.tag is not valid"),
            (&MAIL.replace("-1", "-1000"), "the value of Mail.score is not of its type"),
            (&MAIL.replace("\"tag\": \"0x", "\"tagg\": \"0x"), "Mail.tag is missing"),
            (&MAIL.replace("\"primaryType\": \"Mail\"", "\"primaryType\": \"Post\""), "there is no structure Post"),
            (&MAIL.replace("wallets\": []", "wallets\": [7]"), "the value of Person.wallets is not of its type"),
            (&MAIL.replace("{\"name\": \"score\"", "{\"name\": \"tag\""), "two members of Mail have the same name"),
            (&" ".repeat(MAX_TEXT + 1), "bytes"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let deep = format!("uint8{}", "[]".repeat(200));
        assert!(read(&MAIL.replace("int8", &deep)).is_err());
    }
}
