//! Classifies raw bytes to be signed. Without this, a transaction, a message or typed data could be signed under the
//! rules for raw bytes.

use alloy_primitives::{B256, U256, keccak256};
use alloy_rlp::{Encodable as _, Header as RlpHeader};
use tenon_api::TransactionSignature;
use tenon_signing_policy::Subject;

use crate::ServiceError;

/// Prefix of a message (EIP-191, version 0x45), including the byte 0x19.
const MESSAGE_PREFIX: &[u8] = b"\x19Ethereum Signed Message:\n";
/// Prefix of an authorization that delegates code (EIP-7702).
const AUTHORIZATION: u8 = 0x05;
/// Prefix of all EIP-191 formats.
const SIGNED_DATA: u8 = 0x19;

/// Determines what the bytes are.
///
/// # Errors
/// [`ServiceError::Invalid`]: they are typed data or an authorization, whose content the bytes do not reveal, or have the
/// form of a transaction that cannot be read.
pub(crate) fn subject_of(bytes: Vec<u8>) -> Result<Subject, ServiceError> {
    if let Some(subject) = unsigned_transaction(&bytes) {
        return Ok(subject);
    }
    if let Some(message) = message(&bytes) {
        return Ok(Subject::Message(message.to_vec().into()));
    }
    if looks_like_transaction(&bytes) {
        return Err(invalid("the bytes look like a transaction, but cannot be decoded"));
    }
    match bytes.first() {
        Some(&SIGNED_DATA) => Err(invalid("the bytes are data of EIP-191: use eth_sign or eth_signTypedData_v4")),
        Some(&AUTHORIZATION) if is_list(&bytes[1..]) => Err(invalid(
            "the bytes are an authorization that delegates an account to code, which this service does \
                not sign",
        )),
        _ => Ok(Subject::Raw(bytes.into())),
    }
}

fn invalid(reason: &str) -> ServiceError {
    ServiceError::Invalid(reason.to_owned())
}

/// The message of an EIP-191 encoding, if the length in it is correct.
fn message(bytes: &[u8]) -> Option<&[u8]> {
    let rest = bytes.strip_prefix(MESSAGE_PREFIX)?;
    let mut splits = (1..=rest.len().min(10)).map(|digits| rest.split_at(digits));
    splits.find(|(digits, message)| *digits == message.len().to_string().as_bytes()).map(|(_, message)| message)
}

/// Decodes bytes that are the signing form of a transaction; `None` for other bytes. The decoder needs a signature, so
/// a dummy one is added and removed again.
fn unsigned_transaction(bytes: &[u8]) -> Option<Subject> {
    let signed = match bytes.first()? {
        kind @ 0x01..=0x04 => [vec![*kind], with_signature(&bytes[1..], 0)?].concat(),
        0xc0.. => legacy_with_signature(bytes)?,
        _ => return None,
    };
    let mut transaction = tenon_chain::decode_transaction(&signed).ok()?;
    transaction.signature = TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO };
    transaction.hash = B256::ZERO;
    let hash = tenon_chain::signing_hash(&transaction);
    // Equal hashes show that decoding lost nothing.
    (hash == keccak256(bytes)).then(|| Subject::Transaction { transaction: Box::new(transaction), hash })
}

/// Whether bytes have the outer form of a transaction to sign: a list of the length of a legacy one, or a type and a
/// list.
fn looks_like_transaction(bytes: &[u8]) -> bool {
    match bytes.first() {
        Some(0x01..=0x04) => is_list(&bytes[1..]),
        Some(0xc0..) => list_items(bytes).is_some_and(|items| matches!(items.len(), 6 | 9)),
        _ => false,
    }
}

fn legacy_with_signature(bytes: &[u8]) -> Option<Vec<u8>> {
    let items = list_items(bytes)?;
    match items.len() {
        6 => with_signature(bytes, 27),
        // Chain id, 0 and 0 are in place of the signature (EIP-155).
        9 => {
            let chain_id = <u64 as alloy_rlp::Decodable>::decode(&mut &*items[6]).ok()?;
            let v = chain_id.checked_mul(2)?.checked_add(35)?;
            with_signature(&list_of(&items[..6].concat()), v)
        }
        _ => None,
    }
}

