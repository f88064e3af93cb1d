//! Encoding of values. Every decoder returns `None` for bytes that no encoder here produces; the caller converts that
//! into a named [`StoreError::Corrupt`](tenon_api::StoreError::Corrupt).

use alloy_primitives::{Address, B256, Bytes, U256};
use tenon_api::{
    Account, EMPTY_CODE_HASH, EMPTY_ROOT_HASH, Log, Receipt, ReceiptOutcome, TransactionType, WholeBalance,
    split_balance,
};

use super::keys;

/// Reads a record from its start to its end.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    /// The next `length` bytes.
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// A number in seven bits per byte, least significant first.
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// A number of items that each take at least one byte, so that a corrupt count allocates no memory.
    pub(crate) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    /// A hash or slot.
    pub(crate) fn word(&mut self) -> Option<B256> {
        self.take(32).map(B256::from_slice)
    }

    /// An address.
    pub(crate) fn address(&mut self) -> Option<Address> {
        self.take(20).map(Address::from_slice)
    }

    /// Succeeds if no input is left.
    pub(crate) fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Appends what [`Input::number`] reads.
pub(crate) fn put_number(output: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        output.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    output.push(number as u8);
}

/// A record of the latest state: the block of the last change, and the value; an empty value means absent.
pub(crate) fn encode_latest(block: u64, value: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(8 + value.len());
    record.extend_from_slice(&block.to_be_bytes());
    record.extend_from_slice(value);
    record
}

/// Block of the last change, and value.
pub(crate) fn decode_latest(record: &[u8]) -> Option<(u64, &[u8])> {
    let (block, value) = record.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*block), value))
}

const HAS_CODE: u8 = 1;
const HAS_STORAGE: u8 = 2;

/// Encodes an account; `None` as empty. Omits the two hashes that most accounts share.
pub(crate) fn encode_account(account: Option<&Account>) -> Vec<u8> {
    let Some(account) = account else { return Vec::new() };
    let has_code = account.code_hash != EMPTY_CODE_HASH;
    let has_storage = account.storage_root != EMPTY_ROOT_HASH;
    let flags = if has_code { HAS_CODE } else { 0 } | if has_storage { HAS_STORAGE } else { 0 };
    // Longer than 32 bytes for a few accounts of native chains (`docs/spec/chain.md` 8.1).
    let balance = match account.balance_high {
        0 => account.balance.to_be_bytes_trimmed_vec(),
        _ => account.whole_balance().to_be_bytes_trimmed_vec(),
    };
    let mut record = Vec::with_capacity(1 + 10 + 1 + balance.len() + 64);
    record.push(flags);
    put_number(&mut record, account.nonce);
    put_number(&mut record, balance.len() as u64);
    record.extend_from_slice(&balance);
    if has_code {
        record.extend_from_slice(account.code_hash.as_slice());
    }
    if has_storage {
        record.extend_from_slice(account.storage_root.as_slice());
    }
    record
}

/// Decodes an account; `None` for a tombstone.
pub(crate) fn decode_account(record: &[u8]) -> Option<Option<Account>> {
    if record.is_empty() {
        return Some(None);
    }
    let mut input = Input(record);
    let flags = input.byte()?;
    if flags & !(HAS_CODE | HAS_STORAGE) != 0 {
        return None;
    }
    let nonce = input.number()?;
    let length = input.count()?;
    let (balance, balance_high) = split_balance(WholeBalance::try_from_be_slice(input.take(length)?)?);
    let code_hash = if flags & HAS_CODE != 0 { input.word()? } else { EMPTY_CODE_HASH };
    let storage_root = if flags & HAS_STORAGE != 0 { input.word()? } else { EMPTY_ROOT_HASH };
    input.end()?;
    Some(Some(Account { nonce, balance, balance_high, code_hash, storage_root }))
}

/// A slot's value without leading zeros; empty for zero.
pub(crate) fn encode_slot(value: U256) -> Vec<u8> {
    value.to_be_bytes_trimmed_vec()
}

/// A slot's value.
pub(crate) fn decode_slot(record: &[u8]) -> Option<U256> {
    U256::try_from_be_slice(record)
}

