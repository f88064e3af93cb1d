//! Typed data as JSON (EIP-712, the argument of `eth_signTypedData_v4`): read within limits, and hashed.
//!
//! Invariants: a few declarations cannot expand to more members than fit into memory, and types are never nested deeper
//! than the stack allows. The crate signs nothing.
#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};

use alloy_dyn_abi::{DynSolType, TypedData};
use alloy_primitives::{B256, keccak256};
use serde_json::{Map, Value, json};

/// Name of the structure that describes the domain of the data.
const DOMAIN_TYPE: &str = "EIP712Domain";

/// Maximum number of declared structures.
const MAX_STRUCTURES: usize = 256;
/// Maximum number of members of all structures together.
const MAX_MEMBERS: usize = 1_024;
/// Maximum number of array dimensions of a member. Bulk orders have about 24.
const MAX_DIMENSIONS: usize = 32;
/// Maximum nesting depth of structures.
const MAX_DEPTH: usize = 32;
/// Maximum number of members of a structure, counting the members of nested structures each time they occur: hashing
/// expands them.
const MAX_EXPANDED_MEMBERS: usize = 4_096;
/// Maximum number of JSON values in the data.
const MAX_VALUES: usize = 20_000;
/// Maximum length of the name of a structure or a member, and of a member's type, in bytes. Hashing copies them for
/// every value.
const MAX_NAME_BYTES: usize = 256;
/// Maximum product of the length of all declarations and the number of objects in the data, in bytes: each object's
/// hash includes that of its declarations.
const MAX_HASHED_DECLARATIONS: usize = 32 << 20;
/// Members of the domain that EIP-712 defines as text, or as a number in text.
const DOMAIN_TEXTS: [&str; 4] = ["name", "version", "verifyingContract", "salt"];

/// Why typed data cannot be signed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TypedDataError {
    /// It is not JSON, or not the JSON of typed data.
    #[error("json: {0}")]
    Json(String),
    /// A standard member of the domain has another JSON form than its type.
    #[error("json: domain: {0}")]
    DomainJson(String),
    /// The domain is not valid.
    #[error("domain: {0}")]
    Domain(Box<Self>),
    /// A standard member of the domain that must be a string is not one.
    #[error("{0} is not a string")]
    NotText(&'static str),
    /// The domain's chain id has another JSON type.
    #[error("chainId is neither a whole number nor a string")]
    ChainId,
    /// A value does not match its type, or a type is unknown.
    #[error(transparent)]
    Encoding(#[from] alloy_dyn_abi::Error),
    /// The text of an integer is not one.
    #[error("{0:?} is not an integer")]
    NotAnInteger(String),
    /// More JSON values than are read.
    #[error("typed data of more than {} values", MAX_VALUES)]
    TooManyValues,
    /// More structures than are read.
    #[error("typed data of more than {} structures", MAX_STRUCTURES)]
    TooManyStructures,
    /// More declared members than are read.
    #[error("typed data of more than {} members", MAX_MEMBERS)]
    TooManyMembers,
    /// A structure has the name of an elementary type.
    #[error("structure {0} has the name of an elementary type")]
    ElementaryName(String),
    /// A structure declares a member twice.
    #[error("structure {structure} declares its member {member} twice")]
    DeclaredTwice {
        /// Name of the structure.
        structure: String,
        /// Name of the member.
        member: String,
    },
    /// Hashing would copy the declarations too often.
    #[error("typed data of {objects} objects with {bytes} bytes of declarations")]
    LargeDeclarations {
        /// Number of objects in the data.
        objects: usize,
        /// Length of all declarations.
        bytes: usize,
    },
    /// A name or a type is too long.
    #[error("a name or type of more than {} bytes", MAX_NAME_BYTES)]
    LongName,
    /// Structures are nested too deeply, or contain themselves.
    #[error("typed data of more than {} nested structures", MAX_DEPTH)]
    TooDeep,
    /// A member has a type that EIP-712 does not know.
    #[error("{0:?} is not a type of typed data")]
    NotAType(String),
    /// An array has too many dimensions.
    #[error("an array of more than {} dimensions", MAX_DIMENSIONS)]
    TooManyDimensions,
    /// A structure expands to too many members.
    #[error("{0} has more than {max} members with those of the structures in it", max = MAX_EXPANDED_MEMBERS)]
    TooManyExpandedMembers(String),
}

impl TypedDataError {
    fn json(error: serde_json::Error) -> Self {
        Self::Json(error.to_string())
    }

    fn in_domain(self) -> Self {
        Self::Domain(Box::new(self))
    }
}

/// The hashes that a signature covers (EIP-712, `hashStruct`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hashes {
    /// Separator of the domain.
    pub domain: B256,
    /// Hash of the message; `None` if the domain itself is the message.
    pub message: Option<B256>,
}

