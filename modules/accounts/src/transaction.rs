//! Builds a transaction from a complete request, and attaches the signature.

use tenon_api::{
    AccountRefusal, B256, Transaction, TransactionPayload, TransactionSignature, U256, messages::CallRequest,
};

use crate::{AccountsError, key::HashSignature};

/// The requested transaction, with an all-zero signature and hash.
///
/// # Errors
/// [`AccountsError`]: members are missing, contradict one another, or are of another chain.
pub fn unsigned(request: &CallRequest, chain_id: u64) -> Result<Transaction, AccountsError> {
    let gas_limit = request.gas.ok_or(AccountRefusal::NoGas)?;
    let payload = payload(request)?;
    let nonce = request.nonce.ok_or(AccountRefusal::NoNonce)?;
    if let Some(found) = request.chain_id.filter(|found| *found != chain_id) {
        return Err(AccountRefusal::WrongChain { found, wanted: chain_id }.into());
    }
    Ok(Transaction {
        hash: B256::ZERO,
        chain_id: Some(chain_id),
        nonce,
        gas_limit,
        to: request.to,
        value: request.value.unwrap_or_default(),
        input: request.input.clone(),
        payload,
        signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
    })
}

fn payload(request: &CallRequest) -> Result<TransactionPayload, AccountsError> {
    if request.blob_versioned_hashes.is_some() || request.max_fee_per_blob_gas.is_some() {
        return Err(AccountsError::NoBlobs);
    }
    let access_list = request.access_list.clone();
    let caps = match (request.max_fee_per_gas, request.max_priority_fee_per_gas) {
        (Some(fee), Some(tip)) => Some((fee, tip)),
        (None, None) => None,
        _ if request.gas_price.is_some() => return Err(AccountRefusal::BothPrices.into()),
        _ => return Err(AccountRefusal::NoPrice.into()),
    };
    match (request.gas_price, caps, &request.authorization_list) {
        (Some(_), Some(_), _) => Err(AccountRefusal::BothPrices.into()),
        (_, None, Some(_)) | (None, None, None) => Err(AccountRefusal::NoPrice.into()),
        (_, Some(_), Some(_)) if request.to.is_none() => Err(AccountRefusal::CreationWithAuthorizations.into()),
        (_, Some(_), Some(list)) if list.is_empty() => Err(AccountRefusal::NoAuthorizations.into()),
        (_, Some((max_fee_per_gas, max_priority_fee_per_gas)), Some(list)) => Ok(TransactionPayload::SetCode {
            max_fee_per_gas,
            max_priority_fee_per_gas,
            access_list: access_list.unwrap_or_default(),
            authorization_list: list.clone(),
        }),
        (_, Some((max_fee_per_gas, max_priority_fee_per_gas)), None) => Ok(TransactionPayload::DynamicFee {
            max_fee_per_gas,
            max_priority_fee_per_gas,
            access_list: access_list.unwrap_or_default(),
        }),
        (Some(gas_price), None, None) => Ok(match access_list {
            Some(access_list) => TransactionPayload::AccessList { gas_price, access_list },
            None => TransactionPayload::Legacy { gas_price },
        }),
    }
}