/// The list with `v`, `r` and `s` appended.
fn with_signature(list: &[u8], v: u64) -> Option<Vec<u8>> {
    let mut payload = list_items(list)?.concat();
    v.encode(&mut payload);
    U256::from(1).encode(&mut payload);
    U256::from(1).encode(&mut payload);
    Some(list_of(&payload))
}

fn list_of(payload: &[u8]) -> Vec<u8> {
    let mut list = Vec::with_capacity(payload.len() + 9);
    RlpHeader { list: true, payload_length: payload.len() }.encode(&mut list);
    list.extend_from_slice(payload);
    list
}

fn is_list(bytes: &[u8]) -> bool {
    list_items(bytes).is_some()
}

/// The items of a list that spans all bytes, each with its header.
fn list_items(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut rest = bytes;
    let header = RlpHeader::decode(&mut rest).ok()?;
    if !header.list || header.payload_length != rest.len() {
        return None;
    }
    let mut items = Vec::new();
    while !rest.is_empty() {
        let before = rest;
        let header = RlpHeader::decode(&mut rest).ok()?;
        rest = rest.get(header.payload_length..)?;
        items.push(before[..before.len() - rest.len()].to_vec());
    }
    Some(items)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, Bytes};
    use proptest::prelude::*;
    use tenon_api::{Transaction, TransactionPayload};

    use super::*;

    fn transaction(payload: TransactionPayload, chain_id: Option<u64>) -> Transaction {
        Transaction {
            hash: B256::ZERO,
            chain_id,
            nonce: 7,
            gas_limit: 21_000,
            to: Some(Address::repeat_byte(7)),
            value: U256::from(9),
            input: Bytes::from_static(&[1, 2, 3]),
            payload,
            signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
        }
    }

    /// The bytes whose hash is signed for the transaction.
    fn signing_form(transaction: &Transaction) -> Vec<u8> {
        let encoded = tenon_chain::encode_transaction(transaction);
        let (kind, list) = match encoded[0] {
            kind @ 0x01..=0x04 => (vec![kind], encoded[1..].to_vec()),
            _ => (Vec::new(), encoded),
        };
        let mut items = list_items(&list).unwrap();
        items.truncate(items.len() - 3);
        if kind.is_empty()
            && let Some(chain_id) = transaction.chain_id
        {
            items.extend([alloy_rlp::encode(chain_id), vec![0x80], vec![0x80]]);
        }
        [kind, list_of(&items.concat())].concat()
    }

    #[test]
    fn a_transaction_in_raw_bytes_is_judged_as_a_transaction() {
        let price = U256::from(5);
        let payloads = [
            (TransactionPayload::Legacy { gas_price: price }, Some(50)),
            (TransactionPayload::Legacy { gas_price: price }, None),
            (TransactionPayload::AccessList { gas_price: price, access_list: Vec::new() }, Some(50)),
            (
                TransactionPayload::DynamicFee {
                    max_fee_per_gas: price,
                    max_priority_fee_per_gas: price,
                    access_list: Vec::new(),
                },
                Some(51),
            ),
        ];
        for (payload, chain_id) in payloads {
            let transaction = transaction(payload, chain_id);
            let bytes = signing_form(&transaction);
            assert_eq!(keccak256(&bytes), tenon_chain::signing_hash(&transaction), "{transaction:?}");

            let Subject::Transaction { transaction: found, .. } = subject_of(bytes).unwrap() else {
                panic!("{transaction:?}");
            };
            assert_eq!((found.chain_id, found.nonce, found.value), (chain_id, 7, U256::from(9)));
        }
    }

    #[test]
    fn messages_typed_data_and_authorizations_are_no_bytes_without_meaning() {
        let message = [MESSAGE_PREFIX, b"5hello"].concat();
        assert_eq!(subject_of(message).unwrap(), Subject::Message(Bytes::from_static(b"hello")));
        assert!(subject_of([&[0x19, 0x01][..], &[0; 64]].concat()).is_err());
        assert!(subject_of([MESSAGE_PREFIX, b"6hello"].concat()).is_err());
        assert!(subject_of([&[0x05][..], &list_of(&[1, 2, 3])].concat()).is_err());
        assert_eq!(subject_of(vec![5]).unwrap(), Subject::Raw(Bytes::from_static(&[5])));
        assert_eq!(subject_of(Vec::new()).unwrap(), Subject::Raw(Bytes::new()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = subject_of(bytes);
        }
    }
}