impl Hashes {
    /// The hash to sign.
    pub fn to_sign(&self) -> B256 {
        let message = self.message.as_ref().map_or(&[][..], |hash| hash.as_slice());
        keccak256([&[0x19, 0x01], self.domain.as_slice(), message].concat())
    }
}

/// Hashes typed data that [`read`] has checked. A domain that declares its type is hashed by that type, like every
/// other structure. Otherwise its type consists of those of the five standard members that are given.
///
/// # Errors
/// [`TypedDataError`]: a member is missing, or a value is not of its type.
pub fn hash(mut data: Value) -> Result<Hashes, TypedDataError> {
    let given = data.as_object_mut().and_then(|members| members.remove("domain")).unwrap_or_else(|| json!({}));
    let mut data: TypedData = serde_json::from_value(data).map_err(TypedDataError::json)?;
    let message = match data.primary_type == DOMAIN_TYPE {
        true => None,
        false => Some(hash_struct(&data)?),
    };
    if !data.resolver.contains_type_name(DOMAIN_TYPE) {
        check_integers(&DynSolType::Uint(256), &given["chainId"]).map_err(TypedDataError::in_domain)?;
        data.domain = serde_json::from_value(given).map_err(|error| TypedDataError::DomainJson(error.to_string()))?;
        return Ok(Hashes { domain: data.domain.separator(), message });
    }
    (data.primary_type, data.message) = (DOMAIN_TYPE.to_owned(), given);
    let domain = hash_struct(&data).map_err(TypedDataError::in_domain)?;
    Ok(Hashes { domain, message })
}

fn hash_struct(data: &TypedData) -> Result<B256, TypedDataError> {
    // Refuses unknown types before their values are read.
    data.encode_type()?;
    let kind = data.resolver.resolve(&data.primary_type)?;
    check_integers(&kind, &data.message)?;
    Ok(data.hash_struct()?)
}

/// Checks the texts of integers, of which alloy accepts more than go-ethereum: `0x`, `5_`, `0b101`, `0o5`, `-0x5`. Values of
/// another form than their type are left to the hashing.
fn check_integers(kind: &DynSolType, value: &Value) -> Result<(), TypedDataError> {
    match (kind, value) {
        (DynSolType::Int(_) | DynSolType::Uint(_), Value::String(text)) if !is_integer(text) => {
            Err(TypedDataError::NotAnInteger(text.clone()))
        }
        (DynSolType::Array(kind) | DynSolType::FixedArray(kind, _), Value::Array(values)) => {
            values.iter().try_for_each(|value| check_integers(kind, value))
        }
        (DynSolType::CustomStruct { prop_names, tuple, .. }, Value::Object(members)) => {
            let mut given = prop_names.iter().zip(tuple).filter_map(|(name, kind)| Some((kind, members.get(name)?)));
            given.try_for_each(|(kind, value)| check_integers(kind, value))
        }
        _ => Ok(()),
    }
}

/// Returns whether go-ethereum reads the text as an integer (`ParseBig256`): hexadecimal digits after `0x`, or decimal
/// digits, which may have a sign. An empty text is zero.
fn is_integer(text: &str) -> bool {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text.strip_prefix(['+', '-']).unwrap_or(text), 10),
    };
    text.is_empty() || (!digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix)))
}

/// As [`read`], for the JSON text of the data. A text with too many values is refused before it is parsed.
///
/// # Errors
/// As [`read`].
pub fn read_text(json: &str) -> Result<Value, TypedDataError> {
    parse(json).and_then(read)
}

