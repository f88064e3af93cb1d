//! Sizes of answers about pooled transactions, known before the transactions are loaded.

use tenon_api::{RecoveredTransaction, messages::PooledSummary};

/// Capacity for the JSON of a transaction without input and lists.
const TRANSACTION_JSON_BYTES: usize = 1200;
/// Capacity for the JSON of a list item: an address of an access list with the brackets of its keys.
const ITEM_JSON_BYTES: usize = 80;
/// Memory of a list item.
const ITEM_BYTES: usize = 48;

/// Maximum length of a pooled transaction as JSON, in bytes.
pub fn pooled_json_bytes(pooled: &PooledSummary) -> usize {
    let (input, items) = sizes(pooled);
    input.saturating_mul(2).saturating_add(items.saturating_mul(ITEM_JSON_BYTES)).saturating_add(TRANSACTION_JSON_BYTES)
}

/// Maximum size of a pooled transaction in memory, and as a message, in bytes.
pub fn pooled_bytes(pooled: &PooledSummary) -> usize {
    let (input, items) = sizes(pooled);
    let fixed = size_of::<RecoveredTransaction>() + 2 * size_of::<tenon_api::Transaction>();
    input.saturating_add(items.saturating_mul(ITEM_BYTES)).saturating_add(fixed)
}

fn sizes(pooled: &PooledSummary) -> (usize, usize) {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    (size(pooled.input_bytes), size(pooled.list_items))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tenon_api::{
        AccessListItem, Address, B256, Bytes, SignedAuthorization, Transaction, TransactionPayload,
        TransactionSignature, U256, codec, messages::Profile,
    };

    use super::*;
    use crate::shapes::{JsonWriter, write_transaction};

    fn pooled(input: usize, payload: TransactionPayload) -> RecoveredTransaction {
        let transaction = Transaction {
            hash: B256::repeat_byte(9),
            chain_id: Some(u64::MAX),
            nonce: u64::MAX,
            gas_limit: u64::MAX,
            to: Some(Address::repeat_byte(0xab)),
            value: U256::MAX,
            input: Bytes::from(vec![7; input]),
            payload,
            signature: TransactionSignature { v: u64::MAX, r: U256::MAX, s: U256::MAX },
        };
        RecoveredTransaction { transaction: Arc::new(transaction), sender: Address::repeat_byte(1) }
    }

    #[test]
    fn no_transaction_takes_more_bytes_than_its_summary_allows() {
        let price = U256::MAX;
        let access_list =
            |keys| vec![AccessListItem { address: Address::ZERO, storage_keys: vec![B256::ZERO; keys] }; 100];
        let authorization = SignedAuthorization {
            chain_id: U256::MAX,
            address: Address::ZERO,
            nonce: u64::MAX,
            y_parity: u8::MAX,
            r: U256::MAX,
            s: U256::MAX,
        };
        let set_code = TransactionPayload::SetCode {
            max_fee_per_gas: price,
            max_priority_fee_per_gas: price,
            access_list: access_list(0),
            authorization_list: vec![authorization; 100],
        };
        let blob = TransactionPayload::Blob {
            max_fee_per_gas: price,
            max_priority_fee_per_gas: price,
            access_list: access_list(1),
            max_fee_per_blob_gas: price,
            blob_versioned_hashes: vec![B256::ZERO; 100],
        };
        let cases = [
            pooled(125_000, TransactionPayload::Legacy { gas_price: price }),
            pooled(0, TransactionPayload::AccessList { gas_price: price, access_list: access_list(40) }),
            pooled(10, set_code),
            pooled(0, blob),
        ];
        for pooled in &cases {
            let summary = PooledSummary::from(pooled);
            for profile in [Profile::Ethereum, Profile::Native] {
                let mut json = JsonWriter::default();
                write_transaction(&mut json, profile, &pooled.transaction, pooled.sender, None);

                let (written, bound) = (json.into_bytes().len(), pooled_json_bytes(&summary));
                assert!(written <= bound, "{written} {bound} {:?}", pooled.transaction.transaction_type());
            }
            assert!(codec::encode(pooled).unwrap().len() <= pooled_bytes(&summary));
        }
    }
}
