//! Receipts (`docs/spec/rpc-eth.md` 6.5, `docs/spec/conformance.md` 3.2).

use std::collections::HashMap;

use alloy_primitives::{Address, B256, Bloom, BloomInput, U256, keccak256};
use tenon_api::{
    Log, Receipt, ReceiptOutcome, SealedHeader, Transaction,
    messages::{BlockReceipts, LocatedReceipt, Profile},
};

use super::{
    JsonWriter,
    log::{LogPlace, write_log},
};

/// Gas of one blob (EIP-4844).
const GAS_PER_BLOB: u64 = 131_072;
/// Capacity for a receipt without logs: the bloom alone has 514 characters.
const RECEIPT_BYTES: usize = 1300;
/// Capacity for a log with its topics.
const LOG_BYTES: usize = 900;

/// A receipt with all data that its JSON needs: a borrowed [`LocatedReceipt`], or one of [`BlockReceipts`].
struct PlacedReceipt<'a> {
    receipt: &'a Receipt,
    transaction: &'a Transaction,
    sender: Address,
    /// Of its block.
    header: &'a SealedHeader,
    /// Position of its transaction in the block.
    index: u64,
    /// Position of its first log in the block.
    first_log_index: u64,
    /// Price of one blob gas in the block, wei.
    blob_gas_price: Option<U256>,
}

impl<'a> From<&'a LocatedReceipt> for PlacedReceipt<'a> {
    fn from(located: &'a LocatedReceipt) -> Self {
        Self {
            receipt: &located.receipt,
            transaction: &located.transaction.transaction.transaction,
            sender: located.transaction.transaction.sender,
            header: &located.transaction.header,
            index: located.transaction.index,
            first_log_index: located.first_log_index,
            blob_gas_price: located.blob_gas_price,
        }
    }
}

/// A receipt.
pub fn receipt_json(profile: Profile, located: &LocatedReceipt) -> JsonWriter {
    let logs = &located.receipt.logs;
    let mut json = JsonWriter::with_capacity(RECEIPT_BYTES + logs.len() * LOG_BYTES);
    PlacedReceipt::from(located).write(&mut json, profile, &HashedWords::default().bloom(logs));
    json
}

/// The receipts of a block, as a list.
pub fn block_receipts_json(profile: Profile, block: &BlockReceipts) -> JsonWriter {
    let logs: usize = block.receipts.iter().map(|receipt| receipt.logs.len()).sum();
    let mut json = JsonWriter::with_capacity(block.receipts.len() * RECEIPT_BYTES + logs * LOG_BYTES + 2);
    let (mut first_log_index, mut words) = (0, HashedWords::default());
    json.begin_list();
    let transactions = block.block.transactions.iter().zip(&block.block.senders);
    for (index, (receipt, (transaction, sender))) in (0..).zip(block.receipts.iter().zip(transactions)) {
        let placed = PlacedReceipt {
            receipt,
            transaction,
            sender: *sender,
            header: &block.block.header,
            index,
            first_log_index,
            blob_gas_price: block.blob_gas_price,
        };
        placed.write(&mut json, profile, &words.bloom(&receipt.logs));
        first_log_index += receipt.logs.len() as u64;
    }
    json.end_list();
    json
}

/// Hashes of the contracts and topics from which the blooms of a block's receipts are computed. A block repeats most of
/// them; with each hashed once, the whole answer takes a quarter less time.
#[derive(Default)]
struct HashedWords<'a>(HashMap<&'a [u8], B256>);

impl<'a> HashedWords<'a> {
    fn bloom(&mut self, logs: &'a [Log]) -> Bloom {
        let mut bloom = Bloom::ZERO;
        for log in logs {
            for word in std::iter::once(log.address.as_slice()).chain(log.topics.iter().map(|topic| topic.as_slice())) {
                let hash = *self.0.entry(word).or_insert_with(|| keccak256(word));
                bloom.accrue(BloomInput::Hash(hash));
            }
        }
        bloom
    }
}

