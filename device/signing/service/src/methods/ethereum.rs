//! Transactions, messages and typed data: the methods of `eth` and `account`.

use alloy_primitives::{Address, B256, U256};
use serde_json::Value;
use tenon_accounts::{HashSignature, attach_signature, unsigned_transaction};
use tenon_api::{BusError, Transaction, messages::Profile};
use tenon_sdk::Failure;
use tenon_sdk::shapes::{CallArguments, JsonWriter, write_transaction};
use tenon_signing_policy::{Domain, Subject, TypedMessage};

use super::decoding::Arguments;
use crate::service::SignatureRequest;

/// Maximum number of members of a message that are shown to a person.
const MAX_MEMBERS: usize = 1_024;
/// Maximum length of a member's text in bytes. Longer texts are cut.
const MAX_MEMBER_TEXT: usize = 16 << 10;

/// Name of the structure that describes the domain.
const DOMAIN_TYPE: &str = "EIP712Domain";

/// Members of a domain whose type is not declared; absent ones are skipped.
const STANDARD_MEMBERS: [&str; 5] = ["name", "version", "chainId", "verifyingContract", "salt"];

/// `eth_sign`: account and message.
pub(super) fn message(arguments: &Arguments<'_>) -> Result<SignatureRequest, Failure> {
    Ok(SignatureRequest {
        account: arguments.address(0)?,
        subject: Subject::Message(arguments.bytes(1)?),
        typed_data: None,
    })
}

/// `account_signData`: the kind of data, account and data.
pub(super) fn data(arguments: &Arguments<'_>) -> Result<SignatureRequest, Failure> {
    let kind: String = arguments.structure(0)?;
    let account = arguments.address(1)?;
    match kind.split(';').next().unwrap_or_default().trim() {
        "text/plain" => {
            Ok(SignatureRequest { account, subject: Subject::Message(arguments.bytes(2)?), typed_data: None })
        }
        "data/typed" => typed_data(account, arguments.structure(2)?),
        other => Err(Failure::invalid_params(format!(
            "data of kind {other:?} are not supported, only \"text/plain\" and \"data/typed\""
        ))),
    }
}

/// `eth_signTypedData_v4`, `account_signTypedData`: account and data.
pub(super) fn typed_data_of(arguments: &Arguments<'_>) -> Result<SignatureRequest, Failure> {
    typed_data(arguments.address(0)?, arguments.structure(1)?)
}

fn typed_data(account: Address, data: Value) -> Result<SignatureRequest, Failure> {
    let invalid = |error: tenon_typed_data::TypedDataError| Failure::invalid_params(format!("typed data: {error}"));
    let data = tenon_typed_data::read(data).map_err(invalid)?;
    let text = data.to_string();
    let message = typed_message(&data);
    let hashes = tenon_typed_data::hash(data).map_err(invalid)?;
    let subject = Subject::TypedData(Box::new(TypedMessage { hash: hashes.to_sign(), ..message }));
    Ok(SignatureRequest { account, subject, typed_data: Some((hashes, text)) })
}

/// Extracts what rules check and people read: only members that are hashed. The domain and every structure may contain
/// members that are not declared; these are left out. If the domain itself is the signed structure, there is no
/// message.
fn typed_message(data: &Value) -> TypedMessage {
    let primary_type = data["primaryType"].as_str().unwrap_or_default().to_owned();
    let types = &data["types"];
    let shown =
        |(name, kind): (&str, &str)| (name.to_owned(), shown_member(&hashed_part(types, kind, &data["message"][name])));
    let members = match primary_type.as_str() {
        DOMAIN_TYPE => Vec::new(),
        primary_type => members_of(types, primary_type).map(shown).collect(),
    };
    TypedMessage { domain: domain_of(data), members, primary_type, hash: B256::ZERO }
}

/// Names and types of the members that a structure declares.
fn members_of<'a>(types: &'a Value, structure: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let declared = types[structure].as_array().into_iter().flatten();
    declared.filter_map(|member| Some((member["name"].as_str()?, member["type"].as_str()?))).take(MAX_MEMBERS)
}

/// A value of a type, without the members that its structures do not declare. The recursion is bounded, because the
/// JSON parser limits the nesting.
fn hashed_part(types: &Value, kind: &str, value: &Value) -> Value {
    let base = kind.split('[').next().unwrap_or_default();
    match value {
        Value::Array(values) => values.iter().map(|value| hashed_part(types, base, value)).collect(),
        Value::Object(given) if types.get(base).is_some() => {
            let part = |(name, kind): (&str, &str)| Some((name.to_owned(), hashed_part(types, kind, given.get(name)?)));
            Value::Object(members_of(types, base).filter_map(part).collect())
        }
        value => value.clone(),
    }
}

