//! Signing typed data (EIP-712): `eth_signTypedData_v4`.

use std::collections::HashMap;

use alloy_dyn_abi::TypedData;
use serde_json::{Map, Value};
use tenon_sdk::prelude::*;

use crate::{EthContext, sending::require_account};

/// Name of the structure that states the purpose of the data.
const DOMAIN_TYPE: &str = "EIP712Domain";

/// Maximum number of structures that the data declares.
const MAX_STRUCTURES: usize = 256;
/// Maximum number of members of all structures together.
const MAX_MEMBERS: usize = 1_024;
/// Maximum number of array dimensions of a member. Orders in bulk have two dozen.
const MAX_DIMENSIONS: usize = 32;
/// Maximum number of structures inside one another.
const MAX_DEPTH: usize = 32;
/// Maximum number of members of a structure with those of the structures in it, each time that they occur: hashing expands them.
const MAX_EXPANDED_MEMBERS: usize = 4_096;
/// Maximum number of JSON values in the data.
const MAX_VALUES: usize = 20_000;

/// The data comes as an object, or as its JSON text.
pub(crate) async fn sign(context: EthContext, address: Address, Json(data): Json<Value>) -> Result<Bytes, Failure> {
    let data = read(data).map_err(|reason| Failure::invalid_params(format!("invalid argument 1: {reason}")))?;
    require_account(&context, Some(address)).await?;
    let domain = data.domain.separator();
    let message = match data.primary_type == DOMAIN_TYPE {
        true => None,
        false => {
            Some(data.hash_struct().map_err(|error| Failure::invalid_params(format!("invalid argument 1: {error}")))?)
        }
    };
    context.call(SignTypedData { address, domain, message, password: None }).await
}

/// Reads typed data within the limits. A few declarations could otherwise stand for more members than fit into memory.
fn read(data: Value) -> Result<TypedData, String> {
    let data = match data {
        Value::String(text) => serde_json::from_str(&text).map_err(|error| format!("json: {error}"))?,
        data => data,
    };
    count_values(&data, &mut 0)?;
    if let Some(types) = data.get("types").and_then(Value::as_object) {
        check_types(types)?;
    }
    serde_json::from_value(data).map_err(|error| format!("json: {error}"))
}

/// JSON nests no deeper than its parser allows, so that recursion is bounded here.
fn count_values(value: &Value, count: &mut usize) -> Result<(), String> {
    *count += 1;
    if *count > MAX_VALUES {
        return Err(format!("typed data of more than {MAX_VALUES} values"));
    }
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| count_values(value, count)),
        Value::Object(members) => members.values().try_for_each(|value| count_values(value, count)),
        _ => Ok(()),
    }
}

fn check_types(types: &Map<String, Value>) -> Result<(), String> {
    if types.len() > MAX_STRUCTURES {
        return Err(format!("typed data of more than {MAX_STRUCTURES} structures"));
    }
    let members = types.values().map(|members| members.as_array().map_or(0, Vec::len)).sum::<usize>();
    if members > MAX_MEMBERS {
        return Err(format!("typed data of more than {MAX_MEMBERS} members"));
    }
    let mut known = HashMap::new();
    types.keys().try_for_each(|name| expand(name, types, &mut known, 0).map(drop))
}

/// A structure with those in it: members, and depth.
type Expanded = (usize, usize);

/// What a structure comes to. `outer` structures lie around it.
fn expand<'a>(
    name: &'a str,
    types: &'a Map<String, Value>,
    known: &mut HashMap<&'a str, Expanded>,
    outer: usize,
) -> Result<Expanded, String> {
    let too_deep = || format!("typed data of more than {MAX_DEPTH} structures inside one another");
    if outer >= MAX_DEPTH {
        return Err(too_deep());
    }
    if let Some(expanded) = known.get(name) {
        return Ok(*expanded);
    }
    let (mut count, mut depth) = (0_usize, 1);
    for member in types.get(name).and_then(Value::as_array).into_iter().flatten() {
        let Some(kind) = member.get("type").and_then(Value::as_str) else { continue };
        if kind.matches('[').count() > MAX_DIMENSIONS {
            return Err(format!("an array of more than {MAX_DIMENSIONS} dimensions"));
        }
        count += 1;
        let base = kind.split('[').next().unwrap_or_default();
        if let Some((inside, _)) = types.get_key_value(base) {
            let (members, levels) = expand(inside, types, known, outer + 1)?;
            count = count.saturating_add(members);
            depth = depth.max(levels + 1);
        }
    }
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    if count > MAX_EXPANDED_MEMBERS {
        return Err(format!("{name} has more than {MAX_EXPANDED_MEMBERS} members with those of the structures in it"));
    }
    known.insert(name, (count, depth));
    Ok((count, depth))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(types: Value, message: Value) -> String {
        let data = json!({ "types": types, "primaryType": "T0", "domain": {}, "message": message });
        read(data).err().unwrap_or_default()
    }

    fn structure(members: impl IntoIterator<Item = String>) -> Value {
        members.into_iter().enumerate().map(|(at, kind)| json!({ "name": format!("m{at}"), "type": kind })).collect()
    }

    #[test]
    fn few_declarations_that_stand_for_many_members_are_refused() {
        let doubling = |levels: usize| -> Value {
            let level = |at: usize| (format!("T{at}"), structure([format!("T{}", at + 1), format!("T{}", at + 1)]));
            (0..levels).map(level).chain([(format!("T{levels}"), json!([]))]).collect()
        };

        assert_eq!(refusal(doubling(8), json!({})), "");
        assert!(refusal(doubling(30), json!({})).contains("more than 4096 members"));
        assert!(refusal(doubling(200), json!({})).contains("more than 32 structures inside one another"));
    }

    #[test]
    fn long_chains_rings_and_large_lists_are_refused() {
        let chain = |levels: usize| -> Value {
            (0..levels).map(|at| (format!("T{at}"), structure([format!("T{}[]", at + 1)]))).collect()
        };
        let ring = json!({ "T0": structure(["T1".to_owned()]), "T1": structure(["T0".to_owned()]) });

        assert!(refusal(chain(33), json!({})).contains("inside one another"));
        assert!(refusal(chain(300), json!({})).contains("more than 256 structures"));
        assert!(refusal(ring, json!({})).contains("inside one another"));
        let kinds = |count: usize, kind: &str| json!({ "T0": structure(vec![kind.to_owned(); count]) });
        assert!(refusal(kinds(1_025, "bool"), json!({})).contains("more than 1024 members"));
        assert!(refusal(kinds(1, &format!("bool{}", "[]".repeat(33))), json!({})).contains("more than 32 dimensions"));
        assert!(refusal(kinds(1, "bool[]"), json!({ "m0": vec![true; 20_001] })).contains("more than 20000 values"));
        assert_eq!(refusal(kinds(1, "bool[]"), json!({ "m0": vec![true; 1_000] })), "");
    }
}