/// A header with its total difficulty.
pub(crate) fn encode_header(total_difficulty: U256, header_rlp: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(32 + header_rlp.len());
    record.extend_from_slice(&total_difficulty.to_be_bytes::<32>());
    record.extend_from_slice(header_rlp);
    record
}

/// Total difficulty and header RLP.
pub(crate) fn decode_header(record: &[u8]) -> Option<(U256, &[u8])> {
    let (total_difficulty, rlp) = record.split_first_chunk::<32>()?;
    Some((U256::from_be_bytes(*total_difficulty), rlp))
}

/// Hash and time of a canonical block; with the time a log query need not read headers.
pub(crate) fn encode_canonical(hash: B256, timestamp: u64) -> [u8; 40] {
    let mut record = [0; 40];
    record[..32].copy_from_slice(hash.as_slice());
    record[32..].copy_from_slice(&timestamp.to_be_bytes());
    record
}

/// Hash and time.
pub(crate) fn decode_canonical(record: &[u8]) -> Option<(B256, u64)> {
    let mut input = Input(record);
    let hash = input.word()?;
    let timestamp = u64::from_be_bytes(input.take(8)?.try_into().ok()?);
    input.end()?;
    Some((hash, timestamp))
}

/// The stored parts of a receipt other than its logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiptSummary {
    pub(crate) transaction_type: TransactionType,
    pub(crate) outcome: ReceiptOutcome,
    pub(crate) cumulative_gas_used: u64,
    pub(crate) gas_used: u64,
    pub(crate) log_count: u64,
}

impl ReceiptSummary {
    /// The receipt, joined with its logs.
    pub(crate) fn with_logs(self, logs: Vec<Log>) -> Receipt {
        Receipt {
            transaction_type: self.transaction_type,
            outcome: self.outcome,
            cumulative_gas_used: self.cumulative_gas_used,
            gas_used: self.gas_used,
            logs,
        }
    }
}

/// Receipts without their logs.
pub(crate) fn encode_receipts(receipts: &[Receipt]) -> Vec<u8> {
    let mut record = Vec::with_capacity(10 + 12 * receipts.len());
    put_number(&mut record, receipts.len() as u64);
    for receipt in receipts {
        record.push(receipt.transaction_type as u8);
        match receipt.outcome {
            ReceiptOutcome::Status(succeeded) => record.push(u8::from(succeeded)),
            ReceiptOutcome::StateRoot(root) => {
                record.push(2);
                record.extend_from_slice(root.as_slice());
            }
        }
        put_number(&mut record, receipt.cumulative_gas_used);
        put_number(&mut record, receipt.gas_used);
        put_number(&mut record, receipt.logs.len() as u64);
    }
    record
}

/// Receipts without their logs.
pub(crate) fn decode_receipts(record: &[u8]) -> Option<Vec<ReceiptSummary>> {
    let mut input = Input(record);
    let count = input.count()?;
    let mut receipts = Vec::with_capacity(count);
    for _ in 0..count {
        let transaction_type = match input.byte()? {
            0 => TransactionType::Legacy,
            1 => TransactionType::AccessList,
            2 => TransactionType::DynamicFee,
            3 => TransactionType::Blob,
            4 => TransactionType::SetCode,
            _ => return None,
        };
        let outcome = match input.byte()? {
            0 => ReceiptOutcome::Status(false),
            1 => ReceiptOutcome::Status(true),
            2 => ReceiptOutcome::StateRoot(input.word()?),
            _ => return None,
        };
        receipts.push(ReceiptSummary {
            transaction_type,
            outcome,
            cumulative_gas_used: input.number()?,
            gas_used: input.number()?,
            log_count: input.number()?,
        });
    }
    input.end()?;
    Some(receipts)
}

/// A log with its transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredLog {
    pub(crate) transaction_index: u64,
    pub(crate) transaction_hash: B256,
    pub(crate) log: Log,
}

