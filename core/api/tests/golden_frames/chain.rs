//! Messages of the chain, the state, fees, the database and events.

use std::sync::Arc;

use tenon_api::{messages::*, *};

use crate::{
    Frames,
    samples::{
        ADDRESS, HASH, account, block, commit, every_payload, located_log, located_transaction, receipt, sealed,
        transaction, wei,
    },
};

pub(crate) fn chain_frames(frames: &mut Frames) {
    let block_id = BlockId::Hash { hash: HASH, require_canonical: true };
    let head = Head { header: sealed(), total_difficulty: wei(9), finalized: Some(BlockNumber(5)), safe: None };
    let (header, total_difficulty, is_canonical) = (sealed(), wei(9), true);
    frames.request(GetHead, Arc::new(head));
    frames.request(GetHeadNumber, BlockNumber(7));
    frames.request(GetHeader { block: BlockId::LATEST }, Some(StoredHeader { header, total_difficulty, is_canonical }));
    frames.request(GetBlock { block: block_id }, Some(StoredBlock { block: block(), total_difficulty, is_canonical }));
    let receipts = Arc::new(vec![receipt(ReceiptOutcome::Status(false))]);
    frames.request(
        GetBlockReceipts { block: BlockId::number(7) },
        Some(BlockReceipts { block: block(), receipts, blob_gas_price: Some(wei(1)) }),
    );
    frames.request(GetTransaction { hash: HASH }, Some(located_transaction()));
    let located_receipt = LocatedReceipt {
        transaction: located_transaction(),
        receipt: receipt(ReceiptOutcome::Status(true)),
        first_log_index: 3,
        blob_gas_price: None,
    };
    frames.request(GetReceipt { hash: HASH }, Some(located_receipt));
    let filter = LogFilter { addresses: vec![ADDRESS], topics: vec![vec![], vec![HASH]] };
    let range = LogRange::Numbers { from: BlockNumber(1), to: BlockNumber(2) };
    frames.request(GetLogs { range, filter }, vec![located_log()]);
    frames.request(GetRaw::TransactionInBlock { block: block_id, index: 1 }, Some(vec![Bytes::from_static(&[1])]));
    let changes = ChainChanges { removed: vec![(BlockNumber(2), HASH)], added: vec![(BlockNumber(2), HASH)] };
    frames.request(GetChainChanges { since: HASH, limit: 10 }, changes);
    let info = ChainInfo { chain_id: 51, network_id: 51, genesis_hash: HASH, profile: Profile::Native };
    frames.request(GetChainInfo, Arc::new(info));
    frames.request(SetHead { number: BlockNumber(3) }, ());
    frames.request(CountTransactions { block: block_id }, Some(600));
    frames.request(GetTransactionInBlock { block: block_id, index: 1 }, Some(located_transaction()));
    let whole = block();
    let outline = BlockOutline {
        header: Arc::new(whole.header.clone()),
        transactions: Arc::new(vec![HASH]),
        ommers: whole.ommers.clone(),
        withdrawals: whole.withdrawals.clone(),
        size: whole.size,
        total_difficulty,
        is_canonical,
    };
    frames.request(GetBlockOutline { block: block_id }, Some(outline));
    let availability =
        Availability { head: (BlockNumber(7), HASH), oldest_state: BlockNumber(2), state_window: Some(128) };
    frames.request(GetAvailability, availability);
    let rules = ForkRules {
        activation: 540,
        fork_id: [1, 2, 3, 4],
        contracts: ContractLevel::Osaka,
        blobs: Some((14, 21, 11_684_671)),
        deposit_contract: Some(ADDRESS),
    };
    let schedule = ForkSchedule { chain_id: 51, current: rules.clone(), next: Some(rules), last: None };
    frames.request(GetForkSchedule, schedule);
}

pub(crate) fn state_frames(frames: &mut Frames) {
    let (address, slot, block) = (ADDRESS, HASH, BlockId::Tag(BlockTag::Finalized));
    frames.request(GetAccount { address, block }, account());
    frames.request(GetCode { address, block }, Bytes::from_static(&[0x60, 0x00]));
    frames.request(GetStorage { address, slot, block }, wei(1));
    let proof = vec![Bytes::from_static(&[0xc0])];
    let storage = vec![StorageProof { slot, value: wei(1), proof: proof.clone() }];
    frames.request(
        GetProof { address, slots: vec![slot], block },
        AccountProof { address, account: account(), proof, storage },
    );
}

pub(crate) fn fee_frames(frames: &mut Frames) {
    frames.request(SuggestTip, wei(1));
    frames.request(SuggestGasPrice, wei(2));
    let history = FeeHistory {
        oldest: BlockNumber(1),
        base_fee_per_gas: vec![wei(1), wei(2)],
        gas_used_ratio: vec![0.5],
        base_fee_per_blob_gas: vec![wei(1), wei(1)],
        blob_gas_used_ratio: vec![0.0],
        reward: Some(vec![vec![wei(3)]]),
    };
    frames.request(GetFeeHistory { block_count: 1, newest: BlockId::LATEST, percentiles: vec![12.5] }, Ok(history));
    let problems = [
        PercentileProblem::TooMany { max: 100 },
        PercentileProblem::OutOfRange(100.5),
        PercentileProblem::NotAscending { index: 1, percentile: 20.0, previous: 50.0 },
    ];
    frames.add("0381 GetFeeHistory problems v2", &problems.to_vec());
    frames.request(GetNextBlockFees, NextBlockFees { base_fee_per_gas: Some(wei(1)), blob_base_fee: None });
}

pub(crate) fn event_frames(frames: &mut Frames) {
    frames.event(BlockCommitted { commit: commit() });
    frames.event(NewHead { header: sealed(), total_difficulty: wei(1), size: 2 });
    frames.event(LogsChanged { logs: Arc::new(vec![located_log()]) });
    let payload = every_payload().remove(2);
    frames.event(TransactionPending { transaction: transaction(payload) });
    frames.event(BlocksUnwound { blocks: Arc::new(vec![block()]) });
}

pub(crate) fn space_frames(frames: &mut Frames) {
    let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
    let usage = SpaceUsage { records: 1, bytes: 2, max_records: 3, max_bytes: 4 };
    frames.request(GetRecords { keys: vec![bytes("a"), bytes("b")] }, vec![Some(bytes("value")), None]);
    let scan = ScanRecords { from: bytes("a"), to: Some(bytes("b")), is_descending: true, limit: 5 };
    frames.request(scan, RecordPage { records: vec![(bytes("a"), bytes("value"))], has_more: true });
    let changes = vec![
        RecordChange::Put { key: bytes("a"), value: bytes("value") },
        RecordChange::Delete { key: bytes("b") },
        RecordChange::DeleteRange { from: bytes("c"), to: bytes("d") },
    ];
    let commit = CommitRecords { expects: vec![(bytes("a"), None), (bytes("b"), Some(bytes("old")))], changes };
    frames.request(commit, CommitOutcome { is_applied: true, usage });
    frames.request(GetSpaceUsage, usage);
    frames.request(PurgeSpace { module: "token".to_owned() }, usage);
}
