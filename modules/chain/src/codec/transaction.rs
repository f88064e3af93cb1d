//! Transactions of types 0 to 4: canonical form (EIP-2718), the form in lists, and signing hashes (`docs/spec/chain.md`
//! 2.1, 2.2).

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use alloy_rlp::{EMPTY_STRING_CODE, Encodable};
use tenon_api::{
    AccessListItem, SignedAuthorization, Transaction, TransactionPayload, TransactionSignature, TransactionType,
};

use super::error::{DecodeError, DecodeProblem};
use super::rlp::{Reader, write_bytes, write_list, write_receiver, write_string};

/// Decodes a transaction from all of its canonical bytes.
///
/// # Errors
/// [`DecodeError`] for anything but the one canonical encoding of a transaction of types 0 to 4.
pub fn decode_transaction(input: &[u8]) -> Result<Transaction, DecodeError> {
    read_canonical(Reader::new(input))
}

/// Decodes all canonical bytes of `reader`.
pub(super) fn read_canonical(mut reader: Reader<'_>) -> Result<Transaction, DecodeError> {
    let input = reader.rest();
    let hash = keccak256(input);
    if reader.next_is_list() == Some(true) {
        let mut items = reader.list("transaction")?;
        let transaction = read_legacy(&mut items, hash)?;
        reader.finish("transaction")?;
        return Ok(transaction);
    }
    let (transaction_type, mut payload) = split_type(reader)?;
    let mut items = payload.list("transaction")?;
    let transaction = read_typed(&mut items, transaction_type, hash)?;
    payload.finish("transaction")?;
    Ok(transaction)
}

/// The type of typed canonical bytes, and a reader for the part after the type byte.
pub(super) fn split_type(reader: Reader<'_>) -> Result<(TransactionType, Reader<'_>), DecodeError> {
    let input = reader.rest();
    let [first, payload @ ..] = input else {
        return Err(reader.error("transaction", DecodeProblem::TypedTooShort));
    };
    if payload.is_empty() {
        return Err(reader.error("transaction", DecodeProblem::TypedTooShort));
    }
    let transaction_type = match first {
        1 => TransactionType::AccessList,
        2 => TransactionType::DynamicFee,
        3 => TransactionType::Blob,
        4 => TransactionType::SetCode,
        found => {
            return Err(reader.error("transaction type", DecodeProblem::UnsupportedType { found: *found }));
        }
    };
    Ok((transaction_type, reader.after_type_byte()))
}

/// Decodes the next transaction of a block's list: a list (type 0) or a byte string with the canonical bytes.
pub(super) fn read_list_transaction(list: &mut Reader<'_>) -> Result<Transaction, DecodeError> {
    if list.next_is_list() == Some(true) {
        let before = list.rest();
        let mut items = list.list("transaction")?;
        let hash = keccak256(&before[..before.len() - list.rest().len()]);
        return read_legacy(&mut items, hash);
    }
    let content = list.string("transaction")?;
    if content.next_is_list() == Some(true) {
        return Err(content.error("transaction", DecodeProblem::UnexpectedString));
    }
    read_canonical(content)
}

/// Decodes a transaction in its list form from the front of `input`, and advances `input` past it.
///
/// # Errors
/// See [`decode_transaction`]; `input` is unchanged then.
pub fn decode_list_transaction(input: &mut &[u8]) -> Result<Transaction, DecodeError> {
    let mut reader = Reader::new(input);
    let transaction = read_list_transaction(&mut reader)?;
    *input = reader.rest();
    Ok(transaction)
}

fn read_legacy(items: &mut Reader<'_>, hash: B256) -> Result<Transaction, DecodeError> {
    let nonce = items.u64("transaction nonce")?;
    let gas_price = items.u256("transaction gas price")?;
    let gas_limit = items.u64("transaction gas limit")?;
    let to = read_receiver(items)?;
    let value = items.u256("transaction value")?;
    let input = Bytes::copy_from_slice(items.bytes("transaction data")?);
    let signature = read_signature(items)?;
    items.finish_list("transaction", 9)?;
    let chain_id = (signature.v >= 35).then(|| (signature.v - 35) / 2);
    let payload = TransactionPayload::Legacy { gas_price };
    Ok(Transaction { hash, chain_id, nonce, gas_limit, to, value, input, payload, signature })
}

/// The prices of a typed transaction, in the order of encoding.
enum Prices {
    GasPrice(U256),
    Caps { priority: U256, fee: U256 },
}

