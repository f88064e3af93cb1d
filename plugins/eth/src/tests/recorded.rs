//! Converts recorded answers back into the node's types; writing them must reproduce the recording.

use std::sync::Arc;

use serde_json::Value;
use tenon_sdk::prelude::*;

/// A member that serde can read: hashes, addresses, data and 256-bit quantities.
pub(super) fn read<T: serde::de::DeserializeOwned>(object: &Value, member: &str) -> T {
    serde_json::from_value(object[member].clone()).unwrap_or_else(|error| panic!("{member} of {object}: {error}"))
}

pub(super) fn number(object: &Value, member: &str) -> u64 {
    quantity(&object[member])
}

pub(super) fn quantity(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value} is no quantity"));
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("hexadecimal")
}

fn optional<T>(object: &Value, member: &str, read: impl Fn(&Value, &str) -> T) -> Option<T> {
    object.get(member).filter(|value| !value.is_null()).map(|_| read(object, member))
}

pub(super) fn header(block: &Value) -> SealedHeader {
    let header = Header {
        parent_hash: read(block, "parentHash"),
        ommers_hash: read(block, "sha3Uncles"),
        beneficiary: read(block, "miner"),
        state_root: read(block, "stateRoot"),
        transactions_root: read(block, "transactionsRoot"),
        receipts_root: read(block, "receiptsRoot"),
        logs_bloom: read(block, "logsBloom"),
        difficulty: read(block, "difficulty"),
        number: number(block, "number"),
        gas_limit: number(block, "gasLimit"),
        gas_used: number(block, "gasUsed"),
        timestamp: number(block, "timestamp"),
        extra_data: read(block, "extraData"),
        mix_hash: read(block, "mixHash"),
        nonce: read(block, "nonce"),
        native_seal: None,
        base_fee_per_gas: optional(block, "baseFeePerGas", number),
        withdrawals_root: optional(block, "withdrawalsRoot", read),
        blob_gas_used: optional(block, "blobGasUsed", number),
        excess_blob_gas: optional(block, "excessBlobGas", number),
        parent_beacon_block_root: optional(block, "parentBeaconBlockRoot", read),
        requests_hash: optional(block, "requestsHash", read),
    };
    SealedHeader::new_unchecked(header, read(block, "hash"))
}

pub(super) fn block(recorded: &Value) -> StoredBlock {
    let items = recorded["transactions"].as_array().expect("a list");
    let transactions = items.iter().map(|item| Arc::new(transaction_or_hash(item))).collect();
    let senders = items.iter().map(|item| optional(item, "from", read).unwrap_or_default()).collect();
    let withdrawals = recorded.get("withdrawals").and_then(Value::as_array);
    let withdrawal = |item: &Value| Withdrawal {
        index: number(item, "index"),
        validator_index: number(item, "validatorIndex"),
        address: read(item, "address"),
        amount: number(item, "amount"),
    };
    let block = Block {
        header: header(recorded),
        transactions,
        ommers: Vec::new(),
        withdrawals: withdrawals.map(|items| items.iter().map(withdrawal).collect()),
        size: number(recorded, "size"),
    };
    let block = Arc::new(RecoveredBlock { block, senders });
    StoredBlock { block, total_difficulty: U256::from(7), is_canonical: true }
}

fn transaction_or_hash(item: &Value) -> Transaction {
    if item.is_object() {
        return transaction(item);
    }
    let hash = serde_json::from_value(item.clone()).expect("a hash");
    Transaction { hash, ..plain_transaction() }
}

pub(super) fn plain_transaction() -> Transaction {
    Transaction {
        hash: B256::ZERO,
        chain_id: None,
        nonce: 0,
        gas_limit: 0,
        to: Some(Address::ZERO),
        value: U256::ZERO,
        input: Bytes::new(),
        payload: TransactionPayload::Legacy { gas_price: U256::ZERO },
        signature: TransactionSignature { v: 27, r: U256::ZERO, s: U256::ZERO },
    }
}

pub(super) fn transaction(item: &Value) -> Transaction {
    Transaction {
        hash: read(item, "hash"),
        chain_id: optional(item, "chainId", number),
        nonce: number(item, "nonce"),
        gas_limit: number(item, "gas"),
        to: optional(item, "to", read),
        value: read(item, "value"),
        input: read(item, "input"),
        payload: payload(item),
        signature: TransactionSignature { v: number(item, "v"), r: read(item, "r"), s: read(item, "s") },
    }
}