fn domain_of(data: &Value) -> Domain {
    let types = &data["types"];
    let declared: Vec<(&str, &str)> = match types.get(DOMAIN_TYPE) {
        Some(_) => members_of(types, DOMAIN_TYPE).collect(),
        None => STANDARD_MEMBERS.map(|name| (name, "string")).to_vec(),
    };
    let is_declared = |name: &str| declared.iter().any(|(declared, _)| *declared == name);
    let of_domain = |name: &str| Some(&data["domain"][name]).filter(|value| !value.is_null() && is_declared(name));
    let text = |name: &str| of_domain(name).and_then(Value::as_str).map(str::to_owned);
    let number = |value: &Value| value.as_u64().map(U256::from).or_else(|| value.as_str()?.parse().ok());
    let mut domain = Domain {
        name: text("name"),
        version: text("version"),
        chain_id: of_domain("chainId").and_then(number),
        contract: text("verifyingContract").and_then(|address| address.parse().ok()),
        others: Vec::new(),
    };
    let is_read = |name: &str| match name {
        "name" => domain.name.is_some(),
        "version" => domain.version.is_some(),
        "chainId" => domain.chain_id.is_some(),
        "verifyingContract" => domain.contract.is_some(),
        _ => false,
    };
    let others = declared.iter().filter(|(name, _)| !is_read(name));
    let shown = |(name, kind): &(&str, &str)| {
        Some(((*name).to_owned(), shown_member(&hashed_part(types, kind, of_domain(name)?))))
    };
    domain.others = others.filter_map(shown).collect();
    domain
}

/// A member's value: strings as they are, everything else as JSON.
fn shown_member(value: &Value) -> String {
    let mut text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if text.len() > MAX_MEMBER_TEXT {
        let end = (0..=MAX_MEMBER_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text.truncate(end);
    }
    text
}

/// `eth_signTransaction`, `account_signTransaction`: a complete transaction.
pub(super) fn transaction(arguments: &Arguments<'_>) -> Result<SignatureRequest, Failure> {
    let given: CallArguments = arguments.param(0)?;
    if let (Some(data), Some(input)) = (&given.data, &given.input)
        && data != input
    {
        return Err(Failure::invalid_params("both \"data\" and \"input\" are set and not equal"));
    }
    let request = given.into_request()?;
    let account = request.from.ok_or_else(|| Failure::invalid_params("from is missing"))?;
    let chain_id = request.chain_id.ok_or_else(|| Failure::invalid_params("chainId is missing"))?;
    // A legacy signature stores twice the chain id plus 36 in 64 bits.
    if chain_id > (u64::MAX - 36) / 2 {
        return Err(Failure::invalid_params("chainId is too large"));
    }
    let transaction = unsigned_transaction(&request, chain_id).map_err(BusError::from)?;
    let hash = tenon_chain::signing_hash(&transaction);
    Ok(SignatureRequest {
        account,
        subject: Subject::Transaction { transaction: Box::new(transaction), hash },
        typed_data: None,
    })
}

/// `{raw, tx}`: the signed transaction, encoded and as JSON.
pub(super) fn signed_transaction(mut transaction: Transaction, sender: Address, signature: HashSignature) -> Vec<u8> {
    let chain_id = transaction.chain_id.unwrap_or_default();
    attach_signature(&mut transaction, signature, chain_id);
    let raw = tenon_chain::encode_transaction(&transaction);
    let mut json = JsonWriter::with_capacity(1_024 + 4 * raw.len());
    json.begin_object();
    json.key("raw").data(&raw);
    json.key("tx");
    write_transaction(&mut json, Profile::Ethereum, &transaction, sender, None);
    json.end_object();
    json.into_bytes()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_that_no_structure_declares_are_not_shown() {
        let member = |name: &str, kind: &str| json!({ "name": name, "type": kind });
        let types = json!({
            "Permit": [member("order", "Order"), member("parts", "Order[][2]"), member("note", "string")],
            "Order": [member("amount", "uint256")],
        });
        let order = json!({ "amount": "1000", "approved by security": "yes" });
        let message = json!({ "order": order, "parts": [[order], []], "note": "n", "extra": 1 });

        let shown = typed_message(&json!({ "types": types, "primaryType": "Permit", "message": message })).members;

        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected =
            [pair("order", r#"{"amount":"1000"}"#), pair("parts", r#"[[{"amount":"1000"}],[]]"#), pair("note", "n")];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_domain_that_is_signed_itself_has_no_message() {
        let types = json!({ "EIP712Domain": [{ "name": "name", "type": "string" }] });
        let given = json!({ "types": types, "primaryType": "EIP712Domain", "domain": { "name": "Bank" },
            "message": { "name": "Only a login" } });

        let read = typed_message(&given);

        assert_eq!((read.members, read.domain.name.as_deref()), (Vec::new(), Some("Bank")));
    }

    #[test]
    fn every_member_of_the_domain_that_is_hashed_is_shown_and_no_other() {
        let others = |types: Value| {
            let given = json!({ "name": "Bank", "chainId": "fifty", "salt": "0x01", "vault": 7 });
            domain_of(&json!({ "types": types, "domain": given })).others
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());

        let declared = ["name", "chainId", "vault"].map(|name| json!({ "name": name, "type": "string" }));
        assert_eq!(others(json!({ "EIP712Domain": declared })), [pair("chainId", "fifty"), pair("vault", "7")]);
        assert_eq!(others(json!({})), [pair("chainId", "fifty"), pair("salt", "0x01")]);
    }
}