/// Reads typed data within the limits: an object, or its JSON text. The standard members of the domain must be text
/// (the chain id may be a number), so that the hashed values are those that a reader of the JSON sees.
///
/// # Errors
/// [`TypedDataError`]: the text is not JSON, a limit is exceeded, or a member of the domain is of another JSON type.
pub fn read(data: Value) -> Result<Value, TypedDataError> {
    let data = match data {
        Value::String(text) => parse(&text)?,
        data => data,
    };
    let mut counts = Counts::default();
    counts.add(&data)?;
    check_domain(&data["domain"]).map_err(TypedDataError::in_domain)?;
    if let Some(types) = data.get("types").and_then(Value::as_object) {
        check_types(types, counts.objects)?;
    }
    Ok(data)
}

/// Parses JSON. Counts the values in the text first, because a tree of values takes up to a hundred times the memory of
/// its text. [`Counts`] applies the exact limit.
fn parse(json: &str) -> Result<Value, TypedDataError> {
    let (mut values, mut is_in_string, mut is_escaped) = (1, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_in_string,
            b'"' => is_in_string = !is_in_string,
            b',' | b'[' | b'{' if !is_in_string => values += 1,
            _ => {}
        }
        // An empty array or object counts as two here.
        if values > 2 * MAX_VALUES {
            return Err(TypedDataError::TooManyValues);
        }
    }
    serde_json::from_str(json).map_err(TypedDataError::json)
}

/// Numbers of JSON values.
#[derive(Default)]
struct Counts {
    values: usize,
    objects: usize,
}

impl Counts {
    /// Recursion is bounded: JSON nests no deeper than its parser allows.
    fn add(&mut self, value: &Value) -> Result<(), TypedDataError> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(TypedDataError::TooManyValues);
        }
        match value {
            Value::Array(values) => values.iter().try_for_each(|value| self.add(value)),
            Value::Object(members) => {
                self.objects += 1;
                members.values().try_for_each(|value| self.add(value))
            }
            _ => Ok(()),
        }
    }
}

fn check_domain(domain: &Value) -> Result<(), TypedDataError> {
    if let Some(name) = DOMAIN_TEXTS.iter().find(|name| !(domain[**name].is_null() || domain[**name].is_string())) {
        return Err(TypedDataError::NotText(name));
    }
    let chain_id = &domain["chainId"];
    if chain_id.is_null() || chain_id.is_string() || chain_id.is_u64() {
        return Ok(());
    }
    Err(TypedDataError::ChainId)
}

fn check_types(types: &Map<String, Value>, objects: usize) -> Result<(), TypedDataError> {
    if types.len() > MAX_STRUCTURES {
        return Err(TypedDataError::TooManyStructures);
    }
    let members = types.values().map(|members| members.as_array().map_or(0, Vec::len)).sum::<usize>();
    if members > MAX_MEMBERS {
        return Err(TypedDataError::TooManyMembers);
    }
    if let Some(name) = types.keys().find(|name| is_elementary(name)) {
        return Err(TypedDataError::ElementaryName(name.clone()));
    }
    types.iter().try_for_each(|(name, members)| check_names(name, members))?;
    let bytes = declarations_length(types)?;
    if bytes.saturating_mul(objects) > MAX_HASHED_DECLARATIONS {
        return Err(TypedDataError::LargeDeclarations { objects, bytes });
    }
    let mut known = HashMap::new();
    types.keys().try_for_each(|name| expand(name, types, &mut known, 0).map(drop))
}

/// Checks that a structure declares each member once. Otherwise hashing would copy a member's value for each declaration.
fn check_names(structure: &str, members: &Value) -> Result<(), TypedDataError> {
    let mut names = HashSet::new();
    let declared = members.as_array().into_iter().flatten().filter_map(|member| member["name"].as_str());
    match declared.into_iter().find(|name| !names.insert(*name)) {
        Some(name) => Err(TypedDataError::DeclaredTwice { structure: structure.to_owned(), member: name.to_owned() }),
        None => Ok(()),
    }
}

/// Whether a name is that of an elementary type, of any size.
fn is_elementary(name: &str) -> bool {
    let is_sized =
        |prefix| name.strip_prefix(prefix).is_some_and(|size| size.bytes().all(|byte| byte.is_ascii_digit()));
    matches!(name, "address" | "bool" | "string") || ["uint", "int", "bytes"].into_iter().any(is_sized)
}