fn payload(item: &Value) -> TransactionPayload {
    let access_list = || item["accessList"].as_array().expect("a list").iter().map(access_list_item).collect();
    let (max_fee_per_gas, max_priority_fee_per_gas) = match number(item, "type") {
        0 => return TransactionPayload::Legacy { gas_price: read(item, "gasPrice") },
        1 => return TransactionPayload::AccessList { gas_price: read(item, "gasPrice"), access_list: access_list() },
        _ => (read(item, "maxFeePerGas"), read(item, "maxPriorityFeePerGas")),
    };
    match number(item, "type") {
        2 => TransactionPayload::DynamicFee { max_fee_per_gas, max_priority_fee_per_gas, access_list: access_list() },
        3 => TransactionPayload::Blob {
            max_fee_per_gas,
            max_priority_fee_per_gas,
            access_list: access_list(),
            max_fee_per_blob_gas: read(item, "maxFeePerBlobGas"),
            blob_versioned_hashes: read(item, "blobVersionedHashes"),
        },
        _ => TransactionPayload::SetCode {
            max_fee_per_gas,
            max_priority_fee_per_gas,
            access_list: access_list(),
            authorization_list: item["authorizationList"]
                .as_array()
                .expect("a list")
                .iter()
                .map(authorization)
                .collect(),
        },
    }
}

pub(super) fn access_list_item(item: &Value) -> AccessListItem {
    AccessListItem { address: read(item, "address"), storage_keys: read(item, "storageKeys") }
}

fn authorization(item: &Value) -> SignedAuthorization {
    SignedAuthorization {
        chain_id: read(item, "chainId"),
        address: read(item, "address"),
        nonce: number(item, "nonce"),
        y_parity: number(item, "yParity") as u8,
        r: read(item, "r"),
        s: read(item, "s"),
    }
}

/// The position of a recorded transaction or receipt. The base fee is chosen so that the price is right.
pub(super) fn located(item: &Value) -> LocatedTransaction {
    let transaction = transaction(item);
    let price: U256 = read(item, "gasPrice");
    let base_fee = price.saturating_sub(transaction.max_priority_fee_per_gas());
    let header = Header {
        number: number(item, "blockNumber"),
        timestamp: number(item, "blockTimestamp"),
        base_fee_per_gas: (number(item, "type") > 1).then(|| base_fee.saturating_to()),
        ..Header::default()
    };
    LocatedTransaction {
        transaction: RecoveredTransaction { transaction: Arc::new(transaction), sender: read(item, "from") },
        header: Arc::new(SealedHeader::new_unchecked(header, read(item, "blockHash"))),
        index: number(item, "transactionIndex"),
    }
}

pub(super) fn log(item: &Value) -> LocatedLog {
    LocatedLog {
        log: Log { address: read(item, "address"), topics: read(item, "topics"), data: read(item, "data") },
        block_number: BlockNumber(number(item, "blockNumber")),
        block_hash: read(item, "blockHash"),
        block_timestamp: number(item, "blockTimestamp"),
        transaction_hash: read(item, "transactionHash"),
        transaction_index: number(item, "transactionIndex"),
        log_index: number(item, "logIndex"),
        removed: read(item, "removed"),
    }
}

/// A recorded receipt and a transaction that produces it; data that receipts do not show is made up.
pub(super) fn receipt(item: &Value) -> LocatedReceipt {
    let logs: Vec<LocatedLog> = item["logs"].as_array().expect("a list").iter().map(log).collect();
    let transaction = receipt_transaction(item);
    let header = Header {
        number: number(item, "blockNumber"),
        timestamp: logs.first().map_or(0, |log| log.block_timestamp),
        ..Header::default()
    };
    let outcome = match item.get("root") {
        Some(_) => ReceiptOutcome::StateRoot(read(item, "root")),
        None => ReceiptOutcome::Status(number(item, "status") == 1),
    };
    let first_log_index = logs.first().map_or(0, |log| log.log_index);
    LocatedReceipt {
        receipt: Receipt {
            transaction_type: transaction.transaction_type(),
            outcome,
            cumulative_gas_used: number(item, "cumulativeGasUsed"),
            gas_used: number(item, "gasUsed"),
            logs: logs.into_iter().map(|log| log.log).collect(),
        },
        transaction: LocatedTransaction {
            transaction: RecoveredTransaction { transaction: Arc::new(transaction), sender: read(item, "from") },
            header: Arc::new(SealedHeader::new_unchecked(header, read(item, "blockHash"))),
            index: number(item, "transactionIndex"),
        },
        first_log_index,
        blob_gas_price: optional(item, "blobGasPrice", read),
    }
}