/// A log with its transaction.
pub(crate) fn encode_log(transaction_index: u64, transaction_hash: B256, log: &Log) -> Vec<u8> {
    let mut record = Vec::with_capacity(3 + 32 + 20 + 1 + 32 * log.topics.len() + log.data.len());
    put_number(&mut record, transaction_index);
    record.extend_from_slice(transaction_hash.as_slice());
    record.extend_from_slice(log.address.as_slice());
    put_number(&mut record, log.topics.len() as u64);
    for topic in &log.topics {
        record.extend_from_slice(topic.as_slice());
    }
    record.extend_from_slice(&log.data);
    record
}

/// A log with its transaction.
pub(crate) fn decode_log(record: &[u8]) -> Option<StoredLog> {
    let mut input = Input(record);
    let transaction_index = input.number()?;
    let transaction_hash = input.word()?;
    let address = input.address()?;
    let count = input.count()?;
    let topics = (0..count).map(|_| input.word()).collect::<Option<Vec<_>>>()?;
    let log = Log { address, topics, data: Bytes::copy_from_slice(input.0) };
    Some(StoredLog { transaction_index, transaction_hash, log })
}

/// Ascending positions, encoded as differences.
pub(crate) fn encode_positions(positions: &[u32]) -> Vec<u8> {
    let mut record = Vec::with_capacity(positions.len());
    let mut last = 0;
    for position in positions {
        put_number(&mut record, u64::from(position - last));
        last = *position;
    }
    record
}

/// Ascending positions.
pub(crate) fn decode_positions(record: &[u8]) -> Option<Vec<u32>> {
    let mut input = Input(record);
    let mut positions = Vec::with_capacity(record.len());
    let mut last = 0_u32;
    while !input.0.is_empty() {
        last = last.checked_add(u32::try_from(input.number()?).ok()?)?;
        positions.push(last);
    }
    Some(positions)
}

/// A transaction's height and position in the block.
pub(crate) fn encode_location(number: u64, index: u32) -> [u8; 12] {
    keys::log(number, index)
}

/// Height and position in the block.
pub(crate) fn decode_location(record: &[u8]) -> Option<(u64, u32)> {
    keys::log_position(record)
}

/// Keys that a block changed, for unwinding and pruning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Accounts.
    pub(crate) accounts: Vec<Address>,
    /// Slots by account, including those of a wiped storage.
    pub(crate) slots: Vec<(Address, Vec<B256>)>,
    /// Keys of the trie nodes that the block's state no longer reaches.
    pub(crate) superseded: Vec<Vec<u8>>,
}

/// Encodes the changed keys of a block.
pub(crate) fn encode_changes(changes: &Changes) -> Vec<u8> {
    let mut record = Vec::new();
    put_number(&mut record, changes.accounts.len() as u64);
    for address in &changes.accounts {
        record.extend_from_slice(address.as_slice());
    }
    put_number(&mut record, changes.slots.len() as u64);
    for (address, slots) in &changes.slots {
        record.extend_from_slice(address.as_slice());
        put_number(&mut record, slots.len() as u64);
        for slot in slots {
            record.extend_from_slice(slot.as_slice());
        }
    }
    put_number(&mut record, changes.superseded.len() as u64);
    for key in &changes.superseded {
        put_number(&mut record, key.len() as u64);
        record.extend_from_slice(key);
    }
    record
}