/// Attaches the signature and computes the hash.
pub fn attach(transaction: &mut Transaction, signature: HashSignature, chain_id: u64) {
    let parity = u64::from(signature.y_parity);
    let v = match transaction.payload {
        // EIP-155. `v` is 64 bits wide here; a chain id above 2^63 would not fit.
        TransactionPayload::Legacy { .. } => chain_id.saturating_mul(2).saturating_add(35 + parity),
        _ => parity,
    };
    transaction.signature = TransactionSignature { v, r: signature.r, s: signature.s };
    transaction.hash = tenon_chain::transaction_hash(transaction);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tenon_api::{AccessListItem, Address, Bytes, SignedAuthorization, TransactionType};
    use tenon_config::DEVELOPMENT_MNEMONIC;

    use super::*;
    use crate::Accounts;

    fn accounts() -> Accounts {
        Accounts::from_mnemonic(DEVELOPMENT_MNEMONIC, 3, 31337).unwrap()
    }

    fn complete(from: Address) -> CallRequest {
        CallRequest {
            from: Some(from),
            to: Some(Address::repeat_byte(7)),
            gas: Some(21_000),
            gas_price: Some(U256::from(5)),
            nonce: Some(0),
            ..CallRequest::default()
        }
    }

    fn dynamic(from: Address) -> CallRequest {
        let caps = (Some(U256::from(9)), Some(U256::from(1)));
        CallRequest { gas_price: None, max_fee_per_gas: caps.0, max_priority_fee_per_gas: caps.1, ..complete(from) }
    }

    fn authorization() -> SignedAuthorization {
        SignedAuthorization {
            chain_id: U256::ZERO,
            address: Address::repeat_byte(9),
            nonce: 0,
            y_parity: 0,
            r: U256::from(1),
            s: U256::from(1),
        }
    }

    #[test]
    fn the_members_choose_the_type() {
        let accounts = accounts();
        let from = accounts.addresses()[1];
        let list = Some(vec![AccessListItem { address: from, storage_keys: vec![B256::ZERO] }]);
        let cases = [
            (complete(from), TransactionType::Legacy),
            (CallRequest { access_list: list, ..complete(from) }, TransactionType::AccessList),
            (dynamic(from), TransactionType::DynamicFee),
            (
                CallRequest { authorization_list: Some(vec![authorization()]), ..dynamic(from) },
                TransactionType::SetCode,
            ),
        ];
        for (request, wanted) in cases {
            let transaction = accounts.sign_transaction(&request).unwrap();

            assert_eq!(transaction.transaction_type(), wanted);
            assert_eq!(tenon_chain::recover_sender(&transaction).unwrap(), from, "{wanted:?}");
            let raw = tenon_chain::encode_transaction(&transaction);
            assert_eq!(tenon_chain::decode_transaction(&raw).unwrap(), transaction, "{wanted:?}");
        }
    }

    #[test]
    fn an_incomplete_or_contradictory_request_is_refused() {
        let accounts = accounts();
        let from = accounts.addresses()[0];
        let cases = [
            (CallRequest { gas: None, ..complete(from) }, AccountRefusal::NoGas),
            (CallRequest { nonce: None, ..complete(from) }, AccountRefusal::NoNonce),
            (CallRequest { gas_price: None, ..complete(from) }, AccountRefusal::NoPrice),
            (CallRequest { max_fee_per_gas: Some(U256::from(1)), ..complete(from) }, AccountRefusal::BothPrices),
            (
                CallRequest { chain_id: Some(1), ..complete(from) },
                AccountRefusal::WrongChain { found: 1, wanted: 31337 },
            ),
            (CallRequest { from: None, ..complete(from) }, AccountRefusal::UnknownAccount),
            (complete(Address::ZERO), AccountRefusal::UnknownAccount),
            (CallRequest { authorization_list: Some(vec![]), ..dynamic(from) }, AccountRefusal::NoAuthorizations),
            (
                CallRequest { authorization_list: Some(vec![authorization()]), to: None, ..dynamic(from) },
                AccountRefusal::CreationWithAuthorizations,
            ),
        ];
        for (request, wanted) in cases {
            let error = accounts.sign_transaction(&request).unwrap_err();
            assert!(matches!(&error, AccountsError::Refused(refusal) if *refusal == wanted), "{error:?}");
        }
    }

    #[test]
    fn a_legacy_transaction_is_protected_against_replay() {
        let accounts = accounts();
        let transaction = accounts.sign_transaction(&complete(accounts.addresses()[0])).unwrap();

        assert!(matches!(transaction.signature.v, 62709 | 62710));
        assert_eq!(transaction.chain_id, Some(31337));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn signed_transactions_decode_and_recover(
            signer in 0_usize..3,
            nonce: u64,
            gas in any::<u64>(),
            value: u128,
            price: u64,
            input in proptest::collection::vec(any::<u8>(), 0..64),
            creates: bool,
            has_caps: bool,
        ) {
            let accounts = accounts();
            let from = accounts.addresses()[signer];
            let base = if has_caps { dynamic(from) } else { complete(from) };
            let request = CallRequest {
                nonce: Some(nonce),
                gas: Some(gas),
                value: Some(U256::from(value)),
                gas_price: base.gas_price.map(|_| U256::from(price)),
                input: Bytes::from(input),
                to: if creates { None } else { base.to },
                ..base
            };

            let transaction = accounts.sign_transaction(&request).unwrap();

            prop_assert_eq!(tenon_chain::recover_sender(&transaction).unwrap(), from);
            let raw = tenon_chain::encode_transaction(&transaction);
            prop_assert_eq!(tenon_chain::decode_transaction(&raw).unwrap(), transaction);
        }
    }
}