fn receipt_transaction(item: &Value) -> Transaction {
    let price: U256 = read(item, "effectiveGasPrice");
    let (max_fee_per_gas, max_priority_fee_per_gas, access_list) = (price, price, Vec::new());
    let payload = match number(item, "type") {
        0 => TransactionPayload::Legacy { gas_price: price },
        1 => TransactionPayload::AccessList { gas_price: price, access_list },
        2 => TransactionPayload::DynamicFee { max_fee_per_gas, max_priority_fee_per_gas, access_list },
        3 => TransactionPayload::Blob {
            max_fee_per_gas,
            max_priority_fee_per_gas,
            access_list,
            max_fee_per_blob_gas: price,
            blob_versioned_hashes: vec![B256::ZERO; (number(item, "blobGasUsed") >> 17) as usize],
        },
        _ => TransactionPayload::SetCode {
            max_fee_per_gas,
            max_priority_fee_per_gas,
            access_list,
            authorization_list: Vec::new(),
        },
    };
    let nonce = match optional::<Address>(item, "contractAddress", read) {
        Some(created) => {
            let sender: Address = read(item, "from");
            (0..10_000).find(|nonce| sender.create(*nonce) == created).expect("an early nonce of the sender")
        }
        None => 0,
    };
    let (hash, to) = (read(item, "transactionHash"), optional(item, "to", read));
    Transaction { hash, nonce, to, payload, ..plain_transaction() }
}

pub(super) fn block_receipts(items: &[Value]) -> BlockReceipts {
    let receipts: Vec<LocatedReceipt> = items.iter().map(receipt).collect();
    let header = receipts.first().map(|receipt| receipt.transaction.header.as_ref().clone());
    let block = Block {
        header: header.unwrap_or_else(|| SealedHeader::new_unchecked(Header::default(), B256::ZERO)),
        transactions: receipts.iter().map(|receipt| receipt.transaction.transaction.transaction.clone()).collect(),
        ommers: Vec::new(),
        withdrawals: None,
        size: 0,
    };
    let senders = receipts.iter().map(|receipt| receipt.transaction.transaction.sender).collect();
    let blob_gas_price = receipts.first().and_then(|receipt| receipt.blob_gas_price);
    BlockReceipts {
        block: Arc::new(RecoveredBlock { block, senders }),
        receipts: Arc::new(receipts.into_iter().map(|receipt| receipt.receipt).collect()),
        blob_gas_price,
    }
}

pub(super) fn proof(item: &Value) -> AccountProof {
    let storage = |slot: &Value| StorageProof {
        slot: B256::from(read::<U256>(slot, "key")),
        value: read(slot, "value"),
        proof: read(slot, "proof"),
    };
    AccountProof {
        address: read(item, "address"),
        account: Account {
            nonce: number(item, "nonce"),
            balance: read(item, "balance"),
            balance_high: 0,
            code_hash: read(item, "codeHash"),
            storage_root: read(item, "storageHash"),
        },
        proof: read(item, "accountProof"),
        storage: item["storageProof"].as_array().expect("a list").iter().map(storage).collect(),
    }
}

pub(super) fn fee_history(item: &Value) -> FeeHistory {
    FeeHistory {
        oldest: BlockNumber(number(item, "oldestBlock")),
        base_fee_per_gas: read(item, "baseFeePerGas"),
        gas_used_ratio: read(item, "gasUsedRatio"),
        base_fee_per_blob_gas: read(item, "baseFeePerBlobGas"),
        blob_gas_used_ratio: read(item, "blobGasUsedRatio"),
        reward: optional(item, "reward", read),
    }
}