/// Decodes the changed keys of a block.
pub(crate) fn decode_changes(record: &[u8]) -> Option<Changes> {
    let mut input = Input(record);
    let count = input.count()?;
    let accounts = (0..count).map(|_| input.address()).collect::<Option<Vec<_>>>()?;
    let count = input.count()?;
    let mut slots = Vec::with_capacity(count);
    for _ in 0..count {
        let address = input.address()?;
        let length = input.count()?;
        slots.push((address, (0..length).map(|_| input.word()).collect::<Option<Vec<_>>>()?));
    }
    let count = input.count()?;
    let mut superseded = Vec::with_capacity(count);
    for _ in 0..count {
        let length = input.count()?;
        superseded.push(input.take(length)?.to_vec());
    }
    input.end()?;
    Some(Changes { accounts, slots, superseded })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::bodies;
    use super::*;

    fn word() -> impl Strategy<Value = B256> {
        prop_oneof![Just(B256::ZERO), any::<[u8; 32]>().prop_map(B256::from)]
    }

    fn account() -> impl Strategy<Value = Account> {
        let code_hash = prop_oneof![Just(EMPTY_CODE_HASH), word()];
        let storage_root = prop_oneof![Just(EMPTY_ROOT_HASH), word()];
        let high = prop_oneof![Just(0), any::<u64>()];
        (any::<u64>(), word(), high, code_hash, storage_root).prop_map(
            |(nonce, balance, balance_high, code_hash, storage_root)| {
                let balance = U256::from_be_bytes(balance.0);
                Account { nonce, balance, balance_high, code_hash, storage_root }
            },
        )
    }

    fn log() -> impl Strategy<Value = Log> {
        (any::<[u8; 20]>(), prop::collection::vec(word(), 0..5), prop::collection::vec(any::<u8>(), 0..80))
            .prop_map(|(address, topics, data)| Log { address: address.into(), topics, data: data.into() })
    }

    fn receipt() -> impl Strategy<Value = Receipt> {
        let outcome =
            prop_oneof![any::<bool>().prop_map(ReceiptOutcome::Status), word().prop_map(ReceiptOutcome::StateRoot)];
        let kind = prop_oneof![Just(TransactionType::Legacy), Just(TransactionType::SetCode)];
        (kind, outcome, any::<u64>(), any::<u64>(), prop::collection::vec(log(), 0..3)).prop_map(
            |(transaction_type, outcome, cumulative_gas_used, gas_used, logs)| Receipt {
                transaction_type,
                outcome,
                cumulative_gas_used,
                gas_used,
                logs,
            },
        )
    }

    proptest! {
        #[test]
        fn accounts_round_trip(account in prop::option::of(account())) {
            prop_assert_eq!(decode_account(&encode_account(account.as_ref())), Some(account));
        }

        #[test]
        fn slots_round_trip(value in word()) {
            let value = U256::from_be_bytes(value.0);
            prop_assert_eq!(decode_slot(&encode_slot(value)), Some(value));
        }

        #[test]
        fn logs_round_trip(index in any::<u64>(), hash in word(), log in log()) {
            let stored = StoredLog { transaction_index: index, transaction_hash: hash, log };
            prop_assert_eq!(decode_log(&encode_log(index, hash, &stored.log)), Some(stored));
        }

        #[test]
        fn receipts_round_trip_without_their_logs(receipts in prop::collection::vec(receipt(), 0..6)) {
            let read = decode_receipts(&encode_receipts(&receipts)).unwrap();
            let counts: Vec<u64> = read.iter().map(|receipt| receipt.log_count).collect();
            let joined: Vec<Receipt> =
                read.into_iter().zip(&receipts).map(|(read, receipt)| read.with_logs(receipt.logs.clone())).collect();
            prop_assert_eq!(counts, receipts.iter().map(|receipt| receipt.logs.len() as u64).collect::<Vec<_>>());
            prop_assert_eq!(joined, receipts);
        }

        #[test]
        fn positions_round_trip(positions in prop::collection::btree_set(any::<u32>(), 0..40)) {
            let positions: Vec<u32> = positions.into_iter().collect();
            prop_assert_eq!(decode_positions(&encode_positions(&positions)), Some(positions));
        }

        #[test]
        fn changes_round_trip(
            accounts in prop::collection::vec(any::<[u8; 20]>(), 0..4),
            slots in prop::collection::vec((any::<[u8; 20]>(), prop::collection::vec(word(), 0..4)), 0..4),
            superseded in prop::collection::vec(prop::collection::vec(any::<u8>(), 64..72), 0..4),
        ) {
            let changes = Changes {
                accounts: accounts.into_iter().map(Address::from).collect(),
                slots: slots.into_iter().map(|(address, slots)| (address.into(), slots)).collect(),
                superseded,
            };
            prop_assert_eq!(decode_changes(&encode_changes(&changes)), Some(changes));
        }

        #[test]
        fn damaged_records_are_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _ = (decode_account(&bytes), decode_slot(&bytes), decode_log(&bytes), decode_receipts(&bytes));
            let _ = (decode_positions(&bytes), decode_changes(&bytes), decode_canonical(&bytes));
            let _ = (decode_location(&bytes), bodies::decode_body(&bytes, &bytes), bodies::encode_body(&[], &bytes));
        }
    }
}
