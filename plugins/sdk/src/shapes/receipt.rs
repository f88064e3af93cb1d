//! Receipts (`spec/rpc-eth.md` 6.5, `spec/conformance.md` 3.2).

use std::collections::HashMap;

use alloy_primitives::{Address, B256, Bloom, BloomInput, U256, keccak256};
use tenon_api::{
    Log, Receipt, ReceiptOutcome, SealedHeader, Transaction,
    messages::{BlockReceipts, Profile},
};

use super::{
    JsonWriter,
    log::{LogPlace, write_log},
};

/// Gas of one blob (EIP-4844).
const GAS_PER_BLOB: u64 = 131_072;
/// Room for a receipt without logs: the bloom alone has 514 characters.
const RECEIPT_BYTES: usize = 1300;
/// Room for a log with its topics.
const LOG_BYTES: usize = 900;

/// Where a receipt stands.
#[derive(Clone, Copy, Debug)]
pub struct ReceiptPlace<'a> {
    /// Header of its block.
    pub header: &'a SealedHeader,
    /// Position of its transaction in the block.
    pub index: u64,
    /// Position in the block of its first log.
    pub first_log_index: u64,
    /// Price of one blob gas in the block, wei.
    pub blob_gas_price: Option<U256>,
}

/// The receipts of a block, as a list.
pub fn block_receipts_json(profile: Profile, block: &BlockReceipts) -> JsonWriter {
    let logs: usize = block.receipts.iter().map(|receipt| receipt.logs.len()).sum();
    let mut json = JsonWriter::with_capacity(block.receipts.len() * RECEIPT_BYTES + logs * LOG_BYTES + 2);
    let (mut first_log_index, mut words) = (0, HashedWords::default());
    json.begin_list();
    let transactions = block.block.transactions.iter().zip(&block.block.senders);
    for (index, (receipt, (transaction, sender))) in block.receipts.iter().zip(transactions).enumerate() {
        let place = ReceiptPlace {
            header: &block.block.header,
            index: index as u64,
            first_log_index,
            blob_gas_price: block.blob_gas_price,
        };
        let bloom = words.bloom(&receipt.logs);
        write_with_bloom(&mut json, profile, receipt, transaction, *sender, &place, &bloom);
        first_log_index += receipt.logs.len() as u64;
    }
    json.end_list();
    json
}

/// A receipt.
pub fn write_receipt(
    json: &mut JsonWriter,
    profile: Profile,
    receipt: &Receipt,
    transaction: &Transaction,
    sender: Address,
    place: &ReceiptPlace<'_>,
) {
    let bloom = HashedWords::default().bloom(&receipt.logs);
    write_with_bloom(json, profile, receipt, transaction, sender, place, &bloom);
}

/// What the blooms of a block's receipts are made of: contracts and topics with their hashes. The same ones come again and
/// again in a block, and with each hashed once the whole answer takes a quarter less.
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

fn write_with_bloom(
    json: &mut JsonWriter,
    profile: Profile,
    receipt: &Receipt,
    transaction: &Transaction,
    sender: Address,
    place: &ReceiptPlace<'_>,
    bloom: &Bloom,
) {
    let header = place.header;
    let blobs = transaction.blob_versioned_hashes().len() as u64;
    json.begin_object();
    if blobs > 0 {
        json.key("blobGasPrice").quantity_256(place.blob_gas_price.unwrap_or_default());
        json.key("blobGasUsed").quantity(blobs.saturating_mul(GAS_PER_BLOB));
    }
    json.key("blockHash").data(header.hash());
    json.key("blockNumber").quantity(header.number);
    // Given whenever the transaction creates, also when it failed.
    json.key("contractAddress").optional_data(transaction.to.is_none().then(|| sender.create(transaction.nonce)));
    json.key("cumulativeGasUsed").quantity(receipt.cumulative_gas_used);
    json.key("effectiveGasPrice").quantity_256(transaction.effective_gas_price(header.base_fee_per_gas));
    json.key("from").data(sender);
    json.key("gasUsed").quantity(receipt.gas_used);
    json.key("logs");
    write_logs(json, profile, receipt, transaction, place);
    json.key("logsBloom").data(bloom);
    match receipt.outcome {
        ReceiptOutcome::Status(succeeded) => json.key("status").quantity(u64::from(succeeded)),
        ReceiptOutcome::StateRoot(root) => json.key("root").data(root),
    }
    json.key("to").optional_data(transaction.to);
    json.key("transactionHash").data(transaction.hash);
    json.key("transactionIndex").quantity(place.index);
    json.key("type").quantity(receipt.transaction_type as u64);
    json.end_object();
}

fn write_logs(
    json: &mut JsonWriter,
    profile: Profile,
    receipt: &Receipt,
    transaction: &Transaction,
    place: &ReceiptPlace<'_>,
) {
    let mut log_place = LogPlace {
        block_number: place.header.number,
        block_hash: place.header.hash(),
        block_timestamp: place.header.timestamp,
        transaction_hash: transaction.hash,
        transaction_index: place.index,
        log_index: place.first_log_index,
        removed: false,
    };
    json.begin_list();
    for log in &receipt.logs {
        write_log(json, profile, log, &log_place);
        log_place.log_index += 1;
    }
    json.end_list();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bloom_of_a_receipt_is_that_of_its_own_logs_alone() {
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
