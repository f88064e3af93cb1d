//! Records of a block that was removed from the canonical chain, or executed beside it: its receipts with their logs,
//! and the keys of the accounts and slots that it changed. Its header, body and trie nodes are stored like those of any
//! block.
//!
//! They are stored in the column of receipts under a longer key, which no older release reads.

use tenon_api::Receipt;

use super::records::{self, Changes, Input, StoredLog, put_number};

/// Records of a side block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SideBlock {
    /// Its receipts.
    pub(crate) receipts: Vec<Receipt>,
    /// Keys that it changed, without the trie nodes that it superseded.
    pub(crate) changes: Changes,
}

/// Encodes the record of a side block: its stored receipts, its logs, its changes.
pub(crate) fn encode(receipts: &[u8], logs: &[StoredLog], changes: &Changes) -> Vec<u8> {
    let mut record = Vec::new();
    put_part(&mut record, receipts);
    put_number(&mut record, logs.len() as u64);
    for stored in logs {
        put_part(&mut record, &records::encode_log(stored.transaction_index, stored.transaction_hash, &stored.log));
    }
    let changes = Changes { superseded: Vec::new(), ..changes.clone() };
    put_part(&mut record, &records::encode_changes(&changes));
    record
}

/// The reverse of [`encode`].
pub(crate) fn decode(record: &[u8]) -> Option<SideBlock> {
    let mut input = Input(record);
    let summaries = records::decode_receipts(part(&mut input)?)?;
    let count = input.count()?;
    let mut logs = Vec::with_capacity(count);
    for _ in 0..count {
        logs.push(records::decode_log(part(&mut input)?)?.log);
    }
    let mut logs = logs.into_iter();
    let mut receipts = Vec::with_capacity(summaries.len());
    for summary in summaries {
        let own: Vec<_> = logs.by_ref().take(usize::try_from(summary.log_count).ok()?).collect();
        if own.len() as u64 != summary.log_count {
            return None;
        }
        receipts.push(summary.with_logs(own));
    }
    let changes = records::decode_changes(part(&mut input)?)?;
    (input.0.is_empty() && logs.next().is_none()).then_some(SideBlock { receipts, changes })
}

fn put_part(record: &mut Vec<u8>, part: &[u8]) {
    put_number(record, part.len() as u64);
    record.extend_from_slice(part);
}

fn part<'a>(input: &mut Input<'a>) -> Option<&'a [u8]> {
    let length = usize::try_from(input.number()?).ok()?;
    input.take(length)
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, B256, Bytes};
    use tenon_api::{Log, ReceiptOutcome, TransactionType};

    use super::*;

    fn sample() -> (SideBlock, Vec<u8>) {
        let log = |data: &'static [u8], topics: usize| Log {
            address: Address::repeat_byte(7),
            topics: vec![B256::repeat_byte(1); topics],
            data: Bytes::from_static(data),
        };
        let receipt = |logs: Vec<Log>, cumulative_gas_used| Receipt {
            transaction_type: TransactionType::DynamicFee,
            outcome: ReceiptOutcome::Status(true),
            cumulative_gas_used,
            gas_used: 21_000,
            logs,
        };
        let receipts = vec![
            receipt(vec![log(b"one", 0), log(b"", 4)], 21_000),
            receipt(Vec::new(), 42_000),
            receipt(vec![log(b"two", 1)], 63_000),
        ];
        let changes = Changes {
            accounts: vec![Address::repeat_byte(7)],
            slots: vec![(Address::repeat_byte(7), vec![B256::ZERO])],
            superseded: vec![vec![1, 2]],
        };
        let logs: Vec<StoredLog> = (0..)
            .zip(&receipts)
            .flat_map(|(index, receipt)| receipt.logs.iter().map(move |log| (index, log.clone())))
            .map(|(transaction_index, log)| StoredLog { transaction_index, transaction_hash: B256::ZERO, log })
            .collect();
        let record = encode(&records::encode_receipts(&receipts), &logs, &changes);
        (SideBlock { receipts, changes: Changes { superseded: Vec::new(), ..changes } }, record)
    }

    #[test]
    fn a_removed_blocks_record_round_trips() {
        let (wanted, record) = sample();
        assert_eq!(decode(&record), Some(wanted));
    }

    #[test]
    fn a_truncated_or_extended_record_is_refused() {
        let (_, record) = sample();
        for length in 0..record.len() {
            assert_eq!(decode(&record[..length]), None, "{length} bytes");
        }
        assert_eq!(decode(&[&record[..], &[0]].concat()), None);
    }
}