/// Length of all names and types, bytes.
fn declarations_length(types: &Map<String, Value>) -> Result<usize, TypedDataError> {
    let mut length = 0;
    for (name, members) in types {
        let texts = members.as_array().into_iter().flatten().flat_map(|member| [&member["name"], &member["type"]]);
        for text in std::iter::once(name.as_str()).chain(texts.filter_map(Value::as_str)) {
            if text.len() > MAX_NAME_BYTES {
                return Err(TypedDataError::LongName);
            }
            length += text.len();
        }
    }
    Ok(length)
}

/// Total members and depth of a structure, including nested ones.
type Expanded = (usize, usize);

/// Expands a structure. `outer` structures contain it.
fn expand<'a>(
    name: &'a str,
    types: &'a Map<String, Value>,
    known: &mut HashMap<&'a str, Expanded>,
    outer: usize,
) -> Result<Expanded, TypedDataError> {
    if outer >= MAX_DEPTH {
        return Err(TypedDataError::TooDeep);
    }
    if let Some(expanded) = known.get(name) {
        return Ok(*expanded);
    }
    let (mut count, mut depth) = (0_usize, 1);
    for member in types.get(name).and_then(Value::as_array).into_iter().flatten() {
        let Some(kind) = member.get("type").and_then(Value::as_str) else { continue };
        // EIP-712 has no tuples. The library resolves them without a limit, and without noticing a cycle.
        if kind.contains('(') {
            return Err(TypedDataError::NotAType(kind.to_owned()));
        }
        if kind.matches('[').count() > MAX_DIMENSIONS {
            return Err(TypedDataError::TooManyDimensions);
        }
        count += 1;
        let base = kind.split('[').next().unwrap_or_default();
        // The library reads `uint0256` as `uint256`, but hashes the name as it is written.
        if is_elementary(base) && base.trim_start_matches(|letter: char| letter.is_ascii_lowercase()).starts_with('0') {
            return Err(TypedDataError::NotAType(kind.to_owned()));
        }
        if let Some((inside, _)) = types.get_key_value(base) {
            let (members, levels) = expand(inside, types, known, outer + 1)?;
            count = count.saturating_add(members);
            depth = depth.max(levels + 1);
        }
    }
    if depth > MAX_DEPTH {
        return Err(TypedDataError::TooDeep);
    }
    if count > MAX_EXPANDED_MEMBERS {
        return Err(TypedDataError::TooManyExpandedMembers(name.to_owned()));
    }
    known.insert(name, (count, depth));
    Ok((count, depth))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;

    fn refusal(types: Value, message: Value) -> String {
        let data = json!({ "types": types, "primaryType": "T0", "domain": {}, "message": message });
        read(data).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_member_that_is_declared_twice_is_refused() {
        let member = json!({ "name": "c", "type": "uint256[]" });
        let types = json!({ "T0": [member, { "name": "d", "type": "bool" }, member] });

        assert_eq!(refusal(types, json!({})), "structure T0 declares its member c twice");
    }

    #[test]
    fn tuples_are_no_types_of_typed_data() {
        for kind in ["(T0)", "tuple(T0)[]", "(uint256)", "(T1,T1)[2]"] {
            let types = json!({ "T0": [{ "name": "x", "type": kind }], "T1": [{ "name": "y", "type": kind }] });
            assert_eq!(refusal(types, json!({})), format!("{kind:?} is not a type of typed data"));
        }
    }

    fn read_and_hash(data: Value) -> Result<Hashes, TypedDataError> {
        read(data).and_then(hash)
    }

    /// Data with an empty message, so that the hash depends on the domain alone.
    fn of_domain(declared: Value, domain: Value) -> Result<Hashes, TypedDataError> {
        let types = match declared {
            Value::Null => json!({}),
            declared => json!({ "EIP712Domain": declared }),
        };
        read_and_hash(json!({ "types": types, "primaryType": "EIP712Domain", "domain": domain, "message": {} }))
    }

    fn struct_hash(kind: &str, words: &[B256]) -> B256 {
        let words: Vec<u8> = words.iter().flat_map(|word| word.0).collect();
        keccak256([&keccak256(kind)[..], &words].concat())
    }

    #[test]
    fn a_domain_is_hashed_by_its_declared_type() {
        let chain = B256::with_last_byte(51);
        let both = json!({ "chainId": 51, "name": "Tenon", "region": "north" });
        let member = |name: &str, kind: &str| json!({ "name": name, "type": kind });
        let of = |kind: &str, words: &[B256]| Ok(Hashes { domain: struct_hash(kind, words), message: None });

        let none = of_domain(json!([]), both.clone());
        let turned = of_domain(json!([member("chainId", "uint256"), member("name", "string")]), both.clone());
        let own = of_domain(json!([member("region", "string")]), both.clone());
        let standard = of_domain(Value::Null, both.clone());
        let missing = of_domain(json!([member("salt", "bytes32")]), both);

        assert_eq!(none, of("EIP712Domain()", &[]));
        assert_eq!(turned, of("EIP712Domain(uint256 chainId,string name)", &[chain, keccak256("Tenon")]));
        assert_eq!(own, of("EIP712Domain(string region)", &[keccak256("north")]));
        assert_eq!(standard, of("EIP712Domain(string name,uint256 chainId)", &[keccak256("Tenon"), chain]));
        assert!(missing.as_ref().is_err_and(|error| error.to_string().starts_with("domain: ")), "{missing:?}");
    }

    /// The example of EIP-712.
    #[test]
    fn the_example_of_the_proposal_has_its_hashes() {
        let member = |name: &str, kind: &str| json!({ "name": name, "type": kind });
        let data = json!({
            "types": {
                "EIP712Domain": [member("name", "string"), member("version", "string"), member("chainId", "uint256"),
                    member("verifyingContract", "address")],
                "Person": [member("name", "string"), member("wallet", "address")],
                "Mail": [member("from", "Person"), member("to", "Person"), member("contents", "string")],
            },
            "primaryType": "Mail",
            "domain": { "name": "Ether Mail", "version": "1", "chainId": 1,
                "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC" },
            "message": {
                "from": { "name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826" },
                "to": { "name": "Bob", "wallet": "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB" },
                "contents": "Hello, Bob!",
            },
        });

        let hashes = read_and_hash(data).unwrap();

        assert_eq!(
            hashes.domain,
            "0xf2cee375fa42b42143804025fc449deafd50cc031ca257e0b194a650a912090f".parse::<B256>().unwrap()
        );
        assert_eq!(
            hashes.message,
            Some("0xc52c0ee5d84264471806290a3f2c4cecfc5490626bf912d01f240d7a274b371e".parse::<B256>().unwrap())
        );
    }

    fn structure(members: impl IntoIterator<Item = String>) -> Value {
        members.into_iter().enumerate().map(|(at, kind)| json!({ "name": format!("m{at}"), "type": kind })).collect()
    }

    #[test]
    fn few_declarations_that_expand_to_many_members_are_refused() {
        let doubling = |levels: usize| -> Value {
            let level = |at: usize| (format!("T{at}"), structure([format!("T{}", at + 1), format!("T{}", at + 1)]));
            (0..levels).map(level).chain([(format!("T{levels}"), json!([]))]).collect()
        };

        assert_eq!(refusal(doubling(8), json!({})), "");
        assert!(refusal(doubling(30), json!({})).contains("more than 4096 members"));
        assert!(refusal(doubling(200), json!({})).contains("more than 32 nested structures"));
    }

    #[test]
    fn long_names_and_declarations_that_many_objects_repeat_are_refused() {
        let named = |length: usize| json!({ "T0": [{ "name": "a".repeat(length), "type": "bool" }] });
        let list = |length: usize| {
            let members =
                (0..length).map(|at| json!({ "name": format!("{at:0>200}"), "type": "bool" })).collect::<Vec<_>>();
            json!({ "T0": structure(["T1[]".to_owned()]), "T1": members })
        };
        let objects = |count: usize| json!({ "m0": vec![json!({}); count] });

        assert_eq!(refusal(named(256), json!({})), "");
        assert!(refusal(named(257), json!({})).contains("more than 256 bytes"));
        assert!(refusal(json!({ "T".repeat(300): [] }), json!({})).contains("more than 256 bytes"));
        assert_eq!(refusal(list(10), objects(10_000)), "");
        assert!(refusal(list(500), objects(10_000)).contains("bytes of declarations"));
    }

    #[test]
    fn texts_are_integers_as_in_go_ethereum() {
        let types = json!({ "T0": [{ "name": "m0", "type": "T1[]" }], "T1": [{ "name": "n", "type": "int256[1]" }] });
        let hash_of = |text: &str| {
            let message = json!({ "m0": [{ "n": [text] }] });
            read_and_hash(json!({ "types": types, "primaryType": "T0", "domain": {}, "message": message }))
        };
        let domain_of = |text: &str| of_domain(Value::Null, json!({ "chainId": text }));
        let declared_of =
            |text: &str| of_domain(json!([{ "name": "chainId", "type": "uint256" }]), json!({ "chainId": text }));

        assert_eq!(hash_of(""), hash_of("0"), "an empty text is zero");
        assert!(["5", "0x5", "0X5", "05", "-5", "+5"].into_iter().all(|text| hash_of(text).is_ok()));
        for text in ["0x", "5_", "_", "0b101", "0o5", "-0x5", "-", "0x_5", "5 ", "x", "0x0x5", "٥"] {
            let refused = Err(TypedDataError::NotAnInteger(text.to_owned()));
            let of_domain = Err(TypedDataError::NotAnInteger(text.to_owned()).in_domain());
            assert_eq!(hash_of(text), refused);
            assert_eq!(domain_of(text), of_domain);
            assert_eq!(declared_of(text), of_domain);
        }
    }

    /// A list of 20 numbers would be hashed as an address, but shown as a list.
    #[test]
    fn members_of_the_domain_are_hashed_as_a_reader_sees_them() {
        let of =
            |domain: Value| of_domain(Value::Null, domain).err().map(|error| error.to_string()).unwrap_or_default();

        assert_eq!(
            of(
                json!({ "chainId": 51, "name": null, "verifyingContract": format!("{:#x}", alloy_primitives::Address::ZERO) })
            ),
            ""
        );
        assert_eq!(of(json!({ "verifyingContract": vec![204; 20] })), "domain: verifyingContract is not a string");
        assert_eq!(of(json!({ "salt": vec![1; 32] })), "domain: salt is not a string");
        assert_eq!(of(json!({ "chainId": 51.0 })), "domain: chainId is neither a whole number nor a string");
        assert_eq!(of(json!({ "chainId": [51] })), "domain: chainId is neither a whole number nor a string");
    }

    #[test]
    fn deep_or_circular_types_and_large_lists_are_refused() {
        let chain = |levels: usize| -> Value {
            (0..levels).map(|at| (format!("T{at}"), structure([format!("T{}[]", at + 1)]))).collect()
        };
        let ring = json!({ "T0": structure(["T1".to_owned()]), "T1": structure(["T0".to_owned()]) });

        assert!(refusal(chain(33), json!({})).contains("nested structures"));
        assert!(refusal(chain(300), json!({})).contains("more than 256 structures"));
        assert!(refusal(ring, json!({})).contains("nested structures"));
        let kinds = |count: usize, kind: &str| json!({ "T0": structure(vec![kind.to_owned(); count]) });
        assert!(refusal(kinds(1_025, "bool"), json!({})).contains("more than 1024 members"));
        assert!(refusal(kinds(1, &format!("bool{}", "[]".repeat(33))), json!({})).contains("more than 32 dimensions"));
        assert!(refusal(kinds(1, "bool[]"), json!({ "m0": vec![true; 20_001] })).contains("more than 20000 values"));
        assert_eq!(refusal(kinds(1, "bool[]"), json!({ "m0": vec![true; 1_000] })), "");
    }

    #[test]
    fn elementary_types_have_one_name_each() {
        let of = |structure: &str, kind: &str| {
            let types = json!({ structure: [{ "name": "a", "type": kind }] });
            read(json!({ "types": types, "primaryType": structure, "domain": {}, "message": {} })).map(drop)
        };
        for kind in ["uint256", "uint", "int8", "bytes", "bytes32[]", "Other", "uint256x"] {
            assert_eq!(of("Mail", kind), Ok(()), "{kind}");
        }
        for kind in ["uint0256", "int08[]", "bytes032", "uint0"] {
            assert!(of("Mail", kind).unwrap_err().to_string().contains("is not a type"), "{kind}");
        }
        for structure in ["string", "address", "bool", "uint256", "uint", "bytes32"] {
            assert!(of(structure, "uint8").unwrap_err().to_string().contains("elementary"), "{structure}");
        }
        assert_eq!(of("interest", "uint8"), Ok(()));
    }
}
