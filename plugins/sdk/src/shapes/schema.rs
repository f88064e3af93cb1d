//! JSON schemas of methods' results, for the OpenRPC document ([`Table::results`](crate::Table::results)).

macro_rules! data {
    () => {
        r#"{"type":"string","pattern":"^0x([0-9a-fA-F]{2})*$"}"#
    };
}
macro_rules! quantity {
    () => {
        r#"{"type":"string","pattern":"^0x(0|[1-9a-f][0-9a-f]*)$"}"#
    };
}
macro_rules! address {
    () => {
        r#"{"type":"string","pattern":"^0x[0-9a-fA-F]{40}$"}"#
    };
}
macro_rules! hash {
    () => {
        r#"{"type":"string","pattern":"^0x[0-9a-f]{64}$"}"#
    };
}
macro_rules! or_null {
    ($($schema:expr),+) => {
        concat!(r#"{"anyOf":[{"type":"null"},"#, $($schema),+, "]}")
    };
}
macro_rules! list_of {
    ($($schema:expr),+) => {
        concat!(r#"{"type":"array","items":"#, $($schema),+, "}")
    };
}
macro_rules! object {
    ($($name:literal: $schema:expr),+ $(,)?) => {
        concat!(
            r#"{"type":"object","required":["#, required!($($name),+), r#"],"properties":{"#,
            properties!($($name: $schema),+), "}}"
        )
    };
}
macro_rules! required {
    ($first:literal $(, $name:literal)*) => {
        concat!("\"", $first, "\"" $(, ",\"", $name, "\"")*)
    };
}
macro_rules! properties {
    ($first:literal: $schema:expr $(, $name:literal: $other:expr)*) => {
        concat!("\"", $first, "\":", $schema $(, ",\"", $name, "\":", $other)*)
    };
}
macro_rules! log {
    () => {
        object!(
            "address": address!(),
            "topics": list_of!(hash!()),
            "data": data!(),
            "blockNumber": or_null!(quantity!()),
            "blockHash": or_null!(hash!()),
            "transactionHash": or_null!(hash!()),
            "transactionIndex": or_null!(quantity!()),
            "logIndex": or_null!(quantity!()),
            "removed": r#"{"type":"boolean"}"#,
        )
    };
}
macro_rules! receipt {
    () => {
        object!(
            "blockHash": hash!(),
            "blockNumber": quantity!(),
            "contractAddress": or_null!(address!()),
            "cumulativeGasUsed": quantity!(),
            "from": address!(),
            "gasUsed": quantity!(),
            "logs": list_of!(log!()),
            "logsBloom": data!(),
            "to": or_null!(address!()),
            "transactionHash": hash!(),
            "transactionIndex": quantity!(),
            "type": quantity!(),
        )
    };
}
macro_rules! transaction {
    () => {
        object!(
            "blockHash": or_null!(hash!()),
            "blockNumber": or_null!(quantity!()),
            "from": address!(),
            "gas": quantity!(),
            "gasPrice": or_null!(quantity!()),
            "hash": hash!(),
            "input": data!(),
            "nonce": quantity!(),
            "to": or_null!(address!()),
            "transactionIndex": or_null!(quantity!()),
            "type": quantity!(),
            "value": quantity!(),
            "r": quantity!(),
            "s": quantity!(),
            "v": quantity!(),
        )
    };
}
macro_rules! header_members {
    ($($name:literal: $schema:expr),* $(,)?) => {
        object!(
            "difficulty": quantity!(),
            "extraData": data!(),
            "gasLimit": quantity!(),
            "gasUsed": quantity!(),
            "hash": or_null!(hash!()),
            "logsBloom": data!(),
            "miner": or_null!(address!()),
            "mixHash": hash!(),
            "nonce": or_null!(data!()),
            "number": quantity!(),
            "parentHash": hash!(),
            "receiptsRoot": hash!(),
            "sha3Uncles": hash!(),
            "stateRoot": hash!(),
            "timestamp": quantity!(),
            "transactionsRoot": hash!(),
            $($name: $schema),*
        )
    };
}

/// Bytes.
pub const DATA: &str = data!();
/// A number.
pub const QUANTITY: &str = quantity!();
/// A number, or null.
pub const QUANTITY_OR_NULL: &str = or_null!(quantity!());
/// 32 bytes.
pub const HASH: &str = hash!();
/// 20 bytes.
pub const ADDRESS: &str = address!();
/// Addresses.
pub const ADDRESSES: &str = list_of!(address!());
/// Addresses, or null.
pub const ADDRESSES_OR_NULL: &str = or_null!(list_of!(address!()));
/// Hashes.
pub const HASHES: &str = list_of!(hash!());
/// Bytes, or null.
pub const DATA_OR_NULL: &str = or_null!(data!());
/// A string.
pub const TEXT: &str = r#"{"type":"string"}"#;
/// A boolean.
pub const BOOLEAN: &str = r#"{"type":"boolean"}"#;
/// A JSON number.
pub const NUMBER: &str = r#"{"type":"number"}"#;
/// A JSON integer.
pub const INTEGER: &str = r#"{"type":"integer"}"#;
/// Null.
pub const NULL: &str = r#"{"type":"null"}"#;
/// True, or null.
pub const BOOLEAN_OR_NULL: &str = or_null!(r#"{"type":"boolean"}"#);
/// An object whose members depend on the request.
pub const OBJECT: &str = r#"{"type":"object"}"#;
/// An object whose members depend on the request, or null.
pub const OBJECT_OR_NULL: &str = or_null!(r#"{"type":"object"}"#);
/// Objects whose members depend on the request.
pub const OBJECTS: &str = list_of!(r#"{"type":"object"}"#);
/// A header, or null.
pub const HEADER_OR_NULL: &str = or_null!(header_members!());
/// A block with hashes or transactions, or null.
pub const BLOCK_OR_NULL: &str = or_null!(header_members!(
    "size": quantity!(),
    "transactions": concat!(r#"{"anyOf":["#, list_of!(hash!()), ",", list_of!(transaction!()), "]}"),
    "uncles": list_of!(hash!()),
));
/// Simulated blocks: blocks with their calls' outcomes.
pub const SIMULATED_BLOCKS: &str = list_of!(header_members!(
    "size": quantity!(),
    "transactions": concat!(r#"{"anyOf":["#, list_of!(hash!()), ",", list_of!(transaction!()), "]}"),
    "uncles": list_of!(hash!()),
    "calls": list_of!(object!(
        "returnData": data!(),
        "logs": list_of!(log!()),
        "gasUsed": quantity!(),
        "maxUsedGas": quantity!(),
        "status": quantity!(),
    )),
));
/// An uncle, or null.
pub const UNCLE_OR_NULL: &str = or_null!(header_members!("size": quantity!(), "uncles": list_of!(hash!())));
/// A transaction, or null.
pub const TRANSACTION_OR_NULL: &str = or_null!(transaction!());
/// Transactions.
pub const TRANSACTIONS: &str = list_of!(transaction!());
/// A receipt, or null.
pub const RECEIPT_OR_NULL: &str = or_null!(receipt!());
/// Receipts, or null.
pub const RECEIPTS_OR_NULL: &str = or_null!(list_of!(receipt!()));
/// Logs.
pub const LOGS: &str = list_of!(log!());
/// Changes that a filter returns: logs or hashes.
pub const CHANGES: &str = concat!(r#"{"anyOf":["#, list_of!(hash!()), ",", list_of!(log!()), "]}");
/// A signed transaction: its bytes and its members.
pub const SIGNED_TRANSACTION: &str = object!("raw": data!(), "tx": r#"{"type":"object"}"#);
/// An account with proofs.
pub const ACCOUNT_PROOF: &str = object!(
    "address": address!(),
    "accountProof": list_of!(data!()),
    "balance": quantity!(),
    "codeHash": hash!(),
    "nonce": quantity!(),
    "storageHash": hash!(),
    "storageProof": list_of!(object!("key": r#"{"type":"string"}"#, "value": quantity!(), "proof": list_of!(data!()))),
);
/// An access list and the gas used with it.
pub const ACCESS_LIST: &str = object!(
    "accessList": list_of!(object!("address": address!(), "storageKeys": list_of!(hash!()))),
    "gasUsed": quantity!(),
);
