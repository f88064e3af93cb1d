//! Records of the database, possibly corrupted on disk.

use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::{Account, Log, Receipt, ReceiptOutcome, TransactionType};

// Included as source, so that RocksDB is not linked.
#[allow(dead_code, reason = "only a part of the file is used here")]
#[path = "../../../modules/storage/src/format/bodies.rs"]
mod bodies;
#[allow(dead_code, reason = "only a part of the file is used here")]
#[path = "../../../modules/storage/src/format/keys.rs"]
mod keys;
#[allow(dead_code, reason = "only a part of the file is used here")]
#[path = "../../../modules/storage/src/format/records.rs"]
mod records;
#[allow(dead_code, reason = "only a part of the file is used here")]
#[path = "../../../modules/storage/src/format/side_block.rs"]
mod side_block;

use records::{Changes, ReceiptSummary, StoredLog};
use side_block::SideBlock;

/// A kind of record by its number, then its bytes: decoded records round-trip. (Numbers may have longer encodings than
/// necessary, so the bytes may differ.)
pub(crate) fn records(input: &[u8]) {
    let Some((kind, record)) = input.split_first() else { return };
    match kind % 10 {
        0 => again(record, records::decode_account, |account| records::encode_account(account.as_ref())),
        1 => again(record, records::decode_slot, |value| records::encode_slot(*value)),
        2 => again(record, records::decode_canonical, |(hash, time)| records::encode_canonical(*hash, *time).to_vec()),
        3 => again(record, records::decode_location, |(number, index)| {
            records::encode_location(*number, *index).to_vec()
        }),
        4 => again(record, few_logs, |receipts| records::encode_receipts(&with_logs(receipts))),
        5 => again(record, records::decode_log, |stored| {
            records::encode_log(stored.transaction_index, stored.transaction_hash, &stored.log)
        }),
        6 => again(record, records::decode_positions, |positions| records::encode_positions(positions)),
        7 => again(record, records::decode_changes, records::encode_changes),
        8 => side_block_record(record),
        _ => body(record),
    }
    // Fixed parts followed by any bytes.
    let _ = (records::decode_latest(record), records::decode_header(record));
}

fn again<T: PartialEq + std::fmt::Debug>(
    record: &[u8],
    decode: impl Fn(&[u8]) -> Option<T>,
    encode: impl Fn(&T) -> Vec<u8>,
) {
    if let Some(value) = decode(record) {
        let written = encode(&value);
        assert!(written.len() <= record.len(), "the encoding is not longer than the record");
        assert_eq!(decode(&written), Some(value), "the encoding decodes to the same value");
    }
}

/// A body, after a header whose length is the first byte; a reassembled block can be split again.
fn body(record: &[u8]) {
    let Some((length, rest)) = record.split_first() else { return };
    let (header, record) = rest.split_at(usize::from(*length).min(rest.len()));
    let Some((senders, block)) = bodies::decode_body(header, record) else { return };
    if let Ok(decoded) = tenon_chain::decode_block(&mut block.as_slice()) {
        let written = bodies::encode_body(&senders, &block).expect("a block has a header");
        let mut encoded = Vec::new();
        tenon_chain::encode_header(&decoded.header, &mut encoded);
        assert_eq!(bodies::decode_body(&encoded, &written), Some((senders, block)));
    }
}

/// The record of a side block round-trips, except for the positions of its logs and `Changes::superseded`, which it
/// does not contain.
fn side_block_record(record: &[u8]) {
    let Some(side) = side_block::decode(record) else { return };
    let summaries = records::encode_receipts(&side.receipts);
    let written = side_block::encode(&summaries, &stored_logs(&side.receipts), &side.changes);
    let kept = SideBlock { changes: Changes { superseded: Vec::new(), ..side.changes }, ..side };
    assert_eq!(side_block::decode(&written), Some(kept), "the encoding decodes to the same value");
}

/// Receipts whose summaries have few enough logs to generate them here.
fn few_logs(record: &[u8]) -> Option<Vec<ReceiptSummary>> {
    let receipts = records::decode_receipts(record)?;
    let logs = receipts.iter().try_fold(0_u64, |sum, receipt| sum.checked_add(receipt.log_count))?;
    (logs <= 1_000).then_some(receipts)
}

/// Receipts with as many logs as their summaries state.
fn with_logs(summaries: &[ReceiptSummary]) -> Vec<Receipt> {
    let log = Log { address: Address::ZERO, topics: Vec::new(), data: Bytes::new() };
    let receipts = summaries.iter().map(|summary| {
        let logs = (0..summary.log_count).map(|_| log.clone());
        summary.with_logs(logs.collect())
    });
    receipts.collect()
}

fn stored_logs(receipts: &[Receipt]) -> Vec<StoredLog> {
    let numbered = (0_u64..).zip(receipts);
    let logs = numbered.flat_map(|(index, receipt)| receipt.logs.iter().map(move |log| (index, log.clone())));
    logs.map(|(transaction_index, log)| StoredLog { transaction_index, transaction_hash: B256::ZERO, log }).collect()
}

/// Some of every kind.
pub(crate) fn examples(blocks: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let log =
        Log { address: Address::repeat_byte(7), topics: vec![B256::repeat_byte(1)], data: Bytes::from_static(b"data") };
    let receipt = |outcome, logs| Receipt {
        transaction_type: TransactionType::DynamicFee,
        outcome,
        cumulative_gas_used: 21_000,
        gas_used: 21_000,
        logs,
    };
    let receipts = vec![
        receipt(ReceiptOutcome::Status(true), vec![log.clone()]),
        receipt(ReceiptOutcome::StateRoot(B256::repeat_byte(2)), Vec::new()),
    ];
    let changes = Changes {
        accounts: vec![Address::repeat_byte(7)],
        slots: vec![(Address::repeat_byte(7), vec![B256::ZERO])],
        superseded: vec![vec![1; 66]],
    };
    let account = Account { balance: U256::from(5), code_hash: B256::repeat_byte(3), ..Account::default() };
    let stored = stored_logs(&receipts);
    let summaries = records::encode_receipts(&receipts);
    let mut examples = vec![
        records::encode_account(Some(&account)),
        records::encode_slot(U256::from(300)),
        records::encode_canonical(B256::repeat_byte(4), 5).to_vec(),
        records::encode_location(7, 3).to_vec(),
        summaries.clone(),
        records::encode_log(3, B256::repeat_byte(4), &log),
        records::encode_positions(&[1, 7, 300, 70_000]),
        records::encode_changes(&changes),
        side_block::encode(&summaries, &stored, &changes),
    ];
    (0_u8..).zip(&mut examples).for_each(|(kind, record)| record.insert(0, kind));
    let bodies = blocks.iter().filter_map(|rlp| {
        let block = tenon_chain::decode_block(&mut rlp.as_slice()).ok()?;
        let mut header = Vec::new();
        tenon_chain::encode_header(&block.header, &mut header);
        // The length of the header must fit its byte, so only the part after the header is real.
        let body = bodies::encode_body(&[Address::repeat_byte(9)], rlp)?;
        (body.len() < 600).then(|| [&[9, 200][..], header.get(..200).unwrap_or_default(), &body].concat())
    });
    examples.into_iter().chain(bodies.take(6)).collect()
}