pub(super) fn read_typed(
    items: &mut Reader<'_>,
    transaction_type: TransactionType,
    hash: B256,
) -> Result<Transaction, DecodeError> {
    let chain_id = Some(items.u64("transaction chain id")?);
    let nonce = items.u64("transaction nonce")?;
    let prices = if transaction_type == TransactionType::AccessList {
        Prices::GasPrice(items.u256("transaction gas price")?)
    } else {
        let priority = items.u256("transaction priority fee")?;
        Prices::Caps { priority, fee: items.u256("transaction fee cap")? }
    };
    let gas_limit = items.u64("transaction gas limit")?;
    let to = match transaction_type {
        // Types 3 and 4 cannot create contracts: their receiver always has 20 bytes.
        TransactionType::Blob | TransactionType::SetCode => Some(items.address("transaction receiver")?),
        _ => read_receiver(items)?,
    };
    let value = items.u256("transaction value")?;
    let input = Bytes::copy_from_slice(items.bytes("transaction data")?);
    let access_list = read_access_list(items)?;
    let payload = read_payload(items, transaction_type, prices, access_list)?;
    let signature = read_signature(items)?;
    items.finish_list("transaction", 14)?;
    Ok(Transaction { hash, chain_id, nonce, gas_limit, to, value, input, payload, signature })
}

fn read_payload(
    items: &mut Reader<'_>,
    transaction_type: TransactionType,
    prices: Prices,
    access_list: Vec<AccessListItem>,
) -> Result<TransactionPayload, DecodeError> {
    let (max_priority_fee_per_gas, max_fee_per_gas) = match prices {
        Prices::GasPrice(gas_price) => return Ok(TransactionPayload::AccessList { gas_price, access_list }),
        Prices::Caps { priority, fee } => (priority, fee),
    };
    Ok(match transaction_type {
        TransactionType::Blob => TransactionPayload::Blob {
            max_fee_per_gas,
            max_priority_fee_per_gas,
            access_list,
            max_fee_per_blob_gas: items.u256("transaction blob fee cap")?,
            blob_versioned_hashes: read_hashes(items, "blob versioned hash")?,
        },
        TransactionType::SetCode => TransactionPayload::SetCode {
            max_fee_per_gas,
            max_priority_fee_per_gas,
            access_list,
            authorization_list: read_authorizations(items)?,
        },
        _ => TransactionPayload::DynamicFee { max_fee_per_gas, max_priority_fee_per_gas, access_list },
    })
}

fn read_receiver(items: &mut Reader<'_>) -> Result<Option<Address>, DecodeError> {
    let start = *items;
    match items.bytes("transaction receiver")? {
        [] => Ok(None),
        bytes if bytes.len() == 20 => Ok(Some(Address::from_slice(bytes))),
        bytes => {
            let problem = DecodeProblem::WrongLength { wanted: 20, found: bytes.len() };
            Err(start.error("transaction receiver", problem))
        }
    }
}

fn read_signature(items: &mut Reader<'_>) -> Result<TransactionSignature, DecodeError> {
    Ok(TransactionSignature {
        v: items.u64("transaction v")?,
        r: items.u256("transaction r")?,
        s: items.u256("transaction s")?,
    })
}

fn read_hashes(items: &mut Reader<'_>, what: &'static str) -> Result<Vec<B256>, DecodeError> {
    let mut list = items.list(what)?;
    let mut hashes = Vec::new();
    while !list.is_empty() {
        hashes.push(list.hash(what)?);
    }
    Ok(hashes)
}

fn read_access_list(items: &mut Reader<'_>) -> Result<Vec<AccessListItem>, DecodeError> {
    let mut list = items.list("access list")?;
    let mut access_list = Vec::new();
    while !list.is_empty() {
        let mut fields = list.list("access list entry")?;
        let address = fields.address("access list address")?;
        let storage_keys = read_hashes(&mut fields, "access list key")?;
        fields.finish_list("access list entry", 2)?;
        access_list.push(AccessListItem { address, storage_keys });
    }
    Ok(access_list)
}

fn read_authorizations(items: &mut Reader<'_>) -> Result<Vec<SignedAuthorization>, DecodeError> {
    let mut list = items.list("authorization list")?;
    let mut authorizations = Vec::new();
    while !list.is_empty() {
        let mut fields = list.list("authorization")?;
        authorizations.push(SignedAuthorization {
            chain_id: fields.u256("authorization chain id")?,
            address: fields.address("authorization address")?,
            nonce: fields.u64("authorization nonce")?,
            y_parity: fields.u8("authorization parity")?,
            r: fields.u256("authorization r")?,
            s: fields.u256("authorization s")?,
        });
        fields.finish_list("authorization", 6)?;
    }
    Ok(authorizations)
}

/// The transaction's canonical bytes: RLP for type 0, type byte and RLP otherwise.
pub fn encode_transaction(transaction: &Transaction) -> Vec<u8> {
    let mut out = Vec::with_capacity(160 + transaction.input.len());
    encode_canonical(transaction, &mut out);
    out
}

