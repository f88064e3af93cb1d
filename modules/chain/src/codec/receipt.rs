//! Receipts: `[status or root, cumulative gas, bloom, logs]`, prefixed by the type byte when typed.

use alloy_primitives::{B256, Bloom, BloomInput, Bytes};
use alloy_rlp::Encodable;
use tenon_api::{Log, Receipt, ReceiptOutcome, TransactionType};

use super::error::{DecodeError, DecodeProblem};
use super::rlp::{Reader, write_bytes, write_list};

/// The bloom of these logs: three bits for each address and each topic.
pub fn logs_bloom<'a>(logs: impl IntoIterator<Item = &'a Log>) -> Bloom {
    let mut bloom = Bloom::ZERO;
    for log in logs {
        bloom.accrue(BloomInput::Raw(log.address.as_slice()));
        for topic in &log.topics {
            bloom.accrue(BloomInput::Raw(topic.as_slice()));
        }
    }
    bloom
}

/// The receipt's canonical bytes, as in the receipts trie.
pub fn encode_receipt(receipt: &Receipt) -> Vec<u8> {
    encode_receipt_with_bloom(receipt, &logs_bloom(&receipt.logs))
}

/// Like [`encode_receipt`], with the precomputed bloom of the receipt's logs.
pub fn encode_receipt_with_bloom(receipt: &Receipt, bloom: &Bloom) -> Vec<u8> {
    let mut out = Vec::with_capacity(320);
    if receipt.transaction_type != TransactionType::Legacy {
        out.push(receipt.transaction_type as u8);
    }
    write_list(&mut out, |out| {
        match receipt.outcome {
            ReceiptOutcome::Status(succeeded) => succeeded.encode(out),
            ReceiptOutcome::StateRoot(root) => root.encode(out),
        }
        receipt.cumulative_gas_used.encode(out);
        bloom.encode(out);
        write_list(out, |out| receipt.logs.iter().for_each(|log| encode_log(log, out)));
    });
    out
}

fn encode_log(log: &Log, out: &mut Vec<u8>) {
    write_list(out, |out| {
        log.address.encode(out);
        write_list(out, |out| log.topics.iter().for_each(|topic| topic.encode(out)));
        write_bytes(out, &log.data);
    });
}

/// Decodes a receipt from all of its canonical bytes. `gas_used` is not part of the encoding and is set to 0.
///
/// # Errors
/// [`DecodeError`]; also if the bloom does not match the logs.
pub fn decode_receipt(input: &[u8]) -> Result<Receipt, DecodeError> {
    let mut reader = Reader::new(input);
    let transaction_type = match input.first() {
        Some(first) if *first < 0x80 => {
            reader = Reader::new(&input[1..]);
            typed(*first)
                .ok_or_else(|| DecodeError::new("receipt type", 0, DecodeProblem::UnsupportedType { found: *first }))?
        }
        _ => TransactionType::Legacy,
    };
    let shift = usize::from(transaction_type != TransactionType::Legacy);
    read_receipt(reader, transaction_type).map_err(|error| error.shifted(shift))
}

const fn typed(byte: u8) -> Option<TransactionType> {
    match byte {
        1 => Some(TransactionType::AccessList),
        2 => Some(TransactionType::DynamicFee),
        3 => Some(TransactionType::Blob),
        4 => Some(TransactionType::SetCode),
        _ => None,
    }
}

fn read_receipt(mut reader: Reader<'_>, transaction_type: TransactionType) -> Result<Receipt, DecodeError> {
    let mut items = reader.list("receipt")?;
    let start = items;
    let outcome = match items.bytes("receipt status")? {
        [] => ReceiptOutcome::Status(false),
        [1] => ReceiptOutcome::Status(true),
        root if root.len() == 32 => ReceiptOutcome::StateRoot(B256::from_slice(root)),
        _ => return Err(start.error("receipt status", DecodeProblem::InvalidValue)),
    };
    let cumulative_gas_used = items.u64("receipt gas")?;
    let bloom_start = items;
    let bloom = Bloom::new(items.fixed("receipt bloom")?);
    let logs = read_logs(&mut items)?;
    items.finish_list("receipt", 4)?;
    reader.finish("receipt")?;
    if bloom != logs_bloom(&logs) {
        return Err(bloom_start.error("receipt bloom", DecodeProblem::InvalidValue));
    }
    Ok(Receipt { transaction_type, outcome, cumulative_gas_used, gas_used: 0, logs })
}

fn read_logs(items: &mut Reader<'_>) -> Result<Vec<Log>, DecodeError> {
    let mut list = items.list("receipt logs")?;
    let mut logs = Vec::new();
    while !list.is_empty() {
        let mut fields = list.list("log")?;
        let address = fields.address("log address")?;
        let mut topic_list = fields.list("log topics")?;
        let mut topics = Vec::new();
        while !topic_list.is_empty() {
            topics.push(topic_list.hash("log topic")?);
        }
        let data = Bytes::copy_from_slice(fields.bytes("log data")?);
        fields.finish_list("log", 3)?;
        logs.push(Log { address, topics, data });
    }
    Ok(logs)
}
