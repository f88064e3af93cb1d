//! Typed data as JSON (EIP-712): its hashes, and its structure for devices that show it.

use serde_json::Value;
use tenon_device_session::TypedData;
use tenon_device_wallets::read_typed_data;
use tenon_typed_data::Hashes;

/// Reads typed data.
pub(crate) fn read(text: &str) -> Result<TypedData, String> {
    let data = tenon_typed_data::read(Value::String(text.to_owned())).map_err(|error| error.to_string())?;
    for member in ["types", "primaryType", "domain", "message"] {
        if data.get(member).is_none() {
            return Err(format!(
                "typed data has `types`, `primaryType`, `domain` and `message`: `{member}` is missing"
            ));
        }
    }
    let text = data.to_string();
    let Hashes { domain, message } = tenon_typed_data::hash(data).map_err(|error| error.to_string())?;
    read_typed_data(&text, domain, message).map_err(|error| error.to_string())
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
    fn names_the_wrong_member() {
        for (text, expected) in
            [("{", "EOF"), (&MAIL.replace("uint256", "uint7"), "uint7"), ("{\"nonce\": 1}", "`types` is missing")]
        {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