pub(crate) fn encode_canonical(transaction: &Transaction, out: &mut Vec<u8>) {
    let transaction_type = transaction.transaction_type();
    if transaction_type != TransactionType::Legacy {
        out.push(transaction_type as u8);
    }
    encode_signed_list(transaction, out);
}

/// The list of fields with the signature, without a type byte.
pub(super) fn encode_signed_list(transaction: &Transaction, out: &mut Vec<u8>) {
    write_list(out, |out| {
        encode_fields(transaction, out);
        transaction.signature.v.encode(out);
        transaction.signature.r.encode(out);
        transaction.signature.s.encode(out);
    });
}

/// Appends the transaction in its form in a block's list.
pub fn encode_list_transaction(transaction: &Transaction, out: &mut Vec<u8>) {
    if transaction.transaction_type() == TransactionType::Legacy {
        encode_canonical(transaction, out);
    } else {
        write_string(out, |out| encode_canonical(transaction, out));
    }
}

/// keccak256 of the canonical bytes, recomputed from the fields.
pub fn transaction_hash(transaction: &Transaction) -> B256 {
    keccak256(encode_transaction(transaction))
}

/// The hash that the sender signs.
///
/// For type 0 the EIP-155 form is used if `chain_id` is set, otherwise the old form. The signature and the hash of
/// `transaction` are ignored, so this works for unsigned transactions too.
pub fn signing_hash(transaction: &Transaction) -> B256 {
    let mut out = Vec::with_capacity(160 + transaction.input.len());
    let transaction_type = transaction.transaction_type();
    if transaction_type != TransactionType::Legacy {
        out.push(transaction_type as u8);
    }
    write_list(&mut out, |out| {
        encode_fields(transaction, out);
        if let (TransactionType::Legacy, Some(chain_id)) = (transaction_type, transaction.chain_id) {
            chain_id.encode(out);
            out.push(EMPTY_STRING_CODE);
            out.push(EMPTY_STRING_CODE);
        }
    });
    keccak256(out)
}

/// The hash signed by the signer of an authorization (EIP-7702).
pub fn authorization_signing_hash(authorization: &SignedAuthorization) -> B256 {
    let mut out = vec![0x05];
    write_list(&mut out, |out| {
        authorization.chain_id.encode(out);
        authorization.address.encode(out);
        authorization.nonce.encode(out);
    });
    keccak256(out)
}

/// All fields before the signature.
fn encode_fields(transaction: &Transaction, out: &mut Vec<u8>) {
    if transaction.transaction_type() != TransactionType::Legacy {
        transaction.chain_id.unwrap_or_default().encode(out);
    }
    transaction.nonce.encode(out);
    match &transaction.payload {
        TransactionPayload::Legacy { gas_price } | TransactionPayload::AccessList { gas_price, .. } => {
            gas_price.encode(out);
        }
        TransactionPayload::DynamicFee { max_fee_per_gas, max_priority_fee_per_gas, .. }
        | TransactionPayload::Blob { max_fee_per_gas, max_priority_fee_per_gas, .. }
        | TransactionPayload::SetCode { max_fee_per_gas, max_priority_fee_per_gas, .. } => {
            max_priority_fee_per_gas.encode(out);
            max_fee_per_gas.encode(out);
        }
    }
    transaction.gas_limit.encode(out);
    write_receiver(out, transaction.to);
    transaction.value.encode(out);
    write_bytes(out, &transaction.input);
    if transaction.transaction_type() != TransactionType::Legacy {
        encode_access_list(transaction.access_list(), out);
    }
    match &transaction.payload {
        TransactionPayload::Blob { max_fee_per_blob_gas, blob_versioned_hashes, .. } => {
            max_fee_per_blob_gas.encode(out);
            write_list(out, |out| blob_versioned_hashes.iter().for_each(|hash| hash.encode(out)));
        }
        TransactionPayload::SetCode { authorization_list, .. } => encode_authorizations(authorization_list, out),
        _ => {}
    }
}

fn encode_access_list(access_list: &[AccessListItem], out: &mut Vec<u8>) {
    write_list(out, |out| {
        for item in access_list {
            write_list(out, |out| {
                item.address.encode(out);
                write_list(out, |out| item.storage_keys.iter().for_each(|key| key.encode(out)));
            });
        }
    });
}

fn encode_authorizations(authorizations: &[SignedAuthorization], out: &mut Vec<u8>) {
    write_list(out, |out| {
        for authorization in authorizations {
            write_list(out, |out| {
                authorization.chain_id.encode(out);
                authorization.address.encode(out);
                authorization.nonce.encode(out);
                authorization.y_parity.encode(out);
                authorization.r.encode(out);
                authorization.s.encode(out);
            });
        }
    });
}
