//! Sample values that several families of messages share.

use std::sync::Arc;

use tenon_api::{messages::*, *};

pub(crate) const ADDRESS: Address = Address::repeat_byte(0xa1);
pub(crate) const HASH: B256 = B256::repeat_byte(0xb2);

pub(crate) fn wei(number: u64) -> U256 {
    U256::from(number)
}

pub(crate) fn header() -> Header {
    Header {
        parent_hash: HASH,
        ommers_hash: EMPTY_OMMERS_HASH,
        beneficiary: ADDRESS,
        difficulty: wei(2),
        number: 7,
        gas_limit: 30_000_000,
        gas_used: 21_000,
        timestamp: 1_700_000_000,
        extra_data: Bytes::from_static(b"extra"),
        native_seal: Some(NativeSeal { validator: Bytes::from_static(&[1, 2, 3]), ..NativeSeal::default() }),
        base_fee_per_gas: Some(1_000_000_000),
        withdrawals_root: Some(EMPTY_ROOT_HASH),
        ..Header::default()
    }
}

pub(crate) fn sealed() -> Arc<SealedHeader> {
    Arc::new(SealedHeader::new_unchecked(header(), HASH))
}

pub(crate) fn transaction(payload: TransactionPayload) -> RecoveredTransaction {
    let transaction = Transaction {
        hash: HASH,
        chain_id: Some(51),
        nonce: 3,
        gas_limit: 21_000,
        to: Some(ADDRESS),
        value: wei(1_000_000),
        input: Bytes::from_static(&[0xca, 0xfe]),
        payload,
        signature: TransactionSignature { v: 137, r: wei(5), s: wei(6) },
    };
    RecoveredTransaction { transaction: Arc::new(transaction), sender: ADDRESS }
}

pub(crate) fn every_payload() -> Vec<TransactionPayload> {
    let access_list = vec![AccessListItem { address: ADDRESS, storage_keys: vec![HASH] }];
    let (max_fee_per_gas, max_priority_fee_per_gas, gas_price) = (wei(30), wei(2), wei(20));
    let authorization =
        SignedAuthorization { chain_id: wei(1), address: ADDRESS, nonce: 1, y_parity: 1, r: wei(7), s: wei(8) };
    vec![
        TransactionPayload::Legacy { gas_price },
        TransactionPayload::AccessList { gas_price, access_list: access_list.clone() },
        TransactionPayload::DynamicFee { max_fee_per_gas, max_priority_fee_per_gas, access_list: access_list.clone() },
        TransactionPayload::Blob {
            max_fee_per_gas,
            max_priority_fee_per_gas,
            access_list: access_list.clone(),
            max_fee_per_blob_gas: wei(9),
            blob_versioned_hashes: vec![HASH],
        },
        TransactionPayload::SetCode {
            max_fee_per_gas,
            max_priority_fee_per_gas,
            access_list,
            authorization_list: vec![authorization],
        },
    ]
}

pub(crate) fn block() -> Arc<RecoveredBlock> {
    let transactions: Vec<_> = every_payload().into_iter().map(|payload| transaction(payload).transaction).collect();
    let withdrawal = Withdrawal { index: 1, validator_index: 2, address: ADDRESS, amount: 3 };
    Arc::new(RecoveredBlock {
        senders: vec![ADDRESS; transactions.len()],
        block: Block {
            header: SealedHeader::new_unchecked(header(), HASH),
            transactions,
            ommers: vec![header()],
            withdrawals: Some(vec![withdrawal]),
            size: 1234,
        },
    })
}

pub(crate) fn log() -> Log {
    Log { address: ADDRESS, topics: vec![HASH], data: Bytes::from_static(&[1]) }
}

pub(crate) fn located_log() -> LocatedLog {
    LocatedLog {
        log: log(),
        block_number: BlockNumber(7),
        block_hash: HASH,
        block_timestamp: 1_700_000_000,
        transaction_hash: HASH,
        transaction_index: 1,
        log_index: 2,
        removed: false,
    }
}

pub(crate) fn receipt(outcome: ReceiptOutcome) -> Receipt {
    Receipt {
        transaction_type: TransactionType::DynamicFee,
        outcome,
        cumulative_gas_used: 42_000,
        gas_used: 21_000,
        logs: vec![log()],
    }
}

pub(crate) fn located_transaction() -> LocatedTransaction {
    let legacy = TransactionPayload::Legacy { gas_price: wei(20) };
    LocatedTransaction { transaction: transaction(legacy), header: sealed(), index: 4 }
}

pub(crate) fn account() -> Account {
    Account { nonce: 1, balance: wei(10), ..Account::default() }
}

pub(crate) fn call_request() -> CallRequest {
    CallRequest { from: Some(ADDRESS), to: Some(ADDRESS), gas: Some(9), value: Some(wei(1)), ..CallRequest::default() }
}

pub(crate) fn overrides() -> Vec<(Address, AccountOverride)> {
    vec![(ADDRESS, AccountOverride { nonce: Some(1), state_diff: Some(vec![(HASH, HASH)]), ..Default::default() })]
}

pub(crate) fn commit() -> Arc<BlockCommit> {
    let position = TriePosition { owner: Some(HASH), path: vec![1, 15] };
    let change = AccountChange {
        address: ADDRESS,
        account: Some(account()),
        storage_wiped: true,
        slots: vec![SlotChange { slot: HASH, value: wei(1) }],
    };
    Arc::new(BlockCommit {
        block: block(),
        total_difficulty: wei(99),
        receipts: Arc::new(vec![receipt(ReceiptOutcome::Status(true)), receipt(ReceiptOutcome::StateRoot(HASH))]),
        accounts: vec![change],
        codes: vec![(HASH, Bytes::from_static(&[0x60]))],
        trie_nodes: vec![TrieNodeWrite { position: position.clone(), hash: HASH, rlp: Bytes::from_static(&[0xc0]) }],
        superseded_trie_nodes: vec![(position, HASH)],
    })
}