impl PlacedReceipt<'_> {
    fn write(&self, json: &mut JsonWriter, profile: Profile, bloom: &Bloom) {
        let Self { receipt, transaction, sender, header, .. } = *self;
        let blobs = transaction.blob_versioned_hashes().len() as u64;
        json.begin_object();
        if blobs > 0 {
            json.key("blobGasPrice").quantity_256(self.blob_gas_price.unwrap_or_default());
            json.key("blobGasUsed").quantity(blobs.saturating_mul(GAS_PER_BLOB));
        }
        json.key("blockHash").data(header.hash());
        json.key("blockNumber").quantity(header.number);
        // Written whenever the transaction creates a contract, also if it failed.
        json.key("contractAddress").optional_data(transaction.to.is_none().then(|| sender.create(transaction.nonce)));
        json.key("cumulativeGasUsed").quantity(receipt.cumulative_gas_used);
        json.key("effectiveGasPrice").quantity_256(transaction.effective_gas_price(header.base_fee_per_gas));
        json.key("from").data(sender);
        json.key("gasUsed").quantity(receipt.gas_used);
        json.key("logs");
        self.write_logs(json, profile);
        json.key("logsBloom").data(bloom);
        match receipt.outcome {
            ReceiptOutcome::Status(succeeded) => json.key("status").quantity(u64::from(succeeded)),
            ReceiptOutcome::StateRoot(root) => json.key("root").data(root),
        }
        json.key("to").optional_data(transaction.to);
        json.key("transactionHash").data(transaction.hash);
        json.key("transactionIndex").quantity(self.index);
        // The transaction's type: an intercepted native transaction of any type has an untyped receipt
        // (`docs/spec/upgrades.md` 7.2).
        json.key("type").quantity(transaction.transaction_type() as u64);
        json.end_object();
    }

    fn write_logs(&self, json: &mut JsonWriter, profile: Profile) {
        let mut place = LogPlace {
            block_number: self.header.number,
            block_hash: self.header.hash(),
            block_timestamp: self.header.timestamp,
            transaction_hash: self.transaction.hash,
            transaction_index: self.index,
            log_index: self.first_log_index,
            removed: false,
        };
        json.begin_list();
        for log in &self.receipt.logs {
            write_log(json, profile, log, &place);
            place.log_index += 1;
        }
        json.end_list();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use alloy_primitives::Bytes;
    use tenon_api::{
        Header, RecoveredTransaction, TransactionPayload, TransactionSignature, TransactionType,
        messages::LocatedTransaction,
    };

    use super::*;

    /// Blocks 170 and 185 of the recorded chain `upgrade` have such transactions.
    #[test]
    fn an_untyped_receipt_of_a_typed_transaction_shows_the_transactions_type() {
        let transaction = Transaction {
            hash: B256::ZERO,
            chain_id: Some(5152),
            nonce: 0,
            gas_limit: 200_000,
            to: Some(Address::with_last_byte(0x89)),
            value: U256::ZERO,
            input: Bytes::new(),
            payload: TransactionPayload::SetCode {
                max_fee_per_gas: U256::ZERO,
                max_priority_fee_per_gas: U256::ZERO,
                access_list: Vec::new(),
                authorization_list: Vec::new(),
            },
            signature: TransactionSignature { v: 0, r: U256::ZERO, s: U256::ZERO },
        };
        let located = LocatedReceipt {
            transaction: LocatedTransaction {
                transaction: RecoveredTransaction { transaction: Arc::new(transaction), sender: Address::ZERO },
                header: Arc::new(SealedHeader::new_unchecked(Header::default(), B256::ZERO)),
                index: 0,
            },
            receipt: Receipt {
                transaction_type: TransactionType::Legacy,
                outcome: ReceiptOutcome::Status(true),
                cumulative_gas_used: 0,
                gas_used: 0,
                logs: Vec::new(),
            },
            first_log_index: 0,
            blob_gas_price: None,
        };

        let written = receipt_json(Profile::Native, &located).into_bytes();

        let written: serde_json::Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(written["type"], "0x4");
    }

    #[test]
    fn the_bloom_of_a_receipt_covers_its_own_logs_only() {
        let log = |contract, topics: &[u8]| Log {
            address: Address::repeat_byte(contract),
            topics: topics.iter().copied().map(B256::repeat_byte).collect(),
            ..Log::default()
        };
        let receipts = [vec![log(1, &[2, 3]), log(1, &[2, 4])], vec![], vec![log(5, &[2]), log(6, &[])]];
        let mut words = HashedWords::default();

        for logs in &receipts {
            let mut expected = Bloom::ZERO;
            logs.iter().for_each(|log| expected.accrue_raw_log(log.address, &log.topics));

            assert_eq!(words.bloom(logs), expected);
        }
    }
}
