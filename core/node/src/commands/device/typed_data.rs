//! Typed data as JSON (EIP-712): its hashes, and its structure for devices that show it.

use alloy_dyn_abi::TypedData as Parsed;
use serde_json::{Value as Json, json};
use tenon_device_session::TypedData;
use tenon_device_wallets::read_typed_data;

/// The structure of a domain.
const DOMAIN: &str = "EIP712Domain";

/// Reads typed data. A domain that declares its type is hashed by that type; one that does not has those of the five standard members
/// that are given.
pub(crate) fn read(text: &str) -> Result<TypedData, String> {
    let mut json: Json = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let given = json.as_object_mut().and_then(|members| members.remove("domain")).unwrap_or_else(|| json!({}));
    let mut parsed: Parsed = serde_json::from_value(json).map_err(|error| error.to_string())?;
    let message = match parsed.primary_type == DOMAIN {
        true => None,
        false => Some(parsed.hash_struct().map_err(|error| error.to_string())?),
    };
    let domain = if parsed.resolver.contains_type_name(DOMAIN) {
        (parsed.primary_type, parsed.message) = (DOMAIN.to_owned(), given);
        parsed.hash_struct().map_err(|error| format!("domain: {error}"))?
    } else {
        parsed.domain = serde_json::from_value(given).map_err(|error| format!("domain: {error}"))?;
        parsed.domain.separator()
    };
    read_typed_data(text, domain, message).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of EIP-712, with its hashes.
    const MAIL: &str = r#"{
        "types": {
            "EIP712Domain": [{"name": "name", "type": "string"}, {"name": "version", "type": "string"},
                {"name": "chainId", "type": "uint256"}, {"name": "verifyingContract", "type": "address"}],
            "Person": [{"name": "name", "type": "string"}, {"name": "wallet", "type": "address"}],
            "Mail": [{"name": "from", "type": "Person"}, {"name": "to", "type": "Person"},
                {"name": "contents", "type": "string"}]
        },
        "primaryType": "Mail",
        "domain": {"name": "Ether Mail", "version": "1", "chainId": 1,
            "verifyingContract": "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC"},
        "message": {
            "from": {"name": "Cow", "wallet": "0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"},
            "to": {"name": "Bob", "wallet": "0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"},
            "contents": "Hello, Bob!"
        }
    }"#;

    #[test]
    fn has_the_hashes_of_the_standard() {
        let data = read(MAIL).unwrap();

        let domain = "0xf2cee375fa42b42143804025fc449deafd50cc031ca257e0b194a650a912090f";
        let message = "0xc52c0ee5d84264471806290a3f2c4cecfc5490626bf912d01f240d7a274b371e";
        assert_eq!(data.domain_separator.to_string(), domain);
        assert_eq!(data.message_hash.map(|hash| hash.to_string()).as_deref(), Some(message));
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, expected) in [("{", "EOF"), (&MAIL.replace("uint256", "uint7"), "uint7")] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
